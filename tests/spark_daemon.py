"""Spark's starter of Python workers, with the package loaded: workers are copies of it and load it no more."""

import engine_statistics  # noqa: F401
import pandas  # noqa: F401
import pyarrow.parquet  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import trigmech.engines.spark  # noqa: F401

if __name__ == "__main__":
    manager()
