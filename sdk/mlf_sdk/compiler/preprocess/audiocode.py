# SPDX-License-Identifier: Apache-2.0
"""C of the preprocessing of sound: the compiler's kernels of a window's operators, and the loop over windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from mlf_sdk.compiler.emit import Code, emit
from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.kernel import C_TYPES, Kernel, Parameter, Role, c_type
from mlf_sdk.compiler.operators import Array, Operator
from mlf_sdk.compiler.preprocess.audioplan import COSINE_BITS, AudioPlan
from mlf_sdk.compiler.preprocess.imagecode import array_text
from mlf_sdk.compiler.schedule import Choice, candidates
from mlf_sdk.tools.ctext import c_float

_SHARED: Final = ("even", "odd")  # memory of the values that every second operator writes


def audio_kernels(name: str, plan: AudioPlan) -> tuple[Code, list[Kernel]]:
    """Functions of all operators of a window, in their order; their names begin with ``NAME_preprocess``."""
    kernels = [next(candidates(plan.graph, operator, Choice())) for operator in plan.graph.operators]
    return emit(f"{name}_preprocess", kernels), kernels


def audio_header(name: str, plan: AudioPlan) -> str:
    """Declarations: sizes, and the functions."""
    macro, stored = name.upper(), C_TYPES[plan.dtype]
    reset = f"""
/* Forget the estimate of the noise: before the first window of a stream. */
void {name}_preprocess_reset(void);
"""
    return f"""#define {macro}_AUDIO_SAMPLES {plan.samples}u /* of an inference */
#define {macro}_AUDIO_WINDOW {plan.window}u
#define {macro}_AUDIO_STRIDE {plan.stride}u
#define {macro}_AUDIO_FEATURES {plan.features}u /* of a window */

/* Write the model's input from the samples of an inference: {plan.title}. */
void {name}_preprocess(const int16_t *samples, {stored} *input);

/* The features of one window, for a stream whose latest windows are kept. Both functions use the same memory. */
void {name}_preprocess_window(const int16_t *samples, {stored} *features);
{reset if plan.graph.states else ""}"""


def audio_source(name: str, plan: AudioPlan, code: Code, kernels: Sequence[Kernel]) -> str:
    """Tables, memory and functions."""
    graph, stored, places = plan.graph, C_TYPES[plan.dtype], _places(plan.graph, kernels)
    constants, calls = [], []
    for number, (operator, kernel, symbol) in enumerate(
        zip(graph.operators, kernels, code.symbols, strict=True)
    ):
        constants += [_array(f"table_{number}_{k}", data) for k, data in enumerate(kernel.constants)]
        arguments = [_argument(operator, number, places, parameter) for parameter in kernel.parameters]
        calls.append(f"    {symbol}({', '.join(arguments)});\n")
    if plan.cosines is not None:
        constants.append(_array("cosines", plan.cosines))
    states = [f"{s.name}_{k}" for k, s in enumerate(graph.states)]
    memory = [_memory(graph, places)]
    memory += [
        f"static {c_type(s.dtype)} {name}[{s.initial.size}];\n"
        for name, s in zip(states, graph.states, strict=True)
    ]
    reset = "".join(f"    memset({name}, 0, sizeof {name});\n" for name in states)
    parts = [
        f'#include "{code.header_name}"\n',
        *constants,
        "".join(memory),
        f"void {name}_preprocess_window(const int16_t *samples, {stored} *features)\n{{\n"
        f"{''.join(calls)}{_features(plan, places[graph.outputs[0]])}}}\n",
    ]
    if graph.states:
        parts.append(f"void {name}_preprocess_reset(void)\n{{\n{reset}}}\n")
    parts.append(
        f"""void {name}_preprocess(const int16_t *samples, {stored} *input)
{{
{f"    {name}_preprocess_reset();" + chr(10) if graph.states else ""}    for (int32_t window = 0; window < {plan.windows}; ++window)
        {name}_preprocess_window(samples + window * {plan.stride}, input + window * {plan.features});
}}
"""
    )
    return "\n".join(parts)


def _places(graph: Graph, kernels: Sequence[Kernel]) -> dict[int, str]:
    """Expression for each value; one that only the next operator reads shares memory with every second other."""
    result = {graph.inputs[0]: "samples"}
    for number, (operator, kernel) in enumerate(zip(graph.operators, kernels, strict=True)):
        for position, value in enumerate(operator.outputs):
            readers = [k for k, other in enumerate(graph.operators) if value in other.inputs]
            shares = position == 0 and readers in ([number + 1], [])
            name = f"{kernel.family}_{position}"
            result[value] = f"{_SHARED[number % 2]}.{name}" if shares else name
    return result


def _memory(graph: Graph, places: Mapping[int, str]) -> str:
    """Definitions of the memory of all values but the samples."""
    shared: dict[str, list[str]] = {name: [] for name in _SHARED}
    own = []
    for value, place in places.items():
        union, dot, name = place.rpartition(".")
        declared = f"{c_type(graph.values[value].dtype)} {name}[{graph.values[value].elements}];\n"
        if dot:
            shared[union].append(f"    {declared}")
        elif value not in graph.inputs:
            own.append(f"static {declared}")
    return "".join(
        [*(f"static union {{\n{''.join(lines)}}} {name};\n" for name, lines in shared.items()), *own]
    )


def _argument(operator: Operator, number: int, places: Mapping[int, str], parameter: Parameter) -> str:
    if parameter.role is Role.CONSTANT:
        return f"table_{number}_{parameter.number}"
    if parameter.role is Role.STATE:
        return f"noise_{operator.states[parameter.number]}"
    if parameter.role is Role.INPUT:
        return places[operator.inputs[parameter.number]]
    if parameter.role is Role.OUTPUT:
        return places[operator.outputs[parameter.number]]
    raise ValueError(f"{operator.kind}: a kernel with a workspace")


def _features(plan: AudioPlan, logs: str) -> str:
    """Loop from the logarithms of the channels to stored values."""
    stored = C_TYPES[plan.dtype]
    if plan.cosines is None:
        feature = f"        const int32_t feature = {logs}[i];\n"
    else:
        channels = plan.cosines.shape[1]
        feature = f"""        int32_t feature = 0; /* times 2 to the power of {COSINE_BITS} */
        for (int32_t c = 0; c < {channels}; ++c)
            feature += cosines[i * {channels} + c] * {logs}[c];
"""
    if plan.limits is None:
        value = f"        features[i] = (float)feature * {c_float(plan.unit)};\n"
    else:
        least, most = plan.limits
        value = f"""        int64_t value = ((int64_t)feature * {plan.multiplier} + INT64_C({1 << (plan.shift - 1)})) >> {plan.shift};
        value += {plan.zero_point};
        features[i] = ({stored})(value < {least} ? {least} : value > {most} ? {most} : value);
"""
    return f"    for (int32_t i = 0; i < {plan.features}; ++i) {{\n{feature}{value}    }}\n"


def _array(name: str, data: Array) -> str:
    values = np.asarray(data).reshape(-1).tolist()
    return array_text(f"{c_type(data.dtype)} {name}[{len(values)}]", map(str, values))
