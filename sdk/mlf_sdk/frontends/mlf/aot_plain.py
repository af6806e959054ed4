# SPDX-License-Identifier: Apache-2.0
"""Ahead-of-time models of TVM before 0.9 whose C interface is declared and not defined.

Their main function ``tvmgen_<module>_run_model`` takes a pointer for each input and output. Where nothing
states the type of its one output, the kernel that is given it does.
"""

from __future__ import annotations

import re
from typing import Final

from mlf_sdk.analysis.c.unit import FunctionDefinition
from mlf_sdk.errors import InputError
from mlf_sdk.frontends.mlf.schedule import BuildInput
from mlf_sdk.frontends.mlf.signatures import Signature
from mlf_sdk.ir.dtype import DType

_ELEMENTS: Final = {"float": "float32", "double": "float64"}
_TYPE: Final = re.compile(r"(?:const\s*)?(?:(float|double)|(u?int(?:8|16|32|64))_t)\s*\*(?:\s*restrict)?")


def plain_main(source: BuildInput, prefix: str) -> FunctionDefinition | None:
    """The main function to call in place of an interface; None where that is defined, or main is not."""
    interface = source.module.interface
    if interface is None or source.code.defines(interface.run_function):
        return None
    main = source.code.functions.get(f"{prefix}_run_model")
    if main is None or main.is_packed:
        return None
    wanted = len(interface.inputs) + len(interface.outputs)
    pointers = all(re.sub(r"\s", "", p.type) == "void*" for p in main.parameters)
    return main if pointers and len(main.parameters) == wanted else None


def last_output(source: BuildInput, main: FunctionDefinition, size_bytes: int) -> Signature | None:
    """The last parameter of main as an output of so many bytes; None where no kernel states its type."""
    name = re.escape(main.parameters[-1].name)
    text = source.code.files[main.member].data.decode("utf-8", "replace")
    _, result, rest = text.partition(f"{main.name}(")
    while result and rest.partition(")")[2].lstrip()[:1] != "{":  # a declaration
        _, result, rest = rest.partition(f"{main.name}(")
    types = set()
    for call in re.finditer(r"(\w{1,1024})\(((?:[^(){};]|\(void\*\)){0,8192})\)", rest.partition("\n}")[0]):
        function = source.code.functions.get(call[1])
        for number, argument in enumerate(call[2].split(",")):
            if re.fullmatch(rf"\s*{name}\s*", argument):
                given = function.parameters[number : number + 1] if function is not None else ()
                types.add(given[0].type.strip() if given else "")
    match = _TYPE.fullmatch(types.pop()) if len(types) == 1 else None
    if match is None:
        return None
    try:
        dtype = DType.parse(_ELEMENTS.get(match[1] or "", match[2] or ""))
    except InputError:
        return None
    if size_bytes <= 0 or size_bytes % dtype.size_bytes:
        return None
    return Signature(name="", dtype=dtype, shape=(size_bytes // dtype.size_bytes,))
