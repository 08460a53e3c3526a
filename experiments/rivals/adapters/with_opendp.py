# /// script
# requires-python = ">=3.11"
# dependencies = ["opendp[mbi]==0.16.0", "mbi==1.1.0", "pandas==2.3.3"]
#
# [tool.trigmech]
# methods = ["AIM", "MST"]
# ///
"""AIM and MST of opendp[mbi], on codes, with its defaults; AIM chooses among the workload."""

import interface
import opendp.prelude as dp
import polars as pl
from opendp.extras.mbi import AIM, MST, Count

dp.enable_features("contrib")

if __name__ == "__main__":
    task = interface.read()
    codes, sizes = interface.coded(task)
    rho = interface.rho_of(task.epsilon, task.delta)
    counts = [Count(tuple(names)) for names in task.workload]
    algorithm = AIM(queries=counts) if task.method == "AIM" else MST()
    context = dp.Context.compositor(data=pl.LazyFrame({name: codes[name].to_numpy() for name in sizes}),
                                    privacy_unit=dp.unit_of(contributions=1), privacy_loss=dp.loss_of(rho=rho))
    query = context.query(rho=rho).select(*sizes).contingency_table(
        keys={name: list(range(size)) for name, size in sizes.items()}, algorithm=algorithm)
    made = query.release().synthesize(rows=task.rows).to_pandas()
    # What is chosen and what is measured is not told apart: group privacy.
    interface.write(task, interface.decoded(task, made.fillna(0)), "opendp", "add or remove", selected_rho=rho)
