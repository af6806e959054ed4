# SPDX-License-Identifier: Apache-2.0
"""A library: runtime and model only, linked into a CMake application that exists."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from archives import Spec, write
from archives import build as tiny_archive
from mlf_sdk.analysis.assembly import scan_assembly
from mlf_sdk.analysis.elf.info import read_firmware_info
from mlf_sdk.analysis.elf.read import read_image
from mlf_sdk.errors import InputError
from mlf_sdk.version import __version__
from tflite_models import small_network

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"
_FLAGS = "-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16"
ARM = (
    "-DCMAKE_SYSTEM_NAME=Generic",
    "-DCMAKE_C_COMPILER=arm-none-eabi-gcc",
    "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY",
    f"-DCMAKE_C_FLAGS={_FLAGS}",
    f"-DCMAKE_ASM_FLAGS={_FLAGS}",
    "-DCMAKE_EXE_LINKER_FLAGS=-Wl,--gc-sections --specs=nano.specs -nostartfiles -Wl,-emain",
)
CMAKE = """\
cmake_minimum_required(VERSION 3.21)
project(firmware LANGUAGES C ASM)
add_executable(firmware main.c)
add_subdirectory(lib)
target_link_libraries(firmware PRIVATE mlf::models)
"""
MAIN = """\
#include <stdio.h>
#include "digits.h"
int main(void) {
  if (fread(digits_input_image(), 1, DIGITS_INPUT_IMAGE_SIZE, stdin) != DIGITS_INPUT_IMAGE_SIZE) return 2;
  if (digits_run() != MLF_OK) return 1;
  return fwrite(digits_output(), 1, DIGITS_OUTPUT_SIZE, stdout) == DIGITS_OUTPUT_SIZE ? 0 : 2;
}
"""
BARE_MAIN = """\
#include "digits.h"
void _exit(int status) { (void)status; for (;;) {} }
int main(void) { return digits_run() != MLF_OK; }
"""


def generate(folder: Path, board: str, **options: str) -> None:
    archive = DIGITS / "digits-graph-tvm0.11.1.tar"
    mlf_sdk.generate(archive, folder / "lib", board=board, app="library", **options)


def build(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    configure = ["cmake", "-S", str(folder), "-B", str(folder / "build"), "-G", "Ninja", *arguments]
    for command in (configure, ["cmake", "--build", str(folder / "build")]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            break
    return done


@pytest.mark.toolchain
def test_an_application_computes_what_the_reference_says(tmp_path: Path, needs_host: None) -> None:
    generate(tmp_path, "host")
    (tmp_path / "CMakeLists.txt").write_text(CMAKE)
    (tmp_path / "main.c").write_text(MAIN)
    done = build(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    cases = np.load(DIGITS / "test.npz")
    image = cases["image"][0].astype("<f4").tobytes()
    said = subprocess.run(
        [tmp_path / "build/firmware"], input=image, capture_output=True, timeout=10, check=True
    )
    np.testing.assert_allclose(np.frombuffer(said.stdout, "<f4"), cases["0"][0].ravel(), rtol=1e-5, atol=1e-4)
    assert "warning" not in done.stdout + done.stderr


@pytest.mark.toolchain
def test_a_bare_metal_application_links_the_model_and_no_server(tmp_path: Path, needs_arm: None) -> None:
    generate(tmp_path, "mps2-an386")
    (tmp_path / "CMakeLists.txt").write_text(CMAKE)
    (tmp_path / "main.c").write_text(BARE_MAIN)
    done = build(tmp_path, *ARM)
    assert done.returncode == 0, done.stdout + done.stderr
    image = read_image(tmp_path / "build" / "firmware")
    names = {symbol.name for symbol in image.symbols}
    assert {"digits_arena", "digits_params", "mlf_run"} <= names
    assert not [name for name in names if name.startswith(("mlf_rpc", "mlf_uart", "malloc"))]
    assert any(section.name.startswith(".note.mlf") for section in image.sections)


def test_a_library_holds_nothing_of_a_board_or_an_application(tmp_path: Path) -> None:
    generate(tmp_path, "mps2-an386")
    top = {path.name for path in (tmp_path / "lib").iterdir()}
    assert top == {
        "CMakeLists.txt",
        "README.md",
        "crt",
        "mlf_gdb.py",
        "mlf-project.json",
        "mlf-project.sha256",
        "model",
        "provenance.S",
    }
    assert {path.name for path in (tmp_path / "lib" / "crt").iterdir()} == {"include", "src"}


def test_an_asm_less_application_is_told_what_to_write(tmp_path: Path, needs_host: None) -> None:
    generate(tmp_path, "host")
    (tmp_path / "CMakeLists.txt").write_text(CMAKE.replace("C ASM", "C"))
    (tmp_path / "main.c").write_text(MAIN)
    done = build(tmp_path)
    assert done.returncode != 0
    assert "needs the language ASM" in done.stderr


def test_a_library_is_not_built_nor_run_by_itself(tmp_path: Path) -> None:
    generate(tmp_path, "mps2-an386")
    with pytest.raises(InputError, match="nothing to build"):
        mlf_sdk.build(tmp_path / "lib")


def test_a_library_has_the_static_executor(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a library has the static executor"):
        generate(tmp_path, "mps2-an386", executor="graph")


# ---- several libraries in one build ----

TWO = """\
cmake_minimum_required(VERSION 3.21)
project(firmware LANGUAGES C ASM)
add_executable(firmware main.c)
add_subdirectory({first})
add_subdirectory({second})
target_link_libraries(firmware PRIVATE {target})
"""
TWO_MAIN = """\
#include <stdio.h>
#include <string.h>
#include "digits.h"
#include "tiny.h"
int main(void) {
  memset(tiny_input_x(), 0, TINY_INPUT_X_SIZE);
  if (fread(digits_input_image(), 1, DIGITS_INPUT_IMAGE_SIZE, stdin) != DIGITS_INPUT_IMAGE_SIZE) return 2;
  if (tiny_run() != MLF_OK || digits_run() != MLF_OK) return 1;
  return fwrite(digits_output(), 1, DIGITS_OUTPUT_SIZE, stdout) == DIGITS_OUTPUT_SIZE ? 0 : 2;
}
"""
TWO_BARE_MAIN = """\
#include "digits.h"
#include "tiny.h"
void _exit(int status) { (void)status; for (;;) {} }
int main(void) { return digits_run() != MLF_OK || tiny_run() != MLF_OK; }
"""


def two_libraries(folder: Path, board: str, kind: str = "aot-packed") -> None:
    """A graph model, which needs slots, and one compiled ahead of time, which needs a stack."""
    tiny = write(tiny_archive(Spec(kind=kind)), folder / "tiny.tar")
    mlf_sdk.generate(DIGITS / "digits-graph-tvm0.11.1.tar", folder / "digits", board=board, app="library")
    mlf_sdk.generate(tiny, folder / "tiny", board=board, app="library", cflags="-O1")


@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("first", "second", "target"),
    [("digits", "tiny", "mlf::models"), ("tiny", "digits", "mlf::tiny mlf::digits")],
)
def test_two_libraries_share_one_runtime(
    tmp_path: Path, needs_host: None, first: str, second: str, target: str
) -> None:
    two_libraries(tmp_path, "host")
    (tmp_path / "CMakeLists.txt").write_text(TWO.format(first=first, second=second, target=target))
    (tmp_path / "main.c").write_text(TWO_MAIN)
    done = build(tmp_path, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    assert done.returncode == 0, done.stdout + done.stderr
    cases = np.load(DIGITS / "test.npz")
    image = cases["image"][0].astype("<f4").tobytes()
    said = subprocess.run(
        [tmp_path / "build/firmware"], input=image, capture_output=True, timeout=10, check=True
    )
    np.testing.assert_allclose(np.frombuffer(said.stdout, "<f4"), cases["0"][0].ravel(), rtol=1e-5, atol=1e-4)
    commands = json.loads((tmp_path / "build/compile_commands.json").read_text())
    (backend,) = [c["command"] for c in commands if c["file"].endswith("mlf_backend.c")]
    assert "-DMLF_WORKSPACE_SLOTS=1" in backend and "-DMLF_WORKSPACE_STACK=1" in backend
    others = [c["command"] for c in commands if "/crt/" not in c["file"]]
    assert others and not [c for c in others if "MLF_WORKSPACE" in c]
    for model, level in (
        ("digits", "-O2"),
        ("tiny", "-O1"),
    ):  # each with the flags that it was generated with
        kernels = [c["command"] for c in commands if f"/{model}/codegen/" in c["file"]]
        assert kernels and all(f" {level} " in c for c in kernels)


@pytest.mark.toolchain
def test_two_libraries_on_bare_metal(tmp_path: Path, needs_arm: None) -> None:
    two_libraries(tmp_path, "mps2-an386")
    (tmp_path / "CMakeLists.txt").write_text(TWO.format(first="digits", second="tiny", target="mlf::models"))
    (tmp_path / "main.c").write_text(TWO_BARE_MAIN)
    done = build(tmp_path, *ARM)
    assert done.returncode == 0, done.stdout + done.stderr
    image = read_image(tmp_path / "build" / "firmware")
    names = [symbol.name for symbol in image.symbols]
    assert {"digits_arena", "tiny_arena", "mlf_run", "TVMBackendAllocWorkspace"} <= set(names)
    assert names.count("mlf_run") == 1
    notes = read_firmware_info((tmp_path / "build" / "firmware").read_bytes(), "firmware").provenances
    assert [model.name for note in notes for model in note.models] == ["digits", "tiny"]


def configure_two(folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "CMakeLists.txt").write_text(TWO.format(first="digits", second="tiny", target="mlf::models"))
    (folder / "main.c").write_text(TWO_MAIN)
    return build(folder)


def test_two_models_of_one_name_are_refused(tmp_path: Path, needs_host: None) -> None:
    for name in ("digits", "tiny"):
        archive = DIGITS / "digits-graph-tvm0.11.1.tar"
        mlf_sdk.generate(archive, tmp_path / name, board="host", app="library")
    done = configure_two(tmp_path)
    assert done.returncode != 0
    said = " ".join(done.stderr.split())
    assert "Two models of this build are named 'digits'" in said
    assert "Generate them as one library" in said


def test_two_versions_of_the_runtime_are_refused(tmp_path: Path, needs_host: None) -> None:
    two_libraries(tmp_path, "host")
    listing = tmp_path / "tiny" / "CMakeLists.txt"
    listing.write_text(
        listing.read_text()
        .replace(f'"{__version__}"', '"99.0.0"')
        .replace(f"mlf-sdk {__version__}", "mlf-sdk 99.0.0")
    )
    done = configure_two(tmp_path)
    assert done.returncode != 0
    said = " ".join(done.stderr.split())
    assert f"was generated by mlf-sdk 99.0.0, but the runtime of this build by mlf-sdk {__version__}" in said


@pytest.mark.toolchain
def test_a_library_in_a_generated_project(tmp_path: Path, needs_arm: None) -> None:
    """The project's own runtime serves a library that app.cmake adds."""
    two_libraries(tmp_path, "mps2-an386")
    app = tmp_path / "app"
    mlf_sdk.generate(DIGITS / "digits-graph-tvm0.11.1.tar", app, board="mps2-an386", app="standalone")
    (app / "app.cmake").write_text(
        "add_subdirectory(../tiny tiny)\n"
        "target_sources(app PRIVATE extra.c)\n"
        "target_link_libraries(app PRIVATE mlf::tiny)\n"
    )
    (app / "extra.c").write_text(
        '#include "tiny.h"\n'
        "int extra(void);\n"
        '__attribute__((used, section(".config"))) const int tuning = 7;\n'
        "__attribute__((used)) int extra(void) { return tiny_run() != MLF_OK; }\n"
    )
    (app / "app.ld").write_text(
        "SECTIONS { .config : ALIGN(4) { KEEP(*(.config)) } > flash :code }\nPROVIDE(app_symbol = 0x1234);\n"
        "EXTERN(extra)\n"
    )
    image = read_image(mlf_sdk.build(app).elf)
    names = [symbol.name for symbol in image.symbols]
    assert {"digits_arena", "tiny_arena", "tuning"} <= set(names)
    assert names.count("mlf_run") == 1
    (config,) = [section for section in image.sections if section.name == ".config"]
    assert config.size_bytes == 4


@pytest.mark.toolchain
def test_kernel_flags_given_to_cmake_are_obeyed(tmp_path: Path, needs_host: None) -> None:
    mlf_sdk.generate(DIGITS / "digits-graph-tvm0.11.1.tar", tmp_path, board="host", app="standalone")

    def kernel_flags(*arguments: str) -> str:
        subprocess.run(
            ["cmake", "--preset", "default", *arguments],
            cwd=tmp_path,
            capture_output=True,
            check=True,
            timeout=60,
        )
        commands = json.loads((tmp_path / "build/compile_commands.json").read_text())
        (found,) = [c["command"] for c in commands if "/codegen/" in c["file"]]
        return found

    assert " -O2 -ffp-contract=off " in kernel_flags()
    assert " -O3 -funroll-loops " in kernel_flags("-DMLF_KERNEL_FLAGS=-O3 -funroll-loops")
    assert " -O3 -funroll-loops " in kernel_flags()  # kept in the cache
    assert " -O2 -ffp-contract=off " in kernel_flags("-DMLF_KERNEL_FLAGS=")


@pytest.mark.toolchain
def test_a_source_of_assembly_is_linked(tmp_path: Path, needs_arm: None) -> None:
    (tmp_path / "small.tflite").write_bytes(small_network())
    mlf_sdk.generate(
        tmp_path / "small.tflite", tmp_path / "lib", board="mps2-an386", app="library", asm="file"
    )
    (tmp_path / "CMakeLists.txt").write_text(CMAKE)
    (tmp_path / "main.c").write_text(BARE_MAIN.replace("digits", "small"))
    done = build(tmp_path, *ARM)
    assert done.returncode == 0, done.stdout + done.stderr
    (source,) = (tmp_path / "lib/model/small/kernels").glob("*.S")
    named = set(scan_assembly(source.read_text()).symbols)
    found = {symbol.name for symbol in read_image(tmp_path / "build/firmware").symbols}
    assert len(named & found) > len(named) // 2  # the others are for shapes that no layer has
