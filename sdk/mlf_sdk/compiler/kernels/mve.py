# SPDX-License-Identifier: Apache-2.0
"""Kernels for cores with the vector extension (MVE, Helium), each with the same computation in plain C.

VMLADAVA multiplies sixteen bytes of a window with those of a channel. Channels go in fours: their weights lie
in blocks of sixteen bytes, channel after channel, the rest of the window behind them; four biases, multipliers,
addends and shifts follow one another in a table.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from mlf_sdk.compiler.kernels.assembly import UNALIGNED, function_of_cores
from mlf_sdk.compiler.kernels.rescale import Form, Rescale
from mlf_sdk.compiler.kernels.scaling import SATURATE
from mlf_sdk.compiler.kernels.windows import Shape, Tile
from mlf_sdk.compiler.operators import Array

MVE: Final = f"{UNALIGNED} && defined(__ARM_FEATURE_MVE)"
INCLUDE: Final = f"#if {MVE}\n#include <arm_mve.h>\n#endif\n"
COPY_BYTES: Final = f"""static inline void copy_bytes(int8_t *d, const int8_t *s, int32_t n)
{{
#if {MVE}
    do {{
        mve_pred16_t some = vctp8q((uint32_t)n);
        vstrbq_p_s8(d, vldrbq_z_s8(s, some), some);
        d += 16;
        s += 16;
        n -= 16;
    }} while (n > 0);
#else
    memcpy(d, s, (size_t)n);
#endif
}}
"""
_REGISTERS: Final = (("r0", "r2", "r4", "r6"), ("r8", "r10", "r12", "lr"))


def group(values: Array, count: int) -> Array:
    """Values by fours, the last group filled up with zeros."""
    return np.pad(values, [(0, -count % 4)] + [(0, 0)] * (values.ndim - 1)).reshape(-1, 4, *values.shape[1:])


def table_words(bias: Array, rescale: Rescale) -> Array:
    """Bias, multiplier, addend and negative shift of each channel."""
    words = np.concatenate([bias[:, None], rescale.rows], axis=1).astype(np.int32)
    words[:, 3] = -words[:, 3]
    return words


def table_of(bias: Array, rescale: Rescale) -> Array:
    """Four biases, multipliers, addends and negative shifts after one another."""
    words = table_words(bias, rescale)
    return np.ascontiguousarray(group(words, len(words)).transpose(0, 2, 1).reshape(-1))


def tile(shape: Shape, rows: Array, bias: Array, rescale: Rescale) -> Tile:
    """Tile of one or two pixels."""
    count, depth = rows.shape
    grouped = group(rows, count)
    whole = depth // 16 * 16
    blocks = grouped[:, :, :whole].reshape(len(grouped), 4, depth // 16, 16).transpose(0, 2, 1, 3)
    parts = [blocks.reshape(len(grouped), -1), grouped[:, :, whole:].reshape(len(grouped), -1)]
    weights = np.ascontiguousarray(np.concatenate(parts, axis=1).reshape(-1))
    low, high = rescale.clamp
    name = f"vectors_{shape.pixels}_{rescale.form.value}_{low & 255}_{high & 255}"
    widen = f"windows_{shape.pixels}x{shape.rows}x{shape.used}_{shape.distance}"
    return Tile(
        widen=widen,
        call=f"{name}((const int8_t *)b0, {depth}, p0, p1, {{}}, {count}, {shape.channels})",
        helpers={
            "mve": INCLUDE,
            "saturate": SATURATE,
            "copy_bytes": COPY_BYTES,
            widen: _copy_windows(widen, shape),
            name: _vectors(name, shape.pixels, rescale),
        },
        constants=(weights, table_of(bias, rescale)),
        buffer_bytes=shape.pixels * depth,
    )


def _copy_windows(name: str, shape: Shape) -> str:
    return f"""static void {name}(const int8_t *x, int32_t *b, int32_t row_bytes)
{{
    int8_t *d = (int8_t *)b;
    for (int32_t i = 0; i < {shape.pixels}; ++i, x += {shape.distance})
    for (int32_t r = 0; r < {shape.rows}; ++r, d += {shape.used}) {{
        copy_bytes(d, x + r * row_bytes, {shape.used});
    }}
}}
"""


def _vectors(name: str, pixels: int, rescale: Rescale) -> str:
    """Function ``(windows, depth, weights, table, output, channels, distance)``."""
    low, high = rescale.clamp
    parameters = "const int8_t *x, int32_t k, const int8_t *w, const int32_t *p, int8_t *y, int32_t n, int32_t distance"
    half = "h + (h >> 31)" if rescale.form is Form.DOUBLE else "h"
    plain = f"""    int32_t whole = k / 16 * 16;
    for (int32_t c = 0; c < n; c += 4, w += 4 * k, p += 16)
    for (int32_t j = 0; j < 4 && c + j < n; ++j)
    for (int32_t i = 0; i < {pixels}; ++i) {{
        uint32_t a = (uint32_t)p[j];
        for (int32_t q = 0; q < k; ++q) {{
            int32_t at = q < whole ? q / 16 * 64 + j * 16 + q % 16 : 4 * whole + j * (k - whole) + q - whole;
            a += (uint32_t)(x[i * k + q] * w[at]);
        }}
        int32_t h = (int32_t)(((int64_t)(int32_t)a * p[4 + j] + ((int64_t)1 << 30)) >> 31);
        y[i * distance + c + j] = (int8_t)saturate(({half} + p[8 + j]) >> -p[12 + j], {low}, {high});
    }}
"""
    return function_of_cores(name, parameters, {MVE: _instructions(pixels, rescale)}, plain)


def _instructions(pixels: int, rescale: Rescale) -> list[str]:
    """Instructions of `_vectors`: r1 and r3 walk through the windows, r5 the weights, r11 the table."""
    used = _REGISTERS[:pixels]
    walkers = ("r1", "r3")[:pixels]
    lines = [
        "push {r4-r11, lr}", "sub sp, sp, #20", "mov r5, r2", "mov r11, r3", "add r2, r0, r1",
        "strd r0, r2, [sp]", "lsr r2, r1, #4", "and r3, r1, #15", "strd r2, r3, [sp, #8]", "1:",
        "ldrd r1, r3, [sp]", "ldr r7, [sp, #8]",
    ]  # fmt: skip
    lines += [f"mov {r}, #0" for four in used for r in four]
    lines += ["cmp r7, #0", "beq 3f", "2:"]
    lines += [f"vldrb.8 q{i}, [{r}], #16" for i, r in enumerate(walkers)]
    for channel in range(4):
        lines.append("vldrb.8 q2, [r5], #16")
        lines += [f"vmladava.s8 {four[channel]}, q2, q{i}" for i, four in enumerate(used)]
    lines += ["subs r7, r7, #1", "bne 2b", "3:", "ldr r7, [sp, #12]", "cmp r7, #0", "beq 4f", "vctp.8 r7"]
    for i, r in enumerate(walkers):
        lines += ["vpst", f"vldrbt.8 q{i}, [{r}]"]
    for channel in range(4):
        lines += ["vpst", "vldrbt.8 q2, [r5]", "add r5, r5, r7"]
        lines += [f"vmladava.s8 {four[channel]}, q2, q{i}" for i, four in enumerate(used)]
    lines.append("4:")
    for i, four in enumerate(used):
        lines += [f"vmov.32 q{i}[{lane}], {r}" for lane, r in enumerate(four)]

    def each(text: str) -> list[str]:
        return [text.replace("@", f"q{i}") for i in range(pixels)]

    lines += ["vldrw.32 q2, [r11], #16", *each("vadd.i32 @, @, q2")]
    lines += ["vldrw.32 q2, [r11], #16", *each("vqrdmulh.s32 @, @, q2")]
    if rescale.form is Form.DOUBLE:
        for i in range(pixels):
            lines += [f"vshr.s32 q3, q{i}, #31", f"vadd.i32 q{i}, q{i}, q3"]
    lines += ["vldrw.32 q2, [r11], #16", *each("vadd.i32 @, @, q2")]
    lines += ["vldrw.32 q2, [r11], #16", *each("vshl.s32 @, @, q2")]
    lines += [line for i in range(pixels) for line in (f"vqmovnb.s32 q{i}, q{i}", f"vqmovnb.s16 q{i}, q{i}")]
    low, high = rescale.clamp
    if (low, high) != (-128, 127):
        # The narrowed bytes lie in words whose other bytes are leftovers.
        lines += [f"mov r0, #{low & 255}", "vdup.8 q2, r0", *each("vmax.s8 @, @, q2")]
        lines += [f"mov r0, #{high & 255}", "vdup.8 q2, r0", *each("vmin.s8 @, @, q2")]
    lines += ["ldrd r1, r7, [sp, #56]", "vctp.32 r7", "vpst", "vstrbt.32 q0, [r1]"]
    if pixels > 1:
        lines += ["ldr r3, [sp, #64]", "add r3, r3, r1", "vpst", "vstrbt.32 q1, [r3]"]
    lines += ["add r1, r1, #4", "subs r7, r7, #4", "strd r1, r7, [sp, #56]", "bgt 1b"]
    return [*lines, "add sp, sp, #20", "pop {r4-r11, pc}"]
