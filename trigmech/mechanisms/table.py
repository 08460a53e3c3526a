"""Columns first, then how they depend on each other, then rows: the mechanism for tables that one would publish."""

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trigmech.distribution import Distribution
from trigmech.functions import prefix_sums
from trigmech.functions.partition import Partition, columns_of
from trigmech.measurement.counts import histograms, joint_counts
from trigmech.planning.dependence import DependenceDesign, design_dependence
from trigmech.planning.tables import SCORE_BITS, Shares, TableDesign, heavy_intervals, plan_tables
from trigmech.reconstruction.columns import ReleasedColumn, distribution_of, looked_closer
from trigmech.reconstruction.rows import RowObjective

Array = NDArray[np.float64]

def release_tables(rows, design, session, progress=None):
    counts = histograms(rows, design.partitions)
    session.charge(*design.charges)
    n = rows.n
    parts = [w * (prefix_sums.encoded(p, c / n) if design.gaussian else c / n) for w, p, c in zip(design.weights, design.partitions, counts)]
    noisy = session.draw(np.concatenate(parts), design.look)
    stops = np.cumsum([p.size for p in design.partitions])
    columns=[]
    dev = design.look.scale*(1 if design.gaussian else np.sqrt(2))
    for p, w, v in zip(design.partitions, design.weights, np.split(noisy, stops[:-1])):
        columns.append(distribution_of(p, v / w, dev / w, design.gaussian))
    heavy = heavy_intervals(design, columns)
    if heavy:
        fine = [np.concatenate([[-1.0] if f[0] > -1 else [], f, [1.0] if f[-1] < 1 else []]) for _, _, f in heavy]
        counts = histograms(rows, [columns[j].partition.cut(e) for (j, _, _), e in zip(heavy, fine)])
        wc = design.closer_weight
        vals=[]
        for (j,i,f),c in zip(heavy,counts):
            at = len(columns[j].partition.indicators) + (f[0] > -1)
            vals.append(c[at:at+len(f)-1]/n*wc)
        noisy = session.draw(np.concatenate(vals), design.closer)/wc
        at=0
        for (j,i,f) in heavy:
            columns[j] = looked_closer(columns[j], i, f, noisy[at:at+len(f)-1], design.closer_deviation); at+=len(f)-1
    if design.dependence is None:
        return columns, None, None, None, None
    dep = design_dependence(design, columns)
    tables = [((j,h),(dep.maps[j],dep.maps[h])) for j,h in dep.tables.tolist()]
    counts, sums = joint_counts(rows, [c.partition for c in columns], tables, dep.scores, dep.pairs)
    vec = np.concatenate([w*c.ravel()/n for w,c in zip(dep.weights, counts)] + [dep.product_weight*sums.ravel()/(n*4.0**SCORE_BITS)])
    noisy = session.draw(vec, design.dependence)
    out=[];at=0
    for w,c in zip(dep.weights,counts):
        out.append(noisy[at:at+c.size].reshape(c.shape)/w); at+=c.size
    products = noisy[at:].reshape(sums.shape)/dep.product_weight if len(dep.pairs) else np.zeros((0,0,0))
    sigma = design.dependence.scale*(1 if design.gaussian else np.sqrt(2))
    return columns, dep, out, products, sigma
