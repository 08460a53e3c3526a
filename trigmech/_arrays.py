"""The types of arrays in annotations."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Codes = NDArray[np.int32]
