# SPDX-License-Identifier: Apache-2.0
"""A model on the board of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlf_sdk.pipeline.opentarget import OpenTarget
    from mlf_sdk.pytest_plugin.pool import BoardPool
    from mlf_sdk.wire.session import Session

Key = tuple[Path, str | None]  # archive or project, and module


class BoardModel:
    """A model on the board of a test.

    Attributes:
        session: the open session.
        model: what was promised about the model: inputs, outputs, memory.
        board: name of the board.
        port: where the board answers; None: it was started here.
        build_id: of the image that answers, in hex; empty: not reported.
    """

    def __init__(self, pool: BoardPool, key: Key, opened: OpenTarget, port: str | None) -> None:
        self._pool = pool
        self._key = key
        self._opened = opened
        self.session = opened.session
        self.model = opened.model
        self.board = pool.board
        self.port = port
        self.build_id = opened.build_id

    def infer(self, inputs: Any) -> list[Any]:  # noqa: ANN401 (arrays, without importing numpy here)
        """Run one inference, or a batch along one extra leading axis, and return every output.

        Args:
            inputs: an array for each input, in order, or by name; one array where there is one input.
        """
        __tracebackhide__ = True
        self._pool.check(self._key)
        try:
            outputs = self._opened.infer(inputs, timeout_s=self._pool.request.timeout_s)
        except Exception as error:
            self._pool.note_failure(error, self._key)
            raise
        self._pool.note_answer()
        return outputs

    @contextmanager
    def guarded(self) -> Iterator[Session]:
        """Lend the session; raises GuardError at the end if the model wrote outside of its memory.

        A board that does not answer any more is no error here: its next use reports it.
        """
        from mlf_sdk.errors import TargetError
        from mlf_sdk.judge.painted import GuardError

        self._opened.paint_guards()
        yield self.session
        if self._pool.is_open(self._key):
            try:
                self._opened.check_guards()
            except GuardError:
                raise
            except TargetError as error:
                self._pool.note_failure(error, self._key)
