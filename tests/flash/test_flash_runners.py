# SPDX-License-Identifier: Apache-2.0
"""Runners as data: what they are called with (recording stubs), images they take, rows, errors."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest

from flash_helpers import stub
from mlf_sdk.errors import InputError, ToolError
from mlf_sdk.targets.boards.load import find_board
from mlf_sdk.targets.flashers.errors import NoProbeError, NoRunnerError, RunnerFailedError, RunnerMissingError
from mlf_sdk.targets.flashers.execute import FlashJob, run_runner
from mlf_sdk.targets.flashers.image import (
    LoadedBytes,
    flat_binary,
    intel_hex,
    load_segments,
    uf2,
    vector_table,
)
from mlf_sdk.targets.flashers.load import find_runner, load_runner, load_runners
from mlf_sdk.targets.flashers.volumes import find_volume

ROWS = load_runners()
OPTIONS = {
    "openocd_config": "board/some.cfg",
    "pyocd_target": "nrf51",
    "jlink_device": "nRF51822_xxAA",
    "esptool_chip": "esp32",
    "uf2_family": "0xe48bff56",
}
TOOLS = {
    "openocd": ("openocd", "** Verified OK **"),
    "pyocd": ("pyocd", ""),
    "jlink": ("JLinkExe", ""),
    "stm32cubeprogrammer": ("STM32_Programmer_CLI", "Download verified successfully"),
    "esptool": ("esptool", "Hash of data verified."),
}


def elf_file(path: Path, *segments: tuple[int, bytes, int]) -> Path:
    """A 32-bit Arm ELF file with load segments (address, bytes, size in memory)."""
    head = struct.pack(
        "<16sHHIIIIIHHHHHH", b"\x7fELF\x01\x01\x01", 2, 40, 1, 0, 52, 0, 0, 52, 32, len(segments), 40, 0, 0
    )
    at = 52 + 32 * len(segments)
    rows = b""
    for address, data, memory in segments:
        rows += struct.pack(
            "<8I", 1, at, (address + 0x1000_0000) & 0xFFFF_FFFF, address, len(data), memory, 5, 4
        )
        at += len(data)
    path.write_bytes(head + rows + b"".join(data for _, data, _ in segments))
    return path


@pytest.fixture
def elf(tmp_path: Path) -> Path:
    return elf_file(
        tmp_path / "app.elf",
        (0x0800_0100, b"\x01\x02\x03", 3),
        (0x0800_0000, bytes(range(32)), 32),
        (0x2000_0000, b"", 64),
    )


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with nothing but stubs and the system's dd."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "dd").symlink_to("/bin/dd")
    monkeypatch.setenv("PATH", str(folder))
    return folder


def job(elf: Path, **changes: object) -> FlashJob:
    return FlashJob(**{"elf": elf, "board": "some", "options": OPTIONS, "timeout_s": 20.0, **changes})


def called(record: Path) -> list[str]:
    """The recorded arguments; the temporary folder of the images is left out."""
    words = record.read_text().split("\n")
    return [
        " ".join(w.rsplit("/", 1)[-1] if "mlf-flash-" in w else w for w in word.split(" ")) for word in words
    ]


@pytest.mark.parametrize(
    ("name", "port", "argv"),
    [
        ("openocd", "", ["-f", "board/some.cfg", "-x", "y", "-c", "program image.elf verify reset exit"]),
        ("pyocd", "", ["load", "--no-wait", "--target", "nrf51", "-x", "y", "--format", "hex", "image.hex"]),
        (
            "jlink",
            "",
            [
                "-NoGui",
                "1",
                "-ExitOnError",
                "1",
                "-AutoConnect",
                "1",
                "-Device",
                "nRF51822_xxAA",
                "-If",
                "SWD",
                "-Speed",
                "4000",
                "-x",
                "y",
                "-CommandFile",
                "script",
            ],
        ),
        (
            "stm32cubeprogrammer",
            "",
            ["-c", "port=SWD", "mode=UR", "-x", "y", "-w", "image.hex", "-v", "-rst"],
        ),
        (
            "esptool",
            "/dev/ttyUSB0",
            [
                "--port",
                "/dev/ttyUSB0",
                "--baud",
                "460800",
                "--chip",
                "esp32",
                "-x",
                "y",
                "write-flash",
                "0x8000000",
                "image.bin",
            ],
        ),
    ],
)
def test_what_a_vendor_tool_is_called_with(
    name: str, port: str, argv: list[str], elf: Path, tools: Path
) -> None:
    program, says = TOOLS[name]
    record = stub(tools, program, prints=says)
    run = run_runner(ROWS[name], job(elf, port=port, extra=("-x", "y")))
    assert called(record) == argv
    assert run.argv[0] == str(tools / program)
    assert run.image_bytes == 35
    if name == "jlink":
        script = (tools / "script").read_text()
        assert [w.rsplit("/", 1)[-1] for w in script.split()] == [
            *("r", "h", "loadfile", "image.hex", "verifybin", "image.bin,", "0x8000000", "r", "g", "exit")
        ]
    if name == "esptool":
        assert (tools / "image.bin").read_bytes() == flat_binary(load_segments(elf))
    if name == "pyocd":
        assert (tools / "image.hex").read_bytes() == intel_hex(load_segments(elf))


@pytest.mark.parametrize(
    ("version", "command"),
    [
        ("esptool.py v3.3.2\n3.3.2", "write_flash"),
        ("esptool.py v4.8.1\n4.8.1", "write_flash"),
        ("esptool v5.1.0\n5.1.0", "write-flash"),
        ("esptool v12.0.0", "write-flash"),
        ("no version", "write-flash"),
    ],
)
def test_esptool_of_each_version_gets_its_own_command(
    version: str, command: str, elf: Path, tools: Path
) -> None:
    record = stub(tools, "esptool", prints=version + "\nHash of data verified.")
    run_runner(ROWS["esptool"], job(elf, port="/dev/ttyUSB0"))
    assert called(record)[-3] == command


def test_the_images_are_gone_afterwards(elf: Path, tools: Path) -> None:
    record = stub(tools, "pyocd")
    run_runner(ROWS["pyocd"], job(elf))
    image = Path(record.read_text().split("\n")[-1])
    assert image.name == "image.hex"
    assert not image.parent.exists()


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_a_tool_that_is_missing(name: str, elf: Path, tools: Path) -> None:
    with pytest.raises(RunnerMissingError, match=f"'{TOOLS[name][0]}'") as caught:
        run_runner(ROWS[name], job(elf, port="/dev/ttyUSB0"))
    assert caught.value.hint == ROWS[name].install
    assert caught.value.hint
    assert caught.value.exit_code == ToolError.exit_code


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_a_tool_that_fails(name: str, elf: Path, tools: Path) -> None:
    stub(tools, TOOLS[name][0], prints=TOOLS[name][1] + "\nsmoke came out", code=7)
    with pytest.raises(RunnerFailedError, match=f"{name} failed with exit code 7") as caught:
        run_runner(ROWS[name], job(elf, port="/dev/ttyUSB0"))
    assert "smoke came out" in caught.value.what


@pytest.mark.parametrize("name", [n for n in sorted(TOOLS) if ROWS[n].success])
def test_a_tool_that_does_not_say_that_it_succeeded(name: str, elf: Path, tools: Path) -> None:
    stub(tools, TOOLS[name][0], prints="bye")
    with pytest.raises(RunnerFailedError, match="ended without saying that it succeeded"):
        run_runner(ROWS[name], job(elf, port="/dev/ttyUSB0"))


def test_the_output_is_told_as_it_comes(elf: Path, tools: Path) -> None:
    """Line by line, while the tool still runs; an error does not repeat it."""
    said: list[str] = []
    stub(tools, "pyocd", prints="erasing\nwriting\n0000395 C No available debug probes", code=1)
    with pytest.raises(NoProbeError) as error:
        run_runner(ROWS["pyocd"], job(elf), watch=said.append)
    assert said[:3] == ["erasing", "writing", "0000395 C No available debug probes"]
    assert "erasing" not in error.value.what
    with pytest.raises(NoProbeError, match="erasing"):
        run_runner(ROWS["pyocd"], job(elf))
    slow = "import time\nprint('halfway', flush=True)\ntime.sleep(60)\n"
    (tools / "pyocd").write_text(f"#!{sys.executable}\n{slow}")
    with pytest.raises(RunnerFailedError, match="did not end within"):
        run_runner(ROWS["pyocd"], job(elf, timeout_s=1), watch=said.append)
    assert said[-1] == "halfway"


def test_a_tool_that_hangs(elf: Path, tools: Path) -> None:
    stub(tools, "pyocd", seconds=60)
    with pytest.raises(RunnerFailedError, match=r"did not end within 0\.5 s"):
        run_runner(ROWS["pyocd"], job(elf, timeout_s=0.5))


@pytest.mark.parametrize(
    ("name", "prints", "kind"),
    [
        ("openocd", "Error: unable to find a matching CMSIS-DAP device", NoProbeError),
        ("openocd", "** Verify Failed **", RunnerFailedError),
        ("pyocd", "0000395 C No available debug probes are connected", NoProbeError),
        ("jlink", "Connecting to J-Link via USB...FAILED: Failed to open DLL", NoProbeError),
        ("jlink", "Cannot connect to target.", NoProbeError),
        ("stm32cubeprogrammer", "Error: No debug probe detected.", NoProbeError),
        ("stm32cubeprogrammer", "\x1b[31mError: failed to erase memory", RunnerFailedError),
        (
            "esptool",
            "A fatal error occurred: Failed to connect to ESP32: No serial data received.",
            NoProbeError,
        ),
    ],
)
@pytest.mark.parametrize("code", [0, 1])
def test_what_a_tool_says(
    code: int, name: str, prints: str, kind: type[Exception], elf: Path, tools: Path
) -> None:
    """Words that mean failure are one, whatever the exit code: some tools always end with 0."""
    stub(tools, TOOLS[name][0], prints=f"{prints}\n{TOOLS[name][1]}", code=code)
    with pytest.raises(kind) as caught:
        run_runner(ROWS[name], job(elf, port="/dev/ttyUSB0"))
    assert caught.value.hint
    assert prints.split("\x1b[31m")[-1] in caught.value.what


def test_options_that_a_board_does_not_have(elf: Path, tools: Path) -> None:
    stub(tools, "openocd", prints="** Verified OK **")
    with pytest.raises(NoRunnerError, match="lacks openocd_config"):
        run_runner(ROWS["openocd"], job(elf, options={}))
    run = run_runner(ROWS["openocd"], job(elf, options={}, extra=("-f", "mine.cfg")))
    assert list(run.argv[1:3]) == ["-f", "mine.cfg"]


def test_which_runner() -> None:
    microbit, an386 = find_board("microbit"), find_board("mps2-an386")
    assert find_runner(None, microbit).name == "pyocd"
    assert find_runner("openocd", microbit).name == "openocd"
    with pytest.raises(NoRunnerError, match="emulated") as caught:
        find_runner(None, an386)
    assert "mlf-sdk run" in caught.value.hint
    with pytest.raises(NoRunnerError, match="no runner 'opencd'") as caught:
        find_runner("opencd", an386)
    assert "openocd" in caught.value.hint
    for name in ("openocd", "pyocd", "jlink", "daplink"):
        assert set(find_runner(name, microbit).needs) <= set(microbit.flasher.options)


# ---- rows of a user ----

MINE = 'name = "mine"\ntitle = "Mine"\nprogram = ["mine"]\nargs = ["{bin}", "{address}"]\n'


def test_a_runner_of_a_user(elf: Path, tools: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(MINE)
    record = stub(tools, "mine")
    run_runner(find_runner(None, find_board("mps2-an386"), path), job(elf))
    assert called(record) == ["image.bin", "0x8000000"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (MINE.replace('["mine"]', "[]"), "program:"),
        (MINE.replace("{bin}", "x"), "no placeholder of the image"),
        (MINE + 'success = ["("]\n', "no regular expression"),
        (MINE.replace("{address}", "{port}"), "port: it must say"),
        (MINE + 'port = "serial"\n', "port: it must say"),
        (MINE.replace("{address}", "{script}"), "script:"),
        (MINE + 'kind = "copy"\n', "marker:"),
        (MINE + "colour = 1\n", "colour"),
        ("name = ", "mine.toml"),
    ],
)
def test_a_row_that_is_wrong(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load_runner(path)
    assert says in str(caught.value)


def test_a_placeholder_that_nothing_fills(elf: Path, tools: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(MINE.replace("{address}", "{colour}"))
    stub(tools, "mine")
    with pytest.raises(NoRunnerError, match="colour"):
        run_runner(load_runner(path), job(elf))


# ---- images ----


def test_segments_of_an_image(elf: Path, tmp_path: Path) -> None:
    """By load address (not where they run); what is only cleared is not loaded."""
    assert load_segments(elf) == (
        LoadedBytes(address=0x0800_0000, data=bytes(range(32))),
        LoadedBytes(address=0x0800_0100, data=b"\x01\x02\x03"),
    )
    assert vector_table(elf, load_segments(elf)) == 0x0800_0000
    for segments, says in (
        ([], "nothing to load"),
        ([(0, b"abcd", 4), (3, b"x", 1)], "overlap"),
        ([(0xFFFF_FFFE, b"abcd", 4)], "address space"),
    ):
        with pytest.raises(InputError, match=says):
            load_segments(elf_file(tmp_path / "bad.elf", *segments))
    (tmp_path / "bad.elf").write_bytes(b"\x7fELF")
    with pytest.raises(InputError, match="not an ELF file"):
        load_segments(tmp_path / "bad.elf")


def test_a_flat_binary(elf: Path) -> None:
    data = flat_binary(load_segments(elf))
    assert data == bytes(range(32)) + b"\xff" * (0x100 - 32) + b"\x01\x02\x03"
    with pytest.raises(InputError, match="too far apart"):
        flat_binary([LoadedBytes(address=0, data=b"a"), LoadedBytes(address=0x2000_0000, data=b"b")])


def read_hex(text: str) -> dict[int, int]:
    """Memory from Intel HEX, with every checksum checked."""
    memory: dict[int, int] = {}
    upper = 0
    *records, last = text.split()
    assert last == ":00000001FF"
    for record in records:
        data = bytes.fromhex(record.removeprefix(":"))
        assert sum(data) & 0xFF == 0
        size, address, kind = data[0], int.from_bytes(data[1:3], "big"), data[3]
        assert size == len(data) - 5
        assert address + size <= 0x1_0000
        if kind == 4:
            upper = int.from_bytes(data[4:6], "big") << 16
        else:
            assert kind == 0
            memory.update({upper + address + i: byte for i, byte in enumerate(data[4:-1])})
    return memory


def test_intel_hex() -> None:
    segments = [
        LoadedBytes(address=0xFFF3, data=bytes(range(40))),
        LoadedBytes(address=0x0800_0001, data=b"\xaa"),
    ]
    expected = {s.address + i: byte for s in segments for i, byte in enumerate(s.data)}
    assert read_hex(intel_hex(segments).decode()) == expected


def test_uf2() -> None:
    segments = [
        LoadedBytes(address=0x1000_00F0, data=bytes(range(32))),
        LoadedBytes(address=0x1000_0400, data=b"\x07"),
    ]
    blocks = list(struct.iter_unpack("<8I476sI", uf2(segments, 0xE48B_FF56)))
    assert [b[3] for b in blocks] == [0x1000_0000, 0x1000_0100, 0x1000_0400]
    for number, block in enumerate(blocks):
        assert block[:3] == (0x0A324655, 0x9E5D5157, 0x2000)
        assert block[4:8] == (256, number, 3, 0xE48B_FF56)
        assert block[8][256:] == bytes(220)
        assert block[9] == 0x0AB16F30
    assert blocks[0][8][:256] == b"\xff" * 240 + bytes(range(16))
    assert blocks[1][8][:256] == bytes(range(16, 32)) + b"\xff" * 240
    assert blocks[2][8][:256] == b"\x07" + b"\xff" * 255


# ---- volumes ----


def volume(folder: Path, marker: str = "INFO_UF2.TXT", board: str = "RPI-RP2") -> Path:
    folder.mkdir(parents=True)
    (folder / marker).write_text(f"UF2 Bootloader v3.0\r\nModel: Some Board\r\nBoard-ID: {board}\r\n")
    return folder


def mounts(tmp_path: Path, *folders: Path) -> Path:
    path = tmp_path / "mounts"
    path.write_text(
        "proc /proc proc rw 0 0\n"
        + "".join(f"/dev/sdx {str(f).replace(' ', chr(92) + '040')} vfat rw 0 0\n" for f in folders)
    )
    return path


def test_a_copy_to_the_uf2_volume(elf: Path, tools: Path, tmp_path: Path) -> None:
    place = volume(tmp_path / "media user" / "RPI-RP2")
    run_runner(ROWS["uf2"], job(elf), mounts=mounts(tmp_path, tmp_path, place))
    assert (place / "image.uf2").read_bytes() == uf2(load_segments(elf), 0xE48B_FF56)


def test_a_copy_to_daplink(elf: Path, tools: Path, tmp_path: Path) -> None:
    places = [volume(tmp_path / label, "DETAILS.TXT") for label in ("MICROBIT", "OTHER")]
    options = {"label": "MICROBIT"}
    table = mounts(tmp_path, *places)
    run_runner(ROWS["daplink"], job(elf, options=options), mounts=table)
    assert (places[0] / "image.hex").read_bytes() == intel_hex(load_segments(elf))
    assert not (places[1] / "image.hex").exists()
    (places[0] / "FAIL.TXT").write_text("error: The hex file is incompatible")
    with pytest.raises(RunnerFailedError, match="refused the image") as caught:
        run_runner(ROWS["daplink"], job(elf, options=options), mounts=table)
    assert "incompatible" in caught.value.what


def test_which_volume(tmp_path: Path) -> None:
    one, two = volume(tmp_path / "one" / "RPI-RP2"), volume(tmp_path / "two" / "RPI-RP2", board="OTHER")
    both = mounts(tmp_path, one, two)
    with pytest.raises(NoProbeError, match="several boards") as caught:
        find_volume("INFO_UF2.TXT", mounts=both)
    assert str(one) in caught.value.what
    assert "--port" in caught.value.hint
    assert find_volume("INFO_UF2.TXT", board_id="OTHER", mounts=both) == two
    assert find_volume("INFO_UF2.TXT", given=str(one), mounts=both) == one
    with pytest.raises(NoProbeError, match="no mounted volume"):
        find_volume("INFO_UF2.TXT", board_id="THIRD", mounts=both)
    with pytest.raises(NoProbeError, match=r"holds no INFO_UF2\.TXT"):
        find_volume("INFO_UF2.TXT", given=str(tmp_path), mounts=both)
    with pytest.raises(NoProbeError, match="label NONE"):
        find_volume("INFO_UF2.TXT", label="NONE", mounts=both)


def test_a_volume_that_cannot_be_written(elf: Path, tools: Path, tmp_path: Path) -> None:
    place = volume(tmp_path / "RPI-RP2")
    (place / "image.uf2").mkdir()
    with pytest.raises(RunnerFailedError, match="could not be copied"):
        run_runner(ROWS["uf2"], job(elf), mounts=mounts(tmp_path, place))


@pytest.mark.parametrize("family", [None, "", "rp2040", "-1", "0x1_0000_0000"])
def test_a_family_that_is_none(family: str | None, elf: Path, tools: Path, tmp_path: Path) -> None:
    place = volume(tmp_path / "RPI-RP2")
    options = {} if family is None else {"uf2_family": family}
    with pytest.raises(NoRunnerError, match=r"uf2_family|UF2 family"):
        run_runner(ROWS["uf2"], job(elf, options=options), mounts=mounts(tmp_path, place))
    assert not (place / "image.uf2").exists()
