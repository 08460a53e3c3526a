"""Rules of two parts: what breaks one part alone is refused, and what breaks none is not."""

import numpy as np
import pytest

import trigmech as tm
from trigmech.domain import Domain, OneHotGroup
from trigmech.errors import InputError
from trigmech.mechanisms.adaptive import check_query_of_own

DOMAIN = Domain(3, [OneHotGroup((1, 2), True)])


class Query:
    """Two functions of the first coordinate, encoded as three numbers; each option is another one's fault."""

    shape, size, kind = (2,), 3, "two functions"

    def __init__(self, **faults):
        self.faults = faults

    def evaluate(self, points):
        one = 0.5 * points[:, :1] + self.faults.get("add", 0.0)
        others = self.faults.get("others", 0.0) * (len(points) > 1)
        values = np.hstack([one, one * self.faults.get("times", 1.0) + others])
        return self.faults.get("as", np.array)(values[:, : self.faults.get("values", 2)])

    def diameter(self, norm):
        return self.faults.get(norm, 2.0)

    def encode(self, means):
        return np.zeros(self.faults.get("encoded", 3))

    def decode(self, vector):
        return np.zeros(self.faults.get("decoded", 2))

    @property
    def columns(self):
        return self.faults.get("columns", (0, 1))

    def names(self, coordinates):
        return self.faults.get("names", list)(coordinates[:2])


@pytest.mark.parametrize(("faults", "said"), [
    ({"values": 1}, r"must return 2 values for each point: at 64 points the shape \(64, 2\), not \(64, 1\)"),
    ({"add": 0.75}, r"must lie in \[-1, 1\]"), ({"times": -3.0}, r"must lie in \[-1, 1\]"),
    ({"others": 0.25}, "must not depend on other points"), ({"others": 1e-8}, "must not depend on other points"),
    ({"as": lambda values: values * 1j}, "must be a numeric array .* complex128"),
    ({"as": lambda values: values.astype(object)}, "must be a numeric array .* object"),
    ({"as": lambda values: values[:5]}, r"\(64, 2\), not \(5, 2\)"),
    ({"as": lambda values: values[:, 0]}, r"not \(64,\)"),
    ({"as": lambda values: np.where(values == 0.5, np.nan, values)}, "must hold finite numbers"),
    ({"as": lambda values: 1 // 0}, "of the kind 'two functions' raises ZeroDivisionError"),
    ({"L1": None}, r"diameter must be above 0 in L1, L2 and Linf, not \[None, 2.0, 2.0\]"),
    ({"L1": 0.0}, "diameter must be above 0"),
    ({"L2": np.inf}, "diameter must be above 0"), ({"Linf": np.nan}, "diameter must be above 0"),
    ({"Linf": -1.0}, "diameter must be above 0"),
    ({"encoded": 2}, r"encode must return 3 numbers, and decode the shape \(2,\)"),
    ({"decoded": 3}, r"encode must return 3 numbers, and decode the shape \(2,\)"),
    ({"names": lambda names: names[:1]}, "names must be a list of 2 texts, one for each mean, not 'x0'"),
    ({"names": lambda names: []}, "not an empty list"), ({"names": lambda names: [1, "x"]}, "not 1, 'x'"),
    ({"names": lambda names: "xy"}, "must be a list of 2 texts, one for each mean, not 'xy'"),
    ({"names": lambda names: 1 // 0}, "raises ZeroDivisionError"),
    ({"columns": (2,)}, "columns must be places from 0 to 1, not 2"), ({"columns": (-1,)}, "from 0 to 1, not -1"),
    ({"columns": ("a",)}, "from 0 to 1, not 'a'")])
def test_a_query_of_ones_own_with_one_fault_is_refused_for_it(faults, said):
    check_query_of_own(Query(), DOMAIN)
    with pytest.raises(InputError, match=said):
        check_query_of_own(Query(**faults), DOMAIN)


def test_a_query_of_ones_own_may_reach_the_ends():
    check_query_of_own(Query(add=0.5), DOMAIN)
    check_query_of_own(Query(times=-2.0), DOMAIN)
    check_query_of_own(Query(columns=(1,)), DOMAIN)
    check_query_of_own(Query(others=1e-10), DOMAIN)


def test_a_query_of_ones_own_may_multiply_matrices():
    """Libraries add up the terms of one row in another order than those of many rows."""
    weights = np.random.default_rng(0).normal(size=(40, 2))

    class Product(Query):
        def evaluate(self, points):
            return np.tanh(points @ weights)

    check_query_of_own(Product(), Domain(40))


def test_a_query_of_ones_own_is_tried_at_rows_that_there_can_be():
    seen = []

    class Noting(Query):
        def evaluate(self, points):
            seen.extend(points.tolist())
            return super().evaluate(points)

    check_query_of_own(Noting(), DOMAIN)
    DOMAIN.check(np.array(seen))
    assert {-1.0, 0.0, 0.5, 1.0} <= {point[0] for point in seen}
    assert {(1.0, 0.0), (0.0, 1.0)} == {tuple(point[1:]) for point in seen}


class Rounds(tm.AdaptiveMechanism):
    """Asks for the first column, or for all columns of which some are chosen."""

    def ask(self, so_far):
        asked = [so_far.histogram(name) for name in so_far.facts.names]
        return asked if so_far.round == 1 and len(self.rounds) > 1 else asked[:1]


def rounds(*asked):
    return type("Own", (Rounds,), {"rounds": tuple(asked)})()


SCHEMA = tm.Schema([tm.Column(name, kind="categorical", categories=["x", "y"]) for name in "abc"])


@pytest.mark.parametrize("asked", [
    (), (tm.Measure(0.5), "other"), (tm.Select(0.5, 1),), (tm.Measure(0.5), tm.Measure(0.0)),
    (tm.Measure(0.5), tm.Measure(-0.1)), (tm.Measure(0.5), tm.Measure("half")), (tm.Measure(0.5), tm.Measure(0.51)),
    (tm.Measure(np.nan), tm.Measure(0.5))])
def test_rounds_with_one_fault_are_refused(asked):
    with pytest.raises(InputError, match="a mechanism's rounds must be Measure and Select"):
        tm.design(900, SCHEMA, tm.Budget(1.0), rounds(*asked))


@pytest.mark.parametrize("count", [0, 1.5, True, -1])
def test_a_round_chooses_a_whole_number_of_tables(count):
    with pytest.raises(InputError, match="must choose a whole number of tables, at least 1"):
        tm.design(900, SCHEMA, tm.Budget(1.0), rounds(tm.Measure(0.5), tm.Select(0.25, count)))


def test_rounds_are_charged_their_shares_of_what_choices_leave():
    first, chosen, last = tm.design(900, SCHEMA, tm.Budget(2.0), rounds(
        tm.Measure(0.25), tm.Select(0.25, 2), tm.Measure(0.5))).charges
    assert (first.law, chosen.law, chosen.count, chosen.norm) == ("laplace", "exponential", 2, "Linf")
    assert [each.purpose for each in (first, chosen, last)] == ["round 1", "round 2, a choice", "round 3"]
    # A quarter and a half of epsilon = 2 for noise; each of two choices an eighth of it, for scores that move by 2 / n.
    np.testing.assert_allclose([first.sensitivity / first.scale, last.sensitivity / last.scale], [0.5, 1.0], rtol=1e-9)
    assert chosen.sensitivity == pytest.approx(2.0 / 900, rel=1e-6)
    assert chosen.scale == pytest.approx(2.0 / 900 * 2 / (2.0 * 0.25), rel=1e-6)
    whole, = tm.design(900, SCHEMA, tm.Budget(2.0), rounds(tm.Measure(1.0))).charges
    assert whole.sensitivity / whole.scale == pytest.approx(2.0, rel=1e-9)
