# SPDX-License-Identifier: Apache-2.0
"""The console of a board: whatever it sends is shown, typed lines reach it, a lost port is waited for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cli_helpers import Caller
from mlf_sdk.errors import TargetError
from mlf_sdk.pipeline import monitor as module
from mlf_sdk.pipeline.monitor import Terminal, monitor
from mlf_sdk.pipeline.options import MonitorOptions
from mlf_sdk.pipeline.request import Request
from mlf_sdk.wire import frames
from mlf_sdk.wire.codes import PortMissingError, PortVanishedError
from mlf_sdk.wire.transport import Deadline
from serial_helpers import PtyDevice, heard


class Script:
    """A port that says pieces one after the other; then its user presses Ctrl-C, or it vanishes."""

    def __init__(self, pieces: list[bytes], *, vanishes: bool = False) -> None:
        self._pieces = iter(pieces)
        self._vanishes = vanishes
        self.sent = b""
        self.baud = 115_200
        self.closed = False

    def set_baud(self, baud: int) -> None:
        self.baud = baud

    def read(self, max_bytes: int, deadline: Deadline) -> bytes:
        for piece in self._pieces:
            return piece
        if self._vanishes:
            raise PortVanishedError("/dev/ttyX")
        raise KeyboardInterrupt

    def write(self, data: bytes, deadline: Deadline) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = True


Shown = tuple[str, list[str]]
Watch = Callable[..., Shown]


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Return what the monitor shows, and its notes, for ports opened one after the other."""

    def run(
        *ports: Script | Exception | list[bytes], options: MonitorOptions | None = None, **ends: object
    ) -> Shown:
        opened = iter(Script(port) if isinstance(port, list) else port for port in ports)
        shown: list[bytes] = []
        notes: list[str] = []

        def open_next(*_: object) -> Script:
            port = next(opened)
            if isinstance(port, Exception):
                raise port
            return port

        monkeypatch.setattr(module, "open_chosen_port", open_next)
        monkeypatch.setattr(module, "_REOPEN_S", 0)
        terminal = Terminal(show=shown.append, note=notes.append, now=lambda: "12:00:00", **ends)
        request = Request(port="/dev/ttyX")
        with pytest.raises(KeyboardInterrupt):
            monitor(request, options or MonitorOptions(), terminal)
        return b"".join(shown).decode("utf-8", "surrogateescape"), notes

    return run


def test_text_is_shown_and_messages_are_not(watch: Watch) -> None:
    message = frames.encode(b"\x02\x81\x02\x00\x01\x00\x00\x00\x00")
    assert watch([b"booting\n" + message + b"\x1b[2Jready"]) == ("booting\n\\x1b[2Jready", [])
    assert watch([bytes([byte]) for byte in b"one\r\ntwo"]) == ("one\ntwo", [])


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        (b"\xff", "\\xff"),
        ("temp 23°C\n".encode("latin-1"), "temp 23\\xb0C\n"),
        ("größe €\n".encode(), "größe €\n"),
        (b"\x9b31m \xc2\x9b31m\n", "\\x9b31m \\x9b31m\n"),
        ("\u202egnp.exe\n".encode(), "\\u202egnp.exe\n"),
        (b"over\rwritten\n", "over\\rwritten\n"),
    ],
)
def test_no_byte_mutes_or_drives_the_console(watch: Watch, sent: bytes, shown: str) -> None:
    text, notes = watch([b"first\n", sent, b"second\n", b"third\n"])
    assert text == f"first\n{shown}second\nthird\n" and notes == []


@pytest.mark.parametrize("theirs", [9600, 57_600, 230_400, 1_000_000])
def test_a_wrong_rate_is_suspected_once(watch: Watch, theirs: int) -> None:
    noise = heard(b"The quick brown fox jumps over the lazy dog, 0123456789.\r\n" * 40, theirs, 115_200)
    _, notes = watch([noise + b"\0", noise + b"\0"])
    assert len(notes) == 1
    assert "no text at 115200 baud" in notes[0] and "--baud 9600, 19200" in notes[0]
    assert "115200," not in notes[0].split("try")[1]


def test_the_right_rate_is_not_suspected(watch: Watch) -> None:
    message = frames.encode(b"\x02\x81" + bytes(range(200)))
    assert watch([message * 50, b"\xff\xfe", "Grüße\n".encode("latin-1") * 50])[1] == []


def test_timestamps_stand_before_whole_lines(watch: Watch) -> None:
    text, _ = watch([b"one\ntw", b"o\n", b"three\n"], options=MonitorOptions(timestamps=True))
    assert text == "[12:00:00] one\n[12:00:00] two\n[12:00:00] three\n"


def test_the_raw_view_passes_everything(watch: Watch) -> None:
    sent = b"\x00\x05\x01\x81\x00 \x1b[2J text\r\n"
    assert watch([sent], options=MonitorOptions(raw=True))[0].encode("utf-8", "surrogateescape") == sent


def test_colours_are_passed_and_nothing_else(watch: Watch) -> None:
    text, _ = watch([b"\x1b[1;31mred\x1b[0m \x1b[2J\x1b]0;title\x07\n"], colours=True)
    assert text == "\x1b[1;31mred\x1b[0m \\x1b[2J\\x1b]0;title\\x07\n\x1b[0m"
    assert watch([b"\x1b[31mred\n"])[0] == "\\x1b[31mred\n"


@pytest.mark.parametrize(("line_end", "sent"), [("lf", b"go\n"), ("crlf", b"go\r\n"), ("cr", b"go\r")])
def test_typed_lines_reach_the_board(watch: Watch, line_end: str, sent: bytes) -> None:
    ours, theirs = os.pipe()
    os.write(theirs, b"go\n")
    os.close(theirs)
    port = Script([b"ready\n", b"", b"", b"bye\n"])
    assert watch(port, typed=ours, options=MonitorOptions(line_end=line_end)) == ("ready\nbye\n", [])
    os.close(ours)
    assert port.sent == sent and port.closed


def test_a_port_that_vanishes_is_waited_for(watch: Watch) -> None:
    first, missing = Script([b"one\nhalf a l"], vanishes=True), PortMissingError("no such port")
    text, notes = watch(first, missing, missing, [b"booting\n"])
    assert text == "one\nhalf a lbooting\n"
    assert notes == ["/dev/ttyX: the port has vanished; waiting for it", "/dev/ttyX: the port is back"]
    assert first.closed


def test_a_port_that_was_never_there_is_an_error() -> None:
    with pytest.raises(TargetError, match="no such port"):
        monitor(Request(port="/dev/ttyACM99"), MonitorOptions(), Terminal(show=print, note=print))


def test_a_board_that_is_unplugged_and_plugged_in_again(tmp_path: Path) -> None:
    """Each device answers what is typed; the port is a link to the one that is plugged in."""
    link = tmp_path / "board"
    ours, theirs = os.pipe()
    shown = b""
    notes: list[str] = []
    with PtyDevice(lambda _: b"one\n") as first, PtyDevice(lambda _: b"two\n") as second:
        link.symlink_to(first.path)

        def show(data: bytes) -> None:
            nonlocal shown
            shown += data
            if shown == b"one\n":
                link.unlink()
                link.symlink_to(second.path)
                first.unplug()
            elif shown == b"one\ntwo\n":
                raise KeyboardInterrupt

        def note(text: str) -> None:
            notes.append(text.partition(": ")[2])
            if "back" in text:
                os.write(theirs, b"?\n")

        os.write(theirs, b"?\n")
        with pytest.raises(KeyboardInterrupt):
            terminal = Terminal(show=show, note=note, typed=ours)
            monitor(Request(port=str(link)), MonitorOptions(seconds=300), terminal)
    assert notes == ["the port has vanished; waiting for it", "the port is back"]
    os.close(ours)
    os.close(theirs)


def test_the_command_shows_text_and_no_messages(
    call: Caller, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = [b"booting\n\x00\x05\x01\x81\x02\x02\x00", b"\x1b[2Jready \xb0\n"]
    monkeypatch.setattr(module, "open_chosen_port", lambda *_: Script(said))
    done = call("monitor", "--port", "/dev/ttyX")
    assert (done.code, done.out) == (0, "booting\n\\x1b[2Jready \\xb0\n")
    as_json = call("monitor", "--port", "/dev/ttyX", "--json")
    assert as_json.value["text"] == "booting\n\\x1b[2Jready \\xb0\n"
