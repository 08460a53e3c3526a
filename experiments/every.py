"""All experiments, in the order of the list: each module declares its own."""

from importlib import import_module

from experiments.declare import Experiment

MODULES = ("tables", "figures", "search", "comparison", "curves", "ablations", "coverage", "small", "plans", "large",
           "further", "targets", "textbook", "acceptance", "rates", "nulls", "parties", "lights", "answers", "audit",
           "protocols.boards", *(f"companions.{name}" for name in (
               "statements", "net", "linear_noise", "composition", "tutorial")))


def declared_in(module: str) -> list[Experiment]:
    found = vars(import_module(f"experiments.{module}")).values()
    return [each for one in found for each in (one if isinstance(one, list) else [one]) if isinstance(each, Experiment)]


EXPERIMENTS = {each.name: each for name in MODULES for each in declared_in(name)}
