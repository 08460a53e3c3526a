# /// script
# requires-python = ">=3.11"
# dependencies = ["sdnist==2.4"]
#
# [tool.trigmech]
# methods = []
# ///
"""No rival but NIST's own scorer: the k-marginal score of ``made.csv`` against ``real.csv``, as ``score.json``.

The folder that it is called with holds both as the cycle writes them, and its ``dictionary.json``.
"""

import json
import sys
from pathlib import Path

import pandas as pd
import sdnist.report.dataset.binning as binning  # before its metrics, which import it in a circle
from sdnist.metrics.kmarginal import KMarginal

NUMBERS = ["AGEP", "POVPIP", "PINCP", "PWGTP", "WGTP"]

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    dictionary = json.loads((folder / "dictionary.json").read_text(encoding="utf-8"))
    real, made = (pd.read_csv(folder / f"{name}.csv", dtype=str, keep_default_na=False) for name in ("real", "made"))
    for table in (real, made):
        if "DENSITY" in table:
            table["DENSITY"] = table["DENSITY"].astype(float)
            table["DENSITY"] = binning.bin_density(table, dictionary)["DENSITY"].astype(str)
    binned = binning.add_bin_for_NA(binning.percentile_rank_target(real, NUMBERS), real, NUMBERS)
    placed = binning.add_bin_for_NA(binning.percentile_rank_synthetic(made, real, binned, NUMBERS), made, NUMBERS)
    group = ["PUMA"] if "PUMA" in real else None
    score = KMarginal(binned.astype(str), placed.astype(str), group).compute_score()
    (folder / "score.json").write_text(json.dumps(float(score)), encoding="utf-8")
