# SPDX-License-Identifier: Apache-2.0
"""Progress reports of a pipeline."""

from __future__ import annotations

from mlf_sdk.errors import MlfError


class Progress:
    """Receiver of progress; this one shows nothing.

    Attributes:
        shows_log: the lines of other programs are shown; errors need not repeat them.
    """

    shows_log: bool = False

    def say(self, what: str) -> None:
        """Name the work that begins."""

    def count(self, done: int, total: int) -> None:
        """State how many of all inferences (or bytes) are done."""

    def log(self, line: str) -> None:
        """Pass on one line that another program wrote."""

    def error(self, error: MlfError) -> None:
        """Pass on an error that becomes part of a result."""


SILENT = Progress()
