"""Queries and their measurements: one class for each kind of query."""
