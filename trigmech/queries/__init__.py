"""Queries and their measurements: one class for each kind of query. A new kind has a module and its name here."""

from trigmech.queries import directions, functions, joint, one_way, signs

__all__ = ["directions", "functions", "joint", "one_way", "signs"]
