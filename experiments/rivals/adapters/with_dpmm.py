# /// script
# requires-python = ">=3.11"
# dependencies = ["dpmm==0.1.9"]
#
# [tool.trigmech]
# methods = ["AIM", "MST", "PrivBayes"]
# ///
"""AIM, MST and PrivBayes of the package dpmm, on codes, with its defaults; tables are chosen among the workload."""

import interface
import numpy as np
from dpmm.models.aim import AIMGM
from dpmm.models.mst import MSTGM
from dpmm.models.priv_bayes import PrivBayesGM

LARGEST = 10_000  # cells of a table that AIM considers, its default

if __name__ == "__main__":
    task = interface.read()
    codes, sizes = interface.coded(task)
    method = {"AIM": AIMGM, "MST": MSTGM, "PrivBayes": PrivBayesGM}[task.method]
    model = method(epsilon=task.epsilon, delta=task.delta, domain=sizes, n_jobs=1,
                   random_state=np.random.RandomState(task.seed))
    options = {}
    if task.method == "AIM":
        small = [tuple(names) for names in task.workload if np.prod([sizes[name] for name in names]) <= LARGEST]
        options["W"] = [(names, 1.0) for names in small]
    model.generator.fit(codes, **options)
    made = interface.decoded(task, model.generate(task.rows))
    rho = interface.rho_of(task.epsilon, task.delta)
    spent = {"AIM": {"measured_rho": 0.9 * rho, "selected_rho": 0.1 * rho},
             "MST": {"measured_rho": rho / 1.5, "selected_rho": rho / 3.0},
             # A network by an exponential mechanism at half of epsilon, whose sensitivity is for replaced rows and for
             # mutual information that is not divided by entropies, as here it is.
             "PrivBayes": {"measured_rho": interface.rho_of(task.epsilon / 2.0, task.delta),
                           "pure_epsilon": task.epsilon / 2.0, "note": "as its program claims"}}[task.method]
    interface.write(task, made, "dpmm", "add or remove", **spent)
