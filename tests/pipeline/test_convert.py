# SPDX-License-Identifier: Apache-2.0
"""Conversion: what is written is read back as the model that it was, and computes the same."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlf_sdk
from archives import Spec, build, edit_json, reference, sample, tar_bytes, write
from ccode import CRT
from mlf_sdk.errors import ArchiveError, InputError
from mlf_sdk.frontends.mlf.seal import seal_of
from mlf_sdk.ir.model import Model
from mlf_sdk.judge.witnesses import panel
from mlf_sdk.pipeline.loading import load_analysed
from mlf_sdk.pipeline.request import Request
from mlf_sdk.planner.layout import lay_out
from model_cases import Net
from small_models import two_layers
from tflite_models import Maker

KINDS = ["graph", "aot-c", "aot-packed", "operator"]
ROOT = Path(__file__).parents[2]
LAYERS = ROOT / "examples" / "layers" / "layers.tflite"


def archive(tmp_path: Path, kind: str, **changes: Any) -> Path:
    return write(build(Spec(kind=kind, **changes)), tmp_path / f"{kind}.tar")


def facts(model: Model) -> dict[str, Any]:
    """Everything but the file that the model came from; code by its content."""
    found = {f.name: getattr(model, f.name) for f in dataclasses.fields(model)}
    del found["provenance"], found["summary"]
    found["units"] = sorted(unit.data for unit in model.units if unit.linked)
    return found


# ---- archives ----


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_archive_is_read_back_as_the_same_model(tmp_path: Path, kind: str, dtype: str) -> None:
    source = archive(tmp_path, kind, dtype=dtype)
    found = mlf_sdk.convert(source, tmp_path / "out.tar")
    assert facts(found.model) == facts(mlf_sdk.load(source))
    before, after = (load_analysed(Request(source=(str(p),)))[0] for p in (source, found.output))
    assert lay_out(before).plan == lay_out(after).plan


def test_a_graph_stays_a_graph_that_others_read(tmp_path: Path) -> None:
    source = archive(tmp_path, "graph", nop=True)
    mlf_sdk.convert(source, tmp_path / "out.tar")
    listed = subprocess.run(["tar", "tf", tmp_path / "out.tar"], capture_output=True, text=True, check=True)
    assert "./executor-config/graph/tiny.graph" in listed.stdout


def test_a_compiled_model_is_read_back_as_the_same_model(tmp_path: Path) -> None:
    found = mlf_sdk.convert(LAYERS, tmp_path / "out.tar")
    assert facts(found.model) == facts(mlf_sdk.load(LAYERS))


@pytest.mark.parametrize("count", [1, 8, 16])
def test_a_slice_from_the_first_element(tmp_path: Path, count: int) -> None:
    """It is the beginning of another tensor, for which a graph has no node unless it is the whole."""
    m = Maker(1)
    x = m.input((1, 16))
    table = m.logistic(x)
    first = m.same_scale(table, (1, count))
    begin, size = (
        m.spec.tensor(n, "int32", (2,), data=np.array(v, np.int32))
        for n, v in (("begin", (0, 0)), ("size", (1, count)))
    )
    m.spec.add("SLICE", (table, begin, size), first)
    source = tmp_path / "slice.tflite"
    source.write_bytes(m.finish(table, first))
    found = mlf_sdk.convert(source, tmp_path / "out.tar")
    assert facts(found.model) == facts(mlf_sdk.load(source))
    assert found.model.provenance.source == str(tmp_path / "out.tar")
    analysed = load_analysed(Request(source=(str(found.output),)))[0]
    assert lay_out(analysed).plan == lay_out(load_analysed(Request(source=(str(source),)))[0]).plan


def test_what_can_not_be_read_back_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "mlf_sdk.pipeline.convert.archive_of_model", lambda _: {"metadata.json": b"{}", "src/a.c": b""}
    )
    (tmp_path / "old.tar").write_bytes(b"kept")
    for output in ("new.tar", "old.tar"):
        with pytest.raises(InputError, match="can't be read back: the archive has a fault"):
            mlf_sdk.convert(archive(tmp_path, "graph"), tmp_path / output)
    assert (tmp_path / "old.tar").read_bytes() == b"kept"
    assert {p.name for p in tmp_path.iterdir()} == {"graph.tar", "old.tar"}


def test_two_conversions_are_equal(tmp_path: Path) -> None:
    source = archive(tmp_path, "aot-c")
    first, second = (mlf_sdk.convert(source, tmp_path / name).output.read_bytes() for name in "ab")
    assert first == second


def restate(folder: Path, edit: Callable[[dict[str, Any]], None], *, sealed: bool = False) -> Path:
    """``folder/out.tar`` as a folder, with what its metadata states under ``mlf_sdk`` edited.

    Args:
        sealed: with a seal that fits, as a program has that states what is wrong.
    """
    subprocess.run(["tar", "xf", "out.tar", "--one-top-level=out"], cwd=folder, check=True)
    root = folder / "out"
    member = root / "metadata.json"
    top = json.loads(member.read_bytes())
    (module,) = top["modules"].values()
    edit(module["mlf_sdk"])
    member.write_text(json.dumps(top))
    if sealed:
        files = [path for path in root.rglob("*") if path.is_file()]
        module["mlf_sdk"]["seal"] = seal_of({str(f.relative_to(root)): f.read_bytes() for f in files})
        member.write_text(json.dumps(top))
    return root


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("symbol", "absent", "no source or object of the archive defines 'absent'"),
        ("result", "int; system(0)", "is no name in C"),
        ("dtype", "complex64", "complex64"),
        ("param", "lost", "there is no parameter 'lost'"),
    ],
)
def test_a_stated_model_is_checked(tmp_path: Path, key: str, value: str, said: str) -> None:
    mlf_sdk.convert(archive(tmp_path, "aot-c"), tmp_path / "out.tar")

    def edit(stated: dict[str, Any]) -> None:
        step, tensor = stated["model"]["steps"][0], stated["model"]["tensors"][0]
        if key == "param":
            tensor.update(kind="constant", param=value)
        else:
            {"symbol": step, "result": step["abi"], "dtype": tensor}[key][key] = value

    with pytest.raises((ArchiveError, InputError), match=said):
        mlf_sdk.load(restate(tmp_path, edit))


@pytest.mark.parametrize(
    ("edit", "where", "what"),
    [
        (lambda model: model.update(inputs=[77]), "inputs[0]", "there is no tensor 77"),
        (
            lambda model: model["steps"][0].update(
                overlaps=[{"input": 0, "output": 0, "distance_bytes": -16}]
            ),
            "steps[0].overlaps[0].distance_bytes",
            "-16 for input 0, output 0 of '",
        ),
    ],
)
def test_a_stated_model_that_contradicts_itself(tmp_path: Path, edit: Any, where: str, what: str) -> None:
    mlf_sdk.convert(archive(tmp_path, "aot-c"), tmp_path / "out.tar")
    with pytest.raises(InputError) as caught:
        mlf_sdk.load(restate(tmp_path, lambda stated: edit(stated["model"]), sealed=True))
    assert (caught.value.where, caught.value.what.startswith(what)) == (f"model tiny: {where}", True)
    assert caught.value.hint.startswith("metadata.json states it under mlf_sdk")


def test_facts_about_a_call_are_checked(tmp_path: Path) -> None:
    mlf_sdk.convert(LAYERS, tmp_path / "out.tar")

    def overlap(**changes: int) -> Callable[[dict[str, Any]], None]:
        return lambda stated: stated["calls"]["conv_2d_0"]["overlaps"][0].update(changes)

    with pytest.raises(
        ArchiveError,
        match=r"mlf_sdk\.calls\['conv_2d_0'\]\.overlaps\[0\]\.distance_bytes: Expected `int` >= 0",
    ):
        mlf_sdk.load(restate(tmp_path, overlap(distance_bytes=-1)))
    with pytest.raises(
        InputError, match="input 9, output 0 of 'conv_2d_0', which has 2 inputs and 1"
    ) as caught:
        mlf_sdk.load(restate(tmp_path, overlap(input=9), sealed=True))
    assert caught.value.where == "model layers: steps[0].overlaps[0]"
    assert caught.value.hint.startswith("metadata.json states it under mlf_sdk")


def test_a_layer_of_many_multiplications(tmp_path: Path) -> None:
    mlf_sdk.convert(LAYERS, tmp_path / "out.tar")
    found = mlf_sdk.load(restate(tmp_path, lambda stated: stated["calls"]["conv_2d_0"].update(macs=1 << 31)))
    assert found.steps[0].layer is not None
    assert found.steps[0].layer.macs == 1 << 31


# ---- bundles ----


def call_bundle(folder: Path, name: str, inputs: dict[str, np.ndarray[Any, Any]], output: str) -> bytes:
    """Bytes of an output: the object is linked as it is, its memories have guard bytes around them."""
    library = folder / f"{name}.so"
    subprocess.run(["cc", "-shared", "-o", library, folder / f"{name}.o", "-lm"], check=True)
    macros = {}
    for line in (folder / f"{name}.h").read_text().splitlines():
        words = line.split()
        if words[:1] == ["#define"] and len(words) == 3 and words[2].isdigit():
            macros[words[1].removeprefix(f"{name.upper()}_")] = int(words[2])
    weights = folder / f"{name}.weights.bin"
    constants = weights.read_bytes() if weights.is_file() else b""
    assert len(constants) == macros["CONSTANT_MEM_SIZE"]
    blocks = []
    for size in (len(constants), macros["MUTABLE_MEM_SIZE"], macros["ACTIVATIONS_MEM_SIZE"]):
        block = np.full(size + 192, 0xA5, np.uint8)
        skew = -block.ctypes.data % 64
        blocks.append(block[skew:][: size + 128])
    blocks[0][64 : 64 + len(constants)] = np.frombuffer(constants, np.uint8)
    for key, value in inputs.items():
        at = 64 + macros[key]
        blocks[1][at : at + value.nbytes] = np.frombuffer(value.tobytes(), np.uint8)
    entry = getattr(ctypes.CDLL(str(library)), name)
    assert entry(*(ctypes.c_void_p(block.ctypes.data + 64) for block in blocks)) == 0
    assert blocks[0][64:-64].tobytes() == constants
    for block in blocks:
        assert (block[:64] == 0xA5).all() and (block[-64:] == 0xA5).all()
    return blocks[1][64 + macros[output] : -64].tobytes()


@pytest.mark.toolchain
@pytest.mark.parametrize("kind", ["graph", "aot-c", "aot-packed"])
def test_a_bundle_computes_what_the_archive_does(tmp_path: Path, needs_cc: str, kind: str) -> None:
    spec = Spec(kind=kind)
    x = sample(spec)
    source = archive(tmp_path, kind)
    found = mlf_sdk.convert(source, tmp_path / "b", to="bundle", board="host")
    name = found.model.tensors[found.model.inputs[0]].name
    wanted = reference(spec, x).tobytes()
    out = call_bundle(tmp_path / "b", "tiny", {name: x}, found.model.output_names[0])
    np.testing.assert_allclose(
        np.frombuffer(out[: len(wanted)], "f4"), np.frombuffer(wanted, "f4"), rtol=1e-6, atol=1e-6
    )
    arena = lay_out(load_analysed(Request(source=(str(source),), board="host"))[0]).arena_bytes
    assert found.model.summary.workspace_bytes is not None
    assert found.model.summary.workspace_bytes < arena + 64 * 3  # sizes and offsets are multiples of 64


@pytest.mark.toolchain
def test_only_the_entry_is_seen_from_outside(tmp_path: Path, needs_cc: str) -> None:
    for api, kept in (("static", {"tiny"}), ("dynamic", {"tiny", "tiny_config"})):
        mlf_sdk.convert(archive(tmp_path, "graph"), tmp_path / api, to="bundle", board="host", api=api)
        said = subprocess.run(
            ["nm", "-g", "--defined-only", tmp_path / api / "tiny.o"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert {line.split()[-1] for line in said.stdout.splitlines()} == kept


@pytest.mark.toolchain
@pytest.mark.parametrize("api", ["static", "dynamic"])
def test_a_bundle_is_read_back(tmp_path: Path, needs_cc: str, api: str) -> None:
    net = Net()
    a, b = net.input("a"), net.input("b b")
    both = net.call("mix", [a, b], "in0[i] + in1[i]", "in0[i] - in1[i]")
    source = write(net.files(*both), tmp_path / "net.tar")
    found = mlf_sdk.convert(source, tmp_path / "b", to="bundle", board="host", api=api)
    again = mlf_sdk.load(tmp_path / "b")
    assert {again.tensors[i].name for i in again.inputs} == {"a", "b_b"}
    assert again.output_names == mlf_sdk.load(source).output_names
    assert [t.shape for t in again.tensors if t.name in again.output_names] == [(1, 8), (1, 8)]
    assert again.provenance.format_version == f"({api} API)" == found.model.provenance.format_version


@pytest.mark.toolchain
def test_a_bundle_knows_the_file_that_it_was_made_from(
    tmp_path: Path, needs_cc: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its kernels are the compiler's own: they are compared with what the file means, as those of an archive."""
    monkeypatch.setattr(panel, "WITNESSES", (panel.Reference(),))
    model = tmp_path / "a?? é.tflite"
    model.write_bytes(two_layers())
    compiled = mlf_sdk.load(model).provenance
    mlf_sdk.convert(model, tmp_path / "b", to="bundle", board="host")
    found = mlf_sdk.load(tmp_path / "b").provenance
    assert found.made_from == compiled.made_from is not None
    assert found.compiler == compiled.compiler and found.options == {**compiled.options, "core": "generic"}
    report = mlf_sdk.run(tmp_path / "b", board="host", model_file=str(model))
    assert report.verdict == "PASS" and report.witnessed.evidence == "reference"
    (header,) = (tmp_path / "b").glob("*.h")
    text = header.read_text()
    header.write_text(re.sub(r'"sha256":"\w+"', '"sha256":"12"', text))
    with pytest.raises(ArchiveError, match="the origin has no SHA-256"):
        mlf_sdk.load(tmp_path / "b")
    header.write_text(text.replace('"made_from"', '"made_of"'))
    with pytest.raises(ArchiveError, match="the origin is broken"):
        mlf_sdk.load(tmp_path / "b")


@pytest.mark.toolchain
def test_a_plain_project_builds_and_runs_with_a_bundle(tmp_path: Path, needs_cxx: None) -> None:
    """A CMake project that knows nothing of the SDK, with the header in C and in C++."""
    spec = Spec()
    mlf_sdk.convert(archive(tmp_path, "graph"), tmp_path / "app" / "b", to="bundle", board="host")
    app = tmp_path / "app"
    (app / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(app C CXX)\n"
        "add_executable(c main.c b/tiny.o)\nadd_executable(cxx main.cc b/tiny.o)\n"
        "target_link_libraries(c m)\ntarget_link_libraries(cxx m)\n"
    )
    text = (
        '#include <stdio.h>\n#include <string.h>\n#include "b/tiny.h"\n'
        "GLOW_MEM_ALIGN(TINY_MEM_ALIGN) static uint8_t constants[] = {\n"
        '#include "b/tiny.weights.txt"\n};\n'
        "GLOW_MEM_ALIGN(TINY_MEM_ALIGN) static uint8_t mutable_[TINY_MUTABLE_MEM_SIZE];\n"
        "GLOW_MEM_ALIGN(TINY_MEM_ALIGN) static uint8_t activations[TINY_ACTIVATIONS_MEM_SIZE + 64];\n"
        "int main(void) {\n  if (fread(GLOW_GET_ADDR(mutable_, TINY_x), 1, 32, stdin) != 32) { return 1; }\n"
        "  int status = tiny(constants, mutable_, activations);\n"
        "  fwrite(GLOW_GET_ADDR(mutable_, TINY_output), 1, 32, stdout);\n  return status;\n}\n"
    )
    (app / "main.c").write_text(text)
    (app / "main.cc").write_text(text)
    subprocess.run(["cmake", "-G", "Ninja", "-S", app, "-B", app / "out"], check=True, capture_output=True)
    subprocess.run(["cmake", "--build", app / "out"], check=True, capture_output=True)
    x = sample(spec)
    for program in ("c", "cxx"):
        done = subprocess.run([app / "out" / program], input=x.tobytes(), capture_output=True, check=True)
        np.testing.assert_allclose(
            np.frombuffer(done.stdout, "f4"), reference(spec, x).ravel(), rtol=1e-6, atol=1e-6
        )


@pytest.mark.toolchain
def test_a_bundle_is_the_same_every_time(tmp_path: Path, needs_cc: str) -> None:
    files = []
    for folder in ("a", "deeper/b"):
        found = mlf_sdk.convert(archive(tmp_path, "graph"), tmp_path / folder, to="bundle", board="host")
        files.append({name: (tmp_path / folder / name).read_bytes() for name in found.sizes_bytes})
    assert files[0] == files[1]


@pytest.mark.qemu
def test_a_bundle_runs_on_a_board(tmp_path: Path, needs_qemu: None) -> None:
    spec = Spec(kind="graph")
    x = sample(spec)
    source = archive(tmp_path, "graph")
    mlf_sdk.convert(source, tmp_path / "b", to="bundle", board="mps2-an386")
    run = mlf_sdk.run(
        tmp_path / "b", board="mps2-an386", inputs={"x": x}, expect={"output": reference(spec, x)}
    )
    assert run.ok


@pytest.mark.toolchain
def test_a_bundle_of_a_bundle_keeps_its_name(tmp_path: Path, needs_cc: str) -> None:
    """The entry of the old bundle has the name of the new one's."""
    source = archive(tmp_path, "graph")
    mlf_sdk.convert(source, tmp_path / "a", to="bundle", board="host")
    mlf_sdk.convert(tmp_path / "a", tmp_path / "b", to="bundle", board="host")
    x = sample(Spec())
    first, second = (call_bundle(tmp_path / name, "tiny", {"x": x}, "output")[:32] for name in "ab")
    assert first == second


def test_state_can_not_be_in_a_bundle(tmp_path: Path, stateful: Path) -> None:
    with pytest.raises(InputError, match="keeps state between runs"):
        mlf_sdk.convert(stateful, tmp_path / "b", to="bundle", board="host")
    assert not (tmp_path / "b").exists()


@pytest.fixture
def stateful(tmp_path: Path) -> Path:
    """An archive whose parameter is a state."""
    source = tmp_path / "kept.tar"
    mlf_sdk.convert(archive(tmp_path, "graph"), source)
    files = build(Spec())

    def edit(top: dict[str, Any]) -> None:
        (module,) = top["modules"].values()
        module["mlf_sdk"] = {"compiler": "x", "compiler_version": "1", "calls": {}, "states": ["p0"]}

    source.write_bytes(tar_bytes(edit_json(files, "metadata.json", edit)))
    return source


def test_outputs_that_no_step_writes_are_copied(tmp_path: Path, needs_cc: str) -> None:
    """A constant, and an input, as outputs."""
    net = Net()
    x = net.input("x")
    weights = net.constant("w", np.arange(8, dtype="f4").reshape(1, 8))
    y = net.call("add", [x, weights], "in0[i] + in1[i]")
    source = write(net.files(y, weights), tmp_path / "net.tar")
    found = mlf_sdk.convert(source, tmp_path / "b", to="bundle", board="host")
    value = np.ones((1, 8), "f4")
    names = found.model.output_names
    sums = call_bundle(tmp_path / "b", "net", {"x": value}, names[0])
    constant = call_bundle(tmp_path / "b", "net", {"x": value}, names[1])
    assert np.array_equal(np.frombuffer(sums[:32], "f4"), np.arange(1, 9, dtype="f4"))
    assert np.array_equal(np.frombuffer(constant[:32], "f4"), np.arange(8, dtype="f4"))


def test_nothing_of_the_users_is_lost(tmp_path: Path, needs_cc: str) -> None:
    folder = tmp_path / "b"
    folder.mkdir()
    (folder / "mine.c").write_text("int mine;\n")
    mlf_sdk.convert(archive(tmp_path, "graph"), folder, to="bundle", board="host")
    assert (folder / "mine.c").read_text() == "int mine;\n"
    source = archive(tmp_path, "graph")
    with pytest.raises(InputError, match="would replace the model"):
        mlf_sdk.convert(source, source)
    with pytest.raises(InputError, match="is a folder"):
        mlf_sdk.convert(source, folder)
    other = archive(tmp_path, "operator")
    with pytest.raises(InputError, match="a bundle is a folder"):
        mlf_sdk.convert(source, other, to="bundle", board="host")


@pytest.mark.toolchain
def test_an_entry_with_static_pools(tmp_path: Path, needs_cc: str, shared_mlf: Path) -> None:
    source = shared_mlf / "conv1d-usmp-tvm0.11.1.tar"
    found = mlf_sdk.convert(source, tmp_path / "b", to="bundle", board="host")
    kept = mlf_sdk.convert(source, tmp_path / "out.tar")
    assert facts(kept.model) == facts(mlf_sdk.load(source))
    arrays = np.load(shared_mlf / "conv1d.npz")
    x = np.ascontiguousarray(arrays["in::x"])
    out = call_bundle(tmp_path / "b", "conv1d", {"x": x}, found.model.output_names[0])
    wanted = arrays["out::0"]
    np.testing.assert_allclose(
        np.frombuffer(out[: wanted.nbytes], "f4"), wanted.ravel(), rtol=1e-5, atol=1e-6
    )


@pytest.mark.toolchain
def test_the_type_of_a_device_has_four_bytes_where_enums_are_short(needs_cc: str) -> None:
    """Kernels in machine code read all four, and some refuse a tensor on another device than theirs."""
    check = '_Static_assert(sizeof(((DLDevice *)0)->device_type) == 4, "");\n'
    text = f"#include <dlpack/dlpack.h>\n{check}"
    flags = ["-fshort-enums", "-fsyntax-only", f"-I{CRT / 'include'}", "-x", "c", "-"]
    subprocess.run([needs_cc, *flags], input=text, text=True, check=True)
