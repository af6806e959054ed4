# SPDX-License-Identifier: Apache-2.0
"""Windows of a time series for a device that takes frames, and keeps what it needs of those before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlf_sdk.codegen.lock import LockModel
from mlf_sdk.errors import InputError
from mlf_sdk.ir.step import Frames
from mlf_sdk.tools.arrays import Array


def newest_frame(model: LockModel, inputs: Sequence[Array]) -> Sequence[Array]:
    """Inputs of the last inference of a window; all of them where the model takes no frames."""
    frames = model.frames
    if frames is None:
        return inputs
    end = frames.window[frames.axis]
    return (_rows(np.asarray(inputs[0]), frames, end - frames.rows, end),)


def frame_feed(model: LockModel) -> FrameFeed | None:
    """Feed of a model; None: it takes no frames."""
    return None if model.frames is None else FrameFeed(model.name, model.frames)


class FrameFeed:
    """Frames that a device was given, and those that are due for a window.

    The series is what was given in this session: whatever the device held before has left its states when
    the first window is whole.
    """

    def __init__(self, name: str, frames: Frames) -> None:
        self._name, self._frames = name, frames
        self._series: Array | None = None

    @property
    def due(self) -> int:
        """Frames until outputs are valid; 0: they are."""
        frames = self._frames
        given = 0 if self._series is None else self._series.shape[frames.axis] // frames.rows
        return max(0, frames.count - given)

    def inputs(self, window: Sequence[Array]) -> list[Sequence[Array]]:
        """Inputs of the inferences that end with the outputs of a window, those that were given left out."""
        frames, whole = self._frames, np.asarray(window[0])
        missing = frames.count * frames.rows - whole.shape[frames.axis]
        before = np.repeat(_rows(whole, frames, 0, 1), missing, axis=frames.axis)
        series = np.concatenate([before, whole], axis=frames.axis)
        return [
            (_rows(series, frames, k * frames.rows, (k + 1) * frames.rows),)
            for k in range(frames.count - self._new(whole), frames.count)
        ]

    def given(self, frame: Sequence[Array]) -> None:
        """Note a frame that the device has computed."""
        frames = self._frames
        parts = [frame[0]] if self._series is None else [self._series, frame[0]]
        series = np.concatenate([np.asarray(part) for part in parts], axis=frames.axis)
        end = series.shape[frames.axis]
        self._series = _rows(series, frames, max(0, end - frames.count * frames.rows), end)

    def drop(self) -> None:
        """Forget the series: the next window is given as a whole."""
        self._series = None

    def frame(self, array: Array) -> Array:
        """A frame in the shape of the input; raises InputError where the array is none."""
        shape, result = self._frames.frame, np.asarray(array)
        if result.size != np.prod(shape) or [n for n in result.shape if n > 1] != [n for n in shape if n > 1]:
            raise InputError(
                f"an array of shape {list(result.shape)} was given for a frame of {list(shape)}",
                where=f"model {self._name}",
            )
        return result.reshape(shape)

    def _new(self, window: Array) -> int:
        """Least number of frames that follow the series and end with a window."""
        frames, series = self._frames, self._series
        if series is None or self.due:
            return frames.count
        length, end = window.shape[frames.axis], series.shape[frames.axis]
        for new in range(1, frames.count):
            kept = length - new * frames.rows
            if np.array_equal(_rows(series, frames, end - kept, end), _rows(window, frames, 0, kept)):
                return new
        return frames.count


def sliding(series: Array, frames: Frames) -> Array:
    """Windows (count, *window) of a series, each a frame behind the one before."""
    length = frames.window[frames.axis]
    ends = range(length, series.shape[frames.axis] + 1, frames.rows)
    return np.stack([_rows(series, frames, end - length, end) for end in ends])


def _rows(array: Array, frames: Frames, start: int, end: int) -> Array:
    return np.ascontiguousarray(np.take(array, range(start, end), axis=frames.axis))
