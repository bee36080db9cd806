# Copyright Contributors to the pyrogram project.
# SPDX-License-Identifier: Apache-2.0
"""Types in the signatures of compiled code."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Lanes = Any  # numbers in a SIMD register, one of each lane; see :mod:`.lanes`
