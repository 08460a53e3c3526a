"""Tables in parts: each part is measured where it is, then all are added and released as one table."""

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from trigmech.engines.choice import Engine, opened
from trigmech.errors import InputError, shown
from trigmech.measurement.release import Session
from trigmech.measurement.rows import Progress
from trigmech.mechanisms.base import Design, History
from trigmech.noisy_moments import NoisyMoments
from trigmech.parts.answers import Answer, AskedTable, Recorder, Unanswered, question_of
from trigmech.parts.part import Part, added, answer_of
from trigmech.privacy.ledger import Ledger
from trigmech.privacy.ledger_file import LedgerFile
from trigmech.privacy.ledger_lock import attempted
from trigmech.privacy.noise import Noise, SimulatedNoise
from trigmech.run import generators, identity, opened_ledger, run, taken_up
from trigmech.storage import rounds_file

logger = logging.getLogger(__name__)


def measure_part(table: Any, design: Design, *, progress: Progress | None = None, engine: Engine | None = None,
                 workers: int | None = None, scheduler: str | None = None) -> Part:
    """Return the sums over one part of a table that the design's next round needs: **private**, like the table.

    Parameters
    ----------
    table : dataframe, array_like (n, d), path or TableFile, private
        All rows of some of the persons, at least one; as for :func:`trigmech.synthesize`.
    design : Design
        The design from :func:`trigmech.design` for the number of persons in all parts together, or, after the first
        round, from :func:`release_parts`.
    progress : callable, optional
        Called with public facts only.
    engine, workers, scheduler
        As for :func:`trigmech.synthesize`.

    Returns
    -------
    Part
        Sums in whole numbers: the sum of parts has the same bits for every division of the table.

    Raises
    ------
    InputError
        If the table does not fit the design's schema, or the design has private categories or no schema.

    Notes
    -----
    Privacy: nothing is charged and nothing is public; keep a part as safe as its table. All rows of a person must be in
    one part: a person in two parts counts twice. Cost: one pass over the rows, and from the third round on a moment to
    repeat the earlier planning.
    """
    check_design(design)
    _, question = repeated(design)
    if question is None:
        raise InputError("all rounds of the design are complete")
    with opened(table, design.schema_given, progress, engine, workers, scheduler, least=1) as private:
        rows = private.raw(question.schema) if question.raw else private.rows(question.schema,
                                                                              found=question.schema != design.schema)
        total = rows.sums(question.asked)
    question.asked.check(total)
    return Part.of(total, question_of(design, question.asked, question.schema))


def release_parts(parts: Sequence[Part], design: Design, rng: np.random.Generator | None = None, *,
                  ledger: str | Path | LedgerFile | None = None,
                  rounds: str | Path | None = None) -> NoisyMoments | Design:
    """Release the sum of all parts, as if they were one table.

    Parameters
    ----------
    parts : sequence of Part, private
        Answers to the design's question, from :func:`measure_part`, for all persons together.
    design : Design
        The design that measured the parts.
    rng : numpy.random.Generator, optional
        Makes the run a repeatable *simulation*. Give a generator with the same seed in each round.
    ledger : path, address or LedgerFile, optional
        As for :func:`trigmech.synthesize`; all rounds are charged in the first, before its draw.
    rounds : path
        The file that keeps all drawn numbers, so that nothing is drawn twice. It is required if the design has more
        than one round, and must be the same in each; see :attr:`trigmech.Design.passes`. Not for simulations.

    Returns
    -------
    NoisyMoments or Design
        The released numbers, for :func:`trigmech.reconstruct` and :func:`trigmech.generate`; or, if there is another
        round, its design, which is public: measure all parts again with it.

    Raises
    ------
    InputError
        If there is no part; they answer different questions, or another one than the design's; one is among them twice;
        they have more or fewer persons together than the design is for; or the file of rounds is missing, or of another
        run. Nothing is charged or drawn then.
    BudgetError
        As :func:`trigmech.synthesize`.

    Notes
    -----
    Privacy: (epsilon, delta) under replacing a person, as one table's release: the sums are those of all rows, to the
    last bit. If two parts measured the same rows, this is not noticed. The caller of this function sees exact sums.
    """
    check_design(design)
    whole = added(parts, design.n, Part)
    noise, public_rng = generators(rng)
    if noise.simulated and rounds is not None:
        raise InputError("a simulation (rng) can be repeated, so it must not have a rounds file")
    if not noise.simulated and rounds is None and design.passes > 1:
        raise InputError(f"the design may have {design.passes} rounds; give rounds, the path of a file that keeps the "
                         "released numbers between them")
    return next_of(AskedTable(design, answer_of(whole)), design, lambda _: noise, public_rng, ledger, rounds,
                   noise if noise.simulated else None)


def next_of(table: AskedTable, design: Design, noise_of: Callable[[Recorder], Noise],
            public_rng: np.random.Generator | None, ledger: str | Path | LedgerFile | None, rounds: str | Path | None,
            simulated: Noise | None = None) -> NoisyMoments | Design:
    """Release the noisy answer to the next question; return all that is released, or a design that asks the one after.

    noise_of: Returns the noise of a run, given the recorder of its released numbers.
    public_rng: Used if there is no file of rounds; None if there must be one.
    ledger, rounds: As for :func:`release_parts`.
    simulated: The noise that ``noise_of`` returns, if it is simulated.
    """
    account = Ledger(design.budget, enforced=not design.mechanism.published, simulated=simulated is not None,
                     file=opened_ledger(ledger))
    history = design.history
    begins = None if history is None or history.round else (history.run, history.seed)
    if rounds is not None and history is not None and begins is None and not Path(rounds).exists():
        raise InputError(f"the rounds file {str(rounds)!r} does not exist; it holds the released numbers of the "
                         "earlier rounds")
    kept: AbstractContextManager[rounds_file.RoundsFile | None] = nullcontext() if rounds is None else (
        rounds_file.opened(rounds, begins, **identity(design.schema_given, design, account.file)))
    with kept as file:
        seed = 0
        if file is not None:
            if history is not None and ((attempted(file.run) if begins else file.run) != history.run
                                        or not file.begins_with(history.draws)):
                raise InputError(f"{str(rounds)!r} is the rounds file of another run, not of this design's run")
            seed, public_rng = file.seed, taken_up(account, file)
        elif public_rng is None:
            raise InputError("give rounds, the path of a file that keeps the released values: without it another sum "
                             "of the same shares could be opened")
        recorder = Recorder(history, file, simulated)
        try:
            return run(table, design.schema_given, design, public_rng, account,
                       Session(account, noise_of(recorder), recorder))
        except Unanswered:
            again = 0 if history is None else history.round
            name = account.run or "" if file is not None else "simulation"
            logger.info("round %d is released; the design asks again", again + 1)
            return design.after(History(name, seed, again + 1, tuple(recorder.draws)))


def check_design(design: Design) -> None:
    """Raise an InputError if it is not a design, or not a design for parts."""
    if not isinstance(design, Design) or design.schema is None:
        raise InputError(f"design must be a Design by trigmech.design, not {shown(design)}")
    if design.schema.private_categories:
        raise InputError("private categories cannot be found over parts, because each part has its own set of texts; "
                         "give the categories in the schema")


def repeated(design: Design, answer: Answer | None = None, noise: Noise | None = None
             ) -> tuple[Recorder, Unanswered | None]:
    """Repeat a run with the released numbers and without a table; return their recorder, and the next question."""
    account = Ledger(design.budget, enforced=not design.mechanism.published, simulated=True)
    rng = np.random.default_rng(None if design.history is None else design.history.seed)
    recorder = Recorder(design.history)
    # Without an answer the next question is found without drawing its noise.
    session = Session(account, noise or SimulatedNoise(rng), recorder)
    try:
        run(AskedTable(design, answer), design.schema_given, design, rng, account, session)
    except Unanswered as question:
        return recorder, question
    return recorder, None
