# SPDX-License-Identifier: Apache-2.0
"""Program that runs one model on an interpreter of the field: a process of its own, so that it may crash.

Usage: worker.py tflm FILE ARENA_BYTES OUTPUTS, worker.py onnxruntime FILE, worker.py torch FILE

Frames on standard input and output: 8 bytes of length, most significant first, and an npz file with the
arrays ``0``, ``1``... The first answer has none: the model is loaded. An answer with the key ``error`` is the
reason why there are no outputs. It is started by its path, and imports nothing of the SDK.
"""

# ruff: noqa: E402
import os
import sys

_HERE = os.path.realpath(os.path.dirname(__file__))  # noqa: PTH120
sys.path[:] = [one for one in sys.path if os.path.realpath(one) != _HERE]  # its names are not ours

import io
from collections.abc import Callable
from typing import Any

import numpy as np

Run = Callable[[list[Any]], list[Any]]
_TYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(bool)": "bool",
}


def _tflm(path: str, arena: str, outputs: str) -> Run:
    from tflite_micro.python.tflite_micro import runtime

    file = runtime.Interpreter.from_file(path, arena_size=int(arena))

    def run(inputs: list[Any]) -> list[Any]:
        for number, array in enumerate(inputs):
            file.set_input(array, number)
        file.invoke()
        return [np.asarray(file.get_output(number)) for number in range(int(outputs))]

    return run


def _onnxruntime(path: str) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    has_maps = any(o.type.startswith("seq(map") for o in session.get_outputs())
    orders = _class_orders(path) if has_maps else {}
    wanted = [(i.name, _TYPES.get(i.type, i.type[7:-1])) for i in session.get_inputs()]

    def run(inputs: list[Any]) -> list[Any]:
        if len(inputs) != len(wanted):
            raise ValueError(f"it has {len(wanted)} inputs, not {len(inputs)}")
        given = {name: array.astype(type_) for (name, type_), array in zip(wanted, inputs, strict=True)}
        return [
            np.array([[row[c] for c in orders[output.name]] for row in one])
            if output.name in orders
            else _plain(one)
            for output, one in zip(session.get_outputs(), session.run(None, given), strict=True)
        ]

    return run


def _plain(result: object) -> np.ndarray[Any, Any]:
    """An array; strings are of numpy's own type."""
    array = np.asarray(result)
    if array.dtype.kind != "O":
        return array
    if any(not isinstance(one, str) for one in array.reshape(-1)):
        raise ValueError("an output of it has neither numbers nor strings")
    return array.astype(np.str_)


def _class_orders(path: str) -> dict[str, list[Any]]:
    """Classes of each output of a ZipMap, in the order of its scores; ONNX Runtime sorts them."""
    import onnx

    result = {}
    for node in onnx.load(path, load_external_data=False).graph.node:
        if node.op_type == "ZipMap":
            classes = next(iter(onnx.helper.get_attribute_value(a) for a in node.attribute))
            result[node.output[0]] = [c.decode() if isinstance(c, bytes) else c for c in classes]
    return result


def _torch(path: str) -> Run:
    import torch

    module = torch.export.load(path).module()

    def run(inputs: list[Any]) -> list[Any]:
        with torch.no_grad():
            result = module(*[torch.from_numpy(array) for array in inputs])
        result = result if isinstance(result, list | tuple) else [result]
        return [one.detach().numpy() for one in result]

    return run


_KINDS: dict[str, Callable[..., Run]] = {"tflm": _tflm, "onnxruntime": _onnxruntime, "torch": _torch}


def _read(count: int) -> bytes:
    """The next bytes; fewer at the end of the input."""
    parts = []
    while count > 0 and (part := os.read(0, count)):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _answer(stream: int, arrays: dict[str, Any]) -> None:
    content = io.BytesIO()
    np.savez(content, **arrays)
    left = memoryview(len(content.getvalue()).to_bytes(8, "big") + content.getvalue())
    while left:
        left = left[os.write(stream, left) :]


def _said(error: Exception) -> dict[str, Any]:
    return {"error": np.array(" ".join(str(error).split())[:500] or type(error).__name__)}


def main() -> None:
    """Load the model, then run an inference for each frame until the input ends."""
    stream = os.dup(1)
    os.dup2(2, 1)  # interpreters print: that is not for the reader of frames
    kind, *arguments = sys.argv[1:]
    try:
        run = _KINDS[kind](*arguments)
    except Exception as error:
        _answer(stream, _said(error))
        return
    _answer(stream, {})
    while head := _read(8):
        frame = np.load(io.BytesIO(_read(int.from_bytes(head, "big"))), allow_pickle=False)
        try:
            result = run([frame[str(number)] for number in range(len(frame.files))])
            _answer(stream, {str(number): np.asarray(array) for number, array in enumerate(result)})
        except Exception as error:
            _answer(stream, _said(error))


if __name__ == "__main__":
    main()
