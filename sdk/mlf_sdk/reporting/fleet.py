# SPDX-License-Identifier: Apache-2.0
"""Result of ``sweep push`` for people and as plain values."""

from __future__ import annotations

import dataclasses
from typing import Any

from mlf_sdk.reporting.layout import Parts, counted, line, number, size, table, verdict
from mlf_sdk.sweep.fleet import DeviceUpdate, FleetUpdate


def fleet_parts(fleet: FleetUpdate) -> Parts:
    """Lay out the update of many devices."""
    manifest = fleet.package.manifest
    rows = [
        (
            one.device,
            number(one.before),
            number(one.version),
            number(one.sent_bytes),
            number(one.pushes),
            _remarks(one, manifest.version),
        )
        for one in fleet.devices
    ]
    good = sum(not one.error for one in fleet.devices)
    return [
        line("package", f"{fleet.path.name}: version {manifest.version}, {size(manifest.total_bytes)}"),
        table(("=device", ">before", ">in force", ">sent B", ">pushes", "on the way"), rows),
        line("in force", f"on {good} of {counted(len(fleet.devices), 'device')}"),
        line("verdict", verdict(fleet.ok)),
    ]


def _remarks(update: DeviceUpdate, version: int) -> str:
    had = "had it already" if not update.error and update.before == version else ""
    return "; ".join(filter(None, [*update.losses, update.error, had]))


def fleet_values(fleet: FleetUpdate) -> dict[str, Any]:
    """The update of many devices as plain values."""
    return {
        "ok": fleet.ok,
        "package": str(fleet.path),
        "version": fleet.package.manifest.version,
        "devices": [{**dataclasses.asdict(one), "ok": not one.error} for one in fleet.devices],
    }
