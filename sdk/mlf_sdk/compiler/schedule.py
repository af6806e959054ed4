# SPDX-License-Identifier: Apache-2.0
"""Choice of a kernel for every operator."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from mlf_sdk.compiler import computed, operators, reals, signals, svm, trees
from mlf_sdk.compiler.corenames import GENERIC
from mlf_sdk.compiler.cores import Core, core_named
from mlf_sdk.compiler.generated import Generated, generated
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels import (
    compact,
    conv_2ch_int8,
    conv_2ch_int16,
    convolution,
    custom,
    dense,
    dense_5rows,
    depthwise,
    detection,
    elementwise,
    fields,
    fourier,
    general,
    indices,
    lstm,
    maps,
    movement,
    mve,
    mve_depthwise,
    pooling,
    quantised,
    reduce,
    resample,
    rows,
    scalar,
    signal,
    softmax,
    svdf,
    windows,
    winograd,
)
from mlf_sdk.compiler.kernels import (
    computed as of_computed,
)
from mlf_sdk.compiler.kernels import (
    svm as of_svm,
)
from mlf_sdk.compiler.kernels import (
    trees as of_trees,
)
from mlf_sdk.compiler.kernels.conv_1ch_int8 import MAX_PIXELS
from mlf_sdk.compiler.kernels.floats import convolution as real_convolution
from mlf_sdk.compiler.kernels.floats import depthwise as real_depthwise
from mlf_sdk.compiler.kernels.floats import pointwise as real_pointwise
from mlf_sdk.compiler.kernels.floats import pooling as real_pooling
from mlf_sdk.compiler.kernels.floats import recurrent
from mlf_sdk.compiler.kernels.floats import rows as real_rows
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.kernels.split import choose_short
from mlf_sdk.compiler.operators import Operator
from mlf_sdk.compiler.options import Goal


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Goal and core that decide between kernels of one operator."""

    goal: Goal = Goal.BALANCED
    core: Core = field(default_factory=lambda: core_named(GENERIC))


_GROWTH: Final = (
    1.125  # of constants that may take more flash for fewer instructions, where the goal is balanced
)
_SMALL: Final = 256  # bytes of constants that always may be

Maker = Callable[[Graph, Any], Kernel | None]

KERNELS: Final[dict[type[Operator], tuple[Maker, ...]]] = {
    operators.Conv2D: (real_convolution.convolution, convolution.tiled, general.convolution),
    operators.DepthwiseConv2D: (
        real_depthwise.depthwise,
        depthwise.paired,
        rows.depthwise,
        general.convolution,
    ),
    operators.TransposeConv: (general.transpose_conv,),
    operators.FullyConnected: (real_convolution.dense, dense.dense, general.fully_connected),
    operators.Pool2D: (real_pooling.pool_2d, pooling.pool_2d),
    operators.Convert: (elementwise.table, elementwise.convert),
    operators.Softmax: (real_rows.softmax, softmax.softmax),
    operators.Svdf: (svdf.svdf,),
    operators.Lstm: (lstm.lstm,),
    operators.Map: (elementwise.table, elementwise.stored, maps.map_),
    operators.Move: (movement.move,),
    operators.Custom: (custom.custom,),
    operators.DetectionPostProcess: (detection.detection_post_process,),
    operators.AddN: (quantised.add_n,),
    operators.L2Normalise: (quantised.l2_normalise,),
    operators.UpdateSlice: (quantised.update_slice,),
    operators.ArgExtreme: (movement.arg_extreme,),
    operators.ReadState: (movement.read_state,),
    operators.WriteState: (movement.write_state,),
    reals.Accumulate: (quantised.accumulate,),
    reals.Lookup: (real_pointwise.lookup,),
    reals.MatMul: (quantised.mat_mul,),
    reals.Normalise: (real_rows.normalise,),
    reals.Recurrent: (recurrent.recurrent,),
    reals.Reduce: (reduce.reduce,),
    reals.Resample: (resample.resample,),
    signals.SignalWindow: (signal.window,),
    signals.SignalAutoScale: (signal.auto_scale,),
    signals.SignalRfft: (fourier.rfft,),
    signals.SignalEnergy: (signal.energy,),
    signals.SignalFilterBank: (signal.filter_bank,),
    signals.SignalSquareRoot: (signal.square_root,),
    signals.SignalSpectralSubtraction: (signal.spectral_subtraction,),
    signals.SignalGain: (signal.gain,),
    signals.SignalOverlapAdd: (signal.overlap_add,),
    signals.SignalLog: (signal.log,),
    computed.Convolve: (of_computed.convolve,),
    computed.DynamicQuantise: (of_computed.dynamic_quantise,),
    computed.GatherElements: (indices.gather_elements,),
    computed.GatherSlices: (indices.gather_slices,),
    computed.LabelEncoder: (indices.label_encoder,),
    computed.LocalResponse: (of_computed.local_response,),
    computed.PoolIndices: (of_computed.pool_indices,),
    computed.ScatterElements: (indices.scatter_elements,),
    computed.ScatterSlices: (indices.scatter_slices,),
    computed.TopK: (of_computed.top_k,),
    svm.PairCoupling: (of_svm.pair_coupling,),
    svm.PairVotes: (of_svm.pair_votes,),
    svm.SupportVectors: (of_svm.support_vectors,),
    trees.TreeEnsemble: (of_trees.tree_ensemble,),
    Generated: (generated,),
}


Makers = dict[type[Operator], tuple[Maker, ...]]
_MVE: Final[Makers] = {
    operators.Conv2D: (windows.convolution(2, mve.tile),),
    operators.FullyConnected: (windows.dense(mve.tile),),
    operators.DepthwiseConv2D: (mve_depthwise.depthwise,),
    operators.Map: (mve_depthwise.binary,),
}
_THUMB2: Final[Makers] = {
    operators.Conv2D: (windows.convolution(6, scalar.tile_m3),),
    operators.FullyConnected: (
        general.of_few_outputs,
        windows.dense(fields.dense_tile, choose_short, one=True),  # a long product takes up to seven cycles
        windows.dense(fields.dense_tile, one=True),
    ),
}
# The fewest cycles: short products of pairs, with taking their sums apart, take at least 5 % less than SMLAL.
_THUMB2_FAST: Final[Makers] = {
    **_THUMB2,
    operators.Conv2D: (
        windows.convolution(4, scalar.tile_m0, choose_short, instead_of=6),
        *_THUMB2[operators.Conv2D],
    ),
}
_THUMB1: Final[Makers] = {
    operators.Conv2D: (windows.convolution(4, scalar.tile_m0, choose_short),),
    operators.FullyConnected: (
        general.of_few_outputs,
        windows.dense(fields.dense_tile, choose_short, one=True),
    ),
    operators.DepthwiseConv2D: (rows.short_depthwise,),
}
_DSP_BALANCED: Final[Makers] = {
    operators.Conv2D: (conv_2ch_int8.convolution,),
    operators.FullyConnected: (dense_5rows.dense,),
}
# The fewest instructions: weights of 16 bits need no widening, but their loads take more cycles.
_DSP_FEWEST: Final[Makers] = {
    operators.Conv2D: (winograd.convolution, conv_2ch_int16.convolution, conv_2ch_int8.convolution),
}
_DSP_FAST: Final[Makers] = {
    operators.Conv2D: (winograd.convolution, conv_2ch_int8.convolution, conv_2ch_int16.convolution),
    operators.FullyConnected: (dense_5rows.dense,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSet:
    """Kernels that are written for an instruction set, for each goal.

    Attributes:
        any_core: they may be the best ones of a core without it, too: they are mostly plain C.
    """

    kernels: dict[Goal, Makers]
    any_core: bool = False


KERNEL_SETS: Final = {
    "mve": KernelSet(kernels=dict.fromkeys(Goal, _MVE)),
    "thumb2": KernelSet(kernels={**dict.fromkeys(Goal, _THUMB2), Goal.SPEED: _THUMB2_FAST}, any_core=True),
    "thumb1": KernelSet(kernels=dict.fromkeys(Goal, _THUMB1), any_core=True),
    "dsp": KernelSet(
        kernels={Goal.BALANCED: _DSP_BALANCED, Goal.SPEED: _DSP_FAST, Goal.INSTRUCTIONS: _DSP_FEWEST}
    ),
}
"""Kernels by the name of their instruction set, which the rows of cores use (``board_templates/cores``)."""

_COMPACT: Final[dict[type[Operator], Maker]] = {
    operators.Conv2D: compact.convolution,
    operators.DepthwiseConv2D: compact.convolution,
    operators.FullyConnected: compact.fully_connected,
}


def _preferred(choice: Choice, operator: type[Operator]) -> tuple[Maker, ...]:
    """Kernels for the first instruction set of the core, before those for all."""
    first = KERNEL_SETS[choice.core.instruction_sets[0]]
    return first.kernels.get(choice.goal, {}).get(operator, ())


def candidates(graph: Graph, operator: Operator, choice: Choice) -> Iterator[Kernel]:
    """Kernels that can compute an operator, the preferred one first; none for one that needs no code.

    For size there is no preference: `mlf_sdk.compiler.smallest` chooses for all of a graph.
    """
    if isinstance(operator, operators.Reshape):
        return
    makers = (*_preferred(choice, type(operator)), *KERNELS[type(operator)])
    if choice.goal is Goal.SIZE and type(operator) in _COMPACT:
        makers = (*makers, _COMPACT[type(operator)])
    yield from (kernel for make in makers if (kernel := make(graph, operator)) is not None)


def alternatives(graph: Graph, operator: Operator, choice: Choice) -> tuple[Kernel, ...]:
    """Kernels of an operator that differ, the first of `candidates` first: those that are counted.

    Those of other cores are among them, and tiles of other sizes, where their constants are not much larger.
    """
    usual = tuple(candidates(graph, operator, choice))
    if not usual:
        return usual
    found = [usual[0]]
    found += [dataclasses.replace(k, variant=f"choice {n}") for n, k in enumerate(usual[1:-1], 2)]
    if len(usual) > 1:
        found.append(dataclasses.replace(usual[-1], variant="general"))
    for name, one in KERNEL_SETS.items():
        if one.any_core or name in choice.core.instruction_sets:
            tables = one.kernels.values()
            makers = dict.fromkeys(make for table in tables for make in table.get(type(operator), ()))
            made = (kernel for make in makers if (kernel := make(graph, operator)) is not None)
            for number, kernel in enumerate(made, 1):
                variant = f"for {name}" if number == 1 else f"for {name}, choice {number}"
                found.append(dataclasses.replace(kernel, variant=variant))
    if isinstance(operator, operators.Conv2D) and "dsp" in choice.core.instruction_sets:
        for pixels in range(1, MAX_PIXELS + 1):
            kernel = convolution.tiled(graph, operator, pixels)
            if kernel is not None:
                found.append(dataclasses.replace(kernel, variant=f"tiles of {pixels}"))
    most = max(usual[0].constants_bytes * _GROWTH, _SMALL)
    different = {usual[0].content: usual[0]}
    for kernel in found:
        if kernel.constants_bytes <= most or choice.goal in (Goal.SPEED, Goal.INSTRUCTIONS):
            different.setdefault(kernel.content, kernel)
    return tuple(different.values())
