"""Arrays by what they hold, as signatures call them."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Keys = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]
