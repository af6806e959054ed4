# SPDX-License-Identifier: Apache-2.0
"""A signed package to many devices: pushed again to those that were lost, each asked at the end."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from mlf_sdk.codegen.packagefile import Package
from mlf_sdk.errors import InputError, MlfError, TargetError
from mlf_sdk.pipeline.package import push_package, read_package_file
from mlf_sdk.pipeline.params import open_device
from mlf_sdk.pipeline.progress import SILENT, Progress
from mlf_sdk.pipeline.request import Request
from mlf_sdk.wire.package import DevicePackages, PackageError, PackageStatus

MOST_TRIES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUpdate:
    """Update of one device of a fleet.

    Attributes:
        device: folder of its project, or its port.
        before: version that was in force; None: it never answered.
        version: in force at the end, as a new session was told it; None: it did not answer.
        sent_bytes: of the push that succeeded; 0: it had the package already, or none has.
        pushes: tries.
        losses: reasons why each but the last push ended early.
        error: reason why the package is not in force; empty: it is.
    """

    device: str
    before: int | None = None
    version: int | None = None
    sent_bytes: int = 0
    pushes: int = 0
    losses: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetUpdate:
    """A package, and its update of each device, in the order in which they were given."""

    path: Path
    package: Package
    devices: tuple[DeviceUpdate, ...]

    @property
    def ok(self) -> bool:
        """Return True when the package is in force on all of them."""
        return not any(device.error for device in self.devices)


class PowerCutError(TargetError):
    """An emulator was ended on request, in the middle of a push."""


class _PowerCut(Progress):
    """Loss of power once a number of bytes has been written."""

    def __init__(self, after_bytes: int) -> None:
        self._after_bytes = after_bytes

    def count(self, done: int, total: int) -> None:
        """See Progress."""
        if done >= self._after_bytes:
            raise PowerCutError(f"power cut after {done:,} of {total:,} B")


def parse_power_cuts(texts: Sequence[str], devices: Sequence[str]) -> dict[str, int]:
    """Bytes of the package after which the power of a device is cut, of ``DEVICE:BYTES``.

    Raises:
        InputError: a text is no such pair, or names no device that is started here.
    """
    cuts = {}
    for text in texts:
        device, colon, number = text.rpartition(":")
        if not colon or not number.isdigit():
            hint = "Give a device and a number of bytes: --cut-power DIR:2048."
            raise InputError(f"invalid value {text!r}", where="--cut-power", hint=hint)
        if device not in devices or not Path(device).is_dir():
            hint = "Name one of the projects that the package is pushed to; a board's power is yours to cut."
            raise InputError(f"{device}: no device that is started here", where="--cut-power", hint=hint)
        cuts[device] = int(number)
    return cuts


def push_to_fleet(
    path: str | Path,
    devices: Sequence[str],
    request: Request,
    *,
    jobs: int = 1,
    tries: int = 3,
    cuts: Mapping[str, int] | None = None,
    say: Callable[[str], None] = SILENT.say,
) -> FleetUpdate:
    """Send a package to devices, those that are lost again; every error becomes part of the result.

    Args:
        path: the package.
        devices: each the folder of a project or a port, as for `mlf_sdk.pipeline.package.push_package`.
        request: what holds for all of them: key, rate, time.
        jobs: devices at once.
        tries: pushes to a device that does not answer or loses its connection.
        cuts: bytes of the package after which the emulator of a project is ended, once.
        say: called with what happens.

    Raises:
        InputError: the package can't be read, or a device is named twice.
    """
    package = read_package_file(path)
    if twice := next((one for one in devices if devices.count(one) > 1), None):
        raise InputError("the device is named twice", where=twice)

    def update(device: str) -> DeviceUpdate:
        say(f"pushing to {device}")
        result = _update(device, package, Path(path), request, tries, (cuts or {}).get(device))
        say(f"{device}: {result.error or f'version {result.version} in force'}")
        return result

    with ThreadPoolExecutor(jobs) as pool:
        return FleetUpdate(path=Path(path), package=package, devices=tuple(pool.map(update, devices)))


def _update(
    device: str, package: Package, path: Path, request: Request, tries: int, cut: int | None
) -> DeviceUpdate:
    target = request.replace(source=(device,)) if Path(device).is_dir() else request.replace(port=device)
    result = DeviceUpdate(device=device)
    for number in range(1, tries + 1):
        progress = SILENT if cut is None or number > 1 else _PowerCut(cut)
        result = dataclasses.replace(result, pushes=number)
        try:
            if result.before is None:
                result = dataclasses.replace(result, before=_ask(target)[0])
            sent_bytes = push_package(path, target, (), progress).sent_bytes
            return _asked_again(dataclasses.replace(result, sent_bytes=sent_bytes), target, package)
        except PackageError as error:
            if error.status is PackageStatus.OLD:  # the answer to an earlier push was lost, perhaps
                return _asked_again(result, target, package)
            return _failed(result, error)
        except TargetError as error:
            result = dataclasses.replace(result, losses=(*result.losses, error.what.splitlines()[0]))
        except MlfError as error:
            return _failed(result, error)
    return dataclasses.replace(result, losses=result.losses[:-1], error=result.losses[-1])


def _failed(update: DeviceUpdate, error: MlfError) -> DeviceUpdate:
    return dataclasses.replace(update, version=update.before, error=error.what.splitlines()[0])


def _asked_again(update: DeviceUpdate, target: Request, package: Package) -> DeviceUpdate:
    """Ask a device in a new session, which is a new start of what is started here."""
    try:
        version, header_crc = _ask(target)
    except MlfError as error:
        return dataclasses.replace(update, error=f"pushed, and lost: {error.what.splitlines()[0]}")
    update = dataclasses.replace(update, version=version)
    if (version, header_crc) == (package.manifest.version, package.header.header_crc):
        return update
    what = "other parameters" if version == package.manifest.version else f"version {version}"
    return dataclasses.replace(update, error=f"{what} in force")


def _ask(target: Request) -> tuple[int, int]:
    """Version in force, and the CRC by which its parameters are known."""
    with open_device(target, SILENT, DevicePackages) as device:
        return device.package_info().version, device.info().header_crc
