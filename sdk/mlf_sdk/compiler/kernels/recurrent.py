# SPDX-License-Identifier: Apache-2.0
"""Kernel of SVDF: the delay line of each filter moves by one, takes a new entry and is summed up; and of the LSTM of stored values.

The four gates of a unit of that lie side by side, hidden and cell value are in states.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.assembly import DSP, INCLUDE_ACLE
from mlf_sdk.compiler.kernels.kernel import Kernel, c_type
from mlf_sdk.compiler.kernels.scaling import RESCALE_INT64, SCALING, WIDE_FUNCTIONS, saturated, scaled
from mlf_sdk.compiler.kernels.vector_matrix import FOUR_ROWS_WIDE, SUMS, four_rows, pack, pairs_of
from mlf_sdk.compiler.recurrences import Lstm, Svdf
from mlf_sdk.compiler.reference.recurrent import LstmNumbers, lstm_numbers
from mlf_sdk.compiler.reference.stored import sigmoid_table
from mlf_sdk.compiler.requantise import Multiplier

_GROUP: Final = 4  # filters

# A line and its sum, by the type of both; lines of int16 with an even number of entries two at a time.
_ADVANCE: Final = """static inline int32_t advance_{name}({kind} *line, const {times} *k, int32_t size, int32_t entry, int32_t sum)
{{
{fast}    uint32_t total = (uint32_t)sum;
    for (; size > 1; --size, ++line, ++k) {{
        line[0] = line[1];
        total += (uint32_t)(line[0] * k[0]);
    }}
    line[0] = ({kind})entry;
    return (int32_t)(total + (uint32_t)(line[0] * k[0]));
}}
"""
_PAIRS: Final = f"""#if {DSP}
    uint32_t old, next, times;
    memcpy(&old, line, 4);
    for (; size > 2; size -= 2, line += 2, k += 2) {{
        memcpy(&next, line + 2, 4);
        memcpy(&times, k, 4);
        old = old >> 16 | next << 16;
        memcpy(line, &old, 4);
        sum = __smlad((int32_t)old, (int32_t)times, sum);
        old = next;
    }}
    memcpy(&times, k, 4);
    old = old >> 16 | (uint32_t)entry << 16;
    memcpy(line, &old, 4);
    return __smlad((int32_t)old, (int32_t)times, sum);
#endif
"""


def svdf(graph: Graph, operator: Svdf) -> Kernel:
    """SVDF."""
    (x, features, times, *bias), (y,) = graph.read(operator), graph.written(operator)
    state = graph.states[operator.state]
    filters, memory = times.shape
    batches = x.shape[0]
    size = x.elements // batches
    units = filters // operator.rank
    entry = Multiplier.of(x.scale * features.scale / state.scale)
    result = Multiplier.of(state.scale * times.scale / y.scale)
    kind = c_type(state.dtype)
    info = np.iinfo(state.dtype)
    rows = np.pad(features.constant, ((0, -filters % _GROUP), (0, 0)))
    packed = np.ascontiguousarray(pack([rows[i::_GROUP] for i in range(_GROUP)]))
    constants = [packed.view(np.int32).reshape(-1), times.constant.reshape(-1)]
    if bias and bias[0].data is not None:
        constants.append(bias[0].data.reshape(-1).astype(np.int32))
    start = f"p2[g / {operator.rank}]" if len(constants) == 3 else "0"
    pairs = pairs_of(size)
    advance, text = _advance(kind, c_type(times.dtype), memory)
    body = f"""    int16_t *given = (int16_t *)b0;
    int32_t *sums = b0 + {pairs};
    memset(given, 0, {4 * pairs});
    for (int32_t b = 0; b < {batches}; ++b) {{
        const int32_t *w = p0;
        {kind} *line = s0 + b * {filters * memory};
        int32_t total = 0;
        for (int32_t i = 0; i < {size}; ++i) {{
            given[i] = (int16_t)(x0[b * {size} + i] - ({x.zero_point}));
        }}
        for (int32_t f = 0; f < {filters}; f += {_GROUP}, w += {2 * pairs}) {{
            memset(sums, 0, {4 * SUMS});
            four_rows(b0, w, sums);
            for (int32_t g = f; g < f + {_GROUP} && g < {filters}; ++g, line += {memory}) {{
                int32_t entry = saturate({scaled("sums[g - f]", entry)} + ({state.zero_point}), {int(info.min)}, {int(info.max)});
                if (g % {operator.rank} == 0) {{
                    total = {start};
                }}
                total = {advance}(line, p1 + g * {memory}, {memory}, entry, total);
                if (g % {operator.rank} == {operator.rank - 1}) {{
                    y0[b * {units} + g / {operator.rank}] = ({c_type(y.dtype)}){saturated(scaled("total", result), y, operator.clamp)};
                }}
            }}
        }}
    }}
"""
    return Kernel.of(
        graph,
        operator,
        "svdf",
        body,
        tuple(constants),
        reads=1,
        helpers={**SCALING, **four_rows(), advance: text},
        workspace_bytes=4 * (pairs + SUMS),
        overlaps={0: 0} if batches == 1 else {},  # all of the input is read first
    )


def _advance(kind: str, times: str, entries: int) -> tuple[str, str]:
    """Function ``(line, weights, entries, new entry, sum)``, which gives the sum; its name and text."""
    even = kind == times == "int16_t" and entries % 2 == 0
    name = f"{kind.removesuffix('_t')}_{times.removesuffix('_t')}{'_even' if even else ''}"
    text = _ADVANCE.format(name=name, kind=kind, times=times, fast=_PAIRS if even else "")
    return f"advance_{name}", (INCLUDE_ACLE if even else "") + text


def lstm(graph: Graph, operator: Lstm) -> Kernel:
    """LSTM of stored values."""
    batches, steps, inputs, units = _shape(graph, operator)
    x, *others = graph.read(operator)
    state, memory = graph.states[operator.hidden], graph.states[operator.cell]
    numbers = lstm_numbers(x, others[:8], state, memory, operator.cell_clip)
    wide = x.dtype == np.int16
    weights = [w.constant for w in others[:8]]
    packed = np.concatenate([pack(weights[:4]), pack(weights[4:])], axis=1)
    starts = np.zeros((units, 8), np.int64)
    for g in range(4):
        starts[:, g] = others[8 + g].constant - x.zero_point * weights[g].astype(np.int64).sum(axis=1)
        starts[:, 4 + g] = -state.zero_point * weights[4 + g].astype(np.int64).sum(axis=1)
    table = sigmoid_table()
    constants = (
        np.ascontiguousarray(packed).view(np.int32).reshape(-1),
        starts.reshape(-1) if wide else starts.astype(np.uint32).view(np.int32).reshape(-1),
        table,
    )
    scale = "scale_wide" if wide else "scale_sum"
    pairs = (pairs_of(inputs), pairs_of(units))
    size = sum(pairs) + 2 * SUMS
    body = f"""    int16_t *given = (int16_t *)b0;
    int16_t *before = given + {2 * (pairs[0] + SUMS)};
    memset(b0, 0, {4 * size});
    for (int32_t b = 0; b < {batches}; ++b)
    for (int32_t t = 0; t < {steps}; ++t) {{
        const {c_type(x.dtype)} *v = x0 + {_place(operator, batches, steps, inputs)};
        {c_type(x.dtype)} *y = y0 + {_place(operator, batches, steps, units)};
        {c_type(x.dtype)} *h = s0 + b * {units};
        int16_t *s = s1 + b * {units};
        const int32_t *w = p0;
        for (int32_t i = 0; i < {inputs}; ++i) {{
            given[i] = v[i];
        }}
        for (int32_t u = 0; u < {units}; ++u) {{
            before[u] = h[u];
        }}
        for (int32_t u = 0; u < {units}; ++u) {{
{_products(pairs, wide=wide)}            w += {2 * sum(pairs)};
{_cell(numbers, state.zero_point, scale, np.iinfo(state.dtype))}
            h[u] = y[u] = ({c_type(x.dtype)})shown;
        }}
    }}
"""
    return Kernel.of(
        graph,
        operator,
        "lstm",
        body,
        constants,
        reads=1,
        helpers={
            **SCALING,
            **({"scale_wide": RESCALE_INT64} if wide else {}),
            "wide_functions": WIDE_FUNCTIONS,
            **({"four_rows_wide": FOUR_ROWS_WIDE} if wide else four_rows()),
        },
        workspace_bytes=4 * size,
    )


def _shape(graph: Graph, operator: Lstm) -> tuple[int, int, int, int]:
    """Batches, steps, inputs and units."""
    x, weights = graph.read(operator)[:2]
    first, second, inputs = x.shape
    batches, steps = (second, first) if operator.time_major else (first, second)
    return batches, steps, inputs, weights.shape[0]


def _products(pairs: tuple[int, int], *, wide: bool) -> str:
    """Statements for ``fed`` and ``back``: sums of the input's and of the output's products for four gates."""
    if wide:
        return f"""            const int64_t *start = p1 + 8 * u;
            int64_t fed[4] = {{start[0], start[1], start[2], start[3]}};
            int64_t back[4] = {{start[4], start[5], start[6], start[7]}};
            four_rows_wide(given, w, {pairs[0]}, fed);
            four_rows_wide(before, w + {2 * pairs[0]}, {pairs[1]}, back);
"""
    second = pairs[0] + SUMS
    return f"""            int32_t *fed = b0 + {pairs[0]};
            int32_t *back = b0 + {second + pairs[1]};
            memcpy(fed, p1 + 8 * u, {4 * SUMS});
            memcpy(back, p1 + 8 * u + {SUMS}, {4 * SUMS});
            four_rows(b0, w, fed);
            four_rows(b0 + {second}, w + {2 * pairs[0]}, back);
"""


def _place(operator: Lstm, batches: int, steps: int, size: int) -> str:
    return f"(t * {batches} + b) * {size}" if operator.time_major else f"(b * {steps} + t) * {size}"


def _cell(numbers: LstmNumbers, zero: int, scale: str, limits: np.iinfo) -> str:
    """Statements from the sums of the gates to the cell value and ``shown``."""

    def gate(g: int) -> str:
        first, second = numbers.inputs[g], numbers.recurrent[g]
        fed = _sixteen(f"{scale}(fed[{g}], {first.value}, {first.shift})")
        back = _sixteen(f"{scale}(back[{g}], {second.value}, {second.shift})")
        return f"wide_{'tanh' if g == 2 else 'logistic'}({_sixteen(f'{fed} + {back}')} * 3, p2)"

    by, shift = numbers.tanh
    argument = f"((kept * {by} + {(1 << shift) // 2}) >> {shift})" if by else f"kept * {3 << shift}"
    clip = f"kept = saturate(kept, -{numbers.clip}, {numbers.clip});" if numbers.clip else ""
    lines = [
        f"int32_t entered = {gate(0)}, forgotten = {gate(1)};",
        f"int32_t candidate = {gate(2)}, visible = {gate(3)};",
        f"int32_t kept = {_sixteen(scaled('forgotten * s[u]', numbers.kept))};",
        f"kept = {_sixteen('kept + ' + _sixteen(scaled('entered * candidate', numbers.added)))};",
        *([clip] if clip else []),
        "s[u] = (int16_t)kept;",
        f"int32_t shown = {scaled(f'visible * wide_tanh({argument}, p2)', numbers.shown)} + ({zero});",
        f"shown = saturate(shown, {int(limits.min)}, {int(limits.max)});",
    ]
    return "\n".join(" " * 12 + line for line in lines)


def _sixteen(value: str) -> str:
    return f"saturate({value}, -32768, 32767)"
