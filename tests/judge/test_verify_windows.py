# SPDX-License-Identifier: Apache-2.0
"""Windows of counted instructions: where functions return to, and what only interrupts run."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlf_sdk.analysis.elf.image import Image
from mlf_sdk.analysis.elf.read import read_image
from mlf_sdk.judge.windows import function_window, handlers, kernel_window, returns_of
from mlf_sdk.tools.process import run_process

SOURCE = """\
    .syntax unified
    .cpu cortex-m4
    .thumb
    .macro function name
    .global \\name
    .type \\name, %function
    .thumb_func
\\name:
    .endm
    .global mlf_vectors
    .type mlf_vectors, %object
mlf_vectors: .word 0x20001000, main, 0, tick
    .size mlf_vectors, 16
    function main
    push {r3, lr}
    bl mlf_run
after_run:
    ldr r3, =mlf_run
    blx r3
after_register:
    bl near
after_near:
    bl shared
    pop {r3, pc}
    function mlf_run
    push {r4, lr}
    bl shared
    cmp r0, #0
    it eq
    moveq r0, #1
    blx r4
after_kernel:
    pop {r4, pc}
    function near
    nop
    b.w mlf_run
    function far_condition
    cmp r0, #0
    beq.w near
    bx lr
    function shared
    bx lr
    function tick
    push {r3, lr}
    bl shared
    bl only_tick
    pop {r3, pc}
    function only_tick
    b deeper
    function deeper
    bx lr
    function lonely
    bx lr
    .ltorg
"""

pytestmark = [pytest.mark.toolchain, pytest.mark.usefixtures("needs_arm")]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    folder = tmp_path_factory.mktemp("windows")
    (folder / "a.s").write_text(SOURCE)
    argv = ["arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb", "-nostdlib", "-Wl,-Ttext=0x1000,--entry=main"]
    run_process([*argv, "a.s", "-o", "a.elf"], cwd=folder, timeout_s=30)
    return read_image(folder / "a.elf")


def places(image: Image, *names: str) -> set[int]:
    found = [image.find(name) for name in names]
    return {symbol.address & ~1 for symbol in found if symbol is not None}


def test_a_function_returns_behind_its_calls_and_those_of_what_jumps_to_it(image: Image) -> None:
    """A call through a register with a known address is direct; ``near`` ends with a jump."""
    window = function_window(image, "mlf_run", window="all")
    assert (window.name, window.begin) == ("all", image.address_of("mlf_run"))
    assert set(window.ends) == places(image, "after_run", "after_register", "after_near")
    assert len(window.ends) == 3
    assert set(returns_of(image, image.address_of("near"))) == places(image, "after_near")


def test_a_kernel_is_called_through_a_register(image: Image) -> None:
    window = kernel_window(image)
    assert set(window.ends) == places(image, "after_kernel")
    assert window.begin == window.ends[0] - 2


def test_windows_that_are_not_there(image: Image) -> None:
    with pytest.raises(LookupError, match="calls lonely"):
        function_window(image, "lonely")
    with pytest.raises(LookupError, match="no function none"):
        function_window(image, "none")


def test_functions_that_only_interrupts_run(image: Image) -> None:
    """``shared`` is called by main as well; ``deeper`` by ``only_tick`` alone."""
    assert handlers(image) == {"tick", "only_tick", "deeper"}


def test_image_without_vectors_has_no_handlers(image: Image, tmp_path: Path) -> None:
    path = tmp_path / "a.elf"
    run_process(["arm-none-eabi-objcopy", "-N", "mlf_vectors", str(image.path), str(path)], timeout_s=30)
    assert handlers(read_image(path)) == frozenset()
