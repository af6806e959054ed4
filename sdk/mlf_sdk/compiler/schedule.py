# SPDX-License-Identifier: Apache-2.0
"""Choice of a kernel for every operator, by rule or by counting."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from mlf_sdk.compiler.cores import Core, core_named
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.kernel import Kernel, Role
from mlf_sdk.compiler.microkernels.instruction_set import instruction_set, instruction_set_names
from mlf_sdk.compiler.operators import Conv2D, Fused, Layer, Operator
from mlf_sdk.compiler.options import GENERIC, Goal
from mlf_sdk.errors import InputError
from mlf_sdk.resources import imported


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Goal and core that decide between kernels of one operator.

    Attributes:
        stream: the input comes row by row.
        frames: an inference takes the newest rows of a time series, and keeps what it needs of those before.
        caller_inputs: inputs lie in memory of the caller.
    """

    goal: Goal = Goal.BALANCED
    stream: bool = False
    frames: bool = False
    caller_inputs: bool = False
    core: Core = field(default_factory=lambda: core_named(GENERIC))


_GROWTH: Final = (
    1.125  # of constants that may take more flash for fewer instructions, where the goal is balanced
)
_SMALL: Final = 256  # bytes of constants that always may be

Maker = Callable[..., Kernel | None]
"""Makes a kernel of what `subject_of` gives; None for an operator that it does not fit."""

Makers = dict[str, tuple[str, ...]]
"""Places of makers, ``module:function`` in `mlf_sdk.compiler.kernels`, by the name of their operator's class.

A maker is imported when an operator needs it.
"""

KERNELS: Final[Makers] = {
    "Conv2D": ("convolution:tiled", "general:convolution"),
    "DepthwiseConv2D": ("depthwise:paired", "rows:depthwise", "general:convolution"),
    "TransposeConv": ("general:convolution",),
    "FullyConnected": ("dense:dense", "general:fully_connected"),
    "Pool2D": ("pooling:pool_2d",),
    "Convert": ("elementwise:table", "elementwise:convert"),
    "Table": ("elementwise:table",),
    "Softmax": ("softmax:softmax",),
    "Svdf": ("recurrent:svdf",),
    "Lstm": ("recurrent:lstm",),
    "Map": ("elementwise:table", "elementwise:stored", "maps:map_"),
    "Move": ("movement:move",),
    "Custom": ("custom:custom",),
    "DetectionPostProcess": ("detection:detection_post_process",),
    "AddN": ("quantised:add_n",),
    "L2Normalise": ("quantised:l2_normalise",),
    "UpdateSlice": ("quantised:update_slice",),
    "ArgExtreme": ("movement:arg_extreme",),
    "ReadState": ("movement:read_state",),
    "WriteState": ("movement:write_state",),
    "AppendRows": ("movement:append_rows",),
    "Accumulate": ("quantised:accumulate",),
    "Lookup": ("indices:lookup",),
    "MatMul": ("matmul:mat_mul",),
    "Normalise": ("floats.rows:normalise",),
    "Recurrent": ("floats.recurrent:recurrent",),
    "Reduce": ("reduce:reduce",),
    "Resample": ("resample:resample",),
    "SignalWindow": ("signal:window",),
    "SignalAutoScale": ("signal:auto_scale",),
    "SignalRfft": ("fourier:rfft",),
    "SignalEnergy": ("signal:energy",),
    "SignalFilterBank": ("signal:filter_bank",),
    "SignalSquareRoot": ("signal:square_root",),
    "SignalSpectralSubtraction": ("signal:spectral_subtraction",),
    "SignalGain": ("signal:gain",),
    "SignalOverlapAdd": ("signal:overlap_add",),
    "SignalLog": ("signal:log",),
    "Convolve": ("computed:convolve",),
    "DynamicQuantise": ("computed:dynamic_quantise",),
    "GatherElements": ("indices:gather_elements",),
    "GatherSlices": ("indices:gather_slices",),
    "LabelEncoder": ("indices:label_encoder",),
    "LocalResponse": ("computed:local_response",),
    "PoolIndices": ("computed:pool_indices",),
    "ScatterElements": ("indices:scatter_elements",),
    "ScatterSlices": ("indices:scatter_slices",),
    "TopK": ("computed:top_k",),
    "PairCoupling": ("classical:pair_coupling",),
    "PairVotes": ("classical:pair_votes",),
    "SupportVectors": ("classical:support_vectors",),
    "TreeEnsemble": ("classical:tree_ensemble",),
    "Generated": ("custom:generated",),
    "Fused": (),  # `candidates` makes its kernel of those of its layers
    "Reshape": (),  # needs no code
}
_REALS: Final[Makers] = {  # before those of `KERNELS`, where the result is of real numbers
    "Conv2D": ("floats.convolution:convolution",),
    "DepthwiseConv2D": ("floats.convolution:depthwise",),
    "FullyConnected": ("floats.convolution:dense",),
    "Pool2D": ("floats.pooling:pool_2d",),
    "Softmax": ("floats.rows:softmax",),
}
_COMPACT: Final[Makers] = {
    "Conv2D": ("compact:compact",),
    "DepthwiseConv2D": ("compact:compact",),
    "FullyConnected": ("compact:compact",),
}


def maker_at(place: str) -> Maker:
    """Import the maker of a row."""
    maker: Maker = imported(f"compiler.kernels.{place}")
    return maker


def subject_of(graph: Graph, operator: Operator) -> tuple[Any, ...]:
    """Arguments of the makers of an operator's kernels: a `Contraction` of layers with weights, else both."""
    if not isinstance(operator, Layer):
        return graph, operator
    from mlf_sdk.compiler.kernels.contraction import Contraction

    return (Contraction.of(graph, operator),)


def _made(subject: tuple[Any, ...], places: Iterable[str]) -> Iterator[Kernel]:
    """Kernels of those makers that have one."""
    yield from (kernel for place in places if (kernel := maker_at(place)(*subject)) is not None)


def by_rows(graph: Graph, choice: Choice) -> Graph:
    """The improved graph for frames of its input, or with those layers fused that hand rows on to each other.

    Raises:
        InputError: the input is to come in frames or by rows, and can't.
    """
    if choice.frames and choice.stream:
        raise InputError("an input comes in frames or by rows", where="--frames", hint="Leave out --stream.")
    if choice.caller_inputs and (choice.frames or choice.stream):
        raise InputError(
            "an input that comes in frames or by rows is copied to the model's own memory",
            where="--caller-inputs",
            hint=f"Leave out --{'frames' if choice.frames else 'stream'} or --caller-inputs.",
        )
    if choice.frames:
        from mlf_sdk.compiler.rows.frames import by_frames

        return by_frames(graph)
    if choice.goal is not Goal.RAM and not choice.stream:
        return graph
    from mlf_sdk.compiler.rows.choose import least_ram
    from mlf_sdk.compiler.rows.memory import InputMode
    from mlf_sdk.compiler.rows.streamed import streamed

    def kernels(part: Graph, one: Operator) -> Iterator[Kernel]:
        return candidates(part, one, choice)

    return (
        streamed(graph, kernels, least=choice.goal is Goal.RAM)
        if choice.stream
        else least_ram(graph, kernels, InputMode.of(caller_inputs=choice.caller_inputs))
    )


def candidates(graph: Graph, operator: Operator, choice: Choice) -> Iterator[Kernel]:
    """Kernels that can compute an operator, the preferred one first; none for one that needs no code.

    Those for the first instruction set of the core stand before those for all. For size there is no
    preference: `mlf_sdk.compiler.smallest` chooses for all of a graph.
    """
    if isinstance(operator, Fused):
        from mlf_sdk.compiler.rows.kernel import region_kernel

        kernel = region_kernel(graph, operator, lambda part, one: candidates(part, one, choice))
        yield from (kernel,) if kernel is not None else ()
        return
    subject = subject_of(graph, operator)
    kernels = _made(subject, _places(graph, operator, choice))
    if isinstance(operator, Conv2D) and operator.number in graph.small_tiles:
        usual = next(kernels, None)
        if usual is not None:
            from mlf_sdk.compiler.kernels.convolution import small_tile_first

            yield from small_tile_first(subject[0], usual)
    yield from kernels


def _places(graph: Graph, operator: Operator, choice: Choice) -> tuple[str, ...]:
    kind = type(operator).__name__
    is_real = any(value.dtype.kind == "f" for value in graph.written(operator))
    reals = _REALS.get(kind, ()) if is_real else ()
    preferred = instruction_set(choice.core.instruction_sets[0]).kernels.of(choice.goal.value)
    compact = _COMPACT.get(kind, ()) if choice.goal is Goal.SIZE else ()
    return (*preferred.get(kind, ()), *reals, *KERNELS[kind], *compact)


def alternatives(graph: Graph, operator: Operator, choice: Choice) -> tuple[Kernel, ...]:
    """Kernels of an operator that differ, the first of `candidates` first: those that are counted.

    Those of other cores are among them, and tiles of other sizes, where their constants are not much larger.
    """
    if isinstance(operator, Fused):
        return tuple(candidates(graph, operator, choice))
    kind, subject = type(operator).__name__, subject_of(graph, operator)
    usual = tuple(_made(subject, _places(graph, operator, choice)))
    if not usual:
        return usual
    variants = [usual[0]]
    variants += [dataclasses.replace(k, variant=f"choice {n}") for n, k in enumerate(usual[1:-1], 2)]
    if len(usual) > 1:
        variants.append(dataclasses.replace(usual[-1], variant="general"))
    for name in instruction_set_names():
        kernels = instruction_set(name).kernels
        is_own = name in choice.core.instruction_sets
        if kernels.any_core or is_own:
            tables = kernels.tables if is_own else (kernels.all,)  # of a goal: for its cores
            places = dict.fromkeys(p for table in tables for p in table.get(kind, ()))
            for number, kernel in enumerate(_made(subject, places), 1):
                variant = f"for {name}" if number == 1 else f"for {name}, choice {number}"
                variants.append(dataclasses.replace(kernel, variant=variant))
    if isinstance(operator, Conv2D) and "dsp" in choice.core.instruction_sets:
        from mlf_sdk.compiler.kernels.conv_1ch_int8 import MAX_PIXELS
        from mlf_sdk.compiler.kernels.convolution import tiled

        for pixels in range(1, MAX_PIXELS + 1):
            tiles = tiled(subject[0], pixels)
            if tiles is not None:
                variants.append(dataclasses.replace(tiles, variant=f"tiles of {pixels}"))
    most = max(usual[0].constants_bytes * _GROWTH, _SMALL)
    different = {usual[0].content: usual[0]}
    for kernel in variants:
        if kernel.constants_bytes <= most or choice.goal in (Goal.SPEED, Goal.INSTRUCTIONS):
            different.setdefault(kernel.content, kernel)
    return tuple(different.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A kernel of an operator, and the cost of one call.

    Attributes:
        cost: in the unit of the measurement; None: it was not measured.
    """

    kernel: Kernel
    cost: int | None = None


TuningTask = tuple[Operator, tuple[Kernel, ...]]
"""An operator and its kernels, the preferred one first."""

Tuner = Callable[[Graph, list[TuningTask]], list[tuple[Counted, ...]]]
"""Answers each task with those of its kernels whose outputs are right, the best one first."""


def kernels_of(
    graph: Graph, choice: Choice, tuner: Tuner | None, *, others: bool = True
) -> list[tuple[Counted, ...]]:
    """Kernels of each operator of an improved graph, the chosen one first; none where no code is needed.

    For size nothing is measured: the bytes of kernels decide.

    Args:
        others: False: without those that a rule did not choose, which takes less time.
    """
    if tuner is None or choice.goal is Goal.SIZE:
        most = None if others or choice.goal is Goal.SIZE else 1
        result = [tuple(islice(candidates(graph, o, choice), most)) for o in graph.operators]
        if choice.goal is Goal.SIZE:
            from mlf_sdk.compiler.smallest import smallest_first

            result = smallest_first(result, choice.core)
        return [tuple(Counted(kernel=kernel) for kernel in kernels) for kernels in result]
    asked = [(operator, alternatives(graph, operator, choice)) for operator in graph.operators]
    tasks = [task for task in asked if needs_tuning(task[1])]
    answers = iter(tuner(graph, tasks))
    return [
        next(answers) if needs_tuning(kernels) else tuple(Counted(kernel=kernel) for kernel in kernels)
        for _, kernels in asked
    ]


def needs_tuning(kernels: tuple[Kernel, ...]) -> bool:
    """Return whether there is something to choose: several kernels, none of which keeps state."""
    return len(kernels) > 1 and not any(p.role is Role.STATE for k in kernels for p in k.parameters)
