"""The default mechanism of a release, chosen by its workload."""


from trigmech.errors import InputError, shown
from trigmech.measurement.released import Release
from trigmech.mechanisms.base import Mechanism
from trigmech.mechanisms.moment import MomentMechanism
from trigmech.mechanisms.table import TableMechanism
from trigmech.workload.family import Family
from trigmech.workload.tables import Marginals, Ranges


def default_mechanism(workload: Family | Marginals | Ranges | None = None) -> Mechanism:
    """Return the mechanism for a workload: moments for smooth queries; tables for cells, ranges, or no workload.

    Raises an InputError if the object is not a workload.
    """
    if workload is None or isinstance(workload, Marginals | Ranges):
        return TableMechanism(workload=workload)
    if isinstance(workload, Family):
        return MomentMechanism(workload=workload)
    raise InputError("workload must be a query family such as GaussianKernels, or Marginals or Ranges, not "
                     f"{shown(workload)}")


def mechanism_of(release: Release) -> Mechanism:
    """Return a mechanism that makes points of a release."""
    return TableMechanism() if release.columns else MomentMechanism()
