# SPDX-License-Identifier: Apache-2.0
"""Output of a runner: what it reports, and its end for an error message."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mlf_sdk.targets.flashers.row import Failure
from mlf_sdk.tools.checks import device_text
from mlf_sdk.tools.process import ProcessResult

_SHOWN_LINES = 30


def joined(result: ProcessResult) -> str:
    """Return standard output and standard error of a program, one behind the other."""
    return "\n".join(filter(None, (result.stdout, result.stderr)))


def reported_failure(failures: Iterable[Failure], output: str) -> Failure | None:
    """Return the first failure whose pattern occurs in a line of the output."""
    return next((f for f in failures if re.search(f.pattern, output, re.MULTILINE)), None)


def with_output(what: str, output: str) -> str:
    """Return a message with the last lines of an output; a board may have written some of them."""
    lines = device_text(output.strip(), keep="\n\t").splitlines()[-_SHOWN_LINES:]
    return f"{what}; it said:\n  " + "\n  ".join(lines) if lines else what
