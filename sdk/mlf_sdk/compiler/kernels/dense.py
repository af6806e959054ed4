# SPDX-License-Identifier: Apache-2.0
"""Fully connected layers of int8 values: four outputs at a time, the input widened once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from mlf_sdk.compiler.kernels.assembly import MAX_OFFSET, label, unrolling
from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.convolution import fits_fine, quads_of, starts_of
from mlf_sdk.compiler.kernels.kernel import Kernel, tile_of
from mlf_sdk.compiler.kernels.rescale import Form, Rescale
from mlf_sdk.compiler.kernels.widening import pair_constants, pairs_of, weights_of, widen_row
from mlf_sdk.compiler.microkernels.builder import BYTES, OUTPUT_BYTES, WORDS, Builder, Register
from mlf_sdk.compiler.microkernels.epilogue import Epilogue
from mlf_sdk.compiler.microkernels.function import recorded
from mlf_sdk.compiler.operators import Array

_ROWS: Final = 4
_FEW: Final = 2  # outputs that do not pay for what other kernels do with the input first


def dense(layer: Contraction) -> Kernel | None:
    """FULLY_CONNECTED of one row: four outputs at a time, the input widened once, or on the way to no more."""
    outputs, inputs = layer.channels, layer.depth
    if not layer.is_int8(unsigned=True) or not layer.is_one_pixel or outputs > MAX_OFFSET:
        return None
    quads = -(-inputs // 4)
    split = weights_of(layer.weights, quads)
    if split is None:
        return None
    main, spill = split
    flat = np.pad(main, ((0, 0), (0, 4 * quads - inputs)))
    if spill is not None:
        flat = np.concatenate([flat, spill.weights], axis=1)
        quads += spill.quads
    fine = fits_fine(main)
    of_all = layer.fine_of_all() if fine else None
    rescale = of_all or layer.rescale(fine=fine)
    if rescale is None:
        return None
    if outputs <= _ROWS and inputs % 4 == 0 and spill is None:
        rescale = layer.rescale(fine=fine) or rescale
        name, texts, stream = rows_times_bytes(
            quads_of(flat, rescale), starts_of(layer, flat, rescale), rescale
        )
        return kernel_of(layer, "dense", f"    {name}(x0, p0, y0);\n", texts, stream, 0)
    make = rows_of_layer if of_all else rows_times_vector
    name, texts, stream = make(quads_of(flat, rescale), starts_of(layer, flat, rescale), rescale)
    body, more = widen_row(inputs, fine=rescale.is_fine)
    if spill is not None:
        again, more[again] = spill.widen("", 1, 0, inputs, quads - spill.quads, fine=rescale.is_fine)
        body += f"    {again}(x0, b0, 0);\n"
    return kernel_of(layer, "dense", f"{body}    {name}(b0, p0, y0);\n", {**texts, **more}, stream, 8 * quads)


def of_few_outputs(layer: Contraction) -> Kernel | None:
    """`dense` of one or two outputs whose input needs no buffer; else None."""
    kernel = dense(layer) if layer.channels <= _FEW else None
    return kernel if kernel is not None and not kernel.workspace_bytes else None


def kernel_of(
    layer: Contraction,
    family: str,
    body: str,
    helpers: Mapping[str, str],
    stream: Array,
    buffer_bytes: int,
    channels: int = _ROWS,
) -> Kernel:
    """Kernel that widens all of the input to a buffer first; its tiles are of ``channels``."""
    tile = tile_of(channels)
    return layer.kernel(family, body, helpers, (stream,), {0: 0}, workspace_bytes=buffer_bytes, tile=tile)


def groups_of(words: Array, starts: Array, size: int) -> Array:
    """First words of the sums of ``size`` outputs, and the words of their rows side by side; a row a group."""
    missing = -len(words) % size
    rows = np.pad(words, ((0, missing), (0, 0))).reshape(-1, size, words.shape[1])
    columns = rows.transpose(0, 2, 1).reshape(len(rows), -1)
    return np.concatenate([np.pad(starts, (0, missing)).reshape(-1, size), columns], axis=1)


def layer_head(quads: int, outputs: int, rescale: Rescale) -> Array:
    """First words of a layer's stream: m, r, what negative sums get, shift, outputs, bytes of the vector."""
    m, r, *lost = (int(word) for word in rescale.rows[0])
    return np.array([m, r, *(lost or [0]), rescale.shift, outputs, 8 * quads], np.int32)


def rows_of_layer(words: Array, starts: Array, rescale: Rescale) -> tuple[str, Mapping[str, str], Array]:
    """Function ``(vector, stream, output)`` that layers of many sizes share; its name, texts and stream.

    The stream begins with `layer_head`; each four outputs have four biases and the words of four rows side by side.

    Args:
        words: of the weights, a row an output.
        starts: what the sums of the outputs start with.
        rescale: one row of words for all of them.
    """
    outputs, quads = words.shape
    count, last = unrolling(quads, 16 if quads > 16 else 8), outputs % 4
    low, high = rescale.clamp
    name = f"layer_{count}_{last}_{low & 255}_{high & 255}"
    stream = np.append(layer_head(quads, outputs, rescale), groups_of(words, starts, _ROWS))
    return name, recorded(name, "dsp", record_layer, count, last, rescale.clamp), stream


def rows_times_vector(words: Array, starts: Array, rescale: Rescale) -> tuple[str, Mapping[str, str], Array]:
    """As `rows_of_layer`, with words of a requantisation for each output behind the rows of its four."""
    outputs, quads = words.shape
    name = f"rows_{quads}_{outputs}_{label(rescale)}"
    sums = groups_of(words, starts, _ROWS)
    rows = np.pad(rescale.rows, ((0, -outputs % _ROWS), (0, 0)), mode="edge").reshape(len(sums), -1)
    given = quads, outputs, unrolling(quads, 8), Epilogue.of(rescale)
    stream = np.concatenate([sums, rows], axis=1).reshape(-1)
    return name, recorded(name, "dsp", record_rows, *given), stream


def rows_times_bytes(words: Array, starts: Array, rescale: Rescale) -> tuple[str, Mapping[str, str], Array]:
    """As `rows_times_vector`, of four outputs at most, whose input needs no buffer: it is read once."""
    outputs, quads = words.shape
    name = f"rows_of_bytes_{quads}_{outputs}_{label(rescale)}"
    _, _, stream = rows_times_vector(words, starts, rescale)
    given = quads, outputs, unrolling(quads, 8), Epilogue.of(rescale)
    return name, recorded(name, "dsp", record_bytes, *given), stream


def record_bytes(quads: int, outputs: int, count: int, epilogue: Epilogue) -> Builder:
    """Record `rows_times_bytes`; ``count`` fours of the input are in a row."""
    b = Builder(x=BYTES, w=WORDS, y=OUTPUT_BYTES)
    x, w, y = b.parameters
    bound = b.place(x, 4 * quads) if count < quads else None
    constants = pair_constants(b) if epilogue.is_fine else []
    sums = b.load(w, _ROWS)
    with b.loop(x, bound):
        for quad in b.repeat(count):
            (even,), (odd,) = pairs_of(b, [b.load_at(x, 4 * quad)], constants)
            for total, word in zip(sums, b.load(w, _ROWS), strict=True):
                b.do("smlad", even, b.do("sxtb16", word), total, into=total)
                odd_word = word if epilogue.is_fine else b.do("sxtb16_ror8", word)
                b.do("smlad", odd, odd_word, total, into=total)
        if bound is not None:
            b.advance(x, 4 * count)
    b.note("requantise the outputs")
    for number, total in enumerate(sums[:outputs]):
        words = [b.load_at(w, 4 * (number * epilogue.words + k)) for k in range(epilogue.words)]
        b.store_byte(y, epilogue.record(b, [total], words)[0], number)
    return b


def record_layer(count: int, last: int, clamp: tuple[int, int]) -> Builder:
    """Record `rows_of_layer`: sums times 256.

    Args:
        count: fours of the vector in a row.
        last: outputs of the last group; 0 for four.
    """
    b = Builder(x=WORDS, w=WORDS, y=OUTPUT_BYTES)
    x, w, y = b.parameters
    m, r, lost, shift, outputs, size_bytes = b.load(w, 6)
    bound, end = b.place(x, size_bytes), b.place(y, outputs)
    epilogue = Epilogue(Form.SIGNED, 0, clamp, 3)
    with b.loop(y, end):
        sums = b.load(w, _ROWS)
        with b.loop(x, bound):
            if count % 2:
                _products(b, x, w, sums, count, is_fine=True)
            else:
                _pairs_of_products(b, x, w, sums, count)
        b.note("requantise four outputs")
        for number, total in enumerate(sums):
            high = epilogue.high_words(b, [total], [m, r, lost])
            (value,) = epilogue.stored(b, b.each("shift_right_by", high, shift))
            b.store_byte(y, value, 0)
            b.advance(y, 1)
            if last == number + 1:
                b.leave_if(y, end)
        b.do("subtract", x, size_bytes, into=x)
    return b


def record_rows(quads: int, outputs: int, count: int, epilogue: Epilogue) -> Builder:
    """Record `rows_times_vector`; ``count`` fours of the vector are in a row."""
    b = Builder(x=WORDS, w=WORDS, y=OUTPUT_BYTES)
    x, w, y = b.parameters
    end = b.place(y, outputs)
    bound = b.place(x, 8 * quads) if count < quads else None
    with b.loop(y, end):
        sums = b.load(w, _ROWS)
        with b.loop(x, bound):
            _products(b, x, w, sums, count, is_fine=epilogue.is_fine)
        b.note("requantise four outputs")
        for number, total in enumerate(sums):
            (value,) = epilogue.record(b, [total], b.load(w, epilogue.words))
            b.store_byte(y, value, 0)
            b.advance(y, 1)
            if outputs % _ROWS == number + 1:
                b.leave_if(y, end)
        b.advance(x, -8 * quads)
    return b


def _products(
    b: Builder, x: Register, w: Register, sums: list[Register], count: int, *, is_fine: bool
) -> None:
    """Products of ``count`` fours of the vector with the words of four rows."""
    for _ in b.repeat(count):
        words = b.load(w, _ROWS)
        even, odd = b.load(x, 2)
        for total, word in zip(sums, words, strict=True):
            b.do("smlad", even, b.do("sxtb16", word), total, into=total)
            b.do("smlad", odd, word if is_fine else b.do("sxtb16_ror8", word), total, into=total)


def _pairs_of_products(b: Builder, x: Register, w: Register, sums: list[Register], count: int) -> None:
    """`_products` of an even number of fours, sums times 256: one load brings eight values of the vector.

    SXTB16 may write over the word once that is multiplied, so that all other registers hold operands: each load of
    several words costs a cycle beside its words.
    """
    for _ in b.repeat(count // 2):
        values = b.load(x, 4)
        for even, odd in (values[:2], values[2:]):
            for total, word in zip(sums, b.load(w, _ROWS), strict=True):
                b.do("smlad", odd, word, total, into=total)
                b.do("smlad", even, b.do("sxtb16", word), total, into=total)
