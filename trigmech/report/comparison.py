"""A comparison of several releases: their guarantees, lights, and expected and measured errors."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trigmech.errors import InputError
from trigmech.evaluation.forecast import Forecast
from trigmech.evaluation.judgement import Judgement
from trigmech.evaluation.verdict import LIGHTS, LIMITS, Light, LightLimits, worst
from trigmech.report.against import DrawnRows
from trigmech.report.figures import number, percent
from trigmech.report.lead import forecast_of, measured_errors
from trigmech.report.statement import Side, Table, table_of_lights, upward
from trigmech.report.tabled import Section, Tabled
from trigmech.results import Synthesis

MOST_PAIRS = 150
Sides = Sequence[tuple[str, Forecast | None, Judgement | None]]


def compare(releases: Mapping[str, Synthesis], against: Any = None,
            limits: Mapping[str, LightLimits] = LIMITS) -> Tabled:
    """Return a comparison of releases: guarantees, lights, and errors of each column and each pair.

    Parameters
    ----------
    releases : mapping of str to Synthesis
        At least two, by the names that the result shows. They may differ in budget, settings and rows, and must have a
        column in common.
    against : dataframe, array_like (n, d), dict of columns, or list of the d columns, optional, private
        The true table of all of them; the result is then NOT PRIVATE.
    limits : mapping of str to LightLimits, optional

    Raises
    ------
    InputError
        If there are fewer than two releases, they have no column in common or these in different orders, or the table
        does not fit one of them.

    Notes
    -----
    Privacy: post-processing without ``against``; with it nothing is protected. Cost: below a second for each release,
    and with a table that of ``evaluate``.
    """
    if not isinstance(releases, Mapping) or not all(hasattr(made, "schema") for made in releases.values()):
        raise InputError("compare needs releases (Synthesis) by name, such as trigmech.compare({'first': made, "
                         "'second': other})")
    if len(releases) < 2:
        raise InputError(f"compare needs at least two releases, not {len(releases)}")
    first = next(iter(releases.values())).schema.names
    common = [name for name in first if all(name in made.schema.names for made in releases.values())]
    if not common:
        raise InputError("the releases have no column in common")
    for name, made in releases.items():
        if [each for each in made.schema.names if each in common] != common:
            raise InputError(f"release {name!r} has the common columns in another order than the first one; the order "
                             f"must be {', '.join(common)}")
    sides: Sides = [(name, forecast_of(made, limits), None if against is None else DrawnRows.of(
        made.schema, against).judged(made).by(limits)) for name, made in releases.items()]
    said = []
    for name, expected, judged in sides:
        if judged is not None:
            said.append(f"{name}, measured: {judged.verdict}")
        if expected is not None:
            said.append(f"{name}, expected: {expected.sentences(releases[name].release.n)[0]}")
    pairs = [f"{a} and {b}" for place, a in enumerate(common) for b in common[place + 1 :]]
    shown, left = _worst(pairs, sides)
    parts = [Section("Guarantees", _guarantees(releases)),
             Section("Columns", _lights("A light for each column", "Column", common, sides, False)),
             *([Section("Pairs of columns", _lights("A light for each pair of columns", "Pair", shown, sides, True),
                        f"{left} further pairs, with better lights, are left out." if left else "")] if shown else [])]
    if against is not None:
        parts.insert(1, Section("Measures", _measures(sides)))
    facts = {name: {"n": releases[name].release.n, "ledger": releases[name].ledger.to_dict(),
                    "expected": None if expected is None else expected.to_dict(),
                    "measured": None if judged is None else judged.to_dict()} for name, expected, judged in sides}
    return Tabled("Releases beside each other", tuple(said), tuple(parts), {"releases": facts}, against is not None)


def _guarantees(releases: Mapping[str, Synthesis]) -> Table:
    rows = []
    for name, made in releases.items():
        ledger = made.ledger
        proved = upward(ledger.proved_epsilon) if np.isfinite(ledger.proved_epsilon) else "nothing"
        rows.append((name, made.release.n, "nothing: simulated" if ledger.simulated else proved,
                     upward(ledger.budget.delta, 6), number(ledger.budget.epsilon),
                     "simulated: NOT PRIVATE" if ledger.simulated else "real"))
    return Table("What is proved", ("Release", "Rows", "Proved ε", "δ", "Budget ε", "Noise"), rows, (1, 2, 3, 4))


def _lights(caption: str, of: str, names: Sequence[str], sides: Sides, pairs: bool) -> Table:
    shown = list[Side]()
    for name, expected, judged in sides:
        for words, errors in (("expected", None if expected is None else _expected_errors(expected, names, pairs)),
                              ("measured", None if judged is None else measured_errors(judged, names, pairs))):
            if errors is not None:
                shown.append(((f"{name}, {words}", "shares of rows off by", *["correlation off by"] * pairs), errors))
    return table_of_lights(caption, of, names, shown)


def _expected_errors(found: Forecast, names: Sequence[str], pairs: bool) -> list[list[str]]:
    lights = found.lights_of_pairs() if pairs else found.lights_of_columns()
    errors = {each.name: percent(each.error) for each in (found.pairs if pairs else found.columns)}
    correlations = {each.name: number(each.error) for each in found.correlations}
    return [[own[name] for name in names] for own in (lights, errors)] + [
        [correlations.get(name, "") for name in names]] * pairs


def _measures(sides: Sides) -> Table:
    held = [(name, {each.name: each for each in judged.measures}) for name, _, judged in sides if judged is not None]
    head, lights = ["Measure"], []
    for name, _ in held:
        lights.append(len(head) + 1)
        head += [name, f"light of {name}"]
    rows = [(measure.words, *(cell for _, own in held for cell in (
        (number(own[measure.name].value), own[measure.name].light) if measure.name in own else ("", ""))))
        for measure in held[0][1].values()]
    return Table("Measures of the releases", head, rows, [at - 1 for at in lights], (), lights)


def _worst(pairs: Sequence[str], sides: Sides) -> tuple[list[str], int]:
    """Return the pairs with the worst lights, in their order, and how many others there are."""
    held = [found.lights_of_pairs() for _, *both in sides for found in both if found is not None]

    def rank(name: str) -> int:
        own: list[Light] = [lights[name] for lights in held]
        return -LIGHTS.index(worst(own))

    chosen = set(sorted(pairs, key=rank)[:MOST_PAIRS]) if held else set()
    return [name for name in pairs if name in chosen], len(pairs) - len(chosen)
