"""Private bounds: what they find, what they cost, and how far one row can move what is released."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

from trigmech.domain import Domain
from trigmech.errors import BudgetError, InputError
from trigmech.measurement import private_bounds as bounds
from trigmech.measurement.private_bounds import histogram_charges, rest_of, with_private_bounds
from trigmech.measurement.release import Session
from trigmech.measurement.rows import PrivateRows, PrivateTable
from trigmech.measurement.sums import Chunk
from trigmech.privacy.accounting import epsilon_of, gaussian_mu
from trigmech.privacy.budget import Budget
from trigmech.privacy.ledger import Ledger
from trigmech.privacy.noise import SimulatedNoise, SystemNoise
from trigmech.schema.schema import Column, Schema

SCHEMA = Schema([Column("income", private_bounds=True, special=(0,), missing="keep"),
                 Column("known", 0, 1),
                 Column("year", private_bounds=True, kind="integer"),
                 Column("size", private_bounds=True, transform="log")])


def table(n, rng):
    income = np.where(rng.random(n) < 0.3, 0.0, rng.normal(30_000, 8_000, n))
    income[::50] = np.nan
    return pd.DataFrame({"income": income, "known": 0.5, "year": rng.integers(1950, 2021, n),
                         "size": np.exp(rng.normal(-3.0, 0.5, n))})


def raw(frame):
    return PrivateTable(frame, SCHEMA).raw(SCHEMA)


def found(frame, budget, seed=0, share=0.2):
    ledger = Ledger(budget, simulated=True)
    noise = SimulatedNoise(np.random.default_rng(seed))
    return with_private_bounds(raw(frame), SCHEMA, histogram_charges(budget, share, 3),
                               Session(ledger, noise)), ledger


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_bounds_hold_nearly_all_values_and_little_else(delta):
    frame = table(20_000, np.random.default_rng(1))
    schema, ledger = found(frame, Budget(1.0, delta))
    assert schema.private_bounds == ()
    income, known, year, size = schema.columns
    assert (known.lower, known.upper) == (0, 1)
    for column, values in ((income, frame["income"][frame["income"] != 0].dropna()), (year, frame["year"]),
                           (size, frame["size"])):
        inside = ((values >= column.lower) & (values <= column.upper)).mean()
        assert inside > 0.95
        middle = values.quantile(0.995) - values.quantile(0.005)
        assert column.upper - column.lower < 3.0 * middle
    assert size.lower > 0
    assert isinstance(year.lower, int | float)
    assert float(year.lower).is_integer()
    assert [charge.purpose for charge in ledger.charges] == ["bounds, coarse", "bounds, fine"]


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("share", [0.05, 0.5])
def test_the_two_shares_spend_the_budget_and_no_more(delta, share):
    budget = Budget(0.8, delta)
    _, ledger = found(table(200, np.random.default_rng(2)), budget, share=share)
    rest = rest_of(budget, share)
    both = [*ledger.charges, bounds.histogram_charge("all the rest", rest, 1.0, 1)]
    assert 0.999 * budget.epsilon < epsilon_of(both, delta) <= budget.epsilon


def test_one_row_moves_the_counts_as_far_as_is_charged_for():
    rng = np.random.default_rng(3)
    frame = table(30, rng).astype(float)
    edges = [bounds._coarse_edges(positive) for positive in (False, False, True)]
    columns = ["income", "year", "size"]

    def counts(one):
        asked = bounds.CellCounts(tuple(columns), (0, 1, 2), ((), (), ()), tuple(edges))
        chunk = Chunk(one[columns].to_numpy(dtype=float), Domain(3))
        return np.concatenate(asked.parted(PrivateRows(len(one), Domain(3), lambda: (chunk,)).sums(asked)))

    worst = 0.0
    for _ in range(100):
        other = frame.copy()
        other.loc[7, columns] = np.exp(rng.uniform(-40, 40, 3)) * rng.choice([-1, 1], 3)
        moved = counts(other) - counts(frame)
        worst = max(worst, np.abs(moved).sum())
        assert np.linalg.norm(moved) <= bounds.histogram_charge("x", Budget(1.0, 1e-6), 0.1, 3).sensitivity + 1e-12
    assert worst == bounds.histogram_charge("x", Budget(1.0), 0.1, 3).sensitivity


class Silent(Session):
    """A session that charges nobody and adds no noise."""

    def __init__(self):
        pass

    def charge(self, *charges):
        pass

    def draw(self, values, charge):
        return values


def without_noise(values, **options):
    schema = Schema([Column("x", private_bounds=True, **options)])
    raw = PrivateTable(pd.DataFrame({"x": values}), schema).raw(schema)
    (column,) = with_private_bounds(raw, schema, histogram_charges(Budget(10.0), 0.5, 1), Silent()).columns
    return column.lower, column.upper


@pytest.mark.parametrize(("values", "coarse"), [
    ([5.0], (2.0, 16.0)), ([5.0, 40.0], (2.0, 128.0)), ([-5.0], (-16.0, -2.0)), ([-5.0, 5.0], (-16.0, 16.0)),
    # Cells go from one power of two to the next, the first and the last hold all that is further out.
    ([4.0], (2.0, 16.0)), ([1e30], (2.0**48, 2.0**50)), ([0.0], (-2.0**-49, 2.0**-49))])
def test_without_noise_bounds_are_the_full_cells_and_a_quarter_of_their_width_on_either_side(values, coarse):
    low, high = coarse
    edges = [low + (high - low) * k / 64 for k in range(65)]
    cells = [max(k for k in range(64) if edges[k] <= min(value, edges[63])) for value in values]
    first, last = edges[min(cells)], edges[max(cells) + 1]
    margin = 0.25 * (last - first)
    found = without_noise(np.repeat(values, 1_000))
    # The coarse range is not left, of which the rest has too few rows.
    assert found == pytest.approx((max(first - margin, low), min(last + margin, high)), rel=1e-12, abs=0.0)


def test_a_wide_run_of_cells_is_no_news_where_a_single_one_has_its_rows():
    charge = bounds.histogram_charge("x", Budget(1.0), 0.5, 1)
    counts = np.zeros(64)
    counts[37] = 1e6
    assert bounds._significant([counts], charge, 16, Silent()) == [(37, 37)]
    # Many rows in cells that alone have few are seen together: half of what one cell would need, in each of eight.
    alone = bounds._threshold(charge, 64 * 5)
    counts[:] = 0.0
    counts[16:24] = 0.9 * alone
    assert bounds._significant([counts], charge, 16, Silent()) == [(16, 23)]
    assert bounds._significant([np.ones(64), counts], charge, 16, Silent())[1] == (16, 23)
    # If no run has enough, it is the fullest cell.
    counts[:] = 0.0
    counts[5] = 0.5 * alone
    assert bounds._significant([counts], charge, 1, Silent()) == [(5, 5)]


@pytest.mark.parametrize("runs", [1, 64, 100_000])
@pytest.mark.parametrize("width", [1, 2, 16])
def test_thresholds_are_what_noise_of_so_many_cells_exceeds_with_1_percent_among_all_runs(width, runs):
    normal, laplace = (bounds.histogram_charge("x", Budget(1.0, delta), 0.5, 1) for delta in (1e-6, 0.0))
    chance = 0.01 / runs
    exceeded = bounds._threshold(normal, runs, width) / normal.scale
    assert stats.norm.sf(exceeded / math.sqrt(width)) == pytest.approx(chance, rel=1e-9, abs=0.0)
    exceeded = bounds._threshold(laplace, runs, width) / laplace.scale
    if width == 1:
        assert stats.laplace.sf(exceeded) == pytest.approx(chance, rel=1e-9, abs=0.0)
    else:
        # Chernoff's bound at its best, and hardly above it.
        best = optimize.minimize_scalar(lambda s: (math.log(1.0 / chance) - width * math.log1p(-s * s)) / s,
                                        bounds=(1e-3, 1.0 - 1e-9), method="bounded").fun
        assert best * (1.0 - 1e-6) <= exceeded <= best * 1.01


def test_empty_cells_seldom_pass_the_threshold():
    # No value at all: a cell that passes is a false one. 400 runs, 1 % each: above 16 with a probability below 1e-5.
    runs, passed = 400, 0
    rng = np.random.default_rng(4)
    for delta in (0.0, 1e-6):
        charge = bounds.histogram_charge("x", Budget(1.0, delta), 0.1, 1)
        threshold = bounds._threshold(charge, 200)
        noise = SimulatedNoise(rng)
        draw = noise.gaussian if delta else noise.laplace
        passed += sum(bool((draw(np.zeros(200), charge.scale) > threshold).any()) for _ in range(runs // 2))
        # The planted fault, a threshold without regard to the number of cells.
        assert (draw(np.zeros(200_000), charge.scale) > bounds._threshold(charge, 1)).sum() > 1_000
    assert passed <= 16


def test_too_few_rows_still_give_bounds_and_extreme_values_are_counted_in_the_last_cells():
    schema, _ = found(pd.DataFrame({"income": [1e300, -1e300, np.inf], "known": 0.0, "year": 1.0, "size": -5.0}),
                      Budget(0.01))
    assert all(np.isfinite([column.lower, column.upper]).all() for column in schema.columns)


@pytest.mark.parametrize("values", [(1950.3, 2021.7), (-7.9, -2.2), (0.1, 0.4), (-0.2, 0.2), (3.0, 3.0), (1e-6, 2e-6)])
@pytest.mark.parametrize("transform", [None, "log"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_bounds_of_integers_are_those_of_numbers_rounded_outwards(values, transform, delta):
    rows = np.linspace(*values, 5_000)
    both = []
    for kind in ("continuous", "integer"):
        schema = Schema([Column("x", private_bounds=True, kind=kind, transform=transform)])
        budget = Budget(1.0, delta)
        session = Session(Ledger(budget, simulated=True), SimulatedNoise(np.random.default_rng(1)))
        raw = PrivateTable(pd.DataFrame({"x": rows}), schema).raw(schema)
        (column,) = with_private_bounds(raw, schema, histogram_charges(budget, 0.2, 1), session).columns
        both.append((column.lower, column.upper))
    (low, high), (lower, upper) = both
    # The least that has a logarithm is 1, and one integer alone is no range.
    least = max(np.floor(low), 1) if transform == "log" else np.floor(low)
    assert (lower, upper) == (least, max(np.ceil(high), least + 1))
    assert all(isinstance(bound, int) or float(bound).is_integer() for bound in (lower, upper))


def test_real_noise_is_certified_and_charged_first():
    frame = table(2_000, np.random.default_rng(5))
    ledger = Ledger(Budget(1.0, 1e-6))
    session = Session(ledger, SystemNoise())
    schema = with_private_bounds(raw(frame), SCHEMA, histogram_charges(ledger.budget, 0.2, 3), session)
    assert schema.private_bounds == ()
    with pytest.raises(BudgetError, match="over the budget"):
        with_private_bounds(raw(frame), SCHEMA, histogram_charges(Budget(100.0, 1e-6), 0.2, 3), session)


def test_absent_and_textual_columns_are_refused_by_name():
    frame = table(10, np.random.default_rng(6))
    with pytest.raises(InputError, match="'year'"):
        found(frame.drop(columns="year"), Budget(1.0))
    with pytest.raises(InputError, match="'size'"):
        found(frame.assign(size="secret"), Budget(1.0))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize(("epsilon", "delta"), [(1e-6, 1e-3), (1e-4, 1e-3), (1e-4, 0.3), (1e-3, 1e-9), (0.3, 1e-6)])
def test_what_is_left_has_its_share_of_any_gaussian_budget(epsilon, delta, share):
    # Where epsilon is next to nothing, delta alone pays for what is left, and what is left is told by a smaller delta.
    budget = Budget(epsilon, delta)
    ratio = gaussian_mu(rest_of(budget, share)) / (gaussian_mu(budget) * np.sqrt(1.0 - share))
    assert 1.0 - 1e-4 < ratio <= 1.0


def test_too_little_to_be_a_budget_is_refused():
    with pytest.raises(BudgetError, match="leaves too little"):
        rest_of(Budget(1e-6, 1e-15), 0.99)
    for share in (0.0, 1.0, -1.0, float("nan"), "half"):
        with pytest.raises(InputError, match="between 0 and 1"):
            rest_of(Budget(1.0), share)
