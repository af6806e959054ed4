# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolution of one row of output from pointers to the rows of its windows, in plain C.

Nothing is copied: a tap of a window beside the input points to a pixel of zero points. Where the output may lie
over the first row, the one column of it that the next pixel reads too is kept.
"""

from __future__ import annotations

from mlf_sdk.compiler.kernels.contraction import Contraction
from mlf_sdk.compiler.kernels.kernel import Kernel, Parameter, Role
from mlf_sdk.compiler.kernels.rescale import Rescale
from mlf_sdk.compiler.kernels.scaling import expression, helpers
from mlf_sdk.compiler.operators import Array

_MAX_TAPS = 25  # pointers on the stack


def row_kernel(layer: Contraction, rescale: Rescale, constants: tuple[Array, Array]) -> Kernel | None:
    """Kernel of one row of output; None for a layer that this does not fit.

    Its inputs are all rows of the window; a row outside of the input is NULL. The output may lie over the first one.

    Args:
        constants: of the kernel of the whole layer: weights by channel, and words of the requantisation.
    """
    window, (_, _, iw, channels) = layer.window, layer.x.shape
    (kh, kw), across, left = window.size, window.stride[1], window.before[1]
    before = left - across + 1  # columns that a later pixel reads and an earlier one lies over
    if layer.multiplier != 1 or window.dilation != (1, 1) or kh * kw > _MAX_TAPS or before > 1:
        return None
    kept = before == 1
    column = f"ox{f' * {across}' * (across > 1)} + j{f' - {left}' * (left > 0)}"
    sums = " + ".join(f"taps[{k}][c] * w[{k}]" for k in range(kh * kw))
    first = "        taps[0] = kept;\n" if kept else ""
    keep = f"            kept[c] = taps[{left}][c];\n" if kept else ""
    pixels = 1 + kept
    body = f"""    int8_t *zeros = b0;
{f"    int8_t *kept = b0 + {channels};{chr(10)}" if kept else ""}    memset(b0, {layer.x.zero_point}, {pixels * channels});
    const int8_t *rows[{kh}] = {{ {", ".join(f"x{k}" for k in range(kh))} }};
    for (int32_t ox = 0; ox < {layer.y.shape[2]}; ++ox) {{
        const int8_t *taps[{kh * kw}];
        for (int32_t i = 0; i < {kh}; ++i) {{
            for (int32_t j = 0; j < {kw}; ++j) {{
                int32_t ix = {column};
                taps[i * {kw} + j] = rows[i] != 0 && ix >= 0 && ix < {iw} ? rows[i] + ix * {channels} : zeros;
            }}
        }}
{first}        const int8_t *w = p0;
        const int32_t *p = p1;
        for (int32_t c = 0; c < {channels}; ++c, w += {kh * kw}, p += 4) {{
            int32_t sum = p[0] + {sums};
{keep}            *y0++ = (int8_t){expression(rescale, "sum", "p + 1")};
        }}
    }}
"""
    return Kernel(
        family="depthwise_taps",
        parameters=(
            *(Parameter(Role.INPUT, k, "int8_t") for k in range(kh)),
            Parameter(Role.CONSTANT, 0, "int8_t"),
            Parameter(Role.CONSTANT, 1, "int32_t"),
            Parameter(Role.OUTPUT, 0, "int8_t"),
            Parameter(Role.WORKSPACE, 0, "int8_t"),
        ),
        body=body,
        helpers=helpers(rescale.form),
        constants=constants,
        workspace_bytes=pixels * channels,
        overlaps={0: 0},
    )
