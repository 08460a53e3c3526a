"""The settings with which the command line runs an experiment."""

from dataclasses import dataclass
from typing import Any

NUMBERS = frozenset({"CRM", "CSN", "CTG", "PKS", "WDBC"})  # the thesis's sets that can be had


class LeftOut(Exception):  # noqa: N818 - it says what happened
    """An experiment cannot be run with the data sets at hand; the message says why."""


@dataclass(frozen=True)
class Asked:
    """The settings of a run. An experiment uses those that apply to it, and its own values in place of empty ones."""

    names: tuple[str, ...] = ()  # data sets of numbers at hand: the thesis's, or those asked for
    sets: tuple[str, ...] = ()  # data sets of the protocols, or paths
    methods: tuple[str, ...] = ()  # of scoreboards
    epsilons: tuple[float, ...] = ()
    seeds: int = 0  # releases at each budget
    minutes: float = 30.0  # time limit of a scoreboard's table
    quick: bool = False  # fewer repetitions, queries or sizes
    jobs: int = 1  # processes; times compare at 1
    cells: tuple[int, ...] = (16, 64)  # that scoreboards cut numbers into for rivals that want categories
    finished: bool = False  # of scoreboards: run nothing
    ours: bool = False  # run this package's lines of the committed results again, and keep the other lines
    size: Any = None  # of a declared experiment: the number of queries, rows or the like, which a quick run lowers
    inputs: tuple[Any, ...] = ()  # of a declared experiment: the samples of its data sets that are at hand
    older: frozenset[str] = frozenset()  # of a page: the mechanisms that other code than today's has run

    def stem(self, name: str, whole: bool = True) -> str:
        """Return the name of result files; those of a quick run, or not of the whole, replace no other's."""
        return name + "_quick" * self.quick + "_partial" * (not whole)

    @property
    def of_thesis(self) -> bool:
        """Whether all data sets of the thesis are asked for, which are the whole of an experiment on numbers."""
        return set(self.names) >= NUMBERS
