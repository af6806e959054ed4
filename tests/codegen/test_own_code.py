# SPDX-License-Identifier: Apache-2.0
"""Code that the SDK's own compiler wrote, in a project: one header, a folder and warnings of its own, named memory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mlf_sdk
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
    assert flags.split(";") == [flag for flag in WARNINGS if flag not in ("-std=c99", "-Werror")]
    assert "-Wno-" not in text
    assert re.search(r"target_compile_options\(small_kernels PRIVATE .* -fno-strict-aliasing", text)


def test_without_assembly_there_is_none(project: Path, tmp_path: Path) -> None:
    source = project.parent / "small.tflite"
    mlf_sdk.generate(source, tmp_path / "app", board="mps2-an386", asm="no")
    assert "__asm" in (project / "model/small/kernels/small_lib0.c").read_text()
    assert "__asm" not in (tmp_path / "app/model/small/kernels/small_lib0.c").read_text()
