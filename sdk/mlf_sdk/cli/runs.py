# SPDX-License-Identifier: Apache-2.0
"""Commands that run a model: run, test, proof, report, profile, compare."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from mlf_sdk.cli.command import RUN_STAGES, Command, Outcome
from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.declare import Options, Stage, option
from mlf_sdk.pipeline.options import CasesOptions, CompareOptions, GatherOptions, ProfileOptions, ProofOptions
from mlf_sdk.pipeline.progress import Progress
from mlf_sdk.pipeline.request import Request

_SOURCE = "MODEL|DIR"
_SOURCE_HELP = "A model (.tflite, .onnx, .pt2, archive), or the folder of a generated project."


def check_folder_of(path: str | None) -> None:
    """Refuse an output in a folder that does not exist, before the work."""
    if path is not None and not Path(path).absolute().parent.is_dir():
        raise InputError(
            "the folder of the output does not exist", where=path, hint="Make the folder, or give another."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(Options):
    """Options of ``run`` beside those of the request."""

    output: str | None = option(
        None, "Write the outputs to this npz file.", flags=("--output", "-o"), metavar="FILE"
    )


def run(request: Request, own: RunOptions, progress: Progress) -> Outcome:
    """Build, boot and run a model, compare its outputs, and check its memory.

    Example: mlf-sdk run model.tflite --board mps2-an386

    Example: mlf-sdk run digits.tar --inputs test.npz --expect test.npz
    """
    from mlf_sdk.judge.data import write_npz
    from mlf_sdk.pipeline.pipeline import Pipeline
    from mlf_sdk.pipeline.run import run_request
    from mlf_sdk.reporting.proof import run_parts
    from mlf_sdk.reporting.values import run_values

    check_folder_of(own.output)
    report = run_request(request, Pipeline(progress))
    if own.output is not None:
        write_npz(Path(own.output), report.outputs)
    return Outcome(parts=run_parts(report), values=run_values(report), exit_code=0 if report.ok else 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TestOptions(CasesOptions):
    """Options of ``test`` beside those of the request."""

    junit: str | None = option(None, "Write a JUnit XML report to this file.", metavar="FILE")


def test(request: Request, own: TestOptions, progress: Progress) -> Outcome:
    """Run many cases: outputs within tolerance, or an accuracy.

    Example: mlf-sdk test digits.tar --cases test.npz --min-accuracy 0.95 --junit report.xml
    """
    from mlf_sdk.pipeline.cases import test_request
    from mlf_sdk.pipeline.pipeline import Pipeline
    from mlf_sdk.reporting.cases import cases_parts, cases_values
    from mlf_sdk.reporting.junit import junit_xml
    from mlf_sdk.tools.files import write_whole

    check_folder_of(own.junit)
    report = test_request(request, own, Pipeline(progress))
    if own.junit is not None:
        write_whole(Path(own.junit), junit_xml(report))
    code = report.error.exit_code if report.error is not None else 0 if report.ok else 1
    return Outcome(parts=cases_parts(report), values=cases_values(report), exit_code=code, error=report.error)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofCommand(ProofOptions):
    """Options of ``proof`` beside those of the request."""

    markdown: str | None = option(None, "Write the table to this file.", metavar="FILE")
    made_by: str | None = option(None, "Command that the table names, if not this one.", metavar="TEXT")


def proof(request: Request, own: ProofCommand, progress: Progress) -> Outcome:
    """Prove many models on many boards.

    Memory, stack, heap and outputs of each, as one table. Results are kept: a proof that was stopped goes
    on where it was.

    Example: mlf-sdk proof *.tar --board mps2-an386 --board microbit --markdown proof.md
    """
    from mlf_sdk.reporting.prooftable import proof_markdown, proof_parts
    from mlf_sdk.sweep.proof import proof_request, proof_values
    from mlf_sdk.tools.files import write_whole

    check_folder_of(own.markdown)
    result = proof_request(request, own, progress)
    if own.markdown is not None:
        command = own.made_by or shlex.join(["mlf-sdk", *sys.argv[1:]])
        write_whole(Path(own.markdown), proof_markdown(result, command).encode())
    return Outcome(parts=proof_parts(result), values=proof_values(result), exit_code=0 if result.ok else 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions(GatherOptions):
    """Options of ``report`` beside those of the request."""

    output: str | None = option(
        None, "Write the page here; without it, no page.", flags=("--output", "-o"), metavar="FILE"
    )


def report(request: Request, own: ReportOptions, progress: Progress) -> Outcome:
    """Show memory, time and verdicts as one HTML page.

    Example: mlf-sdk report digits.tar -o report.html
    """
    from datetime import datetime, timezone

    from mlf_sdk.cli.clock import source_date
    from mlf_sdk.pipeline.pipeline import Pipeline
    from mlf_sdk.pipeline.report import gather
    from mlf_sdk.reporting.html.collect import collect
    from mlf_sdk.reporting.html.page import render_page
    from mlf_sdk.reporting.overview import overview_parts
    from mlf_sdk.reporting.values import plain, result_values
    from mlf_sdk.tools.files import write_whole

    check_folder_of(own.output)
    findings = gather(request, own, Pipeline(progress))
    made = source_date() or datetime.now(timezone.utc)
    result, output = collect(findings, made), Path(own.output) if own.output else None
    if output is not None:
        write_whole(output, render_page(result))
    return Outcome(
        parts=overview_parts(result, output),
        values={**result_values(result), "page": plain(output)},
        exit_code=0 if findings.ok else 1,
    )


def profile(request: Request, own: ProfileOptions, progress: Progress) -> Outcome:
    """Show what each step costs.

    Instructions or cycles, multiply-accumulates, bytes moved.

    Example: mlf-sdk profile digits.tar --board mps2-an386
    """
    from mlf_sdk.pipeline.pipeline import Pipeline
    from mlf_sdk.pipeline.profile import profile_request
    from mlf_sdk.reporting.profile import profile_parts
    from mlf_sdk.reporting.values import result_values

    result = profile_request(request, own, Pipeline(progress))
    return Outcome(parts=profile_parts(result), values=result_values(result))


def compare(request: Request, own: CompareOptions, progress: Progress) -> Outcome:
    """Find the first step in which targets differ.

    The same inputs run on all of them.

    Example: mlf-sdk compare digits.tar --on host,mps2-an386
    """
    from mlf_sdk.pipeline.compare import compare_request
    from mlf_sdk.pipeline.pipeline import Pipeline
    from mlf_sdk.reporting.compare import compare_parts
    from mlf_sdk.reporting.values import result_values

    result = compare_request(request, own, Pipeline(progress))
    return Outcome(parts=compare_parts(result), values=result_values(result), exit_code=0 if result.ok else 1)


_APP = ("app", "share_arena")  # what runs is the rpc application of one model

COMMANDS = {
    "run": Command(
        call=run, source=_SOURCE, source_help=_SOURCE_HELP, stages=RUN_STAGES, own=RunOptions, omits=_APP
    ),
    "report": Command(
        call=report,
        source=_SOURCE,
        source_help=_SOURCE_HELP,
        stages=RUN_STAGES,
        own=ReportOptions,
        omits=_APP,
    ),
    "test": Command(
        call=test,
        source=_SOURCE,
        source_help=_SOURCE_HELP,
        stages=RUN_STAGES,
        own=TestOptions,
        omits=(*_APP, "inputs", "expect", "twin"),
    ),
    "proof": Command(
        call=proof,
        source="MODEL...",
        source_help="Models (.tflite, .onnx, .pt2, archives), each on each board.",
        count="many",
        stages=RUN_STAGES,
        own=ProofCommand,
        omits=(*_APP, "module", "port", "baud", "max_baud", "image", "inputs", "expect", "twin"),
        defaults={"timeout_s": 600.0},
        shows_output=True,
    ),
    "profile": Command(
        call=profile,
        source=_SOURCE,
        source_help=_SOURCE_HELP,
        stages=RUN_STAGES - {Stage.JUDGE},
        own=ProfileOptions,
        omits=_APP,
    ),
    "compare": Command(
        call=compare,
        source=_SOURCE,
        source_help="A model, or the folder of a project made from --archive.",
        stages=RUN_STAGES,
        own=CompareOptions,
        omits=(*_APP, "port", "expect", "twin", "strict"),
    ),
}
