"""The types of arrays in annotations, and when numbers count as the same."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Codes = NDArray[np.int32]

# Numbers that vary by less, relative to their size or to each other, do not vary but for rounding.
SAME = 1e-9
