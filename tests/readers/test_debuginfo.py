# SPDX-License-Identifier: Apache-2.0
"""What an image tells of its code, against what the compiler and its tools say of the same image."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mlf_sdk.analysis.elf.debuginfo import FrameRule
from mlf_sdk.analysis.elf.read import read_image
from mlf_sdk.analysis.machine.registry import machine_code
from mlf_sdk.analysis.thumb.code import ThumbCode
from mlf_sdk.errors import InputError
from mlf_sdk.tools.process import run_process

SOURCE = """\
__attribute__((noinline)) int first(int x) {
  return x * 3 + 1;
}

__attribute__((noinline)) int second(int (*next)(int), int x) {
  volatile int room[20];
  room[x] = x;
  int y = first(x);
  return room[x] + y + next(y);
}

int third(int x) {
  return second(first, x) - 5;
}
"""


def code_of(elf: Path) -> ThumbCode:
    code = machine_code(read_image(elf))
    assert code is not None
    return code


pytestmark = [pytest.mark.toolchain, pytest.mark.usefixtures("needs_arm")]


@pytest.fixture(scope="module", params=["-gdwarf-4", "-gdwarf-5"])
def elf(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("code")
    (folder / "three.c").write_text(SOURCE)
    argv = ["arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb", "-O1", request.param, "-nostdlib"]
    linker = "-Wl,-Ttext=0x1000,--entry=third,-z,max-page-size=0x10000"  # loads the file headers
    argv += [f"-ffile-prefix-map={folder}=.", linker, "three.c", "-o", "three.elf"]
    run_process(argv, cwd=folder, timeout_s=30)
    return folder / "three.elf"


def listing(elf: Path) -> dict[int, str]:
    """The instructions as objdump shows them, by address."""
    text = run_process(["arm-none-eabi-objdump", "-d", str(elf)], timeout_s=30).stdout
    rows = re.findall(r"^ +([0-9a-f]+):\t[0-9a-f ]+\t(.+)$", text, re.MULTILINE)
    return {int(address, 16): instruction for address, instruction in rows}


def test_functions_and_lines(elf: Path) -> None:
    code = code_of(elf)
    addresses = list(listing(elf))
    argv = ["arm-none-eabi-addr2line", "-f", "-e", str(elf), *map(hex, addresses)]
    told = run_process(argv, timeout_s=30).stdout.splitlines()
    for address, name, place in zip(addresses, told[::2], told[1::2], strict=True):
        function, source = code.image.function_at(address), code.image.debug.line_at(address)
        assert function is not None
        assert source is not None
        assert (function.name, f"{source.path}:{source.line}") == (
            name,
            place.split(" ")[0].removeprefix("./"),
        )
    first = code.image.find("first")
    assert first is not None
    start = code.image.debug.line_at(first.address, is_entry=True)
    assert start is not None
    assert start.line == 1


def test_outside_of_the_code(elf: Path) -> None:
    code = code_of(elf)
    for address in (0, 0xFFE, 0x20000000):
        assert not code.image.is_code(address)
        assert code.image.function_at(address) is None
        assert code.image.debug.line_at(address) is None
        assert code.image.debug.frame_at(address) is None
        assert code.call_before(address) is None
        assert code.text_at(address) == ""


def test_calls(elf: Path) -> None:
    code = code_of(elf)
    rows = listing(elf)
    after = dict(zip(rows, list(rows)[1:], strict=False))
    calls = {after[at]: text for at, text in rows.items() if text.startswith(("bl\t", "blx\t"))}
    assert {text.split("\t")[0] for text in calls.values()} == {"bl", "blx"}
    for at in rows:
        site = code.call_before(at)
        assert (site is not None) == (at in calls), hex(at)
        if site is not None and calls[at].startswith("bl\t"):
            assert site.target == int(calls[at].split("\t")[1].split(" ")[0], 16)


def test_frames(elf: Path) -> None:
    """At a function's first instruction it has no frame; behind its push and sub it has them."""
    code = code_of(elf)
    second = code.image.find("second")
    assert second is not None
    assert code.image.debug.frame_at(second.address) == FrameRule(size_bytes=0, return_at=None)
    rows = {at: text for at, text in listing(elf).items() if at >= second.address}
    pushed = rows[second.address].split("{")[1].count(",") + 1
    call = next(at for at, text in rows.items() if text.startswith("bl\t"))
    room = next(int(text.split("#")[1].split("@")[0]) for text in rows.values() if text.startswith("sub\tsp"))
    assert code.image.debug.frame_at(call) == FrameRule(size_bytes=4 * pushed + room, return_at=-4)


def test_files_that_are_no_image(elf: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such image"):
        read_image(tmp_path / "none.elf")
    with pytest.raises(InputError, match="not an ELF file"):
        read_image(elf.parent / "three.c")
    with pytest.raises(InputError, match="not an ELF file"):
        read_image(tmp_path)
    cut = tmp_path / "cut.elf"
    cut.write_bytes(elf.read_bytes()[:2000])
    with pytest.raises(InputError, match="not an ELF file"):
        read_image(cut)
    stripped = tmp_path / "stripped.elf"
    run_process(["arm-none-eabi-objcopy", "--strip-debug", str(elf), str(stripped)], timeout_s=30)
    code = code_of(stripped)
    assert code.image.function_at(0x1000) is not None
    assert code.image.debug.line_at(0x1000) is None
    assert code.image.debug.frame_at(0x1000) is None


NO_LINES = """\
    .section .debug_abbrev,"",%progbits
.Labbrev:
    .uleb128 1
    .uleb128 0x11
    .byte 0, 0, 0, 0
    .section .debug_info,"",%progbits
    .4byte .Lend - .Lstart
.Lstart:
    .2byte 4
    .4byte .Labbrev
    .byte 4
    .uleb128 1
.Lend:
"""


def test_units_without_an_index_or_without_lines(elf: Path, tmp_path: Path) -> None:
    """No table says which unit holds an address: all are looked at, also one that knows no lines."""
    (tmp_path / "three.c").write_text(SOURCE)
    (tmp_path / "empty.s").write_text(NO_LINES)
    argv = ["arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb", "-O1", "-gdwarf-4", "-nostdlib", "empty.s"]
    run_process(
        [*argv, "-Wl,-Ttext=0x1000,--entry=third", "three.c", "-o", "a.elf"], cwd=tmp_path, timeout_s=30
    )
    path = str(tmp_path / "a.elf")
    run_process(["arm-none-eabi-objcopy", "-R", ".debug_aranges", path], timeout_s=30)
    code = code_of(Path(path))
    first = code.image.find("first")
    assert first is not None
    found = code.image.debug.line_at(first.address, is_entry=True)
    assert found is not None
    assert (Path(found.path).name, found.line) == ("three.c", 1)


def test_instructions(elf: Path) -> None:
    code = code_of(elf)
    for at, text in listing(elf).items():
        if text.startswith("."):
            continue  # a constant among the code
        assert code.text_at(at).split(" ")[0].removesuffix(".w") == text.split("\t")[0].removesuffix(
            ".n"
        ).removesuffix(".w")


def test_an_instruction_that_is_marked_as_data(tmp_path: Path) -> None:
    """A CPU executes it all the same, and faults there."""
    source = ".thumb\n.syntax unified\n.thumb_func\n.type f, %function\nf: nop\n.short 0xde00\nbx lr\n"
    (tmp_path / "a.s").write_text(source)
    argv = ["arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb", "-nostdlib", "-Wl,-Ttext=0x1000,--entry=f"]
    run_process([*argv, "a.s", "-o", "a.elf"], cwd=tmp_path, timeout_s=30)
    code = code_of(tmp_path / "a.elf")
    assert code.instruction_at(0x1002) is None
    assert [code.text_at(0x1000 + at) for at in (0, 2, 4)] == ["nop", "udf #0", "bx lr"]


def test_a_frame_that_the_stack_pointer_does_not_tell(tmp_path: Path) -> None:
    (tmp_path / "three.c").write_text(SOURCE)
    argv = [
        "arm-none-eabi-gcc",
        "-mcpu=cortex-m4",
        "-mthumb",
        "-O0",
        "-g",
        "-fno-omit-frame-pointer",
        "-nostdlib",
    ]
    run_process([*argv, "-Wl,--entry=third", "three.c", "-o", "a.elf"], cwd=tmp_path, timeout_s=30)
    code = code_of(tmp_path / "a.elf")
    second = code.image.find("second")
    assert second is not None
    rules = [code.image.debug.frame_at(second.address + at) for at in range(0, second.size_bytes, 2)]
    assert rules[0] == FrameRule(size_bytes=0, return_at=None)
    assert None in rules  # the frame pointer tells them


@pytest.mark.parametrize("garbage", [b"\x40\0\0\0\xff\xff\xff\xff\x09", b"\x0c\0\0\0\0\0\0\0" + b"\xff" * 8])
def test_frames_that_are_damaged(elf: Path, tmp_path: Path, garbage: bytes) -> None:
    (tmp_path / "frames").write_bytes(garbage)
    path = tmp_path / "a.elf"
    update = f".debug_frame={tmp_path / 'frames'}"
    run_process(["arm-none-eabi-objcopy", "--update-section", update, str(elf), str(path)], timeout_s=30)
    code = code_of(path)
    second = code.image.find("second")
    assert second is not None
    assert code.image.debug.frame_at(second.address) is None
