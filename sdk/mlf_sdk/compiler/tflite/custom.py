# SPDX-License-Identifier: Apache-2.0
"""Custom operators: the user's C code (``--custom NAME=FILE.c``), and parts compiled for accelerators.

Compilers of accelerators put a part of a model into a custom operator: its layers are gone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mlf_sdk.compiler.graph import refuse
from mlf_sdk.compiler.operators import Custom
from mlf_sdk.compiler.tflite.context import Context
from mlf_sdk.compiler.tflite.file import CUSTOM, RawOperator, RawSubgraph
from mlf_sdk.errors import InputError

# Operator, accelerator, compiler, and where the name of its result says what the file was before.
_MADE_BY: Final = (
    ("edgetpu-custom-op", "a Coral Edge TPU", "edgetpu_compiler", "the name without _edgetpu"),
    ("ethos-u", "an Arm Ethos-U", "Vela", "the name without _vela"),
    ("NeutronGraph", "an NXP eIQ Neutron NPU", "the Neutron converter", ""),
    ("vsi-npu", "a VeriSilicon NPU", "its exporter of binary graphs", ""),
    (r"DISPATCH_OP(_\d+)?", "an NPU of a phone (Qualcomm, MediaTek, Google)", "LiteRT's compiler", ""),
    (r".*[-_](npu|tpu)[-_](custom[-_])?op", "an accelerator", "its compiler", ""),
)
MAX_SOURCE_BYTES: Final = 1 << 20
PARAMETERS: Final = (
    "const void *const inputs[], void *const outputs[], const uint8_t *options, uint32_t options_bytes"
)
_TYPES: Final = (
    r"constvoid\*const(\*|\w*\[\d*\])",
    r"void\*const(\*|\w*\[\d*\])",
    r"constuint8_t\*",
    r"uint32_t",
)


def custom_sources(text: str) -> dict[str, tuple[str, bytes]]:
    """Function and source of each custom operator, by the operator's name.

    Args:
        text: ``NAME=FILE.c``; several with semicolons.

    Raises:
        InputError: it is something else; a file is missing, or does not define the function as it must be.
    """
    result: dict[str, tuple[str, bytes]] = {}
    for part in filter(None, text.split(";")):
        name, equals, file = part.partition("=")
        if not equals or not name or not file.endswith(".c") or name in result:
            raise InputError(
                f"no custom operator: {part!r}", where="--custom", hint="NAME=FILE.c, each NAME once."
            )
        result[name] = _checked(name, Path(file))
    return result


def symbol_of(name: str) -> str:
    """Function of a custom operator: its name, with ``_`` for what C does not allow in one."""
    return re.sub(r"\W", "_", name, flags=re.ASCII)


def prototype(symbol: str) -> str:
    """Declaration of the function."""
    return f"void {symbol}({PARAMETERS})"


def _checked(name: str, path: Path) -> tuple[str, bytes]:
    symbol = symbol_of(name)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"can't be read: {error.strerror}", where=f"--custom {path}") from error
    if len(data) > MAX_SOURCE_BYTES:
        raise InputError(f"has {len(data):,} bytes", where=f"--custom {path}", hint="At most 1 MB.")
    from mlf_sdk.analysis.c.source import scan_source  # few models have custom operators

    scan = scan_source(data.decode("utf-8", "replace"), path.name)
    hint = f"Define: {prototype(symbol)}"
    functions = [f for f in scan.functions if f.name == symbol]
    if not functions:
        raise InputError(f"does not define the function '{symbol}'", where=f"--custom {path}", hint=hint)
    types = [re.sub(r"\s", "", parameter.type) for parameter in functions[0].parameters]
    fits = len(types) == len(_TYPES) and all(
        re.fullmatch(wanted, result) for wanted, result in zip(_TYPES, types, strict=True)
    )
    if functions[0].is_static or functions[0].return_type.split() != ["void"] or not fits:
        raise InputError(f"'{symbol}' has another prototype", where=f"--custom {path}", hint=hint)
    return symbol, data


def build_custom(context: Context, operator: RawOperator, sources: Mapping[str, tuple[str, bytes]]) -> None:
    """Add a custom operator; shapes and types of its outputs are those of the file."""
    name = operator.kind.removeprefix(CUSTOM)
    if name not in sources:
        what, remedy = accelerator_of(name)
        if what:
            refuse(what, remedy)
        refuse(
            "this custom operator is not supported",
            f"give its C code with --custom {name}=FILE.c, or replace it in the model",
        )
    inputs = [context.input(i) for i in operator.inputs if i >= 0]
    outputs = [context.output(operator, i) for i in range(len(operator.outputs))]
    for value in outputs:
        if 0 in value.shape:
            refuse(f"'{value.name}' has shape {value.shape}", "convert the model with fixed shapes")
    symbol, source = sources[name]
    fields = {"declaration": prototype(symbol), "options": operator.custom, "source": source}
    context.add_operator(Custom, operator, inputs, *outputs, symbol=symbol, **fields)


def refuse_unused(raw: RawSubgraph, sources: Mapping[str, tuple[str, bytes]]) -> None:
    """Refuse code for operators that the model does not have.

    Raises:
        InputError: some is given.
    """
    held = sorted({o.kind.removeprefix(CUSTOM) for o in raw.operators if o.kind.startswith(CUSTOM)})
    for name in sources:
        if name not in held:
            raise InputError(
                f"the model has no custom operator '{name}'",
                where="--custom",
                hint=f"It has: {', '.join(held)}." if held else "It has none.",
            )


def accelerator_of(name: str) -> tuple[str, str]:
    """Return the nature of a custom operator and a remedy; empty for one that no known compiler makes."""
    for pattern, accelerator, compiler, before in _MADE_BY:
        if re.fullmatch(pattern, name):
            which = f" ({before})" if before else ""
            return (
                f"a part that {compiler} compiled for {accelerator}: its layers are not in the file",
                f"use the .tflite file from before that step{which}",
            )
    if name.startswith("Flex"):
        return (
            "an operator of TensorFlow that TensorFlow Lite lacks",
            "convert the model without SELECT_TF_OPS, and replace what then fails",
        )
    return "", ""


def accelerated(raw: RawSubgraph) -> str:
    """Return the remedy for a model with parts that were compiled for an accelerator; empty: it has none."""
    for operator in raw.operators:
        name = operator.kind.removeprefix(CUSTOM)
        if name != operator.kind and not name.startswith("Flex") and accelerator_of(name)[1]:
            return accelerator_of(name)[1]
    return ""
