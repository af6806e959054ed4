# SPDX-License-Identifier: Apache-2.0
"""Findings about an archive: contradictions and traps, and what the SDK does about each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from mlf_sdk.frontends.mlf.codefindings import constants, left_out
from mlf_sdk.frontends.mlf.extension import KEY
from mlf_sdk.frontends.mlf.schedule import BuildInput
from mlf_sdk.ir.model import Finding, Model, UnitKind, needs_cmsis_nn
from mlf_sdk.ir.names import legal_identifier

LONG_NAME = 63  # significant characters of an identifier, C99 5.2.4.1


def module_findings(source: BuildInput, model: Model) -> tuple[Finding, ...]:
    """All findings about one module and its analysed model, in the order of the archive's parts."""
    return tuple(
        finding
        for check in (
            _summary,
            _storage,
            _header,
            _names,
            left_out,
            _code,
            constants,
            _workspaces,
            _metadata,
            _seal,
        )
        for finding in check(source, model)
    )


def _summary(_source: BuildInput, model: Model) -> Iterator[Finding]:
    place = "metadata.json: memory.functions.main"
    entry = model.steps[0] if model.executor == "aot" else None
    stated = model.summary.workspace_bytes
    if entry is not None and stated is not None and entry.exact:
        needed = entry.workspace_bytes
        if needed != stated:
            yield Finding(
                where=place,
                what=f"workspace_size_bytes is {stated:,}; the code takes {needed:,}",
                handled="the workspace is sized by replaying the code's allocations",
            )
    if not model.constants and not model.summary.constants_bytes:
        yield Finding(
            where=place,
            what="constants_size_bytes is 0 or missing, and the constants are in the code",
            handled="their size is read from the linked image",
        )
    io_bytes = sum(model.tensors[i].size_bytes for i in (*model.inputs, *model.outputs))
    if model.summary.io_bytes not in (None, io_bytes):
        yield Finding(
            where=place,
            what=f"io_size_bytes is {model.summary.io_bytes:,}; inputs and outputs take {io_bytes:,}",
            handled="sizes are computed from shapes and types",
        )


def _storage(source: BuildInput, _model: Model) -> Iterator[Finding]:
    """Find storage sizes that TVM took from tensors, whose ids are unrelated to storage ids."""
    if source.module.graph is None:
        return
    needed: dict[int, int] = {}
    for entry in source.module.graph.entries:
        needed[entry.storage_id] = max(needed.get(entry.storage_id, 0), entry.size_bytes)
    stated = source.module.metadata.storage_bytes
    wrong = [sid for sid in sorted(stated) if stated[sid] != needed.get(sid, 0)]
    if wrong:
        first = wrong[0]
        yield Finding(
            where="metadata.json: memory.sids",
            what=f"{len(wrong)} of {len(stated)} sizes are wrong: storage id {first} is {stated[first]:,} "
            f"bytes there, its tensors take {needed.get(first, 0):,}",
            handled="not used; memory is planned from the graph's shapes and types",
        )


def _header(source: BuildInput, model: Model) -> Iterator[Finding]:
    if source.module.interface is None:
        return
    sizes = {model.tensors[i].size_bytes for i in (*model.inputs, *model.outputs)}
    wrong = [
        f"{name} {value}"
        for name, value in source.module.interface.macros.items()
        if "WORKSPACE" not in name and value not in sizes
    ]
    if wrong:
        yield Finding(
            where="the interface header",
            what=f"size macros are garbage: {', '.join(wrong[:3])}{'...' if len(wrong) > 3 else ''}",
            handled="the generated header has the right sizes; these are not used",
        )


def _names(_source: BuildInput, model: Model) -> Iterator[Finding]:
    illegal = [
        t.name
        for t in model.tensors
        if legal_identifier(t.name) != t.name and t.id in (*model.inputs, *model.outputs)
    ]
    if illegal:
        yield Finding(
            where="names",
            what="not C identifiers: " + ", ".join(f"'{n}'" for n in illegal[:5]),
            handled="made legal for C; npz files use the real names",
        )
    alike = [n for n, k in Counter(legal_identifier(t.name) for t in model.tensors).items() if k > 1]
    if alike:
        yield Finding(
            where="names",
            what=f"tensors have the same name once it is made legal: {', '.join(map(repr, alike[:3]))}",
            handled="numbered apart",
        )
    longest = max((s.symbol for s in model.steps), key=len, default="")
    if len(longest) > LONG_NAME:
        yield Finding(
            where="names",
            what=f"function names of up to {len(longest)} characters",
            handled="functions are called directly; no runtime buffer holds their names",
        )


def _code(_source: BuildInput, model: Model) -> Iterator[Finding]:
    if model.external_headers:
        yield Finding(
            where="codegen",
            what="the code includes " + ", ".join(model.external_headers),
            handled="pass --cmsis-nn PATH" if needs_cmsis_nn(model) else "can't be built",
        )
    if any(u.kind is UnitKind.OBJECT and u.linked for u in model.units):
        yield Finding(
            where="codegen/host/lib",
            what="ready-made objects: no source to analyse, and none to run on the host",
            handled="checked against the board's CPU and float ABI; workspaces are read from the code",
        )


def _workspaces(_source: BuildInput, model: Model) -> Iterator[Finding]:
    for step in model.steps:
        asked = sum(w.size_bytes for w in step.workspaces)
        tensors = sum(
            model.tensors[i].size_bytes for i in {*step.outputs, *step.inputs} if model.root(i).data is None
        )
        if model.executor != "aot" and asked > 16 * max(tensors, 1):
            yield Finding(
                where=step.name,
                what=f"asks for {asked:,} bytes of workspace; its activations take {tensors:,}",
                handled="planned as asked (the kernel repacks its weights)",
            )
        if not step.exact:
            yield Finding(
                where=step.name,
                what="its workspace can't be read from the code",
                handled="the archive's figure is used, a bound",
            )


def _metadata(source: BuildInput, _model: Model) -> Iterator[Finding]:
    if (source.module.metadata.export_datetime or "").endswith("Z"):
        yield Finding(
            where="metadata.json: export_datetime",
            what="local time, though it is marked as UTC",
            handled="not used; provenance is the archive's sha256",
        )


def _seal(source: BuildInput, _model: Model) -> Iterator[Finding]:
    """Find facts about kernels that were not written together with their code."""
    extension = source.module.metadata.extension
    if extension is not None and not source.archive.is_sealed:
        yield Finding(
            where=f"metadata.json: {KEY}",
            what="no seal covers what it states of its kernels: the archive was changed since it was written",
            handled="held against the code; no output lies over an input, and every copy is made",
        )
