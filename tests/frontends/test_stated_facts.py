# SPDX-License-Identifier: Apache-2.0
"""Facts that an archive states about its kernels: under its seal they count, else the code decides."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from analysed import host_compiler
from archives import edit_json, write
from mlf_sdk.errors import ArchiveError
from mlf_sdk.frontends import examine
from mlf_sdk.frontends.mlf.content import ArchiveContent, Call
from mlf_sdk.frontends.mlf.extension import CallFacts, OverlapFact
from mlf_sdk.frontends.mlf.seal import seal_of
from mlf_sdk.frontends.mlf.writer import archive_files
from mlf_sdk.ir.dtype import DType
from mlf_sdk.ir.model import Model
from mlf_sdk.pipeline.loading import load_analysed
from mlf_sdk.pipeline.request import Request
from mlf_sdk.planner.layout import lay_out

FLOATS = (DType.parse("float32"), (8,))
OVER = CallFacts(overlaps=(OverlapFact(input=0, output=0, distance_bytes=0),))
SCRATCH = CallFacts(workspace_bytes=32, overlaps=OVER.overlaps)
CODE = """
#include <stdint.h>
void net_double(float* x, float* y) { for (int i = 0; i < 8; ++i) y[i] = 2.0f * x[i]; }
void net_turn(float* x, float* y, float* w) {
    for (int i = 0; i < 8; ++i) w[i] = x[7 - i];
    for (int i = 0; i < 8; ++i) y[i] = w[i];
}
void net_sum(float* x, float* y) { for (int i = 0; i < 8; ++i) y[i] = x[i] + 1.0f; }
"""


def net(code: str = CODE, turn: CallFacts = SCRATCH) -> dict[str, bytes]:
    """y = 1 + 2 x, from the last element to the first."""
    calls = (("double", "x", OVER), ("turn", "double", turn), ("sum", "turn", OVER))
    return archive_files(
        ArchiveContent(
            name="net",
            compiler="mlf-sdk",
            compiler_version="1",
            code={"codegen/host/src/net.c": code.encode()},
            inputs=(("x", FLOATS),),
            outputs=(("sum", "y", FLOATS),),
            quantisation={},
            params=(),
            states=(),
            calls=tuple(
                Call(name=name, symbol=f"net_{name}", inputs=(of,), outputs=(FLOATS,), facts=facts)
                for name, of, facts in calls
            ),
        )
    )


def edited(files: dict[str, bytes], code: str) -> dict[str, bytes]:
    """The archive with other code: the seal was made with the old one."""
    return {**files, "codegen/host/src/net.c": code.encode()}


def analysed(files: Mapping[str, bytes], folder: Path) -> Model:
    path = write(files, folder / "net.tar")
    return load_analysed(Request(source=(str(path),), board="host"))[0]


def test_facts_under_the_seal_count_and_no_code_is_read(tmp_path: Path) -> None:
    model = analysed(net(), tmp_path)
    assert model.reader == "" and all(step.overlaps for step in model.steps)
    assert lay_out(model).arena_bytes == 64


def test_an_edit_of_the_code_takes_permissions_away(tmp_path: Path, needs_cc: str) -> None:
    x = np.arange(8, dtype=np.float32)
    model = analysed(edited(net(), CODE + "// edited\n"), tmp_path)
    assert model.reader.startswith("preprocessed by cc")
    assert not any(step.overlaps for step in model.steps)
    assert lay_out(model).arena_bytes == 96
    found = mlf_sdk.run(tmp_path / "net.tar", board="host", inputs={"x": x}).outputs["y"]
    np.testing.assert_array_equal(np.asarray(found).reshape(-1), 1 + 2 * x[::-1])


def test_an_edit_of_the_facts_takes_permissions_away(tmp_path: Path) -> None:
    def edit(top: dict[str, dict[str, dict[str, dict[str, dict[str, dict[str, int]]]]]]) -> None:
        top["modules"]["net"]["mlf_sdk"]["calls"]["sum"]["macs"] = 3  # type: ignore[assignment]

    model = analysed(edit_json(net(), "metadata.json", edit), tmp_path)
    assert not any(step.overlaps for step in model.steps)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("w[i] = x[7 - i]", "w[i + 2] = x[7 - i]", "reaches byte 40 of its workspace, which has 32"),
        ("y[i] = w[i]", "y[i + 1] = w[i]", "reaches byte 36 of 'turn', which has 32"),
        ("float* y, float* w", "float* y, float* w, int* n", "takes 4 arguments; the archive states 3"),
    ],
)
def test_code_that_contradicts_the_facts(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(ArchiveError, match=said):
        analysed(edited(net(), CODE.replace(old, new)), tmp_path)


def test_what_the_code_writes_and_keeps_is_found(tmp_path: Path) -> None:
    code = CODE.replace("w[i] = x[7 - i]", "w[i] = x[7 - i] *= 1.0f").replace(
        "void net_sum(float* x, float* y) {",
        "static float* saved;\nvoid net_sum(float* x, float* y) { saved = x;",
    )
    steps = analysed(edited(net(), code), tmp_path).steps
    assert [step.writes for step in steps] == [(), (0,), ()]
    assert [step.escaping_args for step in steps] == [(), (), (0,)]
    assert [step.persistent_globals for step in steps] == [(), (), ("saved",)]


def test_the_doctor_says_that_no_seal_covers_the_facts(tmp_path: Path) -> None:
    def findings(files: dict[str, bytes]) -> list[str]:
        path = write(files, tmp_path / "net.tar")
        return [
            f.what for f in examine(path, compiler=host_compiler()).findings if f.where.endswith("mlf_sdk")
        ]

    assert findings(net()) == []
    (said,) = findings(edited(net(), CODE + "\n"))
    assert "no seal covers" in said


def test_a_seal_covers_every_member(tmp_path: Path) -> None:
    files = net()
    stated = json.loads(files["metadata.json"])["modules"]["net"]["mlf_sdk"]["seal"]
    assert seal_of(files) == stated
    for member in files:
        if member != "metadata.json":
            assert seal_of({**files, member: files[member] + b" "}) != stated
    assert seal_of({**files, "codegen/host/src/more.c": b"int more;"}) != stated
    assert seal_of(dict(reversed(files.items()))) == stated
