# SPDX-License-Identifier: Apache-2.0
"""Origin of a compiled model in the header of its bundle, and everything that can be wrong with it."""

from __future__ import annotations

import dataclasses

import pytest

from mlf_sdk.errors import FaultCollector
from mlf_sdk.frontends.glow.origin import Origin, origin_text, parse_origin
from mlf_sdk.ir.model import FileDigest, Provenance

SHA256 = "0123456789abcdef" * 4
NAME = 'a ??/ \\ "b" */ // /* \n é \U0001f600.tflite'
PROVENANCE = Provenance(
    format="TFLite", format_version="", compiler="mlf-sdk", compiler_version="0.1.0", sha256=SHA256,
    source="m.tflite", options={"core": "cortex-m4", "goal": "size"},
    made_from=FileDigest(name=NAME, sha256=SHA256),
)  # fmt: skip


def parsed(line: str) -> tuple[Origin | None, list[str]]:
    faults = FaultCollector("net.h")
    found = parse_origin(f"#ifndef NET_H\n{line}\n#endif\n", "net.h", faults)
    return found, [str(fault) for fault in faults.faults]


def test_an_origin_in_a_comment_is_read_as_it_was_written() -> None:
    text = origin_text(PROVENANCE)
    assert text.isascii() and not any(ends in text for ends in ("\n", "?", "/*", "//"))
    found, faults = parsed(f"// Origin: {text}")
    assert faults == [] and found is not None
    assert (found.compiler, found.compiler_version, found.options, found.made_from) == (
        "mlf-sdk", "0.1.0", PROVENANCE.options, PROVENANCE.made_from
    )  # fmt: skip


def test_a_model_whose_file_is_not_known_has_none() -> None:
    assert origin_text(dataclasses.replace(PROVENANCE, made_from=None)) == ""
    assert parsed("// Origin: unknown") == (None, [])


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("// Origin: { }", "the origin is broken: Object missing required field `compiler`"),
        ("// Origin: {compiler}", "the origin is broken: JSON is malformed"),
        (f"// Origin: {origin_text(PROVENANCE).replace(SHA256, '12')}", "no SHA-256 of the model file"),
    ],
)
def test_an_origin_that_is_broken_is_a_fault(line: str, fault: str) -> None:
    found, faults = parsed(line)
    assert found is None and len(faults) == 1
    assert "net.h" in faults[0] and fault in faults[0]
