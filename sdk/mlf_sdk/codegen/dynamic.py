# SPDX-License-Identifier: Apache-2.0
"""Dynamic executor: graph blob, parameter blob and table of kernels of a model."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from itertools import accumulate

import msgspec

from mlf_sdk.codegen.graphblob import ALIGNMENT as BLOB_ALIGNMENT
from mlf_sdk.codegen.graphblob import BlobName, BlobStep, BlobTensor, GraphBlob
from mlf_sdk.codegen.link import Linkage, unit_paths
from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.codegen.packagefile import ALIGNMENT, HEAD_BYTES
from mlf_sdk.codegen.paramsblob import ParamsBlob
from mlf_sdk.codegen.plaincalls import PlainCall, is_plain, plain_call
from mlf_sdk.errors import NotPossibleError
from mlf_sdk.ir.model import Model, Step, TensorKind
from mlf_sdk.planner.layout import ModelLayout
from mlf_sdk.tools.ctext import Values

_CASES = 4
_COMMENT = re.compile(rb"/\*.*?\*/", re.DOTALL)  # our kernels have no others, and no strings with one
_PARAMS_SOURCES = tuple(f"crt/params/mlf_{name}.c" for name in ("params", "store", "dynamic"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """Kernel of the image's table, and the arguments that it was compiled for.

    Attributes:
        symbol: in the archive.
        num_inputs: arguments that are only read.
        arg_bytes: the size of each argument.
        plain: the call of a plain C function; None: the runtime calls it as it is.
    """

    symbol: str
    num_inputs: int
    arg_bytes: tuple[int, ...]
    plain: PlainCall | None = None


class DynamicModel(msgspec.Struct, frozen=True, kw_only=True):
    """Graph, parameters of the image and table of kernels."""

    graph: GraphBlob
    kernels: tuple[Kernel, ...]
    params: ParamsBlob


def dynamic_model(layout: ModelLayout) -> DynamicModel:
    """Convert a laid-out model of the graph executor.

    Raises:
        InputError: the model is not made of kernels, or is too large for a blob.
    """
    check_dynamic(layout.model)
    kernels: dict[Kernel, int] = {}
    used = _used_tensors(layout)
    place = {tensor: index for index, tensor in enumerate(used)}
    steps = []
    for step in layout.steps:
        kernel = kernels.setdefault(_kernel(layout.model, step), len(kernels))
        args = tuple(place[i] for i in step.arguments)
        steps.append(BlobStep(kernel=kernel, args=args, slots=_slots(layout, step)))
    model = layout.model
    constants = [t for t in model.constants if t.id in place]
    archive = bytes.fromhex(model.provenance.sha256)
    graph = GraphBlob(
        name=model.name,
        tensors=tuple(_tensor(layout, i) for i in used),
        steps=tuple(steps),
        inputs=tuple(BlobName(tensor=place[i], name=model.tensors[i].name) for i in model.inputs),
        outputs=tuple(
            BlobName(tensor=place[i], name=name)
            for i, name in zip(model.outputs, model.output_names, strict=True)
        ),
        params=tuple(BlobName(tensor=place[t.id], name=t.name) for t in constants),
        arena_bytes=layout.arena_bytes,
        params_bytes=layout.params_bytes,
        num_kernels=len(kernels),
        inputs_kept=layout.inputs_kept,
        code_id=code_id(model),
        archive_sha256=archive,
    )
    params = ParamsBlob(graph_id=graph.graph_id, archive_sha256=archive, data=layout.params_blob())
    return DynamicModel(graph=graph, kernels=tuple(kernels), params=params)


def check_dynamic(model: Model) -> None:
    """Refuse models that the dynamic executor can't run.

    Raises:
        NotPossibleError: the model is not one of the graph executor, keeps a state, or takes its input row by
            row or where the caller has it.
    """
    where = f"model {model.name} ({model.executor})"
    hint = "Generate without --executor."
    if model.states or model.stream is not None or model.caller_inputs:
        what = "read their inputs where the caller has them"
        if model.states or model.stream is not None:
            what = "keep a state from run to run" if model.states else "take their input row by row"
        raise NotPossibleError(f"the dynamic executor runs no models that {what}", where=where, hint=hint)
    if model.executor != "graph" or not all(s.is_direct or is_plain(s) for s in model.steps):
        raise NotPossibleError(
            "the dynamic executor runs models that are compiled here and archives of the graph executor only",
            where=where,
            hint=f"Export it with Executor('graph'). {hint}",
        )


def code_id(model: Model) -> bytes:
    """Identity of a model's kernels: SHA-256 of the linked code, independent of file names.

    Comments of the compiler's own kernels do not count: they have the names of layers.
    """
    digest = hashlib.sha256()
    for unit in sorted((u for u in model.units if u.linked), key=lambda u: (u.symbols, u.member)):
        data = _COMMENT.sub(b"", unit.data) if unit.clean else unit.data
        digest.update(f"{unit.kind.value} {len(data)}\n".encode())
        digest.update(data)
    return digest.digest()


def dynamic_values(layout: ModelLayout, linkage: Linkage, values: Values) -> tuple[DynamicModel, Values]:
    """Blobs of a model, and its values for ``dynamic_model.c.j2`` and ``dynamic_blobs.S.j2``."""
    dynamic = dynamic_model(layout)
    graph = dynamic.graph
    paths = unit_paths(layout.model)
    ends = accumulate((len(kernel.arg_bytes) for kernel in dynamic.kernels), initial=0)
    kernels = [
        {
            "symbol": linkage.symbol(kernel.symbol),
            "plain": kernel.plain,
            "adapter": f"{layout.model.c_name}_call_{index}",
            "arg_bytes": kernel.arg_bytes,
            "first": first,
            "num_inputs": kernel.num_inputs,
        }
        for index, (first, kernel) in enumerate(zip(ends, dynamic.kernels, strict=False))
    ]
    counts = (
        len(graph.tensors),
        sum(len(step.args) for step in graph.steps),
        sum(len(step.slots) for step in graph.steps),
        len(graph.steps),
        len(graph.inputs) + len(graph.outputs),
    )
    return dynamic, {
        **values,
        "table": kernels,
        "table_counts": [f"{max(count, index == 0)}u" for index, count in enumerate(counts)],
        "headers": sorted({paths[k.plain.header] for k in dynamic.kernels if k.plain and k.plain.header}),
        "most_args": max([len(step.args) for step in graph.steps] + [1]),
        "graph_bytes": len(graph.pack()),
    }


def params_sources(options: ProjectOptions) -> tuple[str, ...]:
    """Runtime sources of the parameter store without its memory, relative to the project."""
    rpc = ("crt/params/mlf_params_rpc.c",) if options.app == "rpc" else ()
    if not options.trust:
        return *_PARAMS_SOURCES, *rpc
    names = [
        "package",
        "package_cases",
        "package_receive",
        *(["package_rpc"] if options.app == "rpc" else []),
    ]
    own = [f"crt/package/mlf_{name}.c" for name in names]
    return *_PARAMS_SOURCES, *rpc, *own


def seal_bytes(layout: ModelLayout) -> int:
    """Room in a slot behind the parameters for what a package has besides: head, and 4 self-test cases."""
    model = layout.model
    sizes = [model.tensors[i].size_bytes for i in model.inputs]
    sizes += [model.tensors[i].size_bytes + 4 for i in model.outputs]
    cases = _CASES * sum(sizes) + ALIGNMENT
    return HEAD_BYTES + -(-cases // ALIGNMENT) * ALIGNMENT


def _used_tensors(layout: ModelLayout) -> list[int]:
    model = layout.model
    ids = {i for step in layout.steps for i in step.arguments}
    ids.update(model.inputs, model.outputs, (t.id for t in model.constants))
    return sorted(ids)


def _tensor(layout: ModelLayout, tensor: int) -> BlobTensor:
    result = layout.model.tensors[tensor]
    in_params = layout.model.root(tensor).kind is TensorKind.CONSTANT
    offset = layout.offset(tensor)
    if offset % BLOB_ALIGNMENT:
        raise NotPossibleError(
            f"the dynamic executor needs tensors at multiples of {BLOB_ALIGNMENT} bytes; {result.name} is a "
            f"part of another one, at {offset}",
            where=f"model {layout.model.name}",
            hint="Generate without --executor.",
        )
    return BlobTensor(dtype=result.dtype, shape=result.shape, offset=offset, in_params=in_params)


def _kernel(model: Model, step: Step) -> Kernel:
    return Kernel(
        symbol=step.symbol,
        num_inputs=len(step.inputs),
        arg_bytes=tuple(model.tensors[i].size_bytes for i in step.arguments),
        plain=None if step.is_direct else plain_call(step),
    )


def _slots(layout: ModelLayout, step: Step) -> tuple[tuple[int, int], ...]:
    offsets = layout.plan.workspace_offsets.get(step.index, {})
    return tuple((offsets[w.slot], w.size_bytes) for w in sorted(step.workspaces, key=lambda w: w.slot))
