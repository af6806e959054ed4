# SPDX-License-Identifier: Apache-2.0
"""An operator that comes with its kernel: the code of another generator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.operators import Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated(Operator):
    """An operator whose kernel was made when the model was read."""

    has_meaning: ClassVar[bool] = False
    kernel: Kernel = field(repr=False, compare=False)
