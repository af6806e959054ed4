# SPDX-License-Identifier: Apache-2.0
"""Secured sessions and signed packages of a project: the sources that their cryptography needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlf_sdk.codegen.options import ProjectOptions

LEAST_PAYLOAD_BYTES = 128  # MLF_RPC_SECURE of crt/rpc/mlf_rpc.h


OPEN_TEXT = "open to whoever has the line, for development; --lock makes an image for the field"


def access_text(app: str, session_keys: Sequence[str]) -> str:
    """Text about who may talk to an image of an application; empty: it answers nobody."""
    if app != "rpc":
        return ""
    count = len(session_keys)
    return f"locked: {count} key{'s' if count != 1 else ''} open sessions" if count else OPEN_TEXT


def crypto_sources(options: ProjectOptions) -> tuple[str, ...]:
    """Runtime sources that call OpenSSL, relative to the project; none: it has no need, or has Monocypher."""
    if options.monocypher or not (options.trust or options.session_keys):
        return ()
    return ("crt/host/mlf_crypto_openssl.c",)


def secure_sources(options: ProjectOptions) -> tuple[str, ...]:
    """Runtime sources of secured sessions, relative to the project."""
    return ("crt/secure/mlf_secure.c",) if options.session_keys else ()
