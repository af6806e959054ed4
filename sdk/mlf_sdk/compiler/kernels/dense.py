# SPDX-License-Identifier: Apache-2.0
"""Fully connected layers of int8 values: four outputs at a time, the input widened once."""

from __future__ import annotations

import numpy as np

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.kernels.assembly import MAX_OFFSET, finish, function, label, limit, subtract, unrolling
from mlf_sdk.compiler.kernels.convolution import biases_of, quads_of, rescale_of
from mlf_sdk.compiler.kernels.gemm import product, widen
from mlf_sdk.compiler.kernels.kernel import Kernel, arguments
from mlf_sdk.compiler.kernels.rescale import Form, Rescale, choose_fine, sum_bounds
from mlf_sdk.compiler.kernels.scaling import expression, helpers
from mlf_sdk.compiler.kernels.spill import weights_of
from mlf_sdk.compiler.operators import Array, FullyConnected
from mlf_sdk.compiler.requantise import Multiplier
from mlf_sdk.compiler.scales import dense_multipliers


def dense(graph: Graph, operator: FullyConnected) -> Kernel | None:
    """FULLY_CONNECTED of one row: four outputs at a time, the input widened once."""
    x, weights = graph.read(operator)[:2]
    (y,) = graph.written(operator)
    if x.dtype != np.int8 or x.elements != weights.shape[1]:
        return None
    outputs, inputs = weights.shape
    quads, groups = -(-inputs // 4), -(-outputs // 4)
    split = weights_of(weights, quads)
    if split is None or outputs > MAX_OFFSET:
        return None
    main, spill = split
    flat = np.pad(main, ((0, 0), (0, 4 * quads - inputs)))
    if spill is not None:
        flat = np.concatenate([flat, spill.weights], axis=1)
        quads += spill.quads
    multipliers = dense_multipliers(x, weights, y, outputs)
    layer = layer_rescale(flat, graph.bias(operator), x, y, multipliers, operator.clamp)
    rescale = layer or rescale_of(flat, graph.bias(operator), x, y, multipliers, operator.clamp)
    if rescale.form is Form.GENERAL:
        return None
    padded = np.pad(flat, ((0, 4 * groups - outputs), (0, 0)))
    biases = biases_of(flat, graph.bias(operator), x.zero_point, rescale)
    sums = groups_of(quads_of(padded, rescale), np.pad(biases, (0, 4 * groups - outputs)), 4)
    if layer:
        name, texts = rows_of_layer(quads, outputs, layer, unroll=16 if quads > 16 else 8)
        stream = np.append(layer_head(quads, outputs, layer), sums)
    else:
        name, texts = rows_times_vector(quads, outputs, rescale, unroll=8)
        rows = np.pad(rescale.rows, ((0, 4 * groups - outputs), (0, 0)), mode="edge").reshape(groups, -1)
        stream = np.concatenate([sums, rows], axis=1).reshape(-1)
    constants = (stream,)
    body, more = widening(inputs, fine=rescale.is_fine)
    if spill is not None:
        again, more[again] = spill.widen("", 1, 0, inputs, quads - spill.quads, fine=rescale.is_fine)
        body += f"    {again}(x0, b0, 0);\n"
    body += f"    {name}(b0, p0, y0);\n"
    return Kernel(
        family="dense",
        parameters=arguments(graph, operator, reads=1, constants=constants, workspace="int32_t"),
        body=body,
        helpers={**texts, **more},
        constants=constants,
        workspace_bytes=8 * quads,
        overlaps={0: 0},  # all of the input is read first
    )


def groups_of(words: Array, biases: Array, size: int) -> Array:
    """Biases of ``size`` outputs and the words of their rows side by side; a row a group."""
    groups = len(words) // size
    rows = words.reshape(groups, size, -1).transpose(0, 2, 1).reshape(groups, -1)
    return np.concatenate([biases.reshape(groups, size), rows], axis=1)


def widening(inputs: int, *, fine: bool) -> tuple[str, dict[str, str]]:
    """Statements that widen ``x0`` to ``b0``, and their functions."""
    body, texts = "", {}
    if inputs % 4:
        body = f"""    int32_t last = 0;
    memcpy(&last, x0 + {inputs // 4 * 4}, {inputs % 4});
"""
    if inputs >= 4:
        whole, text = widen(1, 0, 1, inputs // 4, fine=fine)
        texts[whole] = text
        body += f"    {whole}(x0, b0, 0);\n"
    if inputs % 4:
        one, text = widen(1, 0, 1, 1, fine=fine)
        texts[one] = text
        body += f"    {one}((const int8_t *)&last, b0 + {inputs // 4 * 2}, 0);\n"
    return body, texts


def layer_rescale(
    rows: Array,
    bias: Array,
    x: Value,
    y: Value,
    multipliers: tuple[Multiplier, ...],
    clamp: tuple[float, float],
    only: int = 0,
) -> Rescale | None:
    """One row of words for all outputs of a layer with one scale; None where none is exact for all their sums.

    Args:
        only: see `choose_fine`.
    """
    if len(set(multipliers)) > 1 or rows.min(initial=0) <= -128:
        return None
    bounds = sum_bounds(rows, bias, -128 - x.zero_point, 127 - x.zero_point)
    widest = np.array([[bounds[:, 0].min(), bounds[:, 1].max()]])
    found = choose_fine(multipliers[:1], y.zero_point, widest, clamp, only)
    return None if found is None or found.constant.any() else found


def layer_head(quads: int, outputs: int, rescale: Rescale) -> Array:
    """First words of a layer's stream: m, r, what negative sums get, shift, outputs, bytes of the vector."""
    m, r, *lost = (int(word) for word in rescale.rows[0])
    return np.array([m, r, *(lost or [0]), rescale.shift, outputs, 8 * quads], np.int32)


def rows_of_layer(quads: int, outputs: int, rescale: Rescale, *, unroll: int) -> tuple[str, dict[str, str]]:
    """Function ``(vector, stream, output)`` that layers of many sizes share; its name and texts.

    The stream begins with `layer_head`; each four outputs have four biases and the words of four rows side by side.
    """
    count, last = unrolling(quads, unroll), outputs % 4
    low, high = rescale.clamp
    name = f"layer_{count}_{last}_{low & 255}_{high & 255}"
    sums = ["r2", "r3", "r4", "r5"]
    lines = ["push {r4-r11, lr}", "sub sp, sp, #36", "ldmia r1!, {r4, r5, r6, r7, r9, r10}", "mov r8, r2"]
    lines += ["add r9, r9, r2", "add r11, r0, r10", "stm sp, {r4-r11}"]
    lines += ["1:", "ldmia r1!, {r2, r3, r4, r5}"]
    if count % 2:
        lines += ["ldr lr, [sp, #24]", "2:", *_products(sums, count, fine=True)]
        lines += [f"subs lr, lr, #{8 * count}"]
    else:
        lines += ["2:", *_pairs_of_products(sums, count), "ldr lr, [sp, #28]", "cmp r0, lr"]
    lines += ["bne.w 2b", "ldm sp, {r6-r11, lr}"]
    for number, a in enumerate(sums):
        lines += [f"and r12, r8, {a}, asr #31", "add r12, r12, r7", f"smmla {a}, {a}, r6, r12"]
        lines += [f"asr {a}, {a}, r9", f"ssat {a}, #8, {a}", *limit([a], rescale), f"strb {a}, [r10], #1"]
        if last == number + 1:
            lines += ["cmp r10, r11", "beq.w 3f"]
    lines += ["sub r0, r0, lr", "str r10, [sp, #16]", "cmp r10, r11", "bne.w 1b", "3:"]
    lines += ["add sp, sp, #36", "pop {r4-r11, pc}"]
    one = f"saturate(rescale_signed((int32_t)sum, head, head[3]), {low}, {high})"
    plain = f"""    const int32_t *head = w;
    int32_t quads = head[5] / 8;
    w += 6;
    for (int32_t c = 0; c < head[4]; c += 4, w += 4 + 4 * quads) {{
        for (int32_t i = 0; i < 4 && c + i < head[4]; ++i) {{
{sum_of_row(rescale, 4, "quads")}            y[c + i] = (int8_t){one};
        }}
    }}
"""
    parameters = "const int32_t *b, const int32_t *w, int8_t *y"
    return name, {**helpers(Form.SIGNED), name: function(name, parameters, lines, plain)}


def sum_of_row(rescale: Rescale, rows: int, quads: str) -> str:
    """C text of the sum of row ``i`` of a group of ``rows`` whose words stand side by side at ``w``."""
    return f"""            uint32_t sum = (uint32_t)w[i];
            for (int32_t q = 0; q < {quads}; ++q) {{
                const int32_t *k = w + {rows} + {rows} * q + i;
                const int16_t *v = (const int16_t *)(b + 2 * q);
                sum += (uint32_t)({product(rescale, "k", "v", 2)});
            }}
"""


def _products(sums: list[str], count: int, *, fine: bool) -> list[str]:
    """Products of ``count`` fours of the vector with the words of four rows."""
    lines = []
    for _ in range(count):
        lines += ["ldmia r1!, {r6, r7, r8, r9}", "ldrd r10, r11, [r0], #8"]
        for a, w in zip(sums, ("r6", "r7", "r8", "r9"), strict=True):
            lines += [f"sxtb16 r12, {w}", f"smlad {a}, r10, r12, {a}"]
            if not fine:
                lines.append(f"sxtb16 {w}, {w}, ror #8")
            lines.append(f"smlad {a}, r11, {w}, {a}")
    return lines


def _pairs_of_products(sums: list[str], count: int) -> list[str]:
    """`_products` of an even number of fours, sums times 256: one load brings eight values of the vector.

    SXTB16 writes over the word once that is multiplied, so that all other registers hold operands: each load of
    several words costs a cycle beside its words.
    """
    lines = []
    for _ in range(count // 2):
        lines.append("ldmia r0!, {r10, r11, r12, lr}")
        for low, whole in (("r10", "r11"), ("r12", "lr")):
            lines.append("ldmia r1!, {r6, r7, r8, r9}")
            for a, w in zip(sums, ("r6", "r7", "r8", "r9"), strict=True):
                lines += [f"smlad {a}, {whole}, {w}, {a}", f"sxtb16 {w}, {w}", f"smlad {a}, {low}, {w}, {a}"]
    return lines


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
    lines += _products(sums, count, fine=rescale.is_fine)
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
{sum_of_row(rescale, 4, str(quads))}            y[c + i] = (int8_t){result};
        }}
    }}
"""
    parameters = "const int32_t *b, const int32_t *w, int8_t *y"
    return name, {**helpers(rescale.form), name: function(name, parameters, lines, plain)}
