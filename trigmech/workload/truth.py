"""The exact answers of a private table, computed once for the evaluation of many releases."""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from trigmech._arrays import Array
from trigmech.distribution import Distribution
from trigmech.errors import InputError
from trigmech.workload.family import Workload
from trigmech.workload.mixture import Mixture, as_column


class Truth:
    """The exact answers to a workload on one table, with which any number of distributions are compared.

    Parameters
    ----------
    workload : Workload
        Or anything else with ``answers(points, weights)``; a mixture's members are asked one by one.
    table : array_like (n, d), private
        Points of the cube.

    Raises
    ------
    InputError
        If there are no answers, or the table is not one that the workload answers from.

    Notes
    -----
    Privacy: private, as all that it returns: for simulations, and for the holder of the table alone.
    Cost: that of the exact answers, once. Only if the workload's class has an ``errors`` of its own, the table is held
    instead and answered from each time; of :class:`Smooth` and :class:`Mixture` it is not.
    """

    def __init__(self, workload: Workload, table: ArrayLike) -> None:
        if not callable(getattr(workload, "answers", None)):
            raise InputError(f"{type(workload).__name__} has no answers(): it cannot be compared with a table")
        self._name = type(workload).__name__
        errors = getattr(workload, "errors", None)
        # The class that defines it, unless the object answers for another one.
        defined = getattr(errors, "__func__", None) if getattr(errors, "__self__", None) is workload else None
        self._errors: Callable[[Distribution], Array]
        if isinstance(workload, Mixture) and defined is Mixture.errors:
            self._errors = partial(_of_members, [Truth(member, table) for member in workload.workloads])
        elif errors is None or defined is Workload.errors:
            self._errors = partial(_of_answers, workload, workload.answers(table))
        else:
            self._errors = partial(workload.errors, table)

    def errors(self, distribution: Distribution) -> Array:
        """Return the errors of the distribution's answers, private: exactly ``workload.errors(table, distribution)``.

        Notes
        -----
        Cost: that of the answers on the distribution's points.
        """
        return self._errors(distribution)

    def __repr__(self) -> str:
        return f"Truth({self._name}: exact answers, private)"


def _of_members(truths: list[Truth], distribution: Distribution) -> Array:
    return as_column([truth.errors(distribution) for truth in truths])


def _of_answers(workload: Workload, exact: Array, distribution: Distribution) -> Array:
    difference = workload.answers(distribution.points, distribution.weights) - exact
    return np.abs(difference) if not hasattr(workload, "error_of") else workload.error_of(difference)
