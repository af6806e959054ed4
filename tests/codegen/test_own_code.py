# SPDX-License-Identifier: Apache-2.0
"""Code that the SDK's own compiler wrote, in a project: one header, a folder and warnings of its own, named memory."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import mlf_sdk
from archives import Spec, write
from archives import build as tiny_archive
from ccode import WARNINGS, call, compiler
from mlf_sdk.codegen.options import NEEDED_FLAGS
from tflite_models import small_network


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    (folder / "small.tflite").write_bytes(small_network())
    mlf_sdk.generate(folder / "small.tflite", folder / "app", board="mps2-an386", app="standalone")
    return folder / "app"


def test_kernels_have_a_folder_of_their_own(project: Path) -> None:
    files = {path.name for path in (project / "model/small/kernels").iterdir()}
    assert files == {"small_lib0.c", "small_kernels.h"}
    assert not (project / "model/small/codegen").exists()


def test_calls_name_what_they_pass(project: Path) -> None:
    entry = (project / "model/small/small_entry_0.c").read_text()
    assert '#include "small_kernels.h"' in entry
    assert not re.search(r"extern \w+ small_\w+\(", entry)  # the prototypes are the header's
    calls = re.findall(r"^  small_\w+\((.*)\);$", entry, re.MULTILINE)
    defined = dict(re.findall(r"#define (\w+) (MLF_ABI_POINTER\(small_\w+ \+ \d+\))", entry))
    assert calls
    assert all(name in defined for passed in calls for name in passed.split(", "))
    assert "SMALL_TENSOR_INPUT" in defined and "SMALL_PARAM_CONV_2D_0_P0" in defined


def test_types_of_entry_and_kernels_agree_at_link_time(project: Path, tmp_path: Path) -> None:
    gcc, model = compiler("gcc"), project / "model/small"
    includes = [f"-I{project / 'crt/include'}", f"-I{model}", f"-I{model / 'kernels'}"]
    flags = ["-O2", "-flto", "-fPIC", "-Wlto-type-mismatch", *WARNINGS, *NEEDED_FLAGS, *includes]
    for observe in (0, 1):
        sources = [model / "small_entry_0.c", model / "kernels/small_lib0.c", model / "small.c"]
        define = f"-DMLF_OBSERVE={observe}"
        library = tmp_path / "small.so"
        call(gcc, *flags, define, "-DMLF_TRACE=0", "-shared", "-o", library, *sources, "-lm")


def test_the_build_has_the_runtimes_warnings_and_keeps_the_order_of_accesses(project: Path) -> None:
    text = (project / "CMakeLists.txt").read_text()
    properties = re.findall(
        r'set_source_files_properties\(\n(.*?)  PROPERTIES COMPILE_OPTIONS "(.*?)"', text, re.DOTALL
    )
    ((sources, flags),) = properties
    assert "kernels/small_lib0.c" in sources and "small_entry_0.c" in sources
    usual = [flag for flag in WARNINGS if flag not in ("-std=c99", "-Werror")]
    assert flags.split(";") == [*usual, "$<$<BOOL:${MLF_WERROR}>:-Werror>"]
    assert "-Wno-" not in text
    assert re.search(r"target_compile_options\(small_kernels PRIVATE .* -fno-strict-aliasing", text)


def test_options_of_the_compiler_are_flags_of_files(project: Path) -> None:
    """GCC's attribute for options is none of clang's: memcpy's loop would become a call of itself there."""
    sources = [path for path in project.rglob("*.[ch]") if "optimize(" in path.read_text()]
    assert sources == []
    text = (project / "CMakeLists.txt").read_text()
    assert '"crt/baremetal/memory.c"' in text
    assert "SOURCE crt/baremetal/memory.c APPEND PROPERTY COMPILE_OPTIONS -fno-builtin)" in text


def test_without_assembly_there_is_none(project: Path, tmp_path: Path) -> None:
    source = project.parent / "small.tflite"
    mlf_sdk.generate(source, tmp_path / "app", board="mps2-an386", asm="no")
    assert "__asm" in (project / "model/small/kernels/small_lib0.c").read_text()
    assert "__asm" not in (tmp_path / "app/model/small/kernels/small_lib0.c").read_text()


WARNED = "static int unused_function(void) { return 1; }\n"


def configured(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Configure and build a project."""
    build = folder / "build"
    done = subprocess.run(
        ["cmake", "-G", "Ninja", "-S", folder, "-B", build, *options],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return subprocess.run(["cmake", "--build", build], capture_output=True, text=True, timeout=240)


@pytest.mark.toolchain
def test_warnings_are_shown_and_are_errors_where_the_user_says_so(tmp_path: Path, needs_host: None) -> None:
    """Kernels, entry, tables, runtime and application have none; one that is put in ends the build with the option."""
    (tmp_path / "small.tflite").write_bytes(small_network())
    app = tmp_path / "app"
    mlf_sdk.generate(tmp_path / "small.tflite", app, board="host")
    done = configured(app, "-DMLF_WERROR=ON")
    assert done.returncode == 0 and "warning" not in done.stdout, done.stdout
    for place in ("model/small/kernels/small_lib0.c", "crt/src/mlf.c"):
        source = app / place
        text = source.read_text()
        source.write_text(text + WARNED)
        done = configured(app, "-DMLF_WERROR=OFF")
        assert done.returncode == 0 and "unused_function" in done.stdout
        done = configured(app, "-DMLF_WERROR=ON")
        assert done.returncode != 0 and "[-Werror=unused-function]" in done.stdout
        source.write_text(text)


@pytest.mark.toolchain
def test_code_of_others_is_built_with_that_option(tmp_path: Path, needs_host: None) -> None:
    """What a generator of C wrote warns of much, and of none of it with errors."""
    archive = write(tiny_archive(Spec()), tmp_path / "tiny.tar")
    mlf_sdk.generate(archive, tmp_path / "app", board="host")
    done = configured(tmp_path / "app", "-DMLF_WERROR=ON")
    assert done.returncode == 0, done.stdout


@pytest.mark.toolchain
def test_a_library_has_warnings_with_that_option_alone(tmp_path: Path, needs_host: None) -> None:
    """The application's flags are its own; the library adds none without it."""
    (tmp_path / "small.tflite").write_bytes(small_network())
    mlf_sdk.generate(tmp_path / "small.tflite", tmp_path / "lib", board="host", app="library")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.21)\nproject(firmware LANGUAGES C ASM)\nadd_subdirectory(lib)\n"
        "add_executable(firmware main.c)\ntarget_link_libraries(firmware PRIVATE mlf::models)\n"
    )
    (tmp_path / "main.c").write_text(
        f'{WARNED}#include "small.h"\nint main(void) {{ return small_run() != MLF_OK; }}\n'
    )
    for place in ("model/small/kernels/small_lib0.c", "crt/src/mlf.c"):
        source = tmp_path / "lib" / place
        text = source.read_text()
        assert configured(tmp_path, "-DMLF_WERROR=ON").returncode == 0
        source.write_text(text + WARNED)
        done = configured(tmp_path, "-DMLF_WERROR=OFF")
        assert done.returncode == 0 and "unused_function" not in done.stdout
        done = configured(tmp_path, "-DMLF_WERROR=ON")
        assert done.returncode != 0 and "[-Werror=unused-function]" in done.stdout
        source.write_text(text)
