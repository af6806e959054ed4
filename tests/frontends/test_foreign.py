# SPDX-License-Identifier: Apache-2.0
"""Model files of other tools are recognised by content, and the error has the command that converts each."""

from __future__ import annotations

import io
import json
import pickle
import shlex
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from cli_helpers import Caller
from mlf_sdk import frontends
from mlf_sdk.errors import InputError
from mlf_sdk.frontends.compiled import compiling_frontend
from tflite_models import small_network


def field(number: int, content: bytes) -> bytes:
    """A field of a protobuf message, with up to 127 bytes."""
    return bytes([number << 3 | 2, len(content)]) + content


def keras() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in ("metadata.json", "config.json", "model.weights.h5"):
            archive.writestr(name, "{}")
    return buffer.getvalue()


def safetensors() -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(4)


class Estimator:
    """Pickled under the name of one of scikit-learn's classes."""


def estimator() -> bytes:
    return pickle.dumps(Estimator()).replace(b"test_foreign", b"sklearn.tree")


def array() -> bytes:
    body = ", ".join(f"0x{byte:02x}" for byte in small_network())
    return f"// 0 bytes\nconst unsigned char model[] = {{\n  {body}\n}};\n".encode()


NODE = field(1, field(1, b"input") + field(2, b"Placeholder"))
META = field(1, field(2, field(1, b"\x0a\x03Add")))
FILES: dict[str, tuple[Callable[[], bytes], str, str]] = {
    "old.h5": (lambda: b"\x89HDF\r\n\x1a\n" + bytes(99), "an HDF5 file", "TFLiteConverter.from_keras_model"),
    "new.keras": (keras, "a Keras model (.keras)", "TFLiteConverter.from_keras_model"),
    "saved_model.pb": (lambda: b"\x08\x01" + field(2, META), "a SavedModel", "tflite_convert --saved_model_dir="),
    "frozen.pb": (lambda: NODE + NODE, "a frozen graph of TensorFlow", "-m tf2onnx.convert --graphdef"),
    "program.pte": (lambda: b"\x20\0\0\0ET12" + bytes(40), "a program of ExecuTorch", "torch.export.save("),
    "model.safetensors": (safetensors, "weights without a model", "optimum-cli export onnx --model"),
    "model.mlmodel": (
        lambda: b"\x08\x04" + field(2, field(1, field(1, b"image"))), "a Core ML model", "convert_coreml("
    ),
    "tree.joblib": (estimator, "a pickle, as scikit-learn's models", "skl2onnx.to_onnx("),
    "list.pkl": (lambda: pickle.dumps([1, 2]), "a pickle, as scikit-learn's models", "skl2onnx.to_onnx("),
    "model_data.cc": (array, "C source with the bytes of a .tflite model", "re.findall("),
    "pointer.onnx": (lambda: b"version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS", "git lfs pull"),
    "page.onnx": (lambda: b"\n<!DOCTYPE html>\n<html></html>", "a web page (HTML)", "the raw file"),
}  # fmt: skip
BY_NAME = ("saved_model.pb", "list.pkl")  # content alone says less
NOT_CONVERTED = ("program.pte", "pointer.onnx", "page.onnx")  # no command takes the file itself


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("name", FILES)
def test_a_model_of_another_tool(name: str, named: bool, tmp_path: Path) -> None:
    make, title, command = FILES[name]
    path = tmp_path / (name if named or name in BY_NAME else "model of ours")
    path.write_bytes(make())
    for find in (frontends.find_frontend, compiling_frontend):
        with pytest.raises(InputError) as caught:
            find(path)
        assert f"it is {title}" in caught.value.what
        assert command in caught.value.hint
        wanted = path.parent if name in ("saved_model.pb", "model.safetensors") else path
        if name not in NOT_CONVERTED:
            assert shlex.quote(str(wanted)) in caught.value.hint


def test_folders_of_other_tools(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "saved"
    saved.mkdir()
    (saved / "saved_model.pb").write_bytes(b"\x08\x01" + field(2, META))
    package = tmp_path / "m.mlpackage"
    (package / "Data").mkdir(parents=True)
    (package / "Manifest.json").write_text("{}")
    result = Caller(capsys)("run", saved, "--board", "host")
    assert result.code == 2
    assert f"tflite_convert --saved_model_dir={saved} --output_file=model.tflite" in result.err
    with pytest.raises(InputError, match="it is a Core ML model"):
        frontends.load(package)


def test_the_command_for_c_source_makes_the_model(tmp_path: Path) -> None:
    path = tmp_path / "model data.cc"
    path.write_bytes(array())
    with pytest.raises(InputError) as caught:
        frontends.load(path)
    command = caught.value.hint.split("its bytes: ")[1].split(" Known formats")[0]
    words = shlex.split(command)
    assert words[0] == "python"
    subprocess.run([sys.executable, *words[1:]], cwd=tmp_path, check=True)
    assert (tmp_path / "model.tflite").read_bytes() == small_network()


def test_what_is_none_of_them(tmp_path: Path) -> None:
    """Damaged and short files; ONNX's own first fields."""
    path = tmp_path / "x"
    for make, _, _ in FILES.values():
        data = make()
        for size in (0, 1, 3, 9, 12):
            path.write_bytes(data[:size])
            with pytest.raises(InputError):
                frontends.load(path)
    path.write_bytes(b"\x08\x09\x12\x07pytorch")
    assert frontends.find_frontend(path).name == "onnx"
