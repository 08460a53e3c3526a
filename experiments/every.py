"""All experiments, in the order of the list: each module declares its own."""

from importlib import import_module

from experiments.companions import composition, linear_noise, net, tutorial
from experiments.declare import Experiment

MODULES = ("tables", "figures", "search", "comparison", "curves", "ablations", "coverage", "small", "large", "further",
           "targets", "textbook", "acceptance", "rates", "nulls", "parties", "lights", "answers", "audit",
           "protocols.boards", "companions.statements")
# Experiments that are functions, which write their results themselves.
FUNCTIONS = [Experiment(name=name, what=what, run=run) for name, run, what in (
    ("net", net.net, "companions: the exponential and the net mechanism (a minute; no data)"),
    ("linear", linear_noise.linear, "companions: near-optimal noise for linear queries, and how near (a minute; no "
     "data)"),
    ("composition", composition.composition, "companions: theorems of composition against the exact optimum (seconds; "
     "no data)"),
    ("tutorial", tutorial.tutorial, "companions: a tutorial's primitives on Adult, printed numbers beside ours (a "
     "minute)"))]


def declared_in(module: str) -> list[Experiment]:
    """Return what a module declares: as names of its own, or in a list."""
    found = vars(import_module(f"experiments.{module}")).values()
    return [each for one in found for each in (one if isinstance(one, list) else [one]) if isinstance(each, Experiment)]


EXPERIMENTS = {each.name: each for each in (*(each for name in MODULES for each in declared_in(name)), *FUNCTIONS)}
