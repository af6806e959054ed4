# SPDX-License-Identifier: Apache-2.0
"""Inputs of a bench: a folder of files with ``y_labels.csv``, arrays of an npz file, or made-up bytes."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mlf_sdk.codegen.lock import LockModel
from mlf_sdk.codegen.mlperf import BENCHMARKS
from mlf_sdk.codegen.samples import pattern_bytes
from mlf_sdk.errors import InputError
from mlf_sdk.ir.dtype import DType
from mlf_sdk.judge.data import LABEL_KEY, match_inputs, match_reference
from mlf_sdk.tools.arrays import read_npz

LABELS: Final = "y_labels.csv"
WINDOWED: Final = "ad01"  # the runner cuts the files of this benchmark alone


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """A file of a benchmark.

    Attributes:
        classes: number of classes.
        label: class of the file.
        window_bytes, stride_bytes: how the host cuts it, where it does.
        path: of the file; None: ``data`` holds it.
    """

    name: str
    classes: int
    label: int
    window_bytes: int = 0
    stride_bytes: int = 0
    path: Path | None = None
    data: bytes = b""

    def content(self) -> bytes:
        """Bytes of the file.

        Raises:
            InputError: it can't be read.
        """
        if self.path is None:
            return self.data
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise InputError(f"can't read an input: {error.strerror}", where=str(self.path)) from error

    def segments(self, benchmark: str) -> Iterator[bytes]:
        """Inputs that the file holds: itself, or windows of it."""
        data = self.content()
        if benchmark != WINDOWED or not self.window_bytes or not self.stride_bytes:
            yield data
            return
        for at in range(0, len(data) - self.window_bytes + 1, self.stride_bytes):
            yield data[at : at + self.window_bytes]

    def row(self) -> list[str]:
        """Line of ``y_labels.csv``."""
        cut = [str(self.window_bytes), str(self.stride_bytes)] if self.window_bytes else []
        return [self.name, str(self.classes), str(self.label), *cut]


def read_folder(folder: Path, count: int | None) -> list[InputFile]:
    """Read the list of a folder.

    Args:
        folder: with ``y_labels.csv``: file, classes, class, and for windows bytes and stride.
        count: how many files, the first ones; None: all.

    Raises:
        InputError: the list is missing or damaged.
    """
    path = folder / LABELS
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            rows = [row for row in csv.reader(stream) if row][:count]
        return [_file_of(folder, row) for row in rows]
    except (OSError, ValueError, IndexError) as error:
        what = error.strerror if isinstance(error, OSError) else f"{error}"
        raise InputError(
            f"can't read the list of inputs: {what}",
            where=str(path),
            hint="Each line is: file,number of classes,class[,bytes of a window,bytes of a stride]",
        ) from error


def _file_of(folder: Path, row: Sequence[str]) -> InputFile:
    window, stride = (int(row[3]), int(row[4])) if len(row) > 4 else (0, 0)
    return InputFile(
        name=row[0],
        classes=int(row[1]),
        label=int(row[2]),
        window_bytes=window,
        stride_bytes=stride,
        path=folder / row[0],
    )


def from_arrays(path: Path, model: LockModel, count: int | None) -> list[InputFile]:
    """Make files of the arrays of an npz file, whose array ``label`` holds the classes.

    Raises:
        InputError: an array is missing or does not fit.
    """
    arrays = read_npz(path)
    batch = match_inputs(model, arrays, str(path))
    labels = (
        match_reference(model, {LABEL_KEY: arrays[LABEL_KEY]}, batch.count, str(path)).labels
        if (LABEL_KEY in arrays)
        else None
    )
    if labels is None:
        raise InputError(f"no array '{LABEL_KEY}'", where=str(path), hint="It holds the class of each input.")
    width = max(int(labels.max()) + 1, 2)
    return [
        InputFile(
            name=f"input_{index:05}.bin",
            classes=width,
            label=int(labels[index]),
            data=b"".join(array.tobytes() for array in batch.inputs(index)),
        )
        for index in range(batch.count if count is None else min(count, batch.count))
    ]


def made_up(benchmark: str, input_bytes: int, count: int) -> list[InputFile]:
    """Files of repeatable bytes."""
    sent = BENCHMARKS[benchmark].sent if benchmark in BENCHMARKS else "uint8"
    dtype = DType.parse(sent)
    cut = input_bytes if benchmark == WINDOWED else 0
    return [
        InputFile(
            name=f"made_up_{index}.bin",
            classes=2,
            label=index % 2,
            window_bytes=cut,
            stride_bytes=cut,
            data=pattern_bytes(dtype, input_bytes // dtype.size_bytes, salt=index * input_bytes),
        )
        for index in range(count)
    ]


def write_folder(folder: Path, files: Sequence[InputFile]) -> None:
    """Write files and their list, as the official runner reads them."""
    folder.mkdir(parents=True)
    for file in {file.name: file for file in files}.values():  # a list may name a file again
        if file.path is None:
            (folder / file.name).write_bytes(file.data)
        else:
            (folder / file.name).symlink_to(file.path.resolve())
    with (folder / LABELS).open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, lineterminator="\n").writerows(file.row() for file in files)
