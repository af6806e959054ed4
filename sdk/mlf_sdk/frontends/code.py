# SPDX-License-Identifier: Apache-2.0
"""The code of one module: what defines which symbol, what a set of entries needs, what it includes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from mlf_sdk.analysis.assembly import AssemblyScan, scan_assembly
from mlf_sdk.analysis.c.source import scan_source
from mlf_sdk.analysis.c.unit import FunctionDefinition, SourceScan
from mlf_sdk.analysis.elf.objects import ObjectInfo, read_object
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
        "tvm/runtime/base.h",
        "tvm/ffi/c_api.h",
        "tvm/ffi/extra/c_env_api.h",
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


KINDS = {".c": "c", ".cc": "cc", ".cpp": "cc", ".cxx": "cc", ".S": "S", ".o": "o", ".h": "h"}
"""Kind of a file of code by the end of its name."""


class CodeFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file of code.

    Attributes:
        member: its name in the archive.
        kind: ``c``, ``cc`` (C++), ``S`` (assembly), ``o`` (ELF object) or ``h``.
        data: its content.
    """

    member: str
    kind: str
    data: bytes


class CodeIndex(msgspec.Struct, frozen=True, kw_only=True):
    """Code of a module by member and by symbol, as it is written.

    Attributes:
        functions: those with external linkage.
        defined_in: members that define a symbol, themselves or in headers that they include.
        parts: scans of each source and of the headers of the archive that it includes.
        assembly: symbols and words of each source of assembly.
    """

    files: Mapping[str, CodeFile]
    scans: Mapping[str, SourceScan]
    objects: Mapping[str, ObjectInfo]
    functions: Mapping[str, FunctionDefinition]
    defined_in: Mapping[str, tuple[str, ...]]
    parts: Mapping[str, tuple[SourceScan, ...]]
    assembly: Mapping[str, AssemblyScan] = msgspec.field(default_factory=dict)

    def defines(self, symbol: str) -> bool:
        """Return whether any file of the module defines ``symbol``."""
        return symbol in self.defined_in

    def reachable(self, entries: Iterable[str]) -> tuple[str, ...]:
        """Members that define ``entries`` or anything that those need, in the archive's order."""
        needed: dict[str, None] = {}
        queue = [member for e in entries for member in self.defined_in.get(e, ())]
        while queue:
            member = queue.pop()
            if member in needed:
                continue
            needed[member] = None
            queue += [entry for name in self._mentions(member) for entry in self.defined_in.get(name, ())]
        return tuple(member for member in self.files if member in needed)

    def _mentions(self, member: str) -> frozenset[str]:
        if member in self.objects:
            return frozenset(self.objects[member].undefined)
        if member in self.assembly:
            return self.assembly[member].words
        parts = self.parts[member]
        return frozenset().union(*(f.identifiers for scan in parts for f in scan.functions))

    def external_symbols(self, member: str) -> tuple[str, ...]:
        """Symbols with external linkage that a member defines."""
        if member in self.objects:
            return tuple(self.objects[member].defined)
        if member in self.assembly:
            return self.assembly[member].symbols
        parts = self.parts[member]
        return tuple(dict.fromkeys([*_external(parts), *(name for p in parts for name in p.variables)]))

    def external_headers(self, member: str) -> tuple[str, ...]:
        """Headers a source includes that come neither with the archive nor with the runtime."""
        if member not in self.scans:
            return ()
        own = {m.rpartition("/")[2] for m, f in self.files.items() if f.kind == "h"}
        names = dict.fromkeys(name for part in self.parts[member] for name in part.includes)
        return tuple(name for name in names if name not in _PROVIDED and name not in own)

    def units(self, linked: Iterable[str], clean: Collection[str] = ()) -> tuple[CodeUnit, ...]:
        """All files as code units.

        Args:
            linked: members that go into the image.
            clean: members that build without a warning.
        """
        wanted = set(linked)
        return tuple(
            CodeUnit(
                member=member,
                kind=UnitKind(file.kind),
                data=file.data,
                linked=member in wanted,
                symbols=self.external_symbols(member) if file.kind != "h" else (),
                headers=self.external_headers(member),
                clean=member in clean,
            )
            for member, file in self.files.items()
        )


def index_code(sources: Iterable[CodeFile], faults: FaultCollector) -> CodeIndex:
    """Scan every source, header and object of a module as it is written.

    Several definitions of a symbol are all kept: conditions of the preprocessor choose among them.
    """
    files = {code.member: code for code in sources}
    objects: dict[str, ObjectInfo] = {}
    scans: dict[str, SourceScan] = {}
    assembly: dict[str, AssemblyScan] = {}
    for member, code in files.items():
        if code.kind == "o":
            info = read_object(code.data, member, faults)
            objects |= {} if info is None else {member: info}
            continue
        if code.kind == "S":
            assembly[member] = scan_assembly(code.data.decode("utf-8", "replace"))
            continue
        scans[member] = scan_source(code.data.decode("utf-8", "replace"), member)
        for fault in scans[member].faults:
            faults.add(fault.member, fault.what, field=fault.field)
    headers = {m.rpartition("/")[2]: scan for m, scan in scans.items() if files[m].kind == "h"}
    scans = {member: scan for member, scan in scans.items() if files[member].kind != "h"}
    parts = {member: _with_headers(scan, headers) for member, scan in scans.items()}
    defined_in: dict[str, tuple[str, ...]] = {}
    for member in files:
        strong = objects[member].strong if member in objects else _external(parts.get(member, ()))
        strong = assembly[member].symbols if member in assembly else strong
        for symbol in dict.fromkeys(strong):
            defined_in[symbol] = (*defined_in.get(symbol, ()), member)
    return CodeIndex(
        files=files,
        scans=scans,
        objects=objects,
        functions={f.name: f for p in parts.values() for s in p for f in s.functions if not f.is_static},
        defined_in=defined_in,
        parts=parts,
        assembly=assembly,
    )


def _with_headers(scan: SourceScan, headers: Mapping[str, SourceScan]) -> tuple[SourceScan, ...]:
    """A source and the headers of the archive that it includes, directly or not."""
    result = [scan]
    for part in result:
        names = [include.rpartition("/")[2] for include in part.includes]
        result += [headers[name] for name in names if name in headers and headers[name] not in result]
    return tuple(result)


def _external(parts: Iterable[SourceScan]) -> tuple[str, ...]:
    return tuple(f.name for scan in parts for f in scan.functions if not f.is_static)
