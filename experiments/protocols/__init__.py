"""The field's public protocols: the data sets, the measures, and the scoreboards of this package and its rivals."""

from experiments.protocols.data import SETS, find, load

__all__ = ["SETS", "find", "load"]
