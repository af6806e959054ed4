# SPDX-License-Identifier: Apache-2.0
"""RISC-V: attributes of objects against boards, instructions against binutils' disassembler, the stack of functions."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from elfobjects import Elf, attributes
from mlf_sdk.analysis.elf.objects import check_object_against, read_object
from mlf_sdk.analysis.elf.read import read_image
from mlf_sdk.analysis.machine.registry import machine_code
from mlf_sdk.analysis.machine.workspaces import object_workspaces
from mlf_sdk.analysis.riscv import decode
from mlf_sdk.analysis.riscv.attributes import RiscvAttributes
from mlf_sdk.analysis.riscv.code import RiscvCode
from mlf_sdk.analysis.riscv.faults import describe_status, fault_kind, probable_cause
from mlf_sdk.errors import FaultCollector
from mlf_sdk.tools.process import run_process

GCC = "riscv64-unknown-elf-gcc"
needs_gcc = [
    pytest.mark.toolchain,
    pytest.mark.skipif(shutil.which(GCC) is None, reason=f"{GCC} is not installed"),
]
RISCV = 243


def riscv_object(arch: str | None, **more) -> bytes:
    tags = attributes({4: 16, 5: arch} if arch is not None else {4: 16})
    return Elf(machine=RISCV, **more).build(attribute_bytes=tags.replace(b"aeabi\0", b"riscv\0"))


def info_of(data: bytes):
    faults = FaultCollector("archive")
    found = read_object(data, "a.o", faults)
    assert not faults.faults
    assert found is not None
    return found


class TestObjects:
    def test_attributes(self):
        info = info_of(riscv_object("rv32i2p1_m2p0_a2p1_c2p0_zicsr2p0"))
        assert (info.machine, info.isa, info.computes_in_double) == ("RISC-V", "rv32", False)
        assert info.attributes.target == "rv32i_m_a_c_zicsr"
        assert info.attributes.extensions == {"m", "a", "c", "zicsr"}
        assert not info.attributes.has_fpu_registers

    @pytest.mark.parametrize(
        ("arch", "cpu", "problems"),
        [
            ("rv32i2p1_m2p0_a2p1_c2p0_zicsr2p0_zmmul1p0", "rv32imac", []),
            ("rv32i2p0_m2p0", "rv32imac", []),
            ("rv32imc", "rv32imc", []),
            ("rv32i2p1_a2p1", "rv32imc", ["it uses the extension A, which a rv32imc does not have"]),
            (
                "rv32i2p1_m2p0_f2p2_d2p2_c2p0_zba1p0",
                "rv32imac",
                ["it uses the extensions D, F, Zba, which a rv32imac does not have"],
            ),
            ("rv32g2p0", "rv32imac", ["it uses the extensions D, F, which a rv32imac does not have"]),
            ("rv32i2p0_m2p0_zve32x1p0_zvl32b1p0", "rv32imac_zve32x", []),
            (
                "rv32i2p0_m2p0_zve32x1p0_zvl32b1p0",
                "rv32imac",
                ["it uses the extension Zve32x, which a rv32imac does not have"],
            ),
            ("rv32e1p9_m2p0", "rv32imac", ["it is code for RV32E, which a rv32imac does not run"]),
            ("rv64i2p1_m2p0", "rv32imac", ["it is code for RV64I, which a rv32imac does not run"]),
            ("sparc", "rv32imac", ["its instruction sets are not stated"]),
            (None, "rv32imac", ["its instruction sets are not stated"]),
        ],
    )
    def test_against_a_board(self, arch, cpu, problems):
        assert check_object_against(cpu, "none", "soft", info_of(riscv_object(arch))) == problems

    def test_floats(self):
        found = info_of(riscv_object("rv32i2p1_m2p0_f2p2_d2p2"))
        assert found.attributes.has_fpu_registers
        assert found.attributes.may_use_fpu() and found.attributes.may_use_fpu(for_double=True)
        assert found.computes_in_double
        assert RiscvAttributes(arch="").target == "RISC-V"
        assert RiscvAttributes(arch="").extensions == frozenset()

    def test_the_wrong_machine_is_refused_by_name(self):
        arm, riscv = info_of(Elf().build()), info_of(riscv_object("rv32imac"))
        assert check_object_against("rv32imac", "none", "soft", arm) == [
            "it is a 32-bit ARM file, not a 32-bit little-endian RISC-V object"
        ]
        assert check_object_against("cortex-m4", "none", "soft", riscv) == [
            "it is a 32-bit RISC-V file, not a 32-bit little-endian ARM object"
        ]

    def test_an_object_without_attributes(self):
        bare = info_of(Elf(machine=RISCV, tags=None).build())
        assert check_object_against("rv32imac", "none", "soft", bare) == [
            "it has no build attributes: its CPU is not stated"
        ]

    def test_workspaces(self):
        """Requests are not followed: a function of an object that may ask has no known workspace."""
        symbols = [("k", 1, 18, 1), ("TVMBackendAllocWorkspace", 0, 16, 0)]
        asks = riscv_object("rv32imac", symbols=symbols, relocations=[(0, 18, 2)])
        (found,) = object_workspaces(asks).values()
        assert (found.exact, found.slots, "RISC-V" in found.reason) == (False, (), True)
        (found,) = object_workspaces(riscv_object("rv32imac")).values()
        assert (found.exact, found.slots) == (True, ())


@pytest.mark.parametrize(
    ("cause", "kind", "says"),
    [
        (0, "instruction-misaligned", "jump to 0x80000100, which is not code: invalid"),
        (1, "instruction-access-fault", "jump to 0x80000100"),
        (
            2,
            "illegal-instruction",
            "undefined instruction (fadd.s fa0, fa0, fa1): code built for another CPU",
        ),
        (3, "breakpoint", "stopped itself (fadd.s fa0, fa0, fa1)"),
        (4, "load-misaligned", "unaligned access to 0x00000010"),
        (5, "load-access-fault", "access to 0x00000010, where there is no memory: null pointer"),
        (7, "store-access-fault", "access to 0x00000010"),
        (11, "ecall", ""),
        (24, "unexpected-exception", ""),
        (0x8000000B, "unexpected-exception", ""),
    ],
)
def test_causes(cause, kind, says):
    registers = {"pc": 0x80000100, "mcause": cause, "mtval": 0x10}
    assert fault_kind("trap", None, registers) == kind
    found = probable_cause(kind, registers, instruction="fadd.s fa0, fa0, fa1", in_code=True)
    assert (says in found) if says else not found
    assert len(describe_status(registers)) == (cause != 24)


SOURCE = r"""
typedef int (*function)(int);
int one(int x) { return x + 1; }
int two(int x) { return x * 3; }
static int used(volatile int *p) { return p[0]; }
static int buffer(int x) { volatile int all[40]; all[x] = x; return used(all) + all[39]; }
static const function table[] = {one, two};
int by_table(int n) { return table[n](n); }
function variable = one;
int by_variable(int n) { volatile int local[8]; local[n] = n; return variable(n) + local[0]; }
int large(int n) { volatile char all[6000]; all[n] = 1; return buffer(n) + all[5999]; }
int recursive(int n) { return n == 0 ? 0 : recursive(n - 1) + buffer(n); }
int by_switch(int n) {
  switch (n) {
    case 0: return one(n);
    case 1: return buffer(n);
    case 2: return n * 7;
    case 3: return n ^ 21;
    case 4: return n / 3;
    case 5: return large(n);
    case 6: return n << 4;
    default: return -1;
  }
}
int variable_length(int n) { volatile char all[n]; all[0] = 1; return all[0] + one(n); }
double widen(double x) { return x * 1.5; }
int _start(int n) {
  return by_table(n) + by_variable(n) + by_switch(n) + recursive(n) + variable_length(n) + (int)widen(n);
}
"""


@pytest.fixture(scope="module", params=["-O0", "-O2", "-Os", "-O2 -mcmodel=medany"])
def linked(request, tmp_path_factory) -> tuple[RiscvCode, dict[str, int], Path]:
    """An image, and the frames of its functions as the compiler says them (-fstack-usage)."""
    folder = tmp_path_factory.mktemp("riscv")
    (folder / "a.c").write_text(SOURCE)
    flags = [
        "-march=rv32imac",
        "-mabi=ilp32",
        *request.param.split(),
        "-fno-inline",
        "-fstack-usage",
        "-fno-ipa-cp",
    ]
    run_process(
        [GCC, *flags, "-fno-optimize-sibling-calls", "-c", "a.c", "-o", "a.o"], cwd=folder, timeout_s=60
    )
    link = ["-nostdlib", "-Wl,-Ttext=0x80000100", "-Wl,--gc-sections", "a.o", "-lgcc", "-o", "a.elf"]
    run_process([GCC, *flags[:2], *link], cwd=folder, timeout_s=60)
    rows = (line.split("\t") for line in (folder / "a.su").read_text().splitlines())
    frames = {name.rpartition(":")[2]: int(size) for name, size, _ in rows}
    code = machine_code(read_image(folder / "a.elf"))
    assert isinstance(code, RiscvCode)
    return code, frames, folder / "a.elf"


class TestCode:
    pytestmark = needs_gcc

    def test_frames_are_those_of_the_compiler(self, linked):
        code, frames, _ = linked
        for name, size in frames.items():
            found = code.frame(code.image.address_of(name.partition(".")[0]))
            assert found is not None
            if name == "variable_length":
                assert any("only known at run time" in why for why in found.unknown)
            else:
                assert (found.bytes, found.unknown) == (size, ()), name

    def test_calls(self, linked):
        code, _, _ = linked

        def called(name: str) -> set[str]:
            frame = code.frame(code.image.address_of(name))
            return {code.functions[call.target].name for call in frame.calls if call.target is not None}

        assert {"one", "buffer", "large"} <= called("by_switch")
        assert "recursive" in called("recursive")
        assert "__muldf3" in called("widen")
        (call,) = [c for c in code.frame(code.image.address_of("by_table")).calls if c.target is None]
        table = code.image.find("table")
        assert call.table is not None and table.address <= call.table < table.end
        assert code.pointers(table.address, table.end) == {code.image.address_of(n) for n in ("one", "two")}
        (call,) = [c for c in code.frame(code.image.address_of("by_variable")).calls if c.target is None]
        assert code.call_before(call.after) == call

    def test_instructions_are_those_of_the_disassembler(self, linked):
        code, _, elf = linked
        said = run_process(
            ["riscv64-unknown-elf-objdump", "-d", "-M", "no-aliases,numeric", str(elf)], timeout_s=60
        )
        checked = 0
        for line in said.stdout.splitlines():
            row = re.match(r"\s*([0-9a-f]+):\t([0-9a-f]+)\s+\t(\S+)\s*(\S*)", line)
            if row is None:
                continue
            address, text, operands = int(row[1], 16), row[3].removeprefix("c."), row[4].split(",")
            function = code.function_at(address)
            found = code.instructions(function)[address]
            assert found.size == len(row[2]) // 2, line
            checked += self.agrees(found, text, operands, line)
        assert checked > 300

    def agrees(self, found: decode.Instruction, text: str, operands: list[str], line: str) -> bool:
        """Compare what matters of an instruction; False: nothing does."""
        if text in ("j", "jal", "beqz", "bnez", "beq", "bne", "blt", "bge", "bltu", "bgeu"):
            assert (found.kind, found.target) == (
                "jal" if text[0] == "j" else "branch",
                int(operands[-1], 16),
            ), line
        elif text in ("jr", "jalr"):
            is_call = text == "jalr" and (len(operands) == 1 or operands[0] in ("x1", "x5"))
            assert (found.kind, found.is_call) == ("jalr", is_call), line
        elif text in ("addi", "addi16sp", "addi4spn", "li", "lw", "lwsp"):
            assert found.kind == ("load" if text.startswith("lw") else "addi"), line
            assert f"x{found.rd}" == operands[0], line
            assert found.imm == int(operands[-1].partition("(")[0], 0), line
        elif text == "lui":
            assert (found.kind, found.imm >> 12 & 0xFFFFF) == ("lui", int(operands[1], 0)), line
        elif text in ("sw", "swsp", "sb", "sh"):
            assert (found.kind, found.imm) == ("store", int(operands[1].partition("(")[0], 0)), line
        elif text in ("add", "mv", "sub"):
            assert found.kind == {"mv": "addi"}.get(text, text), line
        else:
            assert found.kind in ("other", "slli", "auipc", "trap", "mret"), line
            return False
        return True

    def test_disassembly(self, linked):
        code, _, _ = linked
        assert code.text_at(code.image.address_of("one")).split()[0] in ("c.addi", "addi", "c.addi16sp")
        assert code.text_at(0x10) == ""
        assert code.frame(0x10) is None


class TestSections:
    pytestmark = needs_gcc

    @pytest.mark.parametrize(("flags", "writable"), [(5, False), (7, True)])
    def test_constants_beside_what_claims_to_be_writable(self, flags, writable, tmp_path):
        """An output section is flagged as any of its parts; the segment that holds it decides."""
        (tmp_path / "a.S").write_text(
            '.global _start\n_start: j _start\n.section .rodata.tvm, "aw"\n.word 1\n'
        )
        script = "PHDRS { code PT_LOAD FLAGS(%d); } SECTIONS { .text : { *(.text) } :code .rodata : { *(.rodata.*) } :code }"
        (tmp_path / "a.ld").write_text(script % flags)
        argv = [GCC, "-march=rv32imac", "-mabi=ilp32", "-nostdlib", "-T", "a.ld", "a.S", "-o", "a.elf"]
        run_process(argv, cwd=tmp_path, timeout_s=60)
        sections = {section.name: section for section in read_image(tmp_path / "a.elf").sections}
        assert (sections[".text"].writable, sections[".rodata"].writable) == (False, writable)


START = """
.text
.global _start
.type _start, @function
_start:
  lui sp, %hi({value})
  addi sp, {base}, %lo({value})
1: j 1b
.size _start, . - _start
.section .stack, "aw", @nobits
  .space {below}
.global __mlf_stack_top
__mlf_stack_top:
  .space 16
"""


class TestStartUp:
    pytestmark = needs_gcc

    @pytest.mark.parametrize("below", [0x800, 0x1000])
    @pytest.mark.parametrize(
        ("value", "base", "known"),
        [
            ("__mlf_stack_top", "sp", True),
            ("__mlf_stack_top - 8", "sp", False),
            ("__mlf_stack_top", "t0", False),
        ],
    )
    def test_the_stack_pointer_of_start_up_in_two_parts(self, below, value, base, known, tmp_path):
        (tmp_path / "a.S").write_text(START.format(value=value, base=base, below=below))
        argv = [GCC, "-march=rv32imac", "-mabi=ilp32", "-nostdlib", "-Wl,--section-start=.stack=0x80010000"]
        run_process([*argv, "-Wl,-Ttext=0x80000100", "a.S", "-o", "a.elf"], cwd=tmp_path, timeout_s=60)
        code = machine_code(read_image(tmp_path / "a.elf"))
        assert isinstance(code, RiscvCode)
        frame = code.frame(code.image.address_of("_start"))
        assert frame is not None and (frame.unknown == ()) == known


UPPER_PART = """
.text
.global _start
.type _start, @function
_start:
  lui a5, %hi(other)
  addi a5, a5, {low}
1: j 1b
.size _start, . - _start
.org 0xf00
.type other, @function
other:
  ret
.size other, . - other
.org 0x1000
.global between
.type between, @function
between:
  ret
.size between, . - between
"""


class TestUpperPart:
    pytestmark = needs_gcc

    @pytest.mark.parametrize(("low", "taken"), [("%lo(other)", "other"), ("0", "between")])
    def test_the_upper_part_of_an_address_takes_no_function(self, low, taken, tmp_path):
        """0x80000f00 is 0x80001000 less 0x100: what lies at 0x80001000 is not what is meant."""
        (tmp_path / "a.S").write_text(UPPER_PART.format(low=low))
        argv = [GCC, "-march=rv32imac", "-mabi=ilp32", "-nostdlib", "-Wl,--no-relax", "-Wl,-Ttext=0x80000000"]
        run_process([*argv, "a.S", "-o", "a.elf"], cwd=tmp_path, timeout_s=60)
        code = machine_code(read_image(tmp_path / "a.elf"))
        assert isinstance(code, RiscvCode)
        frame = code.frame(code.image.address_of("_start"))
        assert frame is not None
        assert [code.functions[address].name for address in frame.taken] == [taken]


def test_code_of_64_bits_is_not_read(tmp_path):
    """Its instructions are others, under the same number of a machine."""
    if shutil.which(GCC) is None:
        pytest.skip(f"{GCC} is not installed")
    (tmp_path / "a.c").write_text("int _start(void) { return 0; }\n")
    run_process(
        [GCC, "-march=rv64imac", "-mabi=lp64", "-nostdlib", "a.c", "-o", "a.elf"], cwd=tmp_path, timeout_s=60
    )
    image = read_image(tmp_path / "a.elf")
    assert (image.machine, image.isa, machine_code(image)) == ("EM_RISCV", None, None)
