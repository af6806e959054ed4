# SPDX-License-Identifier: Apache-2.0
"""Custom operators whose C code the user gives (``--custom NAME=FILE.c``)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mlf_sdk.compiler.builder import refuse
from mlf_sdk.compiler.operators import Custom
from mlf_sdk.compiler.tflite.accelerators import PREFIX, accelerator_of
from mlf_sdk.compiler.tflite.context import Context, common
from mlf_sdk.compiler.tflite.file import RawOperator, RawSubgraph
from mlf_sdk.errors import InputError

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
    found: dict[str, tuple[str, bytes]] = {}
    for part in filter(None, text.split(";")):
        name, equals, file = part.partition("=")
        if not equals or not name or not file.endswith(".c") or name in found:
            raise InputError(
                f"no custom operator: {part!r}", where="--custom", hint="NAME=FILE.c, each NAME once."
            )
        found[name] = _checked(name, Path(file))
    return found


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
        re.fullmatch(wanted, found) for wanted, found in zip(_TYPES, types, strict=True)
    )
    if functions[0].is_static or functions[0].return_type.split() != ["void"] or not fits:
        raise InputError(f"'{symbol}' has another prototype", where=f"--custom {path}", hint=hint)
    return symbol, data


def build_custom(context: Context, operator: RawOperator, sources: Mapping[str, tuple[str, bytes]]) -> None:
    """Add a custom operator; shapes and types of its outputs are those of the file."""
    name = operator.kind.removeprefix(PREFIX)
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
    context.operators.append(
        Custom(
            **common(operator, inputs, *outputs),
            symbol=symbol,
            declaration=prototype(symbol),
            options=operator.custom,
            source=source,
        )
    )


def refuse_unused(raw: RawSubgraph, sources: Mapping[str, tuple[str, bytes]]) -> None:
    """Refuse code for operators that the model does not have.

    Raises:
        InputError: some is given.
    """
    held = sorted({o.kind.removeprefix(PREFIX) for o in raw.operators if o.kind.startswith(PREFIX)})
    for name in sources:
        if name not in held:
            raise InputError(
                f"the model has no custom operator '{name}'",
                where="--custom",
                hint=f"It has: {', '.join(held)}." if held else "It has none.",
            )
