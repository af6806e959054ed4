# SPDX-License-Identifier: Apache-2.0
"""Models in several memories on Zephyr: sections in regions of the devicetree, refusals, and a run on QEMU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mlf_sdk
from large_models import mcunet_like
from mlf_sdk.errors import InputError
from mlf_sdk.targets.zephyr.build import ZephyrSetup
from tflite_models import small_network
from zephyr_bench import Bench, setup_of
from zephyr_trees import MakeTree, arm_modules, zephyr_options

ROW = Path(__file__).parents[1] / "boards/rows/an547-h743.toml"
ON_H743: dict[str, Any] = {"board": "an547-h743", "board_file": ROW, "platform": "zephyr"}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.tflite"
    path.write_bytes(small_network())
    return path


@pytest.mark.usefixtures("bench")
def test_each_memory_has_sections_in_its_region(make_tree: MakeTree, small: Path, tmp_path: Path) -> None:
    options = zephyr_options(setup_of(make_tree("4.1.0")))
    app = tmp_path / "app"
    mlf_sdk.generate(small, app, place=["arena=axi,weights=axi,code=sram"], **ON_H743, **options)
    script, source = ((app / "zephyr" / name).read_text() for name in ("memories.ld", "memories.c"))
    assert script.count("> ISRAM AT > ROMABLE_REGION") == 1 and script.count("(NOLOAD)") == 1
    for section in (".mlf.axi.noinit.mlf_arena.small_arena", ".mlf.axi.data.mlf_params.small_params"):
        assert f"  *({section})\n" in script
    assert "SYS_INIT(mlf_small_axi_copy, PRE_KERNEL_1, 0);" in source
    assert "select CODE_DATA_RELOCATION" in (app / "zephyr/Kconfig").read_text()
    build = (app / "model/small/CMakeLists.txt").read_text()
    assert "zephyr_code_relocate(LIBRARY mlf_small_kernels LOCATION SRAM_TEXT)" in build


@pytest.mark.usefixtures("bench")
def test_what_lies_in_zephyrs_own_memories_has_zephyrs_sections(
    make_tree: MakeTree, small: Path, tmp_path: Path
) -> None:
    options = zephyr_options(setup_of(make_tree("4.1.0")))
    app = tmp_path / "app"
    mlf_sdk.generate(small, app, place=["arena=dtcm,weights=dtcm"], **ON_H743, **options)
    assert "> " not in (app / "zephyr/memories.ld").read_text()
    assert ".section .data.mlf_params.small_params" in (app / "model/small/small_params.S").read_text()
    assert "CODE_DATA" not in (app / "zephyr/Kconfig").read_text()


def test_memories_without_a_region_are_refused(
    bench: Bench, make_tree: MakeTree, small: Path, tmp_path: Path
) -> None:
    del bench
    options = zephyr_options(setup_of(make_tree("4.1.0")))
    with pytest.raises(InputError, match="memories of mps2-an385 are not known") as caught:
        mlf_sdk.generate(
            small, tmp_path / "a", board="mps2-an385", platform="zephyr", place=["auto"], **options
        )
    assert "zephyr = REGION" in caught.value.hint
    with pytest.raises(InputError, match="has no memory 'flash' for weights"):
        mlf_sdk.generate(small, tmp_path / "b", place=["weights=flash"], **ON_H743, **options)


@pytest.mark.zephyr
@pytest.mark.qemu
@pytest.mark.slow
@pytest.mark.usefixtures("zephyr_tools")
@pytest.mark.parametrize(
    ("make", "pins", "items"),
    [
        (mcunet_like, "auto", {"arena dtcm", "arena axi", "weights dtcm"}),
        (small_network, "weights=axi,code=sram,arena=axi", {"arena axi", "weights axi", "code sram"}),
    ],
)
def test_a_model_in_several_regions_runs_and_each_is_proven(
    real_setup: ZephyrSetup, tmp_path: Path, make: Callable[[], bytes], pins: str, items: set[str]
) -> None:
    model = tmp_path / "large.tflite"
    model.write_bytes(make())
    options = zephyr_options(real_setup) | {"zephyr_modules": arm_modules(real_setup)}
    report = mlf_sdk.run(model, place=[pins], twin=False, **ON_H743, **options)
    assert report.ok and report.agrees
    rows = {row.item: row for row in report.check.rows if row.item.split()[-1] in ("dtcm", "axi", "sram")}
    assert items <= rows.keys()
    assert {row.state for row in rows.values()} == {"proven"}
    assert all(row.measured == row.planned for item, row in rows.items() if item.startswith("arena"))
