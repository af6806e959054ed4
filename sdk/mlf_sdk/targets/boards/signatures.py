# SPDX-License-Identifier: Apache-2.0
"""Boards that verify signatures: the library that does, and random numbers for secured sessions."""

from __future__ import annotations

import re
from pathlib import Path

from mlf_sdk.codegen.options import MONOCYPHER_SOURCES, ProjectOptions
from mlf_sdk.codegen.secure import LEAST_PAYLOAD_BYTES
from mlf_sdk.errors import InputError, NotPossibleError
from mlf_sdk.targets.boards.row import Board

# Painted on the smallest core: 2,812, and 64 of an interrupt; the rest is for other compilers and releases.
VERIFYING_STACK_BYTES = 3072

_VERSION = re.compile(r"Monocypher version ([0-9]+)\.([0-9]+)[^\s]{0,30}")
_LEAST_VERSION, _NEXT_VERSION = (3, 1), (5, 0)


def check_signatures(options: ProjectOptions, board: Board) -> None:
    """Check that the board can verify packages and sessions.

    Raises:
        InputError: there is no library that could, or it is not where it should be.
        NotPossibleError: its stack is too small.
    """
    if options.monocypher is None:
        if board.platform == "host":
            return
        raise InputError(
            "the device needs a library that verifies signatures",
            where="--trust" if options.trust else "--lock",
            hint="Get a release of Monocypher (https://monocypher.org), and add --monocypher PATH.",
        )
    for name in MONOCYPHER_SOURCES:
        if not (Path(options.monocypher) / name).is_file():
            raise InputError(
                f"there is no Monocypher: {name} is missing",
                where=options.monocypher,
                hint="Give the folder of a release, with src/optional in it.",
            )
    _check_version(Path(options.monocypher) / MONOCYPHER_SOURCES[0])
    reserved = options.stack_of(board.stack_bytes)
    if board.platform == "baremetal" and reserved < VERIFYING_STACK_BYTES:
        raise NotPossibleError(
            f"verifying a signature takes up to {VERIFYING_STACK_BYTES:,} bytes of stack, of which "
            f"{reserved:,} are reserved",
            where=f"board {board.name}",
            hint=f"Add --stack {VERIFYING_STACK_BYTES}.",
        )


def _check_version(source: Path) -> None:
    """Check that a source of Monocypher is of a version that is supported; one that states none is taken."""
    stated = _VERSION.search(source.read_text(errors="replace"), 0, 4096)
    if stated and not _LEAST_VERSION <= (int(stated[1]), int(stated[2])) < _NEXT_VERSION:
        raise InputError(
            f"this is {stated[0]}; 3.1 and later ones of 3, and 4 are supported",
            where=str(source),
            hint="Get release 4.0.2, or another of these (https://monocypher.org).",
        )


def check_session_keys(options: ProjectOptions, board: Board) -> None:
    """Check that the board can serve secured sessions.

    Raises:
        NotPossibleError: it has no stated source of random numbers, too small messages, or runs Zephyr.
    """
    if not options.session_keys or board.platform == "host":
        return
    where = f"board {board.name}"
    if board.platform != "baremetal":
        raise NotPossibleError(
            "secured sessions are there for bare metal and for the host only",
            where=where,
            hint="Leave out --lock.",
        )
    if board.entropy is None:
        raise NotPossibleError(
            "--lock needs random numbers that nobody can predict; the board's row names no source of them",
            where=where,
            hint="Write one: [entropy] in the row, driver = 'own', and mlf_entropy() of mlf_platform.h in a "
            "file of its sources.",
        )
    if board.rpc.max_payload < LEAST_PAYLOAD_BYTES:
        raise NotPossibleError(
            f"secured sessions need messages of {LEAST_PAYLOAD_BYTES} bytes; the board's row says "
            f"{board.rpc.max_payload} (rpc.max_payload)",
            where=where,
        )
