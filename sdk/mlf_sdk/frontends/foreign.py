# SPDX-License-Identifier: Apache-2.0
"""Model files of other tools, by content, and the command that makes a ``.tflite`` or ONNX file of each.

Nothing is parsed further than the first fields need, and nothing is unpickled.
"""

from __future__ import annotations

import re
import shlex
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from mlf_sdk.frontends.torch.kinds import entries

_HEAD_BYTES: Final = 4096
_TAIL_BYTES: Final = 1 << 20
_LARGEST_HEADER: Final = 100 << 20  # of a safetensors file
_KERAS: Final = (
    "import sys, tensorflow as tf; open(sys.argv[2], 'wb').write("
    "tf.lite.TFLiteConverter.from_keras_model(tf.keras.models.load_model(sys.argv[1])).convert())"
)
_SKLEARN: Final = (
    "import sys, joblib, skl2onnx; m = joblib.load(sys.argv[1]); open(sys.argv[2], 'wb').write("
    "skl2onnx.to_onnx(m, initial_types=[('x', "
    "skl2onnx.common.data_types.FloatTensorType([1, m.n_features_in_]))]).SerializeToString())"
)
_COREML: Final = (
    "import sys, coremltools, onnxmltools; onnxmltools.utils.save_model("
    "onnxmltools.convert_coreml(coremltools.utils.load_spec(sys.argv[1])), sys.argv[2])"
)
_ARRAY: Final = (
    "import re, sys; open(sys.argv[2], 'wb').write(bytes(int(x, 16) for x in "
    "re.findall('0x([0-9a-fA-F]{1,2})(?![0-9a-zA-Z])', open(sys.argv[1]).read())))"
)
_BYTES_OF_TFLITE: Final = re.compile(
    rb"(0x[0-9a-fA-F]{1,2}\s*,\s*){4}0x54\s*,\s*0x46\s*,\s*0x4[cC]\s*,\s*0x33"
)
_LEARNERS: Final = (b"sklearn", b"joblib", b"xgboost", b"lightgbm", b"catboost")


class ForeignModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model file of another tool.

    Attributes:
        title: with its article.
        hint: sentence with the command that makes a file that can be compiled.
    """

    title: str
    hint: str


def foreign_model(path: Path) -> ForeignModel | None:
    """Kind of a file or folder that another tool can make a model of; None: it is none of them.

    Raises:
        OSError: it can't be read.
    """
    if path.is_dir():
        return _folder(path)
    if not path.is_file():
        return None
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL_BYTES))
        tail = file.read(_TAIL_BYTES) if head.startswith(b"PK\x03\x04") else b""
    kinds = (kind(path, head, tail) for kind in (_ANY_NAME if path.suffix == ".onnx" else _KINDS))
    return next((one for one in kinds if one is not None), None)


def _folder(path: Path) -> ForeignModel | None:
    if (path / "saved_model.pb").is_file():
        return _saved_model(path)
    if (path / "Manifest.json").is_file() and (path / "Data").is_dir():
        return _of_coreml(path)
    return None


def _python(code: str, path: Path, output: str) -> str:
    return f'python -c "{code}" {shlex.quote(str(path))} {output}'


def _keras(path: Path, head: bytes, tail: bytes) -> ForeignModel | None:
    names = {name.rpartition("/")[2] for name in entries(tail)}
    if head.startswith(b"\x89HDF\r\n\x1a\n"):
        title = "an HDF5 file, as Keras writes them (.h5)"
    elif {"config.json", "metadata.json"} <= names:
        title = "a Keras model (.keras)"
    else:
        return None
    hint = f"Convert it with TensorFlow: {_python(_KERAS, path, 'model.tflite')}"
    return ForeignModel(title=title, hint=hint)


def _saved_model(path: Path) -> ForeignModel:
    command = f"tflite_convert --saved_model_dir={shlex.quote(str(path))} --output_file=model.tflite"
    return ForeignModel(title="a SavedModel of TensorFlow", hint=f"Convert it with TensorFlow: {command}")


def _protobuf(path: Path, head: bytes, _tail: bytes) -> ForeignModel | None:
    """A graph of TensorFlow, or a model of Core ML, whose fields begin as no ONNX model's do."""
    fields = dict(_fields(head))
    if head[:1] == b"\x0a":  # GraphDef: nodes, each with a name and an operation
        node = dict(_fields(fields.get(1, b"")))
        if not (_is_word(node.get(1, b"")) and re.fullmatch(rb"[A-Z_]\w{0,99}", node.get(2, b""))):
            return None
        command = (
            f"python -m tf2onnx.convert --graphdef {shlex.quote(str(path))} --output model.onnx "
            "--inputs INPUT:0 --outputs OUTPUT:0"
        )
        return ForeignModel(
            title="a frozen graph of TensorFlow (.pb)",
            hint=f"Convert it with tf2onnx, with the names of its inputs and outputs: {command}",
        )
    inner = fields.get(2, b"")
    if head[:1] != b"\x08" or head[2:3] != b"\x12" or inner[:1] != b"\x0a":
        return None
    is_saved = head[1] == 1 and path.suffix != ".mlmodel" and dict(_fields(inner)).get(1, b"")[:1] != b"\x0a"
    return _saved_model(path.parent) if is_saved else _of_coreml(path)


def _of_coreml(path: Path) -> ForeignModel:
    hint = (
        f"Convert it with onnxmltools: {_python(_COREML, path, 'model.onnx')}"
        if path.is_file()
        else "ML programs have no converter: export the model that it was made from, to ONNX or .tflite."
    )
    return ForeignModel(title="a Core ML model", hint=hint)


def _executorch(path: Path, head: bytes, _tail: bytes) -> ForeignModel | None:
    if not re.fullmatch(rb"ET\d\d", head[4:8]):
        return None
    hint = (
        "It is lowered for that runtime. Export the module that it was made from: "
        "torch.export.save(torch.export.export(module, inputs), 'model.pt2')"
    )
    return ForeignModel(title="a program of ExecuTorch (.pte)", hint=hint)


def _safetensors(path: Path, head: bytes, _tail: bytes) -> ForeignModel | None:
    if len(head) < 10 or head[8:9] != b"{" or struct.unpack_from("<Q", head)[0] > _LARGEST_HEADER:
        return None
    command = f"optimum-cli export onnx --model {shlex.quote(str(path.parent))} onnx"
    hint = f"Export the model that they belong to, where its config.json is beside them: {command}"
    return ForeignModel(title="weights without a model (.safetensors)", hint=hint)


def _pickle(path: Path, head: bytes, _tail: bytes) -> ForeignModel | None:
    is_pickle = len(head) > 1 and head[0] == 0x80 and 2 <= head[1] <= 5
    is_packed = path.suffix == ".joblib" and head[:2] in (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
    learner = any(name in head for name in _LEARNERS)
    named = path.suffix in (".joblib", ".pkl", ".pickle") and b"torch" not in head
    if not (is_packed or (is_pickle and (learner or named))):
        return None
    hint = (
        "It runs code when it is loaded, so it is not opened. Where you trust it, convert it with skl2onnx: "
        f"{_python(_SKLEARN, path, 'model.onnx')}"
    )
    return ForeignModel(title="a pickle, as scikit-learn's models are saved", hint=hint)


def _array(path: Path, head: bytes, _tail: bytes) -> ForeignModel | None:
    if not _BYTES_OF_TFLITE.search(head):
        return None
    hint = f"Make a file of its bytes: {_python(_ARRAY, path, 'model.tflite')}"
    return ForeignModel(title="C source with the bytes of a .tflite model", hint=hint)


def _pointer(_path: Path, head: bytes, _tail: bytes) -> ForeignModel | None:
    """A file of text that stands for a large one in a clone (source: the specification of Git LFS)."""
    if not head.startswith(b"version https://git-lfs.github.com/spec/"):
        return None
    hint = "Fetch the file that it stands for, in the clone that it is from: git lfs install && git lfs pull."
    return ForeignModel(title="a pointer of Git LFS, not the model", hint=hint)


def _page(_path: Path, head: bytes, _tail: bytes) -> ForeignModel | None:
    if not head.lstrip()[:14].lower().startswith((b"<!doctype html", b"<html")):
        return None
    hint = "Download the file itself: on a site that shows code, by its link to the raw file."
    return ForeignModel(title="a web page (HTML), not the model", hint=hint)


_Kind = Callable[[Path, bytes, bytes], ForeignModel | None]
_ANY_NAME: Final[tuple[_Kind, ...]] = (_pointer, _page)
_KINDS: Final[tuple[_Kind, ...]] = (
    *_ANY_NAME, _keras, _executorch, _safetensors, _pickle, _array, _protobuf,
)  # fmt: skip


def _is_word(name: bytes) -> bool:
    return bool(re.fullmatch(rb"[\x21-\x7e]{1,1024}", name))


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Fields of a protobuf message with a length, in reverse of their order; the last may be cut off."""
    result: list[tuple[int, bytes]] = []
    at = 0
    while at < len(data) and len(result) < 8:
        tag, at = _varint(data, at)
        if tag & 7 == 0:
            _, at = _varint(data, at)
        elif tag & 7 == 2:
            length, at = _varint(data, at)
            result.append((tag >> 3, data[at : at + length]))
            at += length
        else:
            break
    yield from reversed(result)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            break
    return value, at
