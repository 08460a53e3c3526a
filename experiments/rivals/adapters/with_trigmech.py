# /// script
# [tool.trigmech]
# methods = ["default", "smooth"]
# ///
"""The package itself, in a process of its own like its rivals: by default, and as designed for smooth queries alone."""

import json
import warnings

import interface
import numpy as np

import trigmech as tm

if __name__ == "__main__":
    task = interface.read()
    schema = tm.Schema.from_dict(json.loads((task.folder / "own.json").read_text(encoding="utf-8")))
    table = task.table
    for column in schema.columns:
        if column.categories is not None:
            # Text in the file; in the schema perhaps numbers.
            of_text = {str(category): category for category in column.categories}
            table[column.name] = [of_text.get(value) for value in table[column.name]]
    mechanism = tm.MomentMechanism() if task.method == "smooth" else None
    # A protocol may ask for more than tables of two columns: for three columns, or for all tables within one column.
    columns = max(map(len, task.workload), default=0) - bool(task.within)
    workload = tm.workload.Marginals(3 if columns > 2 else 2, task.within or None) if task.method == "default" and (
        task.within or columns > 2) else None
    rng = np.random.default_rng(task.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tm.FitWarning)
        made = tm.synthesize(table, schema, tm.Budget(task.epsilon, task.delta), mechanism, rng, workload=workload)
    interface.write(task, made.sample(task.rows, rng), "trigmech", "replace", warnings=len(made.warnings),
                    proved_epsilon=made.ledger.proved_epsilon)
