"""trigmech: differentially private synthetic data that answers smooth queries accurately."""

import logging
from typing import Any

from trigmech import _memory as _memory  # First: it looks whether there is room for the others.
from trigmech import workload
from trigmech._optional import need
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
from trigmech.mechanisms.base import Design, Mechanism
from trigmech.mechanisms.moment import MomentMechanism, minimax
from trigmech.mechanisms.table import TableMechanism
from trigmech.parts.part import Part
from trigmech.parts.shares import Share, release_shares, share_part
from trigmech.parts.steps import measure_part, release_parts
from trigmech.privacy.budget import Budget, Charge
from trigmech.privacy.ledger import Ledger
from trigmech.privacy.ledger_file import LedgerFile
from trigmech.reconstruction.l1 import Fit, fit_l1
from trigmech.report.preview import preview
from trigmech.results import NoisyMoments, Synthesis, load
from trigmech.schema.schema import Column, Schema
from trigmech.schema.toml import load_schema
from trigmech.synthesis import design, generate, measure, reconstruct, synthesize
from trigmech.thesis.mechanisms import ImprovedTrigI, ImprovedTrigII, TrigI, TrigII

__version__ = "0.1.0"

# Steps are logged for handlers that a program adds, and nowhere else.
logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = [
    "Budget",
    "BudgetError",
    "Charge",
    "ChebyshevBasis",
    "Column",
    "Design",
    "Distribution",
    "Features",
    "Fit",
    "FitWarning",
    "Grid",
    "ImprovedTrigI",
    "ImprovedTrigII",
    "InputError",
    "Ledger",
    "LedgerFile",
    "Mechanism",
    "MomentMechanism",
    "NoisyMoments",
    "Part",
    "Schema",
    "Share",
    "SolverError",
    "Synthesis",
    "Synthesizer",
    "TableMechanism",
    "TrigI",
    "TrigII",
    "TrigmechError",
    "UncertainChargeError",
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


def __getattr__(name: str) -> Any:
    # scikit-learn takes a second to import, which only those should wait for who use the estimator.
    if name == "Synthesizer":
        need("estimator", "the estimator")
        from trigmech.synthesizer import Synthesizer

        return Synthesizer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
