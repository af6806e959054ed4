# SPDX-License-Identifier: Apache-2.0
"""Names of what a verdict rests on; they are imported without numpy."""

from __future__ import annotations

EXPECTED = "expected outputs"
HOST_SANITIZED = "host twin, own memory per tensor, ASan"
HOST_GUARDED = "host twin, own memory per tensor, guard words"
BOARD_APART = "board image, unshared"
NO_EVIDENCE = "none"

NOT_COMPARED = "RAN, NOT COMPARED"
NOT_WITH_MODEL = "RAN, NOT COMPARED WITH THE MODEL"


def combined(*result: str) -> str:
    """Join the evidence of several comparisons; those that were not made are empty."""
    return " + ".join(filter(None, result)) or NO_EVIDENCE
