# SPDX-License-Identifier: Apache-2.0
"""Board rows: the SDK's own, a user's, and every way in which one can be wrong."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import msgspec
import pytest

from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.errors import InputError
from mlf_sdk.resources import data_dir
from mlf_sdk.targets.baremetal import BaremetalTarget
from mlf_sdk.targets.boards.check import row_faults
from mlf_sdk.targets.boards.isa import board_flags, isa_of
from mlf_sdk.targets.boards.load import (
    baremetal_context,
    find_board,
    load_board,
    load_boards,
    load_machines,
    machine_of,
)
from mlf_sdk.tools.isas import load_isas
from mlf_sdk.tools.process import run_process

ROWS = load_boards()
EMULATED = [name for name, row in ROWS.items() if row.qemu is not None]

ROW = """
name = "mine"
title = "My board"
cpu = "cortex-m4"
fpu = "fpv4-sp-d16"
float_abi = "hard"
dsp = true
clock_hz = 64_000_000
stack_bytes = 4096

[[memories]]
name = "flash"
kind = "flash"
origin = 0x0800_0000
size_bytes = 0x0010_0000

[[memories]]
name = "ram"
kind = "ram"
origin = 0x2000_0000
size_bytes = 0x0004_0000

[uart]
driver = "cmsdk"
base = 0x4000_4000

[counter]
hz = 64_000_000
"""
MORE_RAM = '[[memories]]\nname = "ccm"\nkind = "ram"\norigin = {origin}\nsize_bytes = {size}\n[uart]'
QEMU = '\n[qemu]\nmachine = "mps2-an386"\n'
ON_QEMU = ROW.replace("0x0800_0000", "0").replace("64_000_000", "25_000_000") + QEMU


def write(folder: Path, text: str) -> Path:
    path = folder / "row.toml"
    path.write_text(text)
    return path


class TestOwnRows:
    def test_all_that_are_promised(self):
        promised = {"mps2-an385", "mps2-an386", "mps2-an500", "mps2-an505", "mps2-an521", "mps3-an547"}
        assert promised | {"microbit", "host"} <= set(ROWS)
        assert list(ROWS) == sorted(ROWS)
        cpus = {row.cpu.split("+")[0] for row in ROWS.values() if row.qemu}
        arm = {f"cortex-m{n}" for n in ("0", "3", "4", "7", "33", "55")}
        assert cpus == arm | {"rv32imac", "rv32imc", "rv32imac_zve32x"}

    def test_each_file_has_its_boards_name(self):
        folder = data_dir("board_templates") / "boards"
        assert {path.stem for path in folder.glob("*.toml")} == set(ROWS)

    @pytest.mark.parametrize("name", EMULATED)
    def test_each_is_checked_against_its_machine(self, name):
        row = ROWS[name]
        assert row.qemu is not None
        machine = load_machines()[row.isa, row.qemu.machine]
        broken = msgspec.structs.replace(row, counter=msgspec.structs.replace(row.counter, hz=1_000))
        assert row_faults(row, machine) == []
        fault = f"counter.hz: the counter of QEMU's {row.qemu.machine} counts at {machine.counter_hz}"
        assert row_faults(broken, machine) == ([] if machine.counter_fixed else [fault])

    def test_each_machine_has_its_file(self):
        assert len(load_machines()) == len([*(data_dir("qemu") / "machines").glob("*.toml")])
        assert {(ROWS[name].isa, ROWS[name].qemu.machine) for name in EMULATED} == set(load_machines())

    def test_the_large_models_fit_where_they_are_run(self):
        row = ROWS["mps2-an386"]
        assert row.flash.size_bytes >= 2_600_000
        assert row.ram.size_bytes >= 210_000

    def test_the_drivers_exist(self):
        for row in ROWS.values():
            if row.uart is not None:
                assert (data_dir("crt") / "baremetal" / f"uart_{row.uart.driver}.c").is_file()

    def test_the_host(self):
        host = ROWS["host"]
        assert (host.platform, host.memories, host.qemu) == ("host", (), None)
        with pytest.raises(InputError, match="has no flash"):
            _ = host.flash
        with pytest.raises(InputError, match="not for bare metal"):
            baremetal_context(host)


class TestFind:
    def test_by_name(self):
        assert find_board("mps2-an386") == ROWS["mps2-an386"]

    @pytest.mark.parametrize(
        ("name", "hint"),
        [
            ("mps2-an368", "Did you mean mps2-an386"),
            ("MICROBIT", "Did you mean microbit?"),
            ("", "Known: bluepill, hifive1, host"),
        ],
    )
    def test_a_wrong_name(self, name, hint):
        with pytest.raises(InputError, match="there is no board") as caught:
            find_board(name)
        assert caught.value.hint.startswith(hint)
        assert caught.value.exit_code == 2

    def test_a_users_board(self, tmp_path):
        own = write(tmp_path, ROW)
        row = find_board("mine", own)
        assert (row.platform, row.uart.baud, row.rpc.max_payload) == ("baremetal", 115_200, 1024)
        assert (row.flash.origin, row.ram.end) == (0x08000000, 0x20040000)
        assert set(load_boards(own)) == {*ROWS, "mine"}
        with pytest.raises(InputError, match="there is no board"):
            find_board("mine")

    def test_a_users_row_goes_before_the_sdks(self, tmp_path):
        own = write(tmp_path, ROW.replace('"mine"', '"mps2-an385"'))
        assert find_board("mps2-an385", own).title == "My board"

    def test_rows_are_decoded_once_and_an_edited_file_again(self, tmp_path):
        own = write(tmp_path, ROW)
        first = find_board("mine", own)
        assert find_board("mine", own) is first
        write(tmp_path, ROW.replace("My board", "My other"))
        assert find_board("mine", own).title == "My other"

    def test_one_for_a_machine_that_is_known(self, tmp_path):
        assert load_board(write(tmp_path, ON_QEMU)).qemu is not None

    def test_one_for_a_machine_that_is_not_known(self, tmp_path):
        text = ROW + QEMU.replace("mps2-an386", "netduino2")
        assert load_board(write(tmp_path, text)).qemu.machine == "netduino2"


BROKEN = {
    # what is replaced, by what, what the error must say
    "syntax": ('name = "mine"', "name = ", "Invalid value|Expected|invalid"),
    "unknown key": ("dsp = true", "dsp = true\nspeed = 3", r"speed: unknown key; Known: name, title"),
    "unknown key below": ("[counter]", "[counter]\nwidth = 24", r"counter\.width: unknown key"),
    "missing key": ('title = "My board"', "", "title: it is missing"),
    "wrong type": (
        "0x0004_0000",
        '"big"',
        r"memories\[1\].size_bytes: Expected `int`, got `str`; it is 'big'",
    ),
    "negative": ("origin = 0x2000_0000", "origin = -8", r"memories\[1\].origin: "),
    "too large": ("origin = 0x2000_0000", "origin = 0x1_0000_0000", r"memories\[1\].origin: "),
    "no size": ("0x0004_0000", "0", r"memories\[1\].size_bytes: "),
    "name": ('"mine"', '"../mine"', "name: "),
    "name with a line end": ('"mine"', '"mine\\n"', "name: "),
    "quote in the title": ('"My board"', "'My \"board'", "title: "),
    "memory name": ('name = "ram"', 'name = "r m"', r"memories\[1\].name: "),
    "driver": ('"cmsdk"', '"laser"', r"uart.driver: "),
    "float_abi": ('"hard"', '"softish"', "float_abi: "),
    "odd stack": ("4096", "4100", "stack_bytes: "),
    "huge": ('title = "My board"', "title = '" + "x" * 70_000 + "'", "longer than 65,536 bytes"),
    "past the end": ("0x2000_0000", "0xFFFF_0000", r"memories\[1\]: it ends beyond the address space"),
    "uneven": ("0x2000_0000", "0x2000_0001", r"memories\[1\]: origin and size must be multiples of 8"),
    "section": ('name = "ram"', 'name = "bss"', r"memories\[1\].name: 'bss' is the name of a section"),
    "same name": ('name = "ram"', 'name = "flash"', r"memories\[1\].name: memories\[0\] has the name"),
    "overlap": (
        "[uart]",
        MORE_RAM.format(origin="0x2003_FFF8", size=64),
        r"memories\[2\]: it overlaps memories\[1\] \(ram\)",
    ),
    "no ram": ('kind = "ram"', 'kind = "flash"', "needs one of kind 'ram'"),
    "no flash": ('kind = "flash"', 'kind = "ram"', "needs one of kind 'flash'"),
    "two boot": ("size_bytes = ", "boot = true\nsize_bytes = ", "only one can have boot"),
    "boot ram": ("size_bytes = 0x0004", "boot = true\nsize_bytes = 0x0004", "must be of kind 'flash'"),
    "boot place": ("0x0800_0000", "0x0800_0040", "must start at a multiple of 128"),
    "stack fills": ("0x0004_0000", "4096", "the stack fills the RAM"),
    "cpu": ('"cortex-m4"', '"cortex-a9"', "cpu: 'cortex-a9' is not known; known: .*cortex-m0"),
    "fpu": (
        '"fpv4-sp-d16"',
        '"fpv5-d16"',
        "fpu: a cortex-m4 can have auto, fpv4-sp-d16, none; not 'fpv5-d16'",
    ),
    "hard without fpu": ('"fpv4-sp-d16"', '"none"', "float_abi: 'hard' needs an FPU"),
    "nofp": ('"cortex-m4"', '"cortex-m4+nofp"', "without one"),
    "dsp": ("dsp = true", "dsp = false", "dsp: false, but code for cortex-m4 uses DSP instructions"),
    "no clock": ("clock_hz = 64_000_000", "", "clock_hz: it is missing"),
    "counter too fast": ("\nhz = 64_000_000", "\nhz = 64_000_001", "counter.hz: it is above clock_hz"),
    "no counter": ("[counter]\nhz = 64_000_000", "", "counter: it is missing"),
    "no uart": ('[uart]\ndriver = "cmsdk"\nbase = 0x4000_4000', "", "uart: it is missing"),
    "baud": ('"cmsdk"', '"cmsdk"\nbaud = 5_000_000', "uart.baud: it is above 4,000,000"),
    "pins": ('"cmsdk"', '"nrf51"\ntx_pin = 1', "needs tx_pin and rx_pin"),
    "max baud": ('"cmsdk"', '"cmsdk"\nmax_baud = 5_000_000', "uart.max_baud: it is above 4,000,000"),
    "less": ('"cmsdk"', '"cmsdk"\nmax_baud = 9600', "uart.max_baud: it is below baud"),
    "window": ("[counter]", "[rpc]\nwindow_bytes = 100\n[counter]", "rpc.window_bytes: it needs uart.irq"),
    "no interrupts": ("[counter]", "[interrupts]\ncount = 0\n[counter]", r"interrupts.count: "),
    "handler name": (
        "[counter]",
        '[interrupts]\ncount = 9\n[interrupts.handlers]\n"TIMER0" = 8\n[counter]',
        r"interrupts.handlers",
    ),
    "handler number": (
        "[counter]",
        "[interrupts]\ncount = 8\n[interrupts.handlers]\nTIMER0_Handler = 8\n[counter]",
        r"interrupts.handlers.TIMER0_Handler: 8 is not below interrupts.count \(8\)",
    ),
    "handler of the core": (
        "[counter]",
        "[interrupts]\ncount = 8\n[interrupts.handlers]\nSVC_Handler = 1\n[counter]",
        "interrupts.handlers.SVC_Handler: this is an exception of the core",
    ),
    "handlers of one number": (
        "[counter]",
        "[interrupts]\ncount = 8\n[interrupts.handlers]\nA_Handler = 1\nB_Handler = 1\n[counter]",
        "interrupts.handlers: two handlers have the same number",
    ),
    "uart's interrupt": (
        "[counter]",
        "irq = 8\n[interrupts]\ncount = 8\n[counter]",
        r"uart.irq: 8 is not below interrupts.count \(8\)",
    ),
    "caches": ("dsp = true", "dsp = true\ncaches = true", "caches: a cortex-m4 has none"),
    "nrf baud": ('"cmsdk"', '"nrf51"\ntx_pin = 1\nrx_pin = 2\nbaud = 2_000_000', "above 1,000,000"),
    "host": ('title = "My board"', 'title = "My board"\nplatform = "host"', "memories: the host has none"),
}
BROKEN_ON_QEMU = {
    "cpu": (
        '"cortex-m4"\nfpu = "fpv4-sp-d16"',
        '"cortex-m7"\nfpu = "fpv5-d16"',
        "cpu: QEMU's mps2-an386 has a",
    ),
    "flash": ("0x0010_0000", "0x1000_0000", r"memories\[0\]: QEMU's mps2-an386 has no memory at all of 0x0"),
    "ram": ("0x2000_0000", "0x6000_0000", r"memories\[1\]: QEMU's mps2-an386 has no writable memory"),
    "counter": (
        "\nhz = 25_000_000",
        "\nhz = 24_000_000",
        "counter.hz: the counter of QEMU's mps2-an386 counts at",
    ),
    "uart": ("0x4000_4000", "0x4000_8000", "uart: QEMU's mps2-an386 has no cmsdk UART at 0x40008000"),
    "serial": ("[qemu]", "[qemu]\nserial_index = 1", "as its serial port 1"),
    "key": ("[qemu]", "[qemu]\ndisplay = 1", r"qemu\.display: unknown key"),
    "fpu": ("mps2-an386", "mps2-an521", "fpu: the CPU of QEMU's mps2-an521 has none"),
    "dsp": ("mps2-an386", "mps2-an385", "dsp: the CPU of QEMU's mps2-an385 has no DSP"),
}


class TestBroken:
    @pytest.mark.parametrize("case", BROKEN)
    def test_row(self, case, tmp_path):
        old, new, message = BROKEN[case]
        self.refused(ROW, old, new, message, tmp_path)

    @pytest.mark.parametrize("case", BROKEN_ON_QEMU)
    def test_row_for_qemu(self, case, tmp_path):
        old, new, message = BROKEN_ON_QEMU[case]
        self.refused(ON_QEMU, old, new, message, tmp_path)

    def refused(self, text, old, new, message, folder):
        load_board(write(folder, text))  # the one that is changed is good
        assert old in text
        path = write(folder, text.replace(old, new))
        with pytest.raises(InputError, match=message) as caught:
            load_board(path)
        assert caught.value.where == str(path)

    def test_all_faults_are_told_at_once(self, tmp_path):
        text = ROW.replace('"cortex-m4"', '"z80"').replace("clock_hz = 64_000_000", "")
        with pytest.raises(InputError) as caught:
            load_board(write(tmp_path, text))
        assert "cpu: " in caught.value.what
        assert "clock_hz: " in caught.value.what
        assert "counter.hz: " in caught.value.what

    def test_faults_of_types_keys_and_ranges_are_told_at_once(self, tmp_path):
        text = ROW
        for old, new in (
            ('title = "My board"', ""),
            ("clock_hz = 64_000_000", 'clock_hz = "fast"'),
            ("origin = 0x0800_0000", "origin = -8"),
            ('kind = "ram"', 'kind = "rom"'),
            ('driver = "cmsdk"', 'driver = "cmsdk"\nbuad = 9600\ntx_pin = 256'),
            ("[counter]", "[interrupts]\ncount = 4\n[interrupts.handlers]\nTIMER = 1\n[counter]"),
        ):
            assert old in text
            text = text.replace(old, new)
        with pytest.raises(InputError) as caught:
            load_board(write(tmp_path, text))
        told = caught.value.what.splitlines()[1:]
        assert [line.strip().partition(": ")[0] for line in told] == [
            "clock_hz",
            "memories[0].origin",
            "memories[1].kind",
            "uart.buad",
            "uart.tx_pin",
            "interrupts.handlers.TIMER",
            "title",
        ]
        assert "memories[1].kind: 'rom' is none of: flash, ram" in caught.value.what
        assert "uart.buad: unknown key; Did you mean baud?" in caught.value.what

    def test_an_unknown_key_hides_no_fault_of_the_board(self, tmp_path):
        text = ROW.replace("dsp = true", "dsp = false\nspeed = 3").replace(
            '"cmsdk"', '"cmsdk"\nbaud = 5_000_000'
        )
        with pytest.raises(InputError) as caught:
            load_board(write(tmp_path, text))
        told = [line.strip().partition(": ")[0] for line in caught.value.what.splitlines()[1:]]
        assert told == ["speed", "dsp", "uart.baud"]

    def test_a_file_that_is_not_there(self, tmp_path):
        with pytest.raises(InputError, match="can't be read: No such file"):
            load_boards(tmp_path / "none.toml")

    def test_a_file_that_is_no_text(self, tmp_path):
        path = tmp_path / "row.toml"
        path.write_bytes(b"\xff\xfe\x00")
        with pytest.raises(InputError):
            load_board(path)


class TestContext:
    def test_memories_by_use(self, tmp_path):
        text = ROW.replace("[uart]", MORE_RAM.format(origin="0x1000_0000", size=65536))
        context = baremetal_context(load_board(write(tmp_path, text)))
        assert (context["vectors_memory"], context["flash"], context["ram"]) == ("flash", "flash", "ram")
        assert (context["more_ram"], context["more_flash"]) == (["ccm"], [])
        assert context["uart"]["tx_pin"] is None

    def test_boot_memory(self):
        context = baremetal_context(ROWS["mps3-an547"])
        assert (context["vectors_memory"], context["flash"], context["more_flash"]) == ("itcm", "flash", [])

    @pytest.mark.parametrize(
        ("origin", "guard"),
        [("0x1000_0000", 0x1FFF8000), ("0x1FFF_0000", 0), ("0x1FFE_8000", 0x1FFF8000)],
    )
    def test_the_guard_takes_no_memory_of_the_board(self, origin, guard, tmp_path):
        text = ROW.replace("[uart]", MORE_RAM.format(origin=origin, size=65536))
        assert baremetal_context(load_board(write(tmp_path, text)))["stack_guard"] == guard

    def test_no_guard_where_the_ram_is_not_aligned(self, tmp_path):
        text = ROW.replace("0x2000_0000", "0x2000_1000")
        assert baremetal_context(load_board(write(tmp_path, text)))["stack_guard"] == 0


CPUS = [(isa, cpu) for isa in load_isas().values() for cpu in isa.cpus]


def row_for(isa, cpu, fpu):
    text = ROW.replace('"cortex-m4"', f'"{cpu}"').replace('"fpv4-sp-d16"', f'"{fpu}"')
    text = text.replace("dsp = true", f"dsp = {str(isa.cpus[cpu].dsp is not False).lower()}")
    return text.replace('"hard"', '"soft"') if fpu == "none" else text


@pytest.mark.parametrize(("isa", "cpu"), CPUS, ids=[cpu for _, cpu in CPUS])
def test_each_cpu_can_be_used(isa, cpu, tmp_path):
    for fpu in ("none", *isa.cpus[cpu].fpus):
        row = load_board(write(tmp_path, row_for(isa, cpu, fpu)))
        assert (row.cpu, row.fpu) == (cpu, fpu)
        assert isa_of(row) is isa  # the row names none


@pytest.mark.toolchain
@pytest.mark.parametrize(("isa", "cpu"), CPUS, ids=[cpu for _, cpu in CPUS])
def test_the_compiler_knows_each_cpu(isa, cpu):
    if shutil.which(isa.tools.c) is None:
        pytest.skip(f"{isa.tools.c} is not installed")
    for fpu in ("none", *isa.cpus[cpu].fpus):
        flags = isa.compiler_flags(cpu, fpu, "soft" if fpu == "none" else "hard")
        macros = run_process([isa.tools.c, *flags, "-dM", "-E", "-xc", "-"], timeout_s=20).stdout
        if isa.name == "thumb":
            assert ("__ARM_FP " in macros) == (fpu != "none")
            assert ("__ARM_FEATURE_DSP 1" in macros) == (isa.cpus[cpu].dsp is not False)
        else:
            assert ("__riscv_atomic" in macros, "__riscv_xlen 32" in macros) == ("a" in cpu[4:], True)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'cpu = "rv32imac"',
            'cpu = "rv64gc"',
            "cpu: 'rv64gc' is not known; known: rv32imac, rv32imc",
        ),
        ('isa = "rv32"', 'isa = "rv128"', "isa: 'rv128' is not known; known: rv32, thumb"),
        ('isa = "rv32"', 'isa = "thumb"', "cpu: 'rv32imac' is not known; known: cortex-m0"),
        ('driver = "mcycle"', 'driver = "systick"', "counter.driver: 'systick' is not known; known: mcycle"),
        ("base = 0x0C00_0000\n", "", "interrupts.base: it is missing; where the registers of the PLIC lie"),
        ("0x8000_0000", "0x8000_0010", "must start at a multiple of 64"),
        ("UART0_Handler", "MachineTimer_Handler", "this is an exception of the core"),
        ("max_baud = 230_400", "max_baud = 460_800", "uart.max_baud: it is above 230,400"),
    ],
)
def test_broken_rows_of_another_architecture(old, new, message, tmp_path):
    text = (data_dir("board_templates") / "boards" / "qemu-virt-rv32.toml").read_text()
    assert old in text
    with pytest.raises(InputError, match=re.escape(message)):
        load_board(write(tmp_path, text.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("base = 0x4001_E000\n", "", "flash_controller.base: it is missing"),
        (
            "page_bytes = 1024",
            "page_bytes = 786432",
            "flash_controller.page_bytes: flash does not begin and end",
        ),
        ("page_bytes = 1024", "page_bytes = 1000", "page_bytes"),
        ('driver = "nvmc"', 'driver = "own"', "sources: the flash's driver is the board's own"),
        ('name = "flash"', 'name = "slots"', "memories[0].name: 'slots' is the name of a section"),
    ],
)
def test_broken_rows_of_a_flash_controller(old, new, message, tmp_path):
    text = (data_dir("board_templates") / "boards" / "microbit.toml").read_text()
    assert old in text
    with pytest.raises(InputError, match=re.escape(message)):
        load_board(write(tmp_path, text.replace(old, new)))


def test_slots_take_the_end_of_the_flash():
    flash, *_ = baremetal_context(ROWS["microbit"], slots_bytes=4096)["memories"]
    assert (flash["origin"], flash["size_bytes"]) == (0, 0x40000 - 4096)
    assert baremetal_context(ROWS["microbit"], slots_bytes=4096)["slots"]["origin"] == 0x40000 - 4096


def test_an_interrupt_needs_the_controllers_place(tmp_path):
    text = (data_dir("board_templates") / "boards" / "qemu-virt-rv32.toml").read_text()
    start, end = text.index("[interrupts]"), text.index("[rpc]")
    with pytest.raises(InputError, match=r"interrupts: uart\.irq needs them, with the base of the PLIC"):
        load_board(write(tmp_path, text[:start] + text[end:]))


def test_a_board_without_a_known_cpu_is_compiled_for_nothing():
    with pytest.raises(InputError, match=r"the CPU '' is not known"):
        board_flags(ROWS["host"])
    assert (isa_of(ROWS["host"]), machine_of(ROWS["host"])) == (None, None)


@pytest.mark.parametrize(
    ("more", "handlers"),
    [
        ("", []),
        ("irq = 2\n", ["IRQ0_Handler", "IRQ1_Handler", "IRQ2_Handler"]),
        (
            "irq = 0\n[interrupts]\ncount = 3\n[interrupts.handlers]\nTIMER0_Handler = 1\n",
            ["IRQ0_Handler", "TIMER0_Handler", "IRQ2_Handler"],
        ),
    ],
)
def test_the_vector_table_names_a_handler_for_each_interrupt(more, handlers, tmp_path):
    context = baremetal_context(load_board(write(tmp_path, ROW.replace("[counter]", f"{more}[counter]"))))
    assert context["irq_handlers"] == handlers


@pytest.mark.parametrize("caches", [False, True])
def test_a_row_may_ask_for_caches(caches, tmp_path):
    text = ROW.replace('"cortex-m4"', '"cortex-m7"').replace("fpv4-sp-d16", "fpv5-d16")
    text = text.replace("dsp = true", f"dsp = true\ncaches = {str(caches).lower()}")
    board = load_board(write(tmp_path, text))
    assert baremetal_context(board)["caches"] is caches
    platform = BaremetalTarget(board).files(ProjectOptions())
    assert f"#define MLF_CACHES {int(caches)}\n".encode() in platform.files["board/mlf_board.h"]
    assert (platform.values["has_caches"], platform.values["caches"]) == (True, caches)
