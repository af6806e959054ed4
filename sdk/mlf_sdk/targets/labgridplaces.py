# SPDX-License-Identifier: Apache-2.0
"""Places of a labgrid coordinator that are acquired for a while, and released whatever happens.

A place that this module acquires has a marker file on this machine; one whose holder was killed is released
by the next that looks. A place that its user acquired by hand is used, and left acquired.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mlf_sdk.errors import TargetError
from mlf_sdk.targets.labgrid import BOARD_TAG, PREFIX, Coordinator, CoordinatorLostError, open_coordinator
from mlf_sdk.targets.labgridenv import is_environment
from mlf_sdk.tools.locks import lock_folder

_AGAIN_S = 0.5


@contextmanager
def acquired(place: str, timeout_s: float) -> Iterator[None]:
    """Acquire a place as long as the block lasts; a target of a local environment belongs to nobody.

    Only one process of this machine may ask for a place at a time (`mlf_sdk.tools.locks.exclusive`).

    Args:
        place: ``labgrid:NAME``.
        timeout_s: to wait for another user to release it.

    Raises:
        TargetError: another user holds it, or there is no such place.
        CoordinatorLostError: no coordinator answers.
    """
    name = place.removeprefix(PREFIX)
    if is_environment(name):
        yield
        return
    marker = _marker(name)
    is_ours = _acquire(name, marker, timeout_s)
    try:
        yield
    finally:
        if is_ours:
            with suppress(TargetError):  # its mark stays: the next that looks releases it
                release(name)


def release(name: str) -> None:
    """Release a place that this machine marked, and remove the mark."""
    marker = _marker(name)
    with open_coordinator() as coordinator:
        place = coordinator.run(_find(coordinator, name))
        if place.acquired == _self(coordinator):
            coordinator.run(_ask(coordinator, "Release", name))
    marker.unlink(missing_ok=True)


def marked_places() -> tuple[str, ...]:
    """Names of places that processes of this machine acquired, or began to."""
    return tuple(path.read_text(encoding="utf-8") for path in sorted(_folder().glob("*.place")))


def tagged_places() -> tuple[str, ...]:
    """Names of the coordinator's places that have a tag for their board."""
    with open_coordinator() as coordinator:
        return coordinator.run(_tagged(coordinator))


async def _tagged(coordinator: Coordinator) -> tuple[str, ...]:
    return tuple(name for name, place in coordinator.session.places.items() if place.tags.get(BOARD_TAG))


def _acquire(name: str, marker: Path, timeout_s: float) -> bool:
    """Acquire a place; False: its user holds it already."""
    deadline = time.monotonic() + timeout_s
    while True:
        with open_coordinator() as coordinator:
            place = coordinator.run(_find(coordinator, name))
            if place.acquired == _self(coordinator):
                return marker.exists()  # its holder was killed, if it has a mark
            if not place.acquired:
                marker.parent.mkdir(parents=True, exist_ok=True)
                marker.write_text(name, encoding="utf-8")
                if coordinator.run(_ask(coordinator, "Acquire", name)):
                    return True
        if time.monotonic() >= deadline:
            raise TargetError(
                f"the place is acquired by {place.acquired or 'another client'}",
                where=f"{PREFIX}{name}",
                hint="Wait for it, or ask its user to release it.",
            )
        time.sleep(_AGAIN_S)


async def _find(coordinator: Coordinator, name: str) -> Any:  # noqa: ANN401 (labgrid has no types)
    try:
        return coordinator.session.get_place(name)
    except coordinator.client.Error as error:
        raise TargetError(
            str(error), where=f"{PREFIX}{name} at {coordinator.address}", hint="See: labgrid-client places."
        ) from error


def _self(coordinator: Coordinator) -> str:
    return f"{coordinator.session.gethostname()}/{coordinator.session.getuser()}"


async def _ask(coordinator: Coordinator, what: str, name: str) -> bool:
    """Send a request about a place; False: the coordinator refused it."""
    from grpc import StatusCode
    from grpc.aio import AioRpcError
    from labgrid.remote.generated import labgrid_coordinator_pb2 as messages

    request = getattr(messages, f"{what}PlaceRequest")(placename=name)
    try:
        await getattr(coordinator.session.stub, f"{what}Place")(request)
    except AioRpcError as error:
        if error.code() != StatusCode.UNAVAILABLE:
            return False
        raise CoordinatorLostError(
            f"the coordinator is gone: {error.details()}", where=coordinator.address
        ) from error
    await coordinator.session.sync_with_coordinator()
    return True


def _folder() -> Path:
    return lock_folder() / "places"


def _marker(name: str) -> Path:
    return _folder() / f"{name.encode().hex()}.place"
