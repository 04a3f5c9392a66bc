"""The array type of every numerical piece."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
