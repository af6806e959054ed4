# SPDX-License-Identifier: Apache-2.0
"""A linked image as the reader gives it, against the tools of the compiler and a linker script."""

from __future__ import annotations

import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mlf_sdk.analysis.elf.image import Function, Image, Section
from mlf_sdk.analysis.elf.raw import Segment
from mlf_sdk.analysis.elf.read import read_image
from mlf_sdk.analysis.machine.registry import machine_code
from mlf_sdk.errors import InputError
from mlf_sdk.tools.process import run_process

MAIN = """\
int copied = 7;
int cleared[9];
static const int table[3] = {1, 2, 3};
extern int bare(int);
extern int far(int);
int left_out(void) { return copied; }
static __attribute__((noinline)) int inner(int a) { return a + copied; }
__attribute__((noinline)) int named(int a) { return inner(a) + table[a] + cleared[a]; }
int also(int a) __attribute__((alias("named")));
int _also(int a) __attribute__((alias("named")));
int again(int a) __attribute__((weak, alias("named")));
int main(void) { return named(1) + bare(2) + far(3); }
"""

ASSEMBLY = """\
    .syntax unified
    .thumb
    .section .text.zz, "ax"
    .type outer, %function
outer: .thumb_func
    nop
    .type within, %function
    .thumb_func
within:
    nop
    nop
    .size within, 2
    .size outer, 6
    .global bare
    .type bare, %function
    .thumb_func
bare:
    bx lr
    .word 0x01234567
"""

FAR = """\
static __attribute__((noinline)) int helper(int a) { return a * 5; }
int far(int a) { return helper(a) + 1; }
"""

SCRIPT = """\
MEMORY { flash (rx) : ORIGIN = 0x1000, LENGTH = 64K  ram (rwx) : ORIGIN = 0x20000000, LENGTH = 4K }
SECTIONS {
  .text : { *(.text) *(.text.*) } > flash
  .rodata : { *(.rodata*) } > flash
  .data : { *(.data*) } > ram AT > flash
  .bss : { *(.bss*) } > ram
  /DISCARD/ : { *(.ARM.exidx*) }
}
"""

pytestmark = [pytest.mark.toolchain, pytest.mark.usefixtures("needs_arm")]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    folder = tmp_path_factory.mktemp("image")
    for name, text in (("main.c", MAIN), ("bare.s", ASSEMBLY), ("link.ld", SCRIPT)):
        (folder / name).write_text(text)
    (folder / "deep").mkdir()
    (folder / "deep" / "far.c").write_text(FAR)
    argv = ["arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb", "-O1", "-g", "-nostdlib", "-T", "link.ld"]
    argv += ["-mfloat-abi=hard", "-mfpu=fpv4-sp-d16", "-ffunction-sections", "-Wl,--gc-sections"]
    run_process(
        [*argv, "main.c", "deep/far.c", "bare.s", "-e", "main", "-o", "a.elf"], cwd=folder, timeout_s=30
    )
    return read_image(folder / "a.elf")


def test_symbols_are_those_that_nm_lists(image: Image) -> None:
    listed = run_process(["arm-none-eabi-nm", "-S", str(image.path)], timeout_s=30).stdout
    rows = re.findall(r"^([0-9a-f]{8})(?: ([0-9a-f]{8}))? \S (\S+)$", listed, re.MULTILINE)
    expected = {(name, int(at, 16), int(size or "0", 16)) for at, size, name in rows}
    assert {(s.name, s.address, s.size_bytes) for s in image.symbols if s.name[0] != "$"} == expected
    assert {s.name for s in image.symbols if s.is_object} == {"copied", "cleared", "table"}
    files = {s.name: s.file for s in image.symbols if s.name in ("inner", "table", "helper", "named")}
    assert files == {"inner": "main.c", "table": "main.c", "helper": "far.c", "named": ""}


def test_sections_and_where_they_are_loaded(image: Image) -> None:
    found = {s.name: s for s in image.sections}
    assert list(found) == [".text", ".rodata", ".data", ".bss"]
    data, text = found[".data"], found[".text"]
    assert (data.address, data.load_address, data.in_file) == (0x2000_0000, found[".rodata"].end, True)
    assert (text.executable, text.writable, data.executable, data.writable) == (True, False, False, True)
    assert not found[".bss"].in_file
    assert image.bytes_at(data.address, 4) == (7).to_bytes(4, "little")
    assert image.bytes_at(found[".bss"].address, 4) == b""
    assert len(image.bytes_at(data.end - 2, 4)) == 2
    assert image.section_at(data.end - 1) == data
    assert image.section_at(found[".bss"].address) is None


def test_functions_have_all_names_and_no_gaps(image: Image) -> None:
    named = image.function_at(image.address_of("also") + 2)
    assert named is not None
    assert (named.name, named.names) == ("also", ("also", "named", "_also", "again"))
    outer, within, bare = (image.functions[image.address_of(n)] for n in ("outer", "within", "bare"))
    assert outer == Function(
        names=("outer",), address=outer.address, end=outer.address + 6, limit=within.address
    )
    assert within.end == within.limit == within.address + 2
    # without a stated size: to the end of the section
    assert bare.end == bare.limit == image.section_at(bare.address).end  # type: ignore[union-attr]
    assert image.function_at(within.address) == within
    assert image.function_at(within.address + 2) == outer, "behind the inner one goes on the outer one"
    assert image.function_at(0x0FFE) is None
    for symbol in ("copied", "none"):
        with pytest.raises(LookupError, match=f"a.elf has no function {symbol}"):
            image.address_of(symbol)


def test_objects_and_code_by_address(image: Image) -> None:
    cleared = image.find("cleared")
    assert cleared is not None
    assert image.object_at(cleared.end - 1) == cleared
    assert image.object_at(0x1000) is None
    assert image.object_at(0x3000_0000) is None
    assert image.is_code(0x1000)
    assert not image.is_code(cleared.address)


def test_attributes_marks_and_entry(image: Image) -> None:
    assert image.attributes is not None
    assert image.attributes.has_fpu_registers
    assert image.entry == image.address_of("main")
    bare = image.address_of("bare")
    assert (bare + 2, False) in image.marks, "the word behind the code"
    code = image.section_at(0x1000)
    assert code is not None
    assert all(code.address <= address < code.end for address, _ in image.marks), "none of .debug_frame"


def test_sources_by_debug_information(image: Image) -> None:
    debug = image.debug
    assert debug.path_at(image.address_of("named")) == "main.c"
    assert debug.path_at(image.address_of("far")) == "deep/far.c"
    assert debug.path_at(0x3000_0000) == ""
    assert debug.path_at(0) == ""
    assert debug.full_path("far.c") == "deep/far.c"
    assert debug.full_path("other.c") == "other.c"
    assert debug.full_path("") == ""


def test_sources_without_debug_information(image: Image, tmp_path: Path) -> None:
    bare = tmp_path / "bare.elf"
    run_process(["arm-none-eabi-objcopy", "--strip-debug", str(image.path), str(bare)], timeout_s=30)
    debug = read_image(bare).debug
    assert debug.path_at(image.address_of("named")) == ""
    assert debug.full_path("far.c") == "far.c"


def test_machine_code_is_decoded_once_and_not_pickled(image: Image) -> None:
    code = machine_code(image)
    assert code is not None
    assert machine_code(image) is code
    frame = code.frame(image.address_of("main"))
    assert frame is not None
    assert code.frame(image.address_of("main")) is frame
    copy = pickle.loads(pickle.dumps(image))
    assert (copy.symbols, copy.sections, copy.path) == (image.symbols, image.sections, image.path)
    assert machine_code(copy) is not code


def test_an_image_is_parsed_again_when_its_bytes_change(image: Image, tmp_path: Path) -> None:
    assert read_image(image.path) is read_image(image.path)
    path = tmp_path / "a.elf"
    path.write_bytes(image.content)
    assert read_image(path).path == path
    run_process(["arm-none-eabi-objcopy", "-N", "named", str(image.path), str(path)], timeout_s=30)
    assert read_image(path).find("named") is None and image.find("named") is not None
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(read_image, image.path).result()
    assert other is not read_image(image.path) and other.symbols == image.symbols


def test_image_of_another_machine_has_no_machine_code(tmp_path: Path, needs_cc: str) -> None:
    (tmp_path / "p.c").write_text("int main(void) { return 0; }")
    run_process([needs_cc, "p.c", "-o", "p.elf"], cwd=tmp_path, timeout_s=60)
    found = read_image(tmp_path / "p.elf")
    assert (machine_code(found), found.attributes) == (None, None)
    assert found.find("main") is not None


def test_damaged_attributes_are_one_error(image: Image, tmp_path: Path) -> None:
    (tmp_path / "attributes").write_bytes(b"A\x05")
    path = tmp_path / "a.elf"
    update = f".ARM.attributes={tmp_path / 'attributes'}"
    run_process(
        ["arm-none-eabi-objcopy", "--update-section", update, str(image.path), str(path)], timeout_s=30
    )
    with pytest.raises(InputError, match="cut off"):
        read_image(path)


def test_words_and_what_is_constant() -> None:
    sections = (
        Section(name=".text", address=0x100, load_address=0x100, size_bytes=12, in_file=True),
        Section(name=".data", address=0x2000, load_address=0x10C, size_bytes=4, in_file=True, writable=True),
    )
    segments = (
        Segment(address=0x100, load_address=0x100, size_bytes=10, data=bytes(range(10))),
        Segment(address=0x2000, load_address=0x10C, size_bytes=4, data=b"\xff" * 4),
    )
    image = Image(path=Path("a.elf"), machine="EM_ARM", symbols=(), sections=sections, segments=segments)
    assert (image.word(0x100), image.word(0x105), image.word(0x2000)) == (0x03020100, 0x08070605, 0xFFFFFFFF)
    assert image.word(0x108) is None and image.word(0x400) is None  # beyond what is loaded
    assert image.words(0x101, 0x10C) == (0x07060504,)
    assert image.words(0x108, 0x100) == ()
    assert image.is_constant(0x104) and not image.is_constant(0x2000) and not image.is_constant(0x400)


@pytest.mark.parametrize("kept", [True, False])
def test_words_that_may_be_addresses(tmp_path: Path, kept: bool) -> None:
    """A text whose bytes are a function's address is one of them, unless the linker kept its relocations."""
    source = """
    __attribute__((section(".looks"))) int called(void) { return 1; }
    struct { int (*pointer)(void); char text[4]; } both = {called, "=\\4"};
    int main(void) { return both.pointer(); }
    """
    (tmp_path / "a.c").write_text(source)
    argv = ["arm-none-eabi-gcc", "-mcpu=cortex-m0", "-mthumb", "-nostdlib", "-Ttext=0x800", "-e", "main"]
    argv += ["-Wl,--section-start=.looks=0x43c", *(["-Wl,--emit-relocs"] if kept else [])]
    run_process([*argv, "a.c", "-o", "a.elf"], cwd=tmp_path, timeout_s=30)
    read = read_image(tmp_path / "a.elf")
    both = read.find("both")
    assert both is not None and read.words(both.address, both.end) == (0x43D, 0x43D)
    assert (read.relocated is not None and both.address in read.relocated) == kept
    assert (read.relocated is None) != kept
    assert read.addresses(both.address, both.end) == ((0x43D,) if kept else (0x43D, 0x43D))
    assert read.addresses(both.address + 1, both.end) == (() if kept else (0x43D,))
