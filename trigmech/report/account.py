"""The answers that a report needs about a release, whatever its kind."""

from trigmech.report.moments import MomentAccount
from trigmech.report.tables import TableAccount
from trigmech.results import Synthesis

Account = MomentAccount | TableAccount


def account_of(synthesis: Synthesis) -> Account:
    """Return the answers to a report's questions about a release."""
    release = synthesis.release
    return TableAccount(synthesis, release) if release.columns else MomentAccount(synthesis, release)
