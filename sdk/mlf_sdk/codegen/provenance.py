# SPDX-License-Identifier: Apache-2.0
"""Provenance note of a project as an assembler file, linked into every image."""

from __future__ import annotations

from mlf_sdk.analysis.elf.provenance import (
    FORMAT,
    OWNER,
    SECTION,
    TYPE,
    NoteModel,
    Provenance,
    encode_provenance,
)
from mlf_sdk.codegen.lock import Lock

SOURCE = "provenance.S"
_LINE_BYTES = 64
_QUOTE = 0x22
_PLAIN = frozenset(range(0x20, 0x7F)) - frozenset(b'"\\')


def provenance_of(lock: Lock) -> Provenance:
    """Provenance of the project's image."""
    options = lock.options
    return Provenance(
        format=FORMAT,
        sdk=lock.sdk_version,
        platform=lock.platform,
        board=lock.board,
        zephyr=lock.zephyr.series if lock.zephyr else "",
        app=options.app,
        executor=options.executor,
        params=options.params,
        cflags=" ".join(options.kernel_flags),
        keep_inputs=options.keep_inputs,
        share_arena=options.share_arena,
        trace=options.trace,
        cmsis_nn=options.cmsis_nn is not None,
        models=tuple(
            NoteModel(
                name=model.name,
                archive_sha256=model.archive_sha256,
                format=model.format_text,
                compiler=model.compiler_text,
            )
            for model in lock.models
        ),
    )


def provenance_source(lock: Lock) -> bytes:
    """Content of the file ``SOURCE`` of a project."""
    data = encode_provenance(provenance_of(lock))
    lines = [data[at : at + _LINE_BYTES] for at in range(0, len(data), _LINE_BYTES)]
    text = "".join(f'    .ascii "{_escaped(line)}"\n' for line in lines)
    return (
        "/* SPDX-License-Identifier: Apache-2.0 */\n"
        "/* Provenance of this firmware: an ELF note, read by `mlf-sdk inspect`. */\n"
        f'    .section {SECTION}, "a", %note\n'
        "    .balign 4\n"
        f"    .4byte {len(OWNER) + 1}, {len(data)}, {TYPE}\n"
        f'    .asciz "{OWNER}"\n'
        f"{text}"
        "    .balign 4\n"
        "\n"
        '    .section .note.GNU-stack, "", %progbits\n'
    ).encode()


def _escaped(line: bytes) -> str:
    return "".join(chr(b) if b in _PLAIN else '\\"' if b == _QUOTE else f"\\{b:03o}" for b in line)
