# SPDX-License-Identifier: Apache-2.0
"""A target of a local labgrid environment as a board: its console is the port, its power driver the reset.

Any driver with labgrid's ConsoleProtocol will do, such as SerialDriver; a QEMUDriver boots the image that is
run in place of its own kernel. The target's option ``mlf-board`` names the board's row.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from mlf_sdk.errors import InputError, MlfError, TargetError, ToolError
from mlf_sdk.targets.registry import resolve_target
from mlf_sdk.targets.serial.lock import lock_port
from mlf_sdk.targets.serial.session import line_session
from mlf_sdk.targets.serial.target import AttachedTarget
from mlf_sdk.targets.target import Ability, Log, TargetChoice
from mlf_sdk.wire.codes import PortVanishedError
from mlf_sdk.wire.session import Session
from mlf_sdk.wire.transport import Deadline

BOARD_OPTION = "mlf-board"
_DEFAULT_TARGET = "main"
_POLL_S = 0.05
_SPEC = re.compile(r"(?P<file>.+\.ya?ml)(?::(?P<name>.+))?")


def is_environment(rest: str) -> bool:
    """Return True when ``labgrid:REST`` names the file of an environment and not a place."""
    return _SPEC.fullmatch(rest) is not None


class EnvironmentTarget(AttachedTarget):
    """Target ``labgrid:FILE.yaml`` or ``labgrid:FILE.yaml:NAME``, ``main`` where no name is given."""

    def __init__(self, rest: str, choice: TargetChoice) -> None:
        self._rest = rest
        with _opened(rest) as (env, name):
            try:
                board = str(env.config.get_target_option(name, BOARD_OPTION))
            except KeyError as error:
                raise InputError(
                    f"the target has no option {BOARD_OPTION} that names its board",
                    where=f"labgrid:{rest}",
                    hint=f"Add it: targets: {name}: options: {BOARD_OPTION}: NAME (see: mlf-sdk boards).",
                ) from error
            has_power = _driver(env.get_target(name), "PowerProtocol") is not None
        super().__init__(resolve_target(dataclasses.replace(choice, board=board)), name=f"labgrid:{rest}")
        self.abilities = Ability.BUILD | (Ability.RESET if has_power else Ability(0))

    @contextmanager
    def open(self, image: Path | None, *, timeout_s: float, console: Log | None = None) -> Iterator[Session]:
        """See Target; the power is cycled first, where there is a driver for it."""
        with ExitStack() as stack:
            env, name = stack.enter_context(_opened(self._rest))
            target = env.get_target(name)
            line = _driver(target, "ConsoleProtocol")
            if line is None:
                raise InputError("the target has no driver with a console", where=self.name)
            kernel = getattr(line, "kernel", None)
            if image is not None and kernel is not None:
                env.config.data.setdefault("images", {})[kernel] = str(image.resolve())
            if isinstance(path := getattr(getattr(line, "port", None), "port", None), str):
                stack.enter_context(lock_port(path))
            _switch_on(target, line, _driver(target, "PowerProtocol"))
            transport = _ConsoleTransport(line, self.name)
            with line_session(transport, timeout_s=timeout_s, elf=image, console=console) as session:
                yield session

    def reset(self) -> None:
        """See Target."""
        with _opened(self._rest) as (env, name):
            target = env.get_target(name)
            power = _driver(target, "PowerProtocol")
            if power is None:
                raise InputError("the target has no power driver", where=self.name)
            target.activate(power)
            power.cycle()


@contextmanager
def require_labgrid() -> Iterator[None]:
    """Import labgrid in the block.

    Raises:
        ToolError: it is not installed.
    """
    try:
        yield
    except ImportError as error:
        hint = "Install it: pip install 'mlf-sdk[labgrid]'"
        raise ToolError(f"labgrid is not installed: {error}", where="--board", hint=hint) from error


@contextmanager
def _opened(rest: str) -> Iterator[tuple[Any, str]]:
    """Yield labgrid's Environment and the target's name; its errors become ours."""
    match = _SPEC.fullmatch(rest)
    if match is None or not Path(match["file"]).is_file():
        raise InputError("there is no such environment", where=f"labgrid:{rest}")
    with require_labgrid():
        from labgrid import Environment
    name = match["name"] or _DEFAULT_TARGET
    env = None
    try:
        env = Environment(match["file"])
        if env.get_target(name) is None:
            raise InputError(f"the environment has no target '{name}'", where=match["file"])
        yield env, name
    except (MlfError, GeneratorExit, KeyboardInterrupt):
        raise
    except Exception as error:
        if not type(error).__module__.startswith(("labgrid", "serial")):
            raise
        raise TargetError(f"labgrid: {error}", where=f"labgrid:{rest}") from error
    finally:
        if env is not None:
            env.cleanup()


def _driver(target: Any, protocol: str) -> Any:  # noqa: ANN401 (labgrid has no types)
    from labgrid.exceptions import NoDriverFoundError

    try:
        return target.get_driver(protocol, activate=False)
    except NoDriverFoundError:
        return None


def _switch_on(target: Any, line: Any, power: Any) -> None:  # noqa: ANN401
    target.activate(line)
    if power is line:  # an emulator
        power.on()
    elif power is not None:
        target.activate(power)
        power.cycle()


class _ConsoleTransport:
    """The console of a labgrid driver as a byte stream; the environment closes it."""

    def __init__(self, driver: Any, name: str) -> None:  # noqa: ANN401
        from pexpect import TIMEOUT

        self._driver = driver
        self._name = name
        self._timeout: type[Exception] = TIMEOUT

    def read(self, max_bytes: int, deadline: Deadline) -> bytes:
        """See Transport."""
        while True:
            try:
                data = self._driver.read(timeout=min(deadline.remaining(), _POLL_S), max_size=max_bytes)
            except self._timeout:
                if deadline.expired:
                    return b""
                continue
            except OSError as error:
                raise PortVanishedError(self._name) from error
            if not data:
                raise PortVanishedError(self._name)
            return bytes(data)

    def write(self, data: bytes, deadline: Deadline) -> None:
        """See Transport."""
        while data:
            if deadline.expired:
                raise TargetError("the device does not take what is sent to it", where=self._name)
            try:
                data = data[self._driver.write(data) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise PortVanishedError(self._name) from error

    def close(self) -> None:
        """See Transport."""
