# SPDX-License-Identifier: Apache-2.0
"""What tests of many cases share: a cache of their own, archives, and calls of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from archives import Spec, build, write


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(build(Spec()), tmp_path_factory.mktemp("tiny") / "tiny.tar")


@pytest.fixture(scope="session")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its third inference never returns, on the host: a kernel that counts and then sleeps."""
    files = build(Spec())
    name = "codegen/host/src/tiny_lib1.c"
    text = files[name].decode()
    at = text.index("(void)dev_id;\n", text.index("tvmgen_tiny_fused_smooth(")) + len("(void)dev_id;\n")
    hang = "  extern int pause(void);\n  static int runs = 0;\n"
    hang += "  if (++runs == 3) {\n    for (;;) {\n      pause();\n    }\n  }\n"
    return write(
        {**files, name: (text[:at] + hang + text[at:]).encode()}, tmp_path_factory.mktemp("spin") / "spin.tar"
    )
