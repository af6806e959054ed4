# SPDX-License-Identifier: Apache-2.0
"""Boards of one kind for the tests of a session: started for each archive, or shared on ports."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mlf_sdk.pipeline.request import Request
from mlf_sdk.pytest_plugin.evidence import SessionEvidence
from mlf_sdk.pytest_plugin.model import BoardModel, Key

if TYPE_CHECKING:
    from mlf_sdk.errors import TargetError

_POLL_S = 0.02
_TURN_S = 600.0  # for the other workers of pytest-xdist to give a port back
_RETURN_S = 10.0  # for a port that vanished to come back
_MOST_FAILURES = 2  # of a board, one after the other, without an answer between them


class BoardPool(ABC):
    """Boards of one kind, and the models that run on them.

    Attributes:
        request: options of the session of pytest.
        board: name of the board.
        test: the test that uses a board.
        evidence: what models were compared with.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self.board = str(request.board)
        self.test = ""
        self.evidence = SessionEvidence(self.board)
        self._last: Key | None = None
        self._console: list[str] = []

    def begin(self, test: str) -> None:
        """A test begins to use a board."""
        self.test = test
        self._last = None

    def end(self) -> None:  # noqa: B027 (a board that was started here is kept)
        """The test has ended."""

    def model(self, archive: Path, module: str | None) -> BoardModel:
        """The model of an archive or a project; its board is opened at the first call."""
        key = (archive, module)
        self._last = key
        self.check(key)
        try:
            return self._open(key)
        except Exception as error:
            self.note_failure(error, key)
            raise

    def note_failure(self, error: BaseException, key: Key | None = None) -> None:
        """Record that a board failed; neither a negative answer nor a write of the model is its failure."""
        from mlf_sdk.errors import TargetError, ToolError
        from mlf_sdk.judge.painted import GuardError
        from mlf_sdk.wire.codes import DeviceError

        used = key or self._last
        if (
            used is not None
            and isinstance(error, TargetError | ToolError)
            and not isinstance(error, DeviceError | GuardError)
        ):
            self._failed(used, error, f"{error.what.splitlines()[0]} (in {self.test})")

    def note_answer(self) -> None:  # noqa: B027
        """Record that the board answered."""

    def take_console(self) -> str:
        """Return and clear the board's console output since the last call."""
        text = "".join(self._console)
        self._console.clear()
        return text

    @abstractmethod
    def check(self, key: Key) -> None:
        """Skip the test if its board is out of use."""

    @abstractmethod
    def is_open(self, key: Key) -> bool:
        """Return whether a board is open with a model, and did not fail."""

    @abstractmethod
    def close(self) -> None:
        """Close all sessions."""

    @abstractmethod
    def _open(self, key: Key) -> BoardModel:
        """Open the board with a model, or return the one that is open."""

    @abstractmethod
    def _failed(self, key: Key, error: Exception, reason: str) -> None:
        """A board failed."""

    def _skip(self, reason: str) -> None:
        pytest.skip(f"the board {self.board} died: {reason}")

    def _deploy(self, key: Key, stack: ExitStack, port: str | None) -> BoardModel:
        from mlf_sdk.pipeline.pipeline import Pipeline

        request = self.request.replace(source=(str(key[0]),), module=key[1], port=port)
        with ExitStack() as own:
            opened = own.enter_context(Pipeline().open(request, self._console.append))
            self.evidence.attend(key, request, opened)
            stack.enter_context(own.pop_all())
        return BoardModel(self, key, opened, port)


class StartedBoards(BoardPool):
    """A board that is started for each archive, and never again after it died."""

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._stack = ExitStack()
        self._models: dict[Key, BoardModel] = {}
        self._dead: dict[Key, str] = {}

    def check(self, key: Key) -> None:
        """See BoardPool."""
        if key in self._dead:
            self._skip(self._dead[key])

    def is_open(self, key: Key) -> bool:
        """See BoardPool."""
        return key in self._models and key not in self._dead

    def close(self) -> None:
        """See BoardPool."""
        self._stack.close()

    def _open(self, key: Key) -> BoardModel:
        if key not in self._models:
            self._models[key] = self._deploy(key, self._stack, None)
        return self._models[key]

    def _failed(self, key: Key, error: Exception, reason: str) -> None:
        self._dead.setdefault(key, reason)


@dataclass(frozen=True)
class _Lease:
    port: str | None
    key: Key
    model: BoardModel
    stack: ExitStack


class SharedBoards(BoardPool):
    """Equal boards that run the image already: a test takes a free one.

    A board that was reset or that vanished is opened again for the next test. One that fails again and again,
    or can't be opened again, is out of use. Workers of pytest-xdist give a board back after each test, and
    wait for their turn.

    Args:
        request: options of the session of pytest.
        ports: of the boards; None: the target knows its own.
        takes_turns: other workers use the same ports.
    """

    def __init__(self, request: Request, ports: list[str | None], *, takes_turns: bool) -> None:
        super().__init__(request)
        self._ports = ports
        self._takes_turns = takes_turns
        self._lease: _Lease | None = None
        self._failures = dict.fromkeys(ports, 0)
        self._out_of_use: dict[str | None, str] = {}
        self._build_id: str | None = None

    def check(self, key: Key) -> None:
        """See BoardPool."""
        if len(self._out_of_use) == len(self._ports):
            self._skip("; ".join(self._out_of_use.values()))

    def end(self) -> None:
        """See BoardPool."""
        if self._takes_turns and self._lease is not None:
            self.close()
            time.sleep(2 * _POLL_S)  # another worker that waits comes first

    def is_open(self, key: Key) -> bool:
        """See BoardPool."""
        return self._lease is not None and self._lease.key == key

    def close(self) -> None:
        """See BoardPool."""
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.stack.close()

    def note_answer(self) -> None:
        """See BoardPool."""
        if self._lease is not None:
            self._failures[self._lease.port] = 0

    def _open(self, key: Key) -> BoardModel:
        from mlf_sdk.errors import TargetError
        from mlf_sdk.wire.codes import PortBusyError

        if self._lease is not None and self._lease.key == key:
            return self._lease.model
        self.close()
        until = time.monotonic() + (_TURN_S if self._takes_turns else 0.0)
        while True:
            refused: list[TargetError] = []
            for port in [port for port in self._ports if port not in self._out_of_use]:
                try:
                    self._lease = self._take(key, port)
                except TargetError as error:
                    self._note_refusal(port, error)
                    refused.append(error)
                else:
                    return self._lease.model
            busy = [error for error in refused if isinstance(error, PortBusyError)]
            if not busy or time.monotonic() >= until:
                raise (busy or refused)[0]
            time.sleep(_POLL_S)

    def _note_refusal(self, port: str | None, error: TargetError) -> None:
        """A board that does not answer is out of use; one that is busy, or runs another image, is not."""
        from mlf_sdk.wire.codes import NoAnswerError, PortBusyError, PortError

        if isinstance(error, PortError | NoAnswerError) and not isinstance(error, PortBusyError):
            self._out_of_use[port] = f"{error.what.splitlines()[0]} (in {self.test})"

    def _take(self, key: Key, port: str | None) -> _Lease:
        """Open the board on a port; one that failed before may need a while to come back."""
        from mlf_sdk.errors import TargetError
        from mlf_sdk.wire.codes import PortMissingError

        until = time.monotonic() + (_RETURN_S if self._failures[port] else 0.0)
        while True:
            stack = ExitStack()
            try:
                model = self._deploy(key, stack, port)
                break
            except PortMissingError:
                if time.monotonic() >= until:
                    raise
                time.sleep(_POLL_S)
        if self._build_id not in (None, model.build_id):
            stack.close()
            raise TargetError(
                f"the boards run different images: build id {self._build_id}, and here {model.build_id}",
                where=port or self.board,
            )
        self._build_id = model.build_id
        return _Lease(port=port, key=key, model=model, stack=stack)

    def _failed(self, key: Key, error: Exception, reason: str) -> None:
        """Close the board that failed; one that could not be opened was judged where that was tried."""
        if self._lease is None:
            return
        port = self._lease.port
        self._failures[port] += 1
        if self._failures[port] >= _MOST_FAILURES:
            self._out_of_use[port] = reason
        self.close()


def make_pool(request: Request, ports: list[str]) -> BoardPool:
    """Make the pool of a board: on its ports, or of its scheme, else started here."""
    takes_turns = "PYTEST_XDIST_WORKER" in os.environ
    if ports:
        return SharedBoards(request, [*ports], takes_turns=takes_turns)
    if ":" in str(request.board):
        return SharedBoards(request, [None], takes_turns=takes_turns)
    return StartedBoards(request)


def ports_by_board(boards: list[str], given: list[str]) -> dict[str, list[str]]:
    """Ports of each board, from ``BOARD=PORT``, or ``PORT`` where there is one board.

    Raises:
        UsageError: a port belongs to no board of the tests, or to any of several.
    """
    result: dict[str, list[str]] = {board: [] for board in boards}
    for text in given:
        name, equals, port = text.partition("=")
        if equals and name in result:
            result[name].append(port)
        elif equals and "://" not in name and not name.startswith("/"):
            raise pytest.UsageError(
                f"--mlf-port {text}: no test runs on a board '{name}'; the boards are: {', '.join(boards)}"
            )
        elif len(boards) == 1:
            result[boards[0]].append(text)
        else:
            raise pytest.UsageError(
                f"--mlf-port {text}: whose port? Write it as BOARD=PORT; the boards are: {', '.join(boards)}"
            )
    return result
