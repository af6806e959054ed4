# SPDX-License-Identifier: Apache-2.0
"""Builders of layers with weights, of pooling, means and softmax."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from mlf_sdk.compiler.graph import FLOAT32, Value, refuse
from mlf_sdk.compiler.operators import (
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Pool2D,
    PoolKind,
    Reshape,
    Softmax,
    TransposeConv,
    Window,
)
from mlf_sdk.compiler.requantise import Multiplier
from mlf_sdk.compiler.tflite.context import (
    Context,
    clamp,
    expect_elements,
    expect_shape,
)
from mlf_sdk.compiler.tflite.file import RawOperator

Table = Any  # options, by the accessors of the schema
_SAME = 0
_INT32 = 2  # TensorType of the schema
_ALIKE = 1e-6  # apart, scales of a pooling layer are the same to TFLM


def window_of(options: Table, size: tuple[int, int], x: Value, y: Value, *, dilated: bool = True) -> Window:
    """Window of a layer over x; refuses an output of another height or width."""
    stride = (options.StrideH(), options.StrideW())
    dilation = (1, 1)
    if dilated:
        dilation = (options.DilationHFactor(), options.DilationWFactor())
    if min(stride) < 1 or min(dilation) < 1 or min(size) < 1:
        refuse(f"window {size}, stride {stride}, dilation {dilation}: all must be > 0")
    if len(x.shape) != 4 or len(y.shape) != 4:
        refuse(f"an input of shape {x.shape}; height, width and channels with a batch are needed")
    before, extents = [], []
    for i in range(2):
        span = (size[i] - 1) * dilation[i] + 1
        extent = x.shape[1 + i]
        if options.Padding() == _SAME:
            wanted = -(-extent // stride[i])
            before.append(max((wanted - 1) * stride[i] + span - extent, 0) // 2)
        else:
            wanted = (extent - span) // stride[i] + 1
            before.append(0)
        extents.append(wanted)
    if min(extents) < 1:
        refuse(f"window {size} with dilation {dilation} does not fit into an input of shape {x.shape}")
    expect_shape(y, (x.shape[0], *extents, y.shape[3]))
    return Window(size=size, stride=stride, dilation=dilation, before=(before[0], before[1]))


# Types of biases beside activations of 16 bits, as TFLM's kernels read them.
_WIDE_BIASES: Final = {"DEPTHWISE_CONV_2D": ("int64",), "TRANSPOSE_CONV": ("int16", "int64")}


def check_layer(
    operator: RawOperator, x: Value, weights: Value, bias: Value | None, y: Value, channels: int
) -> None:
    """Refuse types and quantisations that the layer can't have."""
    if weights.data is None:
        refuse(f"its weights ('{weights.name}') are not constant")
    if x.dtype.kind == "f":
        if any(v.dtype != np.float32 for v in (x, weights, y, *([] if bias is None else [bias]))):
            refuse(f"activations of type {x.dtype} to {y.dtype} with weights of type {weights.dtype}")
        return
    if x.dtype != y.dtype or x.dtype.itemsize > 2:
        refuse(f"activations of type {x.dtype} to {y.dtype}")
    if x.quantisation is None or y.quantisation is None or weights.quantisation is None:
        refuse("a tensor has no quantisation")
    if x.quantisation.axis is not None or y.quantisation.axis is not None:
        refuse("activations with one scale a channel")
    if weights.dtype.itemsize != 1:
        refuse(f"weights of type {weights.dtype}")
    if weights.dtype == np.int8 and any(weights.quantisation.zero_point):
        refuse("int8 weights with a zero point other than 0")
    if len(weights.quantisation.scale) not in (1, channels):
        refuse(f"{len(weights.quantisation.scale)} scales for {channels} channels")
    if bias is not None:
        if bias.data is None:
            refuse(f"its bias ('{bias.name}') is not constant")
        wide = _WIDE_BIASES.get(operator.kind, ("int32", "int64"))
        types = wide if x.dtype == np.int16 else ("int32",)
        if bias.dtype.name not in types:
            refuse(f"a bias of type {bias.dtype} beside activations of type {x.dtype}; {types[-1]} is needed")


def _emit_convolution(
    context: Context,
    operator: RawOperator,
    options: Table,
    values: list[Value],
    y: Value,
    channels: int,
    make: Callable[..., Conv2D | DepthwiseConv2D | TransposeConv],
) -> None:
    """Add a layer of x, weights and maybe a bias; refuse what such a layer can't have."""
    x, weights, *bias = values
    if x.dtype == FLOAT32:
        from mlf_sdk.compiler.tflite.hybrid import real_weights

        (weights,) = real_weights(context, operator, x, weights)
    check_layer(operator, x, weights, bias[0] if bias else None, y, channels)
    for value in bias:
        expect_elements(value, channels)
    size = (weights.shape[1], weights.shape[2])
    if operator.kind == "TRANSPOSE_CONV":  # its window moves over the output
        window = window_of(options, size, dataclasses.replace(x, shape=y.shape), x, dilated=False)
    else:
        window = window_of(options, size, x, y)
    expect_shape(y, (x.shape[0], y.shape[1], y.shape[2], channels))
    limits = clamp(options.FusedActivationFunction(), y)
    source, target = x, y
    if x.dtype == np.int16:  # TFLM's kernels leave the zero points of such values out
        source, target = _without_zero_point(context, x), _without_zero_point(context, y)
    if x.dtype == np.uint8 and len(weights.scales) == 1:
        weights = _with_single_product(context, x, weights, y)
    if source is not x:
        context.add_operator(Reshape, operator, [x], source)
    context.add_operator(make, operator, [source, weights, *bias], target, window=window, clamp=limits)
    if target is not y:
        context.add_operator(Reshape, operator, [target], y)


def _without_zero_point(context: Context, x: Value) -> Value:
    """A value for the same bytes with the zero point 0; the value itself if it has that."""
    if x.quantisation is None or not x.zero_point:
        return x
    result = dataclasses.replace(x.quantisation, zero_point=(0,))
    return context.add(f"{x.name}_stored", x.dtype, x.shape, result)


def _with_single_product(context: Context, x: Value, weights: Value, y: Value) -> Value:
    """Weights whose scale makes the multiplier of a uint8 layer that of TensorFlow Lite.

    Its product of the scales is single precision where weights have one scale; that of int8 layers is double.
    """
    product = float(np.float32(x.scale) * np.float32(weights.scale))
    if weights.quantisation is None or not product:
        return weights
    wanted, near = Multiplier.of(product / y.scale), product / x.scale
    around = (near, math.nextafter(near, math.inf), math.nextafter(near, 0))
    scale = next((s for s in around if Multiplier.of(x.scale * s / y.scale) == wanted), near)
    result = dataclasses.replace(weights.quantisation, scale=(scale,))
    return context.add(weights.name, weights.dtype, weights.shape, result, weights.data)


def _bias_of(
    context: Context, operator: RawOperator, options: Table, x: Value, bias: list[Value], channels: int
) -> list[Value]:
    """The bias, or zeros where an int16 layer without one states that its sums have 32 bits."""
    stated = options is not None and options.QuantizedBiasType() == _INT32
    if bias or x.dtype != np.int16 or not stated:
        return bias
    name = context.raw.tensors[operator.outputs[0]].name
    return [context.add_constant(f"{name}_bias", np.zeros(channels, np.int32))]


def conv_2d(context: Context, operator: RawOperator) -> None:
    """CONV_2D."""
    options = operator.options("Conv2DOptions") or refuse("has no options")
    (x, weights, *bias), y = context.inputs_and_output(operator, 2, 3)
    if len(weights.shape) != 4 or not weights.shape[3] or x.shape[3:] == () or x.shape[3] % weights.shape[3]:
        refuse(f"weights of shape {weights.shape} for an input of shape {x.shape}")
    channels = weights.shape[0]
    bias = _bias_of(context, operator, options, x, bias, channels)
    _emit_convolution(context, operator, options, [x, weights, *bias], y, channels, Conv2D)


def depthwise_conv_2d(context: Context, operator: RawOperator) -> None:
    """DEPTHWISE_CONV_2D."""
    options = operator.options("DepthwiseConv2DOptions") or refuse("has no options")
    (x, weights, *bias), y = context.inputs_and_output(operator, 2, 3)
    if len(weights.shape) != 4 or len(x.shape) != 4 or weights.shape[0] != 1 or weights.shape[3] % x.shape[3]:
        refuse(f"weights of shape {weights.shape} for an input of shape {x.shape}")
    channels = weights.shape[3]
    make = functools.partial(DepthwiseConv2D, multiplier=channels // x.shape[3])
    _emit_convolution(context, operator, options, [x, weights, *bias], y, channels, make)


def transpose_conv(context: Context, operator: RawOperator) -> None:
    """TRANSPOSE_CONV: inputs are the shape of the output, weights, x and maybe a bias."""
    options = operator.options("TransposeConvOptions") or refuse("has no options")
    (_, weights, x, *bias), y = context.inputs_and_output(operator, 3, 4)
    if len(weights.shape) != 4 or len(x.shape) != 4 or len(y.shape) != 4 or weights.shape[3] != x.shape[3]:
        refuse(f"weights of shape {weights.shape} for an input of shape {x.shape}")
    values = [x, weights, *bias]
    _emit_convolution(context, operator, options, values, y, weights.shape[0], TransposeConv)


def fully_connected(context: Context, operator: RawOperator) -> None:
    """FULLY_CONNECTED."""
    options = operator.options("FullyConnectedOptions")
    (x, weights, *bias), y = context.inputs_and_output(operator, 2, 3)
    if options is not None and options.WeightsFormat() != 0:
        refuse("shuffled weights")
    if len(weights.shape) != 2 or not weights.shape[1] or x.elements % weights.shape[1]:
        refuse(f"weights of shape {weights.shape} for an input of shape {x.shape}")
    expect_elements(y, x.elements // weights.shape[1] * weights.shape[0])
    if weights.data is None and not bias and not (options and options.FusedActivationFunction()):
        from mlf_sdk.compiler.tflite.reals import dense_of_two  # few models multiply two computed values

        dense_of_two(context, operator, x, weights, y)
        return
    bias = _bias_of(context, operator, options, x, bias, weights.shape[0])
    if x.dtype == FLOAT32:
        from mlf_sdk.compiler.tflite.hybrid import real_weights

        (weights,) = real_weights(context, operator, x, weights)
    check_layer(operator, x, weights, bias[0] if bias else None, y, weights.shape[0])
    for value in bias:
        expect_elements(value, weights.shape[0])
    context.add_operator(
        FullyConnected,
        operator,
        [x, weights, *bias],
        y,
        clamp=clamp(options.FusedActivationFunction() if options else 0, y),
    )


def pool_2d(context: Context, operator: RawOperator) -> None:
    """AVERAGE_POOL_2D, MAX_POOL_2D and L2_POOL_2D."""
    options = operator.options("Pool2DOptions") or refuse("has no options")
    (x,), y = context.inputs_and_output(operator, 1)
    apart = abs(np.float32(x.scale) - np.float32(y.scale))
    if x.dtype != y.dtype or apart > _ALIKE or x.zero_point != y.zero_point:
        refuse("input and output differ in type or quantisation")
    window = window_of(options, (options.FilterHeight(), options.FilterWidth()), x, y, dilated=False)
    expect_shape(y, (x.shape[0], y.shape[1], y.shape[2], x.shape[3]))
    function = PoolKind(operator.kind.partition("_")[0].lower())
    if function is PoolKind.L2 and x.dtype != np.float32:
        refuse(f"values of type {x.dtype}; float32 is supported")
    context.add_operator(
        Pool2D,
        operator,
        [x],
        y,
        function=function,
        window=window,
        clamp=clamp(options.FusedActivationFunction(), y),
    )


def softmax(context: Context, operator: RawOperator) -> None:
    """SOFTMAX."""
    options = operator.options("SoftmaxOptions") or refuse("has no options")
    (x,), y = context.inputs_and_output(operator, 1)
    expect_shape(y, x.shape)
    if x.dtype.kind != "f":
        _check_softmax(x, y, float(options.Beta()))
    context.add_operator(Softmax, operator, [x], y, beta=float(options.Beta()))


def _check_softmax(x: Value, y: Value, beta: float) -> None:
    """Refuse types and quantisations of a softmax of stored values."""
    words = x.dtype == np.int16
    if x.dtype.itemsize != 1 and not (words and y.dtype == np.int16):
        refuse(f"from {x.dtype} to {y.dtype}")
    wanted = 2.0**-15 if words else 2.0 ** -(8 * y.dtype.itemsize)
    zero = 0 if words else np.iinfo(y.dtype).min
    if x.quantisation is None:
        refuse("its input has no quantisation")
    if abs(y.scale - wanted) > wanted / 1000 or y.zero_point != zero:
        refuse(f"an output with scale {y.scale} and zero point {y.zero_point}")
    if words and (x.zero_point or x.shape[-1] > 1 << 15):
        refuse(f"an input of shape {x.shape} with the zero point {x.zero_point}")
    if not 1 < beta * x.scale * (1 << 26) < math.inf:
        refuse(f"beta {beta} with an input of scale {x.scale}")
