# SPDX-License-Identifier: Apache-2.0
"""Facts about a model that its file does not hold and that the user states."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from mlf_sdk.compiler.options import CompileOptions
from mlf_sdk.errors import InputError
from mlf_sdk.ir.dtype import DType

_TYPE: Final = re.compile(r"([^=\s]{1,1024})=([a-z0-9]{1,16})(?:\[([0-9, ]{0,200})\])?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedType:
    """Element type of a tensor, and its extents (None: one, of all elements)."""

    dtype: DType
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """Statements of the user about one file.

    Attributes:
        outputs: names of the tensors that are outputs; all others that a caller sees are inputs.
        options: of the compiler, for models that are compiled when they are loaded.
        types: as ``NAME=TYPE`` or ``NAME=TYPE[EXTENT,...]``, e.g. ``input=float32[1,8]``.
    """

    outputs: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    options: CompileOptions | None = None

    @property
    def is_empty(self) -> bool:
        """True when nothing is stated about the file itself."""
        return not (self.outputs or self.types)

    def types_by_name(self) -> dict[str, StatedType]:
        """The types by the name of their tensor.

        Raises:
            InputError: a text is none, or two are about one tensor.
        """
        return dict(_parsed(self.types))


NOTHING: Final = Stated()


def _parsed(texts: Iterable[str]) -> Iterable[tuple[str, StatedType]]:
    seen: set[str] = set()
    for text in texts:
        found = _TYPE.fullmatch(text)
        if found is None or found[1] in seen:
            raise InputError(
                f"invalid value {text[:80]!r}",
                where="--type",
                hint="State each tensor once, as NAME=TYPE or NAME=TYPE[EXTENT,EXTENT]: input=float32[1,8]",
            )
        seen.add(found[1])
        shape = None if found[3] is None else tuple(map(int, found[3].replace(",", " ").split()))
        yield found[1], StatedType(dtype=DType.parse(found[2]), shape=shape)


def refuse_statements(stated: Stated, where: str) -> None:
    """Refuse statements about a file that holds those facts itself.

    Raises:
        InputError: anything is stated.
    """
    if not stated.is_empty:
        flag = "--output-name" if stated.outputs else "--type"
        raise InputError(
            "the file states its inputs, outputs and types itself",
            where=f"{where}, {flag}",
            hint=f"Leave out {flag}.",
        )
