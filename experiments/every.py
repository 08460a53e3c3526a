"""All experiments: each module declares its own."""

from types import ModuleType

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
from experiments.declare import Experiment
from experiments.protocols import boards

MODULES = (tables, figures, program, search, comparison, curves, ablations, coverage, table_coverage, consistent,
           designs, small, large, further, targets, rates, parties, audit, boards, net, layers_in_space, composition,
           tutorial, statements)
# Experiments that are functions, in modules that declare nothing.
FUNCTIONS = (
    Experiment(name="lights", what="lights that are expected beside those that the table gives (half an hour; needs "
               "data)", run=lights.lights),
    Experiment(name="answers", what="intervals for populations: how many hold the truth (half an hour)",
               run=answers.answers),
    Experiment(name="acceptance", what="how often acceptance tests accept what they should (two minutes; no data)",
               run=acceptance.acceptance))


def declared_in(module: ModuleType) -> list[Experiment]:
    """Return what a module declares: as names of its own, or in a list."""
    return [each for found in vars(module).values() for each in (found if isinstance(found, list) else [found])
            if isinstance(each, Experiment)]


EXPERIMENTS = {each.name: each for each in (*(each for module in MODULES for each in declared_in(module)), *FUNCTIONS)}
