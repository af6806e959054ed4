# SPDX-License-Identifier: Apache-2.0
"""Writes the rows of ``board_templates/chips`` from a Zephyr tree: ``python docs/chips.py TREE``.

Core, memories and clock of a chip are read from the device tree of a board that has it, what the device
tree lacks from the Kconfig files of its SoC, and names of boards from their board.yml.
``chips_stated.toml`` has the boards whose chips are written, and facts that no such file states, with the
document that does. Every fact names its source: a file and a node of the tree, or a document. TREE is a
folder with Zephyr's files (3.7 or later); its own parser of device trees is used, and pins, whose files are
in modules of vendors, are left out. Needs cpp and PyYAML.
"""

from __future__ import annotations

import functools
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import yaml

from mlf_sdk.tools.process import ProcessError, run_process

ROOT = Path(__file__).resolve().parents[1]
CHIPS = ROOT / "board_templates" / "chips"
STATED = ROOT / "docs" / "chips_stated.toml"
_INCLUDES = ("dts", "dts/common", "dts/vendor", "dts/arm", "dts/riscv", "include", "include/zephyr")
_PINS = re.compile(r"(pinctrl-\d+|pinmux|input-enable|psels)\s*=[^;]*;|bias-[a-z-]+;")
_MISSING = re.compile(r"fatal error: (.*?): No such file")
_INCLUDED = re.compile(r'^# \d+ "([^"]+)" 1', re.MULTILINE)
_NOT_A_CHIP = re.compile(r"pinctrl|partition|connector|/common/|spi_controller|_default")
_RAM_NAMES = re.compile(r"S?RAM\d?|[DI]TCM|CCM|OCRAM|SRAM_\w+", re.IGNORECASE)
_CLOCKS = ("cpusw", "cpu", "rcc", "iclk", "cpuclk", "clk_sys", "sysclk", "clk_ipo")  # labels, the best first
_LEAST_HZ = 8_000_000  # slower ones are timers
_HZ_BLOCK = re.compile(r"^config SYS_CLOCK_HW_CYCLES_PER_SEC\n(?:[ \t]+default .*\n)+", re.MULTILINE)
_HZ_DEFAULT = re.compile(r"default (\d+)(?: if (\S+))?$", re.MULTILINE)
_ISA = re.compile(r"(rv32[a-z]+)")


class NotReadError(Exception):
    """A board's device tree that can't be read."""


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory of a chip, or of a board where it lies outside of the chip."""

    name: str
    kind: str
    origin: int
    size_bytes: int
    external: bool
    source: str


@dataclass(slots=True)
class Chip:
    """Facts of a chip, and the source of each."""

    name: str
    title: str
    vendor: str
    core: str
    boards: list[str]
    memories: list[Memory]
    dsp: bool | None = None
    clock_hz: int = 0
    sources: dict[str, str] = field(default_factory=dict)


class Tree:
    """A Zephyr tree.

    Args:
        folder: of the tree.
        scratch: folder for preprocessed files.
    """

    def __init__(self, folder: Path, scratch: Path) -> None:
        self.folder, self.scratch = folder, scratch
        (scratch / "stubs").mkdir()
        sys.path.insert(0, str(folder / "scripts" / "dts" / "python-devicetree" / "src"))
        from devicetree import dtlib

        self.dtlib = dtlib
        self.vendors = dict(
            line.split("\t", 1)
            for line in (folder / "dts/bindings/vendor-prefixes.txt").read_text(encoding="utf-8").splitlines()
            if "\t" in line and not line.startswith("#")
        )
        self.boards: dict[Path, dict[str, Any]] = {}
        for path in folder.glob("boards/**/board.yml"):
            said = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
            self.boards[path.parent] = said["board"] if "board" in said else said["boards"][0]
        stated = re.findall(
            r"^(VERSION_MAJOR|VERSION_MINOR|PATCHLEVEL) = (\d+)", self._version(), re.MULTILINE
        )
        self.version = ".".join(number for _, number in stated)
        self.soc_files = {
            path.parent: path.read_text(encoding="utf-8")
            for path in sorted(folder.glob("soc/**/Kconfig.soc"))
        }

    def _version(self) -> str:
        return (self.folder / "VERSION").read_text(encoding="ascii")

    @functools.cache  # noqa: B019 (there is one tree a process)
    def chip_file_of(self, dts: Path) -> str:
        """The file of a board's chip; empty: its device tree can't be read."""
        try:
            return self.chip_file(self.preprocess(dts))
        except NotReadError:
            return ""

    def place(self, path: str) -> str:
        """Path of a file in the tree."""
        return Path(path).resolve().relative_to(self.folder).as_posix()

    def preprocess(self, dts: Path) -> str:
        """Text of a device tree source with all that it includes, without pins.

        Raises:
            NotReadError: the preprocessor failed.
        """
        argv = ["cpp", "-nostdinc", "-x", "assembler-with-cpp", "-undef", "-D__DTS__", "-I", str(dts.parent)]
        for name in _INCLUDES:
            argv += ["-isystem", str(self.folder / name)]
        argv += ["-isystem", str(self.scratch / "stubs"), str(dts)]
        while True:
            try:
                return _PINS.sub("", run_process(argv, timeout_s=60).stdout)
            except ProcessError as error:
                missing = _MISSING.search(str(error))
                if missing is None:
                    raise NotReadError(str(error)) from error
                stub = self.scratch / "stubs" / missing[1]
                stub.parent.mkdir(parents=True, exist_ok=True)
                stub.write_text("", encoding="ascii")

    def chip_file(self, text: str) -> str:
        """The file below ``dts`` that a board includes for its chip."""
        files = (self.place(path) for path in _INCLUDED.findall(text) if str(self.folder) in path)
        return next((f for f in files if f.startswith("dts/") and not _NOT_A_CHIP.search(f)), "")

    def parse(self, text: str) -> Any:  # noqa: ANN401
        """Device tree of preprocessed text.

        Raises:
            NotReadError: it is broken.
        """
        path = self.scratch / "board.dts"
        path.write_text(text, encoding="utf-8")
        try:
            return self.dtlib.DT(str(path))
        except self.dtlib.DTError as error:
            raise NotReadError(str(error)) from error


# ---- one chip ----


def read_chip(tree: Tree, dts: Path, stated: dict[str, Any]) -> Chip:
    """The chip of a board.

    Raises:
        NotReadError: its device tree can't be read.
    """
    text = tree.preprocess(dts)
    file = tree.chip_file(text)
    soc = _soc_of(tree.boards[dts.parent], dts.stem)
    name = Path(file).stem.lower() if soc.startswith("stm32") else soc
    dt = tree.parse(text)
    core, core_source = _core(tree, dt)
    vendor = str(tree.boards[dts.parent].get("vendor", ""))
    vendor = file.split("/")[2] if len(file.split("/")) > 3 else vendor
    chip = Chip(
        name=name,
        title=f"{tree.vendors.get(vendor, vendor)} {name.upper()}",
        vendor=vendor,
        core=core,
        boards=_boards_with(tree, soc, file, tree.boards[dts.parent]["name"]),
        memories=list(_memories(tree, dt)),
    )
    chip.sources["core"] = core_source
    chip.sources["zephyr_boards"] = (
        f"board.yml of each, which names the SoC {soc}, and its inclusion of {file}"
    )
    if core == "cortex-m33":
        found = _kconfig(tree, soc, re.compile(r"^\s*select ARMV8_M_DSP\b", re.MULTILINE))
        if found is not None:
            chip.dsp, chip.sources["dsp"] = True, f"{found[0]}: select ARMV8_M_DSP"
    said = stated.get(name, {})
    if "clock_hz" in said:
        chip.clock_hz, chip.sources["clock_hz"] = said["clock_hz"]["value"], said["clock_hz"]["source"]
    else:
        chip.clock_hz, chip.sources["clock_hz"] = _clock(tree, dt, soc, dts)
    return chip


def _soc_of(board: dict[str, Any], stem: str) -> str:
    socs: list[str] = [one["name"] for one in board.get("socs", ())]
    return next((soc for soc in sorted(socs, key=len, reverse=True) if soc in stem), socs[0])


def _core(tree: Tree, dt: Any) -> tuple[str, str]:  # noqa: ANN401
    """Name of the core, and its source.

    Raises:
        NotReadError: there is none that is known, or there are several that differ.
    """
    found: dict[str, str] = {}
    for node in dt.node_iter():
        if not re.fullmatch(r"/cpus/cpu@[^/]*", node.path) or "compatible" not in node.props:
            continue
        where = f"{tree.place(node.filename)} {node.path}"
        for one in node.props["compatible"].to_strings():
            if one.startswith("arm,cortex-m"):
                name = re.sub(r"f$", "", one.removeprefix("arm,").replace("m0+", "m0plus"))
                found.setdefault(name, f"{where} compatible")
        isa = _ISA.match(node.props["riscv,isa"].to_string()) if "riscv,isa" in node.props else None
        if isa:
            found.setdefault(isa[1], f"{where} riscv,isa")
    if len(found) != 1:
        raise NotReadError(f"it has not one kind of core but {sorted(found)}")
    return found.popitem()


def _memories(tree: Tree, dt: Any) -> Iterator[Memory]:  # noqa: ANN401
    """Memories of the chip, and the flash of the board where the chip has none."""
    chosen = dt.root.nodes["chosen"].props
    flash, ram = (chosen[key].to_path() if key in chosen else None for key in ("zephyr,flash", "zephyr,sram"))
    for node in dt.node_iter():
        reg = node.props.get("reg")
        if reg is None or ("compatible" not in node.props and node is not ram):
            continue
        kind = _kind(node, flash, ram)
        numbers = reg.to_nums()
        origin, size = (numbers[0], numbers[1]) if len(numbers) > 1 else (0, 0)
        if flash is not None and node is flash and size <= 1 and "size" in node.props:  # on a bus: in bits
            reg = node.props["size"]
            origin, size = _bus_window(node), reg.to_num() // 8
        if not kind or not size:
            continue
        external = not tree.place((reg if kind == "flash" else node).filename).startswith("dts/")
        if external and kind != "flash":
            continue  # of the board
        source = f"{tree.place(reg.filename)} {node.path} {reg.name}"
        region = (
            node.props["zephyr,memory-region"].to_string() if "zephyr,memory-region" in node.props else ""
        )
        label = region or (node.labels[0] if node.labels else node.name)
        yield Memory(_identifier(label), kind, origin, size, external, source)


def _kind(node: Any, flash: Any, ram: Any) -> str:  # noqa: ANN401
    """Kind of a node's memory; empty: none, or one that programs do not use."""
    kinds = set(node.props["compatible"].to_strings()) if "compatible" in node.props else set()
    if node is flash or "soc-nv-flash" in kinds:
        return "flash"
    if kinds & {"arm,itcm", "nxp,imx-itcm"}:
        return "itcm"
    region = node.props["zephyr,memory-region"].to_string() if "zephyr,memory-region" in node.props else ""
    is_ram = kinds & {"mmio-sram", "arm,dtcm", "nxp,imx-dtcm", "st,stm32-ccm"}
    if node is ram and node.path.startswith("/reserved-memory"):
        return ""  # a part of one that is found
    return "ram" if node is ram or (is_ram and (not region or _RAM_NAMES.fullmatch(region))) else ""


def _bus_window(node: Any) -> int:  # noqa: ANN401
    """Address at which the CPU sees a chip on a bus: the second range of its controller; 0: not known."""
    numbers = node.parent.props["reg"].to_nums() if "reg" in node.parent.props else []
    return numbers[2] if len(numbers) > 2 else 0


def _identifier(text: str) -> str:
    return re.sub(r"[^a-z0-9_]", "_", text.lower())


def _clock(tree: Tree, dt: Any, soc: str, dts: Path) -> tuple[int, str]:  # noqa: ANN401
    """Rate of the CPU as the board sets it; 0 where neither device tree nor Kconfig state it."""
    rates: dict[str, tuple[Any, Any]] = {}
    for node in dt.node_iter():
        names = {*node.labels, "cpu"} if re.fullmatch(r"/cpus/cpu@[^/]*", node.path) else set(node.labels)
        if "clock-frequency" in node.props:
            rates |= dict.fromkeys(names - rates.keys(), (node, node.props["clock-frequency"]))
    for name in _CLOCKS:
        node, rate = rates.get(name, (None, None))
        if rate is not None and rate.to_num() >= _LEAST_HZ:
            return rate.to_num(), f"{tree.place(rate.filename)} {node.path} clock-frequency"
    found = _kconfig(tree, soc, _HZ_BLOCK, dts.parent)
    for hz, condition in _HZ_DEFAULT.findall(found[1][0]) if found else ():
        is_ours = condition.startswith(f"SOC_{soc.upper()}_") and dts.stem.endswith(condition[-3:].lower())
        if int(hz) >= _LEAST_HZ and (condition in ("", "CORTEX_M_SYSTICK") or is_ours):
            return int(hz), f"{found[0]} SYS_CLOCK_HW_CYCLES_PER_SEC" if found else ""
    return 0, ""


def _kconfig(tree: Tree, soc: str, pattern: re.Pattern[str], *more: Path) -> tuple[str, re.Match[str]] | None:
    """The first Kconfig file of a board or SoC with a text, and what was found."""
    for folder in (*more, *_soc_folders(tree, soc)):
        for path in sorted(folder.glob("Kconfig*")):
            match = pattern.search(path.read_text(encoding="utf-8"))
            if match is not None:
                return tree.place(str(path)), match
    return None


def _soc_folders(tree: Tree, soc: str) -> Iterator[Path]:
    """Folders of the Kconfig files of a SoC, from its own to that of its family."""
    for folder, text in tree.soc_files.items():
        if re.search(rf"^config SOC_{soc}\w*$", text, re.MULTILINE | re.IGNORECASE):
            yield from (folder, folder.parent)


def _boards_with(tree: Tree, soc: str, file: str, first: str) -> list[str]:
    """Names of the boards with a SoC whose device tree includes a file, that of the row in front."""
    found = []
    for folder, said in tree.boards.items():
        socs: list[str] = [one["name"] for one in said.get("socs", ())]
        if soc not in socs:
            continue
        for dts in sorted(folder.glob("*.dts")):
            stem, name = dts.stem, said["name"]
            if stem != name and soc not in stem:
                continue
            if tree.chip_file_of(dts) != file:
                continue
            tail = stem.removeprefix(name).removeprefix("_").removeprefix(soc).removeprefix("_")
            found.append("/".join(filter(None, (name, soc if stem != name else "", tail))))
    return sorted(found, key=lambda one: (one.partition("/")[0] != first, one))


# ---- the rows ----


def row_text(chip: Chip, tree: Tree, stated: dict[str, Any]) -> str:
    """TOML of a chip."""
    said = stated.get(chip.name, {})
    sources = chip.sources | {key: value["source"] for key, value in said.items() if "source" in value}
    lines = [
        "# SPDX-License-Identifier: Apache-2.0",
        f"# Written by docs/chips.py from Zephyr {tree.version} and docs/chips_stated.toml.",
        *_pairs(name=chip.name, title=chip.title, vendor=chip.vendor, core=chip.core),
    ]
    lines += _pairs(dsp=chip.dsp) if chip.dsp is not None else []
    lines += _pairs(clock_hz=chip.clock_hz) if chip.clock_hz else []
    lines += _pairs(zephyr_boards=chip.boards)
    for memory in chip.memories:
        lines += ["", "[[memories]]", *_pairs(name=memory.name, kind=memory.kind)]
        lines += [f"origin = {memory.origin:#010x}", f"size_bytes = {memory.size_bytes}"]
        lines += _pairs(external=True) if memory.external else []
        lines += _pairs(source=f"zephyr {tree.version}: {memory.source}")
    for table in ("flash", "current"):
        if table in said:
            lines += ["", f"[{table}]", *_pairs(**said[table])]
    lines += ["", "[sources]"]
    for key in ("core", "dsp", "clock_hz", "zephyr_boards"):
        if sources.get(key):
            inside = key not in said
            lines += _pairs(**{key: f"zephyr {tree.version}: {sources[key]}" if inside else sources[key]})
    return "\n".join(lines) + "\n"


def _pairs(**values: Any) -> list[str]:  # noqa: ANN401
    return [f"{key} = {_toml(value)}" for key, value in values.items()]


def _toml(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value)


def main(arguments: Iterable[str]) -> int:
    """Write the rows of all chips, and say which could not be read."""
    trees = list(arguments)
    if len(trees) != 1 or not (Path(trees[0]) / "VERSION").is_file():
        sys.exit(str(__doc__))
    stated = msgspec.toml.decode(STATED.read_text(encoding="utf-8"))
    boards = stated.pop("boards")
    rows: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="mlf-chips-") as scratch:
        tree = Tree(Path(trees[0]).resolve(), Path(scratch))
        for board in boards:
            dts = next(tree.folder.glob(f"boards/**/{board}.dts"), None)
            try:
                if dts is None:
                    raise NotReadError("no such board")
                chip = read_chip(tree, dts, stated)
            except NotReadError as error:
                sys.stderr.write(f"{board}: {str(error)[:200]}\n")
                continue
            rows[chip.name] = row_text(chip, tree, stated)
    CHIPS.mkdir(exist_ok=True)
    for path in CHIPS.glob("*.toml"):
        if path.stem not in rows:
            path.unlink()
    for name, text in rows.items():
        (CHIPS / f"{name}.toml").write_text(text, encoding="utf-8")
    sys.stdout.write(f"{len(rows)} chips\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
