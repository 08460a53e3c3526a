"""trigmech: differentially private synthetic data that answers smooth queries accurately."""

from trigmech import workload
from trigmech.basis import ChebyshevBasis
from trigmech.budget import Budget, Charge, Ledger
from trigmech.distribution import Distribution
from trigmech.errors import BudgetError, InputError, SolverError, TrigmechError
from trigmech.fit import Fit, fit_l1
from trigmech.grid import Grid
from trigmech.mechanisms import ImprovedTrigI, ImprovedTrigII, TrigI, TrigII
from trigmech.moment_mechanism import MomentMechanism, minimax
from trigmech.schema import Column, Schema
from trigmech.synthesis import Synthesis, synthesize

__version__ = "0.1.0"

__all__ = [
    "Budget",
    "BudgetError",
    "Charge",
    "ChebyshevBasis",
    "Column",
    "Distribution",
    "Fit",
    "Grid",
    "ImprovedTrigI",
    "ImprovedTrigII",
    "InputError",
    "Ledger",
    "MomentMechanism",
    "Schema",
    "SolverError",
    "Synthesis",
    "TrigI",
    "TrigII",
    "TrigmechError",
    "fit_l1",
    "minimax",
    "synthesize",
    "workload",
]
