# SPDX-License-Identifier: Apache-2.0
"""A bundle read from its files: header, configuration, code and constants, checked against each other."""

from __future__ import annotations

import msgspec

from mlf_sdk.errors import ArchiveError, FaultCollector
from mlf_sdk.frontends.glow.bundle import Entry, Memory, Placeholder, check_memory, check_placeholders
from mlf_sdk.frontends.glow.config import SUFFIX, Config, ConfigError, config_symbols, read_config
from mlf_sdk.frontends.glow.files import BundleFiles
from mlf_sdk.frontends.glow.header import Header, parse_header
from mlf_sdk.frontends.glow.objects import CodeMember, configured, functions, needed, read_code
from mlf_sdk.frontends.glow.origin import Origin
from mlf_sdk.frontends.glow.weights import read_weights
from mlf_sdk.tools.checks import BoundedFaults, function_name_problem, shown


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle, read and checked; its placeholders may lack types.

    Attributes:
        api: ``static`` or ``dynamic``.
        version: of Glow; empty: not stated.
        name: of the model.
        code: every object of its code.
        outputs: names of the placeholders that are, where the header states them.
        origin: of a model that was compiled before it became a bundle, where the header states it.
    """

    files: BundleFiles
    api: str
    version: str
    name: str
    memory: Memory
    placeholders: tuple[Placeholder, ...]
    entries: tuple[Entry, ...]
    code: tuple[CodeMember, ...]
    constants: bytes
    outputs: tuple[str, ...] = ()
    origin: Origin | None = None


def read_bundle(files: BundleFiles) -> Bundle:
    """Read the files of a bundle.

    Raises:
        ArchiveError: they are broken, or contradict each other; all faults at once.
    """
    faults = BoundedFaults(files.source)
    header = None if files.header is None else parse_header(files.header[1], files.header[0], faults)
    if files.code is None:
        faults.add("object", "there is no object file beside the header")
        raise ArchiveError(files.source, faults.faults)
    name, data = files.code
    code = read_code(data, name, faults)
    faults.raise_if_any()
    if header is not None and header.memory is not None:
        api, memory, placeholders = "static", header.memory, header.placeholders
    else:
        api = "dynamic"
        memory, placeholders = _configuration(data, name, header, faults)
    constants = read_weights(files.weights, memory.constant, faults)
    entries = _entries(code, name, faults) if header is None else header.entries
    needed(code, [entry.name for entry in entries], name, faults)
    faults.raise_if_any()
    return Bundle(
        files=files,
        api=api,
        version="" if header is None else header.version,
        name=(header.model_name if header is not None else "") or files.name,
        memory=memory,
        placeholders=placeholders,
        entries=entries,
        code=code,
        constants=constants,
        outputs=() if header is None else header.outputs,
        origin=None if header is None else header.origin,
    )


def _configuration(
    data: bytes, name: str, header: Header | None, faults: FaultCollector
) -> tuple[Memory, tuple[Placeholder, ...]]:
    """Memory and placeholders of the dynamic API: from the code, with the types of the header.

    Raises:
        ArchiveError: there is no configuration, or it is broken.
    """
    elf = configured(data)
    wanted = "" if header is None else header.config + SUFFIX
    result = [s for s in config_symbols(elf) if wanted in ("", s.name)] if elf is not None else []
    if elf is None or len(result) != 1:
        faults.add(name, f"it holds {len(result)} configurations of a bundle{wanted and f' called {wanted}'}")
        raise ArchiveError(faults.source, faults.faults)
    try:
        config = read_config(elf, result[0])
    except ConfigError as error:
        faults.add(name, f"the configuration {shown(result[0].name)} is broken: {error}")
        raise ArchiveError(faults.source, faults.faults) from error
    placeholders = config.placeholders if header is None else header.placeholders
    if not placeholders:
        faults.add(name, "it lists no placeholders")
    if header is not None and config.placeholders:
        _check_rows(config, header, name, faults)
    check_memory(config.memory, name, faults)
    check_placeholders(placeholders, config.memory, name, faults)
    return config.memory, placeholders


def _check_rows(config: Config, header: Header, name: str, faults: FaultCollector) -> None:
    """Check that the configuration has the placeholders of the header."""
    rows = {(p.name, p.offset, p.elements) for p in config.placeholders}
    for placeholder in header.placeholders:
        if (placeholder.name, placeholder.offset, placeholder.elements) not in rows:
            faults.add(
                name, f"its configuration does not have {shown(placeholder.name)} as the header has it"
            )
    if len(rows) != len(header.placeholders):
        faults.add(
            name, f"its configuration has {len(rows)} placeholders; the header {len(header.placeholders)}"
        )


def _entries(code: tuple[CodeMember, ...], name: str, faults: FaultCollector) -> tuple[Entry, ...]:
    """Entries without a header: the global functions beside the configuration. They may return nothing."""
    (member,) = [m for m in code if configured(m.data) is not None]
    names = functions(member)
    if not names:
        faults.add(name, "it has no global function beside the configuration")
    for entry in names:
        if (problem := function_name_problem(entry)) is not None:
            faults.add(name, f"an entry {problem}")
    return tuple(Entry(name=entry, result="void") for entry in names)
