# SPDX-License-Identifier: Apache-2.0
"""Facts that a compiler or a converter states in ``metadata.json`` under the key ``mlf_sdk`` of a module.

Kernels with facts under ``calls`` are plain C functions: pointers to the inputs of their node, then to its
outputs, then to a workspace where one is stated. A model that the graph executor's JSON can't express is
under ``model``. The statements are checked like any others of an archive: sizes against the graph, names
against the code; what they say of kernels counts under the seal of the archive (`mlf_sdk.frontends.mlf.seal`)
or is held against the code (`mlf_sdk.frontends.statedfacts`).
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Final

import msgspec

from mlf_sdk.errors import FaultCollector
from mlf_sdk.ir.abi import Value, call_with
from mlf_sdk.ir.model import ALIGNMENT, FileDigest, Overlap, Span, Workspace
from mlf_sdk.ir.step import Layer, Step, Stream
from mlf_sdk.ir.tensor import Quantisation, TensorKind
from mlf_sdk.tools.checks import shown
from mlf_sdk.tools.jsontext import convert

KEY: Final = "mlf_sdk"
MAX_BYTES: Final = 1 << 30

Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_BYTES)]
LargeCount = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]


class KernelCost(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel that was measured for a layer, and what one call takes, in the unit that the options state."""

    kernel: str
    cost: LargeCount


class InnerLayer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Layer of a region that runs by rows; attributes as in `mlf_sdk.ir.step.Layer`."""

    number: Count
    operator: str
    detail: str = ""
    macs: LargeCount = 0


class LayerFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Operator of the source model that a call computes.

    Attributes:
        number: position of the operator in the model.
        operator: as the model's format names it, e.g. ``CONV_2D``.
        detail: what distinguishes it from others of its kind, such as a window: ``3x3, stride 2``.
        kernel: family of the kernel.
        counted: kernels that were measured, the chosen one first; empty: it was chosen by rule.
        origin: generator of the kernel's code, e.g. ``TVM 0.27.0``; empty: the compiler of the archive.
        inside: layers of a region that runs by rows, in their order; empty: it is one layer.
        tile: results for which one load of an input serves, and one of a weight.
    """

    number: Count
    operator: str
    detail: str = ""
    kernel: str = ""
    counted: tuple[KernelCost, ...] = ()
    origin: str = ""
    inside: tuple[InnerLayer, ...] = ()
    tile: tuple[Count, Count] = (1, 1)


class OverlapFact(msgspec.Struct, frozen=True, kw_only=True):
    """Statement that an output may lie over an input that nothing needs after the call.

    Attributes:
        input, output: positions among the inputs and outputs of the call.
        distance_bytes: the output starts this far, or further, before the start of the input.
    """

    input: Count
    output: Count
    distance_bytes: Count


class StreamFact(msgspec.Struct, frozen=True, kw_only=True):
    """Input of the model that comes row by row; attributes as in `mlf_sdk.ir.step.Stream`."""

    input: Count
    rows: Count
    row_bytes: Count
    ring_rows: Count
    ring_offset_bytes: Count
    counter_bytes: Count


class CallFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts about one call.

    Attributes:
        writes: positions of inputs that the kernel writes to: states.
        workspace_bytes: of scratch memory, passed as the last argument; 0 for none.
        overlaps: outputs that may lie over inputs.
        joins: byte offset of each input in the one output that they fill; the call only copies them there.
        slices: byte offset of each output in the first input; the call only copies them from there.
        macs: multiplications with weights in one call, for reports.
        layer: the operator that it computes, for reports.
        header: member with the function's prototype; empty: none has it.
        stream: input of the model that is no argument, because it comes row by row; None: there is none.
    """

    writes: tuple[Count, ...] = ()
    workspace_bytes: Count = 0
    overlaps: tuple[OverlapFact, ...] = ()
    joins: tuple[Count, ...] = ()
    slices: tuple[Count, ...] = ()
    macs: LargeCount = 0
    layer: LayerFacts | None = None
    header: str = ""
    stream: StreamFact | None = None


class StatedTensor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tensor; attributes as in `mlf_sdk.ir.tensor.Tensor`.

    Attributes:
        param: name of the parameter with its bytes; empty for none.
    """

    name: str
    dtype: str
    shape: tuple[Count, ...]
    kind: TensorKind
    alias_of: Count | None = None
    offset_bytes: Count = 0
    param: str = ""
    quantisation: Quantisation | None = None


class StatedModel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tensors and steps; attributes as in `mlf_sdk.ir.model.Model`."""

    executor: str
    tensors: tuple[StatedTensor, ...]
    inputs: tuple[Count, ...]
    outputs: tuple[Count, ...]
    steps: tuple[Step, ...]
    alignment: Count = ALIGNMENT
    exports: tuple[str, ...] = ()
    is_analysed: bool = False


class Extension(msgspec.Struct, frozen=True, kw_only=True):
    """Everything under the key.

    Attributes:
        calls: by the names of nodes.
        states: names of parameters that keep their value from one run to the next.
        output_names: in the order of the graph's heads.
        quantisation: by the names of nodes.
        options: of the compiler.
        symbol_prefix: of all functions; None: the model's name in C.
        model: tensors and steps, in place of a graph.
        made_from: the model file that was compiled.
        clean: members with code that builds without a warning.
        seal: hash of the archive, see `mlf_sdk.frontends.mlf.seal`; empty for none.
    """

    compiler: str
    compiler_version: str
    calls: dict[str, CallFacts]
    states: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()
    quantisation: dict[str, Quantisation] = {}
    options: dict[str, str] = {}
    symbol_prefix: str | None = None
    model: StatedModel | None = None
    made_from: FileDigest | None = None
    seal: str = ""
    clean: tuple[str, ...] = ()


def parse_extension(
    table: dict[str, object], member: str, field: str, faults: FaultCollector
) -> Extension | None:
    """The extension of a module's metadata; None without one."""
    if KEY not in table:
        return None
    stated, place = table[KEY], f"{field}.{KEY}"
    calls = stated.get("calls") if isinstance(stated, dict) else None
    for name, call in calls.items() if isinstance(calls, dict) else ():  # one by one: a fault names its call
        if convert(call, CallFacts, member, f"{place}.calls[{shown(name)}]", faults) is None:
            return None
    extension: Extension | None = convert(stated, Extension, member, place, faults)
    return extension


STATED = "its compiler states what it accesses"

UNPROVEN = "the archive states what it accesses, but no seal covers that"

_WHOLE = Span(first=0, last=0)


def stated_step(
    facts: CallFacts, index: int, name: str, symbol: str, inputs: tuple[int, ...], outputs: tuple[int, ...]
) -> Step:
    """The step of a plain C function: pointers to inputs, outputs and maybe a workspace."""
    values = [Value.of_tensor(number) for number in (*inputs, *outputs)]
    workspaces: tuple[Workspace, ...] = ()
    if facts.workspace_bytes:
        values.append(Value.of_workspace(0))
        workspaces = (Workspace(slot=0, size_bytes=facts.workspace_bytes, span=_WHOLE),)
    return Step(
        index=index,
        name=name,
        symbol=symbol,
        inputs=inputs,
        outputs=outputs,
        abi=call_with(values, result="void", header=facts.header),
        writes=facts.writes,
        overlaps=tuple(
            Overlap(input=o.input, output=o.output, distance_bytes=o.distance_bytes) for o in facts.overlaps
        ),
        phases=1,
        spans=(_WHOLE,) * (len(inputs) + len(outputs)),
        workspaces=workspaces,
        opaque_reason=STATED,
        layer=_layer(facts),
        stream=None if facts.stream is None else Stream(**msgspec.structs.asdict(facts.stream)),
    )


def without_permissions(step: Step) -> Step:
    """The step, as an archive states it without a seal: no output over an input, all in use to its end."""
    return dataclasses.replace(
        step,
        overlaps=(),
        phases=1,
        spans=(_WHOLE,) * len(step.arguments),
        workspaces=tuple(dataclasses.replace(w, span=_WHOLE) for w in step.workspaces),
        opaque_reason=UNPROVEN,
    )


def _layer(facts: CallFacts) -> Layer | None:
    stated = facts.layer
    if stated is None:
        return None
    return Layer(
        number=stated.number,
        operator=stated.operator,
        detail=stated.detail,
        kernel=stated.kernel,
        macs=facts.macs,
        counted=tuple((one.kernel, one.cost) for one in stated.counted),
        origin=stated.origin,
        inside=tuple(
            Layer(number=one.number, operator=one.operator, detail=one.detail, kernel="", macs=one.macs)
            for one in stated.inside
        ),
        tile=stated.tile,
    )


def facts_of(step: Step) -> CallFacts | None:
    """Facts from which `stated_step` makes this step of a plain C function; None: there are none."""
    layer = step.layer
    facts = CallFacts(
        writes=step.writes,
        workspace_bytes=step.workspaces[0].size_bytes if step.workspaces else 0,
        overlaps=tuple(
            OverlapFact(input=o.input, output=o.output, distance_bytes=o.distance_bytes)
            for o in step.overlaps
        ),
        macs=layer.macs if layer else 0,
        header=step.abi.header,
        layer=LayerFacts(
            number=layer.number,
            operator=layer.operator,
            detail=layer.detail,
            kernel=layer.kernel,
            counted=tuple(KernelCost(kernel=kernel, cost=cost) for kernel, cost in layer.counted),
            origin=layer.origin,
            inside=tuple(
                InnerLayer(number=one.number, operator=one.operator, detail=one.detail, macs=one.macs)
                for one in layer.inside
            ),
            tile=layer.tile,
        )
        if layer
        else None,
        stream=None if step.stream is None else StreamFact(**msgspec.structs.asdict(step.stream)),
    )
    again = stated_step(facts, step.index, step.name, step.symbol, step.inputs, step.outputs)
    return facts if again == step else None
