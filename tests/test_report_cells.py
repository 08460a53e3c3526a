"""Every cell of every table of a report's page against the release, computed anew and plainly; a swap of two shows."""

import dataclasses
import itertools
import math
import platform
from collections import Counter
from html.parser import HTMLParser
from importlib.metadata import version

import numpy as np
import pytest
from releases import first_and_again
from scipy.spatial.distance import cdist
from test_report import N, mixed_schema, mixed_table
from unpainted import leave_out_pictures

import trigmech as tm
from trigmech.evaluation.forecast import forecast
from trigmech.evaluation.verdict import LIMITS
from trigmech.privacy.budget import Budget
from trigmech.queries.directions import Directions
from trigmech.queries.joint import Products
from trigmech.reconstruction.tables import Targets
from trigmech.report import page as report
from trigmech.report import sections
from trigmech.report.against import families
from trigmech.report.figures import plain

QUERIES = 60
MOMENTS = tm.MomentMechanism(points=N, iterations=4, degree=2, pair_degree=1, triples=False)
MISSING = "missing"
CASES = {"tables": (tm.TableMechanism(points=512), 8.0, 1e-6), "contrasts": (tm.TableMechanism(points=512), 8.0, 0.0),
         "moments": (MOMENTS, 2.0, 1e-6)}


class Tables(HTMLParser):
    """The tables of a page: of each caption its head, and its rows of texts."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.found, self.cell, self.caption = {}, None, ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag in ("th", "td", "caption"):
            self.cell = ""
        elif tag == "tr":
            self.rows.append([])
        elif tag == "table":
            self.rows = []

    def handle_data(self, data):
        if self.cell is not None:
            self.cell += data

    def handle_endtag(self, tag):
        if tag == "caption":
            self.caption, self.cell = self.cell, None
        elif tag in ("th", "td"):
            self.rows[-1].append(self.cell)
            self.cell = None
        elif tag == "table":
            assert self.caption not in self.found
            self.found[self.caption] = self.rows


def shown(text):
    """The number that a cell shows; not a number if it shows none."""
    try:
        return float(text.replace("−", "-").replace(",", "").replace("± ", "").partition(" ")[0])
    except ValueError:
        return math.nan


def agree(cell, expected):
    """Whether a cell says a text, or a number in so many digits as it has."""
    if isinstance(expected, str):
        return cell == plain(expected)
    # Three digits, of which the first may be 1.
    return shown(cell) == pytest.approx(float(expected), rel=5.1e-3, abs=1e-15)


def differing(rows, expected):
    """Where a table says something else than what is expected."""
    found = [(row[0], place, cell, value) for row, own in zip(rows, expected, strict=True)
             for place, (cell, value) in enumerate(zip(row, own, strict=True)) if not agree(cell, value)]
    return found


@pytest.fixture(scope="module", params=CASES)
def written(request, tmp_path_factory):
    """A release with its page beside the true table, without pictures, which are tested elsewhere."""
    mechanism, epsilon, delta = CASES[request.param]
    table = mixed_table()
    rows = np.array([*table.values()], dtype=object).T
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sections, "MOST_QUERIES", QUERIES)
        leave_out_pictures(patch)
        made = tm.synthesize(rows, mixed_schema(), Budget(epsilon, delta), mechanism, np.random.default_rng(0))
        text = report.write(made, tmp_path_factory.mktemp("page") / "r.html", table).read_text(encoding="utf-8")
    return made, Tables(text).found


def true_rows(made):
    return made.schema.to_cube(np.array([*mixed_table().values()], dtype=object).T)


# What each table should say, by its caption


def charges(made):
    laws = {"laplace": "Laplace", "gaussian": "Gaussian", "linf": "l∞ (linf)"}
    return [[c.purpose, laws[c.law], c.scale, c.sensitivity, c.norm, str(c.count), c.proof]
            for c in made.ledger.charges]


def decoding(look):
    """The matrix that makes frequencies of what was measured; column by column."""
    count = len(look.known)
    origin = dataclasses.replace(look, values=np.zeros(count)).means
    return np.column_stack([dataclasses.replace(look, values=unit).means - origin for unit in np.eye(count)])


def standard(charge, entries=1):
    """The standard deviation of one number of a charge's noise: Gaussian, Laplace, or joint of density e^-max."""
    return charge.scale * {"gaussian": 1.0, "laplace": math.sqrt(2.0),
                           "linf": math.sqrt((entries + 1) * (entries + 2) / 3.0)}[charge.law]


def noise_of(made):
    """The noise in each number of a release of tables: of looks, closer looks, tables, products and triples."""
    release, paid = made.release, {charge.purpose: charge for charge in made.ledger.charges}
    looks = [look.deviation * np.linalg.norm(decoding(look), axis=1) for look in release.looks]
    closer = [np.full(len(look.means), look.deviation) for look in release.closer]
    first, again = first_and_again(release)
    size = sum(each.query.size for each in first)
    once, weights = standard(paid["dependence"], size), {each.query.columns: each.weight for each in again}
    tables, products = [], np.zeros(0)
    for each in first:
        precision = (each.weight / once) ** 2
        if isinstance(each.query, Products | Directions):
            products = np.full(each.query.size, precision**-0.5)
            continue
        if each.query.columns in weights:
            precision += (weights[each.query.columns] / standard(paid["selected tables"])) ** 2
        tables.append(np.full(each.query.size, precision**-0.5))
    triples = [np.full(each.query.size, standard(paid["selected tables"]) / each.weight)
               for each in again if len(each.query.columns) == 3]
    return looks, closer, tables, products, triples


def rounds(made):
    release = made.release
    looks, closer, tables, products, triples = noise_of(made)
    k = [len(look.query.partition.indicators) for look in release.looks]
    named = np.concatenate([own[:count] for own, count in zip(looks, k, strict=True)])
    below = [own[count:] for own, count in zip(looks, k, strict=True)]
    again = len([1 for each in first_and_again(release)[1] if len(each.query.columns) == 2])
    joint = (release.products or release.directions).query
    # Numbers that are often absent have two entries in directions.
    owners = joint.owners if isinstance(joint, Directions) else np.arange(len(release.columns))
    pairs = len({frozenset(owners[pair].tolist()) for pair in joint.pairs})
    products_of = (f"third: products of the directions of rows, for {pairs} pairs of columns"
                   if isinstance(joint, Directions) else
                   f"third: products of contrasts of the cells of {pairs} pairs" if joint.contrasted
                   else f"third: products of ranks of {pairs} pairs of them")
    rows = [("first: frequencies of categories, special and missing values", named),
            (f"first: intervals of {sum(len(own) > 0 for own in below)} columns with an order", np.concatenate(below)),
            (f"second: within {len(closer)} heavy intervals of {len({look.query.column for look in release.closer})} "
             "columns", np.concatenate([*closer, []])),
            (f"third: cells of tables of {len(tables)} pairs of columns" + f", {again} of them twice" * (again > 0),
             np.concatenate([*tables, []])), (products_of, products),
            (f"last: cells of tables of {len(triples)} sets of three columns", np.concatenate([*triples, []]))]
    return [[words, len(noise), noise.min(), noise.max()] for words, noise in rows if len(noise)]


def maps_of(release):
    """The cells of each column's positions in what was measured first of its dependence."""
    found = {}
    for each in first_and_again(release)[0]:
        found |= dict(zip(each.query.columns, getattr(each.query, "maps", ()), strict=False))
    return found


def chosen(made):
    release, rows = made.release, []
    for j, name in enumerate(made.schema.names):
        closer = len([1 for look in release.closer if look.query.column == j])
        again = [each.query.columns for each in first_and_again(release)[1] if j in each.query.columns]
        twice, three = (len([1 for columns in again if len(columns) == count]) for count in (2, 3))
        rows.append([name, release.looks[j].query.partition.size, closer, len(release.columns[j].mass),
                     len(set(maps_of(release)[j].tolist())), twice, three])
    return rows


def held(made, rows):
    """The columns' values of rows of the cube, as the schema decodes them; None where one is missing."""
    decoded = made.schema.decode(rows)
    return {name: [None if gone else value for value, gone in zip(
        np.ma.getdata(values).tolist(), np.ma.getmaskarray(values).tolist(), strict=True)]
        for name, values in decoded.items()}


def numbers_of(column, values, weights):
    """The ordinary numbers of a column, and their weights."""
    kept = [(value, weight) for value, weight in zip(values, weights, strict=True)
            if value is not None and value not in column.special]
    found, own = zip(*kept, strict=True)
    if column.unit is not None:
        found = [(np.datetime64(value) - np.datetime64("1970-01-01")).astype("timedelta64[D]").astype(int)
                 for value in found]
    return np.array(found, dtype=float), np.array(own)


def moments_of(column, values, weights):
    if column.kind in ("binary", "ordinal", "categorical"):
        return ["", ""]
    numbers, own = numbers_of(column, values, weights)
    mean = own @ numbers / own.sum()
    deviation = math.sqrt(own @ (numbers - mean) ** 2 / own.sum())
    if column.unit is not None:
        return [str(np.datetime64(round(mean), "D")), deviation]
    return [mean, deviation]


def apart(column, made, true, weights):
    """The greatest difference of two distribution functions, or half the sum of what shares differ by."""
    if column.kind in ("binary", "ordinal", "categorical"):
        shares = Counter()
        for value, weight in zip(made, weights, strict=True):
            shares[value] += weight
        for value in true:
            shares[value] -= 1.0 / len(true)
        return sum(map(abs, shares.values())) / 2.0
    (x, u), (y, v) = numbers_of(column, made, weights), numbers_of(column, true, np.full(len(true), 1.0))
    at = np.concatenate([x, y])
    return max(abs(u @ (x <= t) / u.sum() - v @ (y <= t) / v.sum()) for t in at)


def columns(made):
    weights, rows = made.distribution.weights, true_rows(made)
    own, true = held(made, made.distribution.points), held(made, rows)
    found = []
    for j, column in enumerate(made.schema.columns):
        number = column.kind not in ("binary", "ordinal", "categorical")
        values = len(column.categories or column.bounds) + (column.missing == "keep")
        what = " to ".join(str(np.datetime64(int(b), "D")) if column.unit else (
            f"{b:,.0f}" if b >= 1_000 else f"{b:g}") for b in column.bounds) if number else f"{values} values"
        found.append([column.name, str(j + 1), column.kind, what, *moments_of(column, own[column.name], weights),
                      *moments_of(column, true[column.name], np.full(len(rows), 1.0)),
                      apart(column, own[column.name], true[column.name], weights)])
    return found


def strength(table):
    return np.abs(table - np.outer(table.sum(axis=1), table.sum(axis=0))).sum() / 2.0


def dependences(made):
    """Of each pair: its strength, what of it may be noise, that of the rows, cells, and the noise in a cell."""
    release, targets, found = made.release, Targets(made.release), []
    points, weights = made.distribution.points, made.distribution.weights
    maps, query = maps_of(release), None if release.products is None else release.products.query
    cells = [maps[j][column.partition.codes(points)] for j, column in enumerate(release.columns)]
    for pair in targets.pairs:
        (j, h), table, noise = pair.columns, pair.table, float(np.max(pair.deviation))
        released = strength(table)
        if query is not None and not query.contrasted:
            # The first product of ranks, in the same cells: 4 times its excess, times what cos(pi rank) sums to there.
            first = [at for at, (a, b, p, q) in enumerate(query.factors.tolist())
                     if (a, b, p, q) == (j, h, 0, 0)]
            if first:
                means, waves = [], []
                for c in (j, h):
                    column, score = release.columns[c], query.features[c][:, 0]
                    means.append(score @ column.mass)
                    ordinary = column.mass[len(column.partition.indicators):].sum()
                    wave = np.zeros(maps[c].max() + 1)
                    for cell, mass, value in zip(maps[c], column.mass, score, strict=True):
                        wave[cell] += mass * value / ordinary
                    waves.append(wave)
                excess = targets.products[first[0]] - means[0] * means[1]
                released = max(released, np.abs(4.0 * excess * np.outer(*waves)).sum() / 2.0)
        drawn = np.zeros(table.shape)
        for a, b, weight in zip(cells[j], cells[h], weights, strict=True):
            drawn[a, b] += weight
        a, b = table.shape
        found.append((released, math.sqrt(2 / math.pi) / 2 * noise * math.sqrt(a * b * (a + b)), strength(drawn),
                      table.shape, noise, (j, h)))
    return sorted((each for each in found if each[0] > 1e-9), key=lambda each: -each[0])


def pairs(made):
    names = made.schema.names
    return [[f"{names[j]} and {names[h]}", released, noise, drawn, f"{shape[0]} × {shape[1]}", 100 * cell]
            for released, noise, drawn, shape, cell, (j, h) in dependences(made)[:20]]


def looks(made):
    points, weights, rows = made.distribution.points, made.distribution.weights, []
    for column, look in zip(made.schema.columns, made.release.looks, strict=True):
        partition, matrix = look.query.partition, decoding(look)
        k = len(partition.indicators)
        indicated = points[:, list(partition.indicators)] > 0.5
        far = [weights @ indicated[:, at] - look.means[at] for at in range(k)]
        noise = look.deviation * np.linalg.norm(matrix, axis=1).max()
        if partition.value is not None:
            ordinary = ~indicated.any(axis=1)
            for at, edge in enumerate(partition.edges[1:]):
                last = at == partition.intervals - 1
                below = ordinary & ((points[:, partition.value] < edge) | last)
                far.append(weights @ below - look.means[k: k + at + 1].sum())
            noise = look.deviation * np.linalg.norm(np.cumsum(matrix[k:], axis=0), axis=1).max()
        worst = np.abs(far).max()
        rows.append([column.name, "shares below a value" if partition.value is not None else "shares of categories",
                     100 * noise, 100 * worst, f"{worst / noise:.2g}"])
    return rows


def moments(made):
    """Of each kind of functions how many there are, with the least and the greatest noise."""
    release, schema = made.release, made.schema
    groups, kinds = schema.domain.groups, {}
    grouped = {c: g for g, group in enumerate(groups) for c in group.coordinates}
    for row, noise in zip(release.basis.index.tolist(), release.deviations, strict=False):
        of = [c for c, degree in enumerate(row) if degree]
        named = [c in grouped for c in of]
        kind = ("frequency" if named == [True] else f"one number, degrees up to {MOMENTS.degree}" if named == [False]
                else "two-way" if named == [True, True] else "product" if sum(named) == 0 else "mixed")
        kinds.setdefault(kind, []).append(noise)
    names = {"frequency": "frequencies of categories, special and missing values", "product": "products of two numbers",
             "two-way": "tables of two columns of categories", "mixed": "products of a category and a number"}
    found = [[names.get(kind, kind), len(noise), min(noise), max(noise)] for kind, noise in kinds.items()]
    whole = release.deviations[len(release.basis.index):]
    return found + ([["functions of whole rows", len(whole), whole.min(), whole.max()]] if len(whole) else [])


def frequencies(made):
    """Of each group of indicators: how many, the noise, what points miss of their targets, and what follows."""
    release, rows = made.release, []
    index, points, weights = release.basis.index, made.distribution.points, made.distribution.weights
    names = [column.name for column in made.schema.columns for _ in column.coordinates]
    for group in made.schema.domain.groups:
        own = [at for at, row in enumerate(index.tolist())
               if sum(row) == 1 and row.index(1) in group.coordinates]
        noise = release.deviations[own]
        believed = np.where(np.abs(release.means[own] - made.fit.target[own]) > 4.0 * noise, release.means[own],
                            made.fit.target[own])
        missed = np.abs(believed - np.array([weights @ points[:, index[at].argmax()] for at in own]))
        rows.append([names[group.coordinates[0]], str(len(own)), noise.max(), missed.max(),
                     (1.959964 * noise + missed).max(),
                     (math.sqrt(2 / math.pi) * noise.max() * len(own) + missed.sum()) / 2])
    return rows


def asked(made):
    """The families of queries, their bounds, and their true and synthetic answers."""
    numbers = list(made.schema.domain.numbers)
    for family in families(len(numbers), QUERIES, QUERIES):
        bar = made.predicted_error(family, 0.95)
        yield (family, bar, family.answers(true_rows(made)[:, numbers]),
               family.answers(made.distribution.points[:, numbers], made.distribution.weights))


def queries(made):
    rows = []
    for family, bar, truth, answers in asked(made):
        for part, label in enumerate(family.labels):
            error, bound = np.abs(truth - answers)[:, part], bar.bound[:, part]
            # Pages of tables have no bounds: these would take many fits.
            bounds = ["", "", ""] if made.release.columns else [np.median(bound), max(bound), bar.worst[part]]
            rows.append([label, len(bound), *bounds, np.median(error), max(error),
                         "" if made.release.columns else 100 * np.mean(error <= bound)])
    return rows


def worst_queries(made):
    rows = []
    for _, bar, truth, answers in asked(made):
        error = np.abs(truth - answers)
        for query in sorted(range(len(error)), key=lambda query: -error[query].max())[:3]:
            part = int(error[query].argmax())
            bound = "" if made.release.columns else bar.bound[query, part]
            rows.append([error[query, part], bound, truth[query, part], answers[query, part]])
    return rows


def points(made):
    weights = made.distribution.weights
    different = {tuple(map(str, row)) for row in zip(*held(made, made.distribution.points).values(), strict=True)}
    # The sample whose rows the page counts: its seed is the page's, 0, and the number of the purpose, 2.
    sample = made.columns(made.rows, np.random.default_rng([0, 2]))
    drawn = {tuple(map(str, row)) for row in zip(*(np.ma.asarray(sample[name]).tolist() for name in made.schema.names),
                                                 strict=True)}
    return [["Points: rows that were fitted", len(weights)],
            ["Different rows among them, in the columns' units", len(different)],
            ["Effective number of points, 1 / (sum of squared weights)", 1 / sum(w * w for w in weights)],
            ["Largest weight of a point", max(weights)], ["Default number of rows in a sample", made.rows],
            [f"Different rows in a sample of {made.rows:,}", len(drawn)]]


def distances(made):
    """Of all points, if their weights are equal, and of all rows: to the nearest row, and to the nearest other."""
    rows = true_rows(made)
    near = cdist(made.distribution.points, rows).min(axis=1), np.sort(cdist(rows, rows), axis=1)[:, 1]
    return [[label, *np.quantile(own, (0.05, 0.25, 0.5, 0.75, 0.95)), 100 * np.mean(own == 0)] for label, own in zip(
        ("synthetic row to its nearest true record", "true record to its nearest other one"), near, strict=True)]


def fitted(made):
    fit, some = made.fit, "some" if made.fit.dependent else "no"
    if made.release.columns:
        how, what, steps = (("Method", "rows whose entries move between categories and intervals until their tables "
                             "meet the released ones"), ("Tables and products", "noise shrunk away first"), "sweeps")
    else:
        how, what, steps = (("Method", "points that move until their means meet the released ones"),
                            ("Moments below the noise", "shrunk first" if fit.shrunk else "taken as released"),
                            "iterations")
    return [[*how], ["Mean squared deviation from the fitted numbers, in units of the noise", fit.misfit], [*what],
            ["Dependence between columns", f"above the noise for {some} pair"],
            ["Status", f"{fit.status} after {fit.iterations} {steps}"], ["Seconds", fit.seconds]]


def versions(made, rows):
    return [[name, made.versions.get(name, "—"), rows_version(name)] for name in [row[0] for row in rows]]


def rows_version(name):
    return platform.python_version() if name == "python" else version(name)


COMMON = {"Charges": charges, "Columns": columns, "Errors of queries of numbers": queries, "Points": points,
          "Distances to the nearest true record": distances}
OF_TABLES = {**COMMON, "What was measured, round by round": rounds, "What was chosen for each column": chosen,
             "How the rows were made": fitted,
             "Noise in the columns, and differences between the synthetic and the released columns": looks}
OF_MOMENTS = {**COMMON, "Moments and their noise": moments, "How the points were made": fitted,
              "Predicted errors of the frequencies of each column's values": frequencies}


def compare_lights(made, found):
    """Lights and measures against the forecast and the judgement that `evaluate` prints; takes their tables out."""
    known = made.release.columns
    expected = forecast(made.release, made.schema, made.distribution.points) if known else None
    if expected is not None:
        of_columns = {plain(name): light for name, light in expected.lights_of_columns().items()}
        of_pairs = {plain(name): light for name, light in expected.lights_of_pairs().items()}
    for row in found.pop("A light for each column", [[]])[1:]:
        assert set(row) & {"good", "care", "poor"}, row
        if expected is not None:
            assert row[1] == of_columns[row[0]]
    for row in found.pop("A light for each pair of columns", [[]])[1:]:
        assert set(row) & {"good", "care", "poor"}, row
        if expected is not None:
            assert row[1] == of_pairs[row[0]]
    for row in found.pop("The limits of the lights", [[]])[1:]:
        assert agree(row[2], LIMITS[row[1]].good), row
        assert agree(row[3], LIMITS[row[1]].care), row
    # tests/test_lights.py compares these with the judgement.
    for caption in ("Measures of the release", "Columns that nearly determine others",
                    "Regressions of each column on all others, tested on true rows: R²"):
        found.pop(caption, None)


def test_every_cell_of_every_table_is_what_the_release_has(written):
    made, found = written
    found = dict(found)
    of_tables = "What was chosen for each column" in found
    for caption, expected in (OF_TABLES if of_tables else OF_MOMENTS).items():
        rows = expected(made)
        own = found.pop(caption)[1:]
        if caption == "Moments and their noise":
            own, rows = sorted(own), sorted(rows)
        assert len(own) == len(rows), (caption, own, rows)
        assert differing(own, rows) == [], caption
    worst = found.pop("The worst queries of each family")[1:]
    assert differing([row[1:] for row in worst], worst_queries(made)) == []
    own = found.pop("Versions")[1:]
    assert {row[0] for row in own} >= {"trigmech", "numpy", "python"}
    assert differing(own, versions(made, own)) == []
    if of_tables:
        expected = pairs(made)
        assert differing(found.pop(f"The {len(expected)} pairs with the strongest released dependence")[1:],
                         expected) == []
    compare_lights(made, found)
    assert found == {}, "a table that nobody compares"


@pytest.mark.daily("moments")
def test_two_columns_of_a_table_that_are_swapped_would_be_seen(written):
    """Of every table any two columns of numbers."""
    made, found = written
    tables = {caption: found[caption] for caption in COMMON} | (
        {next(caption for caption in found if "pairs with the strongest" in caption): None}
        if "What was chosen for each column" in found else {})
    for caption, rows in tables.items():
        expected = pairs(made) if rows is None else COMMON[caption](made)
        own = found[caption][1:]
        for a, b in itertools.combinations(range(1, len(own[0])), 2):
            swapped = [list(row) for row in own]
            for row in swapped:
                row[a], row[b] = row[b], row[a]
            if swapped != own:
                assert differing(swapped, expected) != [], (caption, a, b)
