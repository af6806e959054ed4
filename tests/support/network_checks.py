# SPDX-License-Identifier: Apache-2.0
"""One network against TFLM: the reference of each operator, the improved graph, and the kernels that are left to run."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from agreement import Tflm
from kernel_checks import Array, KernelCheck, all_choices, checks_of, compare_by_name, trace
from mlf_sdk.compiler.options import Core, Goal
from mlf_sdk.compiler.passes import improve
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.errors import MlfError
from random_networks import Network
from tflite_models import TensorSpec

CORES = (Core.GENERIC, Core.CORTEX_M0, Core.CORTEX_M3, Core.CORTEX_M4, Core.CORTEX_M55)


class Refused(Exception):
    """A network that TFLM does not run."""


@dataclass
class Examined:
    """What is known of a network before its kernels run.

    Attributes:
        faults: where the reference differs from TFLM, or the compiler refuses what TFLM runs.
        checks: kernels to run.
    """

    name: str
    network: Network
    faults: list[str] = field(default_factory=list)
    checks: list[KernelCheck] = field(default_factory=list)


def tflm_values(network: Network, runs: Sequence[Sequence[Array]]) -> list[dict[str, Array]]:
    """What TFLM computes for every tensor that an operator writes, by its name, in consecutive runs.

    Raises:
        Refused: TFLM does not run the network.
    """
    model = network.file(all_values=True)
    names = [network.tensor(i).name for i in network.spec.outputs]
    found = []
    try:
        oracle = Tflm(model)
        for inputs in runs:
            found.append(dict(zip(names, oracle.run(list(inputs), len(names)), strict=True)))
    except (RuntimeError, ValueError) as error:
        raise Refused(str(error)) from error
    return found


def inputs_of(network: Network) -> list[list[Array]]:
    """Inputs of the runs: random values, then only the limits of their types where those are of few bits."""
    runs: list[list[Array]] = [[], []]
    for tensor in (network.tensor(i) for i in network.spec.inputs):
        for run, found in enumerate(runs):
            found.append(_input(network, tensor, limits=run == 1))
    return runs


def _input(network: Network, tensor: TensorSpec, *, limits: bool) -> Array:
    random, dtype = network.random, np.dtype(tensor.dtype)
    if dtype.kind == "f":
        return random.uniform(-3, 3, tensor.shape).astype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, tensor.shape).astype(dtype)
    if dtype.itemsize > 2:
        return random.integers(-1000, 1000, tensor.shape).astype(dtype)
    ends = np.iinfo(dtype)
    if limits:
        return random.choice([ends.min, ends.max], tensor.shape).astype(dtype)
    return random.integers(ends.min, ends.max + 1, tensor.shape).astype(dtype)


def examine(
    name: str,
    network: Network,
    core: Core = Core.GENERIC,
    goals: Sequence[Goal] = tuple(Goal),
    *,
    others: bool,
) -> Examined:
    """Compare the reference of a network with TFLM, operator by operator on TFLM's values.

    Args:
        core: kernels are chosen for it, for each goal.
        others: kernels that would be counted are checked, too.

    Raises:
        Refused: TFLM does not run the network.
    """
    found = Examined(name, network)
    given = inputs_of(network)
    values = tflm_values(network, given)
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.tflite")
            path.write_bytes(network.file())
            graph = load_tflite(path)
    except MlfError as error:
        found.faults.append(f"{name}: refused: {error}")
        return found
    found.faults += compare_by_name(name, graph, trace(graph, given, values), values)
    improved = improve(graph)
    traced = trace(improved, given, values)
    found.faults += compare_by_name(f"{name} improved", improved, traced, values)
    names = {v.name for v in (improved.values[i] for i in improved.outputs)}
    if not names <= values[0].keys() | {network.tensor(i).name for i in network.spec.inputs}:
        found.faults.append(f"{name}: outputs {sorted(names - values[0].keys())} are compared with nothing")
    found.checks = checks_of(
        name,
        improved,
        traced,
        [choice for choice in all_choices(core) if choice.goal in goals],
        others=Choice(goal=Goal.SPEED, core=core) if others else None,
    )
    return found
