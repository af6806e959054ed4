# SPDX-License-Identifier: Apache-2.0
"""One network against TFLM: the reference of each operator, the improved graph, and the kernels that are left to run."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from agreement import Tflm, random_inputs
from kernel_checks import Array, KernelCheck, all_choices, checks_of, compare_by_name, trace
from mlf_sdk.compiler.cores import Core, core_named
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.options import Goal
from mlf_sdk.compiler.passes import improve
from mlf_sdk.compiler.rows import strips
from mlf_sdk.compiler.schedule import Choice
from mlf_sdk.compiler.tflite.load import load_tflite
from mlf_sdk.errors import MlfError
from random_networks import Network
from row_regions import with_longest_regions, with_streamed_input
from tflite_models import TensorSpec

_REGIONS = ((1, 640), (2, 64), (2, 8192))  # rows at once and bytes of scratch, by the size of a model's file
CORES = (
    core_named("generic"),
    core_named("cortex-m0"),
    core_named("cortex-m3"),
    core_named("cortex-m4"),
    core_named("cortex-m55"),
    core_named("rv32imac"),
    core_named("rv32imac_zve32x"),
)


class Refused(Exception):
    """A network that TFLM does not run."""


@dataclass
class Examined:
    """What is known of a network before its kernels run.

    Attributes:
        operators: of the file.
        faults: where the reference differs from TFLM, or the compiler refuses what TFLM runs.
        streamed: its input can come by rows, and kernels for that are among the checks.
        checks: kernels to run.
    """

    name: str
    operators: int
    faults: list[str] = field(default_factory=list)
    streamed: bool = False
    checks: list[KernelCheck] = field(default_factory=list)


def tflm_values(
    model: bytes, names: Sequence[str], runs: Sequence[Sequence[Array]]
) -> list[dict[str, Array]]:
    """What TFLM computes for the outputs of a file, by their names, in consecutive runs.

    Raises:
        Refused: TFLM does not run it.
    """
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


def examine_network(name: str, network: Network, core: Core, *, others: bool) -> Examined:
    """Compare every operator of a network with TFLM; see `examine`."""
    given = inputs_of(network)
    complete = network.file(all_values=True)
    names = [network.tensor(i).name for i in network.spec.outputs]
    values = tflm_values(complete, names, given)
    return examine(name, network.file(), given, values, core, others=others)


def examine_model(name: str, model: bytes, runs: int, core: Core, *, others: bool) -> Examined:
    """Compare the outputs of a file with TFLM in consecutive runs on random inputs; see `examine`."""
    try:
        graph = _loaded(model)
    except MlfError as error:
        return Examined(name, 0, [f"{name}: refused: {error}"])
    random = np.random.default_rng(len(model))
    given = [random_inputs(graph, random) for _ in range(runs)]
    values = tflm_values(model, [graph.values[i].name for i in graph.outputs], given)
    return examine(name, model, given, values, core, others=others)


def examine(
    name: str,
    model: bytes,
    given: Sequence[Sequence[Array]],
    values: Sequence[Mapping[str, Array]],
    core: Core,
    *,
    others: bool,
) -> Examined:
    """Compare the reference of a model with TFLM, operator by operator on the values that TFLM has.

    Args:
        given: inputs of consecutive runs.
        values: what TFLM computes, by name, in each of them.
        core: kernels are chosen for it, for each goal.
        others: kernels that would be counted are checked, too.

    Raises:
        Refused: TFLM does not run the network.
    """
    try:
        graph = _loaded(model)
    except MlfError as error:
        return Examined(name, 0, [f"{name}: refused: {error}"])
    found = Examined(name, len(graph.operators))
    found.faults += compare_by_name(name, graph, trace(graph, given, values), values)
    improved = improve(graph)
    traced = trace(improved, given, values)
    found.faults += compare_by_name(f"{name} improved", improved, traced, values)
    outputs = {v.name for v in (improved.values[i] for i in improved.outputs) if v.data is None}
    missing = outputs - values[0].keys() - {graph.values[i].name for i in graph.inputs}
    if missing:
        found.faults.append(f"{name}: outputs {sorted(missing)} are compared with nothing")
    choice = Choice(goal=Goal.SPEED, core=core) if others else None
    found.checks = checks_of(name, improved, traced, all_choices(core), others=choice)
    by_rows = Choice(goal=Goal.RAM, core=core)
    fused = with_longest_regions(improved, by_rows, *_REGIONS[len(model) % len(_REGIONS)])
    if len(fused.operators) < len(improved.operators):
        found.checks += checks_of(f"{name} by rows", fused, trace(fused, given), [by_rows])
    cut = _in_strips(improved, strips.COUNTS[len(model) % len(strips.COUNTS)])
    if cut is not None:
        found.faults += compare_by_name(f"{name} in strips", cut, trace(cut, given), values)
        fused = with_longest_regions(cut, by_rows)
        found.checks += checks_of(f"{name} in strips", fused, trace(fused, given), [by_rows])
    for least in (True, False):
        given_by_rows = with_streamed_input(improved, by_rows, least=least)
        if given_by_rows is not None:
            kind = "least RAM" if least else "fewest layers"
            checks = checks_of(
                f"{name} streamed, {kind}", given_by_rows, trace(given_by_rows, given), [by_rows]
            )
            found.checks += [check for check in checks if check.kernel.stream is not None]
            found.streamed = True
    return found


def _in_strips(graph: Graph, count: int) -> Graph | None:
    """The graph with as many of its first layers in strips as can be; None where none can."""
    cuts = (strips.in_strips(graph, layers, count) for layers in range(len(graph.operators), 0, -1))
    return next((one for one in cuts if one is not None), None)


def _loaded(model: bytes) -> Graph:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.tflite")
        path.write_bytes(model)
        return load_tflite(path)
