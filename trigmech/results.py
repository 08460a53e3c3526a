"""The result of a run: a distribution that was fitted to noisy moments, and rows of it. All of it is public."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from trigmech._validate import check_integers, generator
from trigmech.answering import Answering
from trigmech.errors import InputError, shown
from trigmech.evaluation.forecast import Forecast, forecast
from trigmech.mechanisms.base import Mechanism
from trigmech.reconstruction.conditional import conditional_points
from trigmech.reconstruction.mixing import FurtherRows
from trigmech.schema.encoding import categories_of
from trigmech.storage import release_file
from trigmech.tables.column_types import Categories, stacked
from trigmech.tables.frames import like

MAX_ROWS = 100_000_000
# A notebook shows the lights of tables with at most so many columns.
MOST_SHOWN = 40


@dataclass(frozen=True, eq=False, repr=False)
class Synthesis(Answering):
    """The result of :func:`trigmech.synthesize`: noisy moments and a distribution that is fitted to them. Public.

    See also :attr:`warnings`, which is empty if the points fit the released numbers.

    Parameters
    ----------
    release, ledger, schema, library, categorical, versions
        See :class:`NoisyMoments`.
    fit : Reconstruction
        The distribution, and how well it explains the moments.
    """

    @property
    def rows(self) -> int:
        """Default size of a sample."""
        return self.fit.rows or self.n

    @property
    def warnings(self) -> tuple[str, ...]:
        """The faults of the points, one sentence each; usually empty. Public."""
        return self.fit.warnings

    def __repr__(self) -> str:
        warned = "".join(f", WARNING: {sentence}" for sentence in self.warnings)
        return f"Synthesis({self.distribution!r}, {self._guarantee}{warned})"

    def _repr_html_(self) -> str:
        return super()._repr_html_() + ("" if self._expected is None else self._expected.html(self.release.n))

    @cached_property
    def _expected(self) -> Forecast | None:
        """The errors that the release is expected to have; None for releases of moments, and for wide tables, where
        they take long."""
        shown = self.release.columns and self.schema.d <= MOST_SHOWN
        return forecast(self.release, self.schema, self.distribution.points) if shown else None

    @property
    def _title(self) -> str:
        return "Synthetic data"

    @property
    def _made(self) -> list[tuple[str, str]]:
        return [("points", f"{len(self.distribution.points):,}"), ("rows of a sample, by default", f"{self.rows:,}")]

    def _parts(self) -> dict[str, Any]:
        return super()._parts() | {"fit": replace(self.fit, rows=self.rows)}

    def batches(self, size: int | None = None, rng: np.random.Generator | None = None, *,
                given: Mapping[str, Any] | None = None, shares: Mapping[str, Mapping[Any, float]] | None = None,
                rows_per_person: int | None = None) -> Iterator[dict[str, Any]]:
        """Return a synthetic table in pieces, each with one array for each column, by name; see :meth:`sample`.

        Together the pieces are the table that :meth:`columns` returns, without ``given`` and ``shares`` in memory that
        does not grow with ``size``.
        """
        person, rng = self.schema.person, generator(rng)
        if rows_per_person is not None and person is None:
            raise InputError("rows_per_person needs a release whose schema has a column of persons")
        each = 1 if rows_per_person is None else rows_per_person
        check_integers(1, rows_per_person=each)
        if size is None and rows_per_person is None and self.rows > MAX_ROWS:
            raise InputError(f"by default a sample of this release has {self.rows} rows, more than {MAX_ROWS}; "
                             "give size")
        size = self.rows * each if size is None else size
        check_integers(0, size=size)
        pieces = (iter([self._table(conditional_points(self.schema, self.release, self.distribution, size, rng, given,
                                                       shares))]) if given or shares else
                  FurtherRows(self.schema, self.release, self.distribution).tables(size, rng))
        return pieces if person is None else _numbered(pieces, person, each)

    def columns(self, size: int | None = None, rng: np.random.Generator | None = None, *,
                given: Mapping[str, Any] | None = None, shares: Mapping[str, Mapping[Any, float]] | None = None,
                rows_per_person: int | None = None) -> dict[str, Any]:
        """Return a synthetic table as one array for each column, by name; see :meth:`sample`."""
        pieces = list(self.batches(size, rng, given=given, shares=shares, rows_per_person=rows_per_person))
        return pieces[0] if len(pieces) == 1 else {
            name: stacked([piece[name] for piece in pieces]) for name in pieces[0]}

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
        by :class:`trigmech.TableMechanism`, rows are fitted to the released numbers. Fewer rows than points, of at most
        4,096 points of such a release, are those that together are most like all points, see
        :mod:`trigmech.reconstruction.thinning`; other rows are drawn at random. If there are more rows than points, and
        the release is by :class:`trigmech.TableMechanism`, the rows are new ones that have the same tables
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
        parts |= {"mechanism": mechanism, "made_by": None}
    made = Synthesis(**parts)
    if mechanism is not None and made.planned_by(mechanism) is None:
        raise InputError(f"{type(mechanism).__name__} did not make this release: with its options the charges "
                         "would differ from those in the file's ledger")
    return made
