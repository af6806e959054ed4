# SPDX-License-Identifier: Apache-2.0
"""Direction of placeholders: no field of a bundle states it, so it is concluded, or stated by the user.

Evidence, strongest first: the user's statement; that of the header, in bundles that this SDK wrote; names of
early bundles, whose outputs are called ``save_NAME``; the order in memory, inputs before outputs, which holds
for bundles with one entry that were written since the header has a line with the version, and decides where
there are two placeholders.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mlf_sdk.errors import UndecidedError
from mlf_sdk.frontends.glow.bundle import Placeholder

_SAVED: Final = "save_"


def output_names(
    placeholders: Sequence[Placeholder], stated: Sequence[str], *, ordered: bool, where: str
) -> tuple[str, ...]:
    """Names of the placeholders that are outputs, in the order of the statement or else of their offsets.

    Args:
        stated: outputs by the statement of the user or the header; empty: none.
        ordered: inputs are known to lie before outputs.
        where: the bundle, for errors.

    Raises:
        UndecidedError: the evidence does not decide; or a stated name is none of a placeholder.
    """
    names = [p.name for p in sorted(placeholders, key=lambda p: p.offset)]
    unknown = [name for name in stated if name not in names]
    if unknown:
        raise UndecidedError(f"there is no placeholder '{unknown[0][:80]}'", where=where, names=names)
    if stated:
        return tuple(dict.fromkeys(stated))
    saved = tuple(name for name in names if name.startswith(_SAVED))
    if saved and len(saved) < len(names):
        return saved
    if ordered and len(names) == 2:
        return (names[1],)
    raise UndecidedError("the file does not state which tensors are outputs", where=where, names=names)
