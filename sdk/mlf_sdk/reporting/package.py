# SPDX-License-Identifier: Apache-2.0
"""Results of ``package`` for people and as plain values."""

from __future__ import annotations

from typing import Any

from mlf_sdk.codegen.packagefile import Manifest
from mlf_sdk.pipeline.package import MadePackage, PushedPackage, VerifiedPackage
from mlf_sdk.reporting.layout import Parts, line, size, verdict


def made_parts(made: MadePackage) -> Parts:
    """Lay out a package that was written."""
    parts = _manifest_parts(made.manifest)
    return [*parts, line("cases from", made.evidence), line("written", str(made.output))]


def made_values(made: MadePackage) -> dict[str, Any]:
    """A package that was written as plain values."""
    return {"output": str(made.output), "evidence": made.evidence, **_manifest_values(made.manifest)}


def verified_parts(verified_package: VerifiedPackage) -> Parts:
    """Lay out a package that a trusted key has signed."""
    return [*_manifest_parts(verified_package.package.manifest), line("verdict", verdict(True))]


def verified_values(verified_package: VerifiedPackage) -> dict[str, Any]:
    """A verified package as plain values."""
    return {"ok": True, **_manifest_values(verified_package.package.manifest)}


def pushed_parts(pushed: PushedPackage) -> Parts:
    """Lay out an update of a device."""
    return [
        line("model", pushed.model),
        line("version", f"{pushed.before} before, {pushed.info.version} in force"),
        line("sent", f"{pushed.sent_bytes:,} B for a package of {size(pushed.package.manifest.total_bytes)}"),
        line("self-test", f"{_cases(pushed.package.manifest)} passed on the device"),
        line("verdict", verdict(True)),
    ]


def pushed_values(pushed: PushedPackage) -> dict[str, Any]:
    """An update of a device as plain values."""
    return {
        "ok": True,
        "model": pushed.model,
        "version_before": pushed.before,
        "version": pushed.info.version,
        "image_version": pushed.info.image_version,
        "cases": pushed.package.manifest.num_cases,
        "total_bytes": pushed.package.manifest.total_bytes,
        "sent_bytes": pushed.sent_bytes,
    }


def _cases(manifest: Manifest) -> str:
    return f"{manifest.num_cases} case{'s' if manifest.num_cases != 1 else ''}"


def _manifest_parts(manifest: Manifest) -> Parts:
    parts: Parts = [
        line("version", str(manifest.version)),
        line("from", manifest.archive_sha256.hex()[:12]),
        line("for", f"graph {manifest.graph_id.hex()[:12]}, code {manifest.code_id.hex()[:12]}"),
        line("size", size(manifest.total_bytes)),
        line("self-test", f"{_cases(manifest)}, {size(manifest.cases_bytes)}"),
        line("key", manifest.key_id.hex()),
    ]
    if manifest.revoked:
        parts.append(line("revokes", ", ".join(one.hex() for one in manifest.revoked)))
    return parts


def _manifest_values(manifest: Manifest) -> dict[str, Any]:
    return {
        "version": manifest.version,
        "total_bytes": manifest.total_bytes,
        "params_bytes": manifest.params_bytes,
        "cases": manifest.num_cases,
        "arena_bytes": manifest.arena_bytes,
        "graph_id": manifest.graph_id.hex(),
        "code_id": manifest.code_id.hex(),
        "source_sha256": manifest.archive_sha256.hex(),
        "key_id": manifest.key_id.hex(),
        "revoked": [one.hex() for one in manifest.revoked],
    }
