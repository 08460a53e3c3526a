"""Tables made by a release, scored on the field's public protocols: the data sets, the measures, the experiment."""

from experiments.protocols.data import NAMES, load, test_rows
from experiments.protocols.scores import score

__all__ = ["NAMES", "load", "score", "test_rows"]
