# SPDX-License-Identifier: Apache-2.0
"""Conversion of gathered findings to the figures of a report; a pure function."""

from __future__ import annotations

from datetime import datetime

from mlf_sdk.codegen.lock import Lock, LockModel, LockNode, LockStep, LockTensor
from mlf_sdk.codegen.secure import access_text
from mlf_sdk.judge.profile import Profile
from mlf_sdk.pipeline.report import Findings
from mlf_sdk.pipeline.results import RunReport
from mlf_sdk.reporting.html.arenadata import arena_of
from mlf_sdk.reporting.html.data import Fact, Inference, Report, StepRow, Verdict
from mlf_sdk.reporting.html.flowdata import flow_of
from mlf_sdk.reporting.html.names import step_labels
from mlf_sdk.reporting.layout import chip_time_text, counted, executor_text, number, params_text, size
from mlf_sdk.reporting.proof import check_faults, run_rows, unproven_text
from mlf_sdk.reporting.terminal import (
    board_text,
    comparison_text,
    twin_text,
    witness_comparisons,
    witness_notes,
)


def collect(findings: Findings, made: datetime | None = None) -> Report:
    """Make the figures of a report.

    Args:
        findings: what was gathered.
        made: when; None: the page does not say.
    """
    model, done = findings.model, findings.run
    labels = step_labels(model)
    return Report(
        model=model.name,
        date=f"{made:%Y-%m-%d}" if made else "",
        board=findings.board.name,
        board_title=board_text(findings.board),
        ok=findings.ok,
        facts=_facts(findings),
        verdicts=_verdicts(findings),
        lacking=done.missing if done else "",
        evidence=done.evidence if done else "",
        proof=run_rows(done) if done else findings.check.rows,
        memories=findings.memories,
        stack=findings.check.stack,
        allocators=findings.check.allocators,
        arena=arena_of(model, done.memory.arena_high_water_bytes if done else None),
        steps=tuple(_step(model, index, label) for index, label in enumerate(labels)),
        flow=flow_of(
            model, [_plain_label(step, label) for step, label in zip(model.steps, labels, strict=True)]
        ),
        profile=findings.profile,
        no_profile=findings.no_profile,
        inference=_inference(done, findings.profile) if done else None,
        not_run=findings.not_run,
        code=findings.code,
        groups=tuple(group for group in findings.check.groups if group.size_bytes),
        sections=findings.image.sections,
        provenance=_provenance(findings),
        findings=None if findings.examination is None else findings.examination.findings,
        layers=findings.layers,
        no_layers=findings.no_layers,
        kernels=findings.kernels,
        chip=findings.chip,
        uses=findings.uses,
    )


def tensor_text(tensor: LockNode | LockTensor) -> str:
    """Type and shape of a tensor, e.g. ``int8 [1, 32, 32, 3]``."""
    return f"{tensor.dtype} [{', '.join(map(str, tensor.shape))}]"


def _plain_label(step: LockStep, label: str) -> str:
    """Operator and window of a step without its number in the file: the picture numbers the steps."""
    return label if step.layer is None else f"{step.layer.operator} {step.layer.detail}".rstrip()


def _step(model: LockModel, index: int, label: str) -> StepRow:
    step = model.steps[index]
    made = [model.tensors[i] for i in step.outputs]
    return StepRow(
        index=index,
        name=step.name,
        label=label,
        first=step.first,
        phases=step.phases,
        workspace_bytes=step.workspace_bytes,
        exact=step.exact,
        makes=", ".join(map(tensor_text, made)),
        output_bytes=sum(t.size_bytes for t in made),
        symbol=step.symbol,
        layer=step.layer,
    )


def _facts(findings: Findings) -> tuple[Fact, ...]:
    model = findings.model
    io = [
        Fact(label=what, text=f"'{t.name}'  {tensor_text(t)}, {size(t.size_bytes)}")
        for what, tensors in (("input", model.inputs), ("output", model.outputs))
        for t in tensors
    ]
    others = [m.c_name for m in findings.lock.models if m is not model]
    facts = [
        Fact(label="model", text=f"{executor_text(model.executor)}, {counted(len(model.steps), 'step')}"),
        Fact(label="archive", text=f"{model.archive}: {model.format_text}, made by {model.compiler_text}"),
        Fact(label="board", text=f"{findings.board.name}: {board_text(findings.board)}"),
        *io,
        Fact(label="parameters", text=params_text(model.params_bytes)),
    ]
    options = findings.lock.options
    if access := access_text(options.app, options.session_keys):
        facts.append(Fact(label="access", text=access))
    if findings.run is not None and findings.run.chip is not None:
        facts.append(Fact(label="on a chip", text=chip_time_text(findings.run.chip)))
    facts += [Fact(label="compiler", text=text) for text in findings.firmware.toolchain]
    if others:
        facts.append(Fact(label="others", text=f"also in the image: {', '.join(others)}"))
    return tuple(facts)


def _verdicts(findings: Findings) -> tuple[Verdict, ...]:
    done = findings.run
    image = Verdict(
        what="image",
        ok=findings.check.ok,
        text="; ".join(check_faults(findings.check)) or f"as planned{unproven_text(findings.check)}",
    )
    if done is None:
        not_run = f"not run: {findings.not_run}"
        return (
            image,
            Verdict(what="memory", ok=None, text=not_run),
            Verdict(what="outputs", ok=None, text=not_run),
        )
    return image, _memory_verdict(done), *_output_verdicts(done)


def _inference(done: RunReport, profile: Profile | None) -> Inference:
    """The figures of one inference: its instructions are those of the profile where that counted exactly."""
    exact = profile is not None and profile.unit == "instructions" and not profile.resolution
    return Inference(
        count=done.inferences,
        instructions=profile.total if profile is not None and exact else done.instructions,
        resolution=0 if exact else done.instructions_resolution,
        counted=1 if exact else done.inferences,
        milliseconds=None if done.seconds is None else done.seconds * 1e3,
        accuracy=done.accuracy,
    )


def _memory_verdict(done: RunReport) -> Verdict:
    memory = done.memory
    measured = memory.arena_high_water_bytes
    if measured is None:
        text = "not measured: the target can't measure its arena"
    elif measured == memory.arena_bytes:
        text = f"arena {size(measured)} measured, as planned"
    else:
        text = f"arena {size(measured)} measured, {number(memory.arena_bytes)} planned"
        text += "" if memory.exact else " (a bound)"
    return Verdict(what="memory", ok=memory.ok if measured is not None or not memory.ok else None, text=text)


def _output_verdicts(done: RunReport) -> tuple[Verdict, ...]:
    verdicts = [
        Verdict(what="outputs", ok=c.ok, text=comparison_text(c, what, inferences))
        for c, what, inferences in (
            *((c, name, None) for name, c in witness_comparisons(done.witnessed)),
            (done.compare, "the expected outputs", done.inferences),
            (done.twin, twin_text(done.evidence), done.inferences),
        )
        if c is not None
    ]
    notes = tuple(
        Verdict(what=label, ok=None, text=text)
        for label, text in witness_notes(done.witnessed, done.uncovered)
    )
    if done.first is not None:
        what = f"{done.first.name}: {done.first.difference.mismatches:,} elements differ from the reference"
        verdicts.append(Verdict(what="first layer", ok=False, text=what))
    if verdicts:
        return (*verdicts, *notes)
    text = done.twin_note or "not compared with anything"
    if done.accuracy is not None:
        text = f"accuracy {done.accuracy:.4f} without a limit ({counted(done.inferences, 'inference')})"
    return (Verdict(what="outputs", ok=None, text=text), *notes)


def _provenance(findings: Findings) -> tuple[Fact, ...]:
    lock, model = findings.lock, findings.model
    options = lock.options
    chosen = [
        f"application {options.app}",
        f"executor {options.executor}",
        f"parameters in {options.params}",
        *(["inputs kept"] if options.keep_inputs else []),
        *(["inputs in memory of the caller"] if model.caller_inputs_bytes else []),
        *(["shared arena"] if options.share_arena else []),
        *(["CMSIS-NN"] if options.cmsis_nn else []),
    ]
    return (
        Fact(label="archive", text=model.archive),
        Fact(label="sha256", text=model.archive_sha256),
        Fact(label="format", text=f"{model.format_text}, made by {model.compiler_text}"),
        Fact(label="SDK", text=f"mlf-sdk {lock.sdk_version}"),
        Fact(label="build id", text=findings.firmware.build_id or "the linker made none"),
        *(Fact(label="compiler", text=text) for text in findings.firmware.toolchain),
        Fact(label="kernel flags", text=" ".join(options.kernel_flags)),
        Fact(label="options", text=", ".join(chosen)),
        Fact(label="platform", text=_platform(lock)),
    )


def _platform(lock: Lock) -> str:
    if lock.zephyr is None:
        return lock.platform
    return f"{lock.platform} {lock.zephyr.series}, board {lock.zephyr.board}"
