"""Privacy and what was measured, for a report, from the ledger, the release and the fit alone."""

import math
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigmech.functions.index import WHOLE_ROW
from trigmech.measurement.released import Release
from trigmech.privacy.budget import shown_up
from trigmech.privacy.ledger import Ledger
from trigmech.reconstruction.result import Reconstruction
from trigmech.report.figures import number
from trigmech.results import Synthesis

Row = tuple[Any, ...]

FALSE_ALARMS = 0.05
LIBRARIES = ("trigmech", "numpy", "scipy", "opendp", "dp-accounting", "matplotlib")
# What the page calls the kinds of functions, in its order.
KINDS = {"column": "one number, degrees up to {}", "pair": "products of two numbers",
         "triple": "products of three numbers", "frequency": "frequencies of categories, special and missing values",
         "two-way table": "tables of two columns of categories",
         "number by category": "products of a category and a number", "other": "other products",
         WHOLE_ROW: "functions of whole rows"}
LAWS = {"laplace": "Laplace", "gaussian": "Gaussian", "linf": "l∞ (linf)"}


@dataclass(frozen=True)
class Table:
    """A table of a page.

    Parameters
    ----------
    caption : str
    head : sequence of str
    rows : sequence of sequences of str, int or float
        Numbers become text: counts in full, others by :func:`number`.
    numeric : sequence of int, optional
        Which columns hold numbers; default: all but the first.
    links : sequence of str
        The place on the page that each row's first cell points to, if any do.
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Any]]
    numeric: Sequence[int] | None = None
    links: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", [[_cell(value) for value in row] for row in self.rows])
        if self.numeric is None:
            object.__setattr__(self, "numeric", range(1, len(self.head)))


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, Integral) else number(value)


NO_TABLE = Table("", (), ())


def guarantee(ledger: Ledger, n: int) -> dict[str, Any]:
    """Return what the page shows of what is proved, and of what it means for one person."""
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
    probabilities = ((factor + delta) / (1.0 + factor),
                     min(factor * FALSE_ALARMS + delta, 1.0 - (1.0 - FALSE_ALARMS - delta) / factor, 1.0))
    # Rounded up, as all that is proved.
    guess, power = (f"{math.ceil(1000.0 * share - 1e-9) / 10.0:.1f} %" for share in probabilities)
    return said | {"epsilon": shown, "guess": guess, "power": power, "odds": upward(factor, 3),
                   "delta_is_zero": delta == 0.0, "is_one": shown == "1"}


def upward(value: float, digits: int = 4) -> str:
    """Return a number as text, rounded up, so that what is printed is no less than what is proved."""
    return number(float(shown_up(value, digits)), digits)


def ledger_table(ledger: Ledger) -> Table:
    """Return the charges."""
    return Table("Charges", ("Purpose", "Noise", "Scale", "Sensitivity", "Norm", "Times", "Proof"),
                 [(c.purpose, LAWS.get(c.law, c.law), *(("—", "—") if c.norm == "none" else
                                                          (number(c.scale, 4), number(c.sensitivity, 4))),
                   "each number" if c.norm == "each" else c.norm, f"{c.count:,}", c.proof) for c in ledger.charges],
                 (2, 3, 5))


def measured(synthesis: Synthesis) -> dict[str, Any]:
    """Return what was measured, how the points were made of it, and by what."""
    release = synthesis.release
    rows, total = [*_moments(release), *_axes(release, synthesis.ledger)], release.features.K
    return {"n": f"{release.n:,}", "functions": f"{total:,}",
            "table": Table("Moments and their noise", ("Kind", "Number", "Least noise", "Greatest noise"), rows),
            "fit": Table("How the points were made", ("What", "Value"), _fitted(synthesis.fit), ()),
            "versions": Table("Versions", ("Program", *(("Made the release",) if synthesis.versions else ()),
                                           "Wrote this page"), _versions(synthesis.versions), ())}


def _moments(release: Release) -> list[Row]:
    index = release.index
    kinds = np.where(np.isin(index.kinds, [*KINDS, "constant"]), index.kinds, "other")
    degree = index.highest[index.of_kind("column")].max(initial=0)
    return [row for kind, name in KINDS.items()
            for row in _row(name.format(degree), release.deviations[kinds == kind])]


def _axes(release: Release, ledger: Ledger) -> list[Row]:
    if release.mean is None or release.axes is None:
        return []
    deviations = {c.purpose: c.scale * (math.sqrt(2.0) if c.law == "laplace" else 1.0) for c in ledger.charges}
    return [row for name, count, purpose in (("mean of the rows", release.mean.size, "mean"),
                                             ("principal axes, at each iteration", release.axes.images.size, "axes"))
            for row in _row(name, np.full(count, deviations.get(purpose, math.nan)))]


def _row(name: str, scales: NDArray[np.float64]) -> list[Row]:
    return [(name, len(scales), scales.min(), scales.max())] if len(scales) else []


def _fitted(fit: Reconstruction) -> list[Row]:
    end: list[Row] = [("Status", f"{fit.status} after {fit.iterations:,} iterations"), ("Seconds", fit.seconds)]
    if fit.misfit is None:
        return [("Method", "weights on given points, by a linear program"), ("Objective", fit.objective),
                ("Certified gap", fit.gap), *end]
    return [("Method", "points that move until their means meet the released ones"),
            ("Mean squared deviation from what was fitted, in units of the noise", fit.misfit),
            ("Moments below the noise", "shrunk first" if fit.shrunk else "taken as released"),
            ("Dependence between columns", f"{'some' if fit.dependent else 'no'} pair's is above the noise"), *end]


def _versions(made: dict[str, str]) -> list[Row]:
    here = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            here[name] = version(name)
        except PackageNotFoundError:
            here[name] = "not installed"
    if not made:
        return list(here.items())
    return [(name, str(made.get(name, "—")), here.get(name, "—")) for name in dict.fromkeys([*made, *here])]
