# SPDX-License-Identifier: Apache-2.0
"""Estimated cycles: classes and prices of instructions, branches that were taken, and a real profile."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import mlf_sdk
from cli_helpers import Caller
from mlf_sdk.analysis.elf.image import Function
from mlf_sdk.analysis.thumb.decode import decode_all
from mlf_sdk.errors import InputError
from mlf_sdk.judge.cycles import Estimator
from mlf_sdk.judge.timings import class_of, timings_of
from tflite_models import small_network

BASE = 0x1000


def halves(*words: int) -> bytes:
    return b"".join(word.to_bytes(2, "little") for word in words)


def code_of(data: bytes, cpu: str = "cortex-m4", wait_states: int = 0) -> Estimator:
    """An estimator of one function at BASE."""
    function = Function(names=("f",), address=BASE, end=BASE + len(data), limit=BASE + len(data))
    decoded = {one.address: one for one in decode_all(data, BASE)}
    image = SimpleNamespace(
        function_at=lambda address: function if BASE <= address < function.limit else None
    )
    code: Any = SimpleNamespace(image=image, instructions=lambda _: decoded)
    timings = timings_of(cpu)
    assert timings is not None
    return Estimator(code, timings, wait_states)


def counts(*numbers: int, sizes: tuple[int, ...] = ()) -> Mapping[int, int]:
    address, found = BASE, {}
    for index, number in enumerate(numbers):
        found[address] = number
        address += sizes[index] if sizes else 2
    return found


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ((0x1840,), "data"),  # adds r0, r0, r1
        ((0x6808,), "load"),  # ldr r0, [r1]
        ((0x6008,), "store"),  # str r0, [r1]
        ((0xC90C,), "multiple"),  # ldm r1!, {r2, r3}
        ((0xB510,), "multiple"),  # push {r4, lr}
        ((0xD0FE,), "branch"),  # beq
        ((0xD9FE,), "branch"),  # bls
        ((0xDBFE,), "branch"),  # blt
        ((0xB108,), "branch"),  # cbz
        ((0x4770,), "branch"),  # bx lr
        ((0x4780,), "call"),  # blx r0
        ((0xF000, 0xF800), "call"),  # bl
        ((0x4348,), "multiply"),  # muls r0, r1
        ((0xFB20, 0x1002), "multiply"),  # smlad r0, r0, r2, r1
        ((0xFB00, 0x1002), "multiply_accumulate"),  # mla
        ((0xFB81, 0x0203), "multiply_long"),  # smull
        ((0xFBC1, 0x0203), "multiply_long_accumulate"),  # smlal
        ((0xFB90, 0xF0F1), "divide"),  # sdiv
        ((0xE8DF, 0xF000), "table_branch"),  # tbb
        ((0xF3EF, 0x8010), "system"),  # mrs
        ((0xEE30, 0x0A20), "float"),  # vadd.f32
        ((0xEE00, 0x0A81), "float_multiply_accumulate"),  # vmla.f32
        ((0xEE80, 0x0A20), "float_divide"),  # vdiv.f32
        ((0xED91, 0x0A00), "float_load"),  # vldr
        ((0x4008,), "data"),  # ands, no branch
        ((0xEA20, 0x0001), "data"),  # bic, no branch
    ],
)
def test_classes(words: tuple[int, ...], name: str) -> None:
    (found,) = decode_all(halves(*words), BASE)
    assert class_of(found) == name


# movs r0, #10; loop: ldr r1, [r2]; ldr r3, [r4]; str r1, [r5, r0]; subs r0, #1; bne loop; pop {r4, pc}
LOOP = halves(0x200A, 0x6811, 0x6823, 0x5029, 0x3801, 0xD1FA, 0xBD10)


@pytest.mark.parametrize(
    ("cpu", "cycles"),
    [
        # once: movs, pop with the program counter; ten times: loads, store, subs; bne taken nine times
        ("cortex-m4", 1 + 10 * (2 + 1 + 2 + 1) + 9 * 3 + 1 + 3 + 2),
        ("cortex-m3", 1 + 10 * (2 + 1 + 2 + 1) + 9 * 3 + 1 + 3 + 2),
        ("cortex-m0", 1 + 10 * (2 + 2 + 2 + 1) + 9 * 3 + 1 + 4 + 2),
        ("cortex-m0plus", 1 + 10 * (2 + 2 + 2 + 1) + 9 * 2 + 1 + 3 + 2),
        ("cortex-m7", 1 + 10 * 4 + 10 + 2),
    ],
)
def test_a_loop(cpu: str, cycles: int) -> None:
    found = code_of(LOOP, cpu).estimate(counts(1, 10, 10, 10, 10, 10, 1))
    assert (found.taken, found.undecided, found.unknown) == (10, 0, 0)  # the return is one
    assert found.cycles == cycles
    assert found.instructions == {"branch": 10, "data": 11, "load": 20, "multiple": 1, "store": 10}


def test_wait_states() -> None:
    """Each word of code, and the word that each taken branch fetches anew."""
    plain = code_of(LOOP).estimate(counts(1, 10, 10, 10, 10, 10, 1))
    slow = code_of(LOOP, wait_states=3).estimate(counts(1, 10, 10, 10, 10, 10, 1))
    assert slow.waits == 3 * (52 * 2 // 4 + 10) and slow.cycles == plain.cycles + slow.waits


def test_a_load_that_needs_the_one_before() -> None:
    dependent = halves(0x6811, 0x680B)  # ldr r1, [r2]; ldr r3, [r1]
    assert code_of(dependent).estimate(counts(7, 7)).cycles == 7 * 4


def test_both_sides_of_a_condition() -> None:
    """beq over one instruction: 30 of 100 executions jump, as the instruction between was executed 70 times."""
    data = halves(0xD000, 0x3001, 0x3102)  # beq +4; adds r0, #1; adds r1, #2
    found = code_of(data).estimate(counts(100, 70, 100))
    assert found.taken == 30 and found.cycles == 70 * 1 + 30 * 3 + 70 + 100


def test_what_counts_leave_open_is_taken_and_said() -> None:
    """Two branches that nothing tells apart: each may go to either of two places that both reach."""
    data = halves(0xD002, 0xE002, 0xD000, 0xE000, 0x3001, 0x3102)
    # 0: beq 8; 2: b 10; 4: beq 8; 6: b 10; 8: adds; 10: adds
    found = code_of(data).estimate({BASE: 10, BASE + 2: 4, BASE + 4: 0, BASE + 8: 6, BASE + 10: 10})
    assert (found.taken, found.undecided) == (10, 0)
    jumps = halves(0xD000, 0x4770, 0x3001)  # beq over a return, whose target nothing was counted for
    found = code_of(jumps).estimate({BASE: 8, BASE + 2: 3, BASE + 4: 5})
    assert (found.taken, found.undecided) == (5 + 3, 0)
    crossed = halves(0xD002, 0xBF00, 0x4770, 0xD0FC, 0x4770)  # 0: beq 8; 2: nop, return; 6: beq 2; 8: return
    found = code_of(crossed).estimate(counts(10, 10, 10, 10, 10))
    assert (found.taken, found.undecided) == (40, 20)


def test_instructions_without_a_price() -> None:
    vector = halves(0xEF00, 0x0150, 0x3001)  # an instruction of Helium
    found = code_of(vector).estimate({BASE: 5, BASE + 4: 5})
    assert found.unknown in (0, 5) and found.cycles == 10


def test_tables_name_their_source() -> None:
    for core in (f"cortex-m{n}" for n in ("0", "0plus", "3", "33", "4", "7")):
        found = timings_of(core)
        assert found is not None and "TRM" in found.source.replace("Technical Reference Manual", "TRM")
    assert timings_of("cortex-m33+nodsp") is not None and timings_of("cortex-m55") is timings_of("") is None


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("network") / "small.tflite"
    path.write_bytes(small_network())
    return path


@pytest.mark.qemu
def test_a_profile_with_cycles(network: Path, capsys: pytest.CaptureFixture[str], needs_qemu: None) -> None:
    """QEMU's plugin alone says which instructions run."""
    plain = mlf_sdk.profile(network)
    assert plain.cycles is not None and plain.cycles.core == "cortex-m4"
    assert sum(plain.cycles.instructions.values()) == plain.total and plain.cycles.unknown == 0
    rows = [step.cycles or 0 for step in plain.steps]
    assert 0 < plain.cycles.cycles - sum(rows) < 2000
    assert all(plain.steps[i].cost <= cycles for i, cycles in enumerate(rows))
    result = Caller(capsys)("profile", network, "--wait-states", 4, "--json").value
    assert result["cycles"]["wait_states"] == 4
    words = sum(-(-step["work"]["params_bytes"] // 4) for step in result["steps"])
    assert result["cycles"]["waits"] == result["cycles"]["cycles"] - plain.cycles.cycles
    assert result["cycles"]["waits"] >= 4 * (words + plain.cycles.taken + plain.total // 2)
    assert json.dumps(result["cycles"]).count("Technical Reference Manual") == 1
    assert "estimate" in Caller(capsys)("profile", network).out


def test_wait_states_have_a_range(network: Path) -> None:
    with pytest.raises(InputError, match="invalid value 16"):
        mlf_sdk.profile(network, wait_states=16)
