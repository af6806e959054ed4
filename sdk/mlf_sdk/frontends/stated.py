# SPDX-License-Identifier: Apache-2.0
"""Facts about a model that its file does not hold and that the user states."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable
from typing import Final

import msgspec

from mlf_sdk.compiler.options import CompileOptions
from mlf_sdk.errors import InputError
from mlf_sdk.ir.dtype import DType
from mlf_sdk.ir.model import Model
from mlf_sdk.ir.tensor import Quantisation

_FLAG: Final = "--quantisation"
_TYPE: Final = re.compile(r"([^=\s]{1,1024})=([a-z0-9]{1,16})(?:\[([0-9, ]{0,200})\])?", re.ASCII)


class StatedType(msgspec.Struct, frozen=True, kw_only=True):
    """Element type of a tensor, and its extents (None: one, of all elements)."""

    dtype: DType
    shape: tuple[int, ...] | None = None


class Stated(msgspec.Struct, frozen=True, kw_only=True):
    """Statements of the user about one file.

    Attributes:
        outputs: names of the tensors that are outputs; all others that a caller sees are inputs.
        options: of the compiler, for models that are compiled when they are loaded.
        types: as ``NAME=TYPE`` or ``NAME=TYPE[EXTENT,...]``, e.g. ``input=float32[1,8]``.
        params: paths of files with parameters that the file itself lacks.
    """

    outputs: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    params: tuple[str, ...] = ()
    options: CompileOptions | None = None

    @property
    def is_empty(self) -> bool:
        """True when nothing is stated about the file itself."""
        return not (self.outputs or self.types or self.params)

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
        match = _TYPE.fullmatch(text)
        if match is None or match[1] in seen:
            raise InputError(
                f"invalid value {text[:80]!r}",
                where="--type",
                hint="State each tensor once, as NAME=TYPE or NAME=TYPE[EXTENT,EXTENT]: input=float32[1,8]",
            )
        seen.add(match[1])
        shape = None if match[3] is None else tuple(map(int, match[3].replace(",", " ").split()))
        yield match[1], StatedType(dtype=DType.parse(match[2]), shape=shape)


def with_quantisation(model: Model, texts: Iterable[str]) -> Model:
    """Add the quantisation of inputs and outputs, stated as ``NAME=SCALE,ZERO_POINT``.

    Raises:
        InputError: a text is none, there is no such tensor, or the file states its quantisation itself.
    """
    ends = {model.tensors[i].name: i for i in model.inputs}
    ends |= dict(zip(model.output_names, model.outputs, strict=True))
    tensors = list(model.tensors)
    for text in texts:
        name, result = _quantisation(text)
        if name not in ends:
            known = ", ".join(ends)
            raise InputError(
                f"there is no input or output '{name}'", where=_FLAG, hint=f"There are: {known}."
            )
        tensor = tensors[ends[name]]
        if tensor.quantisation is not None:
            raise InputError(
                f"the quantisation of '{name}' is stated already", where=_FLAG, hint=f"Leave out {_FLAG}."
            )
        tensors[tensor.id] = dataclasses.replace(tensor, quantisation=result)
    return dataclasses.replace(model, tensors=tuple(tensors))


def _quantisation(text: str) -> tuple[str, Quantisation]:
    name, _, rest = text.rpartition("=")
    scale_text, _, zero_text = rest.partition(",")
    try:
        scale, zero_point = float(scale_text), int(zero_text)
    except ValueError:
        scale, zero_point = 0.0, 0
    if not name or not 0 < scale < math.inf or abs(zero_point) >= 1 << 31:
        raise InputError(
            f"invalid value {text[:80]!r}",
            where=_FLAG,
            hint="State it as NAME=SCALE,ZERO_POINT with a scale > 0: input=0.5847,83",
        )
    return name, Quantisation(scale=(scale,), zero_point=(zero_point,))


def refuse_statements(stated: Stated, where: str) -> None:
    """Refuse statements about a file that holds those facts itself.

    Raises:
        InputError: anything is stated.
    """
    flags = {"--output-name": stated.outputs, "--type": stated.types, "--params-file": stated.params}
    for flag, value in flags.items():
        if value:
            raise InputError(
                "the file states its inputs, outputs, types and parameters itself",
                where=f"{where}, {flag}",
                hint=f"Leave out {flag}.",
            )
