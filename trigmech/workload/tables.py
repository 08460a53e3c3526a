"""Queries of a table's own cells and ranges, for which :class:`trigmech.TableMechanism` plans."""

from dataclasses import dataclass

from trigmech._validate import check_integers
from trigmech.errors import InputError, shown


@dataclass(frozen=True)
class Marginals:
    """All k-way contingency tables: frequencies of combinations of values of k columns.

    Parameters
    ----------
    k : int
        From 1 to 3.
    crossed : str, optional
        The name of a column with which all of these tables are crossed: k-way tables of the others, for each of its
        values.

    Raises
    ------
    InputError
        If k is out of range, or crossed is no name.
    """

    k: int = 2
    crossed: str | None = None

    def __post_init__(self) -> None:
        _check_ways(self.k)
        if self.crossed is not None and not (isinstance(self.crossed, str) and self.crossed):
            raise InputError(f"crossed must be the name of a column, not {shown(self.crossed)}")


@dataclass(frozen=True)
class Ranges:
    """Frequencies of rows in ranges of k columns: intervals of numbers, sets of categories.

    Parameters
    ----------
    k : int
        From 1 to 3.

    Raises
    ------
    InputError
        If k is out of range.
    """

    k: int = 1

    def __post_init__(self) -> None:
        _check_ways(self.k)


def _check_ways(k: int) -> None:
    check_integers(1, k=k)
    if k > 3:
        raise InputError(f"k must be at most 3, not {k}")
