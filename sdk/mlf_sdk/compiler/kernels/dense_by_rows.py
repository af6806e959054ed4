# SPDX-License-Identifier: Apache-2.0
"""Fully connected layers that take their input row by row: sums of products grow until the last row came."""

from __future__ import annotations

import msgspec
import numpy as np

from mlf_sdk.compiler.kernels.assembly import DSP, INCLUDE_ACLE
from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.kernel import Kernel, Parameter, Role, c_type
from mlf_sdk.compiler.kernels.scaling import SCALING, saturated
from mlf_sdk.compiler.operators import Array

# Sums are unsigned: like those of the layer as a whole they are exact modulo 2 ** 32, in any order.
_ADD = f"""{INCLUDE_ACLE}static void add_products(const int8_t *x, const int8_t *w, uint32_t *sums, int32_t size, int32_t outputs)
{{ /* of a row of the input with as many weights of each output */
#if {DSP}
    for (int32_t c = 0; c < outputs; c += 2) {{
        const int32_t d = c + 1 < outputs ? c + 1 : c; /* the last one twice */
        const int8_t *v = w + c * size;
        const int8_t *u = w + d * size;
        int32_t first = (int32_t)sums[c];
        int32_t second = (int32_t)sums[d];
        int32_t k = 0;
        for (; k + 4 <= size; k += 4) {{
            int32_t four, a, b;
            memcpy(&four, x + k, 4);
            memcpy(&a, v + k, 4);
            memcpy(&b, u + k, 4);
            const int32_t even = __sxtb16(four);
            const int32_t odd = __sxtb16(four >> 8);
            first = __smlad(odd, __sxtb16(a >> 8), __smlad(even, __sxtb16(a), first));
            second = __smlad(odd, __sxtb16(b >> 8), __smlad(even, __sxtb16(b), second));
        }}
        for (; k < size; ++k) {{
            first = __smlad(x[k] & 0xFFFF, v[k] & 0xFFFF, first);
            second = __smlad(x[k] & 0xFFFF, u[k] & 0xFFFF, second);
        }}
        sums[d] = (uint32_t)second;
        sums[c] = (uint32_t)first;
    }}
#else
    for (int32_t c = 0; c < outputs; ++c, w += size) {{
        uint32_t sum = sums[c];
        for (int32_t k = 0; k < size; ++k) {{
            sum += (uint32_t)(x[k] * w[k]);
        }}
        sums[c] = sum;
    }}
#endif
}}
"""


class DenseRows(msgspec.Struct, frozen=True):
    """Kernels of the rows of an input: of the first, of those between, and of the last.

    Attributes:
        kernels: their first constant holds the weights of all rows; their workspace keeps the sums.
        stride: bytes from the weights of a row to those of the next one.
    """

    kernels: tuple[Kernel, Kernel, Kernel]
    stride: int


def dense_rows(layer: Contraction, rows: int) -> DenseRows | None:
    """Kernels of a layer of int8 values and one output row; None for others.

    Args:
        rows: of its input, all of equal size.
    """
    if not layer.is_int8(unsigned=True) or not layer.is_one_pixel or layer.y.dtype != np.int8:
        return None
    centred = layer.centred
    if layer.has_wide_sums or centred.min(initial=0) < -128 or centred.max(initial=0) > 127:
        return None
    size, channels = layer.depth // rows, layer.channels
    weights = _by_row(centred.astype(np.int8), rows)
    constants = (weights.reshape(-1), _words(layer))
    begin = f"    for (int32_t c = 0; c < {channels}; ++c) {{\n        b0[c] = (uint32_t)p1[3 * c];\n    }}\n"
    add = f"    add_products(x0, p0, b0, {size}, {channels});\n"
    value = saturated("scale_sum((int32_t)b0[c], p1[3 * c + 1], p1[3 * c + 2])", layer.y, layer.clamp)
    finish = f"""    for (int32_t c = 0; c < {channels}; ++c) {{
        y0[c] = ({c_type(layer.y.dtype)}){value};
    }}
"""
    whole = layer.kernel(
        "dense_rows",
        add + finish,
        {**SCALING, "add_products": _ADD},
        constants,
        {},
        workspace_bytes=4 * channels,
        workspace="uint32_t",
    )
    words = next(p for p in whole.parameters if p.role is Role.CONSTANT and p.number == 1)
    adding = tuple(p for p in whole.parameters if p.role is not Role.OUTPUT)
    between = tuple(p for p in adding if p is not words)
    return DenseRows(
        (_other(whole, begin + add, adding), _other(whole, add, between), whole), weights[0].nbytes
    )


def _by_row(weights: Array, rows: int) -> Array:
    """Weights (output, input) as those of each row of the input, of whole words, an output after the other."""
    parts = weights.reshape(len(weights), rows, -1).transpose(1, 0, 2).reshape(rows, -1)
    return np.pad(parts, ((0, 0), (0, -parts.shape[1] % 4)))


def _words(layer: Contraction) -> Array:
    """Words of every channel: what its sum starts with, multiplier and shift."""
    starts = layer.bias - layer.x.zero_point * layer.centred.sum(axis=1, dtype=np.int64)
    words = np.stack(
        [starts, [m.value for m in layer.multipliers], [m.shift for m in layer.multipliers]], axis=1
    )
    return np.ascontiguousarray((words & 0xFFFFFFFF).astype(np.uint32).view(np.int32).reshape(-1))


def _other(whole: Kernel, body: str, parameters: tuple[Parameter, ...]) -> Kernel:
    """Kernel of other rows."""
    return Kernel(
        whole.family,
        parameters,
        body,
        helpers={"add_products": _ADD},
        constants=whole.constants,
        workspace_bytes=whole.workspace_bytes,
    )
