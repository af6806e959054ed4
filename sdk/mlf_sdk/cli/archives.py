# SPDX-License-Identifier: Apache-2.0
"""Commands about archives and this machine: inspect, doctor, boards, cache."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from mlf_sdk.cli.command import Command, Outcome
from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.convertoptions import ConvertOptions
from mlf_sdk.pipeline.declare import Options, Stage, option
from mlf_sdk.pipeline.progress import Progress
from mlf_sdk.pipeline.quantizeoptions import QuantizeOptions
from mlf_sdk.pipeline.request import Request
from mlf_sdk.resources import cache_dir


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectOptions(Options):
    """Options of ``inspect``."""

    plan: bool = option(
        False, "Show what was read of each kernel, its effects, and what both cost in the arena."
    )


def inspect(request: Request, own: InspectOptions, progress: Progress) -> Outcome:
    """Show what a model or an archive holds, or what a firmware was made from.

    Of a .tflite, .onnx or .pt2, before it is compiled: operators, their needs, what is not supported.

    Example: mlf-sdk inspect model.tflite

    Example: mlf-sdk inspect digits.tar

    Example: mlf-sdk inspect digits.tar --plan --board mps3-an547

    Example: mlf-sdk inspect model.tflite --chip stm32l4r5zi

    Example: mlf-sdk inspect app/build/app.elf
    """
    from mlf_sdk.frontends.filetype import is_elf

    if is_elf(Path(request.source[0])):
        from mlf_sdk.pipeline.firmware import inspect_firmware
        from mlf_sdk.reporting.firmware import firmware_parts, firmware_values

        if request.module is not None:
            raise InputError("a firmware shows all of its models", where="--module")
        result = inspect_firmware(request.source[0])
        return Outcome(parts=firmware_parts(result), values=firmware_values(result))
    from mlf_sdk.pipeline.loading import compiled_sources, load_analysed

    placed = _placed(request)
    on_chip = _on_chip(request, progress)
    request = request.replace(chip=None, place=())
    if compiled_sources(request) and not own.plan:
        from mlf_sdk.pipeline.survey import survey_request
        from mlf_sdk.reporting.survey import survey_parts, survey_values

        surveyed = survey_request(request)
        if placed.parts:  # in one RAM it may be too large: several hold it
            surveyed = dataclasses.replace(surveyed, boards=())
        return Outcome(
            parts=[*survey_parts(surveyed), *placed.parts, *on_chip.parts],
            values={**survey_values(surveyed), **placed.values, **on_chip.values},
            exit_code=0 if surveyed.ok else 1,
        )
    from mlf_sdk.planner.layout import lay_out
    from mlf_sdk.reporting.model import model_parts, model_values

    progress.say(f"reading {request.source[0]}")
    (model,) = load_analysed(request)
    layout = lay_out(model)
    parts, values = model_parts(model, layout), model_values(model, layout)
    if own.plan:
        from mlf_sdk.planner.costs import bytes_saved, step_costs
        from mlf_sdk.reporting.plan import plan_parts, plan_values

        figures = step_costs(layout), bytes_saved(layout)
        parts, values = (
            [*parts, *plan_parts(layout, *figures)],
            values | {"plan": plan_values(layout, *figures)},
        )
    return Outcome(
        parts=[*parts, *placed.parts, *on_chip.parts], values={**values, **placed.values, **on_chip.values}
    )


def _placed(request: Request) -> Outcome:
    """Memories of the board in which the model would lie; nothing without ``--place``."""
    if not request.place:
        return Outcome()
    from mlf_sdk.pipeline.loading import load_analysed
    from mlf_sdk.pipeline.stages import board_of, project_options
    from mlf_sdk.reporting.placement import placement_parts, placement_values
    from mlf_sdk.targets.boards.placed import placements

    (placement,) = placements(load_analysed(request), board_of(request), project_options(request))
    return Outcome(parts=placement_parts(placement), values={"placement": placement_values(placement)})


def _on_chip(request: Request, progress: Progress) -> Outcome:
    """Fit and time of the model on the chip that the request or its board's row names; else nothing."""
    if not request.chip and not request.board:
        return Outcome()
    from mlf_sdk.pipeline.chips import figures_on_chip
    from mlf_sdk.reporting.chips import chip_parts, chip_values

    figures = figures_on_chip(request, progress)
    return (
        Outcome()
        if figures is None
        else Outcome(parts=chip_parts(figures), values={"chip": chip_values(figures)})
    )


def doctor(request: Request, own: Options, progress: Progress) -> Outcome:
    """Show which tools are missing, or what is unusual in an archive.

    Example: mlf-sdk doctor

    Example: mlf-sdk doctor digits.tar --board mps2-an386
    """
    from mlf_sdk.pipeline.doctor import examine_machine, examine_request
    from mlf_sdk.pipeline.pipeline import Pipeline
    from mlf_sdk.reporting.doctor import doctor_parts, doctor_values

    if request.source:
        archive = examine_request(request, Pipeline(progress))
        return Outcome(
            parts=doctor_parts(archive), values=doctor_values(archive), exit_code=0 if archive.ok else 1
        )
    if request.board is not None:
        raise InputError(
            "a board is examined with an archive", where="--board", hint="doctor MODEL --board NAME"
        )
    progress.say("looking for tools")
    machine = examine_machine(request)
    return Outcome(
        parts=doctor_parts(machine), values=doctor_values(machine), exit_code=0 if machine.ok else 3
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheOptions(Options):
    """Options of ``cache``."""

    action: str = option(
        "show",
        "show: its folder and size; clean: remove it.",
        count="optional",
        metavar="[show|clean]",
        choices=("show", "clean"),
    )


def cache(request: Request, own: CacheOptions, progress: Progress) -> Outcome:
    """Show or remove what is kept between runs: projects, builds, proofs.

    ``clean`` waits up to 10 s for commands that use it; if they go on, it removes nothing and says so.

    Example: mlf-sdk cache

    Example: mlf-sdk cache clean
    """
    from mlf_sdk.pipeline.cache import cache_bytes, clean_cache
    from mlf_sdk.reporting.layout import line, size

    folder = cache_dir()
    freed = clean_cache() if own.action == "clean" else 0
    left = cache_bytes()
    parts = [line("folder", str(folder)), line("size", size(left))]
    if own.action == "clean":
        parts.append(line("removed", size(freed)))
    return Outcome(parts=parts, values={"folder": str(folder), "size_bytes": left, "removed_bytes": freed})


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOptions(Options):
    """Options of ``compile``."""

    output: str = option("", "Archive to write.", flags=("-o", "--output"), metavar="FILE", required=True)
    name: str = option("", "Name of the model in C and in the archive. Default: the file's.", metavar="NAME")
    tune: bool = option(
        False,
        "Count the kernels of each layer on an emulated board with the core, or in cycles on that of --port, "
        "and take the cheapest.",
    )
    probe: str | None = option(
        None,
        "With --tune --port: what the runner that flashes works on, where it is not the board's serial port: "
        "the debug server with gdb (localhost:3333), the volume to copy to.",
        group="Flash",
        metavar="PORT",
    )
    runner: str | None = option(
        None,
        "With --tune --port: runner that flashes. Default: that of the board's row.",
        group="Flash",
        metavar="NAME",
        complete="runner",
    )
    runner_file: str | None = option(
        None,
        "With --tune --port: TOML file with a runner of your own.",
        group="Flash",
        metavar="FILE",
        exists=True,
    )
    report: str | None = option(
        None, "Write a page with the kernels of each layer, and what the choice costs.", metavar="PAGE"
    )


def compile_(request: Request, own: CompileOptions, progress: Progress) -> Outcome:
    """Compile a .tflite, .onnx or .pt2 model to an archive with kernels made for it.

    Example: mlf-sdk compile model.tflite -o model.tar

    Example: mlf-sdk compile model.tflite -o model.tar --core cortex-m4 --for speed

    Example: mlf-sdk compile model.tflite -o model.tar --core cortex-m4 --tune

    Example: mlf-sdk compile model.tflite -o model.tar --board microbit --tune --port /dev/ttyACM0
    """
    from mlf_sdk.pipeline.compile import compile as compile_model
    from mlf_sdk.pipeline.options import ProbeOptions
    from mlf_sdk.planner.layout import lay_out
    from mlf_sdk.reporting.layout import line, size
    from mlf_sdk.reporting.model import model_parts, model_values
    from mlf_sdk.tools.files import write_whole

    probe = ProbeOptions(port=own.probe, runner=own.runner, runner_file=own.runner_file)
    model = compile_model(
        request.source[0],
        own.output,
        request,
        name=own.name,
        with_choices=own.report is not None,
        tune=own.tune,
        probe=probe if probe != ProbeOptions() else None,
        progress=progress,
    )
    layout = lay_out(model.model)
    if own.report is not None:
        from mlf_sdk.reporting.html.choices import choices_page

        write_whole(Path(own.report), choices_page(model))
    written = line("written", f"{model.output}: {size(model.size_bytes)}")
    return Outcome(
        parts=[*model_parts(model.model, layout), written],
        values={
            **model_values(model.model, layout),
            "output": str(model.output),
            "size_bytes": model.size_bytes,
            "choices": [dataclasses.asdict(choice) for choice in model.choices],
        },
    )


def convert(request: Request, own: ConvertOptions, progress: Progress) -> Outcome:
    """Write a compiled model of any format as an archive or as a bundle.

    Example: mlf-sdk convert bundle/ -o model.tar

    Example: mlf-sdk convert model.tar -o bundle --to bundle --board mps2-an386
    """
    from mlf_sdk.pipeline.convert import convert as convert_model
    from mlf_sdk.reporting.convert import converted_parts, converted_values

    result = convert_model(request=request, own=own, progress=progress)
    return Outcome(parts=converted_parts(result), values=converted_values(result))


def quantize(request: Request, own: QuantizeOptions, progress: Progress) -> Outcome:
    """Quantise a float ONNX model to int8 with typical inputs; show what it saves and what it loses.

    Example: mlf-sdk quantize model.onnx --calibration data.npz -o int8.onnx
    """
    from mlf_sdk.pipeline.quantize import quantize as quantize_model
    from mlf_sdk.reporting.quantize import quantized_parts, quantized_values

    result = quantize_model(request=request, own=own, progress=progress)
    return Outcome(parts=quantized_parts(result), values=quantized_values(result))


COMMANDS = {
    "quantize": Command(
        call=quantize,
        source="MODEL",
        source_help="ONNX model with real numbers.",
        stages=frozenset({Stage.LOAD}),
        takes=("board", "board_file"),
        omits=("module", "output_names", "tensor_types", "more_sources"),
        own=QuantizeOptions,
    ),
    "convert": Command(
        call=convert,
        source="MODEL",
        source_help="Archive, bundle, or any other format that is known.",
        stages=frozenset({Stage.LOAD}),
        takes=("board", "board_file", "cflags", "cmsis_nn", "keep_inputs"),
        own=ConvertOptions,
    ),
    "compile": Command(
        call=compile_,
        source="MODEL",
        source_help="Model: .tflite, .onnx or .pt2.",
        stages=frozenset({Stage.LOAD}),
        takes=("board", "board_file", "platform", "port", "baud", "max_baud"),
        omits=("module", "output_names", "tensor_types", "more_sources"),
        own=CompileOptions,
    ),
    "inspect": Command(
        call=inspect,
        source="MODEL|ARCHIVE|FIRMWARE",
        source_help="Model (.tflite, .onnx, .pt2); archive or unpacked folder; or a linked ELF file.",
        stages=frozenset({Stage.LOAD}),
        takes=("board", "board_file", "chip", "cflags", "cmsis_nn", "place"),
        own=InspectOptions,
    ),
    "doctor": Command(
        call=doctor,
        source="MODEL",
        source_help="Examine this model or archive, not the machine.",
        count="optional",
        stages=frozenset({Stage.LOAD, Stage.PLAN}),
    ),
    "cache": Command(call=cache, own=CacheOptions),
}
