"""Inference about the private table and its population: weights, imputations, estimates with intervals."""
