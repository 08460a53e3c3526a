"""trigmech: differentially private synthetic data that answers smooth queries accurately."""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from trigmech import _memory as _memory  # First: it looks whether there is room for the others.

if TYPE_CHECKING:
    from trigmech import workload
    from trigmech.acceptance.criteria import Criterion
    from trigmech.acceptance.decision import accept
    from trigmech.distribution import Distribution
    from trigmech.errors import (
        BudgetError,
        FitWarning,
        InputError,
        SolverError,
        TrigmechError,
        UncertainChargeError,
    )
    from trigmech.functions.chebyshev import ChebyshevBasis
    from trigmech.functions.features import Features
    from trigmech.functions.grid import Grid
    from trigmech.inference.estimate import Estimate, combine
    from trigmech.inference.imputations import Imputations
    from trigmech.inference.weighted import WeightedTable
    from trigmech.inspection.check import check
    from trigmech.mechanisms.adaptive import AdaptiveMechanism, Measure, Select
    from trigmech.mechanisms.base import Design, Mechanism
    from trigmech.mechanisms.moment import MomentMechanism, minimax
    from trigmech.mechanisms.table import TableMechanism
    from trigmech.noisy_moments import NoisyMoments
    from trigmech.parts.part import Part
    from trigmech.parts.shares import Share, release_shares, share_part
    from trigmech.parts.steps import measure_part, release_parts
    from trigmech.privacy.budget import Budget, Charge
    from trigmech.privacy.ledger import Ledger
    from trigmech.privacy.ledger_file import LedgerFile
    from trigmech.reconstruction.l1 import Fit, fit_l1
    from trigmech.report.advised import advise
    from trigmech.report.comparison import compare
    from trigmech.report.preview import preview
    from trigmech.results import Synthesis, load
    from trigmech.schema.derived import Derived
    from trigmech.schema.schema import Column, Schema
    from trigmech.schema.toml import load_schema
    from trigmech.synthesis import design, generate, measure, reconstruct, synthesize
    from trigmech.synthesizer import Synthesizer
    from trigmech.thesis.mechanisms import ImprovedTrigI, ImprovedTrigII, TrigI, TrigII

__version__ = "0.2.0"

# Steps are logged for handlers that a program adds, and nowhere else.
logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = [
    "AdaptiveMechanism",
    "Budget",
    "BudgetError",
    "Charge",
    "ChebyshevBasis",
    "Column",
    "Criterion",
    "Derived",
    "Design",
    "Distribution",
    "Estimate",
    "Features",
    "Fit",
    "FitWarning",
    "Grid",
    "ImprovedTrigI",
    "ImprovedTrigII",
    "Imputations",
    "InputError",
    "Ledger",
    "LedgerFile",
    "Measure",
    "Mechanism",
    "MomentMechanism",
    "NoisyMoments",
    "Part",
    "Schema",
    "Select",
    "Share",
    "SolverError",
    "Synthesis",
    "Synthesizer",
    "TableMechanism",
    "TrigI",
    "TrigII",
    "TrigmechError",
    "UncertainChargeError",
    "WeightedTable",
    "accept",
    "advise",
    "check",
    "combine",
    "compare",
    "design",
    "fit_l1",
    "generate",
    "load",
    "load_schema",
    "measure",
    "measure_part",
    "minimax",
    "preview",
    "reconstruct",
    "release_parts",
    "release_shares",
    "share_part",
    "synthesize",
    "workload",
]

# Where each public name lives. It is imported at its first use, so that nobody waits for unused names.
_HOMES = {
    "acceptance.criteria": "Criterion",
    "acceptance.decision": "accept",
    "distribution": "Distribution",
    "errors": "BudgetError FitWarning InputError SolverError TrigmechError UncertainChargeError",
    "functions.chebyshev": "ChebyshevBasis",
    "functions.features": "Features",
    "functions.grid": "Grid",
    "inference.estimate": "Estimate combine",
    "inference.imputations": "Imputations",
    "inference.weighted": "WeightedTable",
    "inspection.check": "check",
    "mechanisms.adaptive": "AdaptiveMechanism Measure Select",
    "mechanisms.base": "Design Mechanism",
    "mechanisms.moment": "MomentMechanism minimax",
    "mechanisms.table": "TableMechanism",
    "parts.part": "Part",
    "parts.shares": "Share release_shares share_part",
    "parts.steps": "measure_part release_parts",
    "privacy.budget": "Budget Charge",
    "privacy.ledger": "Ledger",
    "privacy.ledger_file": "LedgerFile",
    "reconstruction.l1": "Fit fit_l1",
    "report.advised": "advise",
    "report.comparison": "compare",
    "report.preview": "preview",
    "noisy_moments": "NoisyMoments",
    "results": "Synthesis load",
    "schema.derived": "Derived",
    "schema.schema": "Column Schema",
    "schema.toml": "load_schema",
    "synthesis": "design generate measure reconstruct synthesize",
    "synthesizer": "Synthesizer",
    "thesis.mechanisms": "ImprovedTrigI ImprovedTrigII TrigI TrigII",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name == "Synthesizer":
        from trigmech._optional import need

        need("estimator", "the estimator")
    if name == "workload":
        return import_module("trigmech.workload")
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"trigmech.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
