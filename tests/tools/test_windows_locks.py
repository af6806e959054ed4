# SPDX-License-Identifier: Apache-2.0
"""Shared locks by Windows' functions, which are injected: arguments, answers, and the module without fcntl."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mlf_sdk.tools import locks, windowslocks
from mlf_sdk.tools.windowslocks import Overlapped, try_shared


class Kernel:
    """LockFileEx that keeps its arguments."""

    def __init__(self, answer: int, error: int = 0) -> None:
        self.answer, self.error = answer, error
        self.calls: list[tuple[Any, ...]] = []

    def lock_file(self, *arguments: Any) -> int:
        self.calls.append(arguments)
        return self.answer

    def lock(self) -> bool:
        return try_shared(
            7, lock_file=self.lock_file, handle_of=lambda file: file + 100, last_error=lambda: self.error
        )


def test_the_first_byte_is_locked_with_others() -> None:
    kernel = Kernel(1)
    assert kernel.lock()
    ((handle, flags, reserved, low, high, place),) = kernel.calls
    assert (handle.value, flags, reserved, low, high) == (107, 1, 0, 1, 0)
    assert (place._obj.offset, place._obj.offset_high) == (0, 0)
    assert ctypes.sizeof(Overlapped) == 2 * ctypes.sizeof(ctypes.c_size_t) + 8 + ctypes.sizeof(
        ctypes.c_void_p
    )


@pytest.mark.parametrize("error", [33, 997])
def test_one_that_is_held_alone_is_waited_for(error: int) -> None:
    assert not Kernel(0, error).lock()


def test_another_failure_is_an_error() -> None:
    with pytest.raises(OSError, match="LockFileEx failed with error 6"):
        Kernel(0, 6).lock()


def test_locks_ask_windows_there(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(windowslocks, "try_shared", lambda file: not asked.append(file))
    assert locks._try_shared(9, "nt")
    assert asked == [9]


def test_the_module_needs_no_fcntl(tmp_path: Path) -> None:
    code = "import sys; sys.modules['fcntl'] = None; import mlf_sdk.tools.locks"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
