# SPDX-License-Identifier: Apache-2.0
"""Names by position, and conversion of values: they stay when a model is trained anew, and round as the numbers say."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from export_worlds import compiled
from mlf_sdk.errors import InputError
from tflite_models import ModelSpec, write_model

MAIN = """\
#include <stdio.h>
#include "net.h"
int main(void) {
  static const float values[] = {%s};
  for (unsigned i = 0; i < sizeof values / sizeof values[0]; i++) printf("%%d ", net_quantise_input(values[i]));
  puts("");
  for (int i = %d; i <= %d; i++) printf("%%a ", (double)net_dequantise_output((%s)i));
  return 0;
}
"""


def model(names: tuple[str, str], dtype: str = "int8", scale: float = 0.05, zero: int = 7) -> bytes:
    """A model with one layer whose tensors have these names."""
    spec = ModelSpec()
    shape = (1, 8)
    spec.inputs = [spec.tensor(names[0], dtype, shape, scale=(scale,), zero_point=(zero,))]
    out = spec.tensor(names[1], dtype, shape, scale=(scale,), zero_point=(zero,))
    spec.outputs = [spec.add("RELU", (spec.inputs[0],), out)]
    return write_model(spec)


def export(folder: Path, content: bytes, name: str = "net") -> Path:
    (folder / "m.tflite").write_bytes(content)
    mlf_sdk.export(folder / "m.tflite", folder / name, to="make", model_name="net")
    return folder / name


def quantised(values: np.ndarray, scale: float, zero: int, info: np.iinfo) -> list[int]:
    """value / scale in single precision, halves away from zero, then bounds."""
    scaled = values.astype(np.float32) / np.float32(scale)
    rounded = np.where(scaled < 0, np.ceil(scaled.astype(float) - 0.5), np.floor(scaled.astype(float) + 0.5))
    bounded = np.clip(np.nan_to_num(rounded, nan=-math.inf) + zero, info.min, info.max)
    return [int(v) for v in bounded]


@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("dtype", "scale", "zero"),
    [("int8", 0.05, 7), ("int8", 0.00390625, -128), ("uint8", 0.5, 128), ("int16", 3.0517578e-05, 0)],
)
def test_values_are_converted_as_numpy_does(
    dtype: str, scale: float, zero: int, tmp_path: Path, needs_cc: str
) -> None:
    folder = export(tmp_path, model(("x", "y"), dtype, scale, zero))
    info = np.iinfo(dtype)
    steps = np.arange(-300, 300, dtype=np.float32) / 4 * np.float32(scale)
    ends = [np.float32(v) for v in (1e30, -1e30, 0.49999997 * scale, info.max * scale, 32767.5 * scale)]
    values = np.concatenate(
        [steps, np.array(ends, np.float32), np.array([np.nan, np.inf, -np.inf], np.float32)]
    )
    text = ", ".join(
        float(v).hex() + "f"
        if math.isfinite(v)
        else str(v).replace("nan", "0.0f/0.0f").replace("inf", "1e39f")
        for v in values
    )
    low, high = max(info.min, -300), min(info.max, 300)
    (folder / "main.c").write_text(MAIN % (text, low, high, f"{dtype}_t"))
    flags = ["-Wconversion", "-Wno-overflow", "-Wno-div-by-zero"]
    sources = ["main.c", *(folder / "src").glob("*.c")]
    said = compiled(folder, sources, ["src"], flags=flags).splitlines()
    assert [int(v) for v in said[0].split()] == quantised(values, scale, zero, info)
    real = [np.float32(scale) * np.float32(i - zero) for i in range(low, high + 1)]
    assert [float.fromhex(v) for v in said[1].split()] == [float(v) for v in real]


def test_an_application_outlives_other_names_of_tensors(tmp_path: Path) -> None:
    """The header by position is the same when nothing but names differs."""
    headers = []
    for number, names in enumerate(
        (("serving_default_x:0", "StatefulPartitionedCall:0"), ("image", "scores"))
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        text = (export(folder, model(names)) / "src/net.h").read_text()
        headers.append(text)
        assert "static inline int8_t *net_input(void)" in text
        assert "static inline const int8_t *net_output(void)" in text
        assert "#define NET_INPUT_SCALE " in text
        assert "#define NET_OUTPUT_ZERO_POINT " in text
    assert headers[0] != headers[1]


def test_a_tensor_that_has_such_a_name_keeps_it(tmp_path: Path) -> None:
    text = (export(tmp_path, model(("input", "output"))) / "src/net.h").read_text()
    assert text.count("*net_input(void)") == 1
    assert text.count("net_quantise_input(float value)") == 1


def test_several_inputs_are_numbered(tmp_path: Path) -> None:
    spec = ModelSpec()
    spec.inputs = [spec.tensor(n, "int8", (1, 4), scale=(0.1,), zero_point=(0,)) for n in ("left", "1")]
    out = spec.tensor("sum", "int8", (1, 4), scale=(0.1,), zero_point=(0,))
    spec.outputs = [spec.add("ADD", tuple(spec.inputs), out)]
    text = (export(tmp_path, write_model(spec)) / "src/net.h").read_text()
    for name in ("net_input_0", "net_input_1", "net_output"):
        assert text.count(f"*{name}(void)") == 1, name
    assert "net_quantise_input_1(float value)" in text
    assert "*net_input(void)" not in text


def test_a_project_has_the_name_that_is_stated(tmp_path: Path) -> None:
    (tmp_path / "model_v17_final.tflite").write_bytes(model(("x", "y")))
    mlf_sdk.generate(
        tmp_path / "model_v17_final.tflite", tmp_path / "app", board="mps2-an386", model_name="wake"
    )
    assert "wake_input(void)" in (tmp_path / "app/model/wake/wake.h").read_text()
    with pytest.raises(InputError, match="one name for several models"):
        mlf_sdk.generate(
            [tmp_path / "model_v17_final.tflite"] * 2, tmp_path / "two", board="mps2-an386", model_name="wake"
        )
