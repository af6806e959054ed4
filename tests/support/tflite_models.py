# SPDX-License-Identifier: Apache-2.0
"""Small .tflite models, built in code: layers with random weights and scales."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import tflite

Array = np.ndarray[Any, np.dtype[Any]]
_TYPES = {
    "float32": 0, "int32": 2, "uint8": 3, "int64": 4, "bool": 6, "int16": 7, "int8": 9,
    "complex64": 8, "uint64": 12, "uint32": 15, "int4": 17,
}  # fmt: skip


@dataclass
class TensorSpec:
    name: str
    dtype: str
    shape: tuple[int, ...]
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = ()
    axis: int = 0
    data: Array | None = None
    signature: tuple[int, ...] = ()
    variable: bool = False
    sparse: tuple[tuple[int, ...], tuple[int, ...], tuple[Any, ...]] | None = None
    """Order of dimensions, dimensions of blocks, and for each level a size or ``(segments, indices)``."""


@dataclass
class OperatorSpec:
    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: tuple[str, dict[str, Any]] | None = None
    version: int = 1
    custom: bytes = b""


@dataclass
class ModelSpec:
    tensors: list[TensorSpec] = field(default_factory=list)
    operators: list[OperatorSpec] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def tensor(self, name: str, dtype: str, shape: tuple[int, ...], **others: Any) -> int:
        self.tensors.append(TensorSpec(name, dtype, shape, **others))
        return len(self.tensors) - 1

    def add(
        self,
        kind: str,
        inputs: tuple[int, ...],
        output: int,
        options: tuple[str, dict[str, Any]] | None = None,
    ) -> int:
        self.operators.append(OperatorSpec(kind, inputs, (output,), options))
        return output


def _vector(builder: Any, start: Callable[..., Any], items: list[Any], add: str) -> Any:
    start(builder, len(items))
    for item in reversed(items):
        getattr(builder, add)(item)
    return builder.EndVector()


def _ints(builder: Any, items: tuple[int, ...]) -> Any:
    return builder.CreateNumpyVector(np.array(items, np.int32))


def write_model(spec: ModelSpec) -> bytes:
    """The file of a model."""
    b = flatbuffers.Builder(1024)
    kinds = list(dict.fromkeys((o.kind, o.version) for o in spec.operators))
    codes = []
    for name, version in kinds:
        kind, _, custom = name.partition(":")
        number = getattr(tflite.BuiltinOperator, kind)
        text = b.CreateString(custom) if custom else None
        tflite.OperatorCodeStart(b)
        if text is not None:
            tflite.OperatorCodeAddCustomCode(b, text)
        tflite.OperatorCodeAddDeprecatedBuiltinCode(b, min(number, 127))
        tflite.OperatorCodeAddVersion(b, version)
        tflite.OperatorCodeAddBuiltinCode(b, number)
        codes.append(tflite.OperatorCodeEnd(b))
    buffers = []
    for tensor in [None, *spec.tensors]:
        data = None
        if tensor is not None and tensor.data is not None:
            data = b.CreateByteVector(np.ascontiguousarray(tensor.data).tobytes())
        tflite.BufferStart(b)
        if data is not None:
            tflite.BufferAddData(b, data)
        buffers.append(tflite.BufferEnd(b))
    tensors = [_tensor(b, tensor, number) for number, tensor in enumerate(spec.tensors, start=1)]
    operators = [_operator(b, operator, kinds) for operator in spec.operators]
    lists = [
        _vector(b, tflite.SubGraphStartTensorsVector, tensors, "PrependUOffsetTRelative"),
        _ints(b, tuple(spec.inputs)),
        _ints(b, tuple(spec.outputs)),
        _vector(b, tflite.SubGraphStartOperatorsVector, operators, "PrependUOffsetTRelative"),
    ]
    tflite.SubGraphStart(b)
    tflite.SubGraphAddTensors(b, lists[0])
    tflite.SubGraphAddInputs(b, lists[1])
    tflite.SubGraphAddOutputs(b, lists[2])
    tflite.SubGraphAddOperators(b, lists[3])
    graph = tflite.SubGraphEnd(b)
    tops = [
        _vector(b, tflite.ModelStartOperatorCodesVector, codes, "PrependUOffsetTRelative"),
        _vector(b, tflite.ModelStartSubgraphsVector, [graph], "PrependUOffsetTRelative"),
        _vector(b, tflite.ModelStartBuffersVector, buffers, "PrependUOffsetTRelative"),
    ]
    tflite.ModelStart(b)
    tflite.ModelAddVersion(b, 3)
    tflite.ModelAddOperatorCodes(b, tops[0])
    tflite.ModelAddSubgraphs(b, tops[1])
    tflite.ModelAddBuffers(b, tops[2])
    b.Finish(tflite.ModelEnd(b), file_identifier=b"TFL3")
    return bytes(b.Output())


def _tensor(b: Any, tensor: TensorSpec, buffer: int) -> Any:
    name = b.CreateString(tensor.name)
    shape = _ints(b, tensor.shape)
    signature = _ints(b, tensor.signature) if tensor.signature else None
    quantisation = None
    if tensor.scale:
        scales = b.CreateNumpyVector(np.array(tensor.scale, np.float32))
        points = b.CreateNumpyVector(np.array(tensor.zero_point, np.int64))
        tflite.QuantizationParametersStart(b)
        tflite.QuantizationParametersAddScale(b, scales)
        tflite.QuantizationParametersAddZeroPoint(b, points)
        tflite.QuantizationParametersAddQuantizedDimension(b, tensor.axis)
        quantisation = tflite.QuantizationParametersEnd(b)
    sparsity = None if tensor.sparse is None else _sparsity(b, *tensor.sparse)
    tflite.TensorStart(b)
    tflite.TensorAddShape(b, shape)
    if sparsity is not None:
        tflite.TensorAddSparsity(b, sparsity)
    tflite.TensorAddType(b, _TYPES[tensor.dtype])
    tflite.TensorAddBuffer(b, buffer)
    tflite.TensorAddName(b, name)
    if tensor.variable:
        tflite.TensorAddIsVariable(b, True)
    if signature is not None:
        tflite.TensorAddShapeSignature(b, signature)
    if quantisation is not None:
        tflite.TensorAddQuantization(b, quantisation)
    return tflite.TensorEnd(b)


def _sparsity(b: Any, order: tuple[int, ...], blocks: tuple[int, ...], levels: tuple[Any, ...]) -> Any:
    tables = []
    for level in levels:
        vectors = []
        for values in () if isinstance(level, int) else level:
            array = b.CreateNumpyVector(np.array(values, np.uint8))
            tflite.Uint8VectorStart(b)
            tflite.Uint8VectorAddValues(b, array)
            vectors.append(tflite.Uint8VectorEnd(b))
        tflite.DimensionMetadataStart(b)
        if isinstance(level, int):
            tflite.DimensionMetadataAddDenseSize(b, level)
        else:
            tflite.DimensionMetadataAddFormat(b, tflite.DimensionType.SPARSE_CSR)
            tflite.DimensionMetadataAddArraySegmentsType(b, tflite.SparseIndexVector.Uint8Vector)
            tflite.DimensionMetadataAddArraySegments(b, vectors[0])
            tflite.DimensionMetadataAddArrayIndicesType(b, tflite.SparseIndexVector.Uint8Vector)
            tflite.DimensionMetadataAddArrayIndices(b, vectors[1])
        tables.append(tflite.DimensionMetadataEnd(b))
    lists = _ints(b, order), _ints(b, blocks)
    dimensions = _vector(
        b, tflite.SparsityParametersStartDimMetadataVector, tables, "PrependUOffsetTRelative"
    )
    tflite.SparsityParametersStart(b)
    tflite.SparsityParametersAddTraversalOrder(b, lists[0])
    tflite.SparsityParametersAddBlockMap(b, lists[1])
    tflite.SparsityParametersAddDimMetadata(b, dimensions)
    return tflite.SparsityParametersEnd(b)


def _operator(b: Any, operator: OperatorSpec, kinds: list[tuple[str, int]]) -> Any:
    inputs, outputs = _ints(b, operator.inputs), _ints(b, operator.outputs)
    options = None
    if operator.options is not None:
        name, fields = operator.options
        getattr(tflite, f"{name}Start")(b)
        for key, value in fields.items():
            getattr(tflite, f"{name}Add{key}")(b, value)
        options = getattr(tflite, f"{name}End")(b)
    custom = b.CreateByteVector(operator.custom) if operator.custom else None
    tflite.OperatorStart(b)
    if custom is not None:
        tflite.OperatorAddCustomOptions(b, custom)
    tflite.OperatorAddOpcodeIndex(b, kinds.index((operator.kind, operator.version)))
    tflite.OperatorAddInputs(b, inputs)
    tflite.OperatorAddOutputs(b, outputs)
    if operator.options is not None:
        tflite.OperatorAddBuiltinOptionsType(b, getattr(tflite.BuiltinOptions, operator.options[0]))
        tflite.OperatorAddBuiltinOptions(b, options)
    return tflite.OperatorEnd(b)


class Maker:
    """Chains of random layers, each of which a compiler can meet."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.spec = ModelSpec()

    def activation(self, shape: tuple[int, ...], name: str = "") -> int:
        scale = float(np.float32(self.random.uniform(0.005, 0.2)))
        zero = int(self.random.integers(-128, 128))
        return self.spec.tensor(
            name or f"t{len(self.spec.tensors)}", "int8", shape, scale=(scale,), zero_point=(zero,)
        )

    def input(self, shape: tuple[int, ...]) -> int:
        number = self.activation(shape, "input")
        self.spec.inputs.append(number)
        return number

    def weights(self, shape: tuple[int, ...], axis: int, dtype: str = "int8") -> int:
        scales = tuple(float(s) for s in self.random.uniform(0.001, 0.02, shape[axis]).astype(np.float32))
        data = self.random.integers(-127, 128, shape).astype(dtype)
        return self.spec.tensor(
            f"w{len(self.spec.tensors)}",
            dtype,
            shape,
            scale=scales,
            zero_point=(0,) * len(scales),
            axis=axis,
            data=data,
        )

    def bias(self, count: int) -> int:
        data = self.random.integers(-20000, 20000, count).astype(np.int32)
        return self.spec.tensor(f"b{len(self.spec.tensors)}", "int32", (count,), data=data)

    def conv(
        self,
        x: int,
        channels: int,
        size: tuple[int, int],
        stride: int,
        *,
        same: bool,
        activation: int = 0,
        depthwise: bool = False,
        dilation: int = 1,
    ) -> int:
        n, h, w, c = self.spec.tensors[x].shape
        spans = [(k - 1) * dilation + 1 for k in size]
        if same:
            extents = [-(-e // stride) for e in (h, w)]
        else:
            extents = [(e - k) // stride + 1 for e, k in zip((h, w), spans, strict=True)]
        assert min(extents) > 0
        shape = (1, *size, channels) if depthwise else (channels, *size, c)
        weights = self.weights(shape, 3 if depthwise else 0)
        y = self.activation((n, *extents, channels))
        # A scale at which sums of random products neither vanish nor saturate.
        taps = size[0] * size[1] * (1 if depthwise else c)
        self.spec.tensors[y].scale = (
            float(np.float32(self.spec.tensors[x].scale[0] * 0.01 * 70 * np.sqrt(taps))),
        )
        name = "DepthwiseConv2DOptions" if depthwise else "Conv2DOptions"
        fields = {
            "Padding": 0 if same else 1,
            "StrideW": stride,
            "StrideH": stride,
            "FusedActivationFunction": activation,
            "DilationWFactor": dilation,
            "DilationHFactor": dilation,
        }
        if depthwise:
            fields["DepthMultiplier"] = channels // c
        kind = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
        return self.spec.add(kind, (x, weights, self.bias(channels)), y, (name, fields))

    def dense(self, x: int, outputs: int, *, scales: int = 1, largest: int = 127) -> int:
        inputs = int(np.prod(self.spec.tensors[x].shape))
        data = self.random.integers(-largest, largest + 1, (outputs, inputs)).astype(np.int8)
        scale = float(np.float32(self.random.uniform(0.001, 0.02)))
        others = tuple(float(np.float32(scale * self.random.uniform(0.5, 1))) for _ in range(scales - 1))
        weights = self.spec.tensor(
            f"w{len(self.spec.tensors)}",
            "int8",
            (outputs, inputs),
            scale=(scale, *others),
            zero_point=(0,) * scales,
            data=data,
        )
        y = self.activation((1, outputs))
        self.spec.tensors[y].scale = (
            float(np.float32(self.spec.tensors[x].scale[0] * scale * largest * 0.55 * np.sqrt(inputs))),
        )
        fields = {"FusedActivationFunction": 0, "WeightsFormat": 0}
        return self.spec.add(
            "FULLY_CONNECTED", (x, weights, self.bias(outputs)), y, ("FullyConnectedOptions", fields)
        )

    def binary(self, kind: str, a: int, b: int) -> int:
        y = self.activation(
            tuple(np.broadcast_shapes(self.spec.tensors[a].shape, self.spec.tensors[b].shape))
        )
        option = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions"}[kind]
        return self.spec.add(
            kind, (a, b), y, (option, {"FusedActivationFunction": int(self.random.integers(0, 2))})
        )

    def same_scale(self, x: int, shape: tuple[int, ...]) -> int:
        old = self.spec.tensors[x]
        return self.spec.tensor(
            f"t{len(self.spec.tensors)}", old.dtype, shape, scale=old.scale, zero_point=old.zero_point
        )

    def pool(self, x: int, size: int, *, largest: bool) -> int:
        n, h, w, c = self.spec.tensors[x].shape
        y = self.same_scale(x, (n, -(-h // size), -(-w // size), c))
        fields = {
            "Padding": 0,
            "StrideW": size,
            "StrideH": size,
            "FilterWidth": size,
            "FilterHeight": size,
            "FusedActivationFunction": 0,
        }
        return self.spec.add(
            "MAX_POOL_2D" if largest else "AVERAGE_POOL_2D", (x,), y, ("Pool2DOptions", fields)
        )

    def softmax(self, x: int) -> int:
        shape = self.spec.tensors[x].shape
        y = self.spec.tensor("softmax", "int8", shape, scale=(1 / 256,), zero_point=(-128,))
        return self.spec.add("SOFTMAX", (x,), y, ("SoftmaxOptions", {"Beta": 1.0}))

    def logistic(self, x: int) -> int:
        y = self.spec.tensor(
            f"t{len(self.spec.tensors)}",
            "int8",
            self.spec.tensors[x].shape,
            scale=(1 / 256,),
            zero_point=(-128,),
        )
        return self.spec.add("LOGISTIC", (x,), y)

    def finish(self, *outputs: int) -> bytes:
        self.spec.outputs = list(outputs)
        return write_model(self.spec)


def small_network(seed: int = 0) -> bytes:
    """Convolutions of every kind that has a kernel of its own, a sum, pooling, a matrix and softmax."""
    m = Maker(seed)
    x = m.input((1, 12, 10, 3))
    first = m.conv(x, 8, (3, 3), 1, same=True, activation=1)
    deep = m.conv(first, 8, (3, 3), 1, same=True, depthwise=True, activation=1)
    point = m.conv(deep, 8, (1, 1), 1, same=True)
    total = m.binary("ADD", first, point)
    down = m.conv(total, 8, (3, 3), 2, same=True, depthwise=True, activation=1)
    small = m.pool(down, 2, largest=False)
    return m.finish(m.softmax(m.dense(small, 10)))
