# SPDX-License-Identifier: Apache-2.0
"""Rows of an input that a device computes as they come."""

from __future__ import annotations

import numpy as np

from mlf_sdk.errors import InputError
from mlf_sdk.tools.arrays import Array
from mlf_sdk.wire.device import begin_rows, write_bytes
from mlf_sdk.wire.session import ModelKey, Session
from mlf_sdk.wire.transport import Deadline


class RowFeed:
    """One inference of a model whose input is streamed (compiled with ``--stream``).

    Attributes:
        fed: rows that the device has.
        rows: of the whole input.
    """

    def __init__(self, session: Session, model: ModelKey, deadline: Deadline | None = None) -> None:
        """Begin an inference; one that was begun and not finished is dropped.

        Raises:
            InputError: the model takes its inputs as a whole.
            TargetError: as of all requests of a session.
        """
        self._session, self._model = session, session.model(model)
        tensor = next((t for t in self._model.inputs if t.streamed), None)
        if tensor is None:
            raise InputError(
                "the model takes no rows: its inputs are written as a whole",
                where=self._model.label,
                hint="Compile it with --stream.",
            )
        self._tensor, self.fed, self.rows = tensor, 0, tensor.shape[1]
        begin_rows(session.line[0], self._model, tensor, self._until(deadline))

    def feed(self, rows: Array, deadline: Deadline | None = None) -> None:
        """Write the next row, or several: an array of a row's shape, or of one more leading axis.

        Raises:
            InputError: it has another shape or type, or more rows than are due; nothing was written.
            TargetError: as of all requests of a session.
        """
        values, shape, dtype = np.asarray(rows), self._tensor.shape[2:], self._tensor.dtype
        if values.dtype != dtype or values.shape[-len(shape) :] != shape or values.ndim > len(shape) + 1:
            raise InputError(
                f"an array of {values.dtype} and shape {list(values.shape)} was given for rows of {dtype} "
                f"and shape {list(shape)}",
                where=f"{self._model.label}, {self._tensor.label}",
            )
        count = values.size * values.itemsize // (self._tensor.size_bytes // self.rows)
        if count > self.rows - self.fed:
            raise InputError(
                f"{count} rows were given, and {self.rows - self.fed} of {self.rows} are due",
                where=f"{self._model.label}, {self._tensor.label}",
            )
        offset = self.fed * (self._tensor.size_bytes // self.rows)
        link, pace = self._session.line
        until = self._until(deadline)
        write_bytes(link, pace, self._model, self._tensor, values.tobytes(), offset, until)
        self.fed += count

    def finish(self, deadline: Deadline | None = None) -> list[Array]:
        """Run what is left to do, and return all outputs.

        Raises:
            InputError: rows are still due.
            TargetError: as of all requests of a session.
        """
        if self.fed < self.rows:
            raise InputError(
                f"{self.rows - self.fed} of {self.rows} rows are still due",
                where=f"{self._model.label}, {self._tensor.label}",
            )
        until = self._until(deadline)
        self._session.run(self._model, deadline=until)
        return self._session.read_outputs(self._model, until)

    def _until(self, deadline: Deadline | None) -> Deadline:
        timeouts = self._session.timeouts
        return deadline or Deadline.after(timeouts.transfer_s, timeouts.clock)
