"""PRIVATE. Shares: parts with a share of the noise, so that nobody has the exact sums of all.

Each of m parties computes the numbers to be drawn from *its own* sums, in whole multiples of a step g, and adds its own
discrete Gaussian noise. The shares are added as whole numbers, and their sum *is* the draw: nobody adds noise to it,
and nobody can remove any. Up to t parties may be curious: each knows its own noise. So the noise of any m - t other
parties must be enough.

**Draws are linear.** Sums over persons answer a question, and a draw is a linear function of these sums, divided by the
n of the design, without a constant: frequencies, prefix sums (a matrix), weighted tables and means, counts for private
bounds. So the draw of a whole table is the sum of the parties' draws. This holds for the package's own mechanisms,
``MomentMechanism`` and ``TableMechanism``; others are refused (the thesis's axes use a covariance, which is quadratic
in sums), and so is noise that is not Gaussian. Each release checks, before the charge, that no persons give a draw of
0.

**The noise.** A charge has a scale s (standard deviation) and a sensitivity D in L2. D holds also for one party's
values, with the rounding of floats: they are sums over some of the n persons. With a power of two g, 2^40 g <= s, and
K <= 2^24 entries, replacing a person moves one party's integers round(values / g) by at most
D' = D / g + sqrt(K) <= D / g + 2^12 in L2.
Each party adds, independently in each entry, z in Z of probability proportional to exp(-z^2 / (2 v)), with
v = (s / g)^2 (D' g / D)^2 / (m - t), raised by a part in 10^12. As s / g >= 2^40 and m <= 10^4: v >= 2^66.

**Theorem.** Given everything that the other parties hold, all draws of a run from the sum of at least m - t shares are,
up to factors between exp(-10^-300) and exp(10^-300) in every probability, a post-processing of the Gaussian mechanisms
that the ledger is charged for. So for all its events S and neighbours, and every epsilon: P(S) <= exp(epsilon + 2e-300)
P'(S) + exp(1e-300) delta(epsilon) + 1e-300, with the delta of these charges by mu-GDP.

*Proof.* Write N(c, v) for the discrete Gaussian on the integers and theta_v(u) for the sum over all integers y of
exp(-(y - u)^2 / (2 v)). By Poisson's summation theta_v(u) / sqrt(2 pi v) = 1 + 2 sum_{j >= 1} exp(-2 pi^2 v j^2)
cos(2 pi j u), which for v >= 1/4 is within 1 +- e(v), e(v) = 3 exp(-2 pi^2 v).

(1) *The sum of discrete Gaussians is nearly one* (Kairouz, Liu and Steinke 2021). For independent N(0, a) and N(0, b)
completing the square gives the sum at x the probability exp(-x^2 / (2 (a + b))) theta_c(x a / (a + b)) up to a
constant, with c = a b / (a + b). Both this and N(0, a + b) sum to 1, so their ratio is between (1 - e(c)) / (1 + e(c))
and its inverse. Adding an independent number to both keeps such bounds. One after another, k of variance v and one
more have c = v k / (k + 1) >= v / 2, so for h <= 10^4 of them the ratio to N(0, h v) is within exp(+-3 h e(v / 2)).

(2) *A discrete Gaussian is nearly a rounded normal number.* Let X be normal with mean q (an integer) and variance
V - r, and let y be drawn of the integers with probability exp(-(y - X)^2 / (2 r)) / theta_r(X), which knows X alone.
With sqrt(2 pi r), within 1 +- e(r), in place of theta_r, integrating over X gives the normal density of variance V at
y - q; this is N(q, V) at y within 1 +- e(V). So the ratio of the two is within exp(+-5 e(r)) for V >= r.

(3) With V = (m - t) v and r = 2^10, the ratio in each entry is within exp(+-(3 10^4 e(2^65) + 5 e(2^10))), which for
2^24 entries a draw, and any number of draws that a machine makes, is far within exp(+-10^-300): e(2^10) < 10^-8700. The
normal numbers have the variance V - r and the integers q a sensitivity of D', so this is mu-GDP with mu = D' /
sqrt(V - r) <= D / s, the charge's: r / V < 2^-69 is less than the part by which v is raised. The noise of the others is
independent, so it may be known. Later draws depend only on released numbers, so probabilities multiply, and so do the
factors. Multiplying by g and rounding to a float is post-processing. (The last 10^-300 is for OpenDP's integers, which
are cut at 2^63: of a standard deviation below 2^50 with a probability below exp(-2^24).)

By the theorem of Kairouz, Liu and Steinke, the same sum is epsilon^2 / 2 zero-concentrated private with
epsilon = D' / sqrt(V) + tau sqrt(K), tau = 10 sum_{k < m - t} exp(-2 pi^2 v k / (k + 1)). This number, with the cost of
one share's noise by OpenDP's own map, is computed before the charge, and must not exceed the charge's mu^2 / 2.

**A share alone is not protected.** A share has 1 / (m - t) of the variance. If somebody opens one share alone, it is mu
sqrt(m - t)-GDP for the persons of its party, and no charge counts this. So nobody should look at single shares: use
secure aggregation of whole numbers, or a person who only adds and does not release. The theorem is for *one* sum. If
two sums have some shares in common, and others not, their difference has less noise than was charged. So shares belong
to one run, which their design names (:meth:`trigmech.Design.for_shares`), and the ledger takes the charges of the run
once, from one rounds file; another ledger would take them again. Parties have numbers, so that no party is added twice
in the place of another. Parties must follow the protocol: a party that leaves out its noise is one of the t. The size
of each party is not protected.

References
----------
Kairouz, Liu and Steinke 2021, The distributed discrete Gaussian mechanism for federated learning with secure
aggregation. Canonne, Kamath and Steinke 2020, The discrete Gaussian for differential privacy.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from trigmech._arrays import Array
from trigmech._validate import check_integers
from trigmech.errors import BudgetError, InputError
from trigmech.measurement.rows import Progress
from trigmech.measurement.sums import LIMB, Statistic, Total
from trigmech.mechanisms.base import Design
from trigmech.mechanisms.moment import MomentMechanism
from trigmech.mechanisms.table import TableMechanism
from trigmech.noisy_moments import NoisyMoments
from trigmech.parts.answers import Answer, AskedTable, Recorder, nothing
from trigmech.parts.part import MOST_PARTS, Part, added, check_question
from trigmech.parts.steps import check_design, measure_part, next_of, repeated
from trigmech.planning.design import UPWARD
from trigmech.privacy.budget import Charge
from trigmech.privacy.ledger_file import LedgerFile
from trigmech.privacy.noise import integer_gaussian, integer_gaussian_rho, lattice_step
from trigmech.storage.rounds_file import fingerprint

MOST_ENTRIES = 2**24
# So that 10,000 shares fit into two limbs.
LARGEST = 2.0**80


# The text of a part, which hides the values.
@dataclass(frozen=True, eq=False, repr=False)
class Share(Part):
    """One party's sums with its share of the noise: **private** until all shares are added. By ``share_part``.

    Shares are added as parts are. One alone has too little noise: see :mod:`trigmech.parts.shares`.

    Parameters
    ----------
    total : Total
        The drawn numbers for the question, in multiples of each charge's step, with noise.
    question : str
        The question, as in a part.
    identities : frozenset of str
        The parties whose rows it contains, such as "party 2"; shares with a common party cannot be added.
    parties : int
        m: the number of shares that are released together.
    tolerated : int
        t: the number of parties that may use the knowledge of their own noise.
    """

    parties: int
    tolerated: int

    KIND: ClassVar[str] = "trigmech share"
    PRIVACY: ClassVar[str] = ("NOT PRIVATE alone: it has a share of the noise; only the sum of the shares of all "
                              "parties may be opened, once")
    TWICE: ClassVar[str] = "a party would be added twice: both hold a share of the same party"
    MORE: ClassVar[dict[str, Any]] = {"parties": (int, 1), "tolerated": (int, 0)}


def share_part(table: Any, design: Design, *, party: int, parties: int, tolerated: int = 0,
               progress: Progress | None = None) -> Share:
    """Return one party's sums for the design's next round, with the party's share of the noise: **private** alone.

    Parameters
    ----------
    table : dataframe, array_like (n, d), path or TableFile, private
        All rows of the party's persons, as for :func:`trigmech.measure_part`.
    design : Design
        The same for all parties, made once. For the first round, :func:`trigmech.design` makes it for the total number
        of persons, and :meth:`trigmech.Design.for_shares` prepares it. For later rounds, :func:`release_shares` does.
    party : int
        The number of this party, from 1 to m. Each party has its own number in all rounds, so that no rows are added
        twice in the place of another party's rows.
    parties : int
        m, up to 10,000: exactly so many shares will be released together.
    tolerated : int
        t < m: the number of parties that may use the knowledge of their own noise, together with the person who
        releases. The noise in the sum has m / (m - t) times the design's variance; error bars do not include this.
    progress : callable, optional

    Raises
    ------
    InputError
        As :func:`trigmech.measure_part`; if the numbers of parties do not fit, or the design is not for shares, or its
        mechanism is not ``MomentMechanism`` or ``TableMechanism`` with delta > 0.

    Notes
    -----
    Privacy: a single share is not private; the proof for the sum is in :mod:`trigmech.parts.shares`. Cost: as
    ``measure_part``, and about 20 microseconds for each drawn number.
    """
    _check_shareable(design)
    check_integers(1, party=party, parties=parties)
    check_integers(0, tolerated=tolerated)
    if not tolerated < parties <= MOST_PARTS:
        raise InputError(f"parties must be at most {MOST_PARTS:,} and more than tolerated; given parties={parties} and "
                         f"tolerated={tolerated}")
    if party > parties:
        raise InputError(f"party must be from 1 to parties; given party={party} and parties={parties}")
    part = measure_part(table, design, progress=progress)

    def answer(asked: Statistic, question: str) -> Total:
        check_question(part, question)
        total = nothing(asked, design.n)
        total += part.total
        # Means are over the persons of all parties.
        total.n = design.n
        return total

    limbs = [_shared(values, charge, parties, tolerated).limbs for charge, values in drawn(design, answer)]
    total = Total(0)
    total.limbs, total.n = np.concatenate(limbs, axis=1), part.n
    return Share(total, _question(part.question, parties, tolerated), _parties([party]), parties, tolerated)


def release_shares(shares: Sequence[Share], design: Design, *, rounds: str | Path,
                   ledger: str | Path | LedgerFile | None = None) -> NoisyMoments | Design:
    """Release the sum of shares, as :func:`trigmech.release_parts` releases parts; it already contains the noise.

    Parameters
    ----------
    shares : sequence of Share, private
        The shares of all parties, from :func:`share_part`; or only their sum.
    design : Design
        The design that made the shares.
    rounds : path
        The file that keeps all released numbers, the same in each round. It is also required for a single round: after
        it holds a sum, no other sum is opened.
    ledger : path or LedgerFile, optional
        As for :func:`trigmech.release_parts`.

    Returns
    -------
    NoisyMoments or Design
        As :func:`trigmech.release_parts`.

    Raises
    ------
    InputError
        If a share is missing, a party has two shares, or the shares have another question, number of parties or number
        of persons; if the ledger has charges of the design's run from another rounds file, because another sum was
        then opened; or as :func:`trigmech.release_parts`. Then nothing is charged or opened.
    BudgetError
        As :func:`trigmech.synthesize`; or if the proved cost of the noise in the shares exceeds a charge.

    Notes
    -----
    Privacy: (epsilon, delta) under replacing a person within a party, also against ``tolerated`` parties. All parties
    must take part: n is public and is that of the design, so without a party its persons would be missing; in this case
    make a new design without the party, and new shares. Each share may be opened in only one sum. The rounds file and
    the ledger record the opened runs; another ledger, or a second rounds file without a ledger, is not noticed.
    """
    _check_shareable(design)
    whole = added(shares, design.n, Share)
    if whole.identities != _parties(range(1, whole.parties + 1)):
        raise InputError(f"the shares are made for {whole.parties} parties, but {len(whole.identities)} are given: "
                         f"give all of them, with the numbers from 1 to {whole.parties}")

    def answer(asked: Statistic, question: str) -> Total:
        check_question(whole, _question(question, whole.parties, whole.tolerated))
        return nothing(asked, design.n)

    of_nobody = [values for _, values in drawn(design, answer)]
    if any(values.any() for values in of_nobody) or sum(map(np.size, of_nobody)) != whole.total.limbs.shape[1]:
        raise InputError("the shares do not contain the statistic that they name")
    return next_of(AskedTable(design, answer), design, lambda recorder: _SharedNoise(whole, recorder, _known(design)),
                   None, ledger, rounds)


def load_part(path: str | Path) -> Part:
    """Return the part or the share of a file.

    Raises an InputError as :meth:`Part.load`.
    """
    try:
        return Share.load(path)
    except InputError:
        return Part.load(path)


def drawn(design: Design, answer: Answer) -> list[tuple[Charge, Array]]:
    """Return the charge and the exact values of each draw for the question that is next; **private**."""
    noise = _Captured()
    recorder, _ = repeated(design, answer, noise)
    charges = [charge for charge, _ in recorder.draws[_known(design):]]
    return list(zip(charges, noise.values, strict=True))


def share_scale(scale: float, sensitivity: float, parties: int, tolerated: int) -> float:
    """Return the standard deviation of the noise in a share, in steps; see the module's docstring."""
    step = lattice_step(scale)
    return scale / step * _distance(sensitivity, step) / (sensitivity / step) / math.sqrt(parties - tolerated) * UPWARD


def shares_rho(scale: float, sensitivity: float, parties: int, tolerated: int) -> float:
    """Return the rho of zero-concentrated privacy that is proved of the sum of the shares that are not tolerated."""
    honest, own = parties - tolerated, share_scale(scale, sensitivity, parties, tolerated)
    one = integer_gaussian_rho(own, _distance(sensitivity, lattice_step(scale)))
    tau = 10.0 * sum(math.exp(-2.0 * math.pi**2 * own * own * k / (k + 1)) for k in range(1, honest))
    return (math.sqrt(2.0 * one / honest) + tau * math.sqrt(MOST_ENTRIES)) ** 2 / 2.0


class _Captured:
    """Keeps the values that would get noise, and releases zeros in their place."""

    simulated = True

    def __init__(self) -> None:
        self.values: list[Array] = []

    def gaussian(self, values: Array, scale: float) -> Array:
        """Keep the values, and return zeros."""
        self.values.append(np.array(values, dtype=np.float64))
        return np.zeros(np.shape(values))

    laplace = linf = exponential = gaussian

    def loss(self, law: str, scale: float, sensitivity: float) -> float:
        """Return infinity."""
        return math.inf


class _SharedNoise:
    """Draws the sum of all parties' shares: their values and their noise."""

    simulated = False

    def __init__(self, share: Share, recorder: Recorder, before: int) -> None:
        self._share, self._recorder, self._before = share, recorder, before

    def gaussian(self, values: Array, scale: float) -> Array:
        """Return the numbers of this draw from the shares; the given values are those of nobody."""
        # Numbers of this round that are released already, also by a run that was broken off, are not drawn again.
        first = sum(np.size(released) for _, released in self._recorder.draws[self._before:])
        step = lattice_step(scale)
        own = self._share.total.part(slice(first, first + np.size(values))).over(0) * step
        return own.reshape(np.shape(values))

    def laplace(self, values: Array, scale: float) -> Array:
        """Refuse: shares have Gaussian noise."""
        raise BudgetError("shares can have Gaussian noise only")

    linf = exponential = laplace

    def loss(self, law: str, scale: float, sensitivity: float) -> float:
        """Return the proved cost of the noise in the shares."""
        return shares_rho(scale, sensitivity, self._share.parties, self._share.tolerated) if law == "gaussian" else (
            math.inf)


def _shared(values: Array, charge: Charge, parties: int, tolerated: int) -> Total:
    """Return values in steps, with a party's share of the noise."""
    whole = np.rint(np.ravel(values) / lattice_step(charge.scale))
    if whole.size > MOST_ENTRIES or not (np.abs(whole) <= LARGEST).all():
        raise InputError(f"{charge.purpose}: shares can hold at most {MOST_ENTRIES:,} numbers, each at most 2^39 times "
                         "the noise")
    total = Total(whole.size)
    # Both are whole numbers that floats hold.
    high = np.floor(whole / 2.0**LIMB)
    total.limbs[0], total.limbs[1] = high, whole - high * 2.0**LIMB
    total.add(integer_gaussian(whole.size, share_scale(charge.scale, charge.sensitivity, parties, tolerated)))
    return total


def _distance(sensitivity: float, step: float) -> float:
    return sensitivity / step + math.sqrt(MOST_ENTRIES)


def _known(design: Design) -> int:
    """Return how many draws the rounds before made."""
    return 0 if design.history is None else len(design.history.draws)


def _parties(numbers: Iterable[int]) -> frozenset[str]:
    return frozenset(f"party {number}" for number in numbers)


def _question(question: str, parties: int, tolerated: int) -> str:
    return fingerprint("share", question, parties, tolerated)


def _check_shareable(design: Design) -> None:
    check_design(design)
    if type(design.mechanism) not in (MomentMechanism, TableMechanism) or any(
            charge.law != "gaussian" for charge in design.all_charges):
        raise InputError("noise can be shared only for MomentMechanism and TableMechanism with delta > 0, because "
                         "their released numbers are linear in sums and have Gaussian noise; this design is for "
                         f"{type(design.mechanism).__name__} and {design.budget}")
    if design.history is None:
        raise InputError("the design is not for a run with shares: let one party make such a design for all, with "
                         "design.for_shares() or 'part design --shares'")
