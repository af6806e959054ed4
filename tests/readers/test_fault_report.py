# SPDX-License-Identifier: Apache-2.0
"""The line of a fault handler, out of whatever a console holds."""

from __future__ import annotations

import pytest

from mlf_sdk.triage.fault_report import locate_faults, parse_fault

LINE = (
    "mlf-fault: busfault pc=00001f3e lr=ffffffff cfsr=8200 r0=xyz bfar=123456789 step=3 model=tiny "
    "calls=10:1a2c,fffffff8:20,:5,zz:1,"
)


def test_what_a_line_says() -> None:
    found = parse_fault(f"boot\n\x00\xff garbage {LINE}\r\nafter\n".encode("latin-1"))
    assert found is not None
    assert (found.kind, found.step, found.model) == ("busfault", 3, "tiny")
    assert found.registers == {"pc": 0x1F3E, "lr": 0xFFFFFFFF, "cfsr": 0x8200}
    assert found.calls == ((16, 0x1A2C), (-8, 0x20))
    assert found.line == LINE


@pytest.mark.parametrize(
    ("number", "kind"),
    [(0, "abort"), (1, "stack-overflow"), (3, "hardfault"), (7, "securefault"), (8, "unexpected-exception")],
)
def test_numbers_of_a_device(number: int, kind: str) -> None:
    found = parse_fault(f"mlf-fault: {number:08x} pc=00001f3e step=00000010 model=tiny\n".encode())
    assert found is not None
    assert (found.kind, found.step, found.registers) == (kind, 16, {"pc": 0x1F3E})


@pytest.mark.parametrize(
    ("text", "step"),
    [("ffffffff", -1), ("ffffcfc7", -12345), ("3", 3), ("-12345", -12345), ("1234567", 1234567)],
)
def test_steps(text: str, step: int) -> None:
    found = parse_fault(f"mlf-fault: 00000003 step={text} model=-\n".encode())
    assert found is not None
    assert found.step == step


def test_fields_that_are_missing() -> None:
    found = parse_fault(b"mlf-fault: stack-overflow model=- step=none\n")
    assert found is not None
    assert (found.registers, found.step, found.model, found.calls) == ({}, -1, "", ())


@pytest.mark.parametrize(
    "console", [b"", b"mlf-fault: busfault pc=0", b"mlf-fault: BUS x\n", b"mlf-fault:\n"]
)
def test_no_whole_line(console: bytes) -> None:
    assert parse_fault(console) is None
    assert locate_faults(console) == ()


def test_all_lines_in_order() -> None:
    console = b"mlf-fault: busfault pc=1\nmlf-fault: usagefault pc=2\nmlf-fault: hardfault pc="
    assert [(end, fault.kind, fault.registers["pc"]) for end, fault in locate_faults(console)] == [
        (console.index(b"\n") + 1, "busfault", 1),
        (console.rindex(b"\n") + 1, "usagefault", 2),
    ]
