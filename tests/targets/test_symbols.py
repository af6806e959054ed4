# SPDX-License-Identifier: Apache-2.0
"""Functions that an image has for objects, and those that it lacks."""

from __future__ import annotations

import pytest

from mlf_sdk.targets.boards.requirements import is_provided

PROVIDED = (
    *("memcpy", "expf", "exp", "nearbyintf", "atan2f", "__aeabi_fmul", "__aeabi_unwind_cpp_pr0"),
    *("__addsf3", "__divdi3", "__truncdfsf2", "TVMBackendAllocWorkspace"),
)


@pytest.mark.parametrize("name", PROVIDED)
def test_provided(name: str) -> None:
    assert is_provided(name)


@pytest.mark.parametrize(
    "name", ["malloc", "posix_memalign", "free", "printf", "fopen", "arm_cm_add", "xexp"]
)
def test_not_provided(name: str) -> None:
    assert not is_provided(name)
