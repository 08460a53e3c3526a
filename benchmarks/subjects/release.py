"""A whole release, from a table in memory to a distribution, against the times that the thesis reports."""

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.core import Alternative, Row, Settings, Subject, compare
from experiments.datasets import DatasetMissing, cube, load
from trigmech import Budget, ImprovedTrigI, ImprovedTrigII, MomentMechanism, Schema, Synthesis, synthesize
from trigmech.mechanisms.base import Mechanism
from trigmech.thesis.calibration import Calibration
from trigmech.thesis.mechanisms import EllipsoidMechanism

THESIS_SECONDS = {  # tables 3.2 (pure epsilon) and 3.3
    "ImprovedTrigI": {"CRM": 2.5, "CSN": 1.7, "CTG": 0.7, "PKS": 0.7, "WDBC": 0.7},
    "ImprovedTrigII": {"CRM": 6.5, "CSN": 7.2, "CTG": 10.5, "PKS": 5.4, "WDBC": 10.7}}


def mechanisms(name: str) -> Iterator[tuple[str, Mechanism]]:
    """Yield the mechanisms to time, each after its name: the thesis's in four ways, and the package's own."""
    kind: type[EllipsoidMechanism]
    kind, functions = (ImprovedTrigI, 50) if name == "ImprovedTrigI" else (ImprovedTrigII, 102)
    calibrations: tuple[Calibration, ...] = ("published", "rigorous")
    for calibration in calibrations:
        yield f"thesis's sizes, {calibration}", kind(
            n_candidates=10_000, n_basis=functions, rank=2, iterations=10, ties="last", scale=7.0,
            calibration=calibration)
        yield f"defaults, {calibration}", kind(calibration=calibration)
    yield "MomentMechanism", MomentMechanism()


def rows(settings: Settings) -> Iterator[Row]:
    """Yield the rows of this subject."""
    for mechanism, times in THESIS_SECONDS.items():
        budget = Budget(1.0, 0.0) if mechanism == "ImprovedTrigI" else Budget(1.0, 1e-3)
        # A slow mechanism has no warm-up of its own, and must not be timed while it compiles.
        _run(np.random.default_rng(0).uniform(-1.0, 1.0, (50, 2)), budget, MomentMechanism())
        for data, thesis in times.items():
            if settings.quick and data not in ("CTG", "WDBC"):
                continue
            case = f"{mechanism}, {data}, thesis {thesis} s"
            try:
                X = cube(load(data, progress=False))
            except DatasetMissing:
                yield Row(case=case, alternative="", seconds=None, fastest=None, rounds=0, rate=None, ratio=None,
                          difference=None, peak_mb=None, note="data set missing, left out")
                continue
            # The package's own takes up to half a minute where the thesis's takes a fraction of a second.
            alternatives = [Alternative(name, partial(_run, X, budget, way), slow=isinstance(way, MomentMechanism))
                            for name, way in mechanisms(mechanism)]
            for row in compare(settings, case, alternatives, describe=_describe):
                if row["seconds"] is not None:
                    row["ratio"] = thesis / row["seconds"]
                yield row


def _run(X: NDArray[np.float64], budget: Budget, mechanism: Mechanism) -> Synthesis:
    return synthesize(X, Schema.cube(X.shape[1]), budget, mechanism, np.random.default_rng(0))


def _describe(result: Synthesis) -> str:
    count, fit = result.release.K, result.fit
    if fit.objective is None or fit.gap is None:
        return f"K={count}, {len(fit.points)} points, misfit {fit.misfit:.2g}"
    return f"K={count}, relative gap {fit.gap / max(fit.objective, 1e-300):.0e}"


SUBJECT = Subject(
    "Release",
    "`synthesize` from a table in memory to the distribution, with simulated noise (hardened noise costs 20 "
    "microseconds a number and 2 seconds once). \"thesis's sizes\": 10 000 candidates, 50 functions for "
    "ImprovedTrigI and 102 for ImprovedTrigII, rank 2, 10 iterations, ties \"last\", scale 7. \"MomentMechanism\": "
    "the package's default at the same budget, without a warm-up; its cost is planning and moving points. Ratio: the "
    "thesis's time in the case, on its own machine, over ours.",
    "", rows)
