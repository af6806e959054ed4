# SPDX-License-Identifier: Apache-2.0
"""Zephyr's own report of a fatal error: what is read of it, with and without the prefixes of its logging."""

from __future__ import annotations

import pytest

from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.triage import FaultWatch, triage_log
from mlf_sdk.triage.explain import fault_headline, triage_lines
from mlf_sdk.triage.zephyr_dump import locate_dumps

BUS = """***** BUS FAULT *****
  Precise data bus error
  BFAR Address: 0x60000010
r0/a1:  0x00000001  r1/a2:  0x60000010  r2/a3:  0x00000003
r3/a4:  0x00000004 r12/ip:  0x0000000c r14/lr:  0x00000321
 xpsr:  0x61000000
Faulting instruction address (r15/pc): 0x00000456
>>> ZEPHYR FATAL ERROR 25: Unknown error on CPU 0
Current thread: 0x20000138 (main)
Halting system
"""
REGISTERS = BUS[BUS.index("r0/a1") :]


def log_of(head: str, *words: str, error: str = "0: CPU exception on CPU 0") -> bytes:
    text = "\n".join([f"***** {head} FAULT *****", *(f"  {said}" for said in words), REGISTERS])
    return text.replace("25: Unknown error on CPU 0", error).encode()


@pytest.mark.parametrize("prefix", ["", "E: ", "\x1b[1;31m[00:00:00.010,000] <err> os: "])
def test_a_report_with_any_prefix(prefix: str) -> None:
    lines = "".join(f"{prefix}{line}\r\n" for line in BUS.splitlines())
    ((_, fault),) = locate_dumps(b"hello\xff\n" + lines.encode())
    assert (fault.kind, fault.step, fault.model) == ("busfault", -1, "")
    wanted = {"r0": 1, "r1": 0x60000010, "r2": 3, "r3": 4, "r12": 12, "lr": 0x321, "xpsr": 0x61000000}
    assert fault.registers == wanted | {"pc": 0x456, "bfar": 0x60000010, "cfsr": 0x8200, "hfsr": 0}
    assert fault.line.endswith("ZEPHYR FATAL ERROR 25: Unknown error on CPU 0")
    (found,) = triage_log(lines.encode(), None)
    assert fault_headline(found) == "the target faulted: busfault"
    assert triage_lines(found)[0].startswith("cause: access to 0x60000010, where there is no memory")


@pytest.mark.parametrize(
    ("log", "kind", "cfsr", "hfsr"),
    [
        (log_of("MPU", "Data Access Violation", "MMFAR Address: 0x8"), "memfault", 0x82, 0),
        (log_of("MPU", "Unstacking error"), "memfault", 8, 0),
        (log_of("MPU", "Stacking error (context area might be not valid)"), "memfault", 0x10, 0),
        (log_of("BUS", "Stacking error", "Imprecise data bus error"), "busfault", 0x1400, 0),
        (log_of("USAGE", "Division by zero"), "usagefault", 1 << 25, 0),
        (log_of("USAGE", "Illegal use of the EPSR"), "usagefault", 1 << 17, 0),
        (log_of("HARD", "Debug event"), "hardfault", 0, 1 << 31),
        (log_of("SECURE", "Invalid entry point"), "securefault", 0, 0),
        (log_of("USAGE", "Stack overflow (context area not valid)", error="2: Stack overflow on CPU 0"),
         "stack-overflow", 1 << 20, 0),
        (log_of("HARD", "Fault escalation (see below)", "***** BUS FAULT *****", "Precise data bus error"),
         "busfault", 0x200, 1 << 30),
    ],
)  # fmt: skip
def test_status_bits_are_those_that_the_words_mean(log: bytes, kind: str, cfsr: int, hfsr: int) -> None:
    ((_, fault),) = locate_dumps(log)
    assert (fault.kind, fault.registers["cfsr"], fault.registers["hfsr"]) == (kind, cfsr, hfsr)


def test_a_panic_has_no_status() -> None:
    ((_, fault),) = locate_dumps(REGISTERS.replace("25: Unknown error", "4: Kernel panic").encode())
    assert fault.kind == "abort" and "cfsr" not in fault.registers and fault.registers["pc"] == 0x456
    ((_, fault),) = locate_dumps(b">>> ZEPHYR FATAL ERROR 1: Unhandled interrupt\n")
    assert (fault.kind, fault.registers) == ("unexpected-exception", {})


def test_reports_of_both_kinds_in_order() -> None:
    ours = b"mlf-fault: hardfault pc=00000100 model=m step=1\n"
    log = BUS.encode() + ours + log_of("MPU", "Unstacking error")
    assert [found.fault.kind for found in triage_log(log, None)] == ["busfault", "hardfault", "memfault"]
    with pytest.raises(InputError, match="no report of a fault"):
        triage_log(b"***** BUS FAULT *****\n", None)


def test_a_report_that_comes_in_pieces_is_explained_once() -> None:
    class Firmware:
        def explain(self, fault: object) -> object:
            from mlf_sdk.triage.explain import triage

            return triage(fault, None)  # type: ignore[arg-type]

    watch = FaultWatch(Firmware())  # type: ignore[arg-type]
    said = [watch.feed(BUS[at : at + 7]) for at in range(0, len(BUS), 7)]
    assert [text.splitlines()[0] for text in said if text] == ["the target faulted: busfault"]
    assert watch.feed(BUS).startswith("the target faulted: busfault")
