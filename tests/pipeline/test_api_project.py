# SPDX-License-Identifier: Apache-2.0
"""One call for each job: generate the same bytes, build what changed, refuse what does not fit, run, compare."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlf_sdk
from archives import Spec, build, merge, reference, sample, write
from mlf_sdk.codegen.changes import edited_files
from mlf_sdk.codegen.lock import read_lock
from mlf_sdk.codegen.writer import LOCK_NAME
from mlf_sdk.errors import DoesNotFitError, InputError, TargetError
from mlf_sdk.pipeline.cache import cache_folder
from mlf_sdk.pipeline.progress import Progress
from mlf_sdk.resources import data_dir
from mlf_sdk.targets.boards.load import OWN_BOARD
from model_cases import Net
from planning import examine, plan_project

X = np.linspace(-4, 4, 8, dtype=np.float32).reshape(1, 8)
BOARDS = [
    "host",
    "microbit",
    "mps2-an385",
    "mps2-an386",
    "mps2-an500",
    "mps2-an505",
    "mps2-an521",
    "mps3-an547",
]


class Recorded(Progress):
    """Progress that is kept."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.counted: list[tuple[int, int]] = []

    def say(self, what: str) -> None:
        self.said.append(what)

    def count(self, done: int, total: int) -> None:
        self.counted.append((done, total))


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def tiny(folder: Path, spec: Spec | None = None, name: str = "tiny.tar") -> Path:
    return write(build(spec or Spec()), folder / name)


def edited(path: Path, change: Callable[[Any], None]) -> None:
    value = json.loads(path.read_bytes())
    change(value)
    path.write_text(json.dumps(value))


# ---- the same bytes ----


@pytest.mark.parametrize("app", ["rpc", "standalone"])
@pytest.mark.parametrize("board", BOARDS)
def test_the_same_project_wherever_it_is_made(tmp_path: Path, board: str, app: Any) -> None:
    options: dict[str, Any] = {"app": app}
    (tmp_path / "elsewhere" / "deep").mkdir(parents=True)
    archives = [tiny(tmp_path), tiny(tmp_path / "elsewhere" / "deep")]
    folders = [tmp_path / "first", tmp_path / "elsewhere" / "deep" / "second"]
    for archive, folder in zip(archives, folders, strict=True):
        mlf_sdk.generate(archive, folder, board=board, **options)
    first, second = map(files_of, folders)
    assert first == second
    assert len(first) > 15
    assert not [path for path, data in first.items() if str(tmp_path).encode() in data]


def test_generating_again_touches_nothing(tmp_path: Path) -> None:
    path = tiny(tmp_path)
    made = mlf_sdk.generate(path, tmp_path / "out", board="mps2-an386")
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("*") if p.is_file()}
    again = mlf_sdk.generate(path, tmp_path / "out", board="mps2-an386")
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("*") if p.is_file()} == before
    assert made.lock == again.lock == read_lock(tmp_path / "out")
    assert again.kept == ()


def test_main_is_the_users(tmp_path: Path) -> None:
    path = tiny(tmp_path)
    mlf_sdk.generate(path, tmp_path / "out", board="host")
    main = tmp_path / "out" / "src" / "main.c"
    main.write_text(main.read_text() + "/* mine */\n")
    made = mlf_sdk.generate(path, tmp_path / "out", board="host", params="ram")
    assert made.kept == ("src/main.c",)
    assert main.read_text().endswith("/* mine */\n")


@pytest.mark.toolchain
def test_the_same_firmware_wherever_it_is_built(tmp_path: Path, needs_arm: None) -> None:
    folders = [tmp_path / "a", tmp_path / "a much longer name" / "b"]
    for folder in folders:
        mlf_sdk.generate(tiny(tmp_path), folder, board="mps2-an386")
        mlf_sdk.build(folder)
    for name in ("app.elf", "app.bin", "app.hex"):
        first, second = ((folder / "build" / name).read_bytes() for folder in folders)
        assert first == second, name
    assert str(tmp_path).encode() not in first


# ---- building ----


@pytest.mark.toolchain
def test_only_main_is_compiled_again(tmp_path: Path, needs_arm: None) -> None:
    folder = tmp_path / "out"
    mlf_sdk.generate(tiny(tmp_path), folder, board="mps2-an386")
    mlf_sdk.build(folder)
    before = {p: p.stat().st_mtime_ns for p in (folder / "build").rglob("*.o*") if p.is_file()}
    assert len(before) > 10
    main = folder / "src" / "main.c"
    main.write_text(main.read_text() + "/* touched */\n")
    mlf_sdk.build(folder)
    changed = [p.name for p, time in before.items() if p.stat().st_mtime_ns != time]
    assert changed == ["main.c.obj"]
    nothing = mlf_sdk.build(folder)
    assert "no work to do" in nothing.log


@pytest.mark.toolchain
def test_runs_of_an_archive_are_built_once(tmp_path: Path, needs_host: None) -> None:
    path = tiny(tmp_path, Spec(name="cached"))
    first = mlf_sdk.run(path, board="host")
    elf = first.folder / "build" / "app.elf"
    time = elf.stat().st_mtime_ns
    second = mlf_sdk.run(path, board="host")
    assert first.folder == second.folder
    assert cache_folder() in first.folder.parents
    assert elf.stat().st_mtime_ns == time
    other = mlf_sdk.run(path, board="host", cflags="-O1")
    assert other.folder != first.folder
    assert elf.stat().st_mtime_ns == time
    for name in first.outputs:
        np.testing.assert_array_equal(first.outputs[name], second.outputs[name])


def test_no_project_to_build_check_or_run(tmp_path: Path) -> None:
    for call in (mlf_sdk.build, mlf_sdk.check):
        with pytest.raises(InputError, match="no generated project here"):
            call(tmp_path)
    mlf_sdk.generate(tiny(tmp_path), tmp_path / "out", board="host")
    with pytest.raises(InputError, match="the project is not built"):
        mlf_sdk.check(tmp_path / "out")


# ---- what does not fit ----


def own_board(path: Path, flash: int, ram: int) -> Path:
    """The user's own row: an386 with less memory, and nothing emulated."""
    row = (data_dir("board_templates") / "boards" / "mps2-an386.toml").read_text()
    row = re.sub(r"\[\[memories\]\] # PSRAM\n(?:.+\n)+", "", row)
    row = row.replace('name = "mps2-an386"', 'name = "own"').replace(
        "stack_bytes = 8192", "stack_bytes = 2048"
    )
    row = re.sub(r'(name = "flash"\n(?:.+\n)*?size_bytes = )\w+', rf"\g<1>{flash}", row)
    row = re.sub(r'(name = "ram"\n(?:.+\n)*?size_bytes = )\w+', rf"\g<1>{ram}", row)
    path.write_text(row)
    return path


def large(path: Path) -> Path:
    """16 kB in, 16 kB out, 32 kB of parameters."""
    net = Net(name="large")
    w = net.constant("w", np.ones((1, 4096), np.float32))
    v = net.constant("v", np.ones((1, 4096), np.float32))
    y = net.call("add", [net.input("x", (1, 4096)), w, v], "in0[i] + in1[i] + in2[i]")
    return net.write(path, y)


def test_too_little_ram(tmp_path: Path) -> None:
    board = own_board(tmp_path / "own.toml", flash=1 << 20, ram=32 << 10)
    with pytest.raises(DoesNotFitError, match="it does not fit: it needs at least ") as caught:
        mlf_sdk.generate(large(tmp_path / "l.tar"), tmp_path / "out", board="own", board_file=board)
    what = caught.value.what
    # arena 32,768 + stack 2,048 + two message buffers of 4,096, a window of 8,192 and the server's state
    needs = int(re.search(r"at least ([\d,]+) bytes of RAM", what)[1].replace(",", ""))  # type: ignore[index]
    assert 32768 + 2048 + 8192 + 8192 <= needs < 32768 + 2048 + 8192 + 8192 + 512
    assert "arena 32,768" in what and "stack 2,048" in what
    assert what.endswith(f"and ram has 32,768: {needs - 32768:,} are missing")
    assert caught.value.where == "board own"
    assert "a board with more memory" in caught.value.hint and "--stack" not in caught.value.hint
    assert caught.value.exit_code == 2
    assert not (tmp_path / "out").exists()


def test_a_smaller_stack(tmp_path: Path) -> None:
    """What the row reserves is more than there is; the hint says how much is left, and that much fits."""
    path = large(tmp_path / "l.tar")
    board = own_board(tmp_path / "own.toml", flash=1 << 20, ram=50 << 10)
    with pytest.raises(DoesNotFitError) as caught:
        mlf_sdk.generate(path, tmp_path / "out", board="own", board_file=board)
    most = re.search(r"--stack SIZE, up to (\d+)", caught.value.hint)
    assert most is not None and 512 < int(most[1]) < 2048 and int(most[1]) % 8 == 0
    out = tmp_path / "out"
    mlf_sdk.generate(path, out, board="own", board_file=board, stack=most[1])
    assert f": {most[1]};" in (out / "board" / "linker.ld").read_text()
    assert json.loads((out / "mlf-project.json").read_text())["options"]["stack_bytes"] == int(most[1])


@pytest.mark.parametrize(
    ("size", "says"),
    [
        ("0", "at least one byte"),
        ("504", "504 bytes"),
        ("1001", "1,001 bytes"),
        ("much", "'much' is no size"),
    ],
)
def test_a_stack_that_can_not_be(size: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=says) as caught:
        mlf_sdk.generate(tiny(tmp_path), tmp_path / "out", board="mps2-an386", stack=size)
    assert caught.value.where == "--stack"


def test_what_would_help(tmp_path: Path) -> None:
    board = own_board(tmp_path / "own.toml", flash=1 << 20, ram=32 << 10)
    archives = [large(tmp_path / "l.tar"), tiny(tmp_path)]
    options: dict[str, Any] = {"params": "ram", "keep_inputs": True}
    with pytest.raises(InputError) as caught:
        mlf_sdk.generate(archives, tmp_path / "out", board="own", board_file=board, **options)
    for hint in ("--params flash", "no --keep-inputs", "--share-arena"):
        assert hint in caught.value.hint
    assert "parameters 32,8" in caught.value.what


def test_too_little_flash(tmp_path: Path) -> None:
    board = own_board(tmp_path / "own.toml", flash=16 << 10, ram=1 << 20)
    with pytest.raises(InputError, match=r"32,768 bytes of flash .* flash has 16,384"):
        mlf_sdk.generate(large(tmp_path / "l.tar"), tmp_path / "out", board="own", board_file=board)


def test_arena_of_exactly_what_is_left_fits(tmp_path: Path) -> None:
    path = large(tmp_path / "l.tar")
    board = own_board(tmp_path / "own.toml", flash=1 << 20, ram=32 << 10)
    with pytest.raises(InputError) as caught:
        plan_project([mlf_sdk.load(path)], board="own", board_file=board)
    needs = int(re.search(r"at least ([\d,]+) bytes", caught.value.what)[1].replace(",", ""))  # type: ignore[index]
    exact = own_board(tmp_path / "exact.toml", flash=1 << 20, ram=needs)
    assert plan_project([mlf_sdk.load(path)], board="own", board_file=exact).board.ram.size_bytes == needs
    less = own_board(tmp_path / "less.toml", flash=1 << 20, ram=needs - 1)
    with pytest.raises(InputError):
        plan_project([mlf_sdk.load(path)], board="own", board_file=less)


@pytest.mark.toolchain
def test_code_that_does_not_fit_is_found_by_the_linker(tmp_path: Path, needs_arm: None) -> None:
    board = own_board(tmp_path / "own.toml", flash=4 << 10, ram=64 << 10)
    mlf_sdk.generate(tiny(tmp_path), tmp_path / "out", board="own", board_file=board)
    with pytest.raises(
        DoesNotFitError, match=r"the image does not fit: flash overflows by [\d,]+ bytes"
    ) as caught:
        mlf_sdk.build(tmp_path / "out")
    assert "--cflags=-Os" in caught.value.hint


@pytest.mark.qemu
@pytest.mark.toolchain
def test_own_board(tmp_path: Path, needs_qemu: None) -> None:
    """The row travels with the project: what is generated can be checked and run without the file."""
    spec = Spec()
    board = own_board(tmp_path / "own.toml", flash=1 << 20, ram=64 << 10)
    mlf_sdk.generate(tiny(tmp_path), tmp_path / "out", board="own", board_file=board)
    assert (tmp_path / "out" / OWN_BOARD).read_bytes() == board.read_bytes()
    board.unlink()
    report = mlf_sdk.run(
        tmp_path / "out", inputs={"x": sample(spec)}, expect={"0": reference(spec, sample(spec))}
    )
    assert report.ok
    assert report.memory.stack_bytes == 2048
    regions = {region.name: region for region in report.check.regions}
    assert regions["ram"].size_bytes == 64 << 10
    assert 0 < regions["ram"].fill < 1


# ---- running and comparing ----


def two_faced(path: Path) -> Path:
    """A kernel that computes something else on Arm: one constant is another."""
    net = Net(name="faces")
    net.kernels["constant"] = "#ifdef __arm__\n#define SCALE 3.0f\n#else\n#define SCALE 2.0f\n#endif\n"
    return net.write(path, net.call("scale", [net.input("x")], "SCALE * in0[i]"))


@pytest.mark.qemu
@pytest.mark.toolchain
def test_host_twin_that_differs(tmp_path: Path, needs_qemu: None, needs_host: None) -> None:
    path = two_faced(tmp_path / "faces.tar")
    report = mlf_sdk.run(path, board="mps2-an386", inputs={"x": X})
    assert report.compare is None
    assert report.twin is not None
    assert report.twin.mismatches == 8
    assert report.twin.max_abs == pytest.approx(4.0)
    assert report.twin.max_rel == pytest.approx(0.5)
    assert not report.ok
    assert report.memory.ok and report.check.ok
    # against what the target should give nothing is wrong: the twin is not asked then
    alone = mlf_sdk.run(path, board="mps2-an386", inputs={"x": X}, expect={"0": 3 * X})
    assert alone.ok and alone.twin is None
    both = mlf_sdk.run(path, board="mps2-an386", inputs={"x": X}, expect={"0": 3 * X}, twin=True)
    assert both.compare is not None and both.compare.ok and not both.ok


@pytest.mark.toolchain
def test_outputs_that_differ(tmp_path: Path, needs_host: None) -> None:
    spec = Spec(name="compared")
    wanted = reference(spec, sample(spec))
    wrong = wanted.copy()
    wrong[0, 3] += 1
    path = tiny(tmp_path, spec)
    report = mlf_sdk.run(path, board="host", inputs={"x": sample(spec)}, expect={"output": wrong})
    assert report.compare is not None
    assert (report.compare.mismatches, report.compare.max_abs, report.ok) == (1, 1.0, False)
    near = mlf_sdk.run(path, board="host", inputs={"x": sample(spec)}, expect={"output": wrong}, atol=1.0)
    assert near.ok


@pytest.mark.toolchain
def test_accuracy_of_a_batch(tmp_path: Path, needs_host: None) -> None:
    net = Net(name="classes")
    path = net.write(tmp_path / "classes.tar", net.call("same", [net.input("x")], "in0[i]"))
    values = np.eye(8, dtype=np.float32)[[0, 3, 5, 7]]
    seen = Recorded()
    report = mlf_sdk.run(
        path,
        board="host",
        inputs={"x": values},
        expect={"label": np.array([0, 3, 5, 1])},
        progress=seen,
    )
    assert report.accuracy == 0.75
    assert report.compare is None and report.ok
    assert seen.counted == [(n, 4) for n in range(1, 5)]
    np.testing.assert_array_equal(report.outputs["output"].reshape(4, 8), values)


def test_generated_files_that_were_edited_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    mlf_sdk.generate(tiny(tmp_path), folder, board="mps2-an386")
    (folder / "src/main.c").write_text("int main(void) { return 0; }")  # the user's
    assert edited_files(folder) == ()
    (folder / "board/linker.ld").unlink()
    (folder / "crt/src/mlf.c").write_bytes((folder / "crt/src/mlf.c").read_bytes() + b" ")
    assert edited_files(folder) == ("board/linker.ld", "crt/src/mlf.c")


@pytest.mark.toolchain
def test_promise_that_is_not_kept(tmp_path: Path, needs_host: None) -> None:
    """The lock says 71 bytes of arena; the run shows 72."""
    folder = tmp_path / "out"
    mlf_sdk.generate(tiny(tmp_path), folder, board="host")
    edited(folder / LOCK_NAME, lambda lock: lock["models"][0].update(arena_bytes=71))
    report = mlf_sdk.run(folder)
    assert report.memory.arena_high_water_bytes == 72
    assert not report.memory.ok and not report.check.ok and not report.ok
    assert report.edited == (LOCK_NAME,)
    assert [row.item for row in report.check.rows if row.state != "proven"] == ["arena"]
    edited(folder / LOCK_NAME, lambda lock: lock["models"][0].update(arena_bytes=72, arena_reserved_bytes=96))
    report = mlf_sdk.run(folder)
    assert report.memory.ok and not report.check.ok and not report.ok
    edited(folder / LOCK_NAME, lambda lock: lock["models"][0].update(archive_sha256="0" * 64))
    with pytest.raises(TargetError, match="does not hold the model tiny"):
        mlf_sdk.run(folder)


@pytest.mark.toolchain
def test_workspace_that_only_the_run_tells(tmp_path: Path, needs_host: None) -> None:
    """A size computed at run time: planned with the archive's figure, which is a bound."""
    spec = Spec(name="late")
    files = build(spec)
    member = "codegen/host/src/late_lib1.c"
    files[member] = files[member].replace(b"(uint64_t)40", b"(uint64_t)(num_args * 20)")
    path = write(files, tmp_path / "late.tar")
    report = mlf_sdk.run(
        path, board="host", inputs={"x": sample(spec)}, expect={"0": reference(spec, sample(spec))}
    )
    assert report.ok
    assert not report.memory.exact
    assert report.memory.arena_high_water_bytes is not None
    assert report.memory.arena_high_water_bytes <= report.memory.arena_bytes


@pytest.mark.toolchain
def test_modules_and_functions_by_name(tmp_path: Path, needs_host: None) -> None:
    specs = [Spec(name="first"), Spec(name="second", dtype="int8", kind="aot-c")]
    path = write(merge(*specs), tmp_path / "both.tar")
    for spec in specs:
        report = mlf_sdk.run(path, board="host", module=spec.name, inputs={"0": sample(spec)})
        got = report.outputs["output"].reshape(1, 8)
        np.testing.assert_array_equal(got, reference(spec, sample(spec)))
        assert report.model.name == spec.name


@pytest.mark.toolchain
def test_models_of_a_project_by_name(tmp_path: Path, needs_host: None) -> None:
    specs = [Spec(name="one"), Spec(name="two", dtype="int8")]
    paths = [tiny(tmp_path, spec, f"{spec.name}.tar") for spec in specs]
    mlf_sdk.generate(paths, tmp_path / "out", board="host")
    for spec in (specs[1], specs[0]):
        report = mlf_sdk.run(tmp_path / "out", module=spec.name, inputs={"x": sample(spec)})
        np.testing.assert_array_equal(report.outputs["output"][0], reference(spec, sample(spec)))
    assert mlf_sdk.run(tmp_path / "out", twin=True).evidence.startswith("host twin, own memory per tensor")
    with pytest.raises(InputError, match="the project has no model 'three'") as caught:
        mlf_sdk.run(tmp_path / "out", module="three")
    assert caught.value.hint == "It has: one, two."


@pytest.mark.toolchain
def test_models_of_one_name_by_their_c_names(tmp_path: Path, needs_host: None) -> None:
    specs = [Spec(), Spec(dtype="int8")]
    paths = [tiny(tmp_path, spec, f"{spec.dtype}.tar") for spec in specs]
    mlf_sdk.generate(paths, tmp_path / "out", board="host")
    for spec, c_name in zip(reversed(specs), ("tiny_2", "tiny"), strict=True):
        report = mlf_sdk.run(tmp_path / "out", module=c_name, inputs={"x": sample(spec)})
        np.testing.assert_array_equal(report.outputs["output"][0], reference(spec, sample(spec)))


# ---- arguments ----


def test_arguments_that_are_refused(tmp_path: Path) -> None:
    path = tiny(tmp_path)
    with pytest.raises(InputError, match="there is no board 'mps2-an368'") as caught:
        mlf_sdk.run(path, board="mps2-an368")
    assert "mps2-an386" in caught.value.hint
    with pytest.raises(InputError, match="only the rpc application"):
        mlf_sdk.run(path, board="host", app="standalone")
    with pytest.raises(InputError, match="no archive or project was given"):
        mlf_sdk.generate([], tmp_path / "out", board="host")
    with pytest.raises(InputError):
        mlf_sdk.run(tmp_path / "missing.tar")
    mlf_sdk.generate(path, tmp_path / "out", board="host", app="standalone")
    with pytest.raises(InputError, match="the project's application is standalone"):
        mlf_sdk.run(tmp_path / "out")


@pytest.mark.parametrize(
    ("inputs", "expect", "what"),
    [
        ({}, None, "no array for the input 'x'"),
        ({"x": np.zeros((3, 9), np.float32)}, None, r"shape \[3, 9\] does not fit"),
        ({"x": np.zeros((0, 8), np.float32)}, None, "hold no inference"),
        ({"x": np.array([["a"] * 8])}, None, "are not real numbers"),
        ({"x": X}, {"y": X}, "no array has the name of an output"),
        ({"x": X}, {"0": np.zeros((2, 8))}, "2 inferences here, and 1 in the inputs"),
    ],
)
def test_arrays_that_are_refused_before_anything_is_built(
    tmp_path: Path, inputs: Any, expect: Any, what: str
) -> None:
    path = tiny(tmp_path, Spec(name="refused"))
    seen = Recorded()
    with pytest.raises(InputError, match=what):
        mlf_sdk.run(path, board="host", inputs=inputs, expect=expect, progress=seen)
    assert seen.said == [f"reading {path}"]


def test_examination_of_an_archive(tmp_path: Path) -> None:
    found = examine(tiny(tmp_path, Spec(kind="aot-c")))
    assert found.model.executor == "aot"
    assert {finding.where for finding in found.findings} >= {
        "the interface header",
        "metadata.json: export_datetime",
    }
