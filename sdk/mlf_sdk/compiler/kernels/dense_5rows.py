# SPDX-License-Identifier: Apache-2.0
"""Fully connected layers of one scale, five outputs at a time, for the fewest cycles of a Cortex-M4.

Loads that stand side by side take one cycle each and one for all; a load of several registers takes that one
cycle as well. Five sums leave as many registers as four inputs and the weights of five outputs take, so that
all of them come side by side, from two places. What is left of the outputs is computed four at a time.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from mlf_sdk.compiler.kernels.assembly import MAX_OFFSET, label, unrolling
from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.convolution import fits_fine, quads_of, starts_of
from mlf_sdk.compiler.kernels.dense import groups_of, kernel_of, layer_head, rows_of_layer
from mlf_sdk.compiler.kernels.kernel import Kernel
from mlf_sdk.compiler.kernels.rescale import Form
from mlf_sdk.compiler.kernels.widening import widen_row
from mlf_sdk.compiler.microkernels.builder import OUTPUT_BYTES, WORDS, Builder
from mlf_sdk.compiler.microkernels.epilogue import Epilogue
from mlf_sdk.compiler.microkernels.function import recorded

_OUTPUTS: Final = 5
_WHOLE: Final = 32  # most quads of inputs without a loop
_LOOP: Final = 16  # most quads of a loop
_FEWEST: Final = 4  # groups of a layer that gains by code of its own
_SHIFT: Final = 9  # of most layers, so that they share instructions


def dense(layer: Contraction) -> Kernel | None:
    """FULLY_CONNECTED of one row and one scale; None for a layer that this does not fit."""
    outputs, inputs = layer.channels, layer.depth
    if not layer.is_int8() or not layer.is_one_pixel or outputs > MAX_OFFSET:
        return None
    quads = -(-inputs // 4)
    count = quads if quads <= _WHOLE else unrolling(quads, _LOOP)
    groups = max((n for n in range(1, outputs // 5 + 1) if (outputs - 5 * n) % 4 == 0), default=0)
    if groups < _FEWEST or count < min(quads, 4) or not fits_fine(layer.rows):
        return None
    rescale = layer.fine_of_all(_SHIFT)
    if rescale is None or rescale.form is not Form.FINE:
        rescale = layer.fine_of_all()
    if rescale is None:
        return None
    rows = np.pad(layer.rows, ((0, 0), (0, 4 * quads - inputs)))
    words, biases = quads_of(rows, rescale), starts_of(layer, rows, rescale)
    whole = count == quads
    name = f"dense_5rows_{count}{'' if whole else '_of_many'}_{label(rescale)}"
    texts = recorded(name, "dsp", record, count, Epilogue.of(rescale), whole=whole)
    body, more = widen_row(inputs, fine=True)
    body += f"    {name}(b0, p0, y0);\n"
    first = _OUTPUTS * groups
    head = layer_head(quads, first, rescale)
    stream = [np.delete(head, 3), groups_of(words[:first], biases[:first], _OUTPUTS).reshape(-1)]
    if first < outputs:
        rest, others, fours = rows_of_layer(words[first:], biases[first:], rescale)
        texts = {**texts, **others}
        body += f"    {rest}(b0, p0 + {sum(map(len, stream))}, y0 + {first});\n"
        stream.append(fours)
    weights = np.concatenate(stream)
    return kernel_of(layer, "dense_5rows", body, {**texts, **more}, weights, 8 * quads, _OUTPUTS)


def record(count: int, epilogue: Epilogue, *, whole: bool) -> Builder:
    """Record a layer; the stream begins with m, r, what negative sums get, outputs, and bytes of the vector.

    Args:
        count: quads in a row.
        whole: these are all quads of the vector.
    """
    b = Builder(x=WORDS, w=WORDS, y=OUTPUT_BYTES)
    x, w, y = b.parameters
    m, r, lost, outputs, size_bytes = b.load(w, 5)
    bound = None if whole else b.place(x, size_bytes)
    end = b.place(y, outputs)

    with b.loop(y, end):
        sums = b.load(w, _OUTPUTS)
        with b.loop(x, bound):
            for quad in b.repeat(count):
                b.note(f"weights {4 * quad} to {4 * quad + 3} of five outputs")
                words = b.load(w, _OUTPUTS, apart=True)
                even, odd = b.load(x, 2, apart=True)
                for total, word in zip(sums, words, strict=True):
                    b.do("smlad", odd, word, total, into=total)
                    b.do("smlad", even, b.do("sxtb16", word), total, into=total)
        b.note("requantise five outputs")
        words = [m, r, lost][: epilogue.words]
        for number, total in enumerate(sums):
            b.store_byte(y, epilogue.record(b, [total], words)[0], number)
        b.advance(y, _OUTPUTS)
        if whole:
            b.advance(x, -8 * count)
        else:
            b.do("subtract", x, size_bytes, into=x)
    return b
