"""What a run returns: noisy moments, and a distribution that was made of them. All of it is public."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trigmech._html import html_table
from trigmech._validate import check_integers
from trigmech.distribution import Distribution
from trigmech.errors import InputError, shown
from trigmech.evaluation.error_bars import PredictedError, of_members, predicted_error
from trigmech.evaluation.resampling import Progress, Resamples
from trigmech.functions.features import Features
from trigmech.measurement.released import Release
from trigmech.mechanisms.base import Design, Mechanism, PublicFacts
from trigmech.privacy.ledger import Ledger
from trigmech.reconstruction.conditional import conditional_points
from trigmech.reconstruction.mixing import FurtherRows
from trigmech.reconstruction.result import Reconstruction
from trigmech.schema.encoding import categories_of
from trigmech.schema.schema import Schema
from trigmech.storage import release_file
from trigmech.tables.column_types import Categories
from trigmech.tables.frames import like
from trigmech.workload import Workload
from trigmech.workload.family import answerable

MAX_ROWS = 100_000_000
FRAMES = ("pandas", "polars", "pyarrow")


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of a release to a family of queries, with error bars.

    Parameters
    ----------
    values : ndarray (queries, parts)
        The answers; those of a statistic have the shape that it returns.
    error : PredictedError or None
        None for releases by the thesis's mechanisms, and for queries that also use indicators.
    """

    values: NDArray[np.float64]
    error: PredictedError | None


@dataclass(frozen=True, eq=False)
class NoisyMoments:
    """The noisy means of the measured functions, by name, as :func:`trigmech.measure` returns them. Public.

    Parameters
    ----------
    release : Release
        The noisy numbers, and the functions whose means they are.
    ledger : Ledger
        The charges of the release, and the guarantee that they prove.
    schema : Schema
        Public; maps points of the cube to the table's units.
    library : str, optional
        The library of the dataframe that came in, "pyarrow" for a file; None for an array.
    categorical : tuple of str
        Names of the columns that had a type for categories in the table (of pandas or polars, or Arrow's dictionary).
        The schema lists the categories.
    versions : dict of str to str
        The versions of trigmech, numpy, opendp and python that made the release.
    design : Design, optional
        The plan of the measurements. Files do not hold it.
    mechanism : Mechanism, optional
        The mechanism with its options; default: the design's mechanism. Files hold only the package's own mechanisms.
    made_by : str, optional
        The name of a mechanism that a file could not hold.

    See also :attr:`deviations`: in releases by :class:`trigmech.TableMechanism` the noise is correlated.
    """

    release: Release
    ledger: Ledger
    schema: Schema
    library: str | None = None
    categorical: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=release_file.versions_now)
    design: Design | None = field(default=None, kw_only=True, repr=False)
    mechanism: Mechanism | None = field(default=None, kw_only=True, repr=False)
    made_by: str | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        if self.mechanism is None and self.design is not None:
            object.__setattr__(self, "mechanism", self.design.mechanism)

    @property
    def n(self) -> int:
        """Rows of the table."""
        return self.release.n

    @property
    def names(self) -> list[str]:
        """The name of each of the K functions, such as "age", "T2(age)", "age * work=Private"."""
        return self.release.names(self.schema.coordinates)

    @property
    def means(self) -> NDArray[np.float64]:
        """The noisy means (K,)."""
        return self.release.means

    @property
    def deviations(self) -> NDArray[np.float64]:
        """The standard deviation of the noise in each mean (K,).

        **The noise of two means of one column can be correlated.** TableMechanism measures prefix sums of a column's
        intervals (at delta = 0 contrasts of the positions of a short column), and decodes the frequencies from them:
        neighbouring intervals have a correlation of about -1/3, so sums over intervals are far more exact than with
        independent noise. A least-squares fit must not treat the noise as independent. Each measurement of
        ``release.known``, in the order of the names, has the ``covariance`` of its noise; all other noise is
        uncorrelated.
        """
        return self.release.deviations

    @property
    def warnings(self) -> tuple[str, ...]:
        """The faults of the fit, one sentence each; empty for moments alone."""
        return ()

    def to_frame(self, library: str | None = None) -> Any:
        """Return the moments as a dataframe: a row for each function, with name, kind, mean and deviation.

        Each deviation belongs to a single mean; see :attr:`deviations` about correlated noise.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow"}, optional
            Default: that of the table that came in, or pyarrow for an array.
        """
        if library is not None and library not in FRAMES:
            raise InputError(f"library must be one of {', '.join(map(repr, FRAMES))}, not {shown(library)}")
        columns = [np.array(self.names, dtype=object), self.release.kinds.astype(object), self.means, self.deviations]
        return like(library or self.library or "pyarrow", ("name", "kind", "mean", "deviation"), columns)

    def save(self, path: str | Path) -> None:
        """Save the release, which is public; docs/format.md describes the format.

        Raises
        ------
        InputError
            If the file cannot be written; then the old content is still there.
        """
        release_file.write(Path(path), **self._parts())

    @classmethod
    def load(cls, path: str | Path) -> "NoisyMoments":
        """Return the moments of a file that :meth:`save` or :meth:`Synthesis.save` wrote; see :func:`trigmech.load`.

        Files do not hold custom mechanisms; give yours to :func:`trigmech.generate` or :func:`trigmech.reconstruct`.
        """
        parts = release_file.read(Path(path))
        return NoisyMoments(**{name: value for name, value in parts.items() if name != "fit"})

    def _parts(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in (
            "release", "ledger", "schema", "library", "categorical", "versions", "mechanism", "made_by")}

    @property
    def _guarantee(self) -> str:
        if self.ledger.simulated:
            return "SIMULATED, not private"
        proved = np.isfinite(self.ledger.proved_epsilon)
        return f"proved {self.ledger.guarantee}-DP" if proved else "no differential privacy is proved"

    def __repr__(self) -> str:
        return f"NoisyMoments(K={self.release.K}, {self._guarantee})"

    def _repr_html_(self) -> str:
        ledger = self.ledger
        proved = (f"{ledger.guarantee}-differential privacy" if np.isfinite(ledger.proved_epsilon)
                  else "no differential privacy at all")
        return html_table(self._title, [
            ("guarantee", "SIMULATED, NOT PRIVATE" if ledger.simulated else f"proved {proved}"),
            *(("warning", sentence) for sentence in self.warnings),
            (f"{'rows' if self.schema.person is None else 'persons'} of the table", f"{self.n:,}"),
            ("columns", ", ".join(self.schema.names)),
            ("moments measured", f"{self.release.K:,}"), *self._made,
            ("made by", ", ".join(f"{name} {version}" for name, version in self.versions.items()))])

    @property
    def _title(self) -> str:
        return "Noisy moments"

    @property
    def _made(self) -> list[tuple[str, str]]:
        return []


@dataclass(frozen=True, eq=False, repr=False)
class Synthesis(NoisyMoments):
    """The result of :func:`trigmech.synthesize`: noisy moments and a distribution that is fitted to them. Public.

    Parameters
    ----------
    release, ledger, schema, library, categorical, versions
        See :class:`NoisyMoments`.
    fit : Reconstruction
        The distribution, and how well it explains the moments.

    See also :attr:`warnings`, which is empty if the points fit the released numbers.
    """

    fit: Reconstruction = field(kw_only=True)

    @property
    def rows(self) -> int:
        """Default size of a sample."""
        return self.fit.rows or self.n

    @property
    def distribution(self) -> Distribution:
        """Weighted points of the cube."""
        return self.fit.distribution

    @property
    def warnings(self) -> tuple[str, ...]:
        """The faults of the points, one sentence each; usually empty. Public."""
        return self.fit.warnings

    def __repr__(self) -> str:
        warned = "".join(f", WARNING: {sentence}" for sentence in self.warnings)
        return f"Synthesis({self.distribution!r}, {self._guarantee}{warned})"

    @property
    def _title(self) -> str:
        return "Synthetic data"

    @property
    def _made(self) -> list[tuple[str, str]]:
        return [("points", f"{len(self.distribution.points):,}"), ("rows of a sample, by default", f"{self.rows:,}")]

    def _parts(self) -> dict[str, Any]:
        return super()._parts() | {"fit": replace(self.fit, rows=self.rows)}

    @property
    def has_error_bars(self) -> bool:
        """Whether :meth:`predicted_error` is available; it is not for linear programs or custom functions."""
        if self.release.columns:
            # They repeat the release, for which its mechanism must be there.
            return self.made_by is None or self.design is not None
        return self.fit.misfit is not None and isinstance(self.release.features, Features)

    @cached_property
    def _resamples(self) -> Resamples:
        if not self.release.columns:
            there = ("predicted_error gives error bars for a workload's answers" if self.has_error_bars else
                     "it has no error bars, because a linear program fitted it" if self.fit.misfit is None else
                     "it has no error bars, because they are not known for custom functions")
            raise InputError("error bars of any statistic need a release of tables, as TableMechanism makes it. This "
                             f"is a release of moments: {there}")
        if not self.has_error_bars:
            raise InputError(f"{self.made_by} made this release, and its file does not hold this mechanism; give the "
                             "mechanism to trigmech.load for error bars")
        return Resamples(self.release.described(self.schema), self.distribution.points, self.design)

    def _table(self, points: Any) -> dict[str, Any]:
        """Return points as the columns of a table, with derived ones."""
        return self.schema.completed(self.schema.decode(points))

    def error_bars(self, statistic: Callable[[Any], Any], level: float = 0.95,
                   progress: Progress | None = None) -> Answers:
        """Return a statistic of the synthetic table, with bounds on its distance to that of the private table.

        Parameters
        ----------
        statistic : callable
            Maps a dictionary of each column's values by name, in its own units, to finite numbers in an array of any
            shape. :mod:`trigmech.evaluation.statistics` has some.
        level : float
            Probability, between 0 and 1, with which each bound holds.
        progress : callable, optional
            Called with the name of a step, the finished amount and the total.

        Returns
        -------
        Answers
            Deviations and bounds in the statistic's shape; ``worst`` is one bound for all values together.

        Raises
        ------
        InputError
            If the release is not by :class:`trigmech.TableMechanism`, the level is not between 0 and 1, or the
            statistic does not return finite numbers.

        Notes
        -----
        Privacy: post-processing, with random numbers of a fixed seed: loaded releases have the same bars. Cost: some
        seconds at the first call, for 32 fits that are kept; later calls cost 33 values of the statistic.

        Examples
        --------
        >>> import numpy as np, trigmech as tm
        >>> schema = tm.Schema([tm.Column("age", 0, 120, "integer")])
        >>> table = np.random.default_rng(0).normal(40.0, 9.0, (900, 1)).round()
        >>> made = tm.synthesize(table, schema, tm.Budget(2.0, 1e-6), tm.TableMechanism(), np.random.default_rng(0))
        >>> found = made.error_bars(lambda table: np.mean(table["age"] >= 50))
        >>> bool(abs(found.values - np.mean(table >= 50)) <= found.error.bound)
        True
        """
        return Answers(*self._resamples.bars(lambda points: statistic(self._table(points)), level,
                                             progress=progress))

    def predicted_error(self, workload: Workload, level: float = 0.95) -> PredictedError:
        """Return error bars for a workload's answers, from the noise and the fit alone.

        Parameters
        ----------
        workload : Workload
            A workload for the coordinates that are numbers: all coordinates, if the table has no indicators.
        level : float
            Probability, between 0 and 1, with which each bound holds.

        Raises
        ------
        InputError
            If a linear program made the fit, as in the thesis's mechanisms; if custom functions were measured; or if
            the workload has another number of columns.
        """
        if not self.release.columns:
            return predicted_error(workload, self.release, self.fit, level)
        numbers, workload = list(self.schema.domain.numbers), answerable(workload)
        if workload.d != len(numbers):
            raise InputError(f"the workload has {workload.d} columns, but the release has {len(numbers)} with numbers")
        return of_members(workload, lambda member: self._resamples.bars(
            lambda points: member.answers(points[:, numbers]), level, parts=True)[1])

    def query(self, workload: Workload, level: float = 0.95) -> Answers:
        """Return the release's answers to a workload, with error bars.

        Parameters
        ----------
        workload : Workload
            A workload for all coordinates of the cube, or only for those that are numbers; it never uses the columns'
            units. The answers to a :class:`trigmech.workload.Mixture` are one column, member after member.
        level : float
            As for :meth:`predicted_error`.

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
            raise InputError(f"the workload has {workload.d} columns; the release has {len(numbers)} with numbers")
        known = self.has_error_bars and workload.d == len(numbers)
        error = self.predicted_error(workload, level) if known else None
        return Answers(workload.answers(points, self.distribution.weights), error)

    def expect(self, f: Callable[[Any], Any], units: Literal["cube", "table"] = "cube") -> Any:
        """Return the mean of a function under the distribution.

        Parameters
        ----------
        f : callable
            A function from points of the cube (m, d) to values (m,) or (m, q); see
            :meth:`trigmech.Distribution.expect`. With units="table": a function of a dictionary that holds each
            column's values (m,), in its units, by name.
        units : {"cube", "table"}

        Examples
        --------
        >>> import numpy as np, trigmech as tm
        >>> schema = tm.Schema([tm.Column("age", 0, 120)])
        >>> made = tm.synthesize(np.full((500, 1), 30.0), schema, tm.Budget(1e3), rng=np.random.default_rng(0))
        >>> round(made.expect(lambda table: table["age"], units="table"))
        30
        """
        if units not in ("cube", "table"):
            raise InputError(f"units must be 'cube' or 'table', not {shown(units)}")
        if units == "cube":
            return self.distribution.expect(f)
        return self.distribution.expect(lambda points: f(self._table(points)))

    def batches(self, size: int | None = None, rng: np.random.Generator | None = None, *,
                given: Mapping[str, Any] | None = None, shares: Mapping[str, Mapping[Any, float]] | None = None,
                rows_per_person: int | None = None) -> Iterator[dict[str, Any]]:
        """Return a synthetic table in pieces, each with one array for each column, by name; see :meth:`sample`.

        Together the pieces are the table that :meth:`columns` returns, without ``given`` and ``shares`` in memory that
        does not grow with ``size``.
        """
        person, rng = self.schema.person, rng or np.random.default_rng()
        if rows_per_person is not None and person is None:
            raise InputError("rows_per_person needs a release whose schema has a column of persons")
        each = 1 if rows_per_person is None else rows_per_person
        check_integers(1, rows_per_person=each)
        if size is None and rows_per_person is None and self.rows > MAX_ROWS:
            raise InputError(f"the formula for the number of rows gives {self.rows}; give size")
        size = self.rows * each if size is None else size
        check_integers(0, size=size)
        decode = self._table
        pieces = (iter([decode(conditional_points(self.schema, self.release, self.distribution, size, rng, given,
                                                  shares))]) if given or shares else
                  FurtherRows(self.schema, self.release, self.distribution).made(decode, size, rng))
        return pieces if person is None else _numbered(pieces, person, each)

    def columns(self, size: int | None = None, rng: np.random.Generator | None = None, *,
                given: Mapping[str, Any] | None = None, shares: Mapping[str, Mapping[Any, float]] | None = None,
                rows_per_person: int | None = None) -> dict[str, Any]:
        """Return a synthetic table as one array for each column, by name; see :meth:`sample`."""
        pieces = list(self.batches(size, rng, given=given, shares=shares, rows_per_person=rows_per_person))
        return pieces[0] if len(pieces) == 1 else {
            name: (np.ma.concatenate if isinstance(pieces[0][name], np.ma.MaskedArray) else np.concatenate)(
                [piece[name] for piece in pieces]) for name in pieces[0]}

    def sample(self, size: int | None = None, rng: np.random.Generator | None = None, *,
               given: Mapping[str, Any] | None = None, shares: Mapping[str, Mapping[Any, float]] | None = None,
               rows_per_person: int | None = None) -> Any:
        """Return a synthetic table of the private table's type: for a file, a pyarrow table; for an array, an array.

        Parameters
        ----------
        size : int, optional
            The number of rows; by default ``rows``, times the rows of a person.
        rng : numpy.random.Generator, optional
            Default: a generator that the operating system seeds.
        given : mapping, optional
            Maps names of columns to values that all rows have: a single value; a list of values; a tuple with the least
            and the largest value of a range; or None for a missing value. In a column of times a date means its whole
            day. The other columns follow the release, given these values.
        shares : mapping, optional
            Maps names of columns to the shares of their values or ranges, with the sum 1, such as ``{"region":
            {"north": 0.5, "south": 0.5}}``. The other columns follow the release, given each value.
        rows_per_person : int, optional
            If the schema has a column of persons: the number of rows of each synthetic person, by default 1; persons
            are numbered from 1. A person's rows are drawn independently of each other: **how a person's rows belong
            together was not measured**, so the rows cannot answer questions about several rows of a person.

        Returns
        -------
        dataframe or ndarray (size, d), in the columns' units
            For lazy frames of polars a dataframe, for streams of Arrow and most other forms a pyarrow table. Columns in
            ``categorical`` get a type for categories again, with all categories of the schema, in order if the kind is
            "ordinal"; in polars only columns of text do.

        Raises
        ------
        InputError
            If you do not give a size and the thesis's formula gives more than 10^8 rows; if a name is not the name of a
            column, a column cannot have a value, or shares do not sum to 1; or if the release has no rows with the
            given values.

        Notes
        -----
        Privacy: post-processing. Rows are drawn from the points that match; if too few points match and the release is
        by :class:`trigmech.TableMechanism`, rows are fitted to the released numbers. If there are more rows than
        points, and the release is by :class:`trigmech.TableMechanism`, the rows are new ones that have the same tables
        as the points, see :mod:`trigmech.reconstruction.mixing`; otherwise some rows are copies. A sample of more than
        10^7 rows is better written by pieces, see :meth:`batches`.
        """
        categories = {column.name: Categories(categories_of(column), column.kind == "ordinal")
                      for column in self.schema.columns if column.name in self.categorical}
        # Integers beyond 64 bits come back as floats, of which two may be the same.
        categories = {name: held for name, held in categories.items() if len(set(held.values)) == len(held.values)}
        made = self.columns(size, rng, given=given, shares=shares, rows_per_person=rows_per_person)
        return like(self.library, tuple(made), list(made.values()), categories)


def _numbered(pieces: Iterable[dict[str, Any]], person: str, each: int) -> Iterator[dict[str, Any]]:
    """Yield pieces of a table with the numbers of its persons, from 1 on, who have so many rows each."""
    before = 0
    for piece in pieces:
        count = len(next(iter(piece.values())))
        yield {person: np.arange(before, before + count) // each + 1, **piece}
        before += count


def load(path: str | Path, mechanism: Mechanism | None = None) -> Synthesis:
    """Return a release that was saved by :meth:`Synthesis.save`. Needs no data; executes nothing of the file.

    Parameters
    ----------
    path : path
    mechanism : Mechanism, optional
        The custom mechanism that made the release, for error bars and further tables. Default: the file's mechanism.

    Raises
    ------
    InputError
        If the file cannot be read, is damaged, is of a format that this version does not know, or holds noisy moments
        alone, which :meth:`NoisyMoments.load` reads; or if the mechanism refuses the release's facts.
    """
    parts = release_file.read(Path(path))
    if "fit" not in parts:
        raise InputError(f"{str(path)!r} holds only noisy moments; read them with NoisyMoments.load, and make a table "
                         "of them with generate or reconstruct")
    if mechanism is not None:
        if not isinstance(mechanism, Mechanism):
            raise InputError(f"mechanism must be a Mechanism such as TableMechanism(), not {shown(mechanism)}")
        schema = parts["schema"]
        facts = PublicFacts(parts["release"].n, schema.domain, parts["ledger"].budget, schema.names)
        parts |= {"mechanism": mechanism, "made_by": None, "design": replace(mechanism.plan(facts), schema=schema)}
    return Synthesis(**parts)
