"""Experiments on the data sets of the thesis; not part of the installed package."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
