# SPDX-License-Identifier: Apache-2.0
"""The code of one module: what defines which symbol, what a set of entries needs, what it includes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mlf_sdk.analysis.c.liveness import allocating_functions
from mlf_sdk.analysis.c.source import FunctionDefinition, SourceScan, scan_source
from mlf_sdk.analysis.elf.objects import ObjectInfo, ObjectWorkspace, object_workspaces, read_object
from mlf_sdk.errors import FaultCollector
from mlf_sdk.ir.model import CodeUnit, UnitKind

# Headers that the runtime, the C library or the compiler provide.
_PROVIDED = frozenset(
    [
        "tvm/runtime/c_runtime_api.h",
        "tvm/runtime/c_backend_api.h",
        "tvm/runtime/metadata_types.h",
        "tvm/runtime/crt/module.h",
        "tvm/runtime/crt/error_codes.h",
        "dlpack/dlpack.h",
        "assert.h",
        "complex.h",
        "ctype.h",
        "errno.h",
        "fenv.h",
        "float.h",
        "inttypes.h",
        "iso646.h",
        "limits.h",
        "locale.h",
        "math.h",
        "setjmp.h",
        "signal.h",
        "stdalign.h",
        "stdarg.h",
        "stdatomic.h",
        "stdbool.h",
        "stddef.h",
        "stdint.h",
        "stdio.h",
        "stdlib.h",
        "string.h",
        "tgmath.h",
        "time.h",
        "wchar.h",
        "cmath",
        "cstdint",
        "cstring",
        "cstddef",
        "cstdlib",
        "cfloat",
        "climits",
        "algorithm",
        "arm_mve.h",
        "arm_acle.h",
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeFile:
    """One file of code.

    Attributes:
        member: its name in the archive.
        kind: ``c``, ``cc`` (C++), ``o`` (ELF object) or ``h``.
        data: its content.
    """

    member: str
    kind: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeIndex:
    """Code of a module by member and by symbol."""

    files: Mapping[str, CodeFile]
    scans: Mapping[str, SourceScan]
    objects: Mapping[str, ObjectInfo]
    functions: Mapping[str, FunctionDefinition]
    object_kernels: Mapping[str, ObjectWorkspace] = field(default_factory=dict)
    defined_in: Mapping[str, str] = field(default_factory=dict)
    allocating: frozenset[str] = frozenset()
    header_macros: frozenset[str] = frozenset()

    def defines(self, symbol: str) -> bool:
        """Return whether any file of the module defines ``symbol``."""
        return symbol in self.defined_in

    def reachable(self, entries: Iterable[str]) -> tuple[str, ...]:
        """Members that define ``entries`` or anything that those need, in the archive's order."""
        needed: dict[str, None] = {}
        queue = [self.defined_in[e] for e in entries if e in self.defined_in]
        while queue:
            member = queue.pop()
            if member in needed:
                continue
            needed[member] = None
            queue += [self.defined_in[s] for s in self._mentions(member) if s in self.defined_in]
        return tuple(member for member in self.files if member in needed)

    def _mentions(self, member: str) -> frozenset[str]:
        if member in self.objects:
            return frozenset(self.objects[member].undefined)
        scan = self.scans[member]
        return frozenset().union(*(f.identifiers for f in scan.functions), scan.called)

    def external_symbols(self, member: str) -> tuple[str, ...]:
        """Symbols with external linkage that a member defines."""
        if member in self.objects:
            return tuple(self.objects[member].defined)
        scan = self.scans[member]
        functions = [f.name for f in scan.functions if not f.is_static]
        return tuple(dict.fromkeys([*functions, *(v.name for v in scan.variables)]))

    def external_headers(self, member: str) -> tuple[str, ...]:
        """Headers a source includes that come neither with the archive nor with the runtime."""
        if member not in self.scans:
            return ()
        own = {m.rpartition("/")[2] for m, f in self.files.items() if f.kind == "h"}
        names = [i.name for i in self.scans[member].includes]
        return tuple(n for n in dict.fromkeys(names) if n not in _PROVIDED and n not in own)

    def units(self, linked: Iterable[str]) -> tuple[CodeUnit, ...]:
        """All files as code units; those in ``linked`` go into the image."""
        wanted = set(linked)
        return tuple(
            CodeUnit(
                member=member,
                kind=UnitKind(file.kind),
                data=file.data,
                linked=member in wanted,
                symbols=self.external_symbols(member) if file.kind != "h" else (),
                headers=self.external_headers(member),
            )
            for member, file in self.files.items()
        )


def index_code(sources: Iterable[CodeFile], faults: FaultCollector) -> CodeIndex:
    """Scan every source and object of a module; two definitions of one symbol are a fault."""
    scans: dict[str, SourceScan] = {}
    objects: dict[str, ObjectInfo] = {}
    functions: dict[str, FunctionDefinition] = {}
    kernels: dict[str, ObjectWorkspace] = {}
    defined_in: dict[str, str] = {}
    macros: set[str] = set()
    files = {code.member: code for code in sources}
    for member, code in files.items():
        if code.kind == "o":
            info = read_object(code.data, member, faults)
            if info is None:
                continue
            objects[member] = info
            kernels.update(object_workspaces(code.data))
            strong = info.strong
        else:
            scan = scan_source(code.data.decode("utf-8", "replace"), member)
            for fault in scan.faults:
                faults.add(fault.member, fault.what, field=fault.field)
            if code.kind == "h":
                macros.update(scan.macros)
                continue
            scans[member] = scan
            functions.update({f.name: f for f in scan.functions})
            strong = tuple(f.name for f in scan.functions if not f.is_static)
        for symbol in strong:
            if symbol in defined_in:
                faults.add(member, f"'{symbol[:128]}' is defined in {defined_in[symbol]} as well")
            defined_in[symbol] = member
    return CodeIndex(
        files=files,
        scans=scans,
        objects=objects,
        functions=functions,
        object_kernels=kernels,
        defined_in=defined_in,
        allocating=allocating_functions(scans.values()),
        header_macros=frozenset(macros),
    )
