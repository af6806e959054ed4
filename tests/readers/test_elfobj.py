# SPDX-License-Identifier: Apache-2.0
"""Object files: made by hand, made by compilers, broken in every way, and the real ones."""

import shutil
import struct
import subprocess
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfobjects import M0, M3, M4, M4F, M55, Elf, attributes
from mlf_sdk.analysis.elf import raw as rawelf
from mlf_sdk.analysis.elf.objects import check_object_against, read_object
from mlf_sdk.analysis.machine.workspaces import object_workspaces
from mlf_sdk.analysis.thumb import flow, objectcode
from mlf_sdk.errors import FaultCollector

SHARED = Path(__file__).resolve().parents[3] / "shared" / "mlf"
GCC = shutil.which("arm-none-eabi-gcc")
ALLOCATE = "TVMBackendAllocWorkspace"
CALL, ABS32 = 10, 2


def read(data: bytes):
    faults = FaultCollector("archive")
    info = read_object(data, "lib1.o", faults)
    assert (info is None) == bool(faults.faults)
    return info, [str(fault) for fault in faults.faults]


class TestReading:
    def test_symbols_sections_and_sites(self):
        elf = Elf(
            symbols=[
                ("local", 1, 2, 1),
                ("k", 1, 18, 1),
                ("weak", 1, 34, 1),
                (ALLOCATE, 0, 16, 0),
                ("common", 4, 17, 0xFFF2),
            ],
            relocations=[(0, CALL, 4)],
        )
        info, _ = read(elf.build())
        assert (info.machine, info.elf_class, info.isa) == ("ARM", 32, "thumb")
        assert info.defined == ("k", "weak", "common")
        assert info.strong == ("k", "common")
        assert info.undefined == (ALLOCATE,)
        assert info.allocates

    def test_attributes(self):
        found = read(Elf(tags={**M4F, 67: "2.09"}).build())[0].attributes
        assert (found.cpu_name, found.cpu_arch, found.fp_arch) == ("cortex-m4", "v7E-M", "VFPv4-D16")
        assert (found.vfp_args, found.single_precision_only, found.mve) == ("hard", True, 0)

    @pytest.mark.parametrize(
        ("tags", "expected"),
        [
            ({28: 1, 23: 3}, "hard"),
            ({28: 0, 23: 3}, "soft"),
            ({23: 3}, "soft"),
            ({}, None),
            ({28: 3, 23: 3}, None),
            ({28: 2, 23: 3}, None),
        ],
    )
    def test_how_floats_are_passed(self, tags, expected):
        assert read(Elf(tags={6: 13, **tags}).build())[0].attributes.vfp_args == expected

    def test_v7_is_v7m_only_with_its_profile(self):
        assert read(Elf(tags=M3).build())[0].attributes.cpu_arch == "v7-M"
        assert read(Elf(tags={6: 10, 7: ord("A")}).build())[0].attributes.cpu_arch == "v7"

    def test_an_architecture_that_nobody_knows(self):
        assert read(Elf(tags={6: 99}).build())[0].attributes.cpu_arch == "unknown (99)"

    def test_no_attributes(self):
        info, _ = read(Elf(tags=None).build())
        assert info.attributes is None
        assert check_object_against("cortex-m4", "", "soft", info) == [
            "it has no build attributes: its CPU is not stated"
        ]

    @pytest.mark.parametrize(
        ("content", "what"),
        [
            (b"B", "unknown version"),
            (b"A\x05", "cut off"),
            (b"A\0\0\0\0", "a length"),
            (b"A\x03\0\0\0", "a length"),
            (b"A\xff\xff\xff\xff", "a length"),
            (b"A\x09\0\0\0abcde", "does not end"),
            (attributes(M4)[:-3], "a length"),
            (b"A\x10\0\0\0aeabi\0\x01\0\0\0\0\0", "a length"),
            (b"A\x10\0\0\0aeabi\0\x01\xff\0\0\0\0", "a length"),
            (b"A\x0f\0\0\0aeabi\0\x01\x7f\0\0\0", "a length"),
            (b"A\x11\0\0\0aeabi\0\x01\x07\0\0\0\x05x", "does not end"),
            (b"A\x11\0\0\0aeabi\0\x01\x07\0\0\0\x06\xff", "does not end"),
            (b"A\x15\0\0\0aeabi\0\x01\x0b\0\0\0\x06\xff\xff\xff\xff\xff", "does not end"),
            (b"A\x0f\0\0\0aeabi\0\x01\x0f\0\0\0" + b"\x0a\0\0\0gnu\0\0\0", "beyond its section"),
            (attributes({2 * i: 0 for i in range(20, 300)}), "too many"),
        ],
    )
    def test_broken_attributes(self, content, what):
        info, faults = read(Elf().build(attribute_bytes=content))
        assert info is None
        assert what in faults[0]

    def test_attributes_of_other_vendors_and_scopes_are_passed_over(self):
        other = b"gnu\0\x01\x09\0\0\0\x06\x02\x07\x41"
        content = attributes(M4) + struct.pack("<I", len(other) + 4) + other
        assert read(Elf().build(attribute_bytes=content))[0].attributes.cpu_arch == "v7E-M"
        scoped = b"aeabi\0\x02\x07\0\0\0\x06\x0b"
        content = attributes(M4) + struct.pack("<I", len(scoped) + 4) + scoped
        assert read(Elf().build(attribute_bytes=content))[0].attributes.cpu_arch == "v7E-M"

    def test_compatibility_has_a_number_and_a_text(self):
        content = attributes(M4)
        body = content[16:] + b"\x20\x01gnu\0" + b"\x30\x02"
        group = b"\x01" + struct.pack("<I", len(body) + 5) + body
        content = b"A" + struct.pack("<I", len(group) + 10) + b"aeabi\0" + group
        assert read(Elf().build(attribute_bytes=content))[0].attributes.mve == 2


@pytest.mark.parametrize(
    ("board", "tags", "problems"),
    [
        (("cortex-m4", "fpv4-sp-d16", "hard"), M4F, []),
        (("cortex-m4", "fpv4-sp-d16", "hard"), M0, []),
        (("cortex-m4", "fpv4-sp-d16", "hard"), M4, ["integer registers"]),
        (("cortex-m4", "fpv4-sp-d16", "softfp"), M4, []),
        (("cortex-m4", "fpv4-sp-d16", "softfp"), M4F, ["FPU registers"]),
        (("cortex-m4", "", "soft"), M4F, ["no FPU", "FPU registers"]),
        (("cortex-m4", "fpv4-sp-d16", "hard"), {**M4F, 27: 0}, []),
        (("cortex-m4", "fpv4-sp-d16", "hard"), {**M4F, 10: 8}, ["does not have"]),
        (("cortex-m4", "fpv4-sp-d16", "hard"), {**M4F, 10: 3}, ["does not have"]),
        (("cortex-m7", "fpv5-d16", "hard"), {**M4F, 10: 8, 27: 0}, []),
        (("cortex-m33", "fpv5-sp-d16", "hard"), M4F, []),
        (("cortex-m55", "fpv5-d16", "hard"), M55, []),
        (("cortex-m33", "fpv5-sp-d16", "hard"), M55, ["v8.1-M.main", "MVE"]),
        (("cortex-m33+nodsp", "none", "soft"), {6: 17, 46: 1}, ["the DSP extension"]),
        (("cortex-m33", "none", "soft"), {6: 17, 46: 1}, []),
        (("cortex-m3", "none", "soft"), M4, ["v7E-M (made for cortex-m4)"]),
        (("cortex-m3", "none", "soft"), M3, []),
        (("cortex-m0", "none", "soft"), M3, ["v7-M"]),
        (("cortex-m0", "none", "soft"), M0, []),
        (("cortex-m0", "none", "soft"), {6: 4}, ["v5TE"]),
        (("cortex-m23", "none", "soft"), {6: 16}, []),
        (("cortex-m23", "none", "soft"), M3, ["v7-M"]),
        (("cortex-m4", "none", "soft"), {**M4, 8: 1}, ["Thumb only"]),
        (("cortex-m4+nofp", "none", "soft"), M4, []),
        (("cortex-a9", "none", "soft"), M4, ["not known"]),
    ],
)
def test_what_a_board_can_link(board, tags, problems):
    info, _ = read(Elf(tags=tags).build())
    found = check_object_against(*board, info)
    assert len(found) == len(problems)
    assert all(part in text for part, text in zip(problems, found, strict=True))


VADD_F64, VADD_F32 = b"\x30\xee\x00\x0b", b"\x30\xee\x00\x0a"
VCVT_F64_F32 = b"\xb7\xee\xc0\x0a"
VMOV_TO_SCALAR = b"\x00\xee\x10\x0b"  # vmov.32 d0[0], r0: there on every FPU
BX_LR = b"\x70\x47"


@pytest.mark.parametrize(
    ("text", "marks", "problems"),
    [
        (VADD_F32 + BX_LR, [], []),
        (BX_LR + VADD_F64, [], ["for double"]),
        (VCVT_F64_F32, [], ["for double"]),
        (VMOV_TO_SCALAR + BX_LR, [], []),
        (BX_LR + b"\0\0" + VADD_F64, [("$t", 0, 0, 1), ("$d.1", 4, 0, 1)], []),
        (VADD_F32 + VADD_F64, [("$d", 0, 0, 1), ("$t", 4, 0, 1)], ["for double"]),
        (VADD_F64[:2], [], []),
    ],
)
def test_double_is_told_by_the_code_where_the_attributes_allow_it(text, marks, problems):
    """An FPU for float runs code that might use double, and uses none."""
    info, _ = read(Elf(text=text, tags={**M4F, 27: 0}, symbols=[("k", 1, 18, 1), *marks]).build())
    found = check_object_against("cortex-m4", "fpv4-sp-d16", "hard", info)
    assert len(found) == len(problems)
    assert all(part in text for part, text in zip(problems, found, strict=True))
    said, _ = read(Elf(text=text, tags=M4F).build())
    assert not said.computes_in_double  # single precision only, by its attributes


@pytest.mark.parametrize(
    ("elf", "text"),
    [
        (Elf(machine=62), "32-bit x86-64 file"),
        (Elf(machine=183), "32-bit AArch64 file"),
        (Elf(machine=7), "32-bit machine 7 file"),
        (Elf(type=2), "32-bit ARM file"),
    ],
)
def test_other_machines_are_read_and_refused(elf, text):
    info, _ = read(elf.build())
    assert not info.isa
    assert text in check_object_against("cortex-m4", "", "soft", info)[0]
    assert object_workspaces(elf.build()) == {}


class TestHostile:
    sound = Elf(tags=M4F, symbols=[("k", 1, 18, 1), (ALLOCATE, 0, 16, 0)], relocations=[(0, CALL, 2)]).build()

    def test_cut_off_anywhere(self):
        for length in range(len(self.sound)):
            info, faults = read(self.sound[:length])
            assert info is None
            assert faults[0].startswith("lib1.o: the object file is broken: ")
            assert object_workspaces(self.sound[:length]) == {}

    def test_any_byte_changed(self):
        for offset in range(len(self.sound)):
            for value in (0, 1, 0x7F, 0xFF):
                data = self.sound[:offset] + bytes([value]) + self.sound[offset + 1 :]
                read(data)
                object_workspaces(data)

    @given(
        st.lists(st.tuples(st.integers(0, 2000), st.binary(min_size=1, max_size=8)), max_size=6),
        st.binary(max_size=64),
    )
    @settings(max_examples=200, deadline=None)
    def test_any_bytes_changed(self, changes, tail):
        data = bytearray(self.sound)
        for offset, new in changes:
            at = offset % len(data)
            data[at : at + len(new)] = new
        read(bytes(data) + tail)
        object_workspaces(bytes(data) + tail)

    @given(st.binary(max_size=600))
    @settings(max_examples=100, deadline=None)
    def test_any_bytes(self, data):
        read(data)
        read(b"\x7fELF\x01\x01" + data)

    def patched(self, section: int, column: int, value: int) -> bytes:
        table = struct.unpack_from("<I", self.sound, 32)[0]
        data = bytearray(self.sound)
        struct.pack_into("<I", data, table + 40 * section + 4 * column, value)
        return bytes(data)

    @pytest.mark.parametrize(
        ("section", "column", "value", "what"),
        [
            (1, 4, 0xFFFFFFFF, "beyond its end"),
            (1, 5, 0xFFFFFFFF, "beyond its end"),
            (1, 0, 0xFFFF, "outside its string table"),
            (2, 9, 0, "relocation section is malformed"),
            (2, 9, 12, "relocation section is malformed"),
            (2, 5, 7, "relocation section is malformed"),
            (2, 7, 99, "relocation section is malformed"),
            (3, 9, 0, "symbol table is malformed"),
            (3, 5, 17, "symbol table is malformed"),
            (3, 6, 99, "symbol names are missing"),
            (4, 1, 2, "symbol table is malformed"),
            (4, 5, 0, "outside its string table"),
        ],
    )
    def test_section_rows(self, section, column, value, what):
        info, faults = read(self.patched(section, column, value))
        assert info is None
        assert what in faults[0]

    @pytest.mark.parametrize(
        ("offset", "value", "what"),
        [
            (32, b"\xff\xff\xff\xff", "section table lies beyond"),
            (46, b"\x00\x00", "no usable section table"),
            (48, b"\x00\x00", "no usable section table"),
            (48, b"\xff\xff", "no usable section table"),
            (50, b"\xff\x00", "section names are missing"),
            (4, b"\x03", "neither 32 nor 64 bit"),
            (5, b"\x00", "unknown byte order"),
            (4, b"\x02", "section table"),
            (5, b"\x02", "section table"),
        ],
    )
    def test_header(self, offset, value, what):
        data = self.sound[:offset] + value + self.sound[offset + len(value) :]
        assert what in read(data)[1][0]

    def test_a_symbol_in_no_section(self):
        assert "section that does not exist" in read(Elf(symbols=[("k", 1, 18, 99)]).build())[1][0]

    def test_a_relocation_of_no_symbol(self):
        assert "symbol that does not exist" in read(Elf(relocations=[(0, CALL, 9)]).build())[1][0]

    @pytest.mark.parametrize(
        ("limit", "what"), [("MAX_SYMBOLS", "symbols"), ("MAX_RELOCATIONS", "relocations")]
    )
    def test_too_many(self, limit, what, monkeypatch):
        monkeypatch.setattr(rawelf, limit, 0)
        assert what in read(self.sound)[1][0]

    def test_a_name_without_end(self):
        assert "does not end" in read(Elf(symbols=[("k" * 5000, 1, 18, 1)]).build())[1][0]

    def test_names_that_are_not_ascii(self):
        assert read(Elf(symbols=[("kö", 1, 18, 1)]).build())[0].defined == ("k\ufffd\ufffd",)


# Machine code by hand: what the constant tracking has to see through, and where it must give up.
PUSH, POP, BX = b"\x10\xb5", b"\x10\xbd", b"\x70\x47"  # push {r4, lr}; pop {r4, pc}; bx lr
BL = b"\xff\xf7\xfe\xff"
R2_64, R2_32, R3_0 = b"\x40\x22", b"\x20\x22", b"\x00\x23"  # movs r2, #64; movs r2, #32; movs r3, #0
SYMBOLS = [("k", 1, 18, 1), (ALLOCATE, 0, 16, 0), ("TVMBackendFreeWorkspace", 0, 16, 0), ("helper", 0, 16, 0)]
SYMBOLS += [("tvmgen_other", 0, 16, 0), ("TVMFuncCall", 0, 16, 0), ("TVMBackendParallelLaunch", 0, 16, 0)]


def workspace(*parts: bytes | str, symbols: tuple = (), start: int = 1):
    """Assemble: bytes as they are, a str is a call of that symbol."""
    text, relocations = b"", []
    known = [*SYMBOLS, *symbols]
    known[0] = ("k", start, 18, 1)
    for part in parts:
        if isinstance(part, str):
            relocations.append((len(text), CALL, 1 + [s[0] for s in known].index(part)))
            part = BL
        text += part
    return object_workspaces(Elf(text=text, symbols=known, relocations=relocations).build())["k"]


FREE = "TVMBackendFreeWorkspace"


class TestMachineCode:
    def test_one_request(self):
        found = workspace(PUSH, R2_64, R3_0, ALLOCATE, FREE, POP)
        assert (found.slots, found.exact, found.reason) == ((64,), True, "")

    def test_two_nested_and_one_after(self):
        found = workspace(
            PUSH, R2_64, R3_0, ALLOCATE, R2_32, R3_0, ALLOCATE, FREE, FREE, R2_32, R3_0, ALLOCATE, FREE, POP
        )
        assert found.slots == (64, 32)

    def test_none(self):
        assert workspace(PUSH, "helper", POP).slots == ()
        assert workspace(BX).exact

    @pytest.mark.parametrize(
        ("code", "size"),
        [
            (b"\x4f\xf4\x13\x62", 2352),  # mov.w r2, #2352
            (b"\x49\xf2\x80\x02", 0x9080),  # movw r2, #0x9080
            (b"\x49\xf2\x80\x02\xc0\xf2\x01\x02", 0x19080),  # movw; movt r2, #1
            (b"\x40\x25\x2a\x46", 64),  # movs r5, #64; mov r2, r5
            (b"\x40\x22\x92\x01", 4096),  # movs r2, #64; lsls r2, r2, #6
            (b"\x40\x22\x08\x32", 72),  # movs r2, #64; adds r2, #8
            (b"\x40\x22\x01\x3a", 63),  # movs r2, #64; subs r2, #1
            (b"\x6f\xf0\x00\x42", 0x7FFFFFFF),  # mvn r2, #0x80000000
        ],
    )
    def test_ways_to_make_a_constant(self, code, size):
        found = workspace(PUSH, code, R3_0, ALLOCATE, FREE, POP)
        assert (found.slots, found.reason) == ((size,), "")

    def test_a_constant_beside_the_code(self):
        # ldr r2, [pc, #12] at 2: the word at 4 + 12
        code = PUSH + b"\x03\x4a" + R3_0
        found = workspace(code, ALLOCATE, FREE, POP, struct.pack("<I", 123_456))
        assert found.slots == (123_456,)

    @pytest.mark.parametrize(
        ("parts", "reason"),
        [
            ((PUSH, R3_0, ALLOCATE, FREE, POP), "not a constant"),
            ((PUSH, R2_64, ALLOCATE, FREE, POP), "not a constant"),
            ((PUSH, R2_64, b"\x01\x23", ALLOCATE, FREE, POP), "not a constant"),  # movs r3, #1
            ((PUSH, R2_64, R3_0, "helper", ALLOCATE, FREE, POP), "not a constant"),
            (
                (PUSH, R2_64, b"\x00\xb1", R2_32, R3_0, ALLOCATE, FREE, POP),
                "not a constant",
            ),  # cbz r0 over it
            ((PUSH, R2_64, b"\x0a\x68", R3_0, ALLOCATE, FREE, POP), "not a constant"),  # ldr r2, [r1]
            (
                (PUSH, R2_64, b"\x08\xbf\x20\x22", R3_0, ALLOCATE, FREE, POP),
                "not a constant",
            ),  # it eq; moveq r2
            ((PUSH, FREE, R2_64, R3_0, ALLOCATE, POP), "frees more"),
            ((PUSH, R2_64, R3_0, ALLOCATE, POP), "never frees"),
            ((PUSH, R2_64, R3_0, ALLOCATE, b"\xfa\xe7"), "pair with its frees"),  # b to the first load
            ((PUSH, R2_64, R3_0, ALLOCATE, "tvmgen_other", FREE, POP), "tvmgen_other"),
            ((PUSH, R2_64, R3_0, ALLOCATE, "TVMFuncCall", FREE, POP), "TVMFuncCall"),
            ((PUSH, R2_64, R3_0, ALLOCATE, "TVMBackendParallelLaunch", FREE, POP), "unknown task"),
            ((PUSH, R2_64, R3_0, ALLOCATE, b"\x88\x47", FREE, POP), "through a pointer"),  # blx r1
            ((PUSH, R2_64, R3_0, ALLOCATE, FREE, b"\x08\x47"), "through a pointer"),  # bx r1
            ((PUSH, R2_64, R3_0, ALLOCATE, FREE, b"\x8f\x46"), "table or a register"),  # mov pc, r1
            ((PUSH, R2_64, R3_0, ALLOCATE, FREE, b"\xdf\xe8\x00\xf0"), "table or a register"),  # tbb
            ((PUSH, R2_64, R3_0, ALLOCATE, FREE, b"\xff\xff\xff\xff"), "no instruction"),
            ((PUSH, R2_64, R3_0, ALLOCATE, FREE), "leaves the code"),
            ((PUSH, R2_64, R3_0, b"\x08\xbf", ALLOCATE, FREE, POP), "depends on a condition"),  # it eq
            ((PUSH, b"\xff\x4a", R3_0, ALLOCATE, FREE, POP), "not a constant"),  # ldr r2 from beyond the end
            ((PUSH, R2_64, R3_0, ALLOCATE, "k", FREE, POP), "calls itself"),
        ],
    )
    def test_what_cannot_be_told(self, parts, reason):
        found = workspace(*parts)
        assert (found.exact, found.slots) == (False, ())
        assert reason in found.reason

    def test_code_that_is_not_thumb(self):
        assert "not Thumb" in workspace(PUSH, R2_64, R3_0, ALLOCATE, FREE, POP, start=0).reason

    def test_the_way_out_on_failure_may_leave_a_request_open(self):
        # cbz r0 to the pop behind the free
        assert workspace(PUSH, R2_64, R3_0, ALLOCATE, b"\x08\xb1", FREE, POP).slots == (64,)

    def test_a_loop_with_a_request(self):
        # loop: movs r2; movs r3; bl alloc; bl free; cmp r0, #0; bne loop
        found = workspace(PUSH, R2_64, R3_0, ALLOCATE, FREE, b"\x00\x28\xf7\xd1", POP)
        assert (found.slots, found.reason) == ((64,), "")

    def test_a_local_function_by_its_place(self):
        # bl to offset 8 with no relocation: push at 0, bl at 2, pop at 6
        found = workspace(PUSH, b"\x00\xf0\x01\xf8", POP, PUSH, R2_64, R3_0, ALLOCATE, FREE, POP)
        assert found.slots == (64,)

    def test_a_local_function_by_its_symbol_and_as_a_tail(self):
        # b.n to a function symbol at offset 2, called with nothing open
        found = workspace(b"\xff\xe7", PUSH, R2_64, R3_0, ALLOCATE, FREE, POP, symbols=(("local", 3, 2, 1),))
        assert found.slots == (64,)

    def test_a_trap_is_no_way_out(self):
        # cbz r0 over the trap
        assert workspace(PUSH, R2_64, R3_0, ALLOCATE, FREE, b"\x00\xb1", b"\x00\xde", POP).slots == (64,)

    def test_calls_that_nest_too_deeply(self):
        link = PUSH + b"\x00\xf0\x01\xf8" + POP  # calls what follows it
        inner = (PUSH, R2_64, R3_0, ALLOCATE, FREE, POP)
        assert workspace(link * 60, *inner).slots == (64,)
        assert "too deeply" in workspace(link * 70, *inner).reason

    @pytest.mark.parametrize(("module", "limit"), [(objectcode, "MAX_INSTRUCTIONS"), (flow, "MAX_VISITS")])
    def test_too_much_code(self, module, limit, monkeypatch):
        monkeypatch.setattr(module, limit, 5)
        found = workspace(PUSH, R2_64, R3_0, ALLOCATE, FREE, POP)
        assert not found.exact
        assert "object has" in found.reason

    def test_too_large_to_lay_out(self, monkeypatch):
        monkeypatch.setattr(objectcode, "FIRST_UNDEFINED", objectcode.FIRST_ADDRESS + 64)
        found = workspace(PUSH, R2_64, R3_0, ALLOCATE, FREE, POP)
        assert (found.exact, found.reason) == (False, "the object is too large")

    @pytest.mark.parametrize(
        ("kind", "slots", "reason"),
        [(ABS32, (64,), ""), (3, None, "it hands an unknown task to the runtime")],  # 3: R_ARM_REL32
    )
    def test_a_task_by_its_symbol(self, kind, slots, reason):
        # ldr r0, [pc, #8] (word at 12) with the linker's address of the task at 16
        parts = (PUSH, b"\x02\x48", "TVMBackendParallelLaunch", POP, b"\0\0", b"\0\0\0\0")
        task = PUSH + R2_64 + R3_0 + BL + BL + POP
        text = b"".join(BL if isinstance(part, str) else part for part in parts) + task
        at = len(text) - len(task)
        symbols = [*SYMBOLS, ("task", at + 1, 2, 1)]
        names = [symbol[0] for symbol in symbols]
        relocations = [
            (4, CALL, 1 + names.index("TVMBackendParallelLaunch")),
            (at + 6, CALL, 1 + names.index(ALLOCATE)),
            (at + 10, CALL, 1 + names.index(FREE)),
            (12, kind, 1 + names.index("task")),
        ]
        found = object_workspaces(Elf(text=text, symbols=symbols, relocations=relocations).build())["k"]
        assert found.reason == reason
        assert found.exact is not bool(reason)
        assert slots is None or found.slots == slots

    def test_a_task_for_the_runtime(self):
        # ldr r0, [pc, #8] (word at 12); add r0, pc (4 + 4); bl launch; pop; word; task at 16
        launch = PUSH + b"\x02\x48" + b"\x78\x44"
        word = struct.pack("<I", 16 + 1 - 8)
        task = (PUSH, R2_64, R3_0, ALLOCATE, FREE, POP)
        assert workspace(launch, "TVMBackendParallelLaunch", POP, word, *task).slots == (64,)


KERNELS = """
#include <stddef.h>
#include <stdint.h>
void* TVMBackendAllocWorkspace(int, int, uint64_t, int, int);
int TVMBackendFreeWorkspace(int, int, void*);
float expf(float);
int32_t plain(float* x) { x[0] = expf(x[1]); return 0; }
__attribute__((noinline)) static int32_t inner(float* x) {
  void* c = TVMBackendAllocWorkspace(1, 0, (uint64_t)70000, 2, 32);
  if (c == NULL) { return -1; }
  ((float*)c)[0] = x[0];
  for (int i = 0; i < 99; ++i) { ((float*)c)[i + 1] = ((float*)c)[i] * x[i]; }
  x[0] = ((float*)c)[99];
  if (TVMBackendFreeWorkspace(1, 0, c) != 0) { return -1; }
  return 0;
}
int32_t nested(float* x) {
  void* a = TVMBackendAllocWorkspace(1, 0, (uint64_t)24192, 2, 32);
  if (a == NULL) { return -1; }
  for (int k = 0; k < 3; ++k) {
    void* b = TVMBackendAllocWorkspace(1, 0, (uint64_t)100, 2, 32);
    if (b == NULL) { return -1; }
    ((float*)b)[k] = ((float*)a)[k];
    if (inner(b) != 0) { return -1; }
    if (TVMBackendFreeWorkspace(1, 0, b) != 0) { return -1; }
  }
  x[0] = ((float*)a)[0];
  if (TVMBackendFreeWorkspace(1, 0, a) != 0) { return -1; }
  return inner(x);
}
int32_t unknown(float* x, unsigned n) {
  void* a = TVMBackendAllocWorkspace(1, 0, n, 2, 32);
  x[0] = ((float*)a)[0];
  return TVMBackendFreeWorkspace(1, 0, a);
}
"""


@pytest.mark.toolchain
@pytest.mark.skipif(GCC is None, reason="arm-none-eabi-gcc is not installed")
class TestCompiled:
    def build(self, tmp_path: Path, *flags: str, compiler: str = str(GCC)) -> bytes:
        source, target = tmp_path / "a.c", tmp_path / "a.o"
        source.write_text(KERNELS)
        subprocess.run([compiler, "-c", *flags, str(source), "-o", str(target)], check=True, timeout=60)
        return target.read_bytes()

    @pytest.mark.parametrize(
        "cpu", ["cortex-m0", "cortex-m3", "cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55"]
    )
    @pytest.mark.parametrize("level", ["-O0", "-O2", "-Os -ffunction-sections", "-O1 -mlong-calls"])
    def test_workspaces(self, tmp_path, cpu, level):
        data = self.build(tmp_path, f"-mcpu={cpu}", "-mthumb", "-mfloat-abi=soft", *level.split())
        found = object_workspaces(data)
        assert set(found) == {"plain", "nested", "unknown"}
        assert (found["plain"].slots, found["plain"].exact) == ((), True)
        assert (found["nested"].slots, found["nested"].reason) == ((70000, 100, 70000), "")
        assert not found["unknown"].exact
        info, _ = read(data)
        assert check_object_against(cpu, "", "soft", info) == []
        assert set(info.strong) == {"plain", "nested", "unknown"}

    @pytest.mark.parametrize(
        ("cpu", "fpu"),
        [("cortex-m4", "fpv4-sp-d16"), ("cortex-m7", "fpv5-d16"), ("cortex-m33", "fpv5-sp-d16")],
    )
    def test_what_gcc_makes_fits_the_board_it_is_for(self, tmp_path, cpu, fpu):
        info, _ = read(
            self.build(tmp_path, f"-mcpu={cpu}", "-mthumb", f"-mfpu={fpu}", "-mfloat-abi=hard", "-O2")
        )
        assert check_object_against(cpu, fpu, "hard", info) == []
        assert len(check_object_against(cpu, "", "soft", info)) == 2
        assert len(check_object_against("cortex-m0", "", "soft", info)) == 3

    @pytest.mark.skipif(shutil.which("gcc") is None, reason="the host has no gcc")
    def test_an_object_of_the_host_is_refused(self, tmp_path):
        data = self.build(tmp_path, "-O2", compiler="gcc")
        info, _ = read(data)
        assert (info.elf_class, info.isa) == (64, "")
        assert "plain" in info.defined
        assert len(check_object_against("cortex-m4", "fpv4-sp-d16", "hard", info)) == 1
        assert object_workspaces(data) == {}

    def test_a_big_endian_object_is_no_match(self, tmp_path):
        data = self.build(tmp_path, "-mcpu=cortex-m3", "-mthumb", "-mbig-endian", "-O2")
        info, _ = read(data)
        assert not info.isa
        assert info.attributes.cpu_arch == "v7-M"


def real_objects(name: str) -> dict[str, bytes]:
    with tarfile.open(SHARED / name) as tar:
        return {
            Path(member.name).name: tar.extractfile(member).read()
            for member in tar
            if member.name.endswith(".o")
        }


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="the real archives are not there: ../shared/mlf")
@pytest.mark.parametrize("version", ["0.8.0", "0.11.1"])
class TestRealArchives:
    def test_two_in_two_out(self, version):
        objects = real_objects(f"two_in_two_out-llvmgraph-tvm{version}.tar")
        found = object_workspaces(objects["two_in_two_out_lib1.o"])
        assert len(found) == 8
        assert all(workspace.exact for workspace in found.values())
        wanted = "tvmgen_two_in_two_out_fused_nn_contrib_conv2d_NCHWc_nn_relu"
        assert {name: w.slots for name, w in found.items() if w.slots} == {wanted: (2352,)}

    def test_conv1d(self, version):
        objects = real_objects(f"conv1d-llvmgraph-tvm{version}.tar")
        found = object_workspaces(objects["conv1d_lib1.o"])
        assert len(found) == 4
        assert all((workspace.exact, workspace.slots) == (True, ()) for workspace in found.values())

    @pytest.mark.parametrize("model", ["conv1d", "two_in_two_out"])
    def test_they_are_for_a_cortex_m4f(self, version, model):
        for name, data in real_objects(f"{model}-llvmgraph-tvm{version}.tar").items():
            info, faults = read(data)
            assert faults == []
            assert info.attributes.cpu_name == "cortex-m4", name
            assert check_object_against("cortex-m4", "fpv4-sp-d16", "hard", info) == []
            assert len(check_object_against("cortex-m3", "", "soft", info)) == 3
            assert ("TVMSystemLibEntryPoint" in info.strong) is name.endswith("lib0.o")
