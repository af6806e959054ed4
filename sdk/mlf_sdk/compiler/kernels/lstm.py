# SPDX-License-Identifier: Apache-2.0
"""Kernel of the LSTM of stored values: the four gates of a unit side by side, hidden and cell value in states."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.kernel import Kernel, arguments, c_type
from mlf_sdk.compiler.kernels.scaling import RESCALE_INT64, SCALING, WIDE_FUNCTIONS, scaled
from mlf_sdk.compiler.kernels.vector_matrix import FOUR_ROWS_WIDE, SUMS, four_rows, pack, pairs_of
from mlf_sdk.compiler.recurrences import Lstm
from mlf_sdk.compiler.reference.recurrent import LstmNumbers, lstm_numbers
from mlf_sdk.compiler.reference.stored import sigmoid_table


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
    return Kernel(
        family="lstm",
        parameters=arguments(graph, operator, reads=1, constants=constants, workspace="int32_t"),
        body=body,
        helpers={
            **SCALING,
            **({"scale_wide": RESCALE_INT64} if wide else {}),
            "wide_functions": WIDE_FUNCTIONS,
            **({"four_rows_wide": FOUR_ROWS_WIDE} if wide else four_rows()),
        },
        constants=constants,
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
