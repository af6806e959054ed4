# SPDX-License-Identifier: Apache-2.0
"""Serialized modules of exported libraries, of both layouts, and everything that can be wrong with them."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exported_libraries import (
    MIDDLE,
    NEW,
    OLD,
    Part,
    adding,
    aot,
    array,
    elf,
    factory,
    loader,
    named,
    new_modules,
    old_modules,
    shared_library,
    sized,
    text,
)
from mlf_sdk.errors import FaultCollector
from mlf_sdk.frontends.exported.blob import Serialized, serialized_in_c, serialized_in_elf
from mlf_sdk.frontends.exported.bytecode import Executable
from mlf_sdk.frontends.exported.generation import generation_of
from mlf_sdk.frontends.exported.tree import AotFactory, ConstantLoader, GraphFactory, read_modules
from mlf_sdk.frontends.mlf.params import Damaged

W = named("w", np.arange(3, dtype=np.float32))
GRAPH: Part = ("GraphExecutorFactory", factory(b"{}", [W], "net"))
LIB: Part = ("_lib", None)
RELAX = adding().build()


def read(blob: bytes, symbol: str = NEW) -> Any:
    generation = generation_of(symbol)
    assert generation is not None
    return read_modules(blob, 8, generation)


def fault(blob: bytes, symbol: str = NEW) -> str:
    with pytest.raises(Damaged) as caught:
        read(blob, symbol)
    assert 0 <= caught.value.offset <= len(blob)
    return caught.value.what


# ---- layouts ----


def test_old_layout() -> None:
    root, library = read(old_modules(GRAPH, LIB), OLD)
    assert (root.kind, root.imports, library.kind, library.imports) == (
        "GraphExecutorFactory",
        (1,),
        "_lib",
        (),
    )
    assert root.content == GraphFactory(graph=b"{}", params=(W,), name="net")


def test_old_layout_of_each_kind() -> None:
    parts: list[Part] = [
        ("const_loader", loader([W], {"dnnl_0": ["w"]})),
        ("AotExecutorFactory", aot([W], "net")),
        ("metadata_module", b""),
        ("GraphRuntimeFactory", factory(b"{}", [], "old")),
        ("metadata", loader([], {})),
        LIB,
    ]
    rows, children = (0, 3, 5, 6, 6, 6, 6), (1, 2, 3, 4, 5, 5)
    found = read(old_modules(*parts, rows=rows, children=children), OLD)
    assert [m.imports for m in found] == [(1, 2, 3), (4, 5), (5,), (), (), ()]
    assert found[0].content == ConstantLoader(constants=(W,), symbols=(("dnnl_0", ("w",)),))
    assert found[1].content == AotFactory(params=(W,), name="net")
    assert (found[2].content, found[3].content.name, found[4].content.constants) == (b"", "old", ())


def test_old_layout_without_a_tree() -> None:
    """Before 0.7 the library is the root and imports all modules; with none, it is alone."""
    found = read(old_modules(GRAPH, ("metadata_module", b""), rows=None), OLD)
    assert [(m.kind, m.imports) for m in found] == [
        ("_lib", (1, 2)),
        ("GraphExecutorFactory", ()),
        ("metadata_module", ()),
    ]
    assert [m.kind for m in read(old_modules(rows=None), OLD)] == ["_lib"]


@pytest.mark.parametrize("symbol", [OLD, MIDDLE])
def test_bytecode_in_the_old_layout(symbol: str) -> None:
    """TVM 0.16 to 0.21; type numbers of constants differ by release."""
    known = {"tensor": 0, "dtype": 1, "shape": 2, "string": 3, "int": 4, "float": 5}
    if symbol == MIDDLE:
        known = {"int": 1, "float": 3, "dtype": 5, "string": 65, "shape": 71, "tensor": 72}
    code = adding(types=known).build()
    root, _ = read(old_modules(("relax.VMExecutable", sized(code)), LIB), symbol)
    assert isinstance(root.content, Executable)
    assert [c.kind for c in root.content.constants][:3] == ["tensor", "dtype", "string"]


def test_new_layout() -> None:
    """Unknown kinds are passed over; loaders of constants are read."""
    parts: list[Part] = [
        ("relax.VMExecutable", RELAX),
        LIB,
        ("cuda", b"\1\2\3"),
        ("const_loader", loader([W], {})),
    ]
    found = read(new_modules(*parts, rows=(0, 2, 2, 3, 3), children=(1, 2, 3)))
    assert [(m.kind, m.imports) for m in found] == [
        ("relax.VMExecutable", (1, 2)),
        ("_lib", ()),
        ("cuda", (3,)),
        ("const_loader", ()),
    ]
    assert found[2].content == b"\1\2\3"
    assert found[3].content.constants == (W,)


# ---- damage ----


@pytest.mark.parametrize(
    ("blob", "what"),
    [
        (old_modules(GRAPH, ("cuda", b"123"), LIB), r"the kind 'cuda' is not known.*read: 'GraphExecutorFactory'"),
        (old_modules(("cuda", b"123")), "read: none"),
        (old_modules(GRAPH, LIB, rows=None), "there is no import tree"),
        (old_modules(("_import_tree", struct.pack("<QQ", 0, 0)), LIB), "'_lib' behind the import tree"),
        (old_modules(GRAPH, LIB) + b"\0", "1 bytes behind the last module"),
        (sized(struct.pack("<Q", 1 << 60)), f"{1 << 60} modules are stated; 0 bytes are left"),
        (sized(struct.pack("<QQ", 1, 1 << 40)), "key of module 0 needs"),
        (old_modules(("GraphExecutorFactory", factory(b"{}", [W], "n", stated=2)), LIB), "2 parameters, and 1 names"),
        (old_modules(("const_loader", loader([W], {}, lists=1) + bytes(16)), LIB), "1 lists of constants, and 0"),
        (
            old_modules(("metadata", struct.pack("<QQQ", 0, 1, 0)), LIB),
            "1 constants, and 0 names",
        ),
        (old_modules(GRAPH, LIB, rows=(0, 1)), "do not fit its 2 modules"),
        (old_modules(GRAPH, LIB, rows=(1, 1, 1)), "do not fit"),
        (old_modules(GRAPH, LIB, rows=(0, 1, 0)), "do not fit"),
        (old_modules(GRAPH, LIB, rows=(0, 5, 1)), "do not fit"),
        (old_modules(GRAPH, LIB, children=(2,)), "names module 2 of 2"),
        (old_modules(GRAPH, LIB, children=(0,)), "in a cycle"),
        (old_modules(GRAPH, LIB, rows=(0, 1, 2), children=(1, 0)), "in a cycle"),
    ],
)  # fmt: skip
def test_damage_of_the_old_layout(blob: bytes, what: str) -> None:
    with pytest.raises(Damaged, match=what):
        read(blob, OLD)


@pytest.mark.parametrize(
    ("blob", "what"),
    [
        (new_modules(LIB, rows=(), children=()), "do not fit its 0 modules"),
        (new_modules(LIB, rows=(0,) * 4099, children=()), "4099 row pointers; at most 4096"),
        (new_modules(("const_loader", loader([W], {}) + b"12"), LIB), "2 bytes behind the content of 'const_loader'"),
        (new_modules(("relax.VMExecutable", RELAX + b"\0"), LIB), "1 bytes behind the instructions"),
        (new_modules(("relax.VMExecutable", b"\0" * 8), LIB), "no bytecode starts here"),
        (new_modules(("const_loader", struct.pack("<Q", 70000) + bytes(8 * 70000)), LIB), "70000 names of constants; at most"),
    ],
)  # fmt: skip
def test_damage_of_the_new_layout(blob: bytes, what: str) -> None:
    with pytest.raises(Damaged, match=what):
        read(blob)


def test_payload_that_reaches_into_the_next_module() -> None:
    """A payload is read up to its stated end only, whatever the lengths in it say."""
    part = struct.pack("<Q", 8) + struct.pack("<Q", 64)
    blob = new_modules(("const_loader", None), LIB)
    at = blob.index(b"const_loader") + len("const_loader")
    assert "are stated; 0 bytes are left" in fault(blob[:at] + part + blob[at:] + bytes(64))


@pytest.mark.parametrize("symbol", [OLD, NEW])
def test_each_cut_is_one_error(symbol: str) -> None:
    code = adding().build() if symbol == NEW else b""
    whole = new_modules(("relax.VMExecutable", code), LIB) if symbol == NEW else old_modules(GRAPH, LIB)
    for end in range(8, len(whole), 3 if symbol == OLD else 11):
        assert fault(whole[:end], symbol)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_change_is_read_or_refused(data: st.DataObject) -> None:
    """Whatever numbers are changed, reading ends with modules or with one message."""
    symbol, whole = data.draw(
        st.sampled_from(
            [(OLD, old_modules(GRAPH, LIB)), (NEW, new_modules(("relax.VMExecutable", RELAX), LIB))]
        )
    )
    made = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(8, len(made) - 8))
        made[at : at + 8] = data.draw(
            st.one_of(
                st.binary(min_size=8, max_size=8),
                st.sampled_from([-1, 0, 1, 2, 8, 255, 1 << 31, 1 << 62, (1 << 63) - 1]).map(
                    lambda value: struct.pack("<q", value)
                ),
            )
        )
    try:
        read(bytes(made), symbol)
    except Damaged as damage:
        assert damage.what


# ---- where the modules are ----


def serialized(data: bytes) -> tuple[Serialized | None, list[str]]:
    faults = FaultCollector("test")
    read_file = serialized_in_elf if data.startswith(b"\x7fELF") else serialized_in_c
    found = read_file(data, "devc", faults)
    return found, [f.what for f in faults.faults]


BLOB = new_modules(("relax.VMExecutable", RELAX), LIB)


@pytest.mark.parametrize(
    "data",
    [
        array(BLOB),
        elf(BLOB),
        elf(BLOB, size=len(BLOB)),
        elf(BLOB + b"other data"),
        elf(BLOB, "net___tvm_ffi__library_bin"),
        shared_library(BLOB),
    ],
)
def test_modules_are_found(data: bytes) -> None:
    found, faults = serialized(data)
    assert found is not None
    assert faults == []
    assert [m.kind for m in found.modules] == ["relax.VMExecutable", "_lib"]
    assert found.prefix in ("", "net_")


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"int x;", ""),
        (b"const unsigned char other[2] = {0, 1};", ""),
        (elf(BLOB, "other"), ""),
        (elf(BLOB)[:100], "the file is broken"),
        (array(BLOB) + array(BLOB, OLD), "modules of several libraries"),
        (array(BLOB).replace(b"0x0", b"x", 1), "is not a list of bytes"),
        (array(BLOB, declared=7), "7 are declared"),
        (array(BLOB[:-1]), "states"),
        (array(BLOB + b"\0"), "states"),
        (array(b"\0" * 4), "states 0 bytes of modules; it has 0"),
        (elf(BLOB, size=9), "it has 1"),
        (elf(BLOB, size=1 << 30), "it has"),
        (elf(BLOB[:-8]), "states"),
        (elf(BLOB, symbols=[(NEW, 0xFFF1, 0, 0, 0x11)]), "in no section with data"),
        (elf(BLOB, symbols=[(NEW, 1, 1 << 20, 0, 0x11)]), "in no section with data"),
        (elf(BLOB, symbols=[(NEW, 1, 0, 0, 0x11), (OLD, 1, 0, 0, 0x11)]), "several libraries"),
        (elf(sized(text("x"))), f"{NEW}: "),
    ],
)
def test_modules_that_are_not_there_or_broken(data: bytes, what: str) -> None:
    found, faults = serialized(data)
    assert found is None
    assert (len(faults) == 1 and what in faults[0]) if what else not faults


def test_big_endian_objects_are_refused() -> None:
    """The layout is little-endian; an object of the other order is named as such."""
    head = b"\x7fELF\x01\x02\x01" + bytes(9)
    strings, names = b"\0" + NEW.encode() + b"\0", b"\0.s\0"
    table = bytes(16) + struct.pack(">IIIBBH", 1, 0, 0, 0x11, 0, 1)
    rows = [(0, b"", 0, 0), (1, BLOB, 0, 0), (2, table, 3, 16), (3, strings, 0, 0), (3, names, 0, 0)]
    body, heads = b"", b""
    for kind, data, link, entry in rows:
        heads += struct.pack(">10I", 0, kind, 0, 0, 52 + len(body), len(data), link, 0, 4, entry)
        body += data
    made = struct.pack(">HHIIIIIHHHHHH", 1, 40, 1, 0, 0, 52 + len(body), 0, 52, 0, 0, 40, len(rows), 4)
    assert serialized(head + made + body + heads)[1] == [
        "its byte order is big-endian, which is not supported"
    ]
