"""One file for each subject; `benchmarks.registry` lists them."""
