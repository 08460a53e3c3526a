"""All experiments: each module declares its own."""

from experiments import (
    ablations,
    acceptance,
    answers,
    audit,
    comparison,
    consistent,
    coverage,
    curves,
    designs,
    figures,
    further,
    large,
    lights,
    parties,
    program,
    rates,
    search,
    small,
    table_coverage,
    tables,
    targets,
)
from experiments.companions import composition, layers_in_space, net, statements, tutorial
from experiments.declare import EXPERIMENTS, Experiment
from experiments.protocols import boards

__all__ = ["EXPERIMENTS", "MODULES"]

MODULES = (tables, figures, program, search, comparison, curves, ablations, coverage, table_coverage, consistent,
           designs, small, large, further, targets, rates, parties, audit, boards, net, layers_in_space, composition,
           tutorial, statements)
# Experiments that are functions, in modules that declare nothing.
Experiment(name="lights", what="lights that are expected beside those that the table gives (half an hour; needs data)",
           run=lights.lights)
Experiment(name="answers", what="intervals for populations: how many hold the truth (half an hour)",
           run=answers.answers)
Experiment(name="acceptance", what="how often acceptance tests accept what they should (two minutes; no data)",
           run=acceptance.acceptance)
