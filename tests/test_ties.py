"""Cuts of columns whose masses are equal: no rounding error, which differs between processors, may decide them."""

import numpy as np
import pytest

from trigmech.domain import Domain, OneHotGroup
from trigmech.functions.partition import columns_of
from trigmech.functions.released_column import ReleasedColumn
from trigmech.planning.dependence import cells_of
from trigmech.reconstruction.columns import LARGEST_PLACE, _smooth_places, places_of

COUNTS = [3, 6, 7, 10, 12, 24, 48, 64, 96, 100, 128, 192, 256, 300]
# The column is even, has equal masses of two sizes, or has intervals with as much as a position may hold.
KINDS = ["even", "steps", "limit"]


def masses(count, kind):
    first = np.arange(count) < count // 3
    if kind == "limit":
        return np.where(first, LARGEST_PLACE, (1.0 - LARGEST_PLACE * first.sum()) / max((~first).sum(), 1))
    mass = np.where(first, 2.0 if kind == "steps" else 1.0, 1.0)
    return mass / mass.sum()


def rounded(mass):
    """The masses, and eight times the same with other rounding errors: of at most four units in the last place."""
    rng = np.random.default_rng(len(mass))
    return [mass, *(mass * (1.0 + 2.0**-52 * rng.integers(-4, 5, len(mass))) for _ in range(8))]


def alike(made):
    return all(np.array_equal(made[0], each) for each in made[1:])


def number(mass):
    return ReleasedColumn(columns_of(Domain(1))[0].cut(np.linspace(-1.0, 1.0, len(mass) + 1)), mass, 1e-3)


def category(mass):
    domain = Domain(len(mass), groups=(OneHotGroup(tuple(range(len(mass))), True),))
    return ReleasedColumn(columns_of(domain)[0], mass, 1e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", COUNTS)
def test_positions_of_equal_masses_do_not_depend_on_rounding(count, kind):
    measured = np.linspace(-1.0, 1.0, count + 1)
    for total in (1.0, 0.75, 0.5):
        made = rounded(total * masses(count, kind))
        assert alike([places_of(measured, np.array([0, count]), each)[0] for each in made])
        assert alike([_smooth_places(measured, each, 1e-6)[0] for each in made])


@pytest.mark.daily(4)  # Each kind of masses.
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("wanted", [2, 3, 4, 8, 16])
def test_cells_of_equal_masses_do_not_depend_on_rounding(count, kind, wanted):
    for most in (None, wanted):
        for column in (number, category):
            assert alike([cells_of(column(each), wanted, 1e-9, most) for each in rounded(masses(count, kind))])
