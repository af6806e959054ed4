# SPDX-License-Identifier: Apache-2.0
"""Signed packages of a model's parameters: made, verified, sent to a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mlf_sdk.codegen.lock import LockModel
from mlf_sdk.codegen.packagefile import (
    HEAD_BYTES,
    Manifest,
    Package,
    SelfTest,
    build_package,
    read_manifest,
    read_package,
)
from mlf_sdk.codegen.paramsblob import read_params_header
from mlf_sdk.errors import CheckError, InputError
from mlf_sdk.judge.data import Batch, match_inputs, match_reference, pattern_batch
from mlf_sdk.pipeline.execution import arrays_of, tolerance_of
from mlf_sdk.pipeline.packageoptions import PackageOptions
from mlf_sdk.pipeline.params import lay_out_params, open_device, read_source
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.progress import SILENT, Progress
from mlf_sdk.pipeline.retrained import firmware_of
from mlf_sdk.tools.files import read_bounded, write_whole
from mlf_sdk.tools.signing import Signer, make_key, read_public_keys, signed_by
from mlf_sdk.wire.difference import Base
from mlf_sdk.wire.package import DevicePackages, PackageInfo

if TYPE_CHECKING:
    from mlf_sdk.pipeline.request import Request
    from mlf_sdk.tools.arrays import Array

_MOST_BYTES = 1 << 30
_MOST_BESIDE = 64
_EVIDENCE_GIVEN = "the expected outputs that were given"


@dataclass(frozen=True, slots=True, kw_only=True)
class MadePackage:
    """A package that was written.

    Attributes:
        evidence: what the expected outputs of its self-test cases rest on.
    """

    output: Path
    manifest: Manifest
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedPackage:
    """A package whose hashes are right, and the trusted key that signed it."""

    package: Package
    key_id: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PushedPackage:
    """A package that a device has put in force.

    Attributes:
        before: version that was in force.
        sent_bytes: bodies of the requests that it took.
    """

    model: str
    package: Package
    before: int
    info: PackageInfo
    sent_bytes: int


def make_package(request: Request, own: PackageOptions, progress: Progress = SILENT) -> MadePackage:
    """Sign the parameters of an archive or a ``.params`` file for the firmware of a project.

    Self-test cases are the first of ``own.cases``, or a repeatable pattern; what their outputs must be is
    said by that file, else by the model on this machine.

    Raises:
        InputError: the parameters do not fit the project, a file can't be read, or outputs are not known.
        ToolError: ``cryptography`` or a compiler is missing.
    """
    source = Path(request.source[0])
    firmware = firmware_of(Path(own.project), request.module)
    model, graph = firmware.model, firmware.graph
    signer = Signer(Path(own.key))
    progress.say(f"reading {source.name}")
    blob = lay_out_params(read_source(source, firmware), graph)
    cases, evidence = _cases(request, own, model, progress)
    data = build_package(
        params=blob.pack(),
        cases=cases,
        version=own.model_version,
        arena_bytes=graph.arena_bytes,
        graph_id=graph.graph_id,
        code_id=graph.code_id,
        key_id=signer.public.id,
        sign=signer.sign,
        revoked=[key.id for path in own.revoke for key in read_public_keys(Path(path))],
    )
    write_whole(own.output, data)
    return MadePackage(output=Path(own.output), manifest=read_manifest(data), evidence=evidence)


def _cases(
    request: Request, own: PackageOptions, model: LockModel, progress: Progress
) -> tuple[list[SelfTest], str]:
    """Inputs and outputs of the self-test."""
    arrays: Mapping[str, Array] = {}
    where = "the pattern"
    if own.cases is None:
        batch = pattern_batch(model)
    else:
        arrays, where = arrays_of(own.cases, "--cases")
        batch = match_inputs(model, arrays, where)
    count = min(own.case_count, batch.count)
    batch = Batch(arrays=tuple(array[:count] for array in batch.arrays), count=count)
    names = [tensor.name for tensor in model.outputs]
    stated = [name if name in arrays else str(i) for i, name in enumerate(names)]
    if arrays and all(name in arrays for name in stated):
        given = {name: np.asarray(arrays[name])[:count] for name in stated}
        outputs: Mapping[str, Array] = match_reference(model, given, count, where).outputs
        evidence = _EVIDENCE_GIVEN
    else:
        outputs, evidence = _host_outputs(request, model, batch, progress)
    tolerance = tolerance_of(request)
    result = []
    for index in range(count):
        expected = []
        for name in names:
            value = outputs[name][index]
            scale = float(np.abs(value).max(initial=0.0)) if value.dtype == np.float32 else 0.0
            most = tolerance.atol + tolerance.rtol * scale if value.dtype == np.float32 else 0.0
            expected.append((value.tobytes(), np.float32(most).tobytes()))
        result.append(SelfTest(tuple(array[index].tobytes() for array in batch.arrays), tuple(expected)))
    return result, evidence


def _host_outputs(
    request: Request, model: LockModel, batch: Batch, progress: Progress
) -> tuple[Mapping[str, Array], str]:
    """Run the model on this machine."""
    inputs = {tensor.name: array for tensor, array in zip(model.inputs, batch.arrays, strict=True)}
    run = request.replace(app="rpc", inputs=inputs, board="host", module=None)
    hint = "Give them: --cases FILE.npz, with inputs and expected outputs by name."
    if Path(request.source[0]).suffix == ".params":
        raise InputError(
            "a file of parameters does not say what the outputs must be", where="--cases", hint=hint
        )
    twin, why = Pipeline(progress).host_twin(run)
    if twin is None:
        raise InputError(
            f"the expected outputs are not known. {why}", where=str(request.source[0]), hint=hint
        )
    return twin.outputs, twin.evidence


def verify_package(path: str | Path, trust: str | Path) -> VerifiedPackage:
    """Check a package's hashes, and that a trusted key that it does not revoke has signed it.

    Raises:
        InputError: it can't be read, or is damaged.
        CheckError: no trusted key has signed it.
        ToolError: ``cryptography`` is not installed.
    """
    package = read_package_file(path)
    manifest = package.manifest
    named = [key for key in read_public_keys(Path(trust)) if key.id == manifest.key_id]
    hint = "Do not send it. Who made it, and is that key to be trusted?"
    if not named:
        what = f"the key that signed it ({manifest.key_id.hex()}) is not trusted"
        raise CheckError(what, where=str(path), hint=hint)
    if manifest.key_id in manifest.revoked or signed_by(package.signature, package.signed, named) is None:
        raise CheckError("the signature is wrong", where=str(path), hint=hint)
    return VerifiedPackage(package=package, key_id=manifest.key_id)


def push_package(
    path: str | Path, request: Request, bases: Sequence[str] = (), progress: Progress = SILENT
) -> PushedPackage:
    """Send a package to a device, going on where a transfer was cut; return what is in force then.

    What the device has already is copied by it, not sent: of the parameters in the image of a project, of the
    packages in ``bases``, and of those beside the package.

    Args:
        request: project or port, as for `mlf_sdk.pipeline.params.push_params`.
        bases: packages that the device may have.

    Raises:
        InputError: a package can't be read, or the firmware takes none.
        TargetError: the device refused it, did not answer, or has other things in force than it was sent.
    """
    package = read_package_file(path)
    known = [_base(read_package_file(base)) for base in bases] + _beside(Path(path))
    if request.source:
        known += _image_base(Path(request.source[0]), request.module)
    with open_device(request, progress, DevicePackages) as device:
        before = device.package_info()
        progress.say("sending the package")
        after = device.push_package(package, progress.count, known)
        return PushedPackage(
            model=device.model_name,
            package=package,
            before=before.version,
            info=after,
            sent_bytes=device.sent_bytes,
        )


def _base(package: Package) -> Base:
    return Base(
        version=package.manifest.version,
        header_crc=package.header.header_crc,
        content=package.data[HEAD_BYTES:],
        params_bytes=package.manifest.params_bytes,
    )


def _beside(path: Path) -> list[Base]:
    """The other packages in a package's folder, the newest first."""
    result = []
    for other in path.resolve().parent.glob(f"*{path.suffix}"):
        with suppress(InputError):  # files of others
            result.append(_base(read_package_file(other)))
    return sorted(result, key=lambda base: -(base.version or 0))[:_MOST_BESIDE]


def _image_base(folder: Path, module: str | None) -> list[Base]:
    """The parameters in the image of a project."""
    name = firmware_of(folder, module).model.c_name
    path = folder / "model" / name / f"{name}_params.bin"
    if not path.is_file():
        return []
    content = read_bounded(path, _MOST_BYTES)
    header = read_params_header(content, str(path))
    return [Base(version=None, header_crc=header.header_crc, content=content, params_bytes=header.blob_bytes)]


def make_keys(name: str, trust: str | None, drop: Sequence[str]) -> tuple[Path, Path, int]:
    """Make the key pair ``NAME.key``, ``NAME.pub``; add it to a list of trusted keys, and drop others.

    Returns:
        both paths, and the number of keys in the list; 0: there is no list.

    Raises:
        InputError: a file is there already or can't be written, or a key to drop is not in the list.
    """
    private, public = Path(f"{name}.key"), Path(f"{name}.pub")
    if trust is None:
        if drop:
            raise InputError("there is no list to drop keys from", where="--drop", hint="Add --trust LIST.")
        make_key(private, public)
        return private, public, 0
    listed = Path(trust)
    kept = list(read_public_keys(listed)) if listed.exists() else []
    for path in drop:
        for key in read_public_keys(Path(path)):
            if key not in kept:
                raise InputError("the key is not in the list", where=str(path))
            kept.remove(key)
    kept.append(make_key(private, public))
    write_whole(listed, "".join(key.pem() for key in kept).encode())
    return private, public, len(kept)


def read_package_file(path: str | Path) -> Package:
    """Read a package; its signature is not checked.

    Raises:
        InputError: it can't be read, or is damaged.
    """
    return read_package(read_bounded(Path(path), _MOST_BYTES), str(path))
