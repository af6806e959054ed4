# SPDX-License-Identifier: Apache-2.0
"""Types of a model's arguments and results, from relay text and from C metadata tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlf_sdk.errors import InputError
from mlf_sdk.frontends.mlf.signatures import (
    MainSignature,
    Signature,
    parse_c_metadata,
    parse_main_signature,
)
from mlf_sdk.ir.dtype import DType

X = "%x: Tensor[(1, 4), float32]"


def value(name: str, dtype: str, *shape: int) -> Signature:
    return Signature(name=name, dtype=DType.parse(dtype), shape=shape)


def main(arguments: str, result: str = "", last: str = "nn.relu(%x)") -> MainSignature | None:
    return parse_main_signature(
        f"#[version]\ndef @main({arguments}){result} {{\n  %0 = f(%x);\n  {last}\n}}\n\n"
    )


def test_bytes_of_an_instance() -> None:
    assert value("x", "float32", 2, 3).size_bytes == 24
    assert value("x", "int8").size_bytes == 1


def test_arguments_and_result() -> None:
    found = main(
        "%image:0: Tensor[(1, 8, 8), uint8] /* ty=Tensor[(1, 8, 8), uint8] */, %scale: float32, "
        '%w.1: Tensor[(4), int8], executor=meta[Executor][0], hash="a,(b"',
        " -> Tensor[(1, 10), float32]",
    )
    assert found is not None
    assert found.arguments == (
        value("image:0", "uint8", 1, 8, 8),
        value("scale", "float32"),
        value("w.1", "int8", 4),
    )
    assert found.results == (value("", "float32", 1, 10),)


@pytest.mark.parametrize(
    ("result", "last", "types"),
    [
        (" -> (Tensor[(2), int8], bool)", "%0", (("int8", (2,)), ("bool", ()))),
        (" -> (Tensor[(2), int8],)", "%0", (("int8", (2,)),)),
        (" -> int64", "%0 /* ty=Tensor[(9), int8] */", (("int64", ()),)),
        ("", "nn.relu(%0) /* ty=Tensor[(1, 4), float32] */", (("float32", (1, 4)),)),
        ("", "nn.relu(%0 /* ty=int8 */) /* ty=Tensor[(), float32] */", (("float32", ()),)),
        ("", "(%0, %x) /* ty=(Tensor[(3), int8], Tensor[(4), int32]) */", (("int8", (3,)), ("int32", (4,)))),
        ("", "%1 /* ty=Tensor[(7), float16] span=main.py:3 */", (("float16", (7,)),)),
        ("", "nn.relu(%0)", None),
        (" -> ()", "%0", None),
    ],
)
def test_results(result: str, last: str, types: tuple[tuple[str, tuple[int, ...]], ...] | None) -> None:
    found = main(X, result, last)
    assert found is not None
    assert found.arguments == (value("x", "float32", 1, 4),)
    assert found.results == (types and tuple(value("", dtype, *shape) for dtype, shape in types))


def test_a_main_without_arguments() -> None:
    assert main("", " -> int8") == MainSignature(arguments=(), results=(value("", "int8"),))


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        ("%x: Tensor[(?, 4), float32]", ""),  # an extent that is only known at run time
        ("%x: Tensor[(1, -4), float32]", ""),
        ("%x: Tensor[(1, 4), float33]", ""),
        ("%x: Tensor[(1, 4), float32x0]", ""),
        ("%x", ""),
        (f"{X}, 5", ""),
        ("%x: (int8, int8)", ""),
        (f"{X}, %f: fn (int8) -> int8", ""),
        (X + "]", ""),
        (X, " -> List[int8]"),
        (X, " -> (int8, (int8, int8))"),
        (X, " -> (int8"),
        (X, " /* open"),
        ("%" + "n" * 1025 + ": int8", ""),
    ],
)
def test_what_is_not_understood_tells_nothing(arguments: str, result: str) -> None:
    """An argument that is left out would move all that follow it."""
    assert main(arguments, result) is None


@pytest.mark.parametrize("text", ["", "def @other(%x: int8) {\n}\n", "def @main(", "def @main(%x: int8"])
def test_no_main(text: str) -> None:
    assert parse_main_signature(text) is None


MANY = 200_000


@pytest.mark.parametrize(
    "text",
    [
        "def @main(" + "%" * MANY * 5,
        "def @main(" + "%x: " * MANY,
        "def @main(" + "%x: int8, " * MANY,
        'def @main(a="' * MANY,
        "def @main() -> (" + "int8, " * MANY,
        "def @main(" + ") -> " * MANY,
        "def @main(a=[" + ") -> " * MANY,
        "def @main(" + "(" * MANY,
        "def @main() {\n" + "/* ty=" * MANY,
        "def @main() {\n" + "/* ty= */" * MANY,
    ],
)
def test_a_long_text_takes_no_longer_than_it_is(text: str) -> None:
    found = parse_main_signature(text)
    assert found is None or found.results is None


# ---- C metadata tables ----


def shape_table(name: str, *extents: int) -> str:
    body = ", \n".join(f"{extent}L" for extent in extents)
    return f"static const int64_t kTvmgenMetadata_{name}_shape[{len(extents)}] = {{\n{body}}};\n"


def infos(kind: str, *rows: tuple[str, str]) -> str:
    body = ", \n".join(
        f'{{\n"{name}" /* name*/, \nkTvmgenMetadata_{kind}_{i}_shape, \n1L /* num_shape*/, \n{{{dtype}}} /* dtype*/}}'
        for i, (name, dtype) in enumerate(rows)
    )
    return f"static const struct TVMTensorInfo kTvmgenMetadata_{kind}[{len(rows)}] = {{\n{body}\n}};\n"


INPUTS = shape_table("inputs_0", 1, 640) + shape_table("inputs_1", 2) + infos("inputs", ("a", "0, 8, 1"), ("b", "2, 32, 1"))  # fmt: skip
OUTPUTS = shape_table("outputs_0") + infos("outputs", ("output0", "1, 1, 1"))


def test_tables() -> None:
    assert parse_c_metadata(f"int x;\n{INPUTS}{OUTPUTS}int y;\n") == (
        (value("a", "int8", 1, 640), value("b", "float32", 2)),
        (value("output0", "bool"),),
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        INPUTS,
        OUTPUTS,
        (INPUTS + OUTPUTS).replace("inputs[2]", "inputs[3]"),
        (INPUTS + OUTPUTS).replace("inputs_1_shape[", "inputs_2_shape["),
        (INPUTS + OUTPUTS).replace("1L, \n640L", "1L, \n-640L"),
        INPUTS + infos("outputs"),
        INPUTS + OUTPUTS.replace("};\n", ""),
        INPUTS + OUTPUTS.replace("{1, 1, 1}", "{1, 1, " + "1" * 5000 + "}"),
        '"' * MANY,
        "kTvmgenMetadata_inputs_0_shape[1] = {" * MANY,
    ],
)
def test_tables_that_are_not_whole(text: str) -> None:
    assert parse_c_metadata(text) is None


def test_an_element_type_that_is_none() -> None:
    with pytest.raises(InputError, match="no such element type: code 2, 8 bits, 1 lanes"):
        parse_c_metadata(INPUTS + OUTPUTS.replace("{1, 1, 1}", "{2, 8, 1}"))


@given(st.text(alphabet='%x0:,()[] ->{}\n"/*Tensor"=?'))
def test_any_text(text: str) -> None:
    parse_main_signature(f"def @main({text}")
    assert parse_c_metadata(text) is None
