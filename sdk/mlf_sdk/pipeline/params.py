# SPDX-License-Identifier: Apache-2.0
"""Replace or show the parameters of a model on a target without replacing its firmware."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from mlf_sdk.codegen.dynamic import check_dynamic, code_id
from mlf_sdk.codegen.graphblob import BlobTensor, GraphBlob
from mlf_sdk.codegen.paramsblob import ParamsBlob, ParamsHeader
from mlf_sdk.errors import FaultCollector, InputError
from mlf_sdk.frontends.mlf.content import NamedTensor
from mlf_sdk.frontends.mlf.params import LIST_MAGIC, parse_params
from mlf_sdk.pipeline import loading, stages
from mlf_sdk.pipeline.arguments import Source
from mlf_sdk.pipeline.execution import check_holds_image, check_keeps_parameters, connect
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.progress import SILENT, Progress
from mlf_sdk.pipeline.request import Request
from mlf_sdk.targets.registry import resolve_target
from mlf_sdk.wire.params import DeviceParams, ParamsInfo
from mlf_sdk.wire.session import Session

if TYPE_CHECKING:
    from mlf_sdk.pipeline.retrained import Firmware

_MAX_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class ParamsSource:
    """Parameters by name, and where they came from.

    Attributes:
        sha256: of the archive or file.
        code_id: of the archive's kernels; None: the file has no code.
    """

    name: str
    sha256: bytes
    tensors: tuple[NamedTensor, ...]
    code_id: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParamsReport:
    """Parameters in force on a target.

    Attributes:
        archive_sha256: of the archive that the firmware was generated from.
        header: of the parameters; None where the model has none.
    """

    model: str
    archive_sha256: str
    graph: GraphBlob
    info: ParamsInfo
    header: ParamsHeader | None


def read_source(path: Source, firmware: Firmware | None = None) -> ParamsSource:
    """The parameters of an archive, of a ``.params`` file, or of a model that is compiled here.

    Args:
        firmware: that they are for: a model is compiled as its was.

    Raises:
        InputError: it can't be read, is damaged, is an archive without parameters, or a model that differs in
            more than the values of its parameters.
    """
    file = Path(path)
    try:
        data = _params_file(file)
    except OSError as error:
        raise InputError(f"can't read the parameters: {error.strerror}", where=str(file)) from error
    if data is None:
        return _source_of_archive(file, firmware)
    faults = FaultCollector(str(file))
    tensors = parse_params(data, file.name, faults)
    faults.raise_if_any()
    return ParamsSource(name=file.name, sha256=hashlib.sha256(data).digest(), tensors=tensors, code_id=None)


def _params_file(path: Path) -> bytes | None:
    """The content of a ``.params`` file; None: it is something else."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        head = file.read(8)
        if head != LIST_MAGIC.to_bytes(8, "little"):
            return None
        if path.stat().st_size > _MAX_BYTES:
            raise InputError("the file is too large for parameters", where=str(path))
        return head + file.read(_MAX_BYTES)


def _source_of_archive(file: Path, firmware: Firmware | None) -> ParamsSource:
    if firmware is not None and loading.compiled_sources(Request(source=(str(file),))):
        from mlf_sdk.pipeline.retrained import compile_for

        model = compile_for(file, firmware)
    else:
        model = Pipeline().models(Request(source=(str(file),)))[0]
    check_dynamic(model)
    tensors = tuple(
        NamedTensor(name=t.name, dtype=t.dtype, shape=t.shape, data=t.data or b"") for t in model.constants
    )
    if not tensors:
        raise InputError(
            "the archive has no parameters of its own: they are in its code",
            where=str(file),
            hint="Build and flash its project instead.",
        )
    sha256 = bytes.fromhex(model.provenance.sha256)
    return ParamsSource(name=file.name, sha256=sha256, tensors=tensors, code_id=code_id(model))


def lay_out_params(source: ParamsSource, graph: GraphBlob) -> ParamsBlob:
    """Lay out the parameters at the offsets that ``graph`` expects.

    Raises:
        InputError: the archive's kernels are others, or a parameter is missing, unknown, or of another
            type or shape.
    """
    if source.code_id is not None and source.code_id != graph.code_id:
        raise InputError(
            "the archive's code is not the firmware's: its parameters need not fit",
            where=source.name,
            hint="Build and flash its project instead.",
        )
    given = {t.name: t for t in source.tensors}
    wanted = {item.name: graph.tensors[item.tensor] for item in graph.params}
    wrong = [f"{name}: {what}" for name, what in _differences(given, wanted)]
    if wrong:
        more = f"\n  ... and {len(wrong) - 10} more" if len(wrong) > 10 else ""
        raise InputError(
            "the parameters are not those of the model:\n  " + "\n  ".join(wrong[:10]) + more,
            where=source.name,
        )
    data = bytearray(graph.params_bytes)
    for name, tensor in wanted.items():
        data[tensor.offset : tensor.offset + tensor.size_bytes] = given[name].data
    return ParamsBlob(graph_id=graph.graph_id, archive_sha256=source.sha256, data=bytes(data))


def _differences(given: dict[str, NamedTensor], wanted: dict[str, BlobTensor]) -> Iterator[tuple[str, str]]:
    for name in sorted(given.keys() | wanted.keys()):
        if name not in wanted:
            yield name, "the model has no such parameter"
        elif name not in given:
            yield name, "it is missing"
        elif (given[name].dtype, given[name].shape) != (wanted[name].dtype, wanted[name].shape):
            has, needs = given[name], wanted[name]
            yield name, f"{has.dtype} {list(has.shape)} in place of {needs.dtype} {list(needs.shape)}"


def push_params(params: Source, request: Request, progress: Progress = SILENT) -> ParamsReport:
    """Replace the parameters of a model, and return those then in force.

    A transfer that is cut, at whatever byte, leaves the old parameters in force; do it again from the
    beginning. New ones are in force at once, and after every reset.

    Args:
        params: archive or ``.params`` file.
        request: the folder of a project for an emulated board or the host (it is started, and its slots are
            kept in its build folder), or the port of a board; with both, the board must run its image.
        progress: called with each stage, and with the bytes written of the total.

    Raises:
        InputError: the parameters do not fit, or the firmware can't replace any.
        TargetError: the target did not answer, or did not take them.
    """
    progress.say(f"reading {Path(params).name}")
    firmware = None
    if request.source:
        from mlf_sdk.pipeline.retrained import firmware_of  # the compiler takes time to load

        firmware = firmware_of(Path(request.source[0]), request.module)
    parameters = read_source(params, firmware)
    with _session(request, progress) as session:
        device = _device(session, request)
        graph = device.graph(device.info())
        blob = lay_out_params(parameters, graph)
        progress.say("writing parameters")
        pushed = device.push(blob, progress.count)
        return _report(session, request, device, graph, pushed.info)


def show_params(request: Request, progress: Progress = SILENT) -> ParamsReport:
    """Return the parameters in force on a target.

    Raises:
        InputError: the firmware has no dynamic executor.
        TargetError: the target did not answer.
    """
    with _session(request, progress) as session:
        device = _device(session, request)
        info = device.info()
        return _report(session, request, device, device.graph(info), info)


def _report(
    session: Session, request: Request, device: DeviceParams, graph: GraphBlob, info: ParamsInfo
) -> ParamsReport:
    model = session.model(_model_key(session, request))
    return ParamsReport(
        model=model.name,
        archive_sha256=model.archive_sha256,
        graph=graph,
        info=info,
        header=device.header(info),
    )


def _device(session: Session, request: Request) -> DeviceParams:
    return DeviceParams(session, _model_key(session, request))


def _model_key(session: Session, request: Request) -> str | int:
    models = session.info.models
    if request.module is None and len(models) > 1:
        names = ", ".join(m.name for m in models)
        raise InputError("the firmware has several models", where="--module", hint=f"Choose one of: {names}.")
    return 0 if request.module is None else request.module


_Device = TypeVar("_Device", bound=DeviceParams)


@contextmanager
def open_device(request: Request, progress: Progress, kind: type[_Device]) -> Iterator[_Device]:
    """Open the model that a request names on its target; errors as those of `push_params`."""
    with _session(request, progress) as session:
        yield kind(session, _model_key(session, request))


@contextmanager
def _session(request: Request, progress: Progress) -> Iterator[Session]:
    if not request.source and request.port is None and request.board is None:
        raise InputError("give a project or a port", hint="Add --project DIR, or --port PORT.")
    if not request.source:
        target = resolve_target(stages.target_choice(request))
        check_holds_image(target)
        progress.say(f"asking the board on {target.name}")
        with connect(request, target, None, None) as session:
            yield session
        return
    pipeline, request = Pipeline(progress), request.replace(module=None)
    project = pipeline.project(request)
    stages.check_app(project)
    elf = pipeline.build(request).elf
    target = project.target
    progress.say(f"{'connecting to' if target.attached else 'starting'} {target.name}")
    check_keeps_parameters(target)
    target.keep_slots(project.lock, elf)
    with connect(request, target, project, elf) as session:
        yield session
