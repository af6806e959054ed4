# SPDX-License-Identifier: Apache-2.0
"""The standalone application compares its outputs with those of the model on this machine."""

from __future__ import annotations

import dataclasses
import re
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlf_sdk
from archives import Spec, write
from archives import build as archive_files
from mlf_sdk.codegen.samples import SampleOutput, computed_pattern, pattern_bytes
from mlf_sdk.codegen.templates import environment
from mlf_sdk.compiler import build
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import FullyConnected
from mlf_sdk.errors import CheckError, InputError
from mlf_sdk.ir.dtype import DType
from mlf_sdk.judge.compare import Tolerance
from mlf_sdk.judge.evidence import HOST_SANITIZED
from mlf_sdk.judge.witnesses import panel
from mlf_sdk.pipeline.sample import _expected
from mlf_sdk.tools.process import run_process
from small_models import two_layers

ROOT = Path(__file__).resolve().parents[2]
FIRST = re.compile(r"(tiny_expected_0\[\d+\] = \{\s*)((?:0x.., ){3}0x..)")  # four bytes of it


def generate(folder: Path, spec: Spec, **options: object) -> Path:
    archive = write(archive_files(spec), folder / "tiny.tar")
    mlf_sdk.generate(archive, folder / "out", board="host", sample_outputs=True, **options)  # type: ignore[arg-type]
    return folder / "out"


def changed(header: str, at: int, bits: int) -> str:
    """The header of a sample with other bits in a byte of the expected output."""

    def change(found: re.Match[str]) -> str:
        values = [int(text, 16) for text in found[2].split(", ")]
        values[at] ^= bits
        return found[1] + ", ".join(f"0x{value:02x}" for value in values)

    assert FIRST.search(header)
    return FIRST.sub(change, header)


def printed(folder: Path) -> list[str]:
    elf = mlf_sdk.build(folder).elf
    return run_process([str(elf)], timeout_s=30, check=False).stdout.replace("\r", "").splitlines()


@pytest.mark.toolchain
@pytest.mark.parametrize(("dtype", "tolerant"), [("int8", False), ("float32", True)])
def test_outputs_are_compared(dtype: str, tolerant: bool, tmp_path: Path, needs_host: None) -> None:
    folder = generate(tmp_path, Spec(dtype=dtype), app="standalone")
    assert printed(folder)[-2:] == ["mlf: output 0 as expected", "mlf: done 0"]
    header = folder / "model/tiny/tiny_sample.h"
    text = header.read_text()
    header.write_text(changed(text, 0, 1))  # the last bit of the first element
    assert printed(folder)[-1] == f"mlf: done {0 if tolerant else 1}"
    header.write_text(changed(text, 3, 0x70))
    element = 0 if tolerant else 3
    assert printed(folder)[-2:] == [f"mlf: output 0 differs from element {element}", "mlf: done 1"]


@pytest.mark.toolchain
def test_no_number_is_not_as_expected(tmp_path: Path, needs_host: None) -> None:
    folder = generate(tmp_path, Spec(), app="standalone")
    header = folder / "model/tiny/tiny_sample.h"
    nan = ", ".join(f"0x{byte:02x}" for byte in struct.pack("<f", float("nan")))
    header.write_text(FIRST.sub(rf"\g<1>{nan}", header.read_text()))
    assert printed(folder)[-1] == "mlf: done 1"


def test_it_is_for_the_standalone_application(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the rpc application has no sample"):
        generate(tmp_path, Spec())
    assert not (tmp_path / "out").exists()


def test_a_model_that_can_not_run_here_has_none(tmp_path: Path) -> None:
    files = archive_files(Spec())
    source = next(name for name in files if name.endswith("_lib1.c"))
    files[source] = b'#include "arm_nnfunctions.h"\n' + files[source]
    (tmp_path / "nn/Include").mkdir(parents=True)
    (tmp_path / "nn/Include/arm_nnfunctions.h").write_text("")
    with pytest.raises(InputError, match="there is no host twin") as caught:
        mlf_sdk.generate(
            write(files, tmp_path / "tiny.tar"),
            tmp_path / "out",
            board="mps2-an386",
            app="standalone",
            cmsis_nn=str(tmp_path / "nn"),
            sample_outputs=True,
        )
    assert "Leave out --sample-outputs" in caught.value.hint


def test_witnesses_are_asked_about_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, needs_host: None
) -> None:
    """A compiler that is wrong does not get its outputs into firmware as the right ones."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(panel, "WITNESSES", (panel.Reference(),))
    model = tmp_path / "two.tflite"
    model.write_bytes(two_layers())
    options: dict[str, Any] = {"board": "host", "app": "standalone", "sample_outputs": True}
    found = mlf_sdk.generate(model, tmp_path / "out", **options)
    assert found.samples == (f"two: reference + {HOST_SANITIZED}",)
    right = build.improve

    def worse(graph: Graph) -> Graph:
        graph = right(graph)
        *others, last = graph.operators
        assert isinstance(last, FullyConnected)
        return dataclasses.replace(graph, operators=(*others, dataclasses.replace(last, clamp=(-128, 3))))

    monkeypatch.setattr(build, "improve", worse)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    with pytest.raises(CheckError, match=r"differ from what the model means \(reference\)"):
        mlf_sdk.generate(model, tmp_path / "wrong", **options)
    assert not (tmp_path / "wrong").exists()


def test_tolerance_is_that_of_boards() -> None:
    values = np.array([[0.5, -2.0, np.nan, np.inf]], np.float32)
    found = _expected(values, Tolerance(rtol=1e-3, atol=1e-4))
    assert found == SampleOutput(data=values.tobytes(), tolerance=pytest.approx(1e-4 + 2e-3))
    assert _expected(np.array([[7, -8]], np.int8), Tolerance()).tolerance == 0
    assert _expected(values[:, 2:], Tolerance(rtol=1e-3, atol=1e-4)).tolerance == pytest.approx(1e-4)


COMPUTED = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float32")
PROGRAM = """\
#include <stdio.h>
#include "tiny_sample.h"
static uint64_t data[2500];
int main(void) {
  const mlf_tensor_t input = {.data = data, .size_bytes = sizeof data};
  for (uint32_t number = 0; number < 3; ++number) {
    tiny_fill_sample(&input, number);
    fwrite(data, 1, sizeof data, stdout);
  }
  return 0;
}
"""


@pytest.mark.toolchain
@pytest.mark.parametrize("name", COMPUTED)
def test_computed_sample_is_the_pattern(name: str, tmp_path: Path) -> None:
    dtype = DType.parse(name)
    values = {"inputs": [], "outputs": [], "num_outputs": 0, "computed": computed_pattern({dtype})}
    header = environment().get_template("common/sample.h.j2")
    (tmp_path / "tiny_sample.h").write_text(
        header.render(
            s=values,
            m={"c_name": "tiny", "macro": "TINY", "stream": None, "frames": None, "caller_inputs": False},
        )
    )
    (tmp_path / "main.c").write_text(PROGRAM)
    program = str(tmp_path / "program")
    flags = ["-Wall", "-Wextra", "-Wconversion", "-Werror", f"-I{ROOT / 'crt/include'}", f"-I{tmp_path}"]
    run_process(["cc", "-std=c99", *flags, str(tmp_path / "main.c"), "-o", program], timeout_s=60)
    found = subprocess.run([program], capture_output=True, timeout=30, check=True).stdout
    elements = 20000 // dtype.size_bytes
    assert found == b"".join(pattern_bytes(dtype, elements, salt=salt) for salt in range(3))


def test_samples_that_are_not_computed() -> None:
    assert all(
        computed_pattern({DType.parse(name)}) is None for name in ("float16", "int64", "bool", "int8x4")
    )
    assert computed_pattern({DType.parse("int8"), DType.parse("float32")}) is None
    assert computed_pattern(set()) is None
