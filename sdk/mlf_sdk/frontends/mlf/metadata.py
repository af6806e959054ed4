# SPDX-License-Identifier: Apache-2.0
"""``metadata.json`` of versions 1 to 7, read into one shape whatever the version.

Versions 1 to 6 and the operator style are flat; version 7 has one entry a module under ``modules``.
``memory.sids`` is for comparison only: TVM fills it with the sizes of other tensors.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mlf_sdk.errors import FaultCollector
from mlf_sdk.frontends.mlf.extension import parse_extension
from mlf_sdk.frontends.mlf.metadata_memory import MEMBER, MemoryReader, storage_bytes
from mlf_sdk.frontends.mlf.rawmetadata import FULL_MODEL, OPERATOR, Metadata, ModuleMetadata
from mlf_sdk.tools.checks import module_name_problem, shown, text_problem
from mlf_sdk.tools.jsontext import convert, load_json

OLDEST: Final = 1
NEWEST: Final = 7
EXECUTORS: Final = ("graph", "aot")
MAX_MODULES: Final = 64
MAX_TEXT: Final = 4096


class _Dependency(msgspec.Struct):
    version_spec: str | None = None


def parse_metadata(data: bytes, faults: FaultCollector) -> Metadata | None:
    """Read ``metadata.json``; None when there is nothing to go on with, and a fault for each thing."""
    document = load_json(data, MEMBER, faults)
    if document is msgspec.UNSET:
        return None
    top: dict[str, Any] | None = convert(document, dict[str, Any], MEMBER, "$", faults)
    if top is None:
        return None
    version = _version(top, faults)
    if version is None:
        return None
    reader = _Reader(faults)
    if version < NEWEST or (top.get("style") == OPERATOR and "modules" not in top):
        name = reader.get(top, "model_name", str, "$")
        return Metadata(version=version, modules=(reader.module(name or "", top, "$"),))
    modules: dict[str, Any] = reader.get(top, "modules", dict[str, Any], "$") or {}
    if "modules" in top and not 1 <= len(modules) <= MAX_MODULES:
        reader.fault("$.modules", f"{len(modules)} modules; 1 to {MAX_MODULES} are read")
    read = []
    for name in list(modules)[:MAX_MODULES]:
        field = f"$.modules[{shown(name)}]"
        inner = convert(modules[name], dict[str, Any], MEMBER, field, faults)
        if inner is not None:
            read.append(reader.module(name, inner, field))
    return Metadata(version=version, modules=tuple(read))


def _version(top: dict[str, Any], faults: FaultCollector) -> int | None:
    """The version, an integer that is known; None and a fault otherwise."""
    if "version" not in top:
        faults.add(
            MEMBER, "is missing: not the metadata of a Model Library Format archive", field="$.version"
        )
        return None
    version = convert(top["version"], int, MEMBER, "$.version", faults)
    if version is None:
        return None
    if not OLDEST <= version <= NEWEST:
        faults.add(MEMBER, f"{version}; versions {OLDEST} to {NEWEST} are known", field="$.version")
        return None
    return version


class _Reader(MemoryReader):
    """Reads the metadata of modules."""

    def module(self, name: str, table: dict[str, Any], field: str) -> ModuleMetadata:
        """Read one module."""
        problem = module_name_problem(name)
        if problem is not None:
            self.fault(f"{field}.model_name", f"the name of a module {problem}")
        operator = self.operator_style(table, field)
        memory, at = table.get("memory", {}), f"{field}.memory"
        functions = {} if operator else self.functions(memory, at)
        stamp = table.get("export_datetime")
        return ModuleMetadata(
            name=name,
            style=OPERATOR if operator else FULL_MODEL,
            executors=self.executors(table, field, operator=operator),
            targets=self.targets(table.get("target", []), f"{field}.target"),
            main=self.main(functions.get("main", []), f"{at}.functions.main"),
            operator_functions=self.operators(
                functions.get("operator_functions", []), f"{at}.functions.operator_functions"
            ),
            operator_args=self.operator_args(memory, at) if operator else {},
            storage_bytes={} if operator else storage_bytes(memory),
            tvm_version=self.tvm_version(table.get("external_dependencies", []), field),
            export_datetime=None if stamp is None else self.text(stamp, f"{field}.export_datetime"),
            extension=parse_extension(table, MEMBER, field, self.faults),
        )

    def operator_style(self, table: dict[str, Any], field: str) -> bool:
        """Return whether the module is in operator style, which archives before version 4 do not state."""
        style = convert(table.get("style", FULL_MODEL), str, MEMBER, f"{field}.style", self.faults)
        if style not in (FULL_MODEL, OPERATOR, None):
            self.fault(
                f"{field}.style", f"unknown style {shown(style)}; {FULL_MODEL} and {OPERATOR} are known"
            )
        return style == OPERATOR

    def text(self, value: object, field: str) -> str | None:
        """A string that can be shown."""
        text = convert(value, str, MEMBER, field, self.faults)
        if text is not None and text and (problem := text_problem(text, MAX_TEXT)) is not None:
            self.fault(field, f"a text {problem}")
        return text

    def executors(self, table: dict[str, Any], field: str, *, operator: bool) -> tuple[str, ...]:
        """``executors``, which versions 1 to 4 call ``runtimes``."""
        key = "runtimes" if "runtimes" in table and "executors" not in table else "executors"
        if operator and key not in table:
            return ()
        names: list[str] = self.get(table, key, list[str], field) or []
        for name in names:
            if name not in EXECUTORS:
                self.fault(f"{field}.{key}", f"unknown executor {shown(name)}; graph and aot are known")
        if not names and not operator and key in table:
            self.fault(f"{field}.{key}", "no executor; graph or aot is needed")
        return tuple(names)

    def targets(self, value: object, field: str) -> tuple[str, ...]:
        """``target``: a map from device type to target before version 6, then a list."""
        if isinstance(value, dict):
            value = [value[key] for key in sorted(value)]
        texts = (self.text(text, f"{field}[{i}]") for i, text in enumerate(self.list_of(value, field)))
        return tuple(text for text in texts if text is not None)

    def tvm_version(self, value: object, field: str) -> str | None:
        """``version_spec`` of the first dependency that has one."""
        for index, item in enumerate(self.list_of(value, f"{field}.external_dependencies")):
            at = f"{field}.external_dependencies[{index}]"
            raw = convert(item, _Dependency, MEMBER, at, self.faults)
            if raw is not None and raw.version_spec is not None:
                return self.text(raw.version_spec, f"{at}.version_spec")
        return None
