# SPDX-License-Identifier: Apache-2.0
"""Random ONNX networks: draws one after the other, each of which feeds on the former ones."""

from __future__ import annotations

import contextlib

import onnx

import onnx_draws_classical
import onnx_draws_control
import onnx_draws_elements
import onnx_draws_indices
import onnx_draws_layers
import onnx_draws_quantised
from onnx_draws import DRAWS
from onnx_network import OPSETS, Network, Unfit

# They register their draws.
FAMILIES = (
    onnx_draws_classical,
    onnx_draws_control,
    onnx_draws_elements,
    onnx_draws_indices,
    onnx_draws_layers,
    onnx_draws_quantised,
)
OFTEN = [
    "Conv",
    "ConvTranspose",
    "MaxPool",
    "AveragePool",
    "Gemm",
    "MatMul",
    "Resize",
    "QLinearConv",
    "Concat",
    "Add",
]
LEAST = {"Hardmax": 13, "Scan": 9}  # versions in which the reader knows an operator
TRIES = 400


def versions(kind: str) -> list[int]:
    """Versions of the operators that have one."""
    name = kind.rpartition(".")[2]
    if "." in kind:
        return [v for v in OPSETS if v >= 10]
    found = []
    for version in OPSETS:
        with contextlib.suppress(onnx.defs.SchemaError):
            if not onnx.defs.get_schema(name, version, "").deprecated:
                found.append(version)
    return found


def network(seed: int, *, style: str = "", kind: str = "", opset: int = 0, size: int = 0) -> Network:
    """A network of 4 to 12 draws.

    Args:
        kind: an operator that is drawn first.
    """
    if kind:
        style = style or next(s for s, known in DRAWS.items() if kind in known)
        least = 7 if style == "float" else 10
        fitting = [v for v in versions(kind) if v >= max(least, LEAST.get(kind, 0))]
        opset = opset or fitting[seed % len(fitting)]
    n = Network(seed, style, opset)
    if kind:
        n.classical = 5 if kind.endswith(".TreeEnsemble") else 3
    kinds = list(DRAWS[n.style])
    kinds += [k for k in OFTEN if k in kinds] * 4
    size = size or n.integer(4, 12)
    done = 0
    for attempt in range(TRIES):
        if done == size and n.results:
            return n
        chosen = kind if kind and not done else n.choice(kinds)
        state = n.state()
        try:
            if not n.inputs and not n.pool and n.style != "qoperator" and not kind:
                _first(n)
            DRAWS[n.style][chosen](n)
            done += 1
        except Unfit as error:
            n.restore(state)
            if kind and not done and attempt == TRIES - 1:
                raise AssertionError(f"{kind} can't be drawn: {error}") from error
    if n.results and done:
        return n
    raise AssertionError(f"seed {seed}: no network of {n.style} in version {n.opset}")


def _first(n: Network) -> None:
    from onnx_draws import fresh

    fresh(n, n.shape(n.choice((4, 4, 4, 3, 2))))
    if len(n.pool) == 2:
        n.pool.pop(0)
