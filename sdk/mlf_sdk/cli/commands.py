# SPDX-License-Identifier: Apache-2.0
"""The commands: each turns its arguments into one call and shows the result."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mlf_sdk import api
from mlf_sdk.cli import options as opt
from mlf_sdk.cli.output import show, status
from mlf_sdk.errors import InputError
from mlf_sdk.platforms.boards import load_boards
from mlf_sdk.project.layout import lay_out
from mlf_sdk.report import terminal, values
from mlf_sdk.api.doctor import MachineExamination, examine_archive, examine_machine
from mlf_sdk.report.doctor import doctor_parts, doctor_values
from mlf_sdk.verify.data import write_npz

Archive = Annotated[Path, typer.Argument(help="Archive (.tar, .tar.gz, .tar.xz) or unpacked folder.")]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a generated project.")]


def inspect(archive: Archive, module: opt.Module = None, json: opt.Json = False) -> None:
    """Show what an archive holds: model, inputs, outputs, steps, memory.

    Example: mlf-sdk inspect digits.tar
    """
    model = api.load(archive, module=module)
    layout = lay_out(model)
    show(terminal.model_parts(model, layout), values.model_values(model, layout), as_json=json)


def doctor(
    archive: Annotated[Path | None, typer.Argument(help="Also examine this archive.")] = None,
    module: opt.Module = None,
    json: opt.Json = False,
) -> None:
    """Show what this machine lacks and how to get it; with ARCHIVE: what is odd in it.

    Example: mlf-sdk doctor model.tar
    """
    found = examine_machine() if archive is None else examine_archive(archive, module)
    show(doctor_parts(found), doctor_values(found), as_json=json)
    if isinstance(found, MachineExamination) and not found.ok:
        raise typer.Exit(3)


def boards(board_file: opt.BoardFile = None, json: opt.Json = False) -> None:
    """List the boards that are known.

    Example: mlf-sdk boards
    """
    rows = list(load_boards(board_file).values())
    show(terminal.boards_table(rows), {"boards": rows}, as_json=json)


def generate(
    archives: Annotated[list[Path], typer.Argument(metavar="ARCHIVE...", help="One image for all of them.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the project.")],
    board: opt.BoardName = None,
    board_file: opt.BoardFile = None,
    module: opt.Module = None,
    app: opt.AppName = "rpc",
    params: opt.Params = "flash",
    cflags: opt.Cflags = None,
    keep_inputs: opt.KeepInputs = False,
    share_arena: Annotated[
        bool, typer.Option("--share-arena", help="Several models use one arena; they never run at once.")
    ] = False,
    cmsis_nn: opt.CmsisNn = None,
    json: opt.Json = False,
) -> None:
    """Generate a complete C project; what you edited in src/ is kept.

    Example: mlf-sdk generate digits.tar -o app --board mps2-an386
    """
    if board is None:
        raise InputError(
            "no board was chosen",
            where="--board",
            hint="Choose one of: " + ", ".join(load_boards(board_file)),
        )
    chosen = opt.project_options(
        app=app,
        params=params,
        cflags=cflags,
        keep_inputs=keep_inputs,
        share_arena=share_arena,
        cmsis_nn=cmsis_nn,
    )
    project = api.generate(
        archives, output, board=board, board_file=board_file, module=module, options=chosen
    )
    result = {"project": str(project.folder), "kept": project.kept, "lock": project.lock}
    show(terminal.generated_parts(project), result, as_json=json)


def build(
    folder: Folder,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds.")] = 600.0,
    json: opt.Json = False,
) -> None:
    """Build a generated project with CMake and Ninja.

    Example: mlf-sdk build app
    """
    with status(as_json=json) as progress:
        progress.say(f"building {folder}")
        built = api.build(folder, timeout_s=timeout)
    result = {"elf": str(built.elf), "seconds": round(built.seconds, 3)}
    show([f"{built.elf}  ({built.seconds:.1f} s)"], result, as_json=json)


def check(folder: Folder, json: opt.Json = False) -> None:
    """Compare a built image with its plan and with the archive's memory summary.

    Example: mlf-sdk check app
    """
    report = api.check(folder)
    show(terminal.check_parts(report), values.check_values(report), as_json=json)
    if not report.ok:
        raise typer.Exit(1)


def run(
    target: Annotated[Path, typer.Argument(metavar="ARCHIVE|DIR", help="Archive, or folder of a project.")],
    board: opt.BoardName = None,
    board_file: opt.BoardFile = None,
    module: opt.Module = None,
    inputs: Annotated[
        Path | None, typer.Option("--inputs", help="npz file: an array for each input, by its real name.")
    ] = None,
    expect: Annotated[
        Path | None,
        typer.Option("--expect", help="npz file: outputs by name or number; 'label' for classes."),
    ] = None,
    rtol: Annotated[float, typer.Option("--rtol", help="Relative tolerance for floats.")] = 1e-5,
    atol: Annotated[
        float, typer.Option("--atol", help="Absolute tolerance; from 1 on also for integers.")
    ] = 1e-6,
    twin: Annotated[
        bool | None,
        typer.Option("--twin/--no-twin", help="Compare with the host as well (default: without --expect)."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", help="Write the outputs to this npz file.")
    ] = None,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds for all inferences together.")] = 120.0,
    params: opt.Params = "flash",
    cflags: opt.Cflags = None,
    keep_inputs: opt.KeepInputs = False,
    cmsis_nn: opt.CmsisNn = None,
    json: opt.Json = False,
) -> None:
    """Generate, build, boot, run, compare, and check the memory: an archive to a verified run.

    Example: mlf-sdk run digits.tar --board mps2-an386 --inputs test.npz --expect test.npz
    """
    chosen = opt.project_options(params=params, cflags=cflags, keep_inputs=keep_inputs, cmsis_nn=cmsis_nn)
    with status(as_json=json) as progress:
        report = api.run(
            target,
            board=board,
            board_file=board_file,
            module=module,
            inputs=inputs,
            expect=expect,
            rtol=rtol,
            atol=atol,
            twin=twin,
            timeout_s=timeout,
            options=chosen,
            say=progress.say,
            count=progress.count,
        )
    if output is not None:
        write_npz(output, report.outputs)
    show(terminal.run_parts(report), values.run_values(report), as_json=json)
    if not report.ok:
        raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    """Add all commands to the application, in the order of a person's work."""
    for command in (inspect, doctor, boards, generate, build, check, run):
        app.command()(command)
