# SPDX-License-Identifier: Apache-2.0
"""A whole Model Library Format archive: every member read, checked and given to its module."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from mlf_sdk.analysis.elf.raw import ELF_MAGIC
from mlf_sdk.errors import ArchiveError, FaultCollector
from mlf_sdk.frontends.code import CodeFile
from mlf_sdk.frontends.intake.limits import DEFAULT_LIMITS, Limits
from mlf_sdk.frontends.intake.members import ArchiveFiles, collect_files
from mlf_sdk.frontends.mlf.content import NamedTensor
from mlf_sdk.frontends.mlf.graph import parse_graph
from mlf_sdk.frontends.mlf.interface import InterfaceHeader, parse_interface
from mlf_sdk.frontends.mlf.members import ModuleMembers, assign_members
from mlf_sdk.frontends.mlf.metadata import parse_metadata
from mlf_sdk.frontends.mlf.metadata_memory import MEMBER as METADATA
from mlf_sdk.frontends.mlf.params import parse_params
from mlf_sdk.frontends.mlf.rawgraph import NOP, RawGraph
from mlf_sdk.frontends.mlf.rawmetadata import FULL_MODEL, Metadata, ModuleMetadata
from mlf_sdk.frontends.mlf.seal import seal_of
from mlf_sdk.tools.checks import BoundedFaults, shown

_SCAN_BYTES = 1 << 30
"""Bytes of code looked through for function names; what is left is the linker's to find."""

_FALSE_HITS = 64


class RawModule(msgspec.Struct, frozen=True, kw_only=True):
    """One module of an archive, decoded.

    Attributes:
        metadata: what ``metadata.json`` says of it.
        graph: of the graph executor; None for ahead-of-time models and operators.
        graph_member: the member that the graph was read from.
        params: in the order of the file; empty when the constants are in the code.
        sources: code files and headers, in the order of their names.
        relay: the model as TVM took it in, for people.
        interface: of the C interface; None without one.
    """

    metadata: ModuleMetadata
    sources: tuple[CodeFile, ...]
    graph: RawGraph | None = None
    graph_member: str | None = None
    params: tuple[NamedTensor, ...] = ()
    relay: str | None = None
    interface: InterfaceHeader | None = None


class RawArchive(msgspec.Struct, frozen=True, kw_only=True):
    """An archive, decoded.

    Attributes:
        source: the path it was read from, as given.
        sha256: hex; see ``ArchiveFiles``.
        version: of the format, 1 to 7.
        modules: in the order of the metadata; at least one.
        is_sealed: its seal fits: nothing was changed since it was written.
    """

    source: str
    sha256: str
    version: int
    modules: tuple[RawModule, ...]
    is_sealed: bool = False


def load_mlf(path: Path, limits: Limits = DEFAULT_LIMITS) -> RawArchive:
    """Read and check an archive (``.tar``, ``.tar.gz``, ``.tar.xz`` or a folder).

    Raises:
        InputError: there is no such file.
        ArchiveError: the archive is broken or hostile; all faults of all members at once.
    """
    faults = BoundedFaults(str(path))
    files = collect_files(path, limits, faults)
    if METADATA not in files.files:
        raise _no_metadata(files, faults)
    metadata = parse_metadata(files.files[METADATA], faults)
    if metadata is None:
        _check_alone(files, faults)
        raise ArchiveError(faults.source, faults.faults)
    members = assign_members([module.name for module in metadata.modules], files.files, faults)
    modules = tuple(
        _load_module(module, mine, files, faults)
        for module, mine in zip(metadata.modules, members, strict=True)
    )
    faults.raise_if_any()
    return RawArchive(
        source=files.source,
        sha256=files.sha256,
        version=metadata.version,
        modules=modules,
        is_sealed=_is_sealed(metadata, files),
    )


def _is_sealed(metadata: Metadata, files: ArchiveFiles) -> bool:
    stated = [module.extension.seal for module in metadata.modules if module.extension is not None]
    return len(stated) == len(metadata.modules) == 1 and stated[0] == seal_of(files.files)


def _no_metadata(files: ArchiveFiles, faults: FaultCollector) -> ArchiveError:
    faults.add(METADATA, "is missing: not a Model Library Format archive")
    nested = [name for name in files.skipped if name.endswith(f"/{METADATA}") and name.count("/") == 1]
    hint = f"There is a {nested[0]}: pack the archive from inside that folder." if nested else ""
    return ArchiveError(faults.source, faults.faults, hint=hint)


def _check_alone(files: ArchiveFiles, faults: FaultCollector) -> None:
    """Report the faults of graphs and parameters whose module is not known."""
    for name, data in files.files.items():
        if name.endswith(".params"):
            parse_params(data, name, faults)
        elif name.startswith(("executor-config/graph/", "runtime-config/graph/")):
            parse_graph(data, name, faults)


def _load_module(
    metadata: ModuleMetadata, members: ModuleMembers, files: ArchiveFiles, faults: FaultCollector
) -> RawModule:
    contents = files.files
    graph = None
    if members.graph is not None:
        graph = parse_graph(contents[members.graph], members.graph, faults)
    params: tuple[NamedTensor, ...] = ()
    if members.params is not None:
        params = parse_params(contents[members.params], members.params, faults)
    relay = None if members.relay is None else _text(contents[members.relay], members.relay, faults)
    interface = None
    if members.interface is not None:
        text = _text(contents[members.interface], members.interface, faults)
        interface = None if text is None else parse_interface(text, members.interface, faults)
    for file in members.sources:
        _check_code(file, faults)
    module = RawModule(
        metadata=metadata,
        graph=graph,
        graph_member=members.graph,
        params=params,
        sources=members.sources,
        relay=relay,
        interface=interface,
    )
    _check_whole(module, members, faults)
    return module


def _text(data: bytes, member: str, faults: FaultCollector) -> str | None:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        faults.add(member, "invalid UTF-8", field=f"byte {error.start}")
        return None


def _check_code(file: CodeFile, faults: FaultCollector) -> None:
    if not file.data:
        faults.add(file.member, "is empty")
    elif file.kind == "o":
        if not file.data.startswith(ELF_MAGIC):
            faults.add(file.member, "is not an ELF object file")
    elif _text(file.data, file.member, faults) is not None and b"\x00" in file.data:
        faults.add(file.member, "source text with a NUL", field=f"byte {file.data.index(0)}")


def _check_whole(module: RawModule, members: ModuleMembers, faults: FaultCollector) -> None:
    """Check that the members of a module are there and fit together."""
    metadata = module.metadata
    name = shown(metadata.name)
    if not any(file.kind != "h" for file in module.sources):
        faults.add("codegen/host/", f"no code of module {name}")
    if metadata.style == FULL_MODEL and "graph" in metadata.executors:
        if members.graph is None:
            faults.add("executor-config/graph/", f"no graph of module {name}, whose executor is the graph's")
        if members.params is None:
            faults.add("parameters/", f"no parameters of module {name}")
    for function in metadata.operator_args:
        if not _mentioned(function, module.sources):
            faults.add(METADATA, f"function {shown(function)} of module {name} is in no code file")
    if module.graph is not None and members.graph is not None:
        _check_functions(module.graph, members.graph, module.sources, faults)
        check_params(module.params, module.graph, str(members.params), faults)


def _check_functions(
    graph: RawGraph, member: str, sources: tuple[CodeFile, ...], faults: FaultCollector
) -> None:
    """Every function that the graph calls is somewhere in the code."""
    known: dict[str, bool] = {NOP: True}
    budget = _SCAN_BYTES // (1 + sum(len(file.data) for file in sources))
    for index, node in enumerate(graph.nodes):
        name = node.func_name
        if name is None or len(known) > budget:
            continue
        if name not in known:
            known[name] = _mentioned(name, sources)
        if not known[name]:
            faults.add(
                member,
                f"function {shown(name)} is in no code file",
                field=f"$.nodes[{index}].attrs.func_name",
            )


def _mentioned(name: str, sources: tuple[CodeFile, ...]) -> bool:
    word = name.encode("ascii", "replace")
    return any(_defines(file, word) if file.kind == "h" else _mentions(file, word) for file in sources)


def _defines(header: CodeFile, name: bytes) -> bool:
    """Return whether a header has the body of a function, not its prototype alone."""
    return re.search(rb"\b%s\s*\([^;{}]{0,4096}\{" % re.escape(name), header.data) is not None


def _mentions(file: CodeFile, name: bytes) -> bool:
    """Return whether a code file has ``name`` as a whole word; objects may share the ends of names."""
    position = -1
    for _ in range(_FALSE_HITS):
        position = file.data.find(name, position + 1)
        if position < 0:
            return False
        around = file.data[max(position - 1, 0) : position] + file.data[position + len(name) :][:1]
        if file.kind == "o" or not any(chr(byte).isalnum() or byte == 0x5F for byte in around):
            return True
    return True


def check_params(
    params: tuple[NamedTensor, ...], graph: RawGraph, member: str, faults: FaultCollector
) -> None:
    """Check that type and shape of each parameter are those of the graph."""
    entries = {graph.nodes[index].name: graph.entry((index, 0)) for index in graph.arg_nodes}
    for tensor in params:
        entry = entries.get(tensor.name)
        if entry is not None and (entry.dtype, entry.shape) != (tensor.dtype, tensor.shape):
            faults.add(
                member,
                f"parameter {shown(tensor.name)} is {tensor.dtype} {tensor.shape}, "
                f"the graph reads {entry.dtype} {entry.shape}",
            )
