# SPDX-License-Identifier: Apache-2.0
"""A model on a target that answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from mlf_sdk.codegen.lock import LockTensor
from mlf_sdk.errors import InputError, MlfError
from mlf_sdk.judge.data import Batch, match_inputs
from mlf_sdk.judge.painted import GuardError, guards_fault
from mlf_sdk.pipeline.project import TargetProject
from mlf_sdk.tools.arrays import Array
from mlf_sdk.wire.device import PATTERNS, ModelInfo, Stats
from mlf_sdk.wire.session import Session
from mlf_sdk.wire.transport import Deadline

if TYPE_CHECKING:
    from mlf_sdk.judge.frames import FrameFeed
    from mlf_sdk.wire.rows import RowFeed

InferenceObserver = Callable[[Sequence[Array], Sequence[Array]], None]
"""Called with the inputs and the outputs of an inference."""


class OpenTarget:
    """A model on a target that answers.

    Attributes:
        session: the open session, for all that `infer` does not do.
        model: promises of the project about the model.
        board: board that it runs on.
        info: description of the model by the target.
        stats: measured when the guards were last compared; None: they never were, or there are none.
        observer: of all inferences by this class; what it raises is raised by them. None: nobody.
    """

    def __init__(self, project: TargetProject, session: Session, info: ModelInfo) -> None:
        self.project = project
        self.session = session
        self.model = project.model
        self.board = project.target.board
        self.info = info
        self.stats: Stats | None = None
        self.observer: InferenceObserver | None = None
        self._paints = 0
        self._rows: RowFeed | None = None
        self._frames: FrameFeed | None = None
        if self.model.frames is not None:
            from mlf_sdk.judge.frames import frame_feed  # few models take frames

            self._frames = frame_feed(self.model)

    @property
    def build_id(self) -> str:
        """Build id of the target's image, in hex; empty: not reported."""
        return self.session.info.build_id

    @property
    def console_text(self) -> str:
        """Text that the target printed so far."""
        return self.session.console_text

    def infer(
        self, inputs: Array | Sequence[Array] | Mapping[str, Array], *, timeout_s: float | None = None
    ) -> list[Array]:
        """Run one inference, or a batch of them, and return every output.

        Args:
            inputs: an array for each input, in order, or by name or number; one array where there is one
                input. One extra leading axis is a batch, and the outputs have it as well.
            timeout_s: for each inference with its transfers, in seconds; None: the session's own.

        Raises:
            InputError: an array is missing or does not fit.
            GuardError: the model wrote outside of its memory.
            TargetError: the target did not answer in time, or faulted.
        """
        arrays = self._by_name(inputs)
        batch = match_inputs(self.model, arrays, "inputs")
        results = [self.infer_one(batch, index, timeout_s) for index in range(batch.count)]
        if all(array.shape == self._shape(key) for key, array in arrays.items()):
            return results[0]
        return [np.stack(result) for result in zip(*results, strict=True)]

    def infer_one(self, batch: Batch, index: int, timeout_s: float | None = None) -> list[Array]:
        """Run one inference of a batch, in ``timeout_s`` seconds with its transfers.

        Raises:
            GuardError: it wrote outside of the model's memory; the error has its outputs.
            TargetError: the target did not answer in time, or faulted.
        """
        deadline = self._deadline(timeout_s)
        self._rows = None
        self.paint_guards(deadline)
        inputs = batch.inputs(index)
        outputs = self._infer([inputs] if self._frames is None else self._frames.inputs(inputs), deadline)
        try:
            self.check_guards(deadline, outputs)
        except GuardError:
            if self.observer is not None:  # it sees every inference; the guards are the graver fault
                with suppress(MlfError):
                    self.observer(inputs, outputs)
            raise
        if self.observer is not None:
            self.observer(inputs, outputs)
        return outputs

    def frame(self, array: Array, *, timeout_s: float | None = None) -> list[Array] | None:
        """Give the next frame of a time series to a model that was compiled with ``--frames``.

        Args:
            array: of the input's shape; axes of one element may be left out.
            timeout_s: for the inference with its transfers; None: the session's own.

        Returns:
            The outputs for the window that the frame ends; None: it is not whole yet.

        Raises:
            InputError: the model takes no frames, or ``array`` does not fit.
            GuardError: the model wrote outside of its memory.
            TargetError: the target did not answer in time, or faulted.
        """
        if self._frames is None:
            hint = "Compile it with --frames; infer() runs it."
            raise InputError("the model takes a whole input", where=f"model {self.model.name}", hint=hint)
        frame = self._frames.frame(array)
        deadline = self._deadline(timeout_s)
        self.paint_guards(deadline)
        outputs = self._infer([(frame,)], deadline)
        self.check_guards(deadline, outputs)
        return None if self._frames.due else outputs

    def _infer(self, inferences: Sequence[Sequence[Array]], deadline: Deadline | None) -> list[Array]:
        """Run inferences one after the other, and return the outputs of the last one."""
        outputs: list[Array] = []
        for inputs in inferences:
            try:
                outputs = self.session.infer(self.info, inputs, deadline)
            except MlfError:
                if self._frames is not None:
                    self._frames.drop()
                raise
            if self._frames is not None:
                self._frames.given(inputs)
        return outputs

    def feed(self, rows: Array, *, timeout_s: float | None = None) -> None:
        """Give the next row, or rows, of the input of a model that was compiled with ``--stream``.

        The first one begins an inference; `finish` ends it, and `infer` drops it.

        Args:
            rows: of the input's shape without its first two extents, or several of them along a leading axis.
            timeout_s: for the transfer and what the target computes meanwhile; None: the session's own.

        Raises:
            InputError: the model takes no rows, ``rows`` does not fit, or no row is due; nothing was written.
            TargetError: the target did not answer in time, or faulted.
        """
        deadline = self._deadline(timeout_s)
        if self._rows is None:
            from mlf_sdk.wire.rows import RowFeed  # few models take rows

            self.paint_guards(deadline)
            self._rows = RowFeed(self.session, self.info, deadline)
        self._rows.feed(rows, deadline)

    def finish(self, *, timeout_s: float | None = None) -> list[Array]:
        """End the inference whose rows were fed, and return every output.

        Raises:
            InputError: rows are still due, or none was fed.
            GuardError: the model wrote outside of its memory.
            TargetError: the target did not answer in time, or faulted.
        """
        deadline = self._deadline(timeout_s)
        if self._rows is None:
            raise InputError("no row was fed", where=f"model {self.model.name}", hint="Call feed() first.")
        outputs = self._rows.finish(deadline)
        self._rows = None
        self.check_guards(deadline, outputs)
        return outputs

    def _deadline(self, timeout_s: float | None) -> Deadline | None:
        return None if timeout_s is None else Deadline.after(timeout_s, self.session.timeouts.clock)

    def paint_guards(self, deadline: Deadline | None = None) -> None:
        """Paint what a run is measured by, each time with the other byte: one of them shows every write."""
        if self.model.regions:
            self.session.prepare(self.info, PATTERNS[self._paints % len(PATTERNS)], deadline)
            self._paints += 1

    def check_guards(self, deadline: Deadline | None = None, outputs: Sequence[Array] = ()) -> None:
        """Compare the guards with their paint; raises GuardError, with ``outputs``, if one was written."""
        if self.model.regions:
            self.stats = self.session.stats(self.info, deadline)
            if guards_fault(self.model, self.stats):
                raise GuardError(self.model, self.stats, outputs)

    def _shape(self, key: str) -> tuple[int, ...]:
        """Shape of all that an output is made of."""
        return self.model.frames.window if self.model.frames is not None else self._tensor(key).shape

    def _tensor(self, key: str) -> LockTensor:
        named = next((t for t in self.model.inputs if t.name == key), None)
        return named if named is not None else self.model.inputs[int(key)]

    def _by_name(self, inputs: Array | Sequence[Array] | Mapping[str, Array]) -> dict[str, Array]:
        if isinstance(inputs, Mapping):
            known = {t.name for t in self.model.inputs} | {str(i) for i in range(len(self.model.inputs))}
            unknown = sorted(set(inputs) - known)
            if unknown:
                raise InputError(f"there is no input {unknown[0]!r}", where=f"model {self.model.name}")
            return {name: np.asarray(array) for name, array in inputs.items()}
        given = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
        if len(given) != len(self.model.inputs):
            raise InputError(
                f"{len(given)} inputs were given for {len(self.model.inputs)}",
                where=f"model {self.model.name}",
            )
        return {str(index): np.asarray(array) for index, array in enumerate(given)}
