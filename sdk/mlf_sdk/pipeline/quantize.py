# SPDX-License-Identifier: Apache-2.0
"""Quantisation of a float ONNX model: what it saves, and what it costs in accuracy."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlf_sdk.codegen.lock import LockTensor
from mlf_sdk.compiler.graph import FLOAT32, Graph, Value
from mlf_sdk.compiler.onnx.quantiser import Sample, feed_types, quantise_onnx, require_quantiser
from mlf_sdk.compiler.onnx.quantloss import Loss, TensorLoss, measure_loss
from mlf_sdk.compiler.passes import improve
from mlf_sdk.errors import FaultCollector, InputError
from mlf_sdk.frontends.compiled import CompilingFrontend, compiling_frontend
from mlf_sdk.judge.data import LABEL_KEY, fit_array
from mlf_sdk.pipeline.arguments import Source, check_output, make_request, own_options
from mlf_sdk.pipeline.execution import arrays_of
from mlf_sdk.pipeline.loading import options_in
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.progress import SILENT, Progress
from mlf_sdk.pipeline.quantizeoptions import QuantizeOptions
from mlf_sdk.pipeline.request import Request
from mlf_sdk.pipeline.run import run_request
from mlf_sdk.pipeline.stages import for_core, target_choice
from mlf_sdk.pipeline.survey import PlannedBytes, planned_bytes
from mlf_sdk.targets.registry import resolve_target
from mlf_sdk.tools.arrays import Array
from mlf_sdk.tools.files import write_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizedModel:
    """A quantised model that was written.

    Attributes:
        output: its path.
        size_bytes: of that file.
        calibrated: samples that the ranges come from.
        measured: samples that the loss was measured on.
        own_samples: those of the measurement are not those of the calibration.
        agreement: share of samples with the same top class, 0 to 1; None without one output with classes.
        accuracy_before, accuracy_after: share of right classes; None without labels.
        outputs, layers: loss of the model's outputs, and of each quantised tensor.
        before, after: memory of both models as compiled, for the same core.
        real_operators: kinds of the operators that still compute with real numbers.
        board: where instructions were counted; empty: nowhere.
        instructions_before, instructions_after: of an inference of the first sample; None: not counted.
    """

    output: Path
    size_bytes: int
    calibrated: int
    measured: int
    own_samples: bool
    agreement: float | None
    accuracy_before: float | None
    accuracy_after: float | None
    outputs: tuple[TensorLoss, ...]
    layers: tuple[TensorLoss, ...]
    before: PlannedBytes
    after: PlannedBytes
    real_operators: tuple[str, ...]
    board: str = ""
    instructions_before: int | None = None
    instructions_after: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Inputs of several inferences, and their classes where they are known."""

    feeds: tuple[Sample, ...]
    labels: tuple[int, ...]


def quantize(
    source: Source | None = None,
    output: Source | None = None,
    *,
    request: Request | None = None,
    own: QuantizeOptions | None = None,
    progress: Progress = SILENT,
    **options: Any,  # noqa: ANN401 - declared by the fields of Request and QuantizeOptions
) -> QuantizedModel:
    """Quantise a float ONNX model by ONNX Runtime: int8, weights per channel, activations by samples.

    Args:
        source: the model.
        output: path of the quantised model (``.onnx``), or of its archive (``.tar``).
        request: options that were prepared.
        own: the command's own options, prepared.
        progress: called with each stage and its state.
        options: keyword arguments: fields of `Request` and of `QuantizeOptions`; ``calibration`` and
            ``cases`` may be mappings of arrays.

    Raises:
        ArchiveError: the model can't be compiled, or the samples don't fit it: all faults at once.
        InputError: it is no float ONNX model, ONNX Runtime refuses it or is not installed; the board is none
            that counts instructions.
        ToolError, TargetError: instructions are wanted, and a model can't be built or does not run.
    """
    if output is not None:
        options["output"] = str(output)
    chosen, rest = own_options(QuantizeOptions, own, options)
    made = make_request(source, request, rest)
    made = for_core(made) if made.board is not None else made
    if chosen.instructions:
        _require_counting(made)
    path = Path(made.source[0])
    frontend = _onnx_frontend(path, Path(chosen.output))
    require_quantiser()
    graph = frontend.graph(path, "", options_in(made))
    calibration = _samples(graph, path, *arrays_of(chosen.calibration, "calibration"))
    cases = _samples(graph, path, *arrays_of(chosen.cases, "cases")) if chosen.cases else calibration
    with tempfile.TemporaryDirectory(prefix="mlf-quantize-") as folder:
        progress.say(f"quantising {path}")
        files = quantise_onnx(path, calibration.feeds, Path(folder))
        progress.say("measuring the loss")
        loss = measure_loss(files, cases.feeds, Path(folder), class_output=_class_output(graph))
        content, after = _result(frontend, files.int8, Path(chosen.output), made)
        real = _real_operators(improve(frontend.graph(files.int8, "", options_in(made))))
        before = planned_bytes(made)
        counted: tuple[int | None, ...] = (None, None)
        if chosen.instructions:
            sample = {name: array[None] for name, array in cases.feeds[0].items()}
            counted = tuple(_count(made, p, sample, progress) for p in (path, files.int8))
    write_whole(chosen.output, content)
    return QuantizedModel(
        output=Path(chosen.output),
        size_bytes=len(content),
        calibrated=len(calibration.feeds),
        measured=len(cases.feeds),
        own_samples=cases is not calibration,
        agreement=_share([a == b for a, b in loss.classes]),
        accuracy_before=_accuracy(loss, cases, 0),
        accuracy_after=_accuracy(loss, cases, 1),
        outputs=loss.outputs,
        layers=loss.layers,
        before=before,
        after=after,
        real_operators=real,
        board=str(made.board) if chosen.instructions else "",
        instructions_before=counted[0],
        instructions_after=counted[1],
    )


def _onnx_frontend(path: Path, output: Path) -> CompilingFrontend:
    if output.suffix not in (".onnx", ".tar"):
        raise InputError("neither .onnx nor .tar", where="--output", hint="Give the path of one of them.")
    frontend = compiling_frontend(path)
    if frontend.name != "onnx":
        raise InputError(
            f"a {frontend.title} can't be quantised here", where=str(path), hint="Give an ONNX model."
        )
    check_output(path, output)
    return frontend


def _result(
    frontend: CompilingFrontend, int8: Path, output: Path, request: Request
) -> tuple[bytes, PlannedBytes]:
    """Content of the output, and the memory of the quantised model."""
    request = request.replace(source=(str(int8),))
    after = planned_bytes(request)
    if output.suffix == ".tar":
        return frontend.compile(int8, options_in(request)), after
    return int8.read_bytes(), after


def _require_counting(request: Request) -> None:
    if request.board is None or not resolve_target(target_choice(request)).counts_instructions:
        raise InputError(
            "instructions are counted on emulated boards alone",
            where="--instructions",
            hint="Give one with --board, such as mps2-an386.",
        )


def _count(request: Request, path: Path, sample: Mapping[str, Array], progress: Progress) -> int | None:
    """Instructions of an inference of one sample on the board."""
    progress.say(f"counting instructions of {path.name}")
    made = request.replace(source=(str(path),), inputs=sample, twin=False)
    return run_request(made, Pipeline(progress)).instructions


# ---- samples ----


def _samples(graph: Graph, path: Path, arrays: Mapping[str, Array], where: str) -> Samples:
    """Fit arrays to the model's inputs; all that is wrong with them is one error."""
    faults = FaultCollector(
        where,
        subject="samples",
        hint="Make the file with numpy.savez(path, **{'input name': array}), samples along the leading axis.",
    )
    types = feed_types(path)
    inputs = [graph.values[i] for i in graph.inputs]
    fitted: dict[str, Array] = {}
    for value in inputs:
        if value.name not in arrays:
            faults.add(f"input '{value.name}'", f"no array; there are {', '.join(arrays) or 'none'}")
            continue
        result = _fitted(value, arrays[value.name], faults)
        if result is not None:
            fitted[value.name] = result.astype(types[value.name])
    faults.raise_if_any()
    counts = {name: len(array) for name, array in fitted.items()}
    if len(set(counts.values())) > 1:
        faults.add("samples", f"their numbers differ: {', '.join(f'{n}: {c}' for n, c in counts.items())}")
    count = min(counts.values(), default=0)
    labels = _labels(graph, arrays.get(LABEL_KEY), count, faults)
    faults.raise_if_any()
    return Samples(
        feeds=tuple({name: array[at] for name, array in fitted.items()} for at in range(count)), labels=labels
    )


def _fitted(value: Value, array: Array, faults: FaultCollector) -> Array | None:
    tensor = LockTensor(
        name=value.name, dtype=value.dtype.name, shape=value.shape, size_bytes=value.size_bytes
    )
    place = f"input '{value.name}'"
    try:
        result = fit_array(array, tensor, place)
    except InputError as error:
        faults.add(place, error.what)
        return None
    if not len(result):
        faults.add(place, "no samples: its leading axis is 0")
    elif result.dtype.kind == "f" and not np.isfinite(result).all():
        bad = int((~np.isfinite(result)).reshape(len(result), -1).any(axis=1).argmax())
        faults.add(place, f"sample {bad} has values that are not finite")
    return result


def _labels(graph: Graph, array: Array | None, count: int, faults: FaultCollector) -> tuple[int, ...]:
    if array is None:
        return ()
    name = _class_output(graph)
    if not name:
        faults.add(LABEL_KEY, "the model has no single output with classes; leave out the labels")
        return ()
    classes = max(v.elements for v in (graph.values[i] for i in graph.outputs))
    if array.dtype.kind not in "iu" or array.size != count:
        faults.add(LABEL_KEY, f"not {count} whole numbers, but {array.size} of type {array.dtype}")
    elif array.size and not 0 <= int(array.min()) <= int(array.max()) < classes:
        faults.add(
            LABEL_KEY, f"classes from {array.min()} to {array.max()}; the model's are 0 to {classes - 1}"
        )
    return tuple(int(label) for label in array.reshape(-1)) if array.dtype.kind in "iu" else ()


def _class_output(graph: Graph) -> str:
    """Name of the one output whose only long axis is that of classes; empty: there is none."""
    values = [graph.values[i] for i in graph.outputs]
    if len(values) != 1 or values[0].dtype != FLOAT32 or values[0].elements < 2:
        return ""
    return values[0].name if values[0].elements == max(values[0].shape) else ""


# ---- figures ----


def _accuracy(loss: Loss, samples: Samples, which: int) -> float | None:
    if not samples.labels:
        return None
    return _share([pair[which] == label for pair, label in zip(loss.classes, samples.labels, strict=True)])


def _share(hits: list[bool]) -> float | None:
    return sum(hits) / len(hits) if hits else None


def _real_operators(graph: Graph) -> tuple[str, ...]:
    """Kinds of operators that read real numbers of a run and write real numbers."""
    result = []
    for operator in graph.operators:
        reads = [v for v in graph.read(operator) if v.data is None]
        if any(v.dtype == FLOAT32 for v in reads) and any(
            v.dtype == FLOAT32 for v in graph.written(operator)
        ):
            result.append(operator.kind)
    return tuple(result)
