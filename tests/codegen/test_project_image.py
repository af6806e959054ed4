# SPDX-License-Identifier: Apache-2.0
"""Generated projects, built and run: odd graphs, colliding archives, C++, objects, placement, applications."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlf_sdk
from archives import Spec, build, reference, sample, write
from image_runs import assert_promises, run_all
from mlf_sdk.analysis.elf.read import read_image
from mlf_sdk.codegen.lock import read_lock
from mlf_sdk.errors import ArchiveError, ToolError
from mlf_sdk.targets.registry import project_target
from mlf_sdk.targets.target import TargetChoice
from mlf_sdk.tools.process import run_process
from mlf_sdk.wire.codes import DeviceError
from model_cases import Net, Ref

pytestmark = pytest.mark.toolchain
X = np.linspace(-4, 4, 8, dtype=np.float32).reshape(1, 8)
W = np.arange(1, 9, dtype=np.float32).reshape(1, 8)
Once = Callable[[str, Callable[[Path], None]], Path]
Values = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """A graph, its inputs, and the outputs that it must give."""

    net: Net
    heads: list[Ref]
    inputs: list[Values]
    outputs: list[Values]


def cases() -> dict[str, Case]:
    """Graphs in which something is unusual."""
    found: dict[str, Case] = {}

    def case(name: str) -> Net:
        return Net(name=name)

    def add(net: Net, heads: list[Ref], inputs: list[Values], outputs: list[Values]) -> None:
        found[net.name] = Case(net, heads, inputs, outputs)

    net = case("nop_first")
    add(net, [net.call("neg", [net.nop(net.input("x"), (2, 4))], "-in0[i]")], [X], [-X.reshape(2, 4)])
    net = case("nop_of_constant")
    x, w = net.input("x", (8,)), net.nop(net.constant("w", W), (8,))
    add(net, [net.call("mul", [x, w], "in0[i] * in1[i]")], [X[0]], [X[0] * W[0]])
    net = case("nop_chain")
    y = net.call("neg", [net.input("x")], "-in0[i]")
    for number, shape in enumerate([(8,), (2, 4), (4, 2)]):
        y = net.nop(y, shape, f"r{number}")
    add(net, [net.call("twice", [y], "2 * in0[i]"), y], [X], [-2 * X.reshape(4, 2), -X.reshape(4, 2)])
    net = case("nop_only")
    net.kernels["unused"] = "int tvmgen_unused(void) { return 0; }\n"
    add(net, [net.nop(net.input("x"), (2, 4))], [X], [X.reshape(2, 4)])
    net = case("several_outputs")
    low, high = net.call("split", [net.input("x")], "in0[i] - 1", "in0[i] + 1")
    add(net, [high, low, net.call("neg", [low], "-in0[i]")], [X], [X + 1, X - 1, 1 - X])
    net = case("input_is_output")
    x = net.input("x")
    y = net.call("square", [net.call("neg", [x], "-in0[i]")], "in0[i] * in0[i]")
    add(net, [x, y], [X], [X, X * X])
    net = case("constant_is_output")
    w = net.constant("w", W)
    add(net, [net.call("add", [net.input("x"), w], "in0[i] + in1[i]"), w], [X], [X + W, W])
    net = case("unused_input")
    unused, x = net.input("unused", (3,), "int64"), net.input("x")
    add(net, [net.call("neg", [x], "-in0[i]")], [np.array([1, -2, 3], np.int64), X], [-X])
    assert unused.node == 0
    net = case("one_output_twice")
    y = net.call("neg", [net.input("x")], "-in0[i]")
    add(net, [y, y], [X], [-X, -X])
    net = case("scalar")
    add(net, [net.call("inc", [net.input("x", ())], "in0[i] + 1")], [np.float32(2)], [np.float32(3)])
    net = case("flat")
    x = net.input("x", (2, 4))
    y = net.call("add", [x, x], "in0[i] + in1[i]", flatten=True)
    add(net, [net.call("neg", [y], "-in0[i]")], [X.reshape(2, 4)], [-2 * X.reshape(2, 4)])
    net = case("wide_integers")
    x = net.input("x", (3,), "int64")
    big = np.array([-(2**62), 7, 2**61], np.int64)
    add(net, [net.call("half", [x], "in0[i] / 2")], [big], [big // 2])
    net = case("doubles")
    x = net.input("x", (3,), "float64")
    fine = np.array([1 / 3, -1e300, 5e-324])
    add(net, [net.call("neg", [x], "-in0[i]")], [fine], [-fine])
    net = case("diamond")
    x = net.input("x")
    left, right = net.call("neg", [x], "-in0[i]"), net.call("square", [x], "in0[i] * in0[i]")
    y = net.call("add", [net.call("neg", [left], "-in0[i]"), right], "in0[i] + in1[i]")
    add(net, [net.call("add", [y, left], "in0[i] + in1[i]")], [X], [X * X])
    net = case('hostile names "${X}" {{ y }}')
    a, b = net.input('*/"??/'), net.input("$(touch x)\\")
    add(net, [net.call("sub", [a, b], "in0[i] - in1[i]")], [X, W], [X - W])
    return found


CASES = cases()


def make_odd_graphs(board: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        archives = [c.net.write(folder / f"{i}.tar", *c.heads) for i, c in enumerate(CASES.values())]
        mlf_sdk.generate(archives, folder / "project", board=board)

    return make


def check_odd_graphs(folder: Path) -> None:
    """All of them in one image."""
    done = run_all(folder, [case.inputs for case in CASES.values()])
    lock = read_lock(folder)
    for (name, case), execution in zip(CASES.items(), done, strict=True):
        for got, wanted in zip(execution.outputs, case.outputs, strict=True):
            np.testing.assert_array_equal(got[0], wanted, err_msg=name)
    # empty of steps or workspaces or not: what is measured is what was planned
    assert_promises(folder, lock, done)


def test_odd_graphs_on_the_host(once: Once, needs_host: None) -> None:
    check_odd_graphs(once("odd-host", make_odd_graphs("host")) / "project")


@pytest.mark.qemu
def test_odd_graphs_on_a_board(once: Once, needs_qemu: None) -> None:
    check_odd_graphs(once("odd-board", make_odd_graphs("mps2-an386")) / "project")


# ---- colliding symbols ----

COLLIDING = [
    Spec(name="default"),
    Spec(name="default", dtype="int8"),
    Spec(name="default", kind="aot-c"),
    Spec(name="default", kind="aot-c", dtype="int8"),
    Spec(name="default", kind="aot-packed"),
    Spec(name="default", kind="aot-packed", dtype="int8"),
    Spec(name="default", kind="operator"),
    Spec(name="default", kind="operator", dtype="int8"),
    Spec(name="default", version=1, nop=True),
]


def make_colliding(board: str, share_arena: bool) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        archives = [write(build(spec), folder / f"{i}.tar") for i, spec in enumerate(COLLIDING)]
        options: dict[str, Any] = {"share_arena": share_arena}
        mlf_sdk.generate(archives, folder / "project", board=board, **options)

    return make


def check_colliding(folder: Path, share_arena: bool) -> None:
    inputs = [[sample(s).reshape(8) if s.kind == "operator" else sample(s)] for s in COLLIDING]
    done = run_all(folder, inputs)
    lock = read_lock(folder)
    for spec, (x,), execution in zip(COLLIDING, inputs, done, strict=True):
        got = execution.outputs[0][0]
        np.testing.assert_array_equal(got, reference(spec, x).reshape(got.shape), err_msg=str(spec))
    arenas = {model.arena_symbol for model in lock.models}
    assert len(arenas) == (1 if share_arena else len(COLLIDING))
    report = mlf_sdk.check(folder)
    assert report.ok, [row for row in report.rows if row.state != "proven"]
    image = read_image(folder / "build" / "app.elf")
    guards = 2 * lock.models[0].guard_bytes
    sizes = [image.find(symbol).size_bytes - guards for symbol in arenas]  # type: ignore[union-attr]
    reserved = [model.arena_reserved_bytes for model in lock.models]
    assert sum(sizes) == (max(reserved) if share_arena else sum(reserved))
    kernels = [symbol for model in lock.models for symbol in {s.symbol for s in model.steps}]
    assert len(set(kernels)) == len(kernels)
    if not share_arena:
        for model, execution in zip(lock.models, done, strict=True):
            assert execution.arena_high_water_bytes == model.arena_bytes, model.c_name


@pytest.mark.parametrize("share_arena", [False, True], ids=["apart", "shared"])
def test_colliding_archives_on_the_host(once: Once, needs_host: None, share_arena: bool) -> None:
    folder = once(f"colliding-host-{share_arena}", make_colliding("host", share_arena))
    check_colliding(folder / "project", share_arena)


@pytest.mark.qemu
def test_colliding_archives_on_a_board(once: Once, needs_qemu: None) -> None:
    folder = once("colliding-board", make_colliding("mps2-an386", True))
    check_colliding(folder / "project", True)


# ---- objects and C++ ----


def compiled(files: dict[str, bytes], folder: Path) -> dict[str, bytes]:
    """The archive with its kernels as ready-made objects for Cortex-M4F."""
    crt = Path(__file__).resolve().parents[2] / "crt" / "include"
    result = {}
    for name, data in files.items():
        if not name.endswith("lib1.c"):
            if not name.endswith("lib0.c"):
                result[name] = data
            continue
        (folder / "k.c").write_bytes(data)
        flags = [
            "-O2",
            "-mcpu=cortex-m4",
            "-mthumb",
            "-mfloat-abi=hard",
            "-mfpu=fpv4-sp-d16",
            "-ffp-contract=off",
            "-w",
            "-c",
        ]
        run_process(
            ["arm-none-eabi-gcc", *flags, f"-I{crt}", str(folder / "k.c"), "-o", str(folder / "k.o")],
            timeout_s=60,
        )
        result["codegen/host/lib/lib1.o"] = (folder / "k.o").read_bytes()
    return result


@pytest.mark.qemu
def test_colliding_objects_on_a_board(tmp_path: Path, needs_qemu: None) -> None:
    specs = [Spec(), Spec(dtype="int8"), Spec(nop=True)]
    archives = [write(compiled(build(s), tmp_path), tmp_path / f"{i}.tar") for i, s in enumerate(specs)]
    mlf_sdk.generate(archives, tmp_path / "out", board="mps2-an386")
    done = run_all(tmp_path / "out", [[sample(spec)] for spec in specs])
    for spec, execution in zip(specs, done, strict=True):
        np.testing.assert_array_equal(execution.outputs[0][0], reference(spec, sample(spec)))
    assert_promises(tmp_path / "out", read_lock(tmp_path / "out"), done)


def test_objects_do_not_run_on_the_host_or_another_cpu(tmp_path: Path, needs_arm: None) -> None:
    path = write(compiled(build(), tmp_path), tmp_path / "objects.tar")
    for board, what in (("host", "machine code for ARM"), ("mps2-an385", "cortex-m3|Cortex-M3|FPU|float")):
        with pytest.raises(ArchiveError, match=what) as caught:
            mlf_sdk.generate(path, tmp_path / board, board=board)
        assert [fault.member for fault in caught.value.faults] == ["codegen/host/lib/lib1.o"] * len(
            caught.value.faults
        )
        assert not (tmp_path / board).exists()


def cxx_archive(path: Path, figure: int) -> Path:
    """Kernels in C++: a template and a function of its own; the metadata tells their workspace."""
    net = Net(name="cxx")
    y = net.call("neg", [net.input("x")], "negated<float>(in0[i])")
    y = net.call("sum", [y, net.constant("w", W)], "in0[i] + in1[i]")
    workspace = [{"device": 1, "workspace_size_bytes": figure}]
    net.operators = [{"function_name": net.symbol(n), "workspace": workspace} for n in ("neg", "sum")]
    files = net.files(y, suffix="cc")
    member = "codegen/host/src/cxx_lib1.cc"
    files[member] = b"template <typename T> static T negated(T value) { return -value; }\n" + files[member]
    return write(files, path)


def test_cxx_on_the_host(tmp_path: Path, needs_cxx: None) -> None:
    path = cxx_archive(tmp_path / "cxx.tar", 16)
    report = mlf_sdk.run(path, board="host", inputs={"x": X}, expect={"0": W - X}, rtol=0, atol=0)
    assert report.ok
    assert not report.memory.exact  # the archive's figure is a bound
    assert report.memory.arena_high_water_bytes is not None
    assert 64 <= report.memory.arena_high_water_bytes <= report.memory.arena_bytes <= 64 + 16


@pytest.mark.qemu
def test_cxx_on_a_board(tmp_path: Path, needs_qemu: None) -> None:
    path = cxx_archive(tmp_path / "cxx.tar", 16)
    report = mlf_sdk.run(path, board="mps2-an386", inputs={"x": X}, expect={"0": W - X}, rtol=0, atol=0)
    assert report.ok
    names = {symbol.name for symbol in read_image(report.folder / "build" / "app.elf").symbols}
    own = {n for n in names if n.startswith("mlf_")}
    assert not {n for n in names - own if "exception" in n or "cxa_throw" in n}


def test_cxx_kernels_that_need_no_workspace(tmp_path: Path) -> None:
    model = mlf_sdk.load(cxx_archive(tmp_path / "cxx.tar", 0))
    assert [step.workspace_stack_bytes for step in model.steps] == [0, 0]


# ---- placement and options ----


@pytest.mark.qemu
@pytest.mark.parametrize("place", ["flash", "ram"])
def test_place_of_the_parameters(tmp_path: Path, needs_qemu: None, place: Any) -> None:
    spec = Spec()
    path = write(build(spec), tmp_path / "tiny.tar")
    report = mlf_sdk.run(
        path,
        board="mps2-an386",
        inputs={"x": sample(spec)},
        expect={"0": reference(spec, sample(spec))},
        params=place,
    )
    assert report.ok
    image = read_image(report.folder / "build" / "app.elf")
    params = image.find("tiny_params")
    arena = image.find("tiny_arena")
    assert params is not None and arena is not None
    assert (params.address >= 0x2000_0000) == (place == "ram")
    assert params.address % 16 == arena.address % 16 == 0
    assert arena.address >= 0x2000_0000


def test_parameters_in_ram_on_the_host(tmp_path: Path, needs_host: None) -> None:
    spec = Spec(dtype="int8")
    options: dict[str, Any] = {"params": "ram", "cflags": "-O1"}
    path = write(build(spec), tmp_path / "tiny.tar")
    expected = {"0": reference(spec, sample(spec))}
    assert mlf_sdk.run(path, board="host", inputs={"x": sample(spec)}, expect=expected, **options).ok


@pytest.mark.parametrize("keep", [True, False], ids=["kept", "reused"])
def test_inputs_for_more_than_one_run(tmp_path: Path, needs_host: None, keep: bool) -> None:
    """Only a model that keeps its inputs can run again on them."""
    spec = Spec()
    path = write(build(spec), tmp_path / "tiny.tar")
    mlf_sdk.generate(path, tmp_path / "out", board="host", keep_inputs=keep)
    lock = read_lock(tmp_path / "out")
    elf = mlf_sdk.build(tmp_path / "out").elf
    target = project_target(tmp_path / "out", lock, TargetChoice())
    with target.open(elf, timeout_s=30.0) as session:
        session.hello()
        assert session.info.models[0].inputs_kept is keep
        session.write_input("tiny", 0, sample(spec))
        if keep:
            assert session.run("tiny", count=3).runs == 3
            np.testing.assert_array_equal(session.read_input("tiny", 0), sample(spec))
        else:
            with pytest.raises(DeviceError):
                session.run("tiny", count=3)
            session.run("tiny")
            with pytest.raises(DeviceError):
                session.run("tiny")
        np.testing.assert_array_equal(session.read_output("tiny", 0), reference(spec, sample(spec)))


def test_standalone_application(tmp_path: Path, needs_host: None) -> None:
    """Runs once on the sample that lies beside it and prints the output's bytes."""
    spec = Spec(dtype="int8")
    path = write(build(spec), tmp_path / "tiny.tar")
    mlf_sdk.generate(path, tmp_path / "out", board="host", app="standalone")
    elf = mlf_sdk.build(tmp_path / "out").elf
    printed = run_process([str(elf)], timeout_s=30).stdout
    header = (tmp_path / "out/model/tiny/tiny_sample.h").read_text()
    given = np.array([int(v, 16) for v in re.findall(r"0x([0-9a-f]{2})", header)], np.uint8).view(np.int8)
    wanted = reference(spec, given.reshape(1, 8)).tobytes().hex()
    assert f"mlf: output 0 {wanted}" in printed.replace("\r", "").splitlines()
    assert printed.replace("\r", "").splitlines()[-1] == "mlf: done 0"


def test_kernel_flags_reach_the_kernels_only(tmp_path: Path, needs_host: None) -> None:
    files = build()
    member = "codegen/host/src/tiny_lib1.c"
    files[member] = b"#ifndef FROM_USER\n#error kernel without the flag\n#endif\n" + files[member]
    path = write(files, tmp_path / "tiny.tar")
    mlf_sdk.generate(path, tmp_path / "out", board="host", cflags="-O1 -DFROM_USER=1")
    mlf_sdk.build(tmp_path / "out")
    commands = (tmp_path / "out/build/compile_commands.json").read_text().splitlines()
    flagged = [line for line in commands if "-DFROM_USER=1" in line]
    assert len(flagged) == 1 and "tiny_lib1.c" in flagged[0]
    mlf_sdk.generate(path, tmp_path / "out", board="host")
    with pytest.raises(ToolError, match="kernel without the flag"):
        mlf_sdk.build(tmp_path / "out")


def test_code_files_with_spaces_and_signs(tmp_path: Path, needs_host: None) -> None:
    """What intake lets pass as a path must get through CMake, Ninja and the compiler."""
    spec = Spec()
    files = build(spec)
    odd = "codegen/host/src/tiny lib,1 @x@ a=b+c.c"
    files[odd] = files.pop("codegen/host/src/tiny_lib1.c")
    path = write(files, tmp_path / "tiny.tar")
    assert mlf_sdk.run(
        path, board="host", inputs={"x": sample(spec)}, expect={"0": reference(spec, sample(spec))}
    ).ok


def test_project_folder_with_spaces(tmp_path: Path, needs_host: None) -> None:
    spec = Spec(kind="aot-c")
    path = write(build(spec), tmp_path / "tiny.tar")
    folder = tmp_path / "a folder, größe & $x (1)"
    mlf_sdk.generate(path, folder, board="host")
    (done,) = run_all(folder, [[sample(spec)]])
    np.testing.assert_array_equal(done.outputs[0][0].reshape(1, 8), reference(spec, sample(spec)))


def test_project_folder_with_spaces_is_linked_for_a_board(tmp_path: Path, needs_arm: None) -> None:
    path = write(build(), tmp_path / "tiny.tar")
    folder = tmp_path / "a folder, größe & $x (1)"
    mlf_sdk.generate(path, folder, board="mps2-an386")
    assert mlf_sdk.build(folder).elf.is_file()
    assert (folder / "build/app.map").is_file()
    assert mlf_sdk.check(folder).ok


def test_project_builds_without_the_sdk(tmp_path: Path, needs_host: None) -> None:
    """By the two commands of its README, from a copy elsewhere."""
    path = write(build(), tmp_path / "tiny.tar")
    mlf_sdk.generate(path, tmp_path / "first", board="host")
    (tmp_path / "first").rename(tmp_path / "moved")
    readme = (tmp_path / "moved" / "README.md").read_text()
    commands = re.findall(r"^    (cmake .*)$", readme, re.MULTILINE)
    assert len(commands) == 2
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL"))
    }
    for command in commands:
        run_process(command.split(), cwd=tmp_path / "moved", env=environment, timeout_s=120)
    assert (tmp_path / "moved/build/app.elf").is_file()
