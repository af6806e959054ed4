# SPDX-License-Identifier: Apache-2.0
"""Analysis of a model for one compiler: text, names, and what is said of each kernel."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from analysed import host_compiler, load_model
from archives import write
from mlf_sdk.cli.main import main
from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.errors import ArchiveError, InputError
from mlf_sdk.frontends.analysis import analyse
from mlf_sdk.frontends.mlf import load
from mlf_sdk.frontends.readcode import NO_COMPILER
from mlf_sdk.ir.model import Model
from mlf_sdk.planner.costs import bytes_saved, step_costs
from mlf_sdk.planner.layout import lay_out
from mlf_sdk.targets.boards.load import find_board
from mlf_sdk.targets.compilers import source_compiler
from mlf_sdk.tools.programs import Compiler
from plan_attacks import ALIAS, COPY, LATE_READ, TWICE, WORKSPACE, chain

LEGAL = chain(WORKSPACE % "")


def loaded(files: dict[str, bytes], tmp_path: Path) -> Model:
    return load.load_model(write(files, tmp_path / "a.tar"))


def test_a_model_is_planned_after_its_analysis_only(tmp_path: Path, needs_cc: str) -> None:
    model = loaded(LEGAL, tmp_path)
    assert not model.is_analysed
    with pytest.raises(InputError, match="not analysed for a compiler"):
        lay_out(model)
    known = analyse(model, host_compiler())
    assert [step.opaque_reason for step in known.steps] == ["", "", ""]
    assert known.reader.startswith("preprocessed by cc")
    assert analyse(known, None) is known


def test_a_condition_is_decided_by_the_compiler_of_the_build(tmp_path: Path) -> None:
    model, compiler = loaded(TWICE, tmp_path), host_compiler()
    assert compiler is not None
    plain = analyse(model, compiler).steps[1]
    dsp = analyse(
        model, msgspec.structs.replace(compiler, argv=(*compiler.argv, "-D__ARM_FEATURE_DSP"))
    ).steps[1]
    assert (plain.workspaces, len(dsp.workspaces)) == ((), 1)
    other = msgspec.structs.replace(compiler, is_builds=False)
    with pytest.raises(ArchiveError, match="conditions that only the build's compiler"):
        analyse(model, other)


@pytest.mark.parametrize("compiler", [None, Compiler(argv=("no-such-compiler",))])
def test_without_a_compiler_each_kernel_is_taken_as_a_whole(
    tmp_path: Path, compiler: Compiler | None
) -> None:
    found = analyse(loaded(LEGAL, tmp_path), compiler)
    reason = NO_COMPILER if compiler is None else "can't preprocess its code"
    assert all(reason in step.opaque_reason and step.phases == 1 for step in found.steps)
    assert found.reader.startswith("as written: ")
    assert [w.size_bytes for w in found.steps[1].workspaces] == [1024]
    assert lay_out(found).arena_bytes > lay_out(analyse(loaded(LEGAL, tmp_path), host_compiler())).arena_bytes


def test_costs(tmp_path: Path) -> None:
    layout = lay_out(load_model(write(LEGAL, tmp_path / "a.tar")))
    costs = step_costs(layout)
    assert (layout.arena_bytes, bytes_saved(layout)) == (2048, 1024)
    assert [costs[i].saved_bytes for i in range(3)] == [0, 1024, 0]
    whole = lay_out(analyse(loaded(LEGAL, tmp_path), None))
    assert step_costs(whole)[1].whole_bytes == whole.arena_bytes - 2048
    keeps = chain(COPY, first="saved = p0;\n" + COPY, before="static void* saved;\n")
    kept = lay_out(load_model(write(keeps, tmp_path / "kept.tar")))
    assert step_costs(kept)[0].effects_bytes == 1024


def test_compilers_of_builds() -> None:
    def found(board: str, variables: dict[str, str] | None = None, **options: str) -> Compiler | None:
        return source_compiler(
            find_board(board),
            ProjectOptions(**options),  # type: ignore[arg-type]
            which=lambda name: None if name == missing else f"/usr/bin/{name}",
            variables=variables or {},
        )

    missing = ""
    cross, native = found("mps2-an386"), found("host", {"CC": "clang -m32"})
    assert cross is not None and native is not None
    assert cross.argv[:2] == ("arm-none-eabi-gcc", "-mcpu=cortex-m4") and cross.is_builds
    assert native.argv[:2] == ("clang", "-m32") and "-fsanitize=address" in native.argv
    for board in ("mps2-an386", "host"):
        library = found(board, app="library")
        assert library is not None and not library.is_builds
    missing = "arm-none-eabi-gcc"
    instead = found("mps2-an386")
    assert instead is not None and (instead.argv[0], instead.is_builds) == ("cc", False)
    missing = "cc"
    assert found("host") is None


def test_inspect_tells_what_was_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], needs_cc: str
) -> None:
    files = chain(ALIAS + LATE_READ, first="saved = p0;\n" + COPY, before="static void* saved;\n")
    path = str(write(files, tmp_path / "a.tar"))
    assert main(["inspect", path, "--plan", "--board", "host"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "3 of 3 kernels looked into; code preprocessed by cc" in text
    assert (
        "k1 may keep the address of 'x', alive in all of the run; depends on saved: keeps its place" in text
    )
    assert "looked into, 4 phases" in text
    assert main(["inspect", path, "--plan", "--board", "host", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)["plan"]
    assert [step["looked_into"] for step in plan["steps"]] == [True] * 3
    assert plan["steps"][0]["keeps"] == ["x"] and plan["steps"][0]["depends_on"] == ["saved"]
    assert {"saved_bytes", "whole_bytes_at_most", "effects_bytes", "reason"} <= plan["steps"][1].keys()
