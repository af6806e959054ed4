# SPDX-License-Identifier: Apache-2.0
"""Commands about projects: generate, build, check, sbom."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from mlf_sdk.cli.clock import EPOCH, source_date
from mlf_sdk.cli.command import BUILD_STAGES, GENERATE_STAGES, RUN_STAGES, Command, Outcome
from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.declare import Options, option
from mlf_sdk.pipeline.options import GateOptions
from mlf_sdk.pipeline.progress import Progress
from mlf_sdk.pipeline.request import Request

_DIR = "Folder of a generated project."


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateOptions(Options):
    """Options of ``generate`` beside those of the request."""

    output: str = option(
        "",
        "Folder of the project: new, or one to renew.",
        flags=("--output", "-o"),
        metavar="DIR",
        required=True,
    )
    library: bool = option(
        False,
        "Runtime and model only, for an existing application: with --board a CMake library, without it a "
        "Zephyr module. Same as --app library.",
        group="Build",
    )
    sample_outputs: bool = option(
        False,
        "standalone: compare the outputs with those of the model on this machine, where it is built and run "
        "for that; twister then fails where they differ.",
        group="Build",
    )
    force: bool = option(False, "Replace generated files that you edited; each is kept as NAME.orig.")


def generate(request: Request, own: GenerateOptions, progress: Progress) -> Outcome:
    """Generate a C project, or renew one: your files are kept, edits of generated files refused.

    Example: mlf-sdk generate digits.tar -o app --board mps2-an386
    """
    from mlf_sdk.pipeline import api
    from mlf_sdk.reporting.terminal import generated_parts
    from mlf_sdk.targets.boards.load import load_board, load_boards

    if own.library:
        request = request.replace(app="library")
    if request.board is None and request.board_file is not None and request.platform != "zephyr":
        request = request.replace(board=load_board(Path(request.board_file)).name)
    if request.app == "library" and request.board is None:
        request = request.replace(board="any", platform="zephyr")  # a Zephyr module is not for one board
    if request.board is None:
        known = ", ".join(load_boards(request.board_file))
        raise InputError("no board was chosen", where="--board", hint=f"Choose one of: {known}")
    result = api.generate(
        list(request.source),
        own.output,
        request,
        force=own.force,
        sample_outputs=own.sample_outputs,
        progress=progress,
    )
    values = {
        "project": str(result.folder),
        "kept": result.kept,
        "backups": result.backups,
        "samples": result.samples,
        "lock": result.lock,
    }
    return Outcome(parts=generated_parts(result), values=values)


def build(request: Request, own: Options, progress: Progress) -> Outcome:
    """Build a generated project with CMake and Ninja, or with west.

    Example: mlf-sdk build app
    """
    from mlf_sdk.pipeline import api
    from mlf_sdk.reporting.layout import lines
    from mlf_sdk.reporting.terminal import built_parts

    built = api.build(request.source[0], request, progress=progress)
    signed = [str(path) for path in built.signed]
    values = {"elf": str(built.elf), "seconds": round(built.seconds, 3), "signed": signed}
    return Outcome(
        parts=[*lines("signed", signed), *built_parts(Path(request.source[0]), built)], values=values
    )


def check(request: Request, own: GateOptions, progress: Progress) -> Outcome:
    """Compare a built image with plan, budget, baseline.

    Example: mlf-sdk check app

    Example: mlf-sdk check app --max-flash 64K --max-stack 2K --baseline sizes.json --tolerance 1%
    """
    from mlf_sdk.pipeline import api
    from mlf_sdk.pipeline.gate import gate
    from mlf_sdk.pipeline.pipeline import Pipeline
    from mlf_sdk.reporting.gate import gate_parts, gate_values
    from mlf_sdk.reporting.layout import line
    from mlf_sdk.reporting.proof import check_parts, check_verdict
    from mlf_sdk.reporting.values import result_values

    report = api.check(request.source, request, progress=progress)
    gated = gate(Pipeline().project(request.replace(port=None)), report, own)
    ok = report.ok and gated.ok
    return Outcome(
        parts=[
            *check_parts(report)[:-1],
            *gate_parts(gated),
            line("verdict", check_verdict(report, also_ok=gated.ok)),
        ],
        values={**result_values(report), **gate_values(gated), "ok": ok},
        exit_code=0 if ok else 1,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SbomOptions(Options):
    """Options of ``sbom``."""

    output: str = option(
        "",
        "Write the SPDX document (JSON) to this file.",
        flags=("--output", "-o"),
        metavar="FILE",
        required=True,
    )
    now: bool = option(False, f"Put the present time in it, instead of ${EPOCH} or else none.")


def sbom(request: Request, own: SbomOptions, progress: Progress) -> Outcome:
    """Write what a project is made of, as SPDX.

    The image is part of it once the project is built.

    Example: mlf-sdk sbom app -o app.spdx.json
    """
    from mlf_sdk.pipeline.sbom import make_sbom
    from mlf_sdk.reporting.layout import counted, line, lines
    from mlf_sdk.tools.files import write_whole

    created = datetime.now(timezone.utc) if own.now else source_date()
    progress.say(f"reading {request.source[0]}")
    result = make_sbom(request.source[0], created=created)
    write_whole(Path(own.output), result.document)
    packages = [f"{p.name} {p.version_info}".strip() for p in result.packages]
    written = f"{own.output}: {counted(len(result.files), 'file')}"
    return Outcome(
        parts=[*lines("package", packages), line("written", written)],
        values={
            "output": own.output,
            "packages": [{"name": p.name, "version": p.version_info or None} for p in result.packages],
            "files": len(result.files),
        },
    )


COMMANDS = {
    "generate": Command(
        call=generate,
        source="MODEL",
        source_help="Models (.tflite, .onnx, .pt2, archives); one image for all of them.",
        count="many",
        stages=GENERATE_STAGES,
        own=GenerateOptions,
        omits=("west",),
    ),
    "build": Command(
        call=build,
        source="DIR",
        source_help=_DIR,
        stages=BUILD_STAGES,
        takes_project=True,
        omits=("module", "board"),
    ),
    "check": Command(
        call=check,
        source="DIR",
        source_help=_DIR,
        stages=RUN_STAGES,
        takes_project=True,
        own=GateOptions,
        omits=("board", "sign", "expect", "rtol", "atol", "twin"),
    ),
    "sbom": Command(call=sbom, source="DIR", source_help=_DIR, own=SbomOptions),
}
