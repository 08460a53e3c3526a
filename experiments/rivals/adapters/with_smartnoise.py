# /// script
# requires-python = ">=3.11"
# dependencies = ["smartnoise-synth==1.0.8", "mbi==1.1.0"]
#
# [tool.trigmech]
# methods = ["AIM", "MST", "MWEM"]
# ///
"""AIM, MST and MWEM of smartnoise-synth as installed, on codes, with its defaults."""

import interface
import numpy as np
import pandas as pd
from snsynth.aim import AIMSynthesizer
from snsynth.mst import MSTSynthesizer
from snsynth.mwem import MWEMSynthesizer
from snsynth.transform import LabelTransformer, TableTransformer

LARGEST = 10_000  # cells of a table that AIM considers, its default


def public_codes(sizes: dict[str, int]) -> TableTransformer:
    """Return a transformer that knows every code, and has seen no row."""
    everything = pd.DataFrame({name: np.resize(np.arange(size), max(sizes.values())) for name, size in sizes.items()})
    transformer = TableTransformer([LabelTransformer(nullable=False) for _ in sizes])
    transformer.fit(everything)
    return transformer


if __name__ == "__main__":
    task = interface.read()
    codes, sizes = interface.coded(task)
    np.random.seed(task.seed)  # noqa: NPY002 - the package draws from it; noise is from the operating system
    rho = interface.rho_of(task.epsilon, task.delta) if task.delta > 0 else 0.0
    if task.method == "MWEM":
        # Columns one at a time in the model's histogram: of more its size is their product.
        model = MWEMSynthesizer(epsilon=task.epsilon, split_factor=1, add_ranges=False)
        spent = {"pure_epsilon": task.epsilon}
    elif task.method == "AIM":
        model = AIMSynthesizer(epsilon=task.epsilon, delta=task.delta)
        small = [tuple(f"col{list(sizes).index(name)}" for name in names) for names in task.workload
                 if np.prod([sizes[name] for name in names]) <= LARGEST]
        model.get_workload = lambda *_, **__: small
        spent = {"measured_rho": 0.9 * rho, "selected_rho": 0.1 * rho}
    else:
        model = MSTSynthesizer(epsilon=task.epsilon, delta=task.delta)
        spent = {"measured_rho": rho / 1.5, "selected_rho": rho / 3.0}
    model.fit(codes, transformer=public_codes(sizes))
    made = pd.DataFrame(np.asarray(model.sample(task.rows)), columns=list(sizes)).astype(int)
    interface.write(task, interface.decoded(task, made), "smartnoise-synth", "add or remove", **spent)
