# SPDX-License-Identifier: Apache-2.0
"""The date that documents carry: that of the sources where it is stated, so that they can be made again."""

from __future__ import annotations

import os
from datetime import datetime, timezone

from mlf_sdk.errors import InputError

EPOCH = "SOURCE_DATE_EPOCH"


def source_date() -> datetime | None:
    """Date that the environment states, in UTC; None: it states none.

    Raises:
        InputError: it is no number of seconds since 1970.
    """
    text = os.environ.get(EPOCH)
    if not text:
        return None
    try:
        return datetime.fromtimestamp(int(text), timezone.utc)
    except (ValueError, OverflowError, OSError) as error:
        raise InputError(
            f"no number of seconds since 1970: {text[:40]!r}", where=EPOCH, hint=f"Unset {EPOCH}, or mend it."
        ) from error
