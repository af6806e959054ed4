# SPDX-License-Identifier: Apache-2.0
"""A made-up format of compiled models, added by one class: a text with one C function.

::

    toy 3
    constant w float32 4 = 1 2 3 4
    input x float32 4
    output y float32 4
    state runs int32 1
    scratch 32
    ---
    int scale(void *w, void *x, void *y, void *runs, void *scratch) { ... }

The function takes a pointer for each line, in that order, and gives 0. Its states keep their values from
one run to the next.

    with toy_frontend():
        model = frontends.load(write_toy(tmp_path / "scale.toy"))
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from mlf_sdk.errors import ArchiveError, Fault
from mlf_sdk.frontends import Frontend, register_frontend, unregister_frontend
from mlf_sdk.ir.abi import Value, call_with
from mlf_sdk.ir.dtype import DType
from mlf_sdk.ir.model import (
    CodeUnit,
    MemorySummary,
    Model,
    Provenance,
    Span,
    Step,
    Tensor,
    TensorKind,
    UnitKind,
    Workspace,
)

MAGIC = b"toy "
KINDS = {
    "constant": TensorKind.CONSTANT,
    "input": TensorKind.INPUT,
    "output": TensorKind.INTERMEDIATE,
    "state": TensorKind.STATE,
}
SCALE = """\
toy 3
constant w float32 4 = 1 2 3 4
input x float32 4
output y float32 4
state runs int32 1
scratch 32
---
#include <stdint.h>
#include <string.h>
int scale(void *w, void *x, void *y, void *runs, void *scratch) {
  float kept[4];
  memcpy(scratch, x, sizeof kept);
  memcpy(kept, scratch, sizeof kept);
  for (int i = 0; i < 4; ++i) {
    ((float *)y)[i] = ((const float *)w)[i] * kept[i] + (float)*(int32_t *)runs;
  }
  *(int32_t *)runs += 1;
  return 0;
}
"""


def write_toy(path: Path, text: str = SCALE) -> Path:
    """Write a model of the format."""
    path.write_text(text)
    return path


def scale(
    x: np.ndarray[tuple[int, ...], np.dtype[np.float32]], run: int = 0
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """The output of `SCALE` in its run number ``run``."""
    return np.asarray([1, 2, 3, 4], np.float32) * x + np.float32(run)


@contextmanager
def toy_frontend() -> Iterator[None]:
    """Add the format for a while."""
    register_frontend(ToyFrontend())
    try:
        yield
    finally:
        unregister_frontend(ToyFrontend.name)


class ToyFrontend(Frontend):
    """The format."""

    name = "toy"
    title = "a made-up format"

    def recognise(self, path: Path) -> bool:
        """Look at the first bytes."""
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC

    def load(self, path: Path, module: str | None = None) -> Model:
        """Load the only model of the file."""
        data = path.read_bytes()
        head, _, code = data.decode().partition("---\n")
        lines = head.splitlines()
        entry = re.search(r"\b(\w+)\(", code)
        if entry is None:
            raise ArchiveError(str(path), [Fault(member="code", what="there is no function")])
        scratch = [int(line.split()[1]) for line in lines if line.startswith("scratch")]
        tensors = [
            _tensor(index, line) for index, line in enumerate(line for line in lines if _kind(line) in KINDS)
        ]
        inputs = tuple(t.id for t in tensors if t.kind in (TensorKind.CONSTANT, TensorKind.INPUT))
        outputs = tuple(t.id for t in tensors if t.kind is TensorKind.INTERMEDIATE)
        states = tuple(t.id for t in tensors if t.kind is TensorKind.STATE)
        values = [Value.of_tensor(t.id) for t in tensors]
        values += [Value.of_workspace(slot) for slot in range(len(scratch))]
        step = Step(
            index=0,
            name=entry[1],
            symbol=entry[1],
            abi=call_with(values, result="int"),
            inputs=(*inputs, *states),
            outputs=outputs,
            writes=tuple(range(len(inputs), len(inputs) + len(states))),
            workspaces=tuple(
                Workspace(slot=slot, size_bytes=size, span=Span(first=0, last=0))
                for slot, size in enumerate(scratch)
            ),
        )
        return Model(
            name=path.stem,
            c_name=path.stem,
            provenance=Provenance(
                format="Toy",
                format_version=lines[0].split()[1],
                compiler="hand",
                compiler_version="",
                sha256=hashlib.sha256(data).hexdigest(),
                source=str(path),
            ),
            executor="toy",
            targets=(),
            tensors=tuple(tensors),
            inputs=tuple(t.id for t in tensors if t.kind is TensorKind.INPUT),
            outputs=outputs,
            output_names=tuple(tensors[i].name for i in outputs),
            steps=(step,),
            units=(
                CodeUnit(
                    member=f"code/{path.stem}.c",
                    kind=UnitKind.C,
                    data=code.encode(),
                    linked=True,
                    symbols=(entry[1],),
                ),
            ),
            summary=MemorySummary(),
        )


def _kind(line: str) -> str:
    return line.partition(" ")[0]


def _tensor(index: int, line: str) -> Tensor:
    declared, _, values = line.partition("=")
    kind, name, dtype, *extents = declared.split()
    element = DType.parse(dtype)
    return Tensor(
        id=index,
        name=name,
        c_name=name,
        dtype=element,
        shape=tuple(map(int, extents)),
        kind=KINDS[kind],
        data=np.array(values.split(), element.numpy).tobytes() if values else None,
    )
