# SPDX-License-Identifier: Apache-2.0
"""The code of a bundle: an ELF object, or an archive of several, and what its entries need of it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mlf_sdk.analysis.elf.ar import AR_MAGIC, ArFormatError, read_ar
from mlf_sdk.analysis.elf.objects import ObjectInfo, read_object
from mlf_sdk.analysis.elf.raw import (
    ET_REL,
    STB_GLOBAL,
    STT_FUNC,
    ElfFormatError,
    RawElf,
    read_elf,
)
from mlf_sdk.errors import FaultCollector
from mlf_sdk.frontends.glow.config import config_symbols
from mlf_sdk.tools.checks import shown


class CodeMember(msgspec.Struct, frozen=True, kw_only=True):
    """An object of the code.

    Attributes:
        label: for messages: the file, and the member in it.
    """

    label: str
    data: bytes
    info: ObjectInfo


def read_code(data: bytes, file: str, faults: FaultCollector) -> tuple[CodeMember, ...]:
    """Read all objects of a file; broken ones are recorded in ``faults``."""
    parts = [(file, data)]
    if data.startswith(AR_MAGIC):
        try:
            parts = [(f"{file} ({shown(member.name)})", member.data) for member in read_ar(data)]
        except ArFormatError as error:
            faults.add(file, f"the archive of objects is broken: {error}")
            return ()
    result = []
    for label, content in parts:
        info = read_object(content, label, faults)
        if info is not None:
            result.append(CodeMember(label=label, data=content, info=info))
    return tuple(result)


def functions(member: CodeMember) -> tuple[str, ...]:
    """Global functions that an object defines."""
    elf = read_elf(member.data)
    return tuple(
        s.name for s in elf.symbols if s.is_defined and (s.binding, s.type) == (STB_GLOBAL, STT_FUNC)
    )


def configured(data: bytes) -> RawElf | None:
    """The object that holds the configuration of a bundle, in a file of any kind; None: there is none."""
    contents = [data]
    try:
        if data.startswith(AR_MAGIC):
            contents = [member.data for member in read_ar(data)]
        for content in contents:
            elf = read_elf(content)
            if elf.type == ET_REL and config_symbols(elf):
                return elf
    except (ArFormatError, ElfFormatError):
        pass
    return None


def needed(
    members: Iterable[CodeMember], entries: Iterable[str], file: str, faults: FaultCollector
) -> tuple[CodeMember, ...]:
    """Members that the entries need, as a linker takes them: the first that defines a symbol.

    An entry that nothing defines is recorded in ``faults``.
    """
    every = list(members)
    defined_in: dict[str, int] = {}
    for index, member in enumerate(every):
        for symbol in member.info.defined:
            defined_in.setdefault(symbol, index)
    wanted: dict[int, None] = {}
    for entry in entries:
        if entry not in defined_in:
            faults.add(file, f"it does not define the entry {shown(entry)}")
    queue = [defined_in[entry] for entry in entries if entry in defined_in]
    while queue:
        index = queue.pop()
        if index not in wanted:
            wanted[index] = None
            queue += [defined_in[s] for s in every[index].info.undefined if s in defined_in]
    return tuple(every[index] for index in sorted(wanted))
