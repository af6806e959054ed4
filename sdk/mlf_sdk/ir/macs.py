# SPDX-License-Identifier: Apache-2.0
"""Multiply-accumulates of a fused operator, derived from its name and the shapes of its arguments.

A convolution needs, for each pixel of its result, one for every element of its weights, whatever its groups:
pixels are the elements of the result over its channels. Which extent counts channels depends on the layout;
it follows from the weights, and where two layouts fit with different results, there is no answer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Sequence

Shape = tuple[int, ...]
_Depth = Callable[[Shape, Shape, Shape], int | None]

_CONVOLUTION = re.compile(r"conv[123]d")
_TRANSPOSED = re.compile(r"conv[123]d_transpose")
_DENSE = re.compile(r"dense")
_MATMUL = re.compile(r"matmul")


def macs(
    name: str, inputs: Sequence[Shape], outputs: Sequence[Shape], constants: Collection[int] = ()
) -> int | None:
    """Multiply-accumulates of one call; None if neither name nor shapes determine them.

    Args:
        name: of the operator function, e.g. ``tvmgen_default_fused_nn_conv2d_add``.
        inputs, outputs: extents of its arguments in order, constants included.
        constants: which inputs are constants.
    """
    if len(outputs) != 1:
        return None
    fixed = [shape for i, shape in enumerate(inputs) if i in constants]
    free = [shape for i, shape in enumerate(inputs) if i not in constants]
    if _CONVOLUTION.search(name):
        result = set(_convolutions(free, fixed, outputs[0], transposed=bool(_TRANSPOSED.search(name))))
    elif _DENSE.search(name):
        result = set(_products(free, fixed or free, outputs[0], _dense_depth))
    elif _MATMUL.search(name):
        result = set(_products(free, fixed or free, outputs[0], _matmul_depth))
    else:
        return None
    return result.pop() if len(result) == 1 else None


def _convolutions(
    free: Sequence[Shape], fixed: Sequence[Shape], output: Shape, *, transposed: bool
) -> Iterator[int]:
    """For each layout that fits; the weights are a constant of the highest rank."""
    rank = max(map(len, fixed), default=0)
    for weights in (shape for shape in fixed if len(shape) == rank):
        for data in free:
            source, result = (output, data) if transposed else (data, output)
            if len(data) == len(output) and all((*data, *weights, *output)):
                for channels in _channels(source, weights, result):
                    yield math.prod(result) // channels * math.prod(weights)


def _channels(data: Shape, weights: Shape, result: Shape) -> Iterator[int]:
    """Channels of a convolution's result, for each layout that fits the shapes."""
    rank = len(result)
    if rank >= 4 and len(weights) == rank + 1:  # NCHW4c with OIHW4i4o
        if (weights[0], weights[-1]) == (result[1], result[-1]):
            yield result[1] * result[-1]
        return
    if rank < 3 or len(weights) != rank:
        return
    outer, inner = weights[:2], weights[-2:]
    if _kernel_fits(weights[2:], data[2:]) and _fits(data[1], outer[1], outer[0], result[1]):
        yield result[1]  # NCHW with OIHW
    if _kernel_fits(weights[:-2], data[1:-1]) and (
        _fits(data[-1], inner[0], inner[1], result[-1])  # NHWC with HWIO
        or (inner[0] == data[-1] and inner[0] * inner[1] == result[-1])  # or with HWOI: depthwise
    ):
        yield result[-1]


def _kernel_fits(kernel: Shape, data: Shape) -> bool:
    """Return whether extents can be those of a kernel: it is no larger than padded data may be."""
    return all(k <= 2 * d + 1 for k, d in zip(kernel, data, strict=True))


def _fits(channels: int, group: int, filters: int, result: int) -> bool:
    """Return whether ``filters`` filters over groups of ``group`` channels give ``result`` channels."""
    if channels % group:
        return False
    return filters == result or (group != channels and filters == channels and filters * group == result)


def _products(
    free: Sequence[Shape], others: Sequence[Shape], output: Shape, depth_of: _Depth
) -> Iterator[int]:
    for data in free:
        for other in others:
            depth = depth_of(data, other, output)
            if depth is not None:
                yield math.prod(output) * depth


def _dense_depth(data: Shape, weights: Shape, output: Shape) -> int | None:
    """[M, K] with [N, K], or with [N/n, K, n]: K."""
    if len(data) < 2 or len(output) < 2 or data[:-1] != output[:-1]:
        return None
    if len(weights) == 2 and weights == (output[-1], data[-1]):
        return data[-1]
    if len(weights) == 3 and weights[1] == data[-1] and weights[0] * weights[2] >= output[-1]:
        return data[-1]
    return None


def _matmul_depth(data: Shape, other: Shape, output: Shape) -> int | None:
    """[B, M, K] with [B, N, K] or [B, K, N]: K."""
    if len(data) < 2 or len(data) != len(other) or len(data) != len(output) or data[:-1] != output[:-1]:
        return None
    wanted = {(output[-1], data[-1]), (data[-1], output[-1])}
    return data[-1] if other[-2:] in wanted else None
