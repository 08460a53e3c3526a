"""What the command line asks of an experiment."""

from dataclasses import dataclass

NUMBERS = frozenset({"CRM", "CSN", "CTG", "PKS", "WDBC"})  # the thesis's sets that can be had


class LeftOut(Exception):  # noqa: N818 - it says what happened
    """An experiment cannot be run with the data sets at hand; the message says why."""


@dataclass(frozen=True)
class Asked:
    """What an experiment is asked for; each takes of these what it knows.

    Parameters
    ----------
    names : tuple of str
        Data sets of numbers that are at hand: the thesis's, or those asked for.
    sets : tuple of str
        Data sets of the protocols, or paths; all if empty.
    methods : tuple of str
        Of scoreboards; all if empty.
    epsilons : tuple of float
        The experiment's own if empty.
    seeds : int
        Releases at each budget; the experiment's own if 0.
    minutes : float
        Time limit of a scoreboard's table.
    quick : bool
        Fewer repetitions, queries or sizes.
    jobs : int
        Processes. Times compare at 1.
    cells : tuple of int
        That scoreboards cut numbers into for rivals that want categories.
    finished : bool
        Of scoreboards: run nothing.
    ours : bool
        Run again what the committed results have of this package, and keep their other lines.
    """

    names: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    epsilons: tuple[float, ...] = ()
    seeds: int = 0
    minutes: float = 30.0
    quick: bool = False
    jobs: int = 1
    cells: tuple[int, ...] = (16, 64)
    finished: bool = False
    ours: bool = False

    def stem(self, name: str, whole: bool = True) -> str:
        """Return the name of result files; those of a quick run, or not of the whole, replace no other's."""
        return name + "_quick" * self.quick + "_partial" * (not whole)

    def stem_of_numbers(self, name: str) -> str:
        """Return the same for an experiment on data sets of numbers, of which the thesis's are the whole."""
        return self.stem(name, set(self.names) >= NUMBERS)
