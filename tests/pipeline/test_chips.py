# SPDX-License-Identifier: Apache-2.0
"""Choice of a chip: what fits, in which order, how long it takes, and chips named to other commands."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from archives import build, write
from cli_helpers import Caller
from mlf_sdk.errors import InputError
from mlf_sdk.judge.estimate import cost_models, estimate
from mlf_sdk.pipeline import chips
from mlf_sdk.pipeline.chipoptions import ChipsOptions
from mlf_sdk.pipeline.chips import ChipChoice, choose_chips, needs_of
from mlf_sdk.pipeline.request import Request
from mlf_sdk.planner.layout import lay_out
from mlf_sdk.targets.chips.load import load_chips
from tflite_models import Maker, small_network


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("chips") / "small.tflite"
    path.write_bytes(small_network())
    return path


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Caller:
    return Caller(capsys)


@pytest.fixture(scope="module")
def found(network: Path) -> ChipChoice:
    return choose_chips(Request(source=(str(network),)), ChipsOptions())


def test_chips_that_fit_are_listed_the_smallest_first(found: ChipChoice) -> None:
    sizes = [(one.chip.flash_bytes, one.chip.ram_bytes) for one in found.chips]
    assert found.model == "small" and sizes == sorted(sizes) and len(sizes) >= 60
    for one in found.chips:
        assert one.needs is not None and one.fits
        assert one.needs.ram_bytes <= one.chip.ram_bytes and one.needs.flash_bytes <= one.chip.flash_bytes
    assert len(found.chips) + found.small == len(load_chips())


def test_figures_follow_from_the_plan_and_the_estimate(found: ChipChoice, network: Path) -> None:
    one = next(one for one in found.chips if one.chip.name == "stm32l4r5xi")
    layout = lay_out(mlf_sdk.load(network, core="cortex-m4"))
    assert one.needs is not None and one.needs.core == "cortex-m4"
    assert one.needs.ram_bytes == layout.arena_reserved_bytes + layout.state_bytes + 2048
    costs = cost_models()["cortex-m4"]
    functions = len({step.symbol for step in layout.model.steps})
    assert one.needs.flash_bytes == (
        layout.params_bytes + functions * costs.kernel_bytes + costs.runtime_bytes
    )
    assert one.needs.estimate == estimate(one.needs.sizes.layers, costs)
    assert one.ms == pytest.approx(one.needs.estimate.cycles * 1e3 / one.chip.clock_hz)
    flash = one.chip.flash
    assert flash is not None and one.waiting_ms is not None
    waits = flash.wait_states * one.needs.estimate.instructions
    assert one.waiting_ms == pytest.approx(one.ms + waits * 1e3 / one.chip.clock_hz)


def test_energy_is_current_by_supply_by_time(found: ChipChoice) -> None:
    one = next(one for one in found.chips if one.chip.name == "nrf54l15")
    current = one.chip.current
    assert current is not None and current.volts is not None and one.ms is not None
    amperes = current.ua_per_mhz * 1e-6 * one.chip.clock_hz / 1e6
    assert one.mj == pytest.approx(amperes * current.volts * one.ms)
    assert all(one.mj is None for one in found.chips if one.chip.current is None)


def test_filters(network: Path, found: ChipChoice) -> None:
    def chips(**own: object) -> ChipChoice:
        return choose_chips(Request(source=(str(network),)), ChipsOptions(**own))  # type: ignore[arg-type]

    assert {one.chip.vendor for one in chips(vendor="Nordic").chips} == {"nordic"}
    assert {one.chip.core for one in chips(core="cortex-m33").chips} == {"cortex-m33"}
    limit = sorted(one.ms for one in found.chips if one.ms is not None)[10]
    fast = chips(max_ms=limit)
    assert all(one.ms is not None and one.ms <= limit for one in fast.chips) and len(fast.chips) >= 10
    everything = chips(all=True)
    assert len(everything.chips) == len(load_chips())
    whys = {one.chip.name: one.why for one in everything.chips if not one.fits}
    assert whys["ch32v003"] == "no estimate for rv32ec"
    for own, known in (({"vendor": "acme"}, "nordic"), ({"core": "z80"}, "cortex-m33")):
        with pytest.raises(InputError, match="no chip has") as caught:
            chips(**own)
        assert known in caught.value.hint


def test_a_large_model_says_what_it_lacks(tmp_path: Path) -> None:
    m = Maker(1)
    x = m.input((1, 64, 64, 8))
    path = tmp_path / "large.tflite"
    path.write_bytes(m.finish(m.conv(x, 8, (3, 3), 1, same=True)))
    found = choose_chips(Request(source=(str(path),)), ChipsOptions(vendor="st", all=True))
    why = {one.chip.name: one.why for one in found.chips}
    assert re.fullmatch(r"RAM: [\d,]+ B needed, 8,192 B there", why["stm32f030x8"])
    assert why["stm32h743xi"] == "" and "stm32f030x8" not in {
        one.chip.name for one in choose_chips(Request(source=(str(path),)), ChipsOptions()).chips
    }


def test_sizes_are_kept_between_runs(network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    said: list[str] = []

    class Listener:
        def say(self, text: str) -> None:
            said.append(text)

    request, costs = Request(source=(str(network),)), cost_models()["cortex-m4"]
    first = needs_of(request, costs, Listener())  # type: ignore[arg-type]
    assert len(said) == 1 and "cortex-m4" in said[0]
    assert needs_of(request, costs, Listener()) == first  # type: ignore[arg-type]
    assert needs_of(request, cost_models()["cortex-m7"], Listener()).sizes == first.sizes  # type: ignore[arg-type]
    assert len(said) == 1, "cores with the same kernels share what was planned"
    for file in (tmp_path / "cache").rglob("sizes/*.msgpack"):
        file.write_bytes(b"\xc1")
    assert needs_of(request, costs, Listener()) == first  # type: ignore[arg-type]
    network.write_bytes(small_network(1))
    assert len(said) == 2
    needs_of(request, costs, Listener())  # type: ignore[arg-type]
    assert len(said) == 3, "another model under the same name"
    network.write_bytes(small_network())


@pytest.mark.skipif(sys.platform != "linux", reason="plans are made in turn where there is no cheap fork")
def test_plans_beside_each_other_are_those_made_in_turn(
    network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every second kernel set is planned by another process; it leaves nothing but the files of the cache."""
    kept, choices, plan = [], [], chips._planned
    planned: list[str] = []
    monkeypatch.setattr(chips, "_planned", lambda r, p: planned.append(r.core) or plan(r, p))
    for processors in (1, 2):
        monkeypatch.setattr("os.cpu_count", lambda count=processors: count)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / str(processors)))
        planned.clear()
        choices.append(choose_chips(Request(source=(str(network),)), ChipsOptions()))
        kept.append({p.name: p.read_bytes() for p in (tmp_path / str(processors)).rglob("sizes/*.msgpack")})
        assert len(planned) == (len(kept[0]) if processors == 1 else (len(kept[0]) + 1) // 2)
    assert kept[0] == kept[1] and choices[0] == choices[1]


def test_an_archive_without_kernels_that_are_known_has_no_time(tmp_path: Path) -> None:
    path = write(build(), tmp_path / "tiny.tar")
    found = choose_chips(Request(source=(str(path),)), ChipsOptions())
    assert found.chips and all(one.ms is None and one.fits for one in found.chips)


def test_the_command_prints_a_table_and_values(call: Caller, network: Path) -> None:
    done = call("chips", network, "--vendor", "nordic", "--json")
    assert done.code == 0
    chip = next(one for one in done.value["chips"] if one["name"] == "nrf52840")
    assert chip["fits"] and chip["core"] == "cortex-m4" and chip["see"] == "docs/estimates.md"
    assert chip["sources"]["core"].startswith("zephyr ")
    text = call("chips", network, "--vendor", "nordic").out
    assert re.search(r"nrf52840 +cortex-m4 +64 +1 MiB +256 KiB +[\d.]+", text)
    assert "an estimate" in text and "docs/estimates.md" in text
    listed = call("chips").out
    assert "stm32f411xe" in listed and "nucleo_f411re" in listed


def test_inspect_shows_fit_and_time_on_a_chip(call: Caller, network: Path) -> None:
    done = call("inspect", network, "--chip", "stm32l4r5zi")
    assert re.search(r"chip +STM32L4R5XI: RAM [\d,]+ B, flash ~[\d,]+ B, no RPC server: it fits", done.out)
    assert re.search(r"~[\d.]+ ms at 80 MHz, STM32L4R5XI, estimate, see docs/estimates.md", done.out)
    value = call("inspect", network, "--chip", "stm32l4r5zi", "--json").value
    assert value["chip"]["name"] == "stm32l4r5xi" and value["chip"]["ms"] > 0
    assert "NRF51822" in call("inspect", network, "--board", "microbit").out
    assert "chip" not in call("inspect", network, "--json").value
    error = call("inspect", network, "--chip", "z80").block()
    assert error["what"] == "there is no chip 'z80'" and error["where"] == "--chip"


@pytest.mark.qemu
@pytest.mark.skipif(shutil.which("qemu-system-arm") is None, reason="not installed: qemu-system-arm")
def test_a_run_shows_the_time_on_a_chip(call: Caller, network: Path) -> None:
    report = mlf_sdk.run(network, board="mps2-an386", chip="stm32l4r5zi")
    assert report.chip is not None and report.chip.ms is not None and report.instructions is not None
    assert report.chip.cycles is not None and report.chip.cycles > report.instructions
    guessed = choose_chips(Request(source=(str(network),)), ChipsOptions(vendor="st"))
    one = next(one for one in guessed.chips if one.chip.name == "stm32l4r5xi")
    assert one.ms is not None and np.isclose(one.ms, report.chip.ms, rtol=0.5)
    done = call("run", network, "--board", "mps2-an386", "--chip", "stm32l4r5zi")
    assert re.search(r"instructions, ~[\d.]+ ms at 80 MHz, STM32L4R5XI, estimate", " ".join(done.out.split()))
    value = call("run", network, "--board", "mps2-an386", "--chip", "stm32l4r5zi", "--json").value
    assert value["chip"]["chip"] == "stm32l4r5xi" and value["chip"]["ms"] == report.chip.ms
