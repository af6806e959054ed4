# SPDX-License-Identifier: Apache-2.0
"""Serial ports of this machine, and the search for a board's port by USB id and serial number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec
from serial.tools import list_ports

from mlf_sdk.errors import InputError
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.tools.checks import DeviceText, device_text
from mlf_sdk.wire.codes import PortMissingError

AUTO = "auto"
_USB = "usb:"
SMP = "smp:"  # in front of a port or address whose server speaks MCUmgr's SMP


class Port(msgspec.Struct, frozen=True, kw_only=True):
    """A serial port of this machine.

    Attributes:
        device: its path.
        usb_id: ``vid:pid`` in lower-case hex; empty: not on USB.
        serial_number: of the USB device; empty: none.
        description: what it says of itself.
    """

    device: str
    usb_id: str
    serial_number: DeviceText
    description: DeviceText

    @property
    def label(self) -> str:
        """Name for a message: path, USB id, serial number, description."""
        known = " ".join(filter(None, [self.usb_id, self.serial_number, self.description]))
        return f"{self.device} ({known})" if known else self.device


def list_serial_ports() -> list[Port]:
    """Return the serial ports of this machine, by path."""
    result = []
    for info in list_ports.comports():
        usb_id = f"{info.vid:04x}:{info.pid:04x}" if info.vid is not None and info.pid is not None else ""
        said = device_text(info.description if info.description not in (None, "n/a") else "")
        number = device_text(info.serial_number or "")
        result.append(Port(device=info.device, usb_id=usb_id, serial_number=number, description=said))
    return sorted(result, key=lambda port: port.device)


def ports_of(board: Board, ports: Iterable[Port]) -> list[Port]:
    """Return those of ``ports`` that have a USB id of the board's row."""
    return [port for port in ports if port.usb_id and port.usb_id in board.flasher.usb_ids]


def find_port(
    board: Board,
    *,
    serial_number: str = "",
    seen: Callable[[], Sequence[Port]] = list_serial_ports,
) -> Port:
    """Return the one port that the board is at.

    Args:
        board: with the USB ids of its probe.
        serial_number: of the probe, when there are several boards of a kind; or the end of it.
        seen: lists the ports.

    Raises:
        InputError: the board's row has no USB ids.
        PortMissingError: there is none, or there are several: all are named.
    """
    where = f"board {board.name}"
    if not board.flasher.usb_ids:
        raise InputError(
            "the board's row has no USB ids to find its port by", where=where, hint="Name it: --port PORT."
        )
    ports = list(seen())
    wanted = ", ".join(board.flasher.usb_ids)
    result = [p for p in ports_of(board, ports) if p.serial_number.lower().endswith(serial_number.lower())]
    return _only(result, ports, f"USB id {wanted}", serial_number, where)


def resolve_port(
    spec: str, board: Board | None = None, *, seen: Callable[[], Sequence[Port]] = list_serial_ports
) -> str:
    """Return the path or URL to open for ``--port``.

    Args:
        spec: a path or URL, which is returned as it is; ``auto``: the board's port; ``auto:SERIAL`` among
            several; ``usb:VID:PID`` or ``usb:VID:PID:SERIAL``.
        board: for ``auto``.
        seen: lists the ports.

    Raises:
        InputError: it says nothing that could be found.
        PortMissingError: there is none, or there are several.
    """
    kind, _, rest = spec.partition(":")
    if kind == AUTO:
        if board is None:
            raise InputError("which board's port?", where=f"--port {spec}", hint="Add --board NAME.")
        return find_port(board, serial_number=rest, seen=seen).device
    if not spec.startswith(_USB):
        return spec
    parts = rest.lower().split(":", 2)
    if len(parts) < 2 or not all(parts[:2]):
        raise InputError("this is no USB id", where=f"--port {spec}", hint="Write it as usb:0d28:0204.")
    usb_id, number = f"{parts[0]:0>4}:{parts[1]:0>4}", "".join(parts[2:])
    ports = list(seen())
    result = [p for p in ports if p.usb_id == usb_id and p.serial_number.lower().endswith(number)]
    return _only(result, ports, f"USB id {usb_id}", number, f"--port {spec}").device


def _only(ports: list[Port], seen: list[Port], wanted: str, number: str, where: str) -> Port:
    if len(ports) == 1:
        return ports[0]
    which = f"{wanted} and serial number {number}" if number else wanted
    if not ports:
        others = "\n".join(port.label for port in seen)
        raise PortMissingError(
            f"no port has {which}",
            where=where,
            hint=f"Is the board plugged in? There are:\n{others}" if others else "There is no port at all.",
        )
    listed = "\n".join(port.label for port in ports)
    raise PortMissingError(
        f"{len(ports)} ports have {which}", where=where, hint=f"Choose one with --port:\n{listed}"
    )
