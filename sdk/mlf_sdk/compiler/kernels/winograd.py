# SPDX-License-Identifier: Apache-2.0
"""Convolution with 3x3 windows at stride 1 by Winograd's F(2x2, 3x3): 16 products for four outputs, not 36.

Both transforms are exact: that of the input takes sums of four bytes, and the weights are taken times four, so
that none of theirs is a fraction. A sum of products is then four times that of the convolution, modulo 2^32.
Weights become 16 words of 16 bits for nine bytes: a kernel for speed.

A tile is up to four squares of 2x2 pixels beside each other. Products of columns 1 and 2 of a transformed square
meet in a sum and in a difference; those of columns 0 and 3 continue either of them.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from mlf_sdk.compiler.kernels.assembly import MAX_OFFSET, finish, function, label, subtract, unrolling
from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.convolution import Layout, fits_fine
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.kernels.rescale import Rescale
from mlf_sdk.compiler.kernels.scaling import expression, helpers
from mlf_sdk.compiler.kernels.winograd_input import reaches, transform
from mlf_sdk.compiler.operators import Array

MAX_SQUARES: Final = 4
_LEAST_CHANNELS: Final = 8
_LEAST_OUTPUTS: Final = 3  # that the transformed input is worth its time for
_MAX_CHANNELS: Final = 512  # whose largest sum of products fits 31 bits
_MOST_ROW: Final = 0xFFFF  # bytes of a row of output
_WEIGHTS: Final = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]], np.int64)
_COLUMNS: Final = (1, 2, 0, 3)  # order of a row's products
_BLOCK: Final = 8  # channels whose weights one load brings
_UNROLL: Final = 8


def convolution(layer: Contraction) -> Kernel | None:
    """CONV_2D with 3x3 windows at stride 1; None for a layer that this does not fit."""
    shape = layer.window.size, layer.window.stride, layer.window.dilation
    if not layer.is_int8() or shape != ((3, 3), (1, 1), (1, 1)):
        return None
    _, oh, ow, oc = layer.y.shape
    ic = layer.depth
    if oc < _LEAST_OUTPUTS or oh < 2 or ow < 4 or ic % 4 or not _LEAST_CHANNELS <= ic <= _MAX_CHANNELS:
        return None
    sizes = [s for s in range(2, min(MAX_SQUARES, ow // 2) + 1) if reaches(s, ic)]
    if not sizes:
        return None
    squares = min(sizes, key=lambda s: -(-ow // (2 * s)) * (s + 1.25))
    if (2 * squares - 1) * oc > MAX_OFFSET or ow * oc > _MOST_ROW:
        return None
    rescale = layer.rescale(fine=fits_fine(layer.rows))
    if rescale is None:
        return None
    layout = Layout(layer, 2 * squares, 1, lines=2)
    layout.buffer_bytes = 32 * ic * squares
    tile, texts = _tile(squares, ic, ow * oc, oc, rescale)
    squared, more = transform(squares, ic)
    return layout.kernel(
        f"{tile}(b0, p0, {{}}, {oc})",
        squared,
        {**texts, **more},
        (_stream(layer.weights.constant, layer.starts(rescale), rescale),),
        "_winograd",
    )


def _stream(weights: Array, starts: Array, rescale: Rescale) -> Array:
    """Words of each channel: pairs of transformed weights, bias, requantisation."""
    oc, _, _, ic = weights.shape
    wide = weights.astype(np.int64)
    u = np.einsum("ia,oabc,jb->oijc", _WEIGHTS, wide, _WEIGHTS)
    u[:, :, 3] *= -1
    u = u[:, :, _COLUMNS].reshape(oc, 16, ic // 4, 4)[..., (0, 2, 1, 3)]
    words = np.ascontiguousarray(u.astype(np.int16)).view(np.int32).reshape(oc, -1)
    return np.ascontiguousarray(np.concatenate([words, starts[:, None], rescale.rows], axis=1).reshape(-1))


def _tile(squares: int, ic: int, row: int, oc: int, rescale: Rescale) -> tuple[str, dict[str, str]]:
    """Function ``(buffer, stream, output, count)`` for a tile; its name and texts.

    Args:
        row: bytes from a row of output to the next.
    """
    name = f"products_{squares}x{ic}_{row}_{oc}_{label(rescale)}"
    start = "(uint32_t)*w + (t << 6)" if rescale.is_fine else "(uint32_t)*w + (uint32_t)((int32_t)t >> 2)"
    value = expression(rescale, f"(int32_t)({start})", "w + 1")
    plain = f"""    for (int32_t c = 0; c < n; ++c, ++y) {{
        const int16_t *v = (const int16_t *)b;
        uint32_t s[2][4][{squares}];
        memset(s, 0, sizeof s);
        for (int32_t k = 0; k < 16; ++k)
        for (int32_t q = 0; q < {ic // 2}; ++q, ++w)
        for (int32_t i = 0; i < {squares}; ++i, v += 2) {{
            uint32_t m = (uint32_t)(v[0] * (int16_t)*w + v[1] * (*w >> 16));
            if ((k & 3) != 3) {{
                s[0][k >> 2][i] += m;
            }}
            if ((k & 3) != 2) {{
                s[1][k >> 2][i] += (k & 3) == 1 ? 0 - m : m;
            }}
        }}
        for (int32_t i = 0; i < {2 * squares}; ++i) {{
            uint32_t *u = &s[i & 1][0][i >> 1];
            uint32_t t = u[0] + u[{squares}] + u[{2 * squares}];
            y[i * {oc}] = (int8_t){value};
            t = u[{squares}] - u[{2 * squares}] - u[{3 * squares}];
            y[{row} + i * {oc}] = (int8_t){value};
        }}
        w += {1 + rescale.rows.shape[1]};
    }}
"""
    lines = _instructions(squares, ic, row, oc, rescale)
    parameters = "const int32_t *b, const int32_t *w, int8_t *y, int32_t n"
    return name, {**helpers(rescale.form), name: function(name, parameters, lines, plain)}


def _registers(first: int, count: int) -> str:
    return "{" + ", ".join(f"r{first + i}" for i in range(count)) + "}"


def _dot(squares: int, ic: int, number: int, *, start: bool) -> list[str]:
    """Products of one place of the squares, in r2 and on; r1 and r0 run through weights and buffer."""
    weights = ["r10", "r11", "r12", "lr"]
    whole, rest = divmod(ic, _BLOCK)
    count = unrolling(whole, _UNROLL)
    lines = []
    if count < whole:
        lines += [f"movw r10, #{whole * _BLOCK // 2 * squares * 4}", "add r10, r10, r0", "str r10, [sp, #12]"]
        lines += [f"mov r{2 + i}, #0" for i in range(squares) if start]
        start = False
        lines.append(f"{10 + number}:")

    def block(words: list[str]) -> None:
        nonlocal start
        lines.append(f"ldmia r1!, {{{', '.join(words)}}}")
        for w in words:
            lines.append(f"ldmia r0!, {_registers(6, squares)}")
            for i in range(squares):
                lines.append(
                    f"smuad r{2 + i}, r{6 + i}, {w}" if start else f"smlad r{2 + i}, r{6 + i}, {w}, r{2 + i}"
                )
            start = False

    for _ in range(count):
        block(weights)
    if count < whole:
        lines += ["ldr r10, [sp, #12]", "cmp r0, r10", f"bne.w {10 + number}b"]
    if rest:
        block(weights[:2])
    return lines


def _instructions(squares: int, ic: int, row: int, oc: int, rescale: Rescale) -> list[str]:
    """Instructions of `_tile`.

    On the stack: output, its end, where the next sums go, end of a loop; differences; sums by column and row.
    """
    sums, values = _registers(2, squares), _registers(6, squares)
    kept, table = 16, 16 + 4 * squares
    frame = table + 32 * squares
    lines = ["push {r4-r11, lr}", f"sub sp, sp, #{frame}", "add r3, r2, r3", "strd r2, r3, [sp]"]
    lines += ["1:", f"add r10, sp, #{table}", "str r10, [sp, #8]", "2:"]
    lines += [*_dot(squares, ic, 0, start=True), f"add r10, sp, #{kept}", f"stmia r10, {sums}"]
    lines += [*_dot(squares, ic, 1, start=True), f"add r10, sp, #{kept}", f"ldmia r10, {values}"]
    for i in range(squares):
        lines += [f"add r{2 + i}, r{2 + i}, r{6 + i}", f"rsb r{6 + i}, r{2 + i}, r{6 + i}, lsl #1"]
    lines += [f"stmia r10, {values}", *_dot(squares, ic, 2, start=False)]
    lines += ["ldr r10, [sp, #8]", f"stmia r10, {sums}", f"add r11, sp, #{kept}", f"ldmia r11, {sums}"]
    lines += _dot(squares, ic, 3, start=False)
    lines += ["ldr r10, [sp, #8]", f"add r11, r10, #{16 * squares}", f"stmia r11, {sums}"]
    lines += [f"add r10, r10, #{4 * squares}", "str r10, [sp, #8]"]
    lines += [f"add r11, sp, #{table + 16 * squares}", "cmp r10, r11", "bne.w 2b"]
    words = ["r10", "r11", "r12", "lr"][: 1 + rescale.rows.shape[1]]
    lines.append(f"ldmia r1!, {{{', '.join(words)}}}")
    shift = "lsl #6" if rescale.is_fine else "asr #2"
    for column in range(2):
        for lower in range(2):
            operation = "sub" if lower else "add"
            lines += [f"add r9, sp, #{table + 16 * squares * column + 4 * squares * lower}"]
            lines += [f"ldmia r9, {sums}"]
            for further in (1, 2):
                at = table + 16 * squares * column + 4 * squares * (lower + further)
                lines += [f"add r9, sp, #{at}", f"ldmia r9, {values}"]
                lines += [f"{operation} r{2 + i}, r{2 + i}, r{6 + i}" for i in range(squares)]
            lines += [f"add r{2 + i}, r10, r{2 + i}, {shift}" for i in range(squares)]
            lines += finish([f"r{2 + i}" for i in range(squares)], rescale, tuple(words[1:]), "r6")
            lines.append("ldr r7, [sp]")
            if lower:
                lines += (
                    [f"addw r7, r7, #{row}"] if row <= MAX_OFFSET else [f"movw r8, #{row}", "add r7, r7, r8"]
                )
            lines += [f"strb r{2 + i}, [r7, #{(2 * i + column) * oc}]" for i in range(squares)]
    lines += ["ldrd r6, r7, [sp]", "add r6, r6, #1", "str r6, [sp]", *subtract("r0", 32 * ic * squares)]
    return [*lines, "cmp r6, r7", "bne.w 1b", f"add sp, sp, #{frame}", "pop {r4-r11, pc}"]
