"""Statistics that end the workers of an engine, or fail in them; workers import no more than these need."""

import dataclasses
import os
from contextlib import suppress
from pathlib import Path

from trigmech.measurement.moments import FunctionSums

# What nobody may read in a message.
SECRET = "sibylle-4711"
# Chunks that this process has added.
seen = []


@dataclasses.dataclass(frozen=True, eq=False)
class Ending(FunctionSums):
    """Sums that end the worker at its third chunk, when others have been answered, for so many times."""

    folder: str = ""
    times: int = 1

    def add(self, chunk, total):
        seen.append(1)
        for k in range(self.times if len(seen) > 2 else 0):
            with suppress(FileExistsError):
                Path(self.folder, f"ended {k}").touch(exist_ok=False)
                os._exit(3)
        super().add(chunk, total)


class Failing(FunctionSums):
    """Sums that fail with words that quote a row."""

    def add(self, chunk, total):
        raise RuntimeError(f"the row {SECRET} is odd")
