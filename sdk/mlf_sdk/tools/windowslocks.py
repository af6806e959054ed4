# SPDX-License-Identifier: Apache-2.0
"""Locks that several processes hold together on Windows, where there is no ``flock``.

Source: ``LockFileEx`` in Microsoft's reference of the file functions. The first byte of the file is locked,
as by the exclusive locks of the package filelock, so that each of both kinds waits for the other.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from importlib import import_module
from typing import Any

_FAIL_IMMEDIATELY = 1  # LOCKFILE_FAIL_IMMEDIATELY; without LOCKFILE_EXCLUSIVE_LOCK it is shared
_HELD = (33, 997)  # ERROR_LOCK_VIOLATION, ERROR_IO_PENDING


class Overlapped(ctypes.Structure):
    """Place of the locked bytes: ``OVERLAPPED``."""

    _fields_ = (
        ("internal", ctypes.c_size_t),
        ("internal_high", ctypes.c_size_t),
        ("offset", ctypes.c_uint32),
        ("offset_high", ctypes.c_uint32),
        ("event", ctypes.c_void_p),
    )


def try_shared(
    file: int,
    *,
    lock_file: Callable[..., int] | None = None,
    handle_of: Callable[[int], int] | None = None,
    last_error: Callable[[], int] | None = None,
) -> bool:
    """Lock an open file together with others, as long as it is open; False: another one holds it alone.

    Args:
        file: its descriptor.
        lock_file: ``LockFileEx``; None: that of the system.
        handle_of: handle of a descriptor; None: as the C library has it.
        last_error: code of the last failure; None: that of the system.

    Raises:
        OSError: it can't be locked.
    """
    system: Any = ctypes
    call = lock_file or system.WinDLL("kernel32", use_last_error=True).LockFileEx
    handle = (handle_of or import_module("msvcrt").get_osfhandle)(file)
    place = Overlapped()
    if call(ctypes.c_void_p(handle), _FAIL_IMMEDIATELY, 0, 1, 0, ctypes.byref(place)):
        return True
    code = (last_error or system.get_last_error)()
    if code in _HELD:
        return False
    raise OSError(code, f"LockFileEx failed with error {code}")
