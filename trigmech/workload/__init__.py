"""Query families, their exact answers, and how much each product of Chebyshev polynomials matters to them."""

from trigmech.workload.family import Family, Workload
from trigmech.workload.gaussian import GaussianKernels, PairKernels
from trigmech.workload.mixture import Mixture
from trigmech.workload.mixture import members_of as members_of
from trigmech.workload.polynomials import Polynomials, SecondMoments, Smooth
from trigmech.workload.tables import Marginals, Ranges
from trigmech.workload.truth import Truth

__all__ = ["Family", "GaussianKernels", "Marginals", "Mixture", "PairKernels", "Polynomials", "Ranges", "SecondMoments",
           "Smooth", "Truth", "Workload"]
