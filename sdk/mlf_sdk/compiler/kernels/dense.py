# SPDX-License-Identifier: Apache-2.0
"""Fully connected layers of int8 values: four outputs at a time, the input widened once."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.convolution import MAX_OFFSET, biases_of, quads_of, rescale_of
from mlf_sdk.compiler.kernels.gemm import finish, function, label, product, subtract, unrolling, widen
from mlf_sdk.compiler.kernels.kernel import Kernel, arguments
from mlf_sdk.compiler.kernels.rescale import Form, Rescale, expression, helpers
from mlf_sdk.compiler.operators import FullyConnected
from mlf_sdk.compiler.scales import dense_multipliers


def dense(graph: Graph, operator: FullyConnected) -> Kernel | None:
    """FULLY_CONNECTED of one row: four outputs at a time, the input widened once."""
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
    rescale = rescale_of(
        weights.data, graph.bias(operator), x, y, dense_multipliers(x, weights, y, outputs), operator.clamp
    )
    if rescale.form is Form.GENERAL or outputs > MAX_OFFSET:
        return None
    quads, groups = -(-inputs // 4), -(-outputs // 4)
    padded = np.pad(weights.data, ((0, 4 * groups - outputs), (0, 4 * quads - inputs)))
    biases = np.pad(
        biases_of(padded[:outputs], graph.bias(operator), x.zero_point, rescale), (0, 4 * groups - outputs)
    )
    words = quads_of(padded, rescale).reshape(groups, 4, quads).transpose(0, 2, 1).reshape(groups, -1)
    rows = np.pad(rescale.rows, ((0, 4 * groups - outputs), (0, 0)), mode="edge").reshape(groups, -1)
    constants = (
        np.ascontiguousarray(np.concatenate([biases.reshape(groups, 4), words, rows], axis=1).reshape(-1)),
    )
    name, texts = rows_times_vector(quads, outputs, rescale, unroll=8)
    body = ""
    if inputs % 4:
        body = f"""    int32_t last = 0;
    memcpy(&last, x0 + {inputs // 4 * 4}, {inputs % 4});
"""
    if inputs >= 4:
        whole, text = widen(1, 0, 1, inputs // 4, fine=rescale.is_fine)
        texts[whole] = text
        body += f"    {whole}(x0, b0, 0);\n"
    if inputs % 4:
        one, text = widen(1, 0, 1, 1, fine=rescale.is_fine)
        texts[one] = text
        body += f"    {one}((const int8_t *)&last, b0 + {inputs // 4 * 2}, 0);\n"
    body += f"    {name}(b0, p0, y0);\n"
    return Kernel(
        family="dense",
        parameters=arguments(graph, operator, reads=1, constants=constants, workspace="int32_t"),
        body=body,
        helpers=texts,
        constants=constants,
        workspace_bytes=8 * quads,
        overlaps={0: 0},  # all of the input is read first
    )


def rows_times_vector(
    quads: int, outputs: int, rescale: Rescale, *, unroll: int
) -> tuple[str, dict[str, str]]:
    """Function ``(vector, stream, output)`` for one pixel, four outputs at a time; name and texts.

    The stream holds four biases, the words of four rows side by side, and four requantisations.
    """
    name = f"rows_{quads}_{outputs}_{label(rescale)}"
    sums = ["r2", "r3", "r4", "r5"]
    count = unrolling(quads, unroll)
    width = rescale.rows.shape[1]
    lines = [
        "push {r4-r11, lr}",
        "sub sp, sp, #12",
        f"add r3, r2, #{outputs}" if outputs < 256 else f"addw r3, r2, #{outputs}",
    ]
    lines += ["strd r2, r3, [sp]", "1:", "ldmia r1!, {r2, r3, r4, r5}", f"movw lr, #{quads // count}", "2:"]
    for _ in range(count):
        lines += ["ldmia r1!, {r6, r7, r8, r9}", "ldrd r10, r11, [r0], #8"]
        for a, w in zip(sums, ("r6", "r7", "r8", "r9"), strict=True):
            lines += [f"sxtb16 r12, {w}", f"smlad {a}, r10, r12, {a}"]
            if not rescale.is_fine:
                lines.append(f"sxtb16 {w}, {w}, ror #8")
            lines.append(f"smlad {a}, r11, {w}, {a}")
    if count < quads:
        lines += ["subs lr, lr, #1", "bne.w 2b"]
    lines += ["ldrd r10, r11, [sp]"]
    for number, a in enumerate(sums):
        words = ("r6", "r7", "r8")[:width]
        lines += [f"ldmia r1!, {{{', '.join(words)}}}", *finish([a], rescale, words), f"strb {a}, [r10], #1"]
        if outputs % 4 == number + 1:
            lines += ["cmp r10, r11", "beq.w 3f"]
    lines += [*subtract("r0", quads * 8), "str r10, [sp]", "cmp r10, r11", "bne.w 1b", "3:"]
    lines += ["add sp, sp, #12", "pop {r4-r11, pc}"]
    result = expression(rescale, "(int32_t)sum", f"w + {4 + 4 * quads} + {width} * i")
    plain = f"""    for (int32_t c = 0; c < {outputs}; c += 4, w += {4 + 4 * quads + 4 * width}) {{
        for (int32_t i = 0; i < 4 && c + i < {outputs}; ++i) {{
            uint32_t sum = (uint32_t)w[i];
            for (int32_t q = 0; q < {quads}; ++q) {{
                const int32_t *k = w + 4 + 4 * q + i;
                const int16_t *v = (const int16_t *)(b + 2 * q);
                sum += (uint32_t)({product(rescale, "k", "v", 2)});
            }}
            y[c + i] = (int8_t){result};
        }}
    }}
"""
    parameters = "const int32_t *b, const int32_t *w, int8_t *y"
    return name, {**helpers(rescale.form), name: function(name, parameters, lines, plain)}
