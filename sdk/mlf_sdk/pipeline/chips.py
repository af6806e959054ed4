# SPDX-License-Identifier: Apache-2.0
"""Choice of a microcontroller for a model: fit, milliseconds and energy of an inference on each."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import msgspec

from mlf_sdk.compiler.cores import core_named
from mlf_sdk.errors import InputError, MlfError
from mlf_sdk.frontends.compiled import compiler_digest
from mlf_sdk.judge.chiptime import chip_of, energy_mj
from mlf_sdk.judge.estimate import CostModel, LayerWork, ModelEstimate, cost_models, estimate, layers_of
from mlf_sdk.pipeline.chipoptions import ChipsOptions
from mlf_sdk.pipeline.loading import compiled_sources, load_analysed
from mlf_sdk.pipeline.progress import SILENT, Progress
from mlf_sdk.pipeline.request import Request
from mlf_sdk.planner.layout import lay_out
from mlf_sdk.resources import cache_dir
from mlf_sdk.targets.boards import DEFAULT_BOARD
from mlf_sdk.targets.boards.load import find_board
from mlf_sdk.targets.chips.load import load_chips
from mlf_sdk.targets.chips.row import Chip
from mlf_sdk.tools.files import make_folder, write_whole
from mlf_sdk.tools.locks import cache_in_use
from mlf_sdk.tools.rowfile import described

STACK_BYTES: Final = 2048
"""Stack that an application is assumed to reserve, as the rows of small boards do."""


class ModelSizes(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of a compiled model and the work of its layers, as kept in the cache.

    Attributes:
        layers: empty: its file does not state its kernels.
    """

    model: str
    arena_bytes: int
    state_bytes: int
    params_bytes: int
    layers: tuple[LayerWork, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """Memory that a model takes on a core, and the estimate of one inference.

    Attributes:
        core: that its kernels are for.
        estimate: None: the archive does not state its kernels.
    """

    core: str
    sizes: ModelSizes
    costs: CostModel
    estimate: ModelEstimate | None

    @property
    def ram_bytes(self) -> int:
        """Arena, states and a stack."""
        return self.sizes.arena_bytes + self.sizes.state_bytes + STACK_BYTES

    @property
    def flash_bytes(self) -> int:
        """Parameters; kernels and runtime as estimated."""
        functions = len({layer.symbol for layer in self.sizes.layers})
        return self.sizes.params_bytes + functions * self.costs.kernel_bytes + self.costs.runtime_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipFigures:
    """A chip and what the model takes on it; None: not known.

    Attributes:
        needs: None where nothing is estimated for its core, or no model is given.
        cycles: of one inference, at no wait states.
        ms: at its clock.
        waiting_ms: where every instruction waits for the flash as the row's wait states say: a bound.
        mj: energy of one inference.
        why: memory that it lacks, or a fact that is not known; empty: the model fits.
    """

    chip: Chip
    needs: Needs | None = None
    cycles: int | None = None
    ms: float | None = None
    waiting_ms: float | None = None
    mj: float | None = None
    why: str = ""

    @property
    def fits(self) -> bool:
        """True where memories are known and hold the model."""
        return self.needs is not None and not self.why


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipChoice:
    """Chips for a model, the smallest first.

    Attributes:
        model: its name; empty: none was given, and all chips are listed.
        chips: those that passed the filters.
        small: number of chips that passed them and can't hold the model, or of which too little is known.
    """

    model: str
    chips: tuple[ChipFigures, ...]
    small: int = 0


def choose_chips(request: Request, own: ChipsOptions, progress: Progress = SILENT) -> ChipChoice:
    """List chips, of a model those that it fits, with an estimate of each inference.

    Raises:
        ArchiveError: the model can't be compiled or planned.
        InputError: a filter leaves no chip.
    """
    chips = _filtered(load_chips().values(), own)
    if not request.source:
        return ChipChoice(model="", chips=tuple(ChipFigures(chip=chip) for chip in _sorted(chips)))
    models = _models_of(chips)
    if compiled_sources(request) and Path(request.source[0]).is_file():
        _plan_beside(request, models, progress)
    known = {model.core: needs_of(request, model, progress) for model in models}
    figures = [figures_of(chip, _needs_of_chip(chip, known)) for chip in _sorted(chips)]
    fitting = [one for one in figures if own.all or one.fits]
    timely = [one for one in fitting if own.max_ms is None or (one.ms is not None and one.ms <= own.max_ms)]
    name = next(iter(known.values())).sizes.model if known else Path(request.source[0]).stem
    return ChipChoice(model=name, chips=tuple(timely), small=sum(not one.fits for one in figures))


def figures_on_chip(request: Request, progress: Progress = SILENT) -> ChipFigures | None:
    """Figures of the model on the chip that the request or its board's row names; None: neither does.

    Raises:
        ArchiveError: the model can't be compiled or planned.
        InputError: there is no such chip.
    """
    chip = chip_of(request.chip, find_board(request.board or DEFAULT_BOARD, request.board_file))
    if chip is None:
        return None
    costs = cost_models().get(chip.cpu)
    plain = request.replace(chip=None)
    return figures_of(chip, None if costs is None else needs_of(plain, costs, progress))


def _filtered(chips: Iterable[Chip], own: ChipsOptions) -> list[Chip]:
    result = [
        chip
        for chip in chips
        if (not own.vendor or own.vendor.lower() in (chip.vendor, chip.title.partition(" ")[0].lower()))
        and (not own.core or chip.core == own.core)
    ]
    if not result:
        asked = f"vendor '{own.vendor}'" if own.vendor else f"core '{own.core}'"
        values = sorted({(c.vendor if own.vendor else c.core) for c in load_chips().values()})
        raise InputError(f"no chip has {asked}", where="chips", hint=f"Known: {', '.join(values)}.")
    return result


def _sorted(chips: Iterable[Chip]) -> list[Chip]:
    return sorted(chips, key=lambda c: (c.flash_bytes or 1 << 40, c.ram_bytes, c.name))


def _models_of(chips: Iterable[Chip]) -> list[CostModel]:
    result = {model.core: model for chip in chips if (model := cost_models().get(chip.cpu)) is not None}
    return list(result.values())


def _needs_of_chip(chip: Chip, known: dict[str, Needs]) -> Needs | None:
    model = cost_models().get(chip.cpu)
    return None if model is None else known[model.core]


# ---- what a model takes ----


def needs_of(request: Request, costs: CostModel, progress: Progress = SILENT) -> Needs:
    """Memory and estimate of a model on a core; errors as in `choose_chips`."""
    sizes = _sizes(request, costs.core, progress)
    result = estimate(sizes.layers, costs) if sizes.layers else None
    return Needs(core=costs.core, sizes=sizes, costs=costs, estimate=result)


def _sizes(request: Request, core: str, progress: Progress) -> ModelSizes:
    """Sizes of the model, from the cache where they are there; cores with the same kernels share them."""
    made = request.replace(core=core) if compiled_sources(request) else request
    if not Path(request.source[0]).is_file():
        return _planned(made, progress)
    path = _kept_at(request, core)
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=described(ModelSizes))
    except (FileNotFoundError, msgspec.MsgspecError):
        result = _planned(made, progress)
    with cache_in_use():
        make_folder(path.parent)
        write_whole(path, msgspec.msgpack.encode(result))
    return result


def _kept_at(request: Request, core: str) -> Path:
    """File of the cache with the sizes of a model on a core."""
    what = core_named(core).instruction_sets if compiled_sources(request) else ()
    source = Path(request.source[0]).read_bytes()
    digest = hashlib.sha256(compiler_digest() + repr((what, request)).encode() + source)
    return cache_dir("sizes") / f"{digest.hexdigest()[:24]}.msgpack"


def _plan_beside(request: Request, models: list[CostModel], progress: Progress) -> None:
    """Plan for every second kernel set in a process of its own, which leaves its sizes in the cache.

    What fails there is planned again by who asks for the sizes, and reported then.
    """
    if sys.platform != "linux" or (os.cpu_count() or 1) < 2:  # elsewhere a process costs more than it spares
        return
    places = {_kept_at(request, model.core): model.core for model in models}
    cores = [core for place, core in places.items() if not place.exists()]
    if len(cores) < 2:
        return
    child = get_context("fork").Process(target=_plan_each, args=(request, cores[1::2]), daemon=True)
    child.start()
    with suppress(MlfError):
        for core in cores[::2]:
            _sizes(request, core, progress)
    child.join()


def _plan_each(request: Request, cores: list[str]) -> None:
    with suppress(Exception):
        for core in cores:
            _sizes(request, core, SILENT)


def _planned(request: Request, progress: Progress) -> ModelSizes:
    progress.say(f"planning {request.source[0]}" + (f" for {request.core}" if request.core else ""))
    (model,) = load_analysed(request)
    layout = lay_out(model)
    return ModelSizes(
        model=model.name,
        arena_bytes=layout.arena_reserved_bytes,
        state_bytes=layout.state_bytes,
        params_bytes=layout.params_bytes,
        layers=layers_of(model, all_or_none=True),
    )


def figures_of(chip: Chip, needs: Needs | None, cycles: int | None = None) -> ChipFigures:
    """Figures of a model on a chip.

    Args:
        needs: on its core; None: it is not known.
        cycles: of one inference, where they were counted; None: those of the estimate.
    """
    if needs is None:
        return ChipFigures(chip=chip, why=f"no estimate for {chip.core}")
    if cycles is None and needs.estimate is not None:
        cycles = needs.estimate.cycles
    ms = _ms(cycles, chip)
    waiting = None
    if ms is not None and chip.flash is not None and needs.estimate is not None and cycles is not None:
        waiting = _ms(cycles + chip.flash.wait_states * needs.estimate.instructions, chip)
    return ChipFigures(
        chip=chip,
        needs=needs,
        cycles=cycles,
        ms=ms,
        waiting_ms=waiting,
        mj=energy_mj(cycles, chip),
        why=_lacks(chip, needs),
    )


def _ms(cycles: int | None, chip: Chip) -> float | None:
    return None if cycles is None or not chip.clock_hz else cycles * 1e3 / chip.clock_hz


def _lacks(chip: Chip, needs: Needs) -> str:
    for kind, needed, has in (
        ("RAM", needs.ram_bytes, chip.ram_bytes),
        ("flash", needs.flash_bytes, chip.flash_bytes),
    ):
        if not has:
            return f"size of its {kind} not known"
        if needed > has:
            return f"{kind}: {needed:,} B needed, {has:,} B there"
    return ""
