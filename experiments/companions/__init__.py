"""The systems of the other sources, each working, each judged: docs/companions.md says what they are.

Simulations from a seeded generator (in the tutorial OpenDP draws), no releases. Neighbours are replace-one if not said.
"""
