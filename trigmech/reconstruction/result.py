"""The result of each method that fits a distribution to released moments."""

from dataclasses import dataclass

from trigmech._arrays import Array
from trigmech.distribution import Distribution

# A reduced chi-square above this is a miss: nine tenths of the points' squared errors, in units of the noise, are then
# the fit's own and not the noise's. At epsilon 0.1 and 1 it was below 0.7 on the thesis's sets and on simulated tables
# of 300 to 30,000 rows, with categories too; at epsilon 10 below 1 but for large tables that were indeed missed.
MISSED = 10.0
NOT_SOLVED = "not solved"


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """A distribution that was made from released moments, and how well it explains them. Public.

    Parameters
    ----------
    distribution : Distribution
        Weighted points of the cube.
    target : ndarray (K,)
        The fitted numbers: the released moments, after :mod:`trigmech.reconstruction.shrinkage` if ``shrunk``.
    status : str
        How the fit ended.
    iterations : int
    seconds : float
    misfit : float, optional
        Reduced chi-square: the mean over the fitted functions of ((mean of the points - target) / cost)^2, divided by
        its expectation under the noise alone; 1 is the noise level. Costs are the deviations of the noise, unless
        others are given. None for linear programs, which have an objective instead.
    shrunk : bool
        Whether the target is the released moments after shrinkage, or these as they are.
    dependent : bool
        Whether any pair's released moments passed the noise test of the copula.
    objective, gap : float, optional
        For a linear program: the L1 distance of the moments, and a bound of its distance to the least possible.
    rows : int, optional
        Default size of a sample; None: as many as the table had.
    """

    distribution: Distribution
    target: Array
    status: str
    iterations: int
    seconds: float
    misfit: float | None = None
    shrunk: bool = False
    dependent: bool = False
    objective: float | None = None
    gap: float | None = None
    rows: int | None = None

    @property
    def points(self) -> Array:
        """The points (m, d) of the distribution."""
        return self.distribution.points

    @property
    def weights(self) -> Array:
        """Their weights (m,)."""
        return self.distribution.weights

    @property
    def missed(self) -> bool:
        """Whether the points are much further from the released numbers than their noise explains."""
        return self.misfit is not None and not self.misfit <= MISSED

    @property
    def quality(self) -> str:
        """The reduced chi-square or the objective, in words."""
        return f"objective={self.objective:.3g}" if self.misfit is None else f"misfit={self.misfit:.3g}"

    @property
    def warnings(self) -> tuple[str, ...]:
        """The faults of the points, one sentence each; usually empty."""
        if self.missed:
            away = float(self.misfit or 0.0) ** 0.5
            return (f"the points do not fit the released numbers: their root mean square distance is {away:.3g} "
                    f"standard deviations of the noise (up to {MISSED**0.5:.2g} is acceptable). Error bars include "
                    "this distance, and the released numbers themselves are as exact as planned",)
        if self.status == NOT_SOLVED:
            return ("the linear program had no solution, so all candidates have the same weight, and the points do not "
                    "use the released means",)
        return ()

    def __repr__(self) -> str:
        return (f"Reconstruction(m={len(self.points)}, {self.quality}, {self.status} after {self.iterations} "
                f"iterations and {self.seconds:.1f} s)")
