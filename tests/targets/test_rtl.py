# SPDX-License-Identifier: Apache-2.0
"""Boards whose core is simulated from RTL: rows, simulators and their cache, runs, cycles, faults."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np
import pytest

from cli_helpers import Caller
from mlf_sdk.errors import InputError, MissingToolError, ToolError
from mlf_sdk.judge.simulated import read_passes, simulated_counting, window_argument
from mlf_sdk.judge.windows import Window
from mlf_sdk.resources import cache_dir, data_dir
from mlf_sdk.targets.boards.load import find_board, load_board, load_boards
from mlf_sdk.targets.registry import resolve_target
from mlf_sdk.targets.rtl import build
from mlf_sdk.targets.rtl.launch import simulator_argv, start_simulation
from mlf_sdk.targets.rtl.target import RtlTarget
from mlf_sdk.targets.target import Ability, TargetChoice
from mlf_sdk.tools import rtlmodels
from mlf_sdk.tools.programs import install_command
from mlf_sdk.tools.rtlmodels import find_model, load_models
from tflite_models import small_network

ROOT = Path(__file__).parents[2]
MODELS = load_models()
BOARDS = [name for name, row in load_boards().items() if row.rtl is not None]


def need(board: str) -> None:
    """Skip the test where the tools of a simulated board are missing."""
    row = find_board(board)
    assert row.rtl is not None
    try:
        build.check_tools(find_model(row.rtl.model))
        RtlTarget(row).check_programs()
    except MissingToolError as error:
        pytest.skip(f"{error.what}. {error.hint}")


@pytest.fixture
def network(tmp_path: Path) -> Path:
    path = tmp_path / "net.tflite"
    path.write_bytes(small_network())
    return path


# ---- rows ----


def test_every_core_has_a_board_and_every_board_a_core():
    assert {find_board(name).rtl.model for name in BOARDS} == set(MODELS)
    assert {find_board(name).cpu for name in BOARDS} == {"rv32im", "rv32imc"}


@pytest.mark.parametrize("model", MODELS.values(), ids=list(MODELS))
def test_files_and_packages_of_a_core(model):
    for name in ("soc.h", model.harness, *model.own):
        assert (data_dir("board_templates") / "rtl" / name).is_file(), name
    assert f'"{model.package}==' in (ROOT / "pyproject.toml").read_text()
    assert install_command(model.package) == "pip install 'mlf-sdk[rtl]'"


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('driver = "16550"', 'driver = "pl011"', "needs the driver '16550'"),
        ("[rtl]", '[qemu]\nmachine = "virt"\n\n[rtl]', "is emulated already"),
        ("flash_wait_states = 0", "flash_wait_states = -1", "flash_wait_states"),
        ("trap_alignment_bytes = 256", "trap_alignment_bytes = 3", "trap_alignment_bytes"),
    ],
)
def test_faults_of_a_row(old, new, fault, tmp_path):
    text = (data_dir("board_templates") / "boards/rtl-ibex.toml").read_text()
    assert old in text
    (tmp_path / "own.toml").write_text(text.replace(old, new))
    with pytest.raises(InputError, match=fault):
        load_board(tmp_path / "own.toml")


def test_a_core_that_is_not_known():
    with pytest.raises(InputError, match="no RTL of 'ibx'") as caught:
        find_model("ibx")
    assert "ibex" in caught.value.hint


def test_a_target_of_its_own():
    target = resolve_target(TargetChoice(board="rtl-ibex"))
    assert isinstance(target, RtlTarget)
    assert Ability.START in target.abilities
    assert target.emulator_title == "Verilator"
    assert (target.counts_cycles, target.counts_instructions) == (True, False)


def test_more_arguments_are_handed_to_the_simulator(tmp_path):
    target = RtlTarget(find_board("rtl-ibex")).with_emulator(["out=x"]).with_emulator(["window=w:1:2"])
    argv = simulator_argv(Path("sim"), target.board, tmp_path / "a.elf", console_fd=7)
    assert argv[-2:] == ["out=x", "window=w:1:2"]
    assert {"fd=7", "uart=0xf0000000", "exit=0xf0001000", "wait=0", "flash=0x20000080:0x3fff80"} <= set(argv)


def test_a_board_without_a_simulated_core(tmp_path):
    with pytest.raises(InputError, match="not simulated"):
        simulator_argv(Path("sim"), find_board("qemu-virt-rv32"), tmp_path / "a.elf", console_fd=7)


@pytest.mark.parametrize(("board", "alignment"), [("rtl-picorv32", 0), ("rtl-ibex", 256)])
def test_what_the_runtime_knows_of_the_core(board, alignment, network, tmp_path, capsys):
    made = Caller(capsys)("generate", network, "-o", tmp_path / "app", "--board", board)
    assert made.code == 0, made.err
    header = (tmp_path / "app/board/mlf_board.h").read_text()
    assert f"#define MLF_TRAP_ALIGNMENT {alignment}\n" in header
    assert "#define MLF_EXIT_REGISTER 0xF0001000u\n" in header


# ---- simulators ----


class Verilator:
    """Stands for Verilator: writes a simulator, or fails."""

    def __init__(self, fault: str = "") -> None:
        self.calls: list[list[str]] = []
        self.fault = fault

    def __call__(self, argv, *, timeout_s):
        del timeout_s
        self.calls.append(list(argv))
        if self.fault:
            raise ToolError(self.fault)
        folder = Path(argv[argv.index("--Mdir") + 1])
        folder.mkdir()
        (folder / "simulator").write_text(" ".join(argv))


@pytest.fixture
def verilator(monkeypatch, own_cache) -> Verilator:
    del own_cache
    fake = Verilator()
    monkeypatch.setattr(build, "run_process", fake)
    monkeypatch.setattr(build, "require_programs", lambda *_: None)
    monkeypatch.setattr(build, "version", lambda _: "1.0")
    monkeypatch.setattr(rtlmodels.RtlModel, "place", lambda self: Path("/packages") / self.name)
    return fake


def test_a_simulator_is_made_once(verilator):
    first = build.simulator(MODELS["picorv32"], {}, 0x20000080)
    assert build.simulator(MODELS["picorv32"], {}, 0x20000080) == first
    assert len(verilator.calls) == 1
    assert [path.name for path in first.parent.iterdir()] == ["simulator"]
    said = first.read_text()
    assert "-GPROGADDR_RESET=32'h20000080" in said
    assert "+define+RISCV_FORMAL" in said
    assert "-GENABLE_FAST_MUL=1" in said


def test_what_decides_makes_another(verilator, monkeypatch):
    made = {build.simulator(MODELS["ibex"], {}, 0x20000080)}
    made.add(build.simulator(MODELS["ibex"], {"M": 2}, 0x20000080))
    made.add(build.simulator(MODELS["ibex"], {}, 0x40000080))
    monkeypatch.setattr(build, "version", lambda _: "1.1")
    made.add(build.simulator(MODELS["ibex"], {}, 0x20000080))
    monkeypatch.setattr(build, "program_stamp", lambda _: "another Verilator")
    made.add(build.simulator(MODELS["ibex"], {}, 0x20000080))
    assert len(made) == len(verilator.calls) == 5
    assert "-GM=2" in verilator.calls[1]


def test_several_wait_for_the_first(verilator):
    made: list[Path] = []
    threads = [
        threading.Thread(target=lambda: made.append(build.simulator(MODELS["vexriscv"], {}, 0)))
        for _ in range(4)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(set(made)) == 1 and len(made) == 4
    assert len(verilator.calls) == 1


def test_nothing_is_kept_of_one_that_failed(verilator):
    verilator.fault = "%Error: no such module"
    with pytest.raises(ToolError, match="no such module"):
        build.simulator(MODELS["vexriscv"], {}, 0)
    assert [path for path in cache_dir("rtl").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(("missing", "hint"), [("verilator", "apt-get install verilator"), ("g++", "g++")])
def test_a_program_is_missing(missing, hint, monkeypatch):
    monkeypatch.setattr("mlf_sdk.tools.programs.is_installed", lambda name, *_: name != missing)
    with pytest.raises(MissingToolError, match=f"'{missing}' is not installed".replace("+", r"\+")) as caught:
        build.check_tools(MODELS["ibex"])
    assert hint in caught.value.hint


def test_a_package_is_missing(monkeypatch):
    monkeypatch.setattr(build, "require_programs", lambda *_: None)
    monkeypatch.setattr(rtlmodels, "find_spec", lambda _: None)
    with pytest.raises(MissingToolError, match="'pythondata-cpu-ibex' is not installed") as caught:
        build.check_tools(MODELS["ibex"])
    assert "pip install 'mlf-sdk[rtl]'" in caught.value.hint


# ---- counts ----

PASS_LINE = b'{"window": "run", "index": 0, "instructions": 90, "cycles": 100}\n'


def test_counts_are_read(tmp_path):
    (tmp_path / "out").write_bytes(PASS_LINE + PASS_LINE[:30])
    (only,) = read_passes(tmp_path / "out")
    assert (only.window, only.instructions, only.cycles) == ("run", 90, 100)
    assert read_passes(tmp_path / "none") == ()


def test_counts_that_are_none(tmp_path):
    (tmp_path / "out").write_bytes(PASS_LINE.replace(b"90", b'"many"'))
    with pytest.raises(ToolError, match="can't be read"):
        read_passes(tmp_path / "out")


def test_a_window_as_an_argument():
    assert window_argument(Window(name="run", begin=16, ends=(32, 48))) == "window=run:0x10:0x20:0x30"


def test_too_few_inferences_were_counted(tmp_path):
    from mlf_sdk.judge.simulated import BySimulator

    (tmp_path / "out").write_bytes(PASS_LINE)
    counter = BySimulator(arguments=(), out=tmp_path / "out")

    class Done:
        count = 2

    with pytest.raises(ToolError, match="1 of 2 inferences"):
        counter.of(Done())
    Done.count = 1
    counted = counter.of(Done())
    assert (counted.each, counted.cycles, counted.resolution) == (90, 100, 0)


# ---- runs ----


@pytest.fixture
def kept_simulators() -> None:
    """Simulators of earlier sessions serve: the cache of tests has a link to a folder of the checkout."""
    shared, link = ROOT / "build" / "rtl", cache_dir("rtl")
    shared.mkdir(parents=True, exist_ok=True)
    link.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        link.symlink_to(shared)


@pytest.mark.slow
@pytest.mark.toolchain
@pytest.mark.usefixtures("kept_simulators")
@pytest.mark.parametrize("board", BOARDS)
class TestOnTheCore:
    def test_outputs_cycles_and_steps(self, board, network, tmp_path, capsys):
        need(board)
        app = tmp_path / "app"
        for argv in (("generate", network, "-o", app, "--board", board), ("build", app)):
            done = Caller(capsys)(*argv)
            assert done.code == 0, done.err
        done = Caller(capsys)("run", app, "--archive", network, "--json")
        assert done.code == 0, done.err
        said = json.loads(done.out)
        assert said["verdict"] == "PASS", said
        assert said["memory"]["arena_high_water_bytes"] == said["memory"]["arena_bytes"]
        assert 1 <= said["cycles"] / said["instructions"] < 6
        done = Caller(capsys)("profile", app, "--json")
        assert done.code == 0, done.err
        profile = json.loads(done.out)
        assert profile["unit"] == "cycles"
        assert profile["total"] == pytest.approx(said["cycles"], rel=0.02)
        assert all(step["cost"] > 0 for step in profile["steps"])
        self.slower_flash(board, app, said["cycles"])

    def slower_flash(self, board: str, app: Path, cycles: int) -> None:
        """The same image with wait states: the same instructions in more cycles."""
        row = find_board(board)
        slow = msgspec.structs.replace(row, rtl=msgspec.structs.replace(row.rtl, flash_wait_states=3))
        counts = []
        for board_row in (row, slow):
            elf = app / "build/app.elf"
            with simulated_counting(elf) as counter:
                assert counter is not None
                with RtlTarget(board_row).with_emulator(counter.arguments).open(elf, timeout_s=60) as session:
                    session.hello()
                    info = session.model(0)
                    session.write_inputs(info, [np.ones(one.shape, np.int8) for one in info.inputs])
                    session.run(info)
                (run,) = read_passes(counter.out)
            counts.append(run)
        assert counts[0].instructions == counts[1].instructions
        assert counts[1].cycles > counts[0].cycles

    @pytest.mark.parametrize("access", ["store to", "load from"])
    def test_an_access_to_nowhere(self, board, access, network, tmp_path, capsys):
        """A fault that the image reports; where the core takes no notice, the simulator names the address."""
        need(board)
        app = tmp_path / "app"
        done = Caller(capsys)("generate", network, "-o", app, "--board", board, "--app", "standalone")
        assert done.code == 0, done.err
        main, begin = app / "src/main.c", "int main(void) {\n"
        place = "*(volatile int *)0x70000000"
        line = f"  {place} = 1;\n" if access == "store to" else f"  (void){place};\n"
        main.write_text(main.read_text().replace(begin, begin + line))
        assert "0x70000000" in main.read_text()
        done = Caller(capsys)("build", app)
        assert done.code == 0, done.err
        with start_simulation(find_board(board), app / "build/app.elf") as machine:
            machine.socket.settimeout(60)
            text = b""
            while piece := machine.socket.recv(4096):
                text += piece
            code = machine.process.wait(10)
            errors = machine.process.stderr_text()
        if board != "rtl-ibex":
            assert code == 3
            assert f"a {access} 0x70000000, where nothing answers" in errors
        else:
            cause = 7 if access == "store to" else 5
            assert code == 134
            assert b"mlf-fault" in text and f"mcause={cause:08x}".encode() in text
