# SPDX-License-Identifier: Apache-2.0
"""Differences between versions of Zephyr that matter when an application is generated.

Header names are no part of it: sources ask for them with ``__has_include``.
"""

from __future__ import annotations

import msgspec

from mlf_sdk.targets.zephyr.tree import ZephyrVersion

_EXTRA_MODULES = ZephyrVersion(3, 3, 0)
_CPP = ZephyrVersion(3, 3, 0)
_SMP = ZephyrVersion(3, 7, 0)
_NATIVE_PTY = ZephyrVersion(4, 1, 99)


class ZephyrProfile(msgspec.Struct, frozen=True, kw_only=True):
    """A version's names.

    Attributes:
        series: major and minor version.
        extra_modules: the CMake variable that takes more modules.
        stdinout: the option that connects the native board's UART to standard input and output.
        cpp: the option that compiles C++.
        smp: MCUmgr has the options that ``smp.conf`` names.
    """

    series: str
    extra_modules: str
    stdinout: str
    cpp: str
    smp: bool


def profile_of(version: ZephyrVersion) -> ZephyrProfile:
    """The profile of a version; one that is newer than what is known is taken for the newest."""
    return ZephyrProfile(
        series=version.series,
        extra_modules="EXTRA_ZEPHYR_MODULES" if version >= _EXTRA_MODULES else "ZEPHYR_EXTRA_MODULES",
        stdinout="CONFIG_UART_NATIVE_PTY_0_ON_STDINOUT"
        if version >= _NATIVE_PTY
        else "CONFIG_NATIVE_UART_0_ON_STDINOUT",
        cpp="CONFIG_CPP" if version >= _CPP else "CONFIG_CPLUSPLUS",
        smp=version >= _SMP,
    )
