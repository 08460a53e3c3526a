"""The systems of the other sources, each working, each judged: docs/companions.md says what they are.

Simulations from a seeded generator (in the tutorial OpenDP draws): nothing here goes through the door, nothing is
charged, and nothing is a release. Neighbours are replace-one with n public, unless said.
"""
