"""The steps from a table to synthetic data: design (public), measure (private), generate (post-processing)."""

import logging
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from trigmech._validate import check_integers, generator
from trigmech._warn import warn
from trigmech.engines.choice import Engine, opened
from trigmech.errors import BudgetError, FitWarning, InputError, PaidError, shown
from trigmech.measurement.private_bounds import histogram_charges, rest_of
from trigmech.measurement.private_categories import selection_charges, without_thresholds
from trigmech.measurement.rows import Progress
from trigmech.mechanisms.base import Design, Mechanism, PublicFacts, check_mechanism
from trigmech.mechanisms.default import default_mechanism, mechanism_of
from trigmech.noisy_moments import NoisyMoments
from trigmech.privacy.budget import BOUNDS_SHARE, Budget
from trigmech.privacy.ledger import Ledger
from trigmech.privacy.ledger_file import LedgerFile
from trigmech.reconstruction.constrained import with_constraints_kept, witness
from trigmech.reconstruction.result import Reconstruction
from trigmech.results import Synthesis
from trigmech.run import check_selection, is_gaussian, measured, with_room
from trigmech.schema.schema import Schema, counted
from trigmech.workload.family import Family
from trigmech.workload.tables import Marginals, Ranges

logger = logging.getLogger(__name__)


def design(n: int, schema: Schema, budget: Budget, mechanism: Mechanism | None = None, *,
           workload: Family | Marginals | Ranges | None = None, bounds_share: float = BOUNDS_SHARE) -> Design:
    """Plan the measurements of a table and their charges: the first step, *select*.

    Parameters
    ----------
    n : int
        Rows of the table, at least 2; public.
    schema : Schema
    budget : Budget
        The budget of the whole release.
    mechanism : Mechanism, optional
        Default: :class:`trigmech.TableMechanism`, or, for a workload of smooth queries,
        :class:`trigmech.MomentMechanism`.
    workload : Family, Marginals or Ranges, optional
        The queries that the default mechanism should answer well.
    bounds_share : float
        The part of the budget, between 0 and 1, that finds private bounds and categories: the same for each column
        that has either. In addition, private categories use a tenth of delta.

    Returns
    -------
    Design
        Its text describes the measurements and their noise; ``rounds`` are the charges. With private categories it is
        the design for a table in which no category is found; the design with categories costs the same.

    Raises
    ------
    InputError, BudgetError
        If an argument breaks a rule, or the mechanism refuses the size, the domain or the budget. If there are private
        categories and delta is 0, or the mechanism's noise is not Gaussian. If a file might not hold the release,
        because it has very many columns or points, or long categories.

    Notes
    -----
    Privacy: public numbers only; nothing is charged or drawn. Cost: seconds at most.

    Examples
    --------
    >>> import trigmech as tm
    >>> schema = tm.Schema([tm.Column("age", 0, 120), tm.Column("income", 0, 200_000)])
    >>> made = tm.design(3_000, schema, tm.Budget(1.0, 1e-6))
    >>> made.passes, [charge.purpose for charge in made.rounds[0]]
    (4, ['columns', 'columns, closer', 'dependence', 'selected tables'])
    """
    if isinstance(n, bool) or not (isinstance(n, int | np.integer) and n >= 2):
        raise InputError(f"n must be the number of rows, an integer that is at least 2, not {shown(n)}")
    _check(schema, budget)
    if workload is not None and mechanism is not None:
        raise InputError("give either workload (for the default mechanism) or mechanism, not both")
    chosen = default_mechanism(workload) if mechanism is None else check_mechanism(mechanism)
    if schema.constraints:
        witness(schema)
    bounds, categories = len(schema.private_bounds), len(schema.private_categories)
    if not bounds + categories:
        return with_room(replace(chosen.plan(PublicFacts(int(n), schema.domain, budget, schema.names)), schema=schema))
    if categories:
        check_selection(schema, budget, chosen.approximate and not chosen.published)
    # Noise of a pure mechanism and Gaussian noise for bounds would together cost more than their shares.
    shared = budget if chosen.approximate else Budget(budget.epsilon)
    if categories:
        shared = without_thresholds(budget)
    planned = chosen.plan(PublicFacts(int(n), schema.domain, rest_of(shared, bounds_share), schema.names))
    each = bounds_share / (bounds + categories)
    if bounds:
        planned = replace(planned, bounds=histogram_charges(shared, each * bounds, bounds))
    if categories:
        check_selection(schema, budget, is_gaussian(planned.charges))
        planned = replace(planned, categories=selection_charges(budget, each * categories, categories))
    return with_room(replace(planned, whole=budget, schema=schema, bounds_share=bounds_share))


def measure(table: Any, schema: Schema, design: Design, rng: np.random.Generator | None = None, *,
            ledger: str | Path | LedgerFile | None = None, progress: Progress | None = None,
            rounds: str | Path | None = None, engine: Engine | None = None, workers: int | None = None,
            scheduler: str | None = None) -> NoisyMoments:
    """Release the measurements of a design: the second step, *measure*, the only one that reads the table.

    Parameters
    ----------
    table : dataframe, array_like (n, d), path or TableFile, private
        As for :func:`synthesize`, with the number of rows of the design.
    schema : Schema
    design : Design
        A design for this schema, from :func:`design`.
    rng, ledger, progress, rounds, engine, workers, scheduler
        As for :func:`synthesize`.

    Raises
    ------
    InputError, BudgetError
        As :func:`synthesize`; or if the design is for another number of rows or another schema.
    """
    if not isinstance(design, Design):
        raise InputError(f"design must be a Design from trigmech.design, not {shown(design)}")
    _check(schema, design.budget)
    if schema != design.schema:
        raise InputError("the design is for another schema; make a design for this schema with trigmech.design")
    with opened(table, schema, progress, engine, workers, scheduler) as private:
        if private.n != design.n:
            raise InputError(f"the design is for {design.n} {counted(schema)}; the table has {private.n}")
        return measured(private, schema, design, rng, ledger, rounds)[0]


def generate(moments: NoisyMoments, rows: int | None = None, rng: np.random.Generator | None = None, *,
             mechanism: Mechanism | None = None) -> Any:
    """Return a synthetic table that explains noisy moments: the third step, *generate*; post-processing.

    Parameters
    ----------
    moments : NoisyMoments
        Moments from :func:`measure`, or loaded ones.
    rows : int, optional
        The number of rows. Default: the number of rows of the table.
    rng : numpy.random.Generator, optional
        Default: a generator that the operating system seeds.
    mechanism : Mechanism, optional
        The mechanism that makes the points. Default: the mechanism that measured the table. Files do not hold custom
        mechanisms, and files of version 0.1 do not hold any mechanism. For such a file this function uses a mechanism
        with default options, and warns.

    Returns
    -------
    dataframe or ndarray (rows, d)
        A table of the type that was measured. :func:`reconstruct` returns the distribution itself.

    Warns
    -----
    UserWarning
        If the file did not hold the mechanism, and you do not give it.
    """
    if rows is not None:
        check_integers(0, rows=rows)
    return reconstruct(moments, rng, mechanism=_reconstructing(moments, mechanism)).sample(rows, rng)


def reconstruct(moments: NoisyMoments, rng: np.random.Generator | None = None, *,
                mechanism: Mechanism | None = None) -> Synthesis:
    """Return a distribution that explains noisy moments, as :func:`synthesize` does; post-processing.

    Parameters
    ----------
    moments, rng, mechanism
        As for :func:`generate`.

    Warns
    -----
    FitWarning
        If the points do not fit the released numbers, see :attr:`Synthesis.warnings`.
    UserWarning
        If the file did not hold the mechanism, and you do not give it; see :func:`generate`.
    """
    chosen = _reconstructing(moments, mechanism)
    rng = generator(rng)
    release: Any = moments.release.described(moments.schema)
    fit = chosen.reconstruct(release, moments.design or (moments.planned_by(chosen) if chosen.by_design else None), rng)
    if not isinstance(fit, Reconstruction) or fit.points.shape[1] != release.domain.d:
        raise InputError(f"{type(chosen).__name__}.reconstruct must return a Reconstruction with points of "
                         f"{release.domain.d} coordinates, not {shown(fit)}")
    fit = with_constraints_kept(moments.schema, fit, rng)
    logger.info("fitted %d points: %s after %d iterations, %s", len(fit.points), fit.status, fit.iterations,
                fit.quality)
    made = Synthesis(moments.release, moments.ledger, moments.schema, moments.library, moments.categorical,
                     moments.versions, design=moments.design, mechanism=moments.mechanism,
                     made_by=moments.made_by, budget=moments.budget, fit=replace(fit, rows=fit.rows or moments.n))
    for sentence in made.warnings:
        warn(sentence, FitWarning)
    return made


def synthesize(table: Any, schema: Schema, budget: Budget, mechanism: Mechanism | None = None,
               rng: np.random.Generator | None = None, *, ledger: str | Path | LedgerFile | None = None,
               workload: Family | Marginals | Ranges | None = None, bounds_share: float = BOUNDS_SHARE,
               progress: Progress | None = None, rounds: str | Path | None = None, engine: Engine | None = None,
               workers: int | None = None, scheduler: str | None = None) -> Synthesis:
    """Release a table as a distribution that answers smooth queries accurately.

    Parameters
    ----------
    table : dataframe, array_like (n, d), path or TableFile, private
        At least 2 rows, in any form that :meth:`trigmech.Schema.to_cube` accepts. A lazy table, or a table that can be
        read only once, is read into memory once. A file, CSV or Parquet, is read in chunks and may be larger than
        memory. It is parsed once for its encoded rows, which are kept for all questions of the run: in memory up to
        256 MiB, and beyond that in a temporary file without a name (``TMPDIR``). If that disk has no room, the file is
        parsed for each question, at most :attr:`trigmech.Design.passes` times. CSV is read once more to count its rows.
        If bounds or categories are private, any file is also read once to check it, twice to find bounds, and once to
        find categories. The processes of an engine keep no rows: each question reads the table again. For a table in
        several Parquet files give a list of them or a pattern, such as "data/*.parquet". A DataFrame of Dask or Spark
        stays where it is.
    schema : Schema
        Public names, kinds, bounds and categories. Values outside the bounds are clipped.
    budget : Budget
        The budget of this release.
    mechanism : Mechanism, optional
        Default: :class:`trigmech.TableMechanism`, or, for a workload of smooth queries,
        :class:`trigmech.MomentMechanism`.
    rng : numpy.random.Generator, optional
        Makes the run a repeatable *simulation*, and the ledger marks it as one. Leave it out for a real release: noise
        then comes from OpenDP's samplers and the operating system's entropy.
    ledger : path, address or LedgerFile, optional
        The data set's ledger, which must exist: all releases of one table should share a ledger. It is a file, or a
        ledger on a server: ``"postgresql://user@host/database?ledger=name"``. Every charge is written there before its
        noise is drawn, and is refused if it would exceed the data set's total.
    workload : Family, Marginals or Ranges, optional
        The queries that the default mechanism should answer well.
    bounds_share : float
        The part of the budget, between 0 and 1, that finds private bounds and categories; see
        :mod:`trigmech.measurement.private_bounds` and :mod:`trigmech.measurement.private_categories`. It has no effect
        if the schema has no private bounds or categories.
    progress : callable, optional
        Called with the name of a step, the finished amount and the total (0: not known); all public.
    rounds : path, optional
        A file that keeps all drawn numbers, so that an interrupted run can continue. If the file does not exist, it is
        made; otherwise its run continues, with the same table, and is not charged again. Remove the file when the
        release is saved; while it exists, the same release is made again. See :mod:`trigmech.storage.rounds_file`.
    engine : {"processes", "dask", "spark"}, optional
        The workers that measure the table: processes of this machine, or a cluster of Dask or Spark. Default: processes
        measure Parquet files of 2^24 rows and more, Dask and Spark measure their own DataFrames, and this process
        measures everything else. All engines give the same bits; see :mod:`trigmech.engines.choice`.
    workers : int, optional
        The number of processes for Parquet files. Default: one for each core.
    scheduler : str, optional
        The address of a Dask scheduler or a Spark master. Default: the client or session of the program, or else a new
        one on this machine for the run.

    Raises
    ------
    InputError
        If the table does not fit the schema or an option does not fit the table's size; if ``rounds`` is a file of
        another run, is used by another process, or is given for a simulation; if the engine cannot measure the table.
    WorkerError
        If processes or a cluster's workers fail repeatedly.
    BudgetError
        If delta is 0 but the mechanism or private categories need delta > 0, or the ledger's total would be exceeded.
    PaidError
        If a custom mechanism fails after the charge. If its fit fails, the error has the released numbers.

    The table, the options and the ledger are checked as far as possible before anything is charged, also if a part of
    the budget first goes to private bounds or categories. After the charge the function always returns a table, if
    the mechanism is one of the package; if a solver fails, the fit's status shows it.

    Warns
    -----
    FitWarning
        If the points do not fit the released numbers, see :attr:`Synthesis.warnings`.

    Notes
    -----
    Privacy: (epsilon, delta) under replace-one adjacency with n public, if the mechanism's calibration is rigorous;
    otherwise ``ledger.guarantee`` states the guarantee.
    """
    _check(schema, budget)
    if mechanism is not None:
        check_mechanism(mechanism)
    with opened(table, schema, progress, engine, workers, scheduler) as private:
        planned = design(private.n, schema, budget, mechanism, workload=workload, bounds_share=bounds_share)
        moments, public_rng = measured(private, schema, planned, rng, ledger, rounds)
    try:
        return reconstruct(moments, public_rng)
    except Exception as problem:  # A mechanism of somebody's own can raise any, and the release is paid for.
        paid = PaidError(f"the points could not be fitted ({type(problem).__name__}: {problem}). The charge stays "
                         "spent, but the released numbers are not lost: they are this error's attribute moments. Save "
                         "them with its method save, or call trigmech.reconstruct(error.moments, mechanism=...)")
        paid.moments = moments
        raise paid from problem


def _reconstructing(moments: Any, mechanism: Mechanism | None) -> Mechanism:
    """Return the mechanism that makes points of moments; say so if its options are not those of the measurement."""
    if not isinstance(moments, NoisyMoments):
        raise InputError(f"moments must be NoisyMoments from trigmech.measure, not {shown(moments)}")
    if mechanism is not None:
        return check_mechanism(mechanism)
    if moments.mechanism is not None:
        return moments.mechanism
    if moments.made_by is not None:
        raise InputError(f"{moments.made_by} measured these numbers, and the file does not hold this mechanism; give "
                         "mechanism=...")
    chosen = mechanism_of(moments.release)
    # The warning points to the caller of generate or reconstruct.
    warnings.warn(f"the file does not hold the mechanism that measured these numbers, so the default options of "
                  f"{type(chosen).__name__} make the points; give mechanism=... to choose others", stacklevel=3)
    return chosen


def _check(schema: Any, budget: Any) -> None:
    if not isinstance(schema, Schema):
        raise InputError(f"schema must be a Schema, not {type(schema).__name__}")
    if not isinstance(budget, Budget):
        raise BudgetError(f"budget must be a Budget, not {type(budget).__name__}")
    # It refuses budgets that floating point cannot account for, so planners need not know of them.
    Ledger(budget)
