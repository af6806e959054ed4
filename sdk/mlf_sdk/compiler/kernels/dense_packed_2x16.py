# SPDX-License-Identifier: Apache-2.0
"""Fully connected layers for cores without the DSP extension: two outputs in one multiplication.

A word holds a weight of each of four outputs, as bytes without sign (plus 128). Two of them at a time, 16 bits
apart, are multiplied with an input: one product, and one addition, for two outputs. The sums of two outputs in
a word stay apart while the lower one fits 16 bits, which it does as long as its weights' magnitudes add up to no
more than 255. So a row of weights is cut into chunks of inputs, as long as the weights of a group of four outputs
allow; behind each the two sums are taken apart and added up in words of their own. What the 128 contribute to
a chunk follows from the sum of its inputs: sums of all inputs before stand in front of every four inputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from mlf_sdk.compiler.kernels import dense_shifted_words, windows
from mlf_sdk.compiler.kernels.assembly import function_of_cores
from mlf_sdk.compiler.kernels.convolution import Layout
from mlf_sdk.compiler.kernels.rescale import Rescale, choose_short, low_words
from mlf_sdk.compiler.kernels.scalar import ARM_V6M, ARM_V7M, UNIFIED
from mlf_sdk.compiler.kernels.scaling import helpers
from mlf_sdk.compiler.kernels.windows import Tile
from mlf_sdk.compiler.operators import Array

OUTPUTS: Final = 4
BLOCK: Final = 4  # inputs; no chunk is shorter
BLOCK_BYTES: Final = 4 * (1 + BLOCK)  # in the buffer: the sum of all inputs before, and the inputs
_MOST: Final = 255  # of a chunk's magnitudes: times an input they stay within 16 bits
HALF: Final = 1 << 15  # keeps the lower sum of a chunk from being negative
_LEAST_BLOCKS: Final = 2  # of a chunk on average, where taking apart costs less than it brings


def dense_tile(shape: Layout, rows: Array, bias: Array, rescale: Rescale) -> Tile:
    """Fully connected layer: four outputs at a time; as of `dense_shifted_words` where weights are too large."""
    outputs, inputs = rows.shape
    blocks, count = -(-inputs // BLOCK), -(-outputs // OUTPUTS)
    padding = (0, OUTPUTS * count - outputs)
    groups = groups_of(np.pad(rows, (padding, (0, 0))).reshape(count, OUTPUTS, inputs))
    if groups is None:
        return dense_shifted_words.dense_tile(shape, rows, bias, rescale)
    biases = np.pad(bias.astype(np.int64), padding).reshape(count, OUTPUTS)
    parts = [_stream(*group, own) for group, own in zip(groups, biases, strict=True)]
    name, text = dense_shifted_words.groups_of_four(rescale, "field_sums")
    widen, widening_text = widening(inputs)
    return Tile(
        widen=widen,
        call=f"{name}(b0, p0, p1, {{}}, {outputs})",
        helpers={
            **helpers(rescale.form),
            "field_sums": _field_sums(),
            widen: widening_text,
            name: text,
        },
        constants=(np.concatenate(parts), dense_shifted_words.words_of(rescale)),
        buffer_bytes=BLOCK_BYTES * blocks + 4,
        channels=OUTPUTS,
    )


def groups_of(rows: Array) -> list[tuple[Array, list[tuple[int, int]]]] | None:
    """Weights of each group of four outputs and its chunks; None where weights are too large for these.

    Args:
        rows: weights, shape (groups, outputs of a group, inputs); those of a result have blocks of inputs.
    """
    groups, outputs, inputs = rows.shape
    blocks = -(-inputs // BLOCK)
    padded = np.pad(rows.astype(np.int32), ((0, 0), (0, 0), (0, BLOCK * blocks - inputs)))
    weights = padded.reshape(groups, outputs, blocks, BLOCK)
    chunks = [_chunks(np.abs(group).sum(axis=2)) for group in weights]
    if rows.min(initial=0) <= -128 or sum(map(len, chunks)) * _LEAST_BLOCKS > groups * blocks:
        return None
    return list(zip(weights, chunks, strict=True))


def _chunks(magnitudes: Array) -> list[tuple[int, int]]:
    """First and last block of each chunk of a group of outputs.

    A block that is too large for one chunk is the last one of a chunk, for the first half of its inputs, and the
    first one of the next.

    Args:
        magnitudes: sums of the magnitudes of the weights, shape (outputs, blocks).
    """
    result: list[tuple[int, int]] = []
    first, total = 0, np.zeros(len(magnitudes), np.int64)
    for block, own in enumerate(magnitudes.T):
        if block > first and (total + own).max() > _MOST:
            result.append((first, block - 1))
            first, total = block, np.zeros_like(total)
        total = total + own
        if own.max() > _MOST:
            result.append((block, block))
            total = np.full_like(total, _MOST)  # the second half of its inputs is a chunk of its own
    return [*result, (first, magnitudes.shape[1] - 1)]


def words_of_chunks(weights: Array, chunks: list[tuple[int, int]]) -> Iterator[Array]:
    """Words of each chunk of a group, one an input; a block of two chunks has half of its weights in each.

    Args:
        weights: of shape (outputs, blocks, inputs of a block).
    """
    for number, (first, last) in enumerate(chunks):
        some = weights[:, first : last + 1].copy()
        if begins_again(chunks, number):
            some[:, 0, : BLOCK // 2] = 0
        if number + 1 < len(chunks) and chunks[number + 1][0] == last:
            some[:, -1, BLOCK // 2 :] = 0
        quads = (some.reshape(OUTPUTS, -1).T + 128).astype(np.uint8)
        yield np.ascontiguousarray(quads).view(np.int32).reshape(-1)


def begins_again(chunks: list[tuple[int, int]], number: int) -> bool:
    """Return whether a chunk begins with the block that the one before it ends with."""
    return number > 0 and chunks[number - 1][1] == chunks[number][0]


def _stream(weights: Array, chunks: list[tuple[int, int]], bias: Array) -> Array:
    """Words of a group: four biases, the chunks, and a zero.

    A chunk has its length in the buffer, negative where it begins with the last block once more, and a word of
    weights an input.
    """
    lower = np.array([1, 1, 0, 0]) * HALF * len(chunks)  # the outputs of the lower halves of words
    parts = [low_words(bias - lower)]
    for number, words in enumerate(words_of_chunks(weights, chunks)):
        first, last = chunks[number]
        length = BLOCK_BYTES * (last + 1 - first)
        parts += [np.array([-length if begins_again(chunks, number) else length], np.int32), words]
    return np.concatenate([*parts, np.zeros(1, np.int32)])


def widening(inputs: int) -> tuple[str, str]:
    """Function ``(input, buffer, 0)``: in front of every four inputs 128 times the sum of all before, twice.

    Its name and text.
    """
    name = f"prefix_sums_{inputs}"
    rest = "".join(f"    b[{1 + i}] = x[{i}];\n    sum += x[{i}];\n" for i in range(inputs % BLOCK))
    if rest:
        clear = "".join(f"    b[{1 + i}] = 0;\n" for i in range(inputs % BLOCK, BLOCK))
        rest = f"    b[0] = (int32_t)((uint32_t)sum * 0x800080u);\n{rest}{clear}    b += {1 + BLOCK};\n"
    whole = f"""    for (const int8_t *end = x + {inputs // BLOCK * BLOCK}; x != end; x += {BLOCK}, b += {1 + BLOCK}) {{
        b[0] = (int32_t)((uint32_t)sum * 0x800080u);
        b[1] = x[0];
        b[2] = x[1];
        b[3] = x[2];
        b[4] = x[3];
        sum += x[0] + x[1] + x[2] + x[3];
    }}
"""
    text = f"""static void {name}(const int8_t *x, int32_t *b, int32_t row_bytes)
{{
    int32_t sum = 0;
    (void)row_bytes;
{whole if inputs >= BLOCK else ""}{rest}    b[0] = (int32_t)((uint32_t)sum * 0x800080u);
}}
"""
    return name, text


def _field_sums() -> str:
    """Function ``(buffer, stream, sums)`` for four outputs; returns the next group's stream."""
    parameters = "const int32_t *x, const int32_t *w, int32_t *s"
    plain = f"""    for (int32_t i = 0; i < {OUTPUTS}; ++i) {{
        s[i] = *w++;
    }}
    for (int32_t length; (length = *w++) != 0;) {{
        uint32_t even, odd;
        if (length < 0) {{
            x -= {1 + BLOCK};
            length = -length;
        }}
        even = odd = (uint32_t)x[0] + {HALF}u;
        for (const int32_t *end = x + length / 4; x != end; x += {1 + BLOCK}) {{
            for (int32_t k = 1; k <= {BLOCK}; ++k, ++w) {{
                even += (uint32_t)x[k] * ((uint32_t)*w & 0xFF00FFu);
                odd += (uint32_t)x[k] * ((uint32_t)*w >> 8 & 0xFF00FFu);
            }}
        }}
        even -= (uint32_t)x[0];
        odd -= (uint32_t)x[0];
        s[0] += (int32_t)(even & 0xFFFF);
        s[1] += (int32_t)(odd & 0xFFFF);
        s[2] += (int32_t)even >> 16;
        s[3] += (int32_t)odd >> 16;
    }}
    return w;
"""
    variants = {ARM_V7M: _sums_m3(), ARM_V6M: _sums_m0()}
    return function_of_cores("field_sums", parameters, variants, plain, result="const int32_t *")


def _sums_m3() -> list[str]:
    """Instructions for a Cortex-M3: r2 selects two bytes, r3 and r4 sum up a chunk, sums lie on the stack.

    They are text because a recorded chunk takes 20 instructions beside its blocks, not 18, which is 1.7 % of MLPerf's
    anomaly detection: a length has no sign there that only a rare step back takes into account.
    """
    lines = ["push {r2, r4-r11, lr}", "sub sp, sp, #16", "ldmia r1!, {r5-r8}", "stm sp, {r5-r8}"]
    lines += ["mov r2, #0x00FF00FF", "ldr lr, [r1], #4"]
    lines += ["1:", "ldr r3, [r0]", "add lr, lr, r0", "add r3, r3, #0x8000", "mov r4, r3"]
    lines += ["2:", "ldmia r0!, {r5-r9}"]
    for inputs in (("r6", "r7"), ("r8", "r9")):
        lines.append("ldmia r1!, {r10, r11}")
        for word, x in zip(("r10", "r11"), inputs, strict=True):
            lines += [f"and r12, r2, {word}", f"mla r3, r12, {x}, r3"]
            lines += [f"and {word}, r2, {word}, lsr #8", f"mla r4, {word}, {x}, r4"]
    lines += ["cmp r0, lr", "bne 2b", "ldr r9, [r0]", "ldm sp, {r5-r8}"]
    for word, low, high in (("r3", "r5", "r7"), ("r4", "r6", "r8")):
        lines += [f"sub {word}, {word}, r9", f"uxth r10, {word}", f"add {low}, {low}, r10"]
        lines.append(f"add {high}, {high}, {word}, asr #16")
    lines += ["stm sp, {r5-r8}", "ldr lr, [r1], #4", "cmp lr, #0", "bgt 1b", "beq 3f"]
    lines += [f"sub r0, r0, #{BLOCK_BYTES}", "rsb lr, lr, #0", "b 1b", "3:"]
    return [*lines, "mov r0, r1", "add sp, sp, #16", "pop {r1}", "stm r1, {r5-r8}", "pop {r4-r11, pc}"]


def _sums_m0() -> list[str]:
    """Instructions for a Cortex-M0: r2 selects two bytes, r3 and r4 sum up a chunk, sums are in r8 to r11."""
    highs = range(8, 12)
    lines = [UNIFIED, "push {r2, r4-r7, lr}", *(f"mov r{i - 4}, r{i}" for i in highs), "push {r4-r7}"]
    lines += ["ldmia r1!, {r4-r7}", *(f"mov r{i}, r{i - 4}" for i in highs), "movs r2, #255"]
    lines += ["lsls r3, r2, #16", "orrs r2, r3", "movs r3, #128", "lsls r3, r3, #8", "mov lr, r3"]
    lines += ["ldmia r1!, {r7}", "1:", "ldr r3, [r0]", "add r3, lr", "mov r4, r3", "adds r7, r7, r0"]
    lines += ["mov r12, r7", "2:", "ldmia r0!, {r5, r6}"]  # the sum of inputs is overwritten
    for number in range(BLOCK):
        x, word = ("r5", "r6") if number else ("r6", "r5")
        lines += [f"ldmia r0!, {{{x}}}"] if number else []
        lines += [f"ldmia r1!, {{{word}}}", f"lsrs r7, {word}, #8", "ands r7, r2", f"ands {word}, r2"]
        lines += [f"muls r7, {x}, r7", f"muls {word}, {x}, {word}", "adds r4, r4, r7", f"adds r3, r3, {word}"]
    lines += ["cmp r0, r12", "bne 2b", "ldr r5, [r0]"]
    for word, low, high in (("r3", "r8", "r10"), ("r4", "r9", "r11")):
        lines += [f"subs {word}, {word}, r5", f"uxth r6, {word}", f"add {low}, r6"]
        lines += [f"asrs {word}, {word}, #16", f"add {high}, {word}"]
    lines += ["ldmia r1!, {r7}", "cmp r7, #0", "bgt 1b", "beq 3f", f"subs r0, r0, #{BLOCK_BYTES}"]
    lines += ["rsbs r7, r7, #0", "b 1b", "3:", *(f"mov r{i - 4}, r{i}" for i in highs)]
    lines += ["mov r0, r1", "ldr r1, [sp, #16]", "stmia r1!, {r4-r7}", "pop {r4-r7}"]
    return [*lines, *(f"mov r{i}, r{i - 4}" for i in highs), "pop {r1, r4-r7, pc}"]


dense: Final = windows.dense(dense_tile, one=True)
dense_short: Final = windows.dense(dense_tile, choose_short, one=True)
