"""Experiments on the data sets of the thesis; not part of the installed package."""
