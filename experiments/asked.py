"""What the command line asks of an experiment."""

from dataclasses import dataclass
from typing import Any

NUMBERS = frozenset({"CRM", "CSN", "CTG", "PKS", "WDBC"})  # the thesis's sets that can be had


class LeftOut(Exception):  # noqa: N818 - it says what happened
    """An experiment cannot be run with the data sets at hand; the message says why."""


@dataclass(frozen=True)
class Asked:
    """What an experiment is asked for; each takes of these what it knows. An empty one is the experiment's own."""

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
    ours: bool = False  # run again what the committed results have of this package, and keep their other lines
    size: Any = None  # of a declared experiment: queries, rows or what else a quick run has less of
    inputs: tuple[Any, ...] = ()  # of a declared experiment: the samples of its data sets that are at hand
    older: frozenset[str] = frozenset()  # of a page: the mechanisms that other code than today's has run

    def stem(self, name: str, whole: bool = True) -> str:
        """Return the name of result files; those of a quick run, or not of the whole, replace no other's."""
        return name + "_quick" * self.quick + "_partial" * (not whole)

    @property
    def of_thesis(self) -> bool:
        """Whether all data sets of the thesis are asked for, which are the whole of an experiment on numbers."""
        return set(self.names) >= NUMBERS
