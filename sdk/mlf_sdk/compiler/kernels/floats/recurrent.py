# SPDX-License-Identifier: Apache-2.0
"""Kernels of recurrent layers: the products of one step by panels, the gates behind them."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.floats.functions import helpers_of, text_of
from mlf_sdk.compiler.kernels.floats.panel import Panels
from mlf_sdk.compiler.kernels.kernel import Kernel, Parameter, Role
from mlf_sdk.compiler.operators import Call
from mlf_sdk.compiler.recurrences import Cell, Recurrent
from mlf_sdk.tools.ctext import c_real


def recurrent(graph: Graph, operator: Recurrent) -> Kernel:
    """LSTM, GRU and RNN over a whole sequence; states are kept in the outputs."""
    gates, weights, bias = graph.read(operator)[:3]
    steps, batch, width = gates.shape
    hidden = weights.shape[1]
    early = operator.cell is Cell.GRU and not operator.reset_after
    split = 2 * hidden if early else width
    panels = Panels.of(split, pixels=1, lines=1, run=hidden)
    last = Panels.of(hidden, pixels=1, lines=1, run=hidden)
    rows, biases = weights.constant, bias.constant.reshape(-1)
    stream = [panels.pack(rows[:split], biases[:split])]
    if early:
        stream.append(last.pack(rows[split:], biases[split:]))
    constants = (np.concatenate(stream),)
    work = _STEPS[operator.cell](operator, hidden, last if early else None)
    product = panels.calls("w", "h", "", "b0", skip="0", next_row="0", indent="            ")
    cell = operator.cell is Cell.LSTM
    start = f"    memcpy(y1, x3, {4 * batch * hidden});\n" + (
        f"    memcpy(y2, x4, {4 * batch * hidden});\n" if cell else ""
    )
    at = f"{steps - 1} - t" if operator.reverse else "t"
    body = f"""{start}    for (int32_t t = 0; t < {steps}; ++t) {{
        for (int32_t b = 0; b < {batch}; ++b) {{
            const float *w = p0;
            const float *g = x0 + (({at}) * {batch} + b) * {width};
            float *h = y1 + b * {hidden};
            float *y = y0 + (({at}) * {batch} + b) * {hidden};
{f"            float *s = y2 + b * {hidden};" if cell else ""}
{product}
            (void)w;
{work}
            memcpy(h, y, {4 * hidden});
        }}
    }}
"""
    reads = [Parameter(Role.INPUT, i, "float") for i in ((0, 3, 4) if cell else (0, 3))]
    outputs = [Parameter(Role.OUTPUT, i, "float") for i in range(3 if cell else 2)]
    extra = hidden if early else 0
    return Kernel(
        family=operator.cell.value,
        parameters=(
            *reads, Parameter(Role.CONSTANT, 0, "float"), *outputs, Parameter(Role.WORKSPACE, 0, "float"),
        ),
        body=body,
        helpers={**panels.helpers, **(last.helpers if early else {}), **helpers_of(body)},
        constants=constants,
        workspace_bytes=4 * (width + extra),
    )  # fmt: skip


def _call(function: str, value: str) -> str:
    """C expression of an activation."""
    return text_of(Call.of(function), [value], real=True)


def _lstm(operator: Recurrent, n: int, _: Panels | None) -> str:
    f, g, h = operator.activations
    limit = c_real(operator.cell_clip)
    clip = f"\n                s[i] = fminf(fmaxf(s[i], -{limit}), {limit});" if operator.cell_clip else ""
    return f"""            for (int32_t i = 0; i < {n}; ++i) {{
                float in = {_call(f, "g[i] + b0[i]")};
                float out = {_call(f, f"g[{n} + i] + b0[{n} + i]")};
                float forget = {_call(f, f"g[{2 * n} + i] + b0[{2 * n} + i]")};
                float candidate = {_call(g, f"g[{3 * n} + i] + b0[{3 * n} + i]")};
                s[i] = forget * s[i] + in * candidate;{clip}
                y[i] = out * {_call(h, "s[i]")};
            }}"""


def _gru(operator: Recurrent, n: int, last: Panels | None) -> str:
    f, g = operator.activations
    if last is None:
        return f"""            for (int32_t i = 0; i < {n}; ++i) {{
                float update = {_call(f, "g[i] + b0[i]")};
                float reset = {_call(f, f"g[{n} + i] + b0[{n} + i]")};
                float candidate = {_call(g, f"g[{2 * n} + i] + reset * b0[{2 * n} + i]")};
                y[i] = candidate + update * (h[i] - candidate);
            }}"""
    calls = last.calls(
        "w", f"b0 + {3 * n}", "", f"b0 + {2 * n}", skip="0", next_row="0", indent="            "
    )
    return f"""            for (int32_t i = 0; i < {n}; ++i) {{
                b0[i] = {_call(f, "g[i] + b0[i]")};
                b0[{3 * n} + i] = h[i] * {_call(f, f"g[{n} + i] + b0[{n} + i]")};
            }}
{calls}
            (void)w;
            for (int32_t i = 0; i < {n}; ++i) {{
                float candidate = {_call(g, f"g[{2 * n} + i] + b0[{2 * n} + i]")};
                y[i] = candidate + b0[i] * (h[i] - candidate);
            }}"""


def _rnn(operator: Recurrent, n: int, _: Panels | None) -> str:
    return f"""            for (int32_t i = 0; i < {n}; ++i) {{
                y[i] = {_call(operator.activations[0], "g[i] + b0[i]")};
            }}"""


_STEPS = {Cell.LSTM: _lstm, Cell.GRU: _gru, Cell.RNN: _rnn}
