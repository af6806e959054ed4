# SPDX-License-Identifier: Apache-2.0
"""A place of a labgrid coordinator as a board: its serial port is the port, its power switch the reset.

Needs the extra ``labgrid``. The place must be acquired; its tag ``mlf-board`` names the board's row. The
coordinator is the one of ``LG_COORDINATOR``, as for labgrid's own tools.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import os
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mlf_sdk.errors import InputError, TargetError
from mlf_sdk.targets.labgridenv import EnvironmentTarget, is_environment, require_labgrid
from mlf_sdk.targets.registry import resolve_target
from mlf_sdk.targets.serial.session import port_session
from mlf_sdk.targets.serial.target import AttachedTarget
from mlf_sdk.targets.target import Ability, Log, Target, TargetChoice
from mlf_sdk.wire.session import Session

PREFIX = "labgrid:"
BOARD_TAG = "mlf-board"
_COORDINATOR = "127.0.0.1:20408"
_SCHEMES = {"raw": "socket", "rfc2217": "rfc2217"}
_WAIT_S = 10.0
_CHANNEL = (
    ("grpc.use_local_subchannel_pool", 1),  # a coordinator knows a session by its connection
    ("grpc.keepalive_time_ms", 7500),
    ("grpc.keepalive_timeout_ms", 10000),
    ("grpc.http2.max_pings_without_data", 0),
)
_T = TypeVar("_T")


class CoordinatorLostError(TargetError):
    """No coordinator answers, or it was restarted and forgot who holds a place: no board is at fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An acquired place.

    Attributes:
        name: its name.
        board: name of the board's row.
        port: its serial port, as ``--port`` takes it.
        baud: the rate that labgrid knows of the port.
        cycle_power: switches the board off and on; None: the place has no power switch.
    """

    name: str
    board: str
    port: str
    baud: int
    cycle_power: Callable[[], None] | None


class LabgridTarget(AttachedTarget):
    """Place of a labgrid coordinator: acquired, and power-cycled where possible, when it is opened."""

    scheme = "labgrid"

    def __init__(self, spec: str, inner: Target, choice: TargetChoice, *, has_power: bool) -> None:
        super().__init__(inner, name=spec)
        self._choice = choice
        self.abilities = Ability.BUILD | Ability.KEEP | (Ability.RESET if has_power else Ability(0))

    @classmethod
    def resolve(cls, rest: str, choice: TargetChoice) -> Target:
        """See Target; the place's tag names the board."""
        if choice.port is not None:
            raise InputError("a board of labgrid has its port", where="--port", hint="Leave out --port.")
        if is_environment(rest):
            return EnvironmentTarget(rest, choice)
        spec = f"{PREFIX}{rest}"
        with open_place(spec) as place:
            inner = resolve_target(dataclasses.replace(choice, board=place.board))
            return cls(spec, inner, choice, has_power=place.cycle_power is not None)

    @contextmanager
    def open(self, image: Path | None, *, timeout_s: float, console: Log | None = None) -> Iterator[Session]:
        """See Target."""
        with open_place(self.name) as place:
            if place.cycle_power is not None:
                place.cycle_power()
            baud = self._choice.baud or place.baud
            port = dataclasses.replace(self._choice, port=place.port, baud=baud)
            with port_session(
                port, board=self.board, elf=image, timeout_s=timeout_s, console=console
            ) as session:
                yield session

    def reset(self) -> None:
        """See Target."""
        with open_place(self.name) as place:
            if place.cycle_power is None:
                raise InputError("the place has no power switch", where=self.name)
            place.cycle_power()


@contextmanager
def open_place(board: str, environ: Mapping[str, str] | None = None) -> Iterator[Place]:
    """The place that ``labgrid:PLACE`` names, as long as the block lasts.

    Raises:
        InputError: no name, or the place lacks a tag or a serial port.
        ToolError: labgrid is not installed.
        CoordinatorLostError: no coordinator or exporter, or the place is not acquired by this user.
    """
    name = board.removeprefix(PREFIX)
    if not name:
        raise InputError("no place was named", where="--board", hint="Write it as labgrid:PLACE.")
    with open_coordinator(environ) as coordinator:
        place, resources = coordinator.run(_find(coordinator, name, f"{board} at {coordinator.address}"))
        yield _place(name, place.tags, {cls: entry.params for (_, cls), entry in resources.items()})


class Coordinator(msgspec.Struct, frozen=True, kw_only=True):
    """Connection to a coordinator: labgrid's module of clients, and its session; both belong to `run`."""

    client: Any
    session: Any
    address: str

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine in the thread of the session, between updates of its places and resources."""
        return _run(work)


@contextmanager
def open_coordinator(environ: Mapping[str, str] | None = None) -> Iterator[Coordinator]:
    """Connection to the coordinator of ``LG_COORDINATOR``, as long as the block lasts.

    Each has a connection of its own: a process may have several, also from several threads.

    Raises:
        ToolError: labgrid is not installed.
        CoordinatorLostError: no coordinator answers.
    """
    address = (os.environ if environ is None else environ).get("LG_COORDINATOR", _COORDINATOR)
    client = _client()
    session = _start(client, address)
    try:
        yield Coordinator(client=client, session=session, address=address)
    finally:
        _run(_end(session))


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    """Event loop of all sessions of this process: gRPC still calls a loop after its channel was closed."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="labgrid", daemon=True).start()
    return loop


def _run(work: Coroutine[Any, Any, _T]) -> _T:
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _client() -> Any:  # noqa: ANN401 (labgrid has no types)
    with require_labgrid():
        from labgrid.remote import client
    return client


def _start(client: Any, address: str) -> Any:  # noqa: ANN401
    proxied = client.proxymanager.get_grpc_address(address, default_port=20408)
    try:
        return _run(_connect(client, proxied))
    except (OSError, client.Error, asyncio.TimeoutError) as error:
        raise CoordinatorLostError(
            "no labgrid coordinator answers" + (f": {error}" if str(error) else ""),
            where=address,
            hint="Is it running? Its address is what LG_COORDINATOR says.",
        ) from error


async def _connect(client: Any, address: str) -> Any:  # noqa: ANN401
    import grpc.aio
    from labgrid.remote.generated.labgrid_coordinator_pb2_grpc import CoordinatorStub

    session = client.ClientSession(address, asyncio.get_running_loop(), env=None)
    await session.close()  # its channel shares a connection with those of other sessions
    session.channel = grpc.aio.insecure_channel(address, options=_CHANNEL)
    session.stub = CoordinatorStub(session.channel)
    try:
        await asyncio.wait_for(session.start(), _WAIT_S)
    except BaseException:
        await _end(session)
        raise
    return session


async def _end(session: Any) -> None:  # noqa: ANN401
    with suppress(asyncio.CancelledError, OSError):
        await session.stop()
    await session.close()


async def _find(coordinator: Coordinator, name: str, where: str) -> tuple[Any, Any]:
    try:
        place = coordinator.session.get_acquired_place(name)
        resources = coordinator.session.get_target_resources(place)
    except coordinator.client.Error as error:
        raise CoordinatorLostError(
            str(error),
            where=where,
            hint=f"See: labgrid-client places; take it: labgrid-client -p {name} acquire",
        ) from error
    _board(name, place.tags)  # first: a missing tag is not waited for
    if not resources:
        raise CoordinatorLostError(
            "the place has no resources", where=where, hint="Is the exporter running that names them?"
        )
    return place, resources


def _board(name: str, tags: Mapping[str, str]) -> str:
    board = tags.get(BOARD_TAG, "")
    if not board:
        raise InputError(
            f"the place has no tag {BOARD_TAG} that names its board",
            where=f"{PREFIX}{name}",
            hint=f"Say it: labgrid-client -p {name} set-tags {BOARD_TAG}=NAME (see: mlf-sdk boards).",
        )
    return board


def _place(name: str, tags: Mapping[str, str], resources: Mapping[str, Mapping[str, Any]]) -> Place:
    where = f"{PREFIX}{name}"
    board = _board(name, tags)
    serial = resources.get("NetworkSerialPort")
    if serial is None:
        raise InputError(
            f"the place has no network serial port; it has {', '.join(resources) or 'nothing'}",
            where=where,
            hint="Export its serial port, and add it: labgrid-client add-match.",
        )
    scheme = _SCHEMES.get(str(serial.get("protocol", "rfc2217")))
    if scheme is None:
        raise InputError(f"the protocol '{serial['protocol']}' of its port is not known", where=where)
    power = resources.get("NetworkPowerPort")
    return Place(
        name=name,
        board=board,
        port=f"{scheme}://{_host_and_port(serial)}",
        baud=int(serial.get("speed", 115200)),
        cycle_power=None if power is None else lambda: _cycle(where, power),
    )


def _host_and_port(serial: Mapping[str, Any]) -> str:
    """Return HOST:PORT of the port, through labgrid's SSH proxy where the place needs one."""
    from labgrid.resource import NetworkSerialPort
    from labgrid.util.proxy import proxymanager

    target = _target()
    known = {k: v for k, v in serial.items() if k in ("host", "port", "speed", "protocol")}
    resource = NetworkSerialPort(target, name=None, **known)
    resource.extra = serial.get("extra", {})
    host, port = proxymanager.get_host_and_port(resource)
    return f"{host}:{port}"


def _target() -> Any:  # noqa: ANN401
    from labgrid import Target

    return Target("mlf-sdk")


def _cycle(where: str, power: Mapping[str, Any]) -> None:
    from labgrid.driver import NetworkPowerDriver
    from labgrid.resource import NetworkPowerPort

    target = _target()
    NetworkPowerPort(target, name=None, **{k: power[k] for k in ("model", "host", "index")})
    driver = NetworkPowerDriver(target, name=None, delay=0.5)
    try:
        target.activate(driver)
        driver.cycle()
    except Exception as error:
        raise TargetError(f"its power can't be switched: {error}", where=where) from error
