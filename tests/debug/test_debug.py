# SPDX-License-Identifier: Apache-2.0
"""``mlf-sdk debug``: GDB on an emulated board stops where it is told to; servers of probes; files for editors."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mlf_sdk
from mlf_sdk.codegen.lock import read_lock
from mlf_sdk.errors import InputError, MissingToolError, ToolError
from mlf_sdk.pipeline.debug import open_debugger
from mlf_sdk.pipeline.options import DebugOptions
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.request import Request
from mlf_sdk.targets.debugserver import free_port, gdb_script, server_argv, stop_commands, wait_for_server
from mlf_sdk.targets.flashers.load import load_runners
from mlf_sdk.tools.process import start_process

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ROOT / "examples/layers/layers.tflite"
MLF = (sys.executable, "-m", "mlf_sdk")


@pytest.fixture(scope="session")
def needs_gdb(needs_qemu: None) -> str:
    if shutil.which("gdb-multiarch") is None:
        pytest.skip("not installed: gdb-multiarch")
    return "gdb-multiarch"


def project(folder: Path, app: str, model: Path = LAYERS) -> Path:
    mlf_sdk.generate(model, folder / app, board="mps2-an386", app=app, model_name="net")
    mlf_sdk.build(folder / app)
    return folder / app


def debug(folder: Path, place: str, *commands: str) -> str:
    """All that GDB prints: it runs the commands where it has stopped, and ends."""
    extra = [word for one in commands for word in ("-ex", one)]
    done = subprocess.run(
        [*MLF, "debug", str(folder), "--break", place, "--", "-batch", *extra],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.qemu
@pytest.mark.parametrize("app", ["rpc", "standalone"])
def test_gdb_stops_inside_a_layer_and_sees_the_way_to_it(app: str, tmp_path: Path, needs_gdb: str) -> None:
    folder = project(tmp_path, app)
    lock = read_lock(folder)
    number = len(lock.models[0].steps) - 2
    symbol = lock.models[0].steps[number].symbol
    said = debug(folder, f"layer:{number}", "print mlf_running_step(&net_model)", "bt", "list", "info source")
    assert re.search(rf"^\$1 = {number}$", said, re.MULTILINE), said
    frames = re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?(\w+) \(", said, re.MULTILINE)
    assert frames[0] == symbol
    assert frames[-1] == "main"
    assert "mlf_run" in frames
    located = re.search(r"^Located in (.+)$", said, re.MULTILINE)  # the source was found
    assert located is not None
    assert Path(located[1]).resolve().is_relative_to(folder / "model/net")


@pytest.mark.qemu
def test_a_kernel_of_several_layers_stops_in_one_of_them(tmp_path: Path, needs_gdb: str) -> None:
    model = ROOT.parent / "shared/tflite/kws_int8.tflite"
    if not model.is_file():
        pytest.skip(f"no such model: {model}")
    folder = project(tmp_path, "rpc", model)
    steps = read_lock(folder).models[0].steps
    shared = [i for i, step in enumerate(steps) if step.symbol == steps[3].symbol]
    assert len(shared) > 2
    for number in shared[1:3]:
        said = debug(
            folder, f"layer:{number}", "print mlf_running_step(&net_model)", "continue", "print $_hit_bpnum"
        )
        assert f"$1 = {number}\n" in said


@pytest.mark.qemu
def test_gdb_stops_at_main_and_in_a_debug_build(tmp_path: Path, needs_gdb: str) -> None:
    folder = project(tmp_path, "standalone")
    assert "main () at ./src/main.c" in debug(folder, "main", "bt")
    for words in (("--preset", "debug"), ("--build", "--preset", "debug")):
        subprocess.run(["cmake", *words], cwd=folder, check=True, capture_output=True, timeout=120)
    commands = (folder / "build/compile_commands.json").read_text()
    slow = (folder / "build-debug/compile_commands.json").read_text()
    assert "-Og" not in commands
    for line in json.loads(slow):
        flags = [word for word in line["command"].split() if re.fullmatch(r"-O.", word)]
        assert not flags or flags[-1] == "-Og", line
    first, second = (first_output(folder / name) for name in ("build/app.elf", "build-debug/app.elf"))
    assert first == second


def first_output(image: Path) -> str:
    """The line of the first output that a standalone image prints; it then goes on for ever."""
    board = ["-machine", "mps2-an386", "-nographic", "-monitor", "none", "-semihosting"]
    argv = ["timeout", "60", "qemu-system-arm", *board, "-kernel", str(image)]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as qemu:
        assert qemu.stdout is not None
        line = next((line for line in qemu.stdout if re.match(r"mlf: output \d+ [0-9a-f]+", line)), None)
        qemu.terminate()
    assert line is not None, "it printed no output"
    return line


CMAKE = """\
cmake_minimum_required(VERSION 3.21)
project(firmware LANGUAGES C ASM)
add_compile_options(-g)
add_executable(firmware main.c)
add_subdirectory(lib)
target_link_libraries(firmware PRIVATE mlf::models)
"""


@pytest.mark.toolchain
def test_sources_of_an_embedded_library_are_found(tmp_path: Path, needs_host: None) -> None:
    gdb = next(filter(None, map(shutil.which, ("gdb", "gdb-multiarch"))), None)
    if gdb is None:
        pytest.skip("not installed: gdb")
    mlf_sdk.generate(LAYERS, tmp_path / "lib", board="host", app="library", model_name="net")
    (tmp_path / "CMakeLists.txt").write_text(CMAKE)
    (tmp_path / "main.c").write_text('#include "net.h"\nint main(void) { return net_run() != MLF_OK; }\n')
    for words in (("-S", ".", "-B", "build", "-G", "Ninja"), ("--build", "build")):
        subprocess.run(["cmake", *words], cwd=tmp_path, check=True, capture_output=True, timeout=120)
    look = (gdb, "-nx", "-batch", "-ex", "source lib/mlf_gdb.py", "-ex", "list mlf_run", "build/firmware")
    done = subprocess.run(look, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert "mlf_status_t mlf_run(const mlf_model_t *model)" in done.stdout, done.stdout + done.stderr


# ---- without a board ----


@pytest.mark.parametrize(
    ("runner", "words"),
    [
        ("openocd", ["-f", "board/x.cfg", "gdb_port 4444"]),
        ("pyocd", ["gdbserver", "--target", "x", "--port", "4444"]),
        ("jlink", ["-device", "x", "-if", "SWD", "-port", "4444"]),
    ],
)
def test_servers_of_probes(runner: str, words: list[str]) -> None:
    row = load_runners()[runner]
    options = {"openocd_config": "board/x.cfg", "pyocd_target": "x", "jlink_device": "x"}
    argv = server_argv(row, options, 4444, "b", which=lambda name: f"/bin/{name}")
    assert row.server is not None
    assert argv[0] == f"/bin/{row.server.program[0]}"
    assert [word for word in argv if word in words] == words
    with pytest.raises(InputError, match="which"):
        server_argv(row, {}, 4444, "b", which=lambda name: f"/bin/{name}")
    with pytest.raises(MissingToolError, match="is not installed"):
        server_argv(row, options, 4444, "b", which=lambda _name: None)


def test_a_board_is_written_and_reset_before_it_runs() -> None:
    script = gdb_script(Path("/p"), 3333, ["tbreak main"], reset="reset halt", load=True).splitlines()
    wanted = ["target extended-remote localhost:3333", "monitor reset halt", "load", "monitor reset halt"]
    assert script[-6:] == [*wanted, "tbreak main", "continue"]


def test_a_server_that_ends_is_reported() -> None:
    with (
        start_process([sys.executable, "-c", "raise SystemExit('no probe')"]) as process,
        pytest.raises(ToolError, match="no probe"),
    ):
        wait_for_server(process, free_port(), 20.0)


@pytest.mark.parametrize(
    ("place", "what"),
    [
        ("layer:99", "there is no layer 99"),
        ("layer:x y", "invalid value"),
        ("main;shell ls", "invalid value"),
    ],
)
def test_places_that_are_none(place: str, what: str, tmp_path: Path) -> None:
    mlf_sdk.generate(LAYERS, tmp_path / "app", board="mps2-an386")
    model = read_lock(tmp_path / "app").models[0]
    with pytest.raises(InputError, match=what):
        stop_commands(place, model, {"main"})


@pytest.mark.parametrize(
    ("board", "options", "what"),
    [
        ("mps2-an386", {}, "build"),
        ("host", {}, "build"),
    ],
)
def test_a_project_that_is_not_built(board: str, options: dict[str, str], what: str, tmp_path: Path) -> None:
    mlf_sdk.generate(LAYERS, tmp_path / "app", board=board)
    request = Request(source=(str(tmp_path / "app"),))
    with (
        pytest.raises(InputError, match=what),
        open_debugger(request, DebugOptions(**options), Pipeline()),
    ):
        pass


def test_editors_get_json_with_comments(tmp_path: Path) -> None:
    for board in ("mps2-an386", "host"):
        mlf_sdk.generate(LAYERS, tmp_path / board, board=board)
        for name in ("launch", "tasks", "cmake-kits"):
            text = (tmp_path / board / f".vscode/{name}.json").read_text()
            found = json.loads(re.sub(r"^//.*$", "", text, flags=re.MULTILINE))
            assert found
    launch = (tmp_path / "mps2-an386/.vscode/launch.json").read_text()
    tasks = (tmp_path / "mps2-an386/.vscode/tasks.json").read_text()
    assert '"preLaunchTask": "debug server"' in launch
    assert '"label": "debug server"' in tasks
    assert "localhost:3333" in launch
    assert "--gdb-port 3333" in tasks
    kits = json.loads((tmp_path / "mps2-an386/.vscode/cmake-kits.json").read_text())
    assert kits[0]["toolchainFile"] == "${workspaceFolder}/board/toolchain.cmake"
