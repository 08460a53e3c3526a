"""The subjects, in the order of the report."""

from benchmarks.core import Subject
from benchmarks.subjects import engines, files, kernels, means, memory, passes, persons, pricing, program, release

SUBJECTS: dict[str, Subject] = {"means": means.SUBJECT, "memory": memory.SUBJECT, "program": program.SUBJECT,
                                "pricing": pricing.SUBJECT, "kernels": kernels.SUBJECT, "release": release.SUBJECT,
                                "files": files.SUBJECT, "persons": persons.SUBJECT, "engines": engines.SUBJECT,
                                "passes": passes.SUBJECT}
