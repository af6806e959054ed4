# SPDX-License-Identifier: Apache-2.0
"""Types of relay values that the text leaves out, for the common operators.

What is not known here stays unknown: nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from mlf_sdk.errors import InputError
from mlf_sdk.frontends.mlf.relay.graph import Node, NodeKind, RelayGraph, TensorType
from mlf_sdk.ir.dtype import DType

Shape = tuple[int, ...]

_INTEGER: Final = re.compile(r"-?[0-9]{1,9}", re.ASCII)
_LIST: Final = re.compile(r"\[[-0-9, ]{0,200}\]", re.ASCII)


def complete_types(graph: RelayGraph) -> tuple[tuple[TensorType | None, ...], ...]:
    """The types of all results of all nodes: told by the text, else by the operator."""
    types: list[tuple[TensorType | None, ...]] = []
    for node in graph.nodes:
        told = node.types
        if node.kind is NodeKind.CALL and told == (None,):
            inputs = [types[use.node][use.output] for use in node.args]
            told = (_infer(node, inputs),)
        types.append(told)
    return tuple(types)


def _infer(node: Node, inputs: list[TensorType | None]) -> TensorType | None:
    rule = _RULES.get(node.name)
    known = [type_ for type_ in inputs if type_ is not None]
    if rule is None or not known or len(known) != len(inputs):
        return None
    dtype = known[0].dtype
    try:
        if node.attributes.get("out_dtype", '""') not in ('""', "None"):
            dtype = DType.parse(node.attributes["out_dtype"].strip('"'))
        shape = rule(node, [type_.shape for type_ in known])
    except (InputError, IndexError, ValueError, ZeroDivisionError):
        return None
    if shape is None or any(extent < 0 for extent in shape):
        return None
    return TensorType(dtype=dtype, shape=shape)


def _numbers(node: Node, key: str, default: Shape) -> Shape:
    """A list (or single number) of integers among the attributes; ValueError for anything else."""
    text = node.attributes.get(key)
    if text is None:
        return default
    if _INTEGER.fullmatch(text) is None and _LIST.fullmatch(text) is None:
        raise ValueError(text)
    return tuple(int(number) for number in _INTEGER.findall(text))


def _layout(node: Node, key: str, default: str) -> str:
    return node.attributes.get(key, f'"{default}"').strip('"')


def _same(_node: Node, shapes: list[Shape]) -> Shape:
    return shapes[0]


def _broadcast(_node: Node, shapes: list[Shape]) -> Shape | None:
    first, second = shapes
    length = max(len(first), len(second))
    padded = [(1,) * (length - len(shape)) + shape for shape in (first, second)]
    if any(a != b and 1 not in (a, b) for a, b in zip(*padded, strict=True)):
        return None
    return tuple(b if a == 1 else a for a, b in zip(*padded, strict=True))


def _dense(_node: Node, shapes: list[Shape]) -> Shape | None:
    data, weight = shapes
    return (*data[:-1], weight[0]) if data[-1] == weight[1] else None


def _flatten(_node: Node, shapes: list[Shape]) -> Shape:
    rest = 1
    for extent in shapes[0][1:]:
        rest *= extent
    return shapes[0][0], rest


def _concatenate(node: Node, shapes: list[Shape]) -> Shape | None:
    axis = _numbers(node, "axis", (0,))[0]
    axis += len(shapes[0]) if axis < 0 else 0
    if axis < 0 or any(s[:axis] + s[axis + 1 :] != shapes[0][:axis] + shapes[0][axis + 1 :] for s in shapes):
        return None
    return (*shapes[0][:axis], sum(shape[axis] for shape in shapes), *shapes[0][axis + 1 :])


def _window(node: Node, image: Shape, kernel: Shape) -> Shape | None:
    """Height and width after a window of ``kernel`` has gone over ``image``."""
    if node.attributes.get("ceil_mode", "False") not in ("False", "0") or len(kernel) != 2:
        return None
    padding = _numbers(node, "padding", (0, 0))
    strides = _numbers(node, "strides", (1, 1))
    dilation = _numbers(node, "dilation", (1, 1))
    padding = {1: padding * 4, 2: padding * 2, 4: padding}[len(padding)] if len(padding) in (1, 2, 4) else ()
    strides, dilation = (pair * 2 if len(pair) == 1 else pair for pair in (strides, dilation))
    return tuple(
        (image[i] + padding[i] + padding[i + 2] - (kernel[i] - 1) * dilation[i] - 1) // strides[i] + 1
        for i in range(2)
    )


def _image(node: Node, key: str, shape: Shape) -> tuple[str, Shape] | None:
    layout = _layout(node, key, "NCHW")
    if layout not in ("NCHW", "NHWC") or len(shape) != 4:
        return None
    return layout, (shape[2:] if layout == "NCHW" else shape[1:3])


def _put(layout: str, batch: int, channels: int, image: Shape) -> Shape:
    return (batch, channels, *image) if layout == "NCHW" else (batch, *image, channels)


def _conv2d(node: Node, shapes: list[Shape]) -> Shape | None:
    data, weight = shapes
    found = _image(node, "data_layout", data)
    kernel_layout = _layout(node, "kernel_layout", "OIHW")
    if found is None or kernel_layout not in ("OIHW", "HWIO", "OHWI") or len(weight) != 4:
        return None
    if node.attributes.get("out_layout", '""') != '""':
        return None
    kernel = weight[kernel_layout.index("H") : kernel_layout.index("H") + 2]
    image = _window(node, found[1], kernel)
    return None if image is None else _put(found[0], data[0], weight[kernel_layout.index("O")], image)


def _pool2d(node: Node, shapes: list[Shape]) -> Shape | None:
    found = _image(node, "layout", shapes[0])
    kernel = _numbers(node, "pool_size", (1, 1))
    image = _window(node, found[1], kernel) if found is not None else None
    if found is None or image is None:
        return None
    return _put(found[0], shapes[0][0], shapes[0][found[0].index("C")], image)


def _global_pool2d(node: Node, shapes: list[Shape]) -> Shape | None:
    found = _image(node, "layout", shapes[0])
    if found is None:
        return None
    return _put(found[0], shapes[0][0], shapes[0][found[0].index("C")], (1, 1))


_UNARY: Final = (
    "nn.relu nn.leaky_relu nn.bias_add nn.softmax nn.log_softmax nn.prelu nn.lrn clip sigmoid tanh exp log "
    "sqrt rsqrt abs negative floor ceil round erf sin cos copy"
)
_BINARY: Final = "add subtract multiply divide maximum minimum power floor_divide mod"
_RULES: Final[Mapping[str, Callable[[Node, list[Shape]], Shape | None]]] = {
    **dict.fromkeys(_UNARY.split(), _same),
    **dict.fromkeys(_BINARY.split(), _broadcast),
    "nn.dense": _dense,
    "nn.batch_flatten": _flatten,
    "concatenate": _concatenate,
    "nn.conv2d": _conv2d,
    "nn.max_pool2d": _pool2d,
    "nn.avg_pool2d": _pool2d,
    "nn.global_avg_pool2d": _global_pool2d,
    "nn.global_max_pool2d": _global_pool2d,
}
