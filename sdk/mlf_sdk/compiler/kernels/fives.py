# SPDX-License-Identifier: Apache-2.0
"""Fully connected layers of one scale, five outputs at a time, for the fewest cycles of a Cortex-M4.

Loads that stand side by side take one cycle each and one for all; a load of several registers takes that one
cycle as well. Five sums leave as many registers as four inputs and the weights of five outputs take, so that
all of them come side by side, from two places. What is left of the outputs is computed four at a time.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.assembly import MAX_OFFSET, finish, function, unrolling
from mlf_sdk.compiler.kernels.convolution import biases_of, quads_of
from mlf_sdk.compiler.kernels.dense import (
    groups_of,
    layer_head,
    layer_rescale,
    rows_of_layer,
    sum_of_row,
    widening,
)
from mlf_sdk.compiler.kernels.kernel import Kernel, arguments
from mlf_sdk.compiler.kernels.rescale import Form, Rescale
from mlf_sdk.compiler.kernels.scaling import expression, helpers
from mlf_sdk.compiler.operators import FullyConnected
from mlf_sdk.compiler.scales import dense_multipliers

_OUTPUTS: Final = 5
_WHOLE: Final = 32  # most quads of inputs without a loop
_LOOP: Final = 16  # most quads of a loop
_FEWEST: Final = 4  # groups of a layer that gains by code of its own
_SHIFT: Final = 9  # of most layers, so that they share instructions
_SUMS: Final = ("r2", "r3", "r4", "r5", "r6")


def dense(graph: Graph, operator: FullyConnected) -> Kernel | None:
    """FULLY_CONNECTED of one row and one scale; None for a layer that this does not fit."""
    x, weights = graph.read(operator)[:2]
    (y,) = graph.written(operator)
    if (
        x.dtype != np.int8
        or weights.dtype != np.int8
        or weights.data is None
        or x.elements != weights.shape[1]
    ):
        return None
    outputs, inputs = weights.shape
    quads = -(-inputs // 4)
    count = quads if quads <= _WHOLE else unrolling(quads, _LOOP)
    fives = max((n for n in range(1, outputs // 5 + 1) if (outputs - 5 * n) % 4 == 0), default=0)
    if fives < _FEWEST or count < min(quads, 4) or outputs > MAX_OFFSET:
        return None
    multipliers = dense_multipliers(x, weights, y, outputs)
    bias = graph.bias(operator)
    layer = weights.data, bias, x, y, multipliers, operator.clamp
    rescale = layer_rescale(*layer, _SHIFT)
    if rescale is None or rescale.form is not Form.FINE:
        rescale = layer_rescale(*layer)
    if rescale is None:
        return None
    rows = np.pad(weights.data, ((0, 0), (0, 4 * quads - inputs)))
    words, biases = quads_of(rows, rescale), biases_of(rows, bias, x.zero_point, rescale)
    name, texts = _fives(quads, count, rescale)
    body, more = widening_by_eights(inputs)
    body += f"    {name}(b0, p0, y0);\n"
    first = _OUTPUTS * fives
    head = layer_head(quads, first, rescale)
    stream = [np.delete(head, 3), groups_of(words[:first], biases[:first], _OUTPUTS).reshape(-1)]
    if first < outputs:
        rest, others = rows_of_layer(quads, outputs - first, rescale, unroll=16 if quads > 16 else 8)
        texts |= others
        body += f"    {rest}(b0, p0 + {sum(map(len, stream))}, y0 + {first});\n"
        fours = groups_of(words[first:], biases[first:], 4).reshape(-1)
        stream += [layer_head(quads, outputs - first, rescale), fours]
    constants = (np.ascontiguousarray(np.concatenate(stream)),)
    return Kernel(
        family="dense_fives",
        parameters=arguments(graph, operator, reads=1, constants=constants, workspace="int32_t"),
        body=body,
        helpers={**texts, **more},
        constants=constants,
        workspace_bytes=8 * quads,
        overlaps={0: 0},  # all of the input is read first
    )


def _fives(quads: int, count: int, rescale: Rescale) -> tuple[str, dict[str, str]]:
    """Function ``(vector, stream, output)`` that layers of many outputs share; its name and texts.

    The stream begins with m, r, what negative sums get, outputs, and bytes of the vector.

    Args:
        count: quads in a row.
    """
    low, high = rescale.clamp
    whole = count == quads
    name = f"fives_{count}{'' if whole else '_of_many'}_{rescale.form.value}{rescale.shift}_{low & 255}_{high & 255}"
    signed = rescale.form is Form.SIGNED
    mask, y, end = ("r9", "r10", "r11") if signed else ("", "r9", "r10")
    place = 16 if signed else 12  # of the output on the stack, behind the vector, m, r and the mask
    lines = ["push {r4-r11, lr}", "sub sp, sp, #32", "ldmia r1!, {r4, r5, r6, r7, r8}"]
    lines += ["add r9, r0, r8", "str r9, [sp, #24]", "add r8, r7, r2", "mov r7, r2"]
    lines += ["stm sp, {r0, r4, r5, r6, r7, r8}"] if signed else ["stm sp, {r0, r4, r5, r7, r8}"]
    lines += ["1:", f"ldmia r1!, {{{', '.join(_SUMS)}}}", "2:"]
    weights = ("r7", "r8", "r9", "r10", "r11")
    for _ in range(count):
        lines += [f"ldr {w}, [r1], #4" for w in weights]
        lines += ["ldr r12, [r0], #4", "ldr lr, [r0], #4"]
        for a, w in zip(_SUMS, weights, strict=True):
            lines += [f"smlad {a}, lr, {w}, {a}", f"sxtb16 {w}, {w}", f"smlad {a}, r12, {w}, {a}"]
    if not whole:
        lines += ["ldr lr, [sp, #24]", "cmp r0, lr", "bne.w 2b"]
    lines.append(f"ldm sp, {{r0, r7, r8, {mask + ', ' if signed else ''}{y}, {end}}}")
    for a in _SUMS:
        lines += [*finish([a], rescale, ("r7", "r8", mask)), f"strb {a}, [{y}], #1"]
    lines += [
        f"str {y}, [sp, #{place}]",
        f"cmp {y}, {end}",
        "bne.w 1b",
        "add sp, sp, #32",
        "pop {r4-r11, pc}",
    ]
    plain = f"""    const int32_t *head = w;
    int32_t quads = head[4] / 8;
    w += 5;
    for (int32_t c = 0; c < head[3]; c += {_OUTPUTS}, w += {_OUTPUTS} + {_OUTPUTS} * quads) {{
        for (int32_t i = 0; i < {_OUTPUTS}; ++i) {{
{sum_of_row(rescale, _OUTPUTS, "quads")}            y[c + i] = (int8_t){expression(rescale, "(int32_t)sum", "head")};
        }}
    }}
"""
    parameters = "const int32_t *b, const int32_t *w, int8_t *y"
    return name, {**helpers(rescale.form), name: function(name, parameters, lines, plain)}


def widening_by_eights(inputs: int) -> tuple[str, dict[str, str]]:
    """Statements that widen ``x0`` to ``b0``, and their functions: eight quads in a row where that is possible."""
    if inputs % 32:
        return widening(inputs, fine=True)
    name = "widen_by_eights"
    values = [f"r{4 + 2 * i}" for i in range(4)]
    odd = [f"r{5 + 2 * i}" for i in range(4)]
    lines = ["push {r4-r11, lr}", "movw r3, #0xff81", "movt r3, #0xff81", "mov lr, #0xff00ff00", "1:"]
    for _ in range(2):
        lines += [f"ldr {v}, [r0], #4" for v in values]
        for v, p in zip(values, odd, strict=True):
            lines += [f"sxtab16 {p}, r3, {v}, ror #8", f"and {v}, lr, {v}, lsl #8", f"ssub16 {v}, {v}, {p}"]
        lines.append("stmia r1!, {r4-r11}")
    lines += ["subs r2, r2, #1", "bne.w 1b", "pop {r4-r11, pc}"]
    plain = """    int16_t *v = (int16_t *)b;
    for (int32_t q = 0; q < 8 * n; ++q, x += 4, v += 4) {
        v[2] = (int16_t)(x[1] - 127);
        v[3] = (int16_t)(x[3] - 127);
        v[0] = (int16_t)(256 * x[0] - v[2]);
        v[1] = (int16_t)(256 * x[2] - v[3]);
    }
"""
    text = function(name, "const int8_t *x, int32_t *b, int32_t n", lines, plain)
    return f"    {name}(x0, b0, {inputs // 32});\n", {name: text}
