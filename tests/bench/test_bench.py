# SPDX-License-Identifier: Apache-2.0
"""Instruction counts are exact and repeatable, and the executor costs what it is meant to cost."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mlf_sdk
from counted import Counted, count
from linkmap import read_map
from measure import BOARD, build_bench, measure_archive
from mlf_sdk.analysis.elf.image import Image
from mlf_sdk.errors import ToolError
from mlf_sdk.judge.counting import (
    Counts,
    Tally,
    build_plugin,
    missing_plugin_support,
)
from mlf_sdk.judge.windows import Window, function_window, kernel_window
from mlf_sdk.targets.boards.isa import cross_isa
from mlf_sdk.targets.boards.load import find_board
from tflite_models import Maker

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits-graph-tvm0.11.1.tar"
NS_PER_TICK = 40  # the board's counter runs at 25 MHz, and an instruction takes one nanosecond

LOOP_MAIN = """\
#include <mlf/mlf_platform.h>

#include "{name}.h"

void spin(uint32_t turns);

__attribute__((naked, noipa)) void spin(__attribute__((unused)) uint32_t turns) {{
  __asm volatile("nop\\n 1: subs r0, #1\\n bne 1b\\n bx lr");
}}

int main(void) {{
  uint32_t run, at;
  uint64_t start;
  uint32_t ticks;
  uint8_t text[] = "ticks 0x00000000\\r\\n";

  mlf_uart_init();
  mlf_ticks_init();
  for (run = 0; run < {runs}u; ++run) {{
    spin(1000u * (run + 1u));
    start = mlf_ticks();
    if (mlf_run(&{name}_model) != MLF_OK) {{
      break;
    }}
    ticks = (uint32_t)(mlf_ticks() - start);
    for (at = 0; at < 8u; ++at) {{
      text[8u + at] = (uint8_t)"0123456789abcdef"[ticks >> (28u - 4u * at) & 15u];
    }}
    mlf_uart_write(text, sizeof text - 1u);
  }}
  mlf_uart_write((const uint8_t *)"mlf: done", 9u);
  mlf_platform_exit(0);
}}
"""

emulated = [
    pytest.mark.qemu,
    pytest.mark.skipif(bool(missing_plugin_support()), reason=missing_plugin_support()),
]


# ---- counting ----


@pytest.fixture(scope="module")
def loops(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The digits model in a loop, with a loop of known length before each run."""
    folder = tmp_path_factory.mktemp("loops") / "digits"
    return build_bench(DIGITS, folder, main=LOOP_MAIN, runs=2).image


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_plugin(tmp_path_factory.mktemp("plugin"))


@pytest.fixture(scope="module")
def ran(loops: Image, plugin: Path) -> Counted:
    return count_loops(loops, plugin)


@pytest.fixture(scope="module")
def counted(ran: Counted) -> Counts:
    return ran.counts


def count_loops(image: Image, plugin: Path) -> Counted:
    windows = (
        function_window(image, "spin", window="spin"),
        function_window(image, "mlf_run"),
        kernel_window(image),
    )
    return count(image, find_board(BOARD), windows, plugin=plugin, timeout_s=60)


class TestCounting:
    pytestmark = emulated

    def test_a_loop_of_known_length_counts_exactly(self, counted: Counts) -> None:
        # Two instructions a turn; one before, and the return.
        assert [one.total for one in counted.of("spin")] == [2 * 1000 + 2, 2 * 2000 + 2]
        for one in counted.of("spin"):
            assert one.outside == 0
            assert one.tallies.keys() == {"spin"}
            assert one.tallies["spin"] == Tally(instructions=one.total, calls=1)

    def test_two_boots_give_the_same_counts(self, loops: Image, plugin: Path, counted: Counts) -> None:
        assert count_loops(loops, plugin).counts.passes == counted.passes

    def test_functions_and_the_rest_are_the_total(self, counted: Counts) -> None:
        assert len(counted.passes) == 2 + 2 + 2 * 8
        for one in counted.passes:
            assert one.outside + sum(tally.instructions for tally in one.tallies.values()) == one.total
            assert one.total > 0

    def test_the_executor_and_its_steps_are_the_run(self, counted: Counts) -> None:
        for run in counted.of("run"):
            steps = counted.of("step")[8 * run.index : 8 * run.index + 8]
            kernels = sum(step.total - step.instructions("mlf_run") for step in steps)
            assert kernels + run.instructions("mlf_run") == run.total
            assert run.calls("mlf_run") == 1
            assert run.calls("TVMBackendAllocWorkspace") == run.calls("TVMBackendFreeWorkspace") == 2

    def test_the_boards_own_clock_agrees(self, ran: Counted, counted: Counts) -> None:
        ticks = [int(text, 16) for text in re.findall(r"ticks 0x([0-9a-f]{8})", ran.console)]
        runs = counted.of("run")
        assert len(ticks) == len(runs) == 2
        for measured, run in zip(ticks, runs, strict=True):
            # The clock's own calls are inside its measure and outside the window.
            assert 0 <= measured * NS_PER_TICK + NS_PER_TICK - run.total < 200

    def test_a_window_that_never_ends_is_an_error(self, loops: Image, plugin: Path) -> None:
        begin = loops.address_of("mlf_run")
        window = Window(name="run", begin=begin, ends=(loops.address_of("mlf_platform_exit") + 1,))
        with pytest.raises(ToolError, match=r"windows without an end: \['run'\]"):
            count(loops, find_board(BOARD), [window], plugin=plugin, timeout_s=60)

    def test_a_function_that_is_not_called_has_no_window(self, loops: Image) -> None:
        with pytest.raises(LookupError, match=r"nothing in app\.elf calls mlf_reset_handler"):
            function_window(loops, "mlf_reset_handler")
        with pytest.raises(LookupError, match=r"app\.elf has no function nobody"):
            function_window(loops, "nobody")


@pytest.mark.qemu
@pytest.mark.skipif(bool(missing_plugin_support()), reason=missing_plugin_support())
def test_figures_of_a_compiled_model(tmp_path: Path) -> None:
    """Its kernels are called by a function of their own, two of its steps through one kernel."""
    model = Maker(4)
    x = model.dense(model.dense(model.dense(model.input((1, 24)), 24), 24), 5)
    (tmp_path / "dense.tflite").write_bytes(model.finish(x))
    mlf_sdk.compile(tmp_path / "dense.tflite", tmp_path / "dense.tar", core="cortex-m4")
    figures = measure_archive(tmp_path / "dense.tar", tmp_path / "app", tmp_path / "tools")
    counts = [step["instructions"] for step in figures["per_step"]]
    first, second, last = (step["symbol"] for step in figures["per_step"])
    assert first == second != last
    assert counts[0] == counts[1] > counts[2] > 0
    assert sum(counts) + figures["executor_instructions"] == figures["instructions"]
    assert figures["runs_equal"] and figures["adapters_counted"]
    assert 0 < figures["executor_per_step"] < 20


class TestArguments:
    pytestmark = emulated

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ("range=a:0x10:0x20", "an argument is missing: out=<file>"),
            ("out=/dev/null,range=a:0x10", "a range is <name>:<start>:<end>: a:0x10"),
            ("out=/dev/null,range=a:0x20:0x20", "a range is <name>:<start>:<end>: a:0x20:0x20"),
            ("out=/dev/null,range=a:x:0x20", "a range is <name>:<start>:<end>: a:x:0x20"),
            ('out=/dev/null,range=a":0x10:0x20', 'a range is <name>:<start>:<end>: a":0x10:0x20'),
            ("out=/dev/null,range=a:0x10:0x20,range=b:0x1f:0x30", "this range overlaps another one: b"),
            ("out=/dev/null,begin=0x10", "a window needs a begin and an end: run"),
            ("out=/dev/null,end=x:0x10", "a window needs a begin and an end: x"),
            ("out=/dev/null,begin=0x10,begin=0x20,end=0x30", "a window has one begin: 0x20"),
            ("out=/dev/null,begin=0x1g,end=0x30", "a mark is <address> or <window>:<address>: 0x1g"),
            ("out=/dev/null,ranges=/nowhere/ranges", "it can't be read: /nowhere/ranges"),
            ("out=/nowhere/out", "it can't be written: /nowhere/out"),
            ("out=/dev/null,what=1", "unknown argument: what=1"),
        ],
    )
    def test_wrong_arguments_are_refused(self, plugin: Path, arguments: str, message: str) -> None:
        argv = [
            cross_isa(find_board(BOARD)).tools.emulator,
            "-machine",
            "none",
            "-display",
            "none",
            "-nodefaults",
            "-plugin",
            f"{plugin},{arguments}",
        ]
        result = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)
        assert result.returncode != 0
        assert f"mlf_count: {message}\n" in result.stderr


# ---- the figures ----


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """``bench.py`` on the example alone."""
    folder = tmp_path_factory.mktemp("bench")
    output = folder / "made" / "bench.json"
    argv = [sys.executable, str(ROOT / "tests" / "bench" / "bench.py"), "--output", str(output)]
    argv += ["--archives", str(folder / "none"), "--no-seconds"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "sdk")}
    result = subprocess.run(argv, capture_output=True, text=True, timeout=120, env=env, check=False)
    assert result.returncode == 0, result.stderr
    assert "digits-graph-tvm0.11.1" in result.stdout
    loaded = json.loads(output.read_text(encoding="utf-8"))
    assert isinstance(loaded, dict)
    return loaded


class TestFigures:
    pytestmark = emulated

    def test_the_report_has_its_parts(self, report: dict) -> None:
        assert {"machine", "models", "targets"} <= report.keys()
        assert all(report["machine"][key] for key in ("cpus", "gcc", "qemu"))
        assert report["models"].keys() == {archive.stem for archive in DIGITS.parent.glob("*.tar")}
        # Cycles of RTL need an extra; all else that is missing here was asked for.
        assert report["skipped"].keys() - {"cycles on rtl-ibex"} == {"MLPerf Tiny models"}
        assert report["failed"] == {}
        assert all(target.keys() == {"name", "value", "target", "ok"} for target in report["targets"])

    def test_every_target_of_the_example_is_met(self, report: dict) -> None:
        assert len(report["targets"]) == 5 + 6 + 6
        assert [target for target in report["targets"] if not target["ok"]] == []

    @pytest.mark.parametrize("archive", ["digits-graph-tvm0.11.1", "digits-graph-tvm0.8.0"])
    def test_overhead_of_the_graph_executor(self, report: dict, archive: str) -> None:
        figures = report["models"][archive]
        assert figures["steps"] == 8
        assert figures["executor_instructions"] <= 20 * 8
        assert figures["workspace"]["pairs"] == 2
        assert figures["workspace"]["instructions"] <= 15 * 2
        steps = sum(step["instructions"] for step in figures["per_step"])
        assert steps + figures["executor_instructions"] == figures["instructions"]

    @pytest.mark.parametrize("archive", ["digits-graph-tvm0.11.1", "digits-aotc-tvm0.11.1"])
    def test_nothing_of_a_model_runs_before_its_first_inference(self, report: dict, archive: str) -> None:
        figures = report["models"][archive]
        assert figures["boot_instructions"] > 0
        assert figures["startup_instructions"] == 0
        assert figures["runs_equal"]

    @pytest.mark.parametrize("archive", ["digits-graph-tvm0.11.1", "digits-aotc-tvm0.11.1"])
    def test_size_of_the_executor(self, report: dict, archive: str) -> None:
        code = report["models"][archive]["code"]
        assert 0 < code["executor_text_bytes"] <= code["executor_text_all_bytes"] <= 1024
        assert 0 < code["ram_outside_arena_bytes"] <= 64


# ---- reading maps ----


def test_a_map_tells_what_was_linked(tmp_path: Path) -> None:
    path = tmp_path / "app.map"
    path.write_text(
        "Archive member included\n\nDiscarded input sections\n\n"
        " .text.unused   0x00000000       0x24 a.dir/crt/src/mlf.c.obj\n"
        " .comment       0x00000000       0x27 a.dir/crt/src/mlf.c.obj\n\n"
        "Linker script and memory map\n\n"
        ".text           0x00000040     0x1cc8\n"
        " .text.a_function_with_a_long_name\n"
        "                0x00000040       0x74 a.dir/crt/src/mlf.c.obj\n"
        "                0x00000040                a_function_with_a_long_name\n"
        " .bss           0x20000000        0x0 a.dir/crt/src/mlf.c.obj\n"
        " .bss.context   0x20000000       0x18 a.dir/crt/src/mlf.c.obj\n"
        " .debug_info    0x00000000      0x102 a.dir/crt/src/mlf.c.obj\n",
        encoding="utf-8",
    )
    pieces = [(p.section, p.address, p.size_bytes, p.linked, p.is_code, p.is_ram) for p in read_map(path)]
    assert pieces == [
        (".text.unused", 0, 0x24, False, True, False),
        (".text.a_function_with_a_long_name", 0x40, 0x74, True, True, False),
        (".bss.context", 0x20000000, 0x18, True, False, True),
    ]
