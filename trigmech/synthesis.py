"""`synthesize`, which walks the path from a table to a release, and what it returns."""

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigmech._html import html_table
from trigmech.distribution import Distribution
from trigmech.errors import BudgetError, FitWarning, InputError, shown
from trigmech.evaluation.error_bars import PredictedError, of_numbers, predicted_error
from trigmech.measurement.private_bounds import histogram_charges, rest_of, with_private_bounds
from trigmech.measurement.released import MomentRelease, Release
from trigmech.measurement.rows import PrivateRows
from trigmech.mechanisms.base import Mechanism
from trigmech.mechanisms.moment import MomentMechanism
from trigmech.mechanisms.rehearsal import rehearse
from trigmech.privacy.budget import Budget, Charge
from trigmech.privacy.ledger import Ledger
from trigmech.privacy.ledger_file import LedgerFile
from trigmech.privacy.noise import Noise, SimulatedNoise, SystemNoise
from trigmech.reconstruction.l1 import Fit
from trigmech.reconstruction.pipeline import MISSED, Reconstruction
from trigmech.schema.encoding import categories_of
from trigmech.schema.schema import Schema
from trigmech.storage import release_file as saved
from trigmech.tables.column_types import Categories
from trigmech.tables.frames import categorical_names, collected, library_of, like
from trigmech.tables.reader import TableFile
from trigmech.workload import Workload
from trigmech.workload.family import answerable

logger = logging.getLogger(__name__)

MAX_ROWS = 100_000_000
# The part of the budget that finds bounds, if the schema asks for private ones.
BOUNDS_SHARE = 0.1

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, eq=False)
class Answers:
    """What a release says to a family of queries, and how wrong it may be.

    Parameters
    ----------
    values : ndarray (queries, parts)
        The answers.
    error : PredictedError or None
        Error bars; None for releases by the thesis's mechanisms, which have none, and for queries that are about
        indicators as well.
    """

    values: NDArray[np.float64]
    error: PredictedError | None


@dataclass(frozen=True, eq=False)
class Synthesis:
    """What `synthesize` returns. All of it is public.

    Parameters
    ----------
    distribution : Distribution
        Weighted points of the cube.
    ledger : Ledger
        What was spent, on what, and what that proves.
    schema : Schema
        Public; maps points back to the table's units.
    release : Release
        The noisy numbers that everything else was made from.
    fit : Fit or Reconstruction
        Of the thesis's mechanisms: objective, certified gap, status and time of the linear program. Of
        :class:`trigmech.MomentMechanism`: what was fitted and how well.
    rows : int
        Default size of a sample.
    library : str, optional
        Name of the library of the dataframe that came in, "pyarrow" for a file; None for an array. Nothing of the table
        itself is kept.
    categorical : tuple of str
        Names of the columns of categories that came in a type of categories: of pandas, of polars, or a dictionary of
        Arrow. The types are all that is known of; which categories there are is taken from the schema.
    versions : dict of str to str
        Of trigmech, numpy, opendp and python when the release was made.

    See also :attr:`warnings`, which is empty if the points have what was released.
    """

    distribution: Distribution
    ledger: Ledger
    schema: Schema
    release: Release | MomentRelease
    fit: Fit | Reconstruction
    rows: int
    library: str | None
    categorical: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=saved.versions_now)

    def __repr__(self) -> str:
        what = "no differential privacy is proved"
        if self.ledger.simulated:
            what = "SIMULATED, not private"
        elif np.isfinite(self.ledger.proved_epsilon):
            what = f"proved {self.ledger.guarantee}-DP"
        said = "".join(f", WARNING: {sentence}" for sentence in self.warnings)
        return f"Synthesis({self.distribution!r}, {what}{said})"

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is wrong with the points, in a sentence each: nothing, as a rule. All of it is public."""
        if isinstance(self.fit, Reconstruction):
            if not self.fit.missed:
                return ()
            return (f"the points miss what was released: they are {self.fit.misfit**0.5:.3g} standard deviations of "
                    f"its noise from it (root mean square; up to {MISSED**0.5:.2g} is no miss). Error bars include "
                    "what was missed, and the released numbers themselves are as exact as planned",)
        if self.fit.status != "not solved":
            return ()
        return ("the linear program had no solution, so all candidates weigh the same, and the points have nothing of "
                "the released means",)

    def _repr_html_(self) -> str:
        ledger, release = self.ledger, self.release
        measured = release.features.K if isinstance(release, MomentRelease) else release.basis.K
        proved = (f"{ledger.guarantee}-differential privacy" if np.isfinite(ledger.proved_epsilon)
                  else "no differential privacy at all")
        return html_table("Synthetic data", [
            ("guarantee", "SIMULATED, NOT PRIVATE" if ledger.simulated else f"proved {proved}"),
            *(("warning", sentence) for sentence in self.warnings),
            ("rows of the table", f"{release.n:,}"), ("columns", ", ".join(self.schema.names)),
            ("moments measured", f"{measured:,}"), ("points", f"{len(self.distribution.points):,}"),
            ("rows of a sample, unless told otherwise", f"{self.rows:,}"),
            ("made by", ", ".join(f"{name} {version}" for name, version in self.versions.items()))])

    def predicted_error(self, workload: Workload, level: float = 0.95) -> PredictedError:
        """Return error bars for a workload's answers, from the noise law and the fit alone.

        Parameters
        ----------
        workload : Workload
            Of the coordinates that are numbers: all of them, for a table without indicators.
        level : float
            Probability, between 0 and 1, with which each bound holds.

        Returns
        -------
        PredictedError

        Raises
        ------
        InputError
            If the release was not by :class:`trigmech.MomentMechanism`, or the workload has another number of columns.
        """
        if not (isinstance(self.release, MomentRelease) and isinstance(self.fit, Reconstruction)):
            raise InputError("error bars are there for releases by MomentMechanism only")
        domain = self.schema.domain
        if not domain.groups:
            return predicted_error(workload, self.release, self.fit, level)
        return predicted_error(workload, *of_numbers(self.release, self.fit, domain), level)

    def query(self, workload: Workload, level: float = 0.95) -> Answers:
        """Return the release's answers to a workload, with error bars.

        Parameters
        ----------
        workload : Workload
            Of all coordinates of the cube, or of those that are numbers alone; not of the columns' units. The answers
            to a :class:`trigmech.workload.Mixture` are one column, member after member.
        level : float
            As for :meth:`predicted_error`.

        Returns
        -------
        Answers

        Raises
        ------
        InputError
            If the workload has another number of columns, or a family in it has no answers.
        """
        workload = answerable(workload)
        points, numbers = self.distribution.points, list(self.schema.domain.numbers)
        if workload.d != points.shape[1]:
            points = points[:, numbers]
        if workload.d != points.shape[1]:
            raise InputError(f"the workload is of {workload.d} columns; the release has {len(numbers)} with numbers")
        known = isinstance(self.release, MomentRelease) and workload.d == len(numbers)
        error = self.predicted_error(workload, level) if known else None
        return Answers(workload.answers(points, self.distribution.weights), error)

    def expect(self, f: Callable[[NDArray[np.float64]], Any]) -> Any:
        """Return the mean of a function of points of the cube; see :meth:`trigmech.Distribution.expect`."""
        return self.distribution.expect(f)

    def columns(self, size: int | None = None, rng: np.random.Generator | None = None) -> dict[str, Any]:
        """Return a synthetic table as one array for each column, by name; see :meth:`sample`."""
        if size is None and self.rows > MAX_ROWS:
            raise InputError(f"the formula for the number of rows gives {self.rows}; name a size")
        return self.schema.decode(self.distribution.sample(self.rows if size is None else size, rng))

    def sample(self, size: int | None = None, rng: np.random.Generator | None = None) -> Any:
        """Return a synthetic table of the type that came in: for a file, a pyarrow table; for an array, an array.

        Parameters
        ----------
        size : int, optional
            Rows; by default ``rows``.
        rng : numpy.random.Generator, optional
            By default one seeded by the operating system.

        Returns
        -------
        dataframe or ndarray (size, d), in the columns' units
            What was collected comes back as what it was collected to: polars's lazy frames as dataframes, streams of
            Arrow and most others as pyarrow tables. Columns in ``categorical`` have a type of categories again, with
            all categories of the schema, in order if the kind is "ordinal"; of polars only those of text.

        Raises
        ------
        InputError
            If no size is given and the thesis's formula asks for more than 10^8 rows.
        """
        categories = {column.name: Categories(categories_of(column), column.kind == "ordinal")
                      for column in self.schema.columns if column.name in self.categorical}
        # Integers beyond 64 bits come back as floats, of which two may be the same.
        categories = {name: held for name, held in categories.items() if len(set(held.values)) == len(held.values)}
        return like(self.library, self.schema.names, list(self.columns(size, rng).values()), categories)

    def save(self, path: str | Path) -> None:
        """Save the release, which is public, for :func:`trigmech.load`; see :mod:`trigmech.storage.release_file` for
        the format.

        Raises
        ------
        InputError
            If the file cannot be written; what was there before is then still there.
        """
        saved.write(Path(path), distribution=self.distribution, ledger=self.ledger, schema=self.schema,
                    release=self.release, fit=self.fit, rows=self.rows, library=self.library,
                    categorical=self.categorical, versions=self.versions)


def load(path: str | Path) -> Synthesis:
    """Return a release that was saved by :meth:`Synthesis.save`. Needs no data; executes nothing of the file.

    Raises
    ------
    InputError
        If the file cannot be read, is damaged, or is of a format that this version does not know.
    """
    parts = saved.read(Path(path))
    return Synthesis(parts.distribution, parts.ledger, parts.schema, parts.release, parts.fit, parts.rows,
                     parts.library, parts.categorical, parts.versions)


def synthesize(table: Any, schema: Schema, budget: Budget, mechanism: Mechanism | None = None,
               rng: np.random.Generator | None = None, *, ledger: str | Path | LedgerFile | None = None,
               bounds_share: float = BOUNDS_SHARE, progress: Progress | None = None) -> Synthesis:
    """Release a table as a distribution that answers smooth queries accurately.

    Parameters
    ----------
    table : dataframe, array_like (n, d), path or TableFile, private
        At least 2 rows; all that :meth:`trigmech.Schema.to_cube` takes. What is lazy, or can be read only once, is read
        into memory, once. A file, CSV or Parquet, is read in chunks, twice or, for private bounds, five times, and may
        be larger than memory.
    schema : Schema
        Public names, kinds, bounds and categories. Values outside the bounds are clipped.
    budget : Budget
        Of this release.
    mechanism : Mechanism, optional
        Default: :class:`trigmech.MomentMechanism`, the best there is.
    rng : numpy.random.Generator, optional
        Makes the run a repeatable *simulation*, and the ledger says so. Leave it out for a real release: noise then
        comes from OpenDP's samplers and the operating system's entropy.
    ledger : path or LedgerFile, optional
        The data set's ledger file, which must exist: all releases of one table should share one. Every charge is
        written there before its noise is drawn, and refused if the data set's total would be exceeded.
    bounds_share : float
        The part of the budget, between 0 and 1, that finds the bounds of columns with private ones; see
        :mod:`trigmech.measurement.private_bounds`. Not used if there are none.
    progress : callable, optional
        Told the name of a step, what is done of it and its total (0: not known); all public.

    Returns
    -------
    Synthesis

    Raises
    ------
    InputError
        If the table does not fit the schema or an option does not fit the table's size.
    BudgetError
        If the mechanism needs delta > 0 and has none, or the ledger file's total would be exceeded.

    All that can be checked of the table, the options and the ledger file is checked before anything is charged, also
    if a part of the budget goes to private bounds first. After the charge a table comes out, whatever was drawn: where
    a solver fails, the fit's status says so.

    Warns
    -----
    FitWarning
        If the points miss what was released, see :attr:`Synthesis.warnings`.

    Notes
    -----
    Privacy: (epsilon, delta) under replace-one adjacency with n public, if the mechanism's calibration is rigorous;
    otherwise ``ledger.guarantee`` says what holds.
    """
    if not isinstance(schema, Schema):
        raise InputError(f"schema must be a Schema, not {type(schema).__name__}")
    if not isinstance(budget, Budget):
        raise BudgetError(f"budget must be a Budget, not {type(budget).__name__}")
    if rng is not None and not isinstance(rng, np.random.Generator):
        raise InputError(f"rng must be a numpy.random.Generator, not {type(rng).__name__}")
    if mechanism is None:
        mechanism = MomentMechanism()
    if isinstance(mechanism, type) or not isinstance(mechanism, Mechanism):
        raise InputError(f"mechanism must be a mechanism such as MomentMechanism(), not {shown(mechanism)}")
    if isinstance(ledger, str | Path):
        ledger = LedgerFile.open(Path(ledger))
    if ledger is not None and not isinstance(ledger, LedgerFile):
        raise InputError(f"ledger must be the path of a ledger file, or a LedgerFile, not {type(ledger).__name__}")
    table = TableFile(table) if isinstance(table, str | Path) else collected(table)
    library = "pyarrow" if isinstance(table, TableFile) else library_of(table)
    categorical = categorical_names(table, [column.name for column in schema.columns if column.categories is not None])
    say: Progress = progress or (lambda step, done, total: None)
    noise: Noise
    if rng is None:
        noise, public_rng = SystemNoise(), np.random.default_rng()
    else:
        noise_rng, public_rng = rng.spawn(2)
        noise = SimulatedNoise(noise_rng)
    account = Ledger(budget, enforced=not mechanism.published, simulated=noise.simulated, file=ledger)
    spendable = budget
    if schema.private_bounds:
        say("checking the table and the options", 0, 0)
        # Noise of a pure mechanism and Gaussian noise for bounds would together cost more than their shares.
        shared = budget if getattr(mechanism, "approximate", True) else Budget(budget.epsilon)
        spendable = rest_of(shared, bounds_share)
        charges = histogram_charges(shared, bounds_share, len(schema.private_bounds))
        _check_before_charging(table, schema, spendable, charges, mechanism, account, noise)
        say("finding bounds", 0, 0)
        incomplete = schema
        schema = with_private_bounds(lambda: table.chunks(incomplete) if isinstance(table, TableFile) else (table,),
                                     incomplete, shared, bounds_share, account, noise)
        logger.info("found private bounds of %d columns", len(incomplete.private_bounds))
    rows = encoded(table, schema, say)
    if rows.n < 2:
        raise InputError(f"a release needs at least 2 rows; the table has {rows.n}")
    logger.info("releasing %d rows of %d columns by %s, %s noise", rows.n, schema.d, type(mechanism).__name__,
                "simulated" if noise.simulated else "hardened")
    outcome = mechanism.run(rows, spendable, account, noise, public_rng)
    logger.info("fitted %d points: %s after %d iterations, %s", len(outcome.distribution.points), outcome.fit.status,
                outcome.fit.iterations, f"misfit {outcome.fit.misfit:.3g}" if isinstance(
                    outcome.fit, Reconstruction) else f"objective {outcome.fit.objective:.3g}")
    made = Synthesis(outcome.distribution, account, schema, outcome.release, outcome.fit, outcome.rows, library,
                     categorical)
    _warn(made.warnings)
    return made


def _warn(sentences: Sequence[str]) -> None:
    for sentence in sentences:
        try:
            warnings.warn(sentence, FitWarning, stacklevel=3)
        except FitWarning:
            # A filter makes an error of it, which would lose what is paid for.
            with warnings.catch_warnings():
                warnings.simplefilter("always", FitWarning)
                warnings.warn(sentence, FitWarning, stacklevel=3)


def _check_before_charging(table: Any, schema: Schema, spendable: Budget, bounds: Sequence[Charge],
                           mechanism: Mechanism, account: Ledger, noise: Noise) -> None:
    """Raise what a run with private bounds would raise after these are paid for: of table, options and ledger file."""
    # Whatever the bounds are, as long as any kind and transform allows them.
    complete = schema.with_bounds(dict.fromkeys(schema.private_bounds, (1.0, 2.0)))
    rows = encoded(table, complete)
    for _ in rows.chunks():
        pass
    rehearse(rows.n, rows.domain, mechanism, spendable, bounds, account, noise)


def encoded(table: Any, schema: Schema, say: Progress = lambda step, done, total: None) -> PrivateRows:
    """Return a table's rows as points of the cube: at once, or in chunks if it is a file; private."""
    if not isinstance(table, TableFile):
        say("planning, measuring and fitting", 0, 0)
        return PrivateRows.of(schema.to_cube(table), schema.domain)
    say("counting rows and planning", 0, 0)

    def chunks() -> Iterator[NDArray[np.float64]]:
        done = 0
        for chunk in table.chunks(schema):
            rows = schema.to_cube(chunk)
            done += len(rows)
            say("measuring", done, table.n)
            yield rows
        say("releasing and fitting", 0, 0)

    return PrivateRows(table.n, schema.domain, chunks)
