# SPDX-License-Identifier: Apache-2.0
"""Board files made from the row of a chip: what is known is stated with its source, what is not is asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from mlf_sdk.codegen.templates import environment
from mlf_sdk.errors import InputError
from mlf_sdk.targets.boards.check import row_faults
from mlf_sdk.targets.boards.family import Family, family_of
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.targets.chips.row import Chip, ChipMemory
from mlf_sdk.tools.isas import isa_of_cpu
from mlf_sdk.tools.rowfile import described

_TEMPLATE = "newboard/board.toml.j2"
_SMALL_RAM, _LARGE_RAM = 16 << 10, 64 << 10
_BAUD = 115_200


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardAnswers:
    """Facts of a board that the user states; None: not stated.

    Attributes:
        name: of the board; empty: the chip's with ``my-`` in front.
        clock_hz: rate of the core that runs.
        driver: of the console, with ``base``, ``irq``, ``tx_pin`` and ``rx_pin``.
        baud: bits a second of the console.
    """

    name: str = ""
    clock_hz: int | None = None
    driver: str | None = None
    base: int | None = None
    irq: int | None = None
    tx_pin: int | None = None
    rx_pin: int | None = None
    baud: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBoard:
    """A board file.

    Attributes:
        name: of the board.
        text: of the file.
        known: what it states, as (what, value).
        questions: what is left to the reader.
        faults: why the file can't be used before they are answered; empty: it can.
    """

    name: str
    text: str
    known: tuple[tuple[str, str], ...]
    questions: tuple[str, ...]
    faults: tuple[str, ...]


def new_board(chip: Chip, answers: BoardAnswers) -> NewBoard:
    """Make the board file of a chip.

    Raises:
        InputError: the chip has a core that the SDK has no start-up for, or an answer is not as it must be.
    """
    isa = isa_of_cpu(chip.cpu)
    if isa is None:
        raise InputError(
            f"no start-up code for the core {chip.core}",
            where=chip.name,
            hint="On Zephyr: --platform zephyr --board " + (chip.zephyr_boards[:1] or ("NAME",))[0],
        )
    cpu = isa.cpu(chip.cpu)
    family = family_of(chip.name)
    own_uart = answers.driver is not None
    used, others = _memories(chip)
    ram = sum(memory.size_bytes for memory in used if memory.kind == "ram")
    fpu = family.fpu if family is not None else "none"
    clock_hz, clock = _clock(chip, family, answers)
    uart = _uart(family, answers)
    name = answers.name or f"my-{chip.name}"
    row: dict[str, Any] = {
        "name": name,
        "title": f"Board with {chip.title}",
        "cpu": chip.cpu,
        "fpu": fpu,
        "float_abi": "soft" if fpu == "none" else "hard",
        "dsp": bool(cpu is not None and cpu.dsp is not False and "+nodsp" not in chip.cpu),
        "clock_hz": clock_hz,
        "stack_bytes": 4096 if ram > _SMALL_RAM else 1024,
    }
    large = ram >= _LARGE_RAM and uart["irq"] is not None
    questions = tuple(_questions(chip, family, answers, fpus=cpu.fpus if cpu is not None else (), uart=uart))
    text = (
        environment()
        .get_template(_TEMPLATE)
        .render(
            chip=chip.name,
            row=row,
            clock=clock,
            sources=_sources(chip, family if not own_uart else None),
            questions=questions,
            memories=used,
            others=others,
            init=() if family is None or own_uart else family.init,
            second_stage=() if family is None else family.second_stage,
            uart=uart,
            pins="" if family is None or own_uart else family.pins,
            interrupts_base=not isa.interrupts.is_fixed,
            rpc={"max_payload": 4096, "window_bytes": 8192}
            if large
            else {"max_payload": 512, "window_bytes": 0},
        )
    )
    known = (
        ("core", f"{chip.cpu}, FPU {fpu}"),
        ("memories", ", ".join(f"{m.name} {m.size_bytes:,} B" for m in used)),
        ("clock", f"{clock_hz:,} Hz: {clock}" if clock_hz else "not known"),
        (
            "UART",
            f"{uart['driver']} at {uart['base']:#x}" if uart["driver"] and uart["base"] else "not known",
        ),
    )
    return NewBoard(name=name, text=text, known=known, questions=questions, faults=_faults(text))


def _memories(chip: Chip) -> tuple[list[ChipMemory], list[tuple[ChipMemory, str]]]:
    """Memories that the file states, the largest of each kind first, and others with the reason."""
    largest = sorted(chip.memories, key=lambda m: -m.size_bytes)
    used = [m for kind in ("flash", "ram") for m in largest if m.kind == kind]
    return used, [(m, "it is for code alone") for m in chip.memories if m.kind == "itcm"]


def _clock(chip: Chip, family: Family | None, answers: BoardAnswers) -> tuple[int | None, str]:
    """Rate of the core and what gives it; None: not known."""
    if answers.clock_hz is not None:
        return answers.clock_hz, "as stated"
    return (family.clock_hz, family.clock) if family is not None else (None, "")


def _uart(family: Family | None, answers: BoardAnswers) -> dict[str, Any]:
    """Fields of the console: the answers, else those of the family."""
    fields: dict[str, Any] = {
        "driver": answers.driver,
        "base": None,
        "irq": None,
        "max_baud": None,
        "baud": _BAUD,
    }
    if family is not None and answers.driver is None:
        fields |= {name: getattr(family.uart, name) for name in fields}
    stated = ("base", "irq", "tx_pin", "rx_pin", "baud")
    given = {name: value for name in stated if (value := getattr(answers, name)) is not None}
    if "baud" in given:
        fields["max_baud"] = None
    return {"tx_pin": None, "rx_pin": None, **fields, **given}


def _sources(chip: Chip, family: Family | None) -> Iterator[str]:
    """Lines that say where the facts are from."""
    yield f"Core: {chip.sources.get('core', 'not stated')}"
    for memory in chip.memories:
        yield f"Memory {memory.name}: {memory.source}"
    if family is not None:
        yield f"Console and clock: {family.source}"


def _questions(
    chip: Chip, family: Family | None, answers: BoardAnswers, *, fpus: Sequence[str], uart: dict[str, Any]
) -> Iterator[str]:
    """Open questions for the reader."""
    if family is None and answers.driver is None:
        yield "which UART is the console (driver, base, irq), and which writes switch on its clock and pins?"
    elif family is not None and answers.driver is None:
        yield from family.questions
    else:
        yield "which writes switch on the clock of the UART and select its pins? Add [[init]] tables."
    if family is None and answers.clock_hz is None:
        most = f" The chip's row states {chip.clock_hz:,} Hz, not after a reset." if chip.clock_hz else ""
        yield f"at which rate does the core run when main() is called (clock_hz, hz)?{most}"
    if fpus and family is None:
        yield f"has the chip an FPU (fpu: {', '.join(fpus)}; with float_abi hard)? The file states none."
    if any(m.external for m in chip.memories):
        yield "is the external memory that of your board, and does code run from it after a reset?"
    if uart["driver"] == "nrf51" and None in (uart["tx_pin"], uart["rx_pin"]):
        yield "which pins are tx_pin and rx_pin?"


def _faults(text: str) -> tuple[str, ...]:
    """Reasons that a file can't be used for as it is."""
    from mlf_sdk.tools.rowfaults import type_faults

    values = msgspec.toml.decode(text)
    faults = tuple(str(fault) for fault in type_faults(values, Board))
    return faults or tuple(row_faults(msgspec.convert(values, described(Board)), None))
