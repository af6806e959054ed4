# SPDX-License-Identifier: Apache-2.0
"""The reference is what the code says today, and the reader of headers misses nothing."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from docs_scripts import docs_script

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    return docs_script("generate")


def test_pages_are_up_to_date(generate: ModuleType) -> None:
    old = [path.name for path, text in generate.pages().items() if path.read_text() != text]
    assert old == [], "make docs"


def test_every_function_of_the_headers_is_in_the_page(generate: ModuleType) -> None:
    page = generate.c_page()
    for header in generate.HEADERS:
        text = (ROOT / "crt" / header).read_text()
        code = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        declared = re.findall(r"^[\w *]*?\b(mlf_\w+)\([^;{]*\);", code, re.MULTILINE)
        assert declared, header
        assert [name for name in declared if f"{name}(" not in page] == []


def test_items_of_a_header(generate: ModuleType) -> None:
    said, items = generate.header_items(
        """/* SPDX-License-Identifier: Apache-2.0 */
/*
 * a.h - says what it is.
 *
 *     example();
 */
#ifndef A_H
#define A_H

#include <stddef.h>

/* ---- running ---------- */

/* Runs.
 * Twice. */
int mlf_run(
    int x);

typedef struct {
  int x; /* inside { */

  int y;
} thing_t;

#endif /* A_H */
"""
    )
    assert said == "a.h - says what it is.\n\n    example();"
    assert [(i.name, i.comment) for i in items] == [
        ("", "running"),
        ("mlf_run", "Runs.\nTwice."),
        ("thing_t", ""),
    ]
    assert items[1].code == "int mlf_run(\n    int x);"
