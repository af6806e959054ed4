# SPDX-License-Identifier: Apache-2.0
"""The commands: each turns its arguments into one call and shows the result."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mlf_sdk import pipeline as api
from mlf_sdk.cli import options as opt
from mlf_sdk.cli import serial as onport
from mlf_sdk.cli.cases import test
from mlf_sdk.cli.check import check
from mlf_sdk.cli.compare import compare
from mlf_sdk.cli.flash import flash
from mlf_sdk.cli.inspect import inspect
from mlf_sdk.cli.output import show, status
from mlf_sdk.cli.params import params as params_commands
from mlf_sdk.cli.profile import profile
from mlf_sdk.cli.proof import proof
from mlf_sdk.cli.report import report
from mlf_sdk.cli.sbom import sbom
from mlf_sdk.cli.triage import triage
from mlf_sdk.cli.verify import verify
from mlf_sdk.errors import InputError
from mlf_sdk.judge.data import write_npz
from mlf_sdk.pipeline.doctor import MachineExamination, examine_archive, examine_machine
from mlf_sdk.pipeline.places import is_place, located
from mlf_sdk.report import terminal, values
from mlf_sdk.report.doctor import doctor_parts, doctor_values
from mlf_sdk.report.layout import lines
from mlf_sdk.report.proof import run_parts
from mlf_sdk.targets.boards.load import load_boards
from mlf_sdk.targets.zephyr.output import signed_images


def doctor(
    archive: Annotated[
        Path | None, typer.Argument(metavar="ARCHIVE", help="Examine this archive, not the machine.")
    ] = None,
    module: opt.Module = None,
    board: opt.BoardName = None,
    board_file: opt.BoardFile = None,
    zephyr_base: opt.ZephyrBase = None,
    json: opt.Json = False,
    debug: opt.Debug = False,
) -> None:
    """Show which tools are missing, or what is odd.

    Example: mlf-sdk doctor

    Example: mlf-sdk doctor digits.tar --board mps2-an386
    """
    if archive is None and board is not None:
        raise typer.BadParameter("--board is for an archive: doctor ARCHIVE --board NAME")
    with status(as_json=json) as progress:
        progress.say("looking for tools" if archive is None else f"reading {archive.name}")
        found = (
            examine_machine(opt.zephyr_setup(zephyr_base))
            if archive is None
            else examine_archive(archive, module, board=board, board_file=board_file)
        )
    show(doctor_parts(found), doctor_values(found), as_json=json)
    if not found.ok:
        raise typer.Exit(3 if isinstance(found, MachineExamination) else 1)


def boards(board_file: opt.BoardFile = None, json: opt.Json = False, debug: opt.Debug = False) -> None:
    """List the boards that are known.

    Example: mlf-sdk boards
    """
    rows = list(load_boards(board_file).values())
    show(terminal.boards_parts(rows), {"boards": rows}, as_json=json)


def generate(  # noqa: PLR0913, PLR0917 (a command's options)
    archives: Annotated[list[Path], typer.Argument(metavar="ARCHIVE", help="One image for all of them.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DIR", help="Folder of the project: new, or one to renew."),
    ],
    board: opt.BoardName = None,
    board_file: opt.BoardFile = None,
    module: opt.Module = None,
    app: opt.AppName = opt.App.RPC,
    executor: opt.ExecutorName = opt.Executor.STATIC,
    params: opt.ParamsPlace = opt.Params.FLASH,
    cflags: opt.Cflags = None,
    keep_inputs: opt.KeepInputs = False,
    share_arena: Annotated[
        bool, typer.Option("--share-arena", help="Several models use one arena; they never run at once.")
    ] = False,
    cmsis_nn: opt.CmsisNn = None,
    platform: opt.PlatformName = None,
    library: Annotated[
        bool,
        typer.Option(
            "--library",
            help="Runtime and model only, for an application that exists: with --board a CMake library, "
            "without it a Zephyr module.",
        ),
    ] = False,
    zephyr_base: opt.ZephyrBase = None,
    json: opt.Json = False,
    debug: opt.Debug = False,
) -> None:
    """Generate a C project; what you edited is kept.

    Example: mlf-sdk generate digits.tar -o app --board mps2-an386
    """
    for_zephyr = opt.platform_name(platform) == "zephyr" or (library and board is None)
    if library and board is None:
        board = "any"  # it is not for one board
    if board is None:
        known = ", ".join(load_boards(board_file))
        raise InputError("no board was chosen", where="--board", hint=f"Choose one of: {known}")
    chosen = opt.project_options(
        app=app,
        params=params,
        cflags=cflags,
        keep_inputs=keep_inputs,
        share_arena=share_arena,
        cmsis_nn=cmsis_nn,
        library=library,
        executor=executor,
    )
    with status(as_json=json) as progress:
        progress.say(f"generating {output}")
        project = api.generate(
            archives,
            output,
            board=board,
            board_file=board_file,
            module=module,
            options=chosen,
            platform="zephyr" if for_zephyr else opt.platform_name(platform),
            zephyr=opt.zephyr_setup(zephyr_base),
        )
    result = {"project": str(project.folder), "kept": project.kept, "lock": project.lock}
    show(terminal.generated_parts(project), result, as_json=json)


def build(
    folder: opt.Folder,
    timeout: opt.BuildTimeout = 600.0,
    zephyr_base: opt.ZephyrBase = None,
    zephyr_module: opt.ZephyrModule = None,
    west: opt.West = None,
    sign: opt.SignKey = None,
    json: opt.Json = False,
    debug: opt.Debug = False,
) -> None:
    """Build a generated project with CMake and Ninja, or with west.

    Example: mlf-sdk build app
    """
    with status(as_json=json) as progress:
        progress.say(f"building {folder}")
        setup = opt.zephyr_setup(zephyr_base, zephyr_module, west)
        built = api.build(folder, timeout_s=timeout, zephyr=setup, sign=sign)
    signed = [str(path) for path in signed_images(folder / "build")] if sign else []
    result = {"elf": str(built.elf), "seconds": round(built.seconds, 3), "signed": signed}
    show([*lines("signed", signed), *terminal.built_parts(folder, built)], result, as_json=json)


def run(  # noqa: PLR0913, PLR0917 (a command's options)
    target: Annotated[
        Path, typer.Argument(metavar="ARCHIVE|DIR", help="An archive, or the folder of a generated project.")
    ],
    board: opt.RunBoardName = None,
    board_file: opt.BoardFile = None,
    module: opt.Module = None,
    inputs: Annotated[
        Path | None,
        typer.Option(
            "--inputs",
            metavar="FILE",
            help="npz file: an array for each input, by its name; one more leading axis is a batch. "
            "Without it, a repeatable pattern.",
        ),
    ] = None,
    expect: Annotated[
        Path | None,
        typer.Option(
            "--expect", metavar="FILE", help="npz file: outputs by name or number; 'label' holds classes."
        ),
    ] = None,
    rtol: opt.Rtol = 1e-5,
    atol: opt.Atol = 1e-6,
    twin: Annotated[
        bool | None,
        typer.Option("--twin/--no-twin", help="Compare with the host as well (default: without --expect)."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write the outputs to this npz file.")
    ] = None,
    timeout: opt.RunTimeout = 120.0,
    params: opt.ParamsPlace = opt.Params.FLASH,
    cflags: opt.Cflags = None,
    keep_inputs: opt.KeepInputs = False,
    cmsis_nn: opt.CmsisNn = None,
    platform: opt.PlatformName = None,
    zephyr_base: opt.ZephyrBase = None,
    zephyr_module: opt.ZephyrModule = None,
    west: opt.West = None,
    port: onport.PortName = None,
    baud: onport.Baud = None,
    max_baud: onport.MaxBaud = None,
    json: opt.Json = False,
    debug: opt.Debug = False,
) -> None:
    """Do it all: build, boot, run, compare, check.

    Example: mlf-sdk run digits.tar --inputs test.npz --expect test.npz
    """
    chosen = opt.project_options(params=params, cflags=cflags, keep_inputs=keep_inputs, cmsis_nn=cmsis_nn)
    opt.check_options_of_project(target, None if is_place(board) else board, board_file, chosen)
    if output is not None and not output.parent.is_dir():
        raise InputError(
            "the folder of the output is not there",
            where=str(output),
            hint="Make the folder, or give another.",
        )
    choice = onport.port_choice(port, baud, max_baud)
    with status(as_json=json) as progress, located(board, choice) as (name, place):
        report = api.run(
            target,
            board=name,
            board_file=board_file,
            module=module,
            inputs=inputs,
            expect=expect,
            rtol=rtol,
            atol=atol,
            twin=twin,
            timeout_s=timeout,
            options=chosen,
            platform=opt.platform_name(platform),
            zephyr=opt.zephyr_setup(zephyr_base, zephyr_module, west),
            port=place,
            say=progress.say,
            count=progress.count,
        )
    if output is not None:
        write_npz(output, report.outputs)
    show(run_parts(report), values.run_values(report), as_json=json)
    if not report.ok:
        raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    """Add all commands to the application, in the order of a person's work."""
    for command in (inspect, doctor, boards, generate, build, check, run, report, test, proof, flash):
        app.command()(command)
    for of_steps in (profile, compare):
        app.command()(of_steps)
    for of_ports in (onport.ports, verify, onport.monitor, triage, sbom):
        app.command()(of_ports)
    app.add_typer(params_commands)
