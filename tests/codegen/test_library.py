# SPDX-License-Identifier: Apache-2.0
"""A library: runtime and model only, linked into a CMake application that exists."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from mlf_sdk import pipeline as api
from mlf_sdk.analysis.elf.image import read_image
from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.errors import InputError

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"
LIBRARY = ProjectOptions(app="library")
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


def generate(folder: Path, board: str, options: ProjectOptions = LIBRARY) -> None:
    archive = DIGITS / "digits-graph-tvm0.11.1.tar"
    api.generate(archive, folder / "lib", board=board, options=options)


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
    flags = "-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16"
    done = build(
        tmp_path,
        "-DCMAKE_SYSTEM_NAME=Generic",
        "-DCMAKE_C_COMPILER=arm-none-eabi-gcc",
        "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY",
        f"-DCMAKE_C_FLAGS={flags}",
        f"-DCMAKE_ASM_FLAGS={flags}",
        "-DCMAKE_EXE_LINKER_FLAGS=-Wl,--gc-sections --specs=nano.specs -nostartfiles -Wl,-emain",
    )
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
        api.build(tmp_path / "lib")
    with pytest.raises(InputError, match="the project's application is library"):
        api.run(tmp_path / "lib")


def test_a_library_has_the_static_executor(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a library has the static executor"):
        generate(tmp_path, "mps2-an386", ProjectOptions(app="library", executor="graph"))
