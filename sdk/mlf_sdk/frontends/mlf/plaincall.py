# SPDX-License-Identifier: Apache-2.0
"""Calls of plain C functions whose facts the archive states."""

from __future__ import annotations

import dataclasses

import msgspec

from mlf_sdk.frontends.mlf.extension import (
    CallFacts,
    InnerLayer,
    KernelCost,
    LayerFacts,
    OverlapFact,
    StreamFact,
)
from mlf_sdk.ir.abi import Value, call_with
from mlf_sdk.ir.model import Overlap, Span, Step, Workspace
from mlf_sdk.ir.step import Layer, Stream

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
