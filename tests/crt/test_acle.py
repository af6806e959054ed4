# SPDX-License-Identifier: Apache-2.0
"""Arm's intrinsics on the host: known results, and kernels that use them give what they give on a core."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from archives import write
from ccode import CRT
from model_cases import Net

pytestmark = pytest.mark.toolchain
# From the definitions in Arm's Architecture Reference Manual.
KNOWN = {
    "__ror(0x80000001u, 4)": 0x18000000,
    "__clz(0x00010000u)": 15,
    "__ssat(300, 8)": 127,
    "__ssat(-300, 8)": -128 & 0xFFFFFFFF,
    "__usat(-5, 8)": 0,
    "__qadd(INT32_MAX, 1)": 0x7FFFFFFF,
    "__qsub(INT32_MIN, 1)": 0x80000000,
    "__smulbt(0x00030002, (int32_t)0xFFFF0005)": -2 & 0xFFFFFFFF,
    "__smlad(0x00030002, 0x00050007, 100)": 2 * 7 + 3 * 5 + 100,
    "__smladx(0x00030002, 0x00050007, 100)": 2 * 5 + 3 * 7 + 100,
    "__smlsd(0x00030002, 0x00050007, 100)": 2 * 7 - 3 * 5 + 100,
    "__smuad((int32_t)0x80008000, (int32_t)0x80008000)": 0x80000000,
    "__sxtb16(0x12FE3481)": 0xFFFEFF81,
    "__uxtb16(0x12FE3481u)": 0x00FE0081,
    "__sxtab16(0x00010002, 0x00FE0081)": 0xFFFFFF83,
    "__pkhbt(0x11112222u, 0x33334444u, 16)": 0x44442222,
    "__pkhtb(0x11112222u, 0x83334444u, 16)": 0x11118333,
    "__qadd8(0x7F80017F, 0x01FF0201)": 0x7F80037F,
    "__qsub16((int32_t)0x80000005, 0x00010007)": 0x8000FFFE,
    "(__ssub8(0x05050505, 0x06050400), __sel(0xAAAAAAAAu, 0xBBBBBBBBu))": 0xBBAAAAAA,
    "(__sadd16(0x00010001, (int32_t)0xFFFE0001), __sel(0xAAAAAAAAu, 0xBBBBBBBBu))": 0xBBBBAAAA,
}


@pytest.mark.parametrize("standard", ["c99", "gnu11"])
def test_known_results(standard: str, tmp_path: Path, needs_cc: str) -> None:
    lines = "\n".join(f'  printf("%x\\n", (unsigned)({call}));' for call in KNOWN)
    text = f"#include <arm_acle.h>\n#include <stdio.h>\nint main(void) {{\n{lines}\n  return 0;\n}}\n"
    (tmp_path / "main.c").write_text(text)
    flags = [f"-std={standard}", "-Wall", "-Wextra", "-Wno-unused-value", "-Werror", "-fsanitize=undefined"]
    command = [needs_cc, *flags, f"-I{CRT / 'acle'}", "main.c", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    said = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert not said.stderr
    assert dict(zip(KNOWN, (int(x, 16) for x in said.stdout.split()), strict=True)) == KNOWN


def archive(folder: Path) -> Path:
    """One kernel that packs, multiplies and adds with intrinsics, as those of TVM for a Cortex-M do."""
    net = Net()
    x = net.input("x", (1, 8), "int32")
    packed = "__sxtb16((int32_t)__ror((uint32_t)in0[i], 8)), b = __sxtb16(in0[i])"
    y = net.call("dsp", [x], "simd(in0[i])")
    symbol = net.symbol("dsp")
    assembly = '__asm("pkhbt %0, %1, %2, lsl #16" : "=r"(r) : "r"(a), "r"(b));'
    net.kernels[symbol] = (
        "#include <arm_acle.h>\n#ifndef ARM_CPU_INTRINSICS_EXIST\n#define ARM_CPU_INTRINSICS_EXIST\n"
        "static uint32_t pack(uint32_t a, uint32_t b) { uint32_t r; " + assembly + " return r; }\n"
        "#define __pkhbt(a, b, count) pack(a, b)\n"
        "static uint32_t __ror(uint32_t v, uint32_t n) { return (v >> n) | (v << (32u - n)); }\n#endif\n"
        f"static int32_t simd(int32_t v) {{ int32_t in0[1] = {{v}}, i = 0, a = {packed};\n"
        "  return __smlad((int32_t)__pkhbt((uint32_t)b, (uint32_t)a, 16), a, __ssat(v, 9)); }\n"
        + net.kernels[symbol]
    )
    return write(net.files(y), folder / "dsp.tar")


def test_a_kernel_on_the_host(tmp_path: Path, needs_cc: str) -> None:
    x = np.random.default_rng(0).integers(-(2**31), 2**31, (1, 8)).astype(np.int32)
    found = mlf_sdk.run(archive(tmp_path), board="host", inputs={"x": x})
    (y,) = found.outputs.values()
    for value, got in zip(x[0], np.asarray(y).reshape(-1), strict=True):
        b = np.array([value]).view(np.int8).astype(np.int64)
        wanted = b[0] * b[1] + b[1] * b[3] + max(-256, min(255, int(value)))
        assert int(got) == wanted


@pytest.mark.qemu
def test_a_kernel_on_a_core_and_on_the_host(tmp_path: Path, needs_qemu: None) -> None:
    x = np.random.default_rng(1).integers(-(2**31), 2**31, (1, 8)).astype(np.int32)
    assert mlf_sdk.run(archive(tmp_path), board="mps2-an386", inputs={"x": x}).ok


@pytest.mark.parametrize("cpu", ["cortex-m0plus", "cortex-m4", "cortex-m55"])
def test_a_cortex_m_has_its_compilers_own(cpu: str, needs_arm: None) -> None:
    said = preprocessed(["arm-none-eabi-gcc", f"-mcpu={cpu}", "-mfloat-abi=soft"])
    assert "__ssat" in said or "__builtin_arm_ssat" in said
    assert "mlf_acle_" not in said


def test_another_architecture_has_them_in_plain_c(needs_riscv_qemu: None) -> None:
    assert "mlf_acle_within((x)" in preprocessed(
        ["riscv64-unknown-elf-gcc", "-march=rv32imac", "-mabi=ilp32", "--specs=picolibc.specs"]
    )


def preprocessed(compiler: list[str]) -> str:
    """Text and macros after the header that CMSIS-NN takes for CMSIS-Core's."""
    command = [*compiler, "-fsyntax-only", "-E", "-dD", f"-I{CRT / 'acle'}", f"-I{CRT / 'cmsis'}", "-xc", "-"]
    text = "#include <cmsis_compiler.h>\n"
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
