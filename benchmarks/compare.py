"""Two result files side by side."""

from collections.abc import Iterator

from benchmarks.core import Row
from benchmarks.report import Record


def differences(old: Record, new: Record) -> Iterator[tuple[str, str, str, str, str, str]]:
    """Yield subject, case, alternative, old and new ratio to the baseline, and old over new time.

    The ratios were each taken within one run and may be compared across machines; the times may not, unless the
    machine is the same and idle.
    """
    for subject, rows in new["subjects"].items():
        before = {(row["case"], row["alternative"]): row for row in old["subjects"].get(subject, [])}
        for row in rows:
            earlier = before.get((row["case"], row["alternative"]))
            if earlier is None:
                continue
            seconds = earlier["seconds"], row["seconds"]
            faster = f"{seconds[0] / seconds[1]:.2f}" if seconds[0] and seconds[1] else ""
            yield subject, row["case"], row["alternative"], _ratio(earlier), _ratio(row), faster


def _ratio(row: Row) -> str:
    return "" if row["ratio"] is None else f"{row['ratio']:.3g}"



def warnings(old: Record, new: Record) -> Iterator[str]:
    """Yield each reason to doubt the comparison: another machine, or a quick run beside a full one."""
    for fact in sorted(old["machine"].keys() | new["machine"].keys()):
        if old["machine"].get(fact) != new["machine"].get(fact):
            yield f"{fact}: {old['machine'].get(fact)} before, {new['machine'].get(fact)} now"
    if old["quick"] != new["quick"]:
        yield "one of the two is a quick run"
