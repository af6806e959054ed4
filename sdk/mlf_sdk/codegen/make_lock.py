# SPDX-License-Identifier: Apache-2.0
"""Construction of a project's lock from its layouts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from mlf_sdk.codegen.link import Linkage, external_symbols
from mlf_sdk.codegen.lock import (
    SCHEMA,
    Lock,
    LockBuffer,
    LockLayer,
    LockModel,
    LockNode,
    LockOptions,
    LockPlace,
    LockRegion,
    LockStep,
    LockSummary,
    LockTensor,
    LockZephyr,
)
from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.codegen.regions import regions_of
from mlf_sdk.codegen.tensortext import quantisation_text
from mlf_sdk.ir.model import Model, Tensor
from mlf_sdk.ir.step import Layer
from mlf_sdk.planner.layout import ModelLayout
from mlf_sdk.tools.checks import printable
from mlf_sdk.version import __version__

_ZEPHYR_CMSIS_NN = "cmsis-nn"  # its folder is remembered beside the lock, by each machine that builds


def make_lock(
    layouts: Sequence[ModelLayout],
    linkages: Sequence[Linkage],
    options: ProjectOptions,
    *,
    platform: str,
    board: str,
    board_file: str | None,
    zephyr: LockZephyr | None = None,
) -> Lock:
    """Make the lock of a project.

    It names files, never folders, so that it is the same wherever it is made.
    """
    return Lock(
        schema=SCHEMA,
        sdk_version=__version__,
        platform=platform,
        board=board,
        board_file=board_file,
        options=LockOptions(
            app=options.app,
            params=options.params,
            kernel_flags=options.kernel_flags,
            keep_inputs=options.keep_inputs,
            share_arena=options.share_arena,
            trace=options.traces,
            cmsis_nn=_ZEPHYR_CMSIS_NN if zephyr and options.cmsis_nn else options.cmsis_nn,
            executor=options.executor,
            plan=options.plan,
            mlperf_id=options.mlperf_id,
            softmax=options.softmax,
            as_compiled=options.as_compiled,
            toolchain=options.toolchain,
            trust=options.trust,
            session_keys=options.session_keys,
            monocypher=options.monocypher,
            model_version=options.model_version,
            place=options.place,
            stack_bytes=options.stack_bytes,
        ),
        models=tuple(
            _lock_model(layout, linkage, options.params)
            for layout, linkage in zip(layouts, linkages, strict=True)
        ),
        zephyr=zephyr,
    )


def _lock_model(layout: ModelLayout, linkage: Linkage, params: str) -> LockModel:
    model, origin = layout.model, layout.model.provenance
    return LockModel(
        name=model.name,
        c_name=model.c_name,
        archive=printable(Path(origin.source).name),
        archive_sha256=origin.sha256,
        format=origin.format,
        format_version=origin.format_version,
        compiler=origin.compiler,
        compiler_version=origin.compiler_version,
        executor=model.executor,
        inputs=tuple(_lock_tensor(model, i, model.tensors[i].name) for i in model.inputs),
        outputs=tuple(
            _lock_tensor(model, i, name) for i, name in zip(model.outputs, model.output_names, strict=True)
        ),
        inputs_kept=layout.inputs_kept,
        arena_symbol=linkage.arena_symbol,
        arena_bytes=layout.arena_bytes,
        arena_reserved_bytes=linkage.arena_reserved_bytes,
        lower_bound_bytes=layout.plan.lower_bound_bytes,
        io_bytes=layout.io_bytes,
        params_bytes=layout.params_bytes,
        constants_in_code=not model.constants,
        tensors=tuple(_lock_node(model, tensor) for tensor in model.tensors),
        input_tensors=model.inputs,
        output_tensors=model.outputs,
        steps=_steps(layout, linkage),
        buffers=_buffers(layout),
        kernel_symbols=_kernel_symbols(layout, linkage),
        code_symbols=tuple(sorted(map(linkage.symbol, external_symbols(model)))),
        symbol_prefix=model.symbol_prefix,
        state_bytes=layout.state_bytes,
        alignment=linkage.arena_alignment,
        apart=not layout.shared,
        guard_bytes=linkage.guard_bytes,
        regions=tuple(
            LockRegion(name=region.name, symbol=region.symbol, size_bytes=region.size_bytes)
            for region in regions_of(layout, linkage, params)
        ),
        summary=LockSummary(
            workspace_bytes=model.summary.workspace_bytes,
            constants_bytes=model.summary.constants_bytes,
            io_bytes=model.summary.io_bytes,
        ),
        compile_options=dict(origin.options),
        made_from=origin.made_from,
        **(_places(layout, linkage) if layout.arenas else {}),
        state_memory=layout.state_bank.name if layout.state_bank is not None else "",
        preprocessing=model.preprocessing,
        input_bytes=linkage.input_bytes,
        params_sha256=_params_hash(layout),
    )


def _params_hash(layout: ModelLayout) -> str:
    """SHA-256 of the parameters, without the gaps between parts in several memories."""
    if not layout.params_bytes:
        return ""
    blob = layout.params_blob()
    spans = [(part.first, part.first + part.size_bytes) for part in layout.params]
    return hashlib.sha256(b"".join(blob[first:end] for first, end in spans) or blob).hexdigest()


def _places(layout: ModelLayout, linkage: Linkage) -> dict[str, tuple[LockPlace, ...]]:
    """Arenas and parameters of a model in several memories."""
    from mlf_sdk.codegen.places import arena_objects, params_objects  # few models lie in several memories

    return {
        name: tuple(
            LockPlace(
                memory=one.memory,
                symbol=one.symbol,
                first=one.first,
                size_bytes=one.size_bytes,
                reserved_bytes=one.reserved_bytes,
                lower_bound_bytes=part.lower_bound_bytes,
            )
            for one, part in zip(objects, parts, strict=True)
        )
        for name, objects, parts in (
            ("arenas", arena_objects(layout, linkage), layout.arenas),
            ("params_places", params_objects(layout, linkage), layout.params),
        )
    }


def _lock_tensor(model: Model, index: int, name: str) -> LockTensor:
    tensor = model.tensors[index]
    return LockTensor(
        name=name,
        dtype=tensor.dtype.name,
        shape=tensor.shape,
        size_bytes=tensor.size_bytes,
        **quantisation_text(tensor),
    )


def _lock_node(model: Model, tensor: Tensor) -> LockNode:
    return LockNode(
        name=tensor.name,
        kind=tensor.kind.value,
        dtype=tensor.dtype.name,
        shape=tensor.shape,
        size_bytes=tensor.size_bytes,
        root=model.root(tensor.id).id,
    )


def _steps(layout: ModelLayout, linkage: Linkage) -> tuple[LockStep, ...]:
    result = []
    time = 1
    for step in layout.steps:
        result.append(
            LockStep(
                name=step.name,
                symbol=linkage.symbol(step.symbol),
                inputs=step.inputs,
                outputs=step.outputs,
                first=time,
                phases=step.phases,
                workspace_bytes=step.workspace_bytes,
                exact=step.exact,
                layer=_lock_layer(step.layer),
            )
        )
        time += step.phases
    return tuple(result)


def _lock_layer(layer: Layer | None) -> LockLayer | None:
    """The layer without what only its choice of a kernel is about."""
    if layer is None:
        return None
    return LockLayer(
        number=layer.number,
        operator=layer.operator,
        detail=layer.detail,
        kernel=layer.kernel,
        macs=layer.macs,
        origin=layer.origin,
        inside=tuple(filter(None, map(_lock_layer, layer.inside))),
    )


def _kernel_symbols(layout: ModelLayout, linkage: Linkage) -> tuple[str, ...]:
    """Functions that the image must contain: those of the steps, and what entries call."""
    symbols = dict.fromkeys(linkage.symbol(step.symbol) for step in layout.steps)
    symbols.update(dict.fromkeys(linkage.symbol(name) for step in layout.steps for name in step.kernels))
    return tuple(symbols)


def _buffers(layout: ModelLayout) -> tuple[LockBuffer, ...]:
    result = []
    for placed in layout.plan.buffers:
        tensor: int | None = None
        step: int | None = None
        if isinstance(placed.key, tuple):
            step = layout.plan.order.index(placed.key[0])
            name = f"workspace {placed.key[1]} of {layout.model.steps[placed.key[0]].name}"
        else:
            tensor = placed.key
            name = layout.model.tensors[tensor].name
        result.append(
            LockBuffer(
                kind=placed.kind,
                name=name,
                tensor=tensor,
                step=step,
                offset=placed.offset,
                size_bytes=placed.size_bytes,
                first=placed.first,
                last=placed.last,
            )
        )
    return tuple(result)
