# /// script
# requires-python = ">=3.11"
# dependencies = ["privsyn-core==0.1.1"]
#
# [tool.trigmech]
# methods = ["PrivSyn"]
# ///
"""PrivSyn of the package privsyn-core, on codes, with its defaults."""

import interface
from privsyn import PrivSynModel

if __name__ == "__main__":
    task = interface.read()
    codes, sizes = interface.coded(task)
    model = PrivSynModel(epsilon=task.epsilon, delta=task.delta, random_state=task.seed)
    model.fit(codes, sizes)
    made = interface.decoded(task, model.sample(task.rows))
    interface.write(task, made, "privsyn-core", "add or remove",
                    measured_rho=interface.rho_of(task.epsilon, task.delta))
