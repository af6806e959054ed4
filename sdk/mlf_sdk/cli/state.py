# SPDX-License-Identifier: Apache-2.0
"""What the options of one invocation decided for the handling of errors."""

from __future__ import annotations

debug = False
as_json = False


def reset() -> None:
    """Forget the last invocation (tests run several in one process)."""
    global debug, as_json  # noqa: PLW0603
    debug = as_json = False


def use_json(wanted: bool) -> bool:
    """Remember that errors are to be JSON as well."""
    global as_json  # noqa: PLW0603
    as_json = as_json or wanted
    return wanted


def use_debug(wanted: bool) -> bool:
    """Remember that an error is to show its traceback, wherever the option stood."""
    global debug  # noqa: PLW0603
    debug = debug or wanted
    return wanted
