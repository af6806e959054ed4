# SPDX-License-Identifier: Apache-2.0
"""Headers of bundles of every year, and everything that can be wrong with one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glow_bundles import Dynamic, Elf, Placeholder, Text, X, Y
from mlf_sdk.analysis.elf.raw import ElfFormatError, read_elf
from mlf_sdk.errors import FaultCollector
from mlf_sdk.frontends.glow import bundle, header
from mlf_sdk.frontends.glow.config import ConfigError, config_symbols, read_config
from mlf_sdk.frontends.glow.header import Header, is_header, parse_header
from mlf_sdk.frontends.glow.types import PlaceholderType, TypeTextError, parse_type, type_text
from mlf_sdk.frontends.glow.weights import parse_bytes
from mlf_sdk.ir.dtype import DType


def parse(text: str) -> tuple[Header | None, list[str]]:
    faults = FaultCollector("test")
    found = parse_header(text.encode(), "net.h", faults)
    return found, [fault.what for fault in faults.faults]


# ---- types ----


@pytest.mark.parametrize(
    ("text", "dtype", "shape", "scale"),
    [
        ("float<1 x 128 x 1 x 3>", "float32", (1, 128, 1, 3), None),
        ("float16<>", "float16", (), None),
        ("i8[S:0.050000001 O:-3][-6.250,6.500]<1 x 2>", "int8", (1, 2), (0.050000001, -3)),
        ("ui8[S:1.0e-05 O:128]<4>", "uint8", (4,), (1e-5, 128)),
        ("index64<2>", "int64", (2,), None),
        ("index32 <2>", "int32", (2,), None),
        ("uindex8<2>", "uint8", (2,), None),
        ("bool<0>", "bool", (0,), None),
        ("bfloat16<2>", "bfloat16", (2,), None),
    ],
)
def test_types(text: str, dtype: str, shape: tuple[int, ...], scale: tuple[float, int] | None) -> None:
    found = parse_type(text)
    assert (found.dtype.name, found.shape) == (dtype, shape)
    known = found.quantisation
    assert (None if known is None else (known.scale[0], known.zero_point[0])) == scale


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("float", "is not a type"),
        ("float<1 x y>", "is not a type"),
        ("ui8fused<1>", "element type 'ui8fused' is not supported"),
        ("float<1 x 8:4>", "padded tensor"),
        ("float<1 x x 2>", "no usable extents"),
        ("float<" + " x ".join("1" * 17) + ">", "no usable extents"),
        ("float<99999 x 99999>", "more than"),
    ],
)
def test_types_that_are_refused(text: str, what: str) -> None:
    with pytest.raises(TypeTextError, match=what):
        parse_type(text)


# ---- headers ----


@pytest.mark.parametrize(
    "text", ["float<1 x 8>", "i8[S:0.5 O:-3][-62.5,65]<1 x 2>", "ui8[S:0.5 O:2]<3>", "index64<4>", "bool<1>"]
)
def test_types_are_written_as_they_are_read(text: str) -> None:
    kind = parse_type(text)
    assert parse_type(type_text(kind) or "") == kind


def test_types_that_bundles_do_not_have() -> None:
    assert type_text(PlaceholderType(dtype=DType.parse("uint16"), shape=(1,))) is None


def test_header_of_today() -> None:
    found, faults = parse(Text(more='// Constants:\n//\n//   Name: "w"\n//   Type: float<1>\n').build())
    assert faults == []
    assert found is not None
    assert (found.version, found.model_name, found.config) == ("2024-05-11 (05dd99b97)", "net", "")
    assert found.memory == bundle.Memory(constant=64, mutable=128, activations=64, alignment=64)
    assert [(p.name, p.offset, p.elements) for p in found.placeholders] == [("y", 64, 4), ("x", 0, 8)]
    assert [(e.name, e.result) for e in found.entries] == [("net", "int")]


def test_header_of_2019() -> None:
    """Type and shape on two lines, no version, a result of void, and a comment about rights before it."""
    text = Text(version="", entries=("void infer",)).build().replace("float<", "float\n//   Shape: <")
    found, faults = parse("// Copyright someone\n" + text.replace("\n", "\r\n"))
    assert faults == []
    assert found is not None
    assert (found.version, found.entries[0].result) == ("", "void")
    assert found.placeholders[0].type == parse_type("float<1 x 4>")


def test_names_that_end_like_sizes() -> None:
    name = "NET_MUTABLE_MEM_SIZE"
    found, faults = parse(Text(placeholders=(replace(X, name=name), Y)).build())
    assert faults == []
    assert found is not None and found.memory is not None
    assert found.memory.mutable == 128


Z = Placeholder("z", 128, (2,), "bool", 1)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (Text(entries=()).build(), "no prototype of an entry"),
        (Text(entries=("int net", "int net")).build(), "two entries have one name"),
        (Text(placeholders=()).build(), "it lists no placeholders"),
        (Text().build().replace("_GLOW_BUNDLE_NET_H", "X"), "it defines no CONSTANT_MEM_SIZE, MUTABLE"),
        (Text(sizes=(63, 128, 64, 64)).build(), "size of the constant memory, 63, is not a multiple"),
        (Text(sizes=(64, 128, 64, 3)).build(), "the alignment 3 is not a power of two"),
        (Text(placeholders=(X, replace(Y, offset=0))).build(), "overlaps"),
        (Text(placeholders=(X, replace(Y, offset=8))).build(), "offset 8 of 'y' is not a multiple of 64"),
        (Text(placeholders=(X, Z)).build(), "'z' ends at byte 130; the mutable memory has 128"),
        (Text(placeholders=(X, X)).build(), "two placeholders are called 'x'"),
        (
            Text().build().replace("NET_y  64", "NET_y  0"),
            "the macro 'NET_y' is 0, the comment states offset 64",
        ),
        (Text().build().replace("NET_y ", "NET_q "), "there is no macro 'NET_y'"),
        (
            Text(placeholders=(X, replace(Y, element_bytes=2))).build(),
            "states 4 elements and 8 bytes; its type",
        ),
        (
            Text(placeholders=(X, replace(Y, kind="ui4fused"))).build(),
            "the placeholder 'y': the element type",
        ),
        (Text().build().replace("//   Type: float<1 x 4>\n", ""), "the placeholder 'y' lacks type"),
        (Text().build().replace('Name: "y"', 'Name: "y;"'), "the placeholder 'y;' lacks a usable name"),
    ],
)
def test_broken_headers(text: str, what: str) -> None:
    _, faults = parse(text)
    assert any(what in fault for fault in faults), faults


def test_headers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(header, "MAX_PLACEHOLDERS", 1)
    assert "it lists more than 1 placeholders" in parse(Text().build())[1]
    monkeypatch.setattr(header, "MAX_BYTES", 10)
    assert parse(Text().build()) == (None, ["the header has more than 10 bytes"])


def test_recognition() -> None:
    assert is_header(Text().build().replace("\n", "\r\n").encode())
    assert not is_header(b"_GLOW_BUNDLE_COMMON_DEFS")
    assert not is_header(b"#ifndef _GLOW_BUNDLE_NET_H\n")


def test_placeholders_may_end_the_file() -> None:
    text = Text().build()
    _, faults = parse(text[: text.index('//\n//   Name: "x"')])
    assert "there is no prototype of an entry: int NAME(uint8_t *, uint8_t *, uint8_t *)" in faults


def test_configuration_of_a_linked_image() -> None:
    """Pointers are addresses there, and symbols' values as well."""
    elf = read_elf(Dynamic(address=0x8000).build())
    (symbol,) = config_symbols(elf)
    found = read_config(elf, symbol)
    assert (found.bundle, [(p.name, p.offset) for p in found.placeholders]) == ("net", [("x", 0), ("y", 64)])
    moved = Dynamic(address=0x8000).elf()
    flags, _, data = moved.sections[".str"]
    moved.sections[".str"] = (flags, 0x100, data)
    elf = read_elf(moved.build())
    with pytest.raises(ConfigError, match="address 0x9000, where nothing is"):
        read_config(elf, config_symbols(elf)[0])


@pytest.mark.parametrize(
    "symbol",
    [
        ("net_config", 1, 0, 47, 0x11),
        ("net_config", 1, 0, 48, 0x01),
        ("net_config", 0, 0, 48, 0x11),
        ("net_config", 0xFFF1, 0, 48, 0x11),
        ("net_configuration", 1, 0, 48, 0x11),
    ],
)
def test_other_symbols_are_no_configuration(symbol: tuple[str, int, int, int, int]) -> None:
    elf = Elf({".rodata": (2, 0, bytes(64))}, [symbol])
    assert config_symbols(read_elf(elf.build())) == ()


# ---- anything else ----


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1200), st.integers(0, 40), st.text(max_size=30))
def test_any_change_of_a_header_gives_a_header_or_faults(place: int, length: int, new: str) -> None:
    text = Text().build()
    found, faults = parse(text[:place] + new + text[place + length :])
    assert found is not None
    assert faults or (found.memory is None or found.memory.mutable >= 0)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1500), st.binary(min_size=1, max_size=16), st.sampled_from([32, 64]))
def test_any_change_of_an_object_gives_a_configuration_or_an_error(place: int, new: bytes, bits: int) -> None:
    data = Dynamic(bits=bits).build()
    try:
        elf = read_elf(data[:place] + new + data[place + len(new) :])
        for symbol in config_symbols(elf):
            assert len(read_config(elf, symbol).placeholders) <= bundle.MAX_PLACEHOLDERS
    except (ElfFormatError, ConfigError):
        pass


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="0xX1fF, ;{}[]=char/*\n", max_size=200))
def test_any_text_gives_bytes_or_nothing(text: str) -> None:
    found = parse_bytes(text)
    assert found is None or len(found) <= len(text) // 3 + 1
