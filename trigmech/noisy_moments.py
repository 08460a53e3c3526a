"""The noisy numbers of a release by name, with the ledger that proves their privacy. All of it is public."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigmech._html import html_table
from trigmech.errors import InputError, TrigmechError, shown
from trigmech.measurement.released import Release
from trigmech.mechanisms.base import Design, Mechanism, PublicFacts
from trigmech.mechanisms.default import mechanism_of
from trigmech.privacy.budget import Budget
from trigmech.privacy.ledger import Ledger
from trigmech.schema.schema import Schema, counted
from trigmech.storage import release_file
from trigmech.tables.frames import like

FRAMES = ("pandas", "polars", "pyarrow")


@dataclass(frozen=True, eq=False)
class NoisyMoments:
    """The noisy means of the measured functions, by name, as :func:`trigmech.measure` returns them. Public.

    See also :attr:`deviations`: in releases by :class:`trigmech.TableMechanism` the noise is correlated.

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
    budget : Budget, optional
        The mechanism's part of the budget; default: the whole budget, if there were no private bounds and categories.
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
    budget: Budget | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        if self.mechanism is None and self.design is not None:
            object.__setattr__(self, "mechanism", self.design.mechanism)
        if self.budget is None:
            object.__setattr__(self, "budget", self.ledger.budget if self.design is None else self.design.facts.budget)

    @cached_property
    def planned(self) -> Design | None:
        """The design of the release, with the complete schema. That of a loaded release is planned again.

        None if the file does not hold the mechanism, or the mechanism would now charge something else.
        """
        if self.design is not None:
            return replace(self.design, schema=self.schema)
        if self.made_by is not None:
            return None
        try:
            return self.planned_by(self.mechanism or mechanism_of(self.release))
        except TrigmechError:
            return None

    def planned_by(self, mechanism: Mechanism) -> Design | None:
        """Return the design of a mechanism for this release; None if the mechanism would charge something else."""
        facts = PublicFacts(self.n, self.release.domain, self.budget or self.ledger.budget, self.schema.names)
        made = mechanism.plan_again(facts, self.ledger.charges)
        return None if made is None else replace(made, schema=self.schema)

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
        intervals (at delta = 0 contrasts of the positions of a short column), and decodes the frequencies from them
        (at delta = 0 and with few rows numbers have means of signs of cosines, which stay as they are):
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
            "release", "ledger", "schema", "library", "categorical", "versions", "mechanism", "made_by", "budget")}

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
            (f"{counted(self.schema)} of the table", f"{self.n:,}"),
            ("columns", ", ".join(self.schema.names)),
            ("moments measured", f"{self.release.K:,}"), *self._made,
            ("made by", ", ".join(f"{name} {version}" for name, version in self.versions.items()))])

    @property
    def _title(self) -> str:
        return "Noisy moments"

    @property
    def _made(self) -> list[tuple[str, str]]:
        return []
