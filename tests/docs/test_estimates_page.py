# SPDX-License-Identifier: Apache-2.0
"""The page of estimates and the scripts behind its figures and the rows of chips."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from docs_scripts import docs_script

ROOT = Path(__file__).resolve().parents[2]


def test_the_tables_of_the_page_are_those_of_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    found = docs_script("estimates")
    page = found.PAGE.read_text(encoding="utf-8")
    assert found.write(page) == page, "python docs/estimates.py"
    errors = [int(text) for text in re.findall(r"([+-]\d+)% \|$", page, re.MULTILINE)]
    assert len(errors) >= 12
    assert page.count("| not counted | - |") == page.count("| not checked |")
    assert all(row.count("|") == 8 for row in page.splitlines() if "published" not in row and "+" in row[-6:])


def test_rows_that_are_not_measured_again_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    found = docs_script("estimates")
    row = "| STM32L4R5ZI | TVM's own kernels (microTVM e3a6cb6a, Zephyr 2.7.3) | kws | 10 | 20 | 1 | +0% |"
    lines = found.published_table(None, row)
    real = 120e6 / 6.943
    assert any(line.startswith(row[:72]) and f"| 10 | 20 | {real:,.0f} | -100% |" in line for line in lines)


def test_a_fit_finds_the_terms_of_its_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = docs_script("layer_costs")

    def sample(kernel: str, macs: int, elements: int) -> object:
        instructions = 2 * macs + 5 * elements + 100
        return costs.Sample(
            kernel=kernel, macs=macs, elements=elements, instructions=instructions, cycles=3 * instructions
        )

    samples = [sample("conv", 1000, 10), sample("conv", 5000, 90), sample("conv", 700, 300)]
    assert costs.fit(samples, "instructions") == pytest.approx((2, 5, 100))
    assert costs.fit(samples, "cycles") == pytest.approx((6, 15, 300))
    assert costs.fit([], "cycles") == (0, 0, 0)
    models = [
        costs.Measured(
            model=name,
            core="cortex-m4",
            total=1,
            cycles=1,
            functions=1,
            kernel_bytes=10,
            runtime_bytes=20,
            samples=tuple(samples) if name != "odd" else (sample("other", 100, 1),),
        )
        for name in ("one", "two", "odd")
    ]
    errors = costs.errors(models, "cycles")
    assert errors["one"] == pytest.approx(0, abs=1e-9) and abs(errors["odd"]) < 0.5
    assert 'kernel = "conv"\nsamples = 6' in costs.row_text("cortex-m4", models)


class Property:
    """A property of a stand-in for a device tree."""

    def __init__(self, filename: str, *numbers: int, name: str = "reg") -> None:
        self.filename, self.numbers, self.name = filename, numbers, name

    def to_nums(self) -> tuple[int, ...]:
        return self.numbers

    def to_num(self) -> int:
        return self.numbers[0]

    def to_strings(self) -> tuple[str, ...]:
        return (self.name,)


class Node:
    """A node of a stand-in for a device tree."""

    def __init__(self, path: str, label: str, filename: str, **props: Property) -> None:
        self.path, self.name, self.labels, self.filename = path, path, [label], filename
        self.props = {key.replace("_", "-"): value for key, value in props.items()}
        self.parent = self


class Tree:
    """Two nodes of a chip, and one of its board."""

    soc_files: dict[Path, str]

    def place(self, path: str) -> str:
        return path


def test_memories_of_the_board_are_not_those_of_the_chip(monkeypatch: pytest.MonkeyPatch) -> None:
    chips = docs_script("chips")
    sram = Property("", name="mmio-sram")
    chip = Node(
        "/memory@20000000", "sram0", "dts/a.dtsi", compatible=sram, reg=Property("dts/a.dtsi", 32, 64)
    )
    board = Node(
        "/memory@c0", "sdram", "boards/b.dts", compatible=sram, reg=Property("boards/b.dts", 12, 512)
    )
    flash = Node("/flash", "flash0", "boards/b.dts", reg=Property("boards/b.dts", 8, 16))

    class Chosen:
        def __init__(self, node: Node) -> None:
            self.node = node

        def to_path(self) -> Node:
            return self.node

    chosen = Node("/chosen", "", "")
    chosen.props = {"zephyr,sram": Chosen(chip), "zephyr,flash": Chosen(flash)}  # type: ignore[dict-item]

    class Dt:
        root = SimpleNamespace(nodes={"chosen": chosen})

        def node_iter(self) -> list[Node]:
            return [chip, board]

    found = list(chips._memories(Tree(), Dt()))
    assert [(m.name, m.kind, m.origin, m.size_bytes, m.external) for m in found] == [
        ("sram0", "ram", 32, 64, False)
    ]
    assert found[0].source == "dts/a.dtsi /memory@20000000 reg"


@pytest.mark.parametrize(
    ("text", "hz"),
    [
        ("config SYS_CLOCK_HW_CYCLES_PER_SEC\n\tdefault 96000000\n", 96_000_000),
        ("config SYS_CLOCK_HW_CYCLES_PER_SEC\n\tdefault 1000000 if OS\n\tdefault 48000000 if CORTEX_M_SYSTICK\n", 48_000_000),
        ("config SYS_CLOCK_HW_CYCLES_PER_SEC\n\tdefault 32768\n", 0),
        ("config OTHER\n\tdefault 96000000\n", 0),
    ],
)  # fmt: skip
def test_a_clock_of_kconfig_is_no_timer(
    text: str, hz: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chips = docs_script("chips")
    (tmp_path / "Kconfig.defconfig").write_text(text)
    tree = Tree()
    tree.soc_files = {tmp_path: "config SOC_SOME\n"}

    class Dt:
        def node_iter(self) -> list[Node]:
            return []

    found, source = chips._clock(tree, Dt(), "some", Path("/none/board.dts"))
    assert found == hz and bool(source) is bool(hz)
