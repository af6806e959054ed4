# SPDX-License-Identifier: Apache-2.0
"""A ``.tflite`` file as a graph: every operator by its builder, every defect and gap reported together."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mlf_sdk.compiler.graph import UNREADABLE, Graph, ShapeError, refuse
from mlf_sdk.compiler.tflite.context import Context, fault_text, file_findings
from mlf_sdk.compiler.tflite.file import CUSTOM, RawOperator, RawSubgraph, flaw_of, read_tflite
from mlf_sdk.errors import FaultCollector
from mlf_sdk.ir.model import Finding
from mlf_sdk.resources import imported
from mlf_sdk.tools.checks import BoundedFaults

_CONTROL: Final = ("IF", "WHILE", "CALL")
_SHAPED: Final = ("WHERE", "UNIQUE", "NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", "SEGMENT_SUM")
Builder = Callable[[Context, RawOperator], None]

BUILDERS: Final[dict[str, str]] = {
    "CONV_2D": "layers:conv_2d",
    "DEPTHWISE_CONV_2D": "layers:depthwise_conv_2d",
    "TRANSPOSE_CONV": "layers:transpose_conv",
    "FULLY_CONNECTED": "layers:fully_connected",
    "AVERAGE_POOL_2D": "layers:pool_2d",
    "MAX_POOL_2D": "layers:pool_2d",
    "L2_POOL_2D": "layers:pool_2d",
    "MEAN": "reals:mean",
    "SOFTMAX": "layers:softmax",
    "SVDF": "recurrent:svdf",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "recurrent:lstm",
    **dict.fromkeys(("ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM"), "pointwise:binary"),
    **dict.fromkeys(
        (
            *("LOGISTIC", "TANH", "RELU", "RELU6", "RELU_N1_TO_1", "LEAKY_RELU"),
            *("EXP", "LOG", "SQRT", "RSQRT", "ABS", "NEG", "SQUARE", "HARD_SWISH", "ELU"),
        ),
        "pointwise:unary",
    ),
    **dict.fromkeys(("QUANTIZE", "DEQUANTIZE"), "pointwise:convert"),
    "CAST": "pointwise:cast",
    **dict.fromkeys(("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "DENSIFY"), "movement:reshape"),
    **dict.fromkeys(("PAD", "PADV2"), "movement:pad"),
    "MIRROR_PAD": "movement:mirror_pad",
    "CONCATENATION": "movement:concatenation",
    "PACK": "movement:pack",
    "UNPACK": "movement:unpack",
    **dict.fromkeys(("SPLIT", "SPLIT_V"), "movement:split"),
    "STRIDED_SLICE": "movement:strided_slice",
    "SLICE": "movement:slice_",
    "TRANSPOSE": "movement:transpose",
    "GATHER": "movement:gather",
    "DYNAMIC_UPDATE_SLICE": "movement:update_slice",
    "BROADCAST_ARGS": "integers:broadcast_args",
    "TILE": "movement:tile",
    "RESIZE_NEAREST_NEIGHBOR": "resize:resize_nearest",
    "RESIZE_BILINEAR": "resize:resize_bilinear",
    **dict.fromkeys(("ARG_MAX", "ARG_MIN"), "integers:arg_extreme"),
    "SHAPE": "integers:shape",
    **dict.fromkeys(
        (
            *("PRELU", "SQUARED_DIFFERENCE"),
            *("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"),
        ),
        "pointwise:pair",
    ),
    **dict.fromkeys(
        (
            *("FLOOR", "CEIL", "ROUND", "SIN", "COS", "SIGN", "RELU_0_TO_1", "POW"),
            *("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT"),
        ),
        "reals:pointwise",
    ),
    **dict.fromkeys(("FLOOR_DIV", "FLOOR_MOD"), "integers:floors"),
    "GELU": "reals:gelu",
    "BITWISE_XOR": "integers:bitwise_xor",
    "RANK": "integers:rank",
    "RANGE": "integers:range_",
    "ONE_HOT": "integers:one_hot",
    "SCATTER_ND": "integers:scatter_nd",
    **dict.fromkeys(("SELECT", "SELECT_V2"), "reals:select"),
    **dict.fromkeys(
        ("SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REDUCE_ALL", "REDUCE_ANY"), "reals:reduce"
    ),
    "ADD_N": "reals:add_n",
    "BATCH_MATMUL": "reals:batch_matmul",
    "CUMSUM": "reals:cumsum",
    "L2_NORMALIZATION": "reals:l2_normalization",
    "LOG_SOFTMAX": "reals:log_softmax",
    **dict.fromkeys(("SPACE_TO_DEPTH", "DEPTH_TO_SPACE"), "blocks:space_to_depth"),
    **dict.fromkeys(("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"), "blocks:space_to_batch"),
    **dict.fromkeys(("FILL", "ZEROS_LIKE"), "blocks:fill"),
    "BROADCAST_TO": "blocks:broadcast_to",
    "EMBEDDING_LOOKUP": "blocks:embedding_lookup",
    "GATHER_ND": "blocks:gather_nd",
    "REVERSE_V2": "blocks:reverse",
    f"{CUSTOM}TFLite_Detection_PostProcess": "detection:detection_post_process",
    f"{CUSTOM}SignalWindow": "signal:window",
    f"{CUSTOM}SignalFftAutoScale": "signal:auto_scale",
    f"{CUSTOM}SignalRfft": "signal:rfft",
    f"{CUSTOM}SignalEnergy": "signal:energy",
    f"{CUSTOM}SignalFilterBank": "signal:filter_bank",
    f"{CUSTOM}SignalFilterBankSquareRoot": "signal:square_root",
    f"{CUSTOM}SignalFilterBankSpectralSubtraction": "signal:spectral_subtraction",
    f"{CUSTOM}SignalPCAN": "signal:gain",
    f"{CUSTOM}SignalFilterBankLog": "signal:log",
    f"{CUSTOM}SignalDelay": "streaming:delay",
    f"{CUSTOM}SignalFramer": "streaming:framer",
    f"{CUSTOM}SignalStacker": "streaming:stacker",
    f"{CUSTOM}SignalOverlapAdd": "streaming:overlap_add",
    f"{CUSTOM}CIRCULAR_BUFFER": "streaming:circular_buffer",
    "CALL_ONCE": "variables:nothing",
    "VAR_HANDLE": "variables:handle",
    "READ_VARIABLE": "variables:read",
    "ASSIGN_VARIABLE": "variables:assign",
}
"""Places of builders, ``module:function`` in this package, by operator; imported for models that have it."""


def builder_of(kind: str) -> Builder:
    """Import the builder of an operator."""
    builder: Builder = imported(f"compiler.tflite.{BUILDERS[kind]}")
    return builder


def load_tflite(path: Path, name: str = "", batch: int = 1, custom: str = "") -> Graph:
    """Read a model.

    Args:
        name: of the model; by default the file's, as a C identifier.
        batch: extent of a first dimension that the file leaves open.
        custom: C code of custom operators, as in `CompileOptions`.

    Raises:
        ArchiveError: the file is damaged, or has operators that are not supported; all at once.
        InputError: it is no ``.tflite`` file.
    """
    faults = model_faults(path)
    graph = read_graph(path, name, faults, batch, custom)
    faults.raise_if_any()
    return graph.graph


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Graph of a model as far as it could be read.

    Attributes:
        graph: of the operators that can be compiled.
        raw: subgraph of the file.
        refused: numbers of operators that can't be compiled.
        blocked_downstream: numbers of operators that read what those write.
        findings: about what the file says and what is made of it.
    """

    graph: Graph
    raw: RawSubgraph
    refused: frozenset[int]
    blocked_downstream: frozenset[int]
    findings: tuple[Finding, ...]


def read_graph(path: Path, name: str, faults: FaultCollector, batch: int = 1, custom: str = "") -> Reading:
    """Read what can be read of a model.

    Args:
        faults: gets every operator that can't be compiled.
        custom: C code of custom operators, as in `CompileOptions`.

    Raises:
        ArchiveError: the file is damaged; all faults at once.
        InputError: it is no ``.tflite`` file, or there is something wrong with the code.
    """
    sources: Mapping[str, tuple[str, bytes]] = {}
    if custom:
        from mlf_sdk.compiler.tflite.custom import custom_sources

        sources = custom_sources(custom)
    subgraphs = read_tflite(path, faults, batch)
    faults.raise_if_any()
    if sources or any(operator.kind.startswith(CUSTOM) for operator in subgraphs[0].operators):
        from mlf_sdk.compiler.tflite.custom import accelerated, refuse_unused

        refuse_unused(subgraphs[0], sources)
        remedy = accelerated(subgraphs[0])
        if remedy:
            faults.hint = f"{remedy[0].upper()}{remedy[1:]}."
    context = Context(subgraphs[0], {}, [])
    if len(subgraphs) > 1:
        from mlf_sdk.compiler.tflite.variables import initial_states  # few models have some

        context = Context(subgraphs[0], *initial_states(subgraphs[1:], faults, _initialise))
    inputs = tuple(_placeholder(context, number, faults) for number in subgraphs[0].inputs)
    refused, blocked = _build(context, faults, sources)
    outputs = []
    for number in subgraphs[0].outputs:
        if number in context.value_of:
            outputs.append(context.value_of[number])
        elif not faults.faults:
            faults.add(
                "subgraphs[0].outputs", f"'{subgraphs[0].tensors[number].name}' is written by no operator"
            )
    graph = Graph(
        name=name or re.sub(r"\W", "_", path.stem, flags=re.ASCII),
        values=tuple(context.values),
        operators=tuple(context.operators),
        inputs=inputs,
        outputs=tuple(outputs),
        states=tuple(context.states),
    )
    findings = (*file_findings(subgraphs[0]), *context.findings)
    return Reading(
        graph=graph, raw=subgraphs[0], refused=refused, blocked_downstream=blocked, findings=findings
    )


def _placeholder(context: Context, number: int, faults: FaultCollector) -> int:
    tensor = context.raw.tensors[number]
    if tensor.dtype is None or tensor.flaw or 0 in tensor.shape:
        flaw = tensor.flaw or f"has shape {tensor.shape} and type {tensor.dtype}"
        faults.add("subgraphs[0].inputs", f"'{tensor.name}' {flaw}")
        return 0
    value = context.add(tensor.name, tensor.dtype, tensor.shape, tensor.quantisation)
    context.value_of[number] = value.id
    return value.id


def _build(
    context: Context, faults: FaultCollector, sources: Mapping[str, tuple[str, bytes]]
) -> tuple[frozenset[int], frozenset[int]]:
    """Add each operator; numbers of those that failed, and of those behind them, not reported again."""
    missing: set[int] = set()
    refused: set[int] = set()
    blocked: set[int] = set()
    for operator in context.raw.operators:
        if missing.intersection(operator.inputs):
            blocked.add(operator.number)
            missing.update(operator.outputs)
            continue
        try:
            flaw = flaw_of(context.raw, operator)
            if flaw:
                refuse(flaw)
            if operator.kind in BUILDERS and operator.kind.removeprefix(CUSTOM) not in sources:
                _build_one(context, operator)
            elif operator.kind.startswith(CUSTOM):
                from mlf_sdk.compiler.tflite.custom import build_custom

                build_custom(context, operator, sources)
            elif operator.kind in _CONTROL:
                refuse(
                    "it runs another graph of the model, as a value of the run decides",
                    "convert the model without control flow; of a Keras RNN with unroll=True",
                )
            elif operator.kind in _SHAPED:
                refuse(
                    "the shape of its result depends on values of the run",
                    "end the model before it, and do that step in the application",
                )
            else:
                refuse("this operator is not supported", "replace it in the model")
        except UNREADABLE as error:
            refused.add(operator.number)
            missing.update(operator.outputs)
            names = ", ".join(f"'{context.raw.tensors[i].name}'" for i in operator.outputs[:3])
            faults.add(f"operator {operator.number} {operator.kind} ({names})", fault_text(error))
    return frozenset(refused), frozenset(blocked)


def _build_one(context: Context, operator: RawOperator) -> None:
    """Add an operator; once more for each output whose open shape follows from it."""
    before = [len(part) for part in (context.values, context.operators, context.states, context.findings)]
    try:
        builder_of(operator.kind)(context, operator)
    except ShapeError as error:
        from mlf_sdk.compiler.tflite.shapes import settle  # few models leave more than their batch open

        if not settle(context, operator, error, before):
            raise
        _build_one(context, operator)


def _initialise(context: Context, operator: RawOperator) -> None:
    """Compute an operator of a graph that gives variables their first values."""
    if operator.kind not in BUILDERS:
        refuse("only constants can initialise variables")
    builder_of(operator.kind)(context, operator)


def model_faults(path: Path) -> BoundedFaults:
    """Collector of the faults of a model."""
    return BoundedFaults(
        str(path),
        subject="model",
        hint="Convert the model again, with int8 weights and activations and fixed shapes.",
    )
