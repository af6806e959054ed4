# SPDX-License-Identifier: Apache-2.0
"""``run``, for real: results, comparisons that fail, kernels that fail, fault or never return."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from archives import Spec, build, edit_json, reference, sample, write
from cli_helpers import Caller, misbehaving

pytestmark = [pytest.mark.qemu, pytest.mark.toolchain, pytest.mark.usefixtures("needs_qemu", "needs_host")]
SCRIPT = Path(sys.executable).with_name("mlf-sdk")
BOARD = "mps2-an386"


def batch(count: int) -> np.ndarray:
    return np.stack([sample(Spec()) * (index + 1) for index in range(count)])


def results(x: np.ndarray) -> np.ndarray:
    return np.stack([reference(Spec(), each) for each in x])


# ---- what a good run says ----


def test_values(call: Caller, tiny: Path, tmp_path: Path) -> None:
    """The keys that programs rely on, with figures that agree with each other."""
    x = batch(3)
    np.savez(tmp_path / "in.npz", x=x)
    np.savez(tmp_path / "expect.npz", **{"0": results(x)})
    out = tmp_path / "out.npz"
    called = call(
        *("run", tiny, "--board", BOARD, "--json", "--twin", "--output", out),
        *("--inputs", tmp_path / "in.npz", "--expect", tmp_path / "expect.npz"),
    )
    assert (called.code, called.err) == (0, "")
    value = called.value
    assert value["ok"] is True
    assert value["board"] == BOARD
    assert value["archive_sha256"] == hashlib.sha256(tiny.read_bytes()).hexdigest()
    assert value["inferences"] == 3
    (name,) = value["outputs"]
    assert value["outputs"][name] == {"shape": [3, 1, 8], "dtype": "float32"}
    assert value["compare"].items() >= {"max_abs": 0.0, "max_rel": 0.0, "mismatches": 0, "ok": True}.items()
    assert value["twin"]["mismatches"] == 0
    memory = value["memory"]
    assert memory["arena_bytes"] == memory["lower_bound_bytes"] == memory["arena_high_water_bytes"] == 72
    assert 0 < memory["stack_high_water_bytes"] < memory["stack_bytes"] == 8192
    assert 100 <= value["instructions"] < 10_000
    least, most = value["instructions_range"]
    assert least <= value["instructions"] <= most < least + 10
    assert value["instructions_resolution"] == 0
    assert value["build_seconds"] > 0
    with np.load(out) as written:
        assert written.files == [name]
        assert written[name].dtype == np.float32
        np.testing.assert_array_equal(written[name], results(x))


def test_lines(call: Caller, tiny: Path) -> None:
    called = call("run", tiny)
    assert (called.code, called.err) == (0, "")
    lines = called.out.splitlines()
    assert lines[0].startswith("tiny       MLF 7, TVM")
    assert lines[1] == f"board      {BOARD}: Arm MPS2+ AN386: Cortex-M4F, 4 MiB flash, 4 MiB RAM (QEMU)"
    assert re.match(
        r"build      gcc, \d+\.\d s   flash [\d,]+ of 4,194,304 B   ram [\d,]+ of 4,194,304 B$", lines[2]
    )
    assert re.match(r"arena +104 +72 +80 +72  ok  = lower bound$", lines[4])
    assert re.match(r"run        1 inference, \d+ instructions$", lines[-4])
    assert lines[-3] == "outputs    equal to the host's (max difference 0)  PASS"
    assert lines[-2].startswith("evidence   host twin, own memory per tensor")
    assert lines[-1] == "verdict    PASS"


def test_a_project(call: Caller, tiny: Path, tmp_path: Path) -> None:
    app = tmp_path / "app"
    assert call("generate", tiny, "-o", app, "--board", "host").code == 0
    called = call("run", app, "--json")
    assert (called.code, called.err) == (0, "")
    assert (called.value["board"], called.value["compare"]) == ("host", None)
    assert called.value["folder"] == str(app)
    shown = call("run", app)
    assert "not compared: --expect" in shown.out
    assert (shown.code, shown.out.splitlines()[-1]) == (0, "verdict    RAN, NOT COMPARED")
    assert (called.value["verdict"], called.value["ok"]) == ("RAN, NOT COMPARED", True)
    strict = call("run", app, "--strict")
    assert (strict.code, strict.out.splitlines()[-1]) == (1, "verdict    FAIL: the model ran, not compared")


def test_a_project_is_compared_with_the_twin_of_its_archive(call: Caller, tiny: Path, tmp_path: Path) -> None:
    """The archive is named, or lies beside the project or in the current folder; another one is refused."""
    app, other = tmp_path / "deep" / "app", write(build(Spec(dtype="int8")), tmp_path / "other.tar")
    app.parent.mkdir()
    assert call("generate", tiny, "-o", app, "--board", BOARD).code == 0
    alone = call("run", app)
    assert (alone.code, alone.out.splitlines()[-1]) == (0, "verdict    RAN, NOT COMPARED")
    said = " ".join(alone.out.split())
    assert "a project does not hold the archive that it was made from. Name it: --archive tiny.tar" in said
    named = call("run", app, "--archive", tiny, "--json").value
    assert (named["verdict"], named["compare"]["against"], named["twin"]["mismatches"]) == ("PASS", "host", 0)
    shutil.copy(tiny, app.parent / "tiny.tar")
    outputs, evidence, verdict = call("run", app).out.splitlines()[-3:]
    assert outputs == "outputs    equal to the host's (max difference 0)  PASS"
    assert evidence.startswith("evidence   host twin, own memory per tensor")
    assert verdict == "verdict    PASS"
    wrong = call("run", app, "--archive", other)
    assert wrong.code == 2 and "not made from this archive" in wrong.block()["what"]
    shutil.copy(other, app.parent / "tiny.tar")
    assert call("run", app, "--json").value["verdict"] == "RAN, NOT COMPARED"
    assert "an archive already" in call("run", tiny, "--archive", tiny).err


def test_expected_outputs_that_match_nothing(call: Caller, tiny: Path, tmp_path: Path) -> None:
    """Labels or another output beside them do not hide it."""
    np.savez(tmp_path / "in.npz", x=batch(1))
    for known in ({}, {"label": np.zeros(1)}, {"0": results(batch(1))}):
        np.savez(tmp_path / "expect.npz", logits=results(batch(1)), **known)
        done = call("run", tiny, "--inputs", tmp_path / "in.npz", "--expect", tmp_path / "expect.npz")
        assert done.code == 2
        says = "no output or input has the name 'logits'" if known else "no array has the name of an output"
        assert says in done.block()["what"]
        assert "'output'" in done.block()["do"] and "logits" in done.block()["do"]


def test_a_standalone_project_takes_no_inputs(call: Caller, tiny: Path, tmp_path: Path) -> None:
    app = tmp_path / "app"
    assert call("generate", tiny, "-o", app, "--board", "host", "--app", "standalone").code == 0
    called = call("run", app)
    assert called.code == 2
    assert "--app rpc" in called.block()["do"]


# ---- 1: the work was done, and a comparison failed ----


def test_an_output_that_differs(call: Caller, tiny: Path, tmp_path: Path) -> None:
    wrong = results(batch(1))[0]
    wrong[0, 3] += 0.5
    np.savez(tmp_path / "in.npz", x=sample(Spec()))
    np.savez(tmp_path / "expect.npz", **{"0": wrong})
    argv = ["run", tiny, "--inputs", tmp_path / "in.npz", "--expect", tmp_path / "expect.npz"]
    called = call(*argv)
    assert (called.code, called.err) == (1, "")
    assert "differ from the expected outputs in 1 of 8 elements (max difference 0.5" in called.out
    assert called.out.rstrip().splitlines()[-1] == "verdict    FAIL: outputs differ"
    as_json = call(*argv, "--json")
    assert as_json.code == 1
    assert as_json.value["compare"].items() >= {"mismatches": 1, "max_abs": 0.5, "ok": False}.items()
    assert as_json.value["ok"] is False
    assert call(*argv, "--atol", "0.6").code == 0


def test_labels_give_an_accuracy(call: Caller, tiny: Path, tmp_path: Path) -> None:
    x = batch(4)
    right = results(x).reshape(4, 8).argmax(axis=1)
    np.savez(tmp_path / "in.npz", x=x)
    np.savez(tmp_path / "expect.npz", label=np.where(np.arange(4) == 0, right + 1, right))
    argv = ("run", tiny, "--inputs", tmp_path / "in.npz", "--expect", tmp_path / "expect.npz")
    value = call(*argv, "--json").value
    assert value["accuracy"] == 0.75
    assert value["compare"]["against"] == "host"  # labels alone are no outputs to compare with
    assert call(*argv, "--no-twin").out.splitlines()[-1] == "verdict    RAN, NOT COMPARED"


# ---- 4: the target ----


@pytest.mark.parametrize("board", [BOARD, "host"])
def test_a_kernel_that_returns_an_error(board: str, call: Caller, returns: Path) -> None:
    called = call("run", returns, "--board", board, "--no-twin")
    assert (called.code, called.out) == (4, "")
    block = called.block()
    assert "a kernel returned an error" in block["what"]
    assert "step 2" in block["what"]
    assert "tiny" in block["where"]
    assert call("run", returns, "--board", board, "--no-twin", "--json").value["error"]["exit_code"] == 4


def test_a_kernel_that_returns_an_error_is_named(call: Caller, returns: Path) -> None:
    assert "tvmgen_tiny_fused_add_relu" in call("run", returns, "--no-twin").err


def test_a_kernel_that_asks_for_more_than_was_planned(call: Caller, archives_dir: Path) -> None:
    greedy = (
        "  void* more = TVMBackendAllocWorkspace(1, dev_id, (uint64_t)(num_args * 100000), 2, 32);\n"
        "  if (more == NULL) {\n    return -1;\n  }\n"
    )

    def promise_little(top) -> None:
        told = top["modules"]["tiny"]["memory"]["functions"]["operator_functions"][2]
        told["workspace"][0]["workspace_size_bytes"] = 64

    files = edit_json(misbehaving(greedy), "metadata.json", promise_little)
    path = write(files, archives_dir / "greedy.tar")
    called = call("run", path, "--no-twin")
    assert called.code == 4
    assert "more workspace than was planned" in called.err
    assert "step 2" in called.err


def test_a_kernel_that_faults(call: Caller, faults: Path) -> None:
    """Registers, step and function, as soon as they are there: a day is not waited for."""
    called = call("run", faults, "--no-twin", "--timeout", "86400")
    assert (called.code, called.out) == (4, "")
    what = called.block()["what"]
    assert re.match(r"the target faulted.* in step 1", what)
    assert "busfault" in what
    assert re.search(r"\bpc=0x0000[0-9a-f]{4} lr=0x[0-9a-f]{8} sp=0x2000[0-9a-f]{4}", what)
    assert "bfar=0x70000000" in what
    assert re.search(r"tvmgen_tiny_fused_smooth\+0x[0-9a-f]+", what)
    assert "host" in called.block()["do"]
    error = call("run", faults, "--no-twin", "--json").value["error"]
    assert (error["exit_code"], error["what"]) == (4, what) or "faulted in step 1" in error["what"]


def test_a_bad_access_on_the_host_is_told_with_its_line(call: Caller, faults: Path) -> None:
    called = call("run", faults, "--board", "host", "--timeout", "120")
    assert (called.code, called.out) == (4, "")
    assert "AddressSanitizer" in called.block()["what"]
    assert re.search(r"tiny_lib1\.c:\d+ in tvmgen_tiny_fused_smooth", called.block()["what"])
    assert "Shadow byte" not in called.err


def test_a_write_behind_the_arena_is_found_on_the_host(call: Caller, archives_dir: Path) -> None:
    """On the target it would go unnoticed: the host's sanitizers see it."""
    beyond = "  volatile int32_t at = 20;\n  ((float*)out)[at] = 1.0f;\n"  # not known before it runs
    path = write(misbehaving(beyond), archives_dir / "beyond.tar")
    called = call("run", path, "--board", "host")
    assert called.code == 4
    assert "AddressSanitizer: global-buffer-overflow" in called.block()["what"]


@pytest.mark.parametrize("board", [BOARD, "host"])
def test_a_kernel_that_never_returns(
    board: str, call: Caller, spins: Path, sleeps: Path, own_cache: Path
) -> None:
    archive = sleeps if board == "host" else spins
    called = call("run", archive, "--board", board, "--no-twin", "--timeout", "2")
    assert (called.code, called.out) == (4, "")
    block = called.block()
    assert "did not answer RUN" in block["what"]
    assert "--timeout" in block["do"]
    assert processes_with(str(own_cache)) == []


# ---- the installed command ----


def processes_with(text: str) -> list[int]:
    """Ids of the emulators and host images that run with ``text`` on their command lines."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        if "qemu" in words[0] and any(text in word and word.endswith("app.elf") for word in words):
            found.append(int(path.parent.name))
    return found


@pytest.mark.skipif(not SCRIPT.exists(), reason="mlf-sdk is not installed")
def test_ctrl_c_ends_the_emulator_too(spins: Path, own_cache: Path) -> None:
    process = subprocess.Popen(
        [SCRIPT, "run", spins, "--no-twin"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    cache = str(own_cache)
    deadline = time.monotonic() + 60
    while not processes_with(cache) and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
    assert processes_with(cache)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, "", "stopped\n")
    assert processes_with(cache) == []


@pytest.mark.skipif(not SCRIPT.exists(), reason="mlf-sdk is not installed")
def test_progress_goes_to_standard_error_only(tiny: Path) -> None:
    """With a terminal there, what is being done is shown and taken away again."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [SCRIPT, "run", tiny, "--board", "host"], stdout=subprocess.PIPE, stderr=theirs, text=True
    ) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                data = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            if not data:
                break
            shown += data
        assert process.stdout is not None
        out = process.stdout.read()
    os.close(ours)
    assert process.returncode == 0
    # Any of them may be too short to be seen.
    stages = (b"building for host", b"running on host", b"asking the model's witnesses")
    assert any(stage in shown for stage in stages)
    assert out.startswith("tiny       MLF 7")
    assert "building" not in out
    assert "\x1b" not in out


@pytest.mark.skipif(not SCRIPT.exists(), reason="mlf-sdk is not installed")
def test_json_and_nothing_else(tiny: Path) -> None:
    done = subprocess.run(
        [SCRIPT, "run", tiny, "--board", "host", "--json"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["ok"] is True


def test_kernel_flags_reach_the_compiler(call: Caller, tiny: Path) -> None:
    """Another image, in another folder: the cache does not mix them up."""
    first = call("run", tiny, "--board", "host", "--json").value
    second = call("run", tiny, "--board", "host", "--json", "--cflags=-O0").value
    assert first["folder"] != second["folder"]
    sizes = [sum(k["size_bytes"] for k in value["check"]["kernels"]) for value in (first, second)]
    assert sizes[0] != sizes[1]
    image = Path(first["folder"]) / "build" / "app.elf"
    built = image.stat().st_mtime_ns
    third = call("run", tiny, "--board", "host", "--json").value
    assert third["folder"] == first["folder"]
    assert image.stat().st_mtime_ns == built


def test_integers(call: Caller, archives_dir: Path, tmp_path: Path) -> None:
    spec = Spec(dtype="int8", nop=True)
    path = write(build(spec), archives_dir / "int8.tar")
    np.savez(tmp_path / "in.npz", x=sample(spec))
    np.savez(tmp_path / "expect.npz", **{"0": reference(spec, sample(spec))})
    called = call("run", path, "--inputs", tmp_path / "in.npz", "--expect", tmp_path / "expect.npz", "--json")
    assert called.code == 0
    assert called.value["compare"]["mismatches"] == 0
    assert list(called.value["outputs"].values()) == [{"shape": [1, 2, 4], "dtype": "int8"}]
