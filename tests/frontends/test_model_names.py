# SPDX-License-Identifier: Apache-2.0
"""Names from an archive as C identifiers: legal, bounded, unique."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlf_sdk.ir.names import MAX_LENGTH, NameTable, legal_identifier

C_AND_CXX_KEYWORDS = [
    "auto",
    "break",
    "case",
    "char",
    "const",
    "continue",
    "default",
    "do",
    "double",
    "else",
    "enum",
    "extern",
    "float",
    "for",
    "goto",
    "if",
    "inline",
    "int",
    "long",
    "register",
    "restrict",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "struct",
    "switch",
    "typedef",
    "union",
    "unsigned",
    "void",
    "volatile",
    "while",
    "asm",
    "bool",
    "catch",
    "class",
    "delete",
    "explicit",
    "export",
    "false",
    "friend",
    "mutable",
    "namespace",
    "new",
    "operator",
    "private",
    "protected",
    "public",
    "template",
    "this",
    "throw",
    "true",
    "try",
    "typename",
    "typeof",
    "using",
    "virtual",
    "wchar_t",
    "and",
    "or",
    "not",
    "xor",
    "bitand",
    "bitor",
    "compl",
    "and_eq",
    "or_eq",
    "xor_eq",
    "not_eq",
    "alignas",
    "alignof",
    "constexpr",
    "noexcept",
    "nullptr",
    "main",
]
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def is_identifier(name: str, max_length: int = MAX_LENGTH) -> bool:
    return (
        IDENTIFIER.fullmatch(name) is not None
        and name not in C_AND_CXX_KEYWORDS
        and len(name) <= max_length
        and "__" not in name[:-9]
        and not re.match(r"_[A-Z_]", name)
    )


@pytest.mark.parametrize(
    ("name", "legal"),
    [
        ("x", "x"),
        ("image:0", "image_0"),
        ("serving default/input.1", "serving_default_input_1"),
        ("_Reserved", "Reserved"),
        ("__x__", "x"),
        ("a--b", "a_b"),
        ("größe", "gr_e"),
        ("入力", "n"),
        ("", "n"),
        ("...", "n"),
        ("0", "n0"),
        ("1x", "n1x"),
        ("int", "int_"),
        ("_int_", "int_"),
        ("INT", "INT"),
        ("a*/b", "a_b"),
        ("${x}\n", "x"),
        ("é" * 80, "n"),
        ("\udce9x", "x"),
    ],
)
def test_legal_identifier(name: str, legal: str) -> None:
    assert legal_identifier(name, fallback="n") == legal


@pytest.mark.parametrize("word", C_AND_CXX_KEYWORDS)
def test_keywords_are_no_names(word: str) -> None:
    assert legal_identifier(word) == f"{word}_"


def test_long_names_keep_their_head_and_stay_apart() -> None:
    head = "tvmgen_default_fused_nn_conv2d_add_nn_relu"
    first, second = (legal_identifier(head + "_more" * 30 + tail) for tail in ("a", "b"))
    assert first != second
    assert first.startswith(head)
    assert len(first) == len(second) == MAX_LENGTH
    assert legal_identifier("a" * MAX_LENGTH) == "a" * MAX_LENGTH
    assert len(legal_identifier("a" * (MAX_LENGTH + 1))) == MAX_LENGTH


def test_long_names_that_differ_only_where_they_are_not_legal_stay_apart() -> None:
    assert legal_identifier("a:" * 40) != legal_identifier("a." * 40)


@given(st.text(max_size=200), st.integers(min_value=12, max_value=127))
def test_any_text_becomes_an_identifier(name: str, max_length: int) -> None:
    legal = legal_identifier(name, fallback="n", max_length=max_length)
    assert is_identifier(legal, max_length), legal
    assert legal == legal_identifier(name, fallback="n", max_length=max_length)


@given(st.from_regex(r"[A-Za-z][A-Za-z0-9]{0,60}", fullmatch=True))
def test_an_identifier_is_kept(name: str) -> None:
    assert legal_identifier(name) == (f"{name}_" if name in C_AND_CXX_KEYWORDS else name)


def test_table_numbers_what_legalises_alike() -> None:
    table = NameTable()
    assert [table.unique(name) for name in ("a.b", "a:b", "a_b", "a_b_2", "a b")] == [
        "a_b",
        "a_b_2",
        "a_b_3",
        "a_b_2_2",
        "a_b_4",
    ]


def test_table_keeps_apart_what_macros_would_not() -> None:
    table = NameTable()
    assert table.unique("Input") == "Input"
    assert table.unique("input") == "input_2"


def test_table_avoids_taken_names() -> None:
    assert NameTable(frozenset({"x"})).unique("x") == "x_2"


def test_table_bounds_numbered_names() -> None:
    table = NameTable()
    names = [table.unique("a" * 20, max_length=20) for _ in range(12)]
    assert len(set(names)) == 12
    assert max(map(len, names)) == 20
    assert names[-1] == "a" * 17 + "_12"


@given(
    st.lists(st.text(alphabet="aAbB_.:é1", max_size=6), max_size=30), st.integers(min_value=12, max_value=63)
)
def test_table_is_unique_and_deterministic(names: list[str], max_length: int) -> None:
    first, second = NameTable(), NameTable()
    found = [first.unique(name, max_length=max_length) for name in names]
    assert len({name.lower() for name in found}) == len(names)
    assert all(IDENTIFIER.fullmatch(name) and len(name) <= max_length for name in found)
    assert found == [second.unique(name, max_length=max_length) for name in names]
