# SPDX-License-Identifier: Apache-2.0
"""With a Zephyr tree: a fault, the standalone application, and a library in an application of its own."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlf_sdk
from archives import Spec, build, reference, write
from emulated import start_qemu
from injected import CASES, FILE, KERNEL, MEMBER, STEP, choosing, faulty, line_of
from mlf_sdk.pipeline.mlperf.bench import Host, bench_mlperf
from mlf_sdk.pipeline.options import MlperfOptions
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.request import Request
from mlf_sdk.pipeline.triage import find_firmware, triage_log
from mlf_sdk.targets.qemu import QemuOptions
from mlf_sdk.targets.zephyr.build import ZephyrSetup, build_environment
from mlf_sdk.targets.zephyr.files import zephyr_board, zephyr_naming
from mlf_sdk.targets.zephyr.output import has_option
from mlf_sdk.targets.zephyr.tree import ZephyrTree
from mlf_sdk.triage.explain import triage_lines
from mlf_sdk.triage.fault_report import parse_fault
from mlf_sdk.wire.codes import DeviceFaultError
from zephyr_trees import zephyr_options

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.zephyr, pytest.mark.qemu, pytest.mark.slow, pytest.mark.usefixtures("zephyr_tools")]

FAULT_MAIN = """
#include <mlf/mlf_platform.h>

void mlf_fault_context(mlf_fault_context_t *out_context)
{
	out_context->model = "tiny";
	out_context->step = 7;
}

int main(void)
{
	mlf_uart_init();
	*(volatile int *)0xF0000000 = 1;
	return 0;
}
"""


ELSEWHERE_MAIN = """
#if __has_include(<zephyr/kernel.h>)
#include <zephyr/kernel.h>
#else
#include <zephyr.h>
#endif
#include <mlf/mlf_platform.h>

static void break_down(struct k_timer *timer)
{
	*(volatile int *)0xF0000000 = 1;
}

static K_TIMER_DEFINE(timer, break_down, NULL);
static K_THREAD_STACK_DEFINE(stack, 1024);
static struct k_thread other;

static void start(void *a, void *b, void *c)
{
	break_down(NULL);
}

int main(void)
{
	mlf_uart_init();
	(void)mlf_stack_bottom();
	if (IN_INTERRUPT) {
		k_timer_start(&timer, K_MSEC(1), K_NO_WAIT);
	} else {
		k_thread_create(&other, stack, 1024, start, NULL, NULL, NULL, 0, 0, K_NO_WAIT);
	}
	k_sleep(K_FOREVER);
	return 0;
}
"""

SMALL_REGIONS = """
# As older versions of Zephyr have it: the guard of a thread grows when it has used floating point.
config ARM_MPU_REGION_MIN_ALIGN_AND_SIZE
	int
	default 32

"""


@pytest.fixture
def tiny_project(tmp_path: Path, real_setup: ZephyrSetup) -> Callable[..., Path]:
    def make(board: str, app: str) -> Path:
        archive = write(build(Spec()), tmp_path / "tiny.tar")
        options: dict[str, Any] = {"app": app}  # type: ignore[arg-type]
        mlf_sdk.generate(
            archive,
            tmp_path / "made",
            board=board,
            **options,
            platform="zephyr",
            **zephyr_options(real_setup),
        )
        return tmp_path / "made"

    return make


def test_a_fault_names_model_and_step(tiny_project: Callable[..., Path], real_setup: ZephyrSetup):
    folder = tiny_project("mps2_an385", "rpc")
    (folder / "src/main.c").write_text(FAULT_MAIN)
    built = mlf_sdk.build(folder, **zephyr_options(real_setup))
    with start_qemu(zephyr_board("mps2_an385"), built.elf, timeout_s=30) as machine:
        fault = parse_fault(machine.read_until(b"model=tiny\n"))
    assert fault is not None
    assert (fault.model, fault.step) == ("tiny", 7)
    assert fault.kind in ("busfault", "hardfault", "memfault")
    assert fault.registers["pc"]


@pytest.mark.parametrize("place", ["interrupt", "thread"])
def test_a_fault_on_another_stack_is_no_overflow(
    place: str, tiny_project: Callable[..., Path], real_setup: ZephyrSetup
):
    folder = tiny_project("mps2_an385", "rpc")
    (folder / "src/main.c").write_text(f"#define IN_INTERRUPT {int(place == 'interrupt')}\n{ELSEWHERE_MAIN}")
    built = mlf_sdk.build(folder, **zephyr_options(real_setup))
    with start_qemu(zephyr_board("mps2_an385"), built.elf, timeout_s=30) as machine:
        fault = parse_fault(machine.read_until(b"model=-\n"))
    assert fault is not None
    assert fault.kind in ("busfault", "hardfault", "memfault")
    assert fault.registers["pc"]


@pytest.mark.parametrize("board", ["mps2_an385", "mps2/an521/cpu0"])
@pytest.mark.parametrize("case", ["bad-pointer", "recursion", "undefined"])
def test_a_fault_in_a_kernel_is_told_with_its_line(
    case: str, board: str, tmp_path: Path, real_setup: ZephyrSetup
):
    """The status registers are read before Zephyr clears them; its stack guard ends a recursion."""
    archive = write(faulty(), tmp_path / "bad.tar")
    with pytest.raises(DeviceFaultError) as caught:
        mlf_sdk.run(
            archive,
            board=board,
            inputs=choosing(case),
            twin=False,
            platform="zephyr",
            **zephyr_options(real_setup),
        )
    found = caught.value.found
    assert (found.fault.step, found.step_name, found.fault.model) == (STEP, KERNEL, "tiny")
    lines = [(Path(frame.path).name, frame.line) for frame in found.frames]
    if case == "recursion":
        assert found.fault.kind == "stack-overflow"
        assert lines[1] == (FILE, line_of(case))
    else:
        assert lines[0] == (FILE, line_of(case))
        assert found.frames[-1].function.startswith("main+")
        bit = {"bad-pointer": "PRECISERR", "undefined": "UNDEFINSTR"}[case]
        assert any(words.startswith(bit) for words in found.status)


def test_a_driver_without_interrupts_is_polled(tiny_project: Callable[..., Path], real_setup: ZephyrSetup):
    folder = tiny_project("mps2_an385", "rpc")
    with (folder / "prj.conf").open("a") as file:
        file.write("CONFIG_UART_INTERRUPT_DRIVEN=n\n")
    report = mlf_sdk.run(folder, **zephyr_options(real_setup))
    assert report.ok
    assert not has_option(folder / "build", "UART_INTERRUPT_DRIVEN")


@pytest.mark.parametrize("option", ["STACK_SENTINEL", "ARM_MPU"])
def test_the_stack_is_painted_above_what_the_kernel_keeps(
    option: str, tiny_project: Callable[..., Path], real_setup: ZephyrSetup, real_tree: ZephyrTree
):
    """The sentinel's word, and the guard's growth by 64 bytes, which the stack's alignment has to spare."""
    board, kept = ("mps2_an385", 4) if option == "STACK_SENTINEL" else ("mps2_an386", 0)
    if board == "mps2_an386" and not (real_tree.base / "boards/arm/mps2/mps2_an386.yaml").is_file():
        pytest.skip("this tree has no board with a floating point unit and the older memory protection")
    folder = tiny_project(board, "rpc")
    with (folder / "prj.conf").open("a") as file:
        file.write(f"CONFIG_{option}=y\n" + ("CONFIG_HW_STACK_PROTECTION=n\n" if kept == 4 else ""))
    if option == "ARM_MPU":
        own = (folder / "Kconfig").read_text()
        (folder / "Kconfig").write_text(SMALL_REGIONS + own)
    report = mlf_sdk.run(folder, **zephyr_options(real_setup))
    assert report.ok
    assert has_option(folder / "build", option)
    assert option != "ARM_MPU" or has_option(folder / "build", "MPU_STACK_GUARD")
    assert report.memory.stack_bytes == report.board.stack_bytes - kept
    assert 0 < (report.memory.stack_high_water_bytes or 0) < report.memory.stack_bytes


def test_the_standalone_application(tiny_project: Callable[..., Path], real_setup: ZephyrSetup):
    folder = tiny_project("mps2_an385", "standalone")
    built = mlf_sdk.build(folder, **zephyr_options(real_setup))
    with start_qemu(zephyr_board("mps2_an385"), built.elf, timeout_s=30) as machine:
        said = machine.read_until(b"mlf: done 0")
    assert b"mlf: output 0 " in said


def test_the_mlperf_application(real_setup: ZephyrSetup, tmp_path: Path):
    """The procedure of MLPerf Tiny over Zephyr's UART driver and clock."""
    model = tmp_path / "tiny.tar"
    options = {"platform": "zephyr", "mlperf_id": "tiny", **zephyr_options(real_setup)}
    request = Request(source=(str(write(build(Spec()), model)),), board="mps2_an385", **options)
    host = Host(
        emulation=QemuOptions(icount_shift=10),
        clock=itertools.count(0, 60).__next__,
        sleep=lambda _seconds: None,
    )
    found = bench_mlperf(request, MlperfOptions(), Pipeline(), host)
    assert found.errors == ()
    assert len(found.windows) == 5
    assert all(10 < window.seconds < 30 for window in found.windows)
    assert found.windows[0].results


@pytest.fixture
def own_app(tmp_path: Path) -> Path:
    return Path(shutil.copytree(Path(__file__).parent / "app", tmp_path / "own"))


def build_app(app: Path, library: Path, setup: ZephyrSetup, tree: ZephyrTree, *beside: Path) -> Path:
    """Build an application with a generated library, and modules ``beside`` it; return the image."""
    target = zephyr_naming(zephyr_board("mps2_an385"), tree)
    environment = build_environment(tree, setup, is_native=False)
    modules = ";".join(setup.module_paths())
    argv = ["cmake", "-GNinja", "-S", app, "-B", app / "build", f"-DBOARD={target.board}"]
    argv += [f"-DUSER_CACHE_DIR={app}/build", f"-DMODULES_VARIABLE={target.profile.extra_modules}"]
    argv += [f"-DMODEL_DIR={';'.join(map(str, (*beside, library)))}"]
    argv += [f"-DZEPHYR_MODULES={modules}"] if modules else []
    for command in (argv, ["cmake", "--build", app / "build"]):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        assert not re.search(r"\.[chS]:\d+:.*warning:", done.stdout), done.stdout
    return app / "build/zephyr/zephyr.elf"


@pytest.mark.parametrize("runtime", ["own", "repository"])
def test_a_library_in_an_application_of_its_own(
    runtime: str,
    tiny_project: Callable[..., Path],
    real_setup: ZephyrSetup,
    real_tree: ZephyrTree,
    own_app: Path,
):
    """With the runtime that it brings, or that of the repository, which is a module of the same build."""
    library = tiny_project("any", "library")
    beside = (ROOT,) if runtime == "repository" else ()
    elf = build_app(own_app, library, real_setup, real_tree, *beside)
    ninja = (own_app / "build/build.ninja").read_text()
    used = ROOT if runtime == "repository" else library
    assert f"{used}/crt/src/mlf.c" in ninja
    assert (f"{library}/crt/src/mlf.c" in ninja) is (runtime == "own")
    x = np.arange(8, dtype=np.float32).reshape(1, 8) - 3
    y = np.trunc(reference(Spec(), x).ravel() * np.float32(1000)).astype(int)
    with start_qemu(zephyr_board("mps2_an385"), elf, timeout_s=30) as machine:
        said = machine.read_until(b"own app: done").decode()
    numbers = [int(word) for word in said.partition("own app:")[2].split("\n")[0].split()]
    assert np.abs(np.array(numbers) - y).max() <= 1


def test_zephyrs_own_report_of_a_fault_is_explained(
    tiny_project: Callable[..., Path], real_setup: ZephyrSetup, real_tree: ZephyrTree, own_app: Path
):
    """Of an application that has a library and no fault handler of the SDK, with Zephyr's logging."""
    library = tiny_project("any", "library")
    code = next((library / "model/tiny/codegen").rglob(FILE))
    code.write_bytes(faulty()[MEMBER])
    main = own_app / "src/main.c"
    main.write_text(main.read_text().replace("(float)i - 3.0f", f"{CASES['bad-pointer']}.0f"))
    with (own_app / "prj.conf").open("a") as file:
        file.write("CONFIG_LOG=y\n")
    elf = build_app(own_app, library, real_setup, real_tree)
    with start_qemu(zephyr_board("mps2_an385"), elf, timeout_s=30) as machine:
        said = machine.read_until(b"Halting system")
    (found,) = triage_log(said, find_firmware(elf))
    assert found.fault.kind in ("busfault", "hardfault")
    assert any(words.startswith("PRECISERR") for words in found.status)
    assert (Path(found.frames[0].path).name, found.frames[0].line) == (FILE, line_of("bad-pointer"))
    assert f"{FILE}:{line_of('bad-pointer')}" in "\n".join(triage_lines(found))
