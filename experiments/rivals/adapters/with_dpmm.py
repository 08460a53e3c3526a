# /// script
# requires-python = ">=3.11"
# dependencies = ["dpmm==0.1.9"]
#
# [tool.trigmech]
# methods = ["AIM", "AIM-2MB", "MST", "PrivBayes"]
# ///
"""AIM, MST and PrivBayes of the package dpmm, on codes, with its defaults; tables are chosen among the workload.

AIM-2MB is AIM with models of at most 2 megabytes instead of 80, for tables with which AIM does not end in time.
"""

import interface
import numpy as np
from dpmm.models.aim import AIMGM
from dpmm.models.mst import MSTGM
from dpmm.models.priv_bayes import PrivBayesGM

LARGEST = 10_000  # cells of a table that AIM considers, its default

if __name__ == "__main__":
    task = interface.read()
    codes, sizes = interface.coded(task)
    name, _, limit = task.method.partition("-")
    method = {"AIM": AIMGM, "MST": MSTGM, "PrivBayes": PrivBayesGM}[name]
    options = {"max_model_size": 2.0} if limit else {}
    model = method(epsilon=task.epsilon, delta=task.delta, domain=sizes, n_jobs=1,
                   random_state=np.random.RandomState(task.seed), **options)
    chosen_among = {}
    if name == "AIM":
        small = [tuple(names) for names in task.workload if np.prod([sizes[name] for name in names]) <= LARGEST]
        chosen_among["W"] = [(names, 1.0) for names in small]
    model.generator.fit(codes, **chosen_among)
    made = interface.decoded(task, model.generate(task.rows))
    interface.write(task, made, "dpmm", "add or remove", **interface.SPENT[name](task.epsilon, task.delta))
