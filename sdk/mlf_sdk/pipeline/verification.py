# SPDX-License-Identifier: Apache-2.0
"""Verification of a device: models by the digests of their archives, the image by its build id."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlf_sdk.codegen.lock import Lock
from mlf_sdk.frontends.filetype import is_elf
from mlf_sdk.pipeline import stages
from mlf_sdk.pipeline.arguments import Source, make_request
from mlf_sdk.pipeline.execution import check_holds_image, signer_of
from mlf_sdk.pipeline.firmware import inspect_firmware, load_firmware
from mlf_sdk.pipeline.pipeline import Pipeline
from mlf_sdk.pipeline.progress import SILENT, Progress
from mlf_sdk.pipeline.request import Request
from mlf_sdk.targets.registry import project_target, resolve_target
from mlf_sdk.targets.target import TargetChoice
from mlf_sdk.wire.device import DeviceInfo, ModelInfo
from mlf_sdk.wire.transport import Deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedModel:
    """A model that a board should hold."""

    name: str
    archive_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Models, SDK version and build id that a board is expected to report.

    Attributes:
        whole: the models are all that the board should hold; else it may hold others as well.
        sdk_version: that made its project; None: any.
        build_id: of its image, in hex; None: any.
        no_build_id: why any image will do; empty when not any will.
    """

    models: tuple[ExpectedModel, ...]
    whole: bool
    sdk_version: str | None = None
    build_id: str | None = None
    no_build_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Comparison of the models, SDK version and build id of a device with the expected ones.

    Attributes:
        found: for each expected model the device's, in the same order; None: it does not hold it.
    """

    port: str
    device: DeviceInfo
    expected: Expected
    found: tuple[ModelInfo | None, ...]

    @property
    def models_ok(self) -> bool:
        """Return whether the device holds the expected models, and no others if they are the whole set."""
        return all(self.found) and not (
            self.expected.whole and len(self.device.models) != len(self.expected.models)
        )

    @property
    def sdk_ok(self) -> bool:
        """Return whether the project was made by the expected version of the SDK."""
        return self.expected.sdk_version in (None, self.device.sdk_version)

    @property
    def build_ok(self) -> bool:
        """Return whether the device's build id is the expected one; true if any is accepted."""
        return self.expected.build_id in (None, self.device.build_id)

    @property
    def ok(self) -> bool:
        """Return whether models, SDK version and build id are the expected ones."""
        return self.models_ok and self.sdk_ok and self.build_ok


def compare_device(port: str, device: DeviceInfo, expected: Expected) -> Verification:
    """Compare the models that a device reports with the expected ones."""
    left = list(device.models)
    result: list[ModelInfo | None] = []
    for wanted in expected.models:
        model = next((m for m in left if m.archive_sha256 == wanted.archive_sha256), None)
        if model is not None:
            left.remove(model)
        result.append(model)
    return Verification(port=port, device=device, expected=expected, found=tuple(result))


def verify(
    source: Source,
    request: Request | None = None,
    *,
    progress: Progress = SILENT,
    **options: Any,  # noqa: ANN401
) -> Verification:
    """Ask the device on a port whether it runs an image, a project's image, or the model of an archive.

    Args:
        source: an ELF file, the folder of a project, or an archive.
        request: prepared options; ``port``, or a ``board`` that is a place.
        progress: called with each stage and its state.
        options: fields of `Request`.

    Raises:
        InputError: bad file or arguments.
        TargetError: the port can't be used, or no device answers.
    """
    made = make_request(source, request, options)
    pipeline, choice = Pipeline(progress), stages.target_choice(made)
    path = Path(made.source[0])
    if is_elf(path):
        expected, target = expected_of_firmware(path), resolve_target(choice)
    elif stages.is_project(made):
        project = pipeline.project(made)
        expected, target = expected_of_project(project.folder, project.lock), project.target
    else:
        model = pipeline.models(made)[0]
        expected = Expected(
            models=(ExpectedModel(name=model.name, archive_sha256=model.provenance.sha256),),
            whole=False,
            no_build_id="an archive can be in any image",
        )
        target = resolve_target(choice)
    check_holds_image(target)
    progress.say(f"asking the board on {target.name}")
    with target.open(None, timeout_s=made.timeout_s) as session:
        session.signer = signer_of(made)
        device = session.hello(Deadline.after(made.timeout_s))
    return compare_device(target.name, device, expected)


def expected_of_firmware(elf: Path) -> Expected:
    """Return the models, SDK version and build id that a board with this image must report.

    Raises:
        InputError: it is no firmware of the SDK.
    """
    result = inspect_firmware(elf)
    models = tuple(
        ExpectedModel(name=model.name, archive_sha256=model.archive_sha256)
        for said in result.firmware.provenances
        for model in said.models
    )
    return Expected(
        models=models,
        whole=True,
        sdk_version=result.provenance.sdk,
        build_id=result.build_id or None,
        no_build_id="" if result.build_id else "the image has no build id",
    )


def expected_of_project(folder: Path, lock: Lock) -> Expected:
    """Return what a board with a project's last built image must report; not built: any build id."""
    elf = project_target(folder, lock, TargetChoice()).image(folder)
    build_id = load_firmware(elf).build_id if elf.is_file() else ""
    missing = "the image has no build id" if elf.is_file() else "the project is not built"
    return Expected(
        models=tuple(ExpectedModel(name=m.name, archive_sha256=m.archive_sha256) for m in lock.models),
        whole=True,
        sdk_version=lock.sdk_version,
        build_id=build_id or None,
        no_build_id="" if build_id else missing,
    )
