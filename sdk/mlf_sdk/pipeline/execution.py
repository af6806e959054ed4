# SPDX-License-Identifier: Apache-2.0
"""Stages open, execute and judge: a session with a target, what a request gives it and expects of it.

The target runs the image that the results are attributed to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mlf_sdk.errors import InputError, TargetError
from mlf_sdk.judge.compare import Tolerance
from mlf_sdk.judge.data import Batch, Reference, match_inputs, match_reference, pattern_batch
from mlf_sdk.judge.execute import Execution, execute_batch
from mlf_sdk.pipeline.opentarget import OpenTarget
from mlf_sdk.pipeline.project import TargetProject
from mlf_sdk.pipeline.request import Request
from mlf_sdk.targets.target import Ability, Target
from mlf_sdk.tools.arrays import Array, read_npz
from mlf_sdk.wire.device import DeviceInfo
from mlf_sdk.wire.session import Session
from mlf_sdk.wire.transport import Deadline

if TYPE_CHECKING:
    from mlf_sdk.tools.signing import Signer


HELLO_S = 30.0  # for a target to boot and to describe itself
Console = Callable[[str], None]


def expected_image(request: Request, project: TargetProject | None, elf: Path | None) -> Path | None:
    """Return the image that a board on a port must run; None: any image that holds the model.

    Args:
        request: its option ``image`` names an ELF file or a built project.
        project: a project that the user named stands for its own image; one made from an archive does not.
        elf: the project's linked image.

    Raises:
        InputError: the option names no image, or a project that is not built.
    """
    if request.image is None:
        return elf if project is not None and project.is_given else None
    from mlf_sdk.pipeline.triage import find_firmware

    return find_firmware(request.image).elf


def _build_id(elf: Path) -> str:
    """Build id of an image; empty: it has none."""
    from mlf_sdk.analysis.elf.info import read_firmware_info  # of boards on a port alone

    return read_firmware_info(elf.read_bytes(), str(elf)).build_id


def check_same_image(device: DeviceInfo, elf: Path, port: str) -> None:
    """Refuse a board whose build id is not that of an image.

    Raises:
        InputError: the image has no build id.
        TargetError: the board reports another build id, or none.
    """
    built = _build_id(elf)
    if not built:
        raise InputError(
            "the image has no build id: nothing can show that the board runs it",
            where=str(elf),
            hint="Link it with --build-id=sha1, as the generated build does.",
        )
    if not device.build_id:
        raise TargetError(
            f"the board does not report its build id; the image has {built}",
            where=port,
            hint="Is src/main.c yours? Its mlf_rpc_config_t needs .build_id = mlf_build_id.",
        )
    if device.build_id != built:
        raise TargetError(
            f"the board runs another image of the same model: build id {device.build_id}; "
            f"the expected image has {built} ({elf})",
            where=port,
            hint="Flash the project; or give the archive without --image, to run the model that the board "
            "holds.",
        )


def other_image(device: DeviceInfo, elf: Path) -> str:
    """Reason why the figures of an image are not those of the image that answered; empty: they are.

    Args:
        device: that answered.
        elf: the image whose figures are at hand.
    """
    built = _build_id(elf)
    if built and device.build_id == built:
        return ""
    reported = f"build id {device.build_id}" if device.build_id else "it reports no build id"
    return (
        f"the board runs another image: {reported}; the one that was built here has {built or 'none'} ({elf})"
    )


def check_holds_image(target: Target) -> None:
    """Refuse a target that is started here, where a command asks what a board holds.

    Raises:
        InputError: it is no board on a port, and no place.
    """
    if not target.attached:
        raise InputError(
            f"{target.name} is started here: it holds no image that could be asked for",
            where="--port",
            hint="Name the board's port: --port PORT, or its place: --board SCHEME:PLACE.",
        )


def check_keeps_parameters(target: Target) -> None:
    """Refuse a target on which pushed parameters would be lost.

    Raises:
        InputError: it can't keep them.
    """
    if Ability.KEEP not in target.abilities:
        raise InputError(
            "parameters can't be kept on this target",
            where=target.name,
            hint="Push to a board on a port (--port), or generate the project for host or mps2-an386.",
        )


def signer_of(request: Request) -> Signer | None:
    """Return what opens secured sessions; None: the request names no key."""
    if request.key is None:
        return None
    from mlf_sdk.tools.signing import Signer  # of locked devices alone

    return Signer(Path(request.key))


@contextmanager
def connect(
    request: Request,
    target: Target,
    project: TargetProject | None,
    elf: Path | None,
    console: Console | None = None,
) -> Iterator[Session]:
    """Open a session whose device has described itself, and runs the expected image if it is on a port.

    Args:
        target: of the project, or of the port alone.
        project: None: the command is about the port alone.
        elf: the linked image; None: not known.
        console: called with each piece of text that the target prints.

    Raises:
        TargetError: the target did not answer in time, faulted, or runs another image.
    """
    expected = expected_image(request, project, elf) if target.attached else None
    with target.open(elf or expected, timeout_s=request.timeout_s, console=console) as session:
        session.signer = signer_of(request)
        session.hello(Deadline.after(min(request.timeout_s, HELLO_S)))
        if expected is not None:
            check_same_image(session.info, expected, target.name)
        yield session


def batch_of(request: Request, project: TargetProject) -> Batch:
    """Inputs of the request, or one inference on the repeatable pattern.

    Raises:
        InputError: an array is missing or does not fit its tensor.
    """
    if request.inputs is None:
        return pattern_batch(project.model)
    return match_inputs(project.model, *arrays_of(request.inputs, "inputs"))


def reference_of(request: Request, project: TargetProject, count: int) -> Reference:
    """Expected outputs and labels of the request; empty: it names none.

    Raises:
        InputError: nothing fits an output, or the number of inferences is not ``count``.
    """
    if request.expect is None:
        return Reference()
    arrays, where = arrays_of(request.expect, "expect")
    return match_reference(project.model, arrays, count, where)


def arrays_of(given: str | Mapping[str, Array], name: str) -> tuple[Mapping[str, Array], str]:
    """Arrays by name, and the place to name in a message about them."""
    return (given, name) if isinstance(given, Mapping) else (read_npz(Path(given)), given)


def execute(
    request: Request, target: OpenTarget, batch: Batch, count: Callable[[int, int], None] | None = None
) -> Execution:
    """Run all inferences on the open target, and read its marks.

    Raises:
        TargetError: it did not answer in time, or faulted; the step to blame is named.
    """
    limit_s = target.project.target.limit_s(request.timeout_s)
    return execute_batch(target.session, target.model, batch, timeout_s=limit_s, progress=count)


def tolerance_of(request: Request) -> Tolerance:
    """Tolerances of the request."""
    return Tolerance(rtol=request.rtol, atol=request.atol)
