"""What a report says of privacy and of what was measured, from the ledger, the release and the fit alone."""

import math
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigmech.functions.index import WHOLE_ROW
from trigmech.measurement.released import Release
from trigmech.privacy.budget import shown_down, shown_up
from trigmech.privacy.ledger import TIGHT, Ledger
from trigmech.reconstruction.result import Reconstruction
from trigmech.report.figures import number
from trigmech.results import Synthesis

FALSE_ALARMS = 0.05
LIBRARIES = ("trigmech", "numpy", "scipy", "opendp", "dp-accounting", "matplotlib")
LAWS = {"laplace": "Laplace", "gaussian": "Gaussian", "linf": "l∞ (linf)"}


@dataclass(frozen=True)
class Table:
    """A table of a page.

    Parameters
    ----------
    caption : str
    head : sequence of str
    rows : sequence of sequences of str
    numeric : sequence of int
        Which columns hold numbers.
    links : sequence of str
        The place on the page that each row's first cell points to, if any do.
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: Sequence[int] = ()
    links: Sequence[str] = ()


NO_TABLE = Table("", (), ())


def guarantee(ledger: Ledger, n: int) -> dict[str, Any]:
    """Return what the page says of what is proved, and of what it means for one person."""
    epsilon, delta = ledger.proved_epsilon, ledger.budget.delta
    claim = ledger.claim
    said: dict[str, Any] = {"n": f"{n:,}", "finite": math.isfinite(epsilon), "delta": upward(delta, 6),
                            "claim": None if claim is None else str(claim), "comparison": "", "warning": ""}
    if not said["finite"]:
        return said | {"proved": "no differential privacy at all"}
    shown = upward(epsilon)
    said["proved"] = f"({shown}, {said['delta']})-differential privacy"
    if claim is not None:
        more = "more than is proved" if claim.epsilon < epsilon else "no more than is proved"
        said["comparison"] = f": the claim is {more}"
    if delta >= 1.0 / n:
        said["warning"] = (f"δ is not below 1/n = {number(1.0 / n)}: a program that publishes one row, drawn at "
                           "random, would satisfy such a δ too.")
    factor = math.exp(min(epsilon, 700.0))
    guess = (factor + delta) / (1.0 + factor)
    power = min(factor * FALSE_ALARMS + delta, 1.0 - (1.0 - FALSE_ALARMS - delta) / factor, 1.0)
    return said | {"epsilon": shown, "interval": interval(ledger), "guess": percent_up(guess),
                   "power": percent_up(power), "odds": upward(factor, 3), "delta_is_zero": delta == 0.0,
                   "is_one": shown == "1"}


def interval(ledger: Ledger) -> str:
    """Return how far what is proved can be from the least epsilon of the ledger's noise, in a sentence."""
    low, high = ledger.proved_interval
    if low == high:
        return "This ε is exact for the noise in the ledger: no accounting of it proves less."
    if low >= high * (1.0 - TIGHT):
        return "This ε is exact, to four digits, for the noise in the ledger: no accounting of it proves less."
    return (f"This ε is an upper bound. An exact accounting of the noise in the ledger could prove no less than "
            f"{downward(low)}.")


def upward(value: float, digits: int = 4) -> str:
    """Return a number as text, rounded up, so that what is printed is no less than what is proved."""
    return number(float(shown_up(value, digits)), digits)


def downward(value: float, digits: int = 4) -> str:
    """Return a number as text, rounded down."""
    return number(float(shown_down(value, digits)), digits)


def percent_up(share: float) -> str:
    """Return a probability in percent, rounded up to one decimal."""
    return f"{math.ceil(1000.0 * share - 1e-9) / 10.0:.1f} %"


def ledger_table(ledger: Ledger) -> Table:
    """Return the charges."""
    return Table("Charges", ("Purpose", "Noise", "Scale", "Sensitivity", "Norm", "Times", "Proof"),
                 [(c.purpose, LAWS.get(c.law, c.law), *(("—", "—") if c.law == "other" else
                                                          (number(c.scale, 4), number(c.sensitivity, 4))),
                   "each number" if c.norm == "each" else c.norm, f"{c.count:,}", c.proof) for c in ledger.charges],
                 (2, 3, 5))


def measured(synthesis: Synthesis) -> dict[str, Any]:
    """Return what was measured, how the points were made of it, and by what."""
    release = synthesis.release
    rows, total = _moments(release, synthesis.ledger), release.features.K
    versions = getattr(synthesis, "versions", None) or {}
    return {"n": f"{release.n:,}", "functions": f"{total:,}",
            "table": Table("Moments and their noise", ("Kind", "Number", "Least noise", "Greatest noise"), rows,
                           (1, 2, 3)),
            "fit": Table("How the points were made", ("What", "Value"), _fitted(synthesis.fit)),
            "versions": Table("Versions", ("Program", "Made the release", "Wrote this page") if versions else
                              ("Program", "Wrote this page"), _versions(versions))}


def _moments(release: Release, ledger: Ledger) -> list[tuple[str, ...]]:
    index = release.index
    degree = int(index.degrees[:, list(index.domain.numbers)].max(initial=0))
    kinds = {"column": f"one number, degrees up to {degree}", "pair": "products of two numbers",
             "triple": "products of three numbers",
             "frequency": "frequencies of categories, special and missing values",
             "two-way table": "tables of two columns of categories",
             "number by category": "products of a category and a number"}
    rows = [row for kind, name in kinds.items() for row in _row(name, release.deviations[index.of_kind(kind)])]
    known = np.isin(index.kinds, [*kinds, "constant", WHOLE_ROW])
    rows += _row("other products", release.deviations[~known])
    rows += _row("functions of whole rows", release.deviations[index.of_kind(WHOLE_ROW)])
    deviations = {c.purpose: c.scale * (math.sqrt(2.0) if c.law == "laplace" else 1.0) for c in ledger.charges}
    for name, numbers, purpose in (("mean of the rows", release.mean, "mean"),
                                   ("principal axes, at each iteration",
                                    None if release.axes is None else release.axes.images, "axes")):
        if numbers is not None:
            rows += _row(name, np.full(numbers.size, deviations.get(purpose, math.nan)))
    return rows


def _row(name: str, scales: NDArray[np.float64]) -> list[tuple[str, ...]]:
    if not len(scales):
        return []
    return [(name, f"{len(scales):,}", number(float(scales.min())), number(float(scales.max())))]


def _fitted(fit: Reconstruction) -> list[tuple[str, str]]:
    rows = [("Method", "points that move until their means meet the released ones" if fit.misfit is not None
             else "weights on given points, by a linear program")]
    if fit.misfit is not None:
        rows += [("Mean squared deviation from what was fitted, in units of the noise", number(fit.misfit)),
                 ("Moments that the noise has swallowed", "shrunk first" if fit.shrunk else "taken as released"),
                 ("Dependence between columns", "some pair's is above the noise" if fit.dependent
                  else "no pair's is above the noise")]
    rows += [(name, number(value)) for name, value in (("Objective", fit.objective), ("Certified gap", fit.gap))
             if value is not None]
    return [*rows, ("Status", f"{fit.status} after {fit.iterations:,} iterations"), ("Seconds", number(fit.seconds))]


def _versions(made: dict[str, str]) -> list[tuple[str, ...]]:
    here = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            here[name] = version(name)
        except PackageNotFoundError:
            here[name] = "not installed"
    if not made:
        return list(here.items())
    return [(name, str(made.get(name, "—")), here.get(name, "—")) for name in dict.fromkeys([*made, *here])]
