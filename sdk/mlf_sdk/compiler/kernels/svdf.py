# SPDX-License-Identifier: Apache-2.0
"""Kernel of SVDF: the delay line of each filter moves by one, takes a new entry and is summed up."""

from __future__ import annotations

from typing import Final

import numpy as np

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.assembly import DSP, INCLUDE_ACLE
from mlf_sdk.compiler.kernels.kernel import Kernel, arguments, c_type
from mlf_sdk.compiler.kernels.scaling import SCALING, saturated, scaled
from mlf_sdk.compiler.kernels.vector_matrix import SUMS, four_rows, pack, pairs_of
from mlf_sdk.compiler.recurrences import Svdf
from mlf_sdk.compiler.requantise import Multiplier

_GROUP: Final = 4  # filters

# A line and its sum, by the type of both; lines of int16 with an even number of entries two at a time.
_ADVANCE: Final = """static inline int32_t advance_{name}({kind} *line, const {times} *k, int32_t size, int32_t entry, int32_t sum)
{{
{fast}    uint32_t total = (uint32_t)sum;
    for (; size > 1; --size, ++line, ++k) {{
        line[0] = line[1];
        total += (uint32_t)(line[0] * k[0]);
    }}
    line[0] = ({kind})entry;
    return (int32_t)(total + (uint32_t)(line[0] * k[0]));
}}
"""
_PAIRS: Final = f"""#if {DSP}
    uint32_t old, next, times;
    memcpy(&old, line, 4);
    for (; size > 2; size -= 2, line += 2, k += 2) {{
        memcpy(&next, line + 2, 4);
        memcpy(&times, k, 4);
        old = old >> 16 | next << 16;
        memcpy(line, &old, 4);
        sum = __smlad((int32_t)old, (int32_t)times, sum);
        old = next;
    }}
    memcpy(&times, k, 4);
    old = old >> 16 | (uint32_t)entry << 16;
    memcpy(line, &old, 4);
    return __smlad((int32_t)old, (int32_t)times, sum);
#endif
"""


def svdf(graph: Graph, operator: Svdf) -> Kernel:
    """SVDF."""
    x, features, times, *bias = graph.read(operator)
    (y,) = graph.written(operator)
    state = graph.states[operator.state]
    filters, memory = times.shape
    batches = x.shape[0]
    size = x.elements // batches
    units = filters // operator.rank
    entry = Multiplier.of(x.scale * features.scale / state.scale)
    result = Multiplier.of(state.scale * times.scale / y.scale)
    kind = c_type(state.dtype)
    info = np.iinfo(state.dtype)
    rows = np.pad(features.constant, ((0, -filters % _GROUP), (0, 0)))
    packed = np.ascontiguousarray(pack([rows[i::_GROUP] for i in range(_GROUP)]))
    constants = [packed.view(np.int32).reshape(-1), times.constant.reshape(-1)]
    if bias and bias[0].data is not None:
        constants.append(bias[0].data.reshape(-1).astype(np.int32))
    start = f"p2[g / {operator.rank}]" if len(constants) == 3 else "0"
    pairs = pairs_of(size)
    advance, text = _advance(kind, c_type(times.dtype), memory)
    body = f"""    int16_t *given = (int16_t *)b0;
    int32_t *sums = b0 + {pairs};
    memset(given, 0, {4 * pairs});
    for (int32_t b = 0; b < {batches}; ++b) {{
        const int32_t *w = p0;
        {kind} *line = s0 + b * {filters * memory};
        int32_t total = 0;
        for (int32_t i = 0; i < {size}; ++i) {{
            given[i] = (int16_t)(x0[b * {size} + i] - ({x.zero_point}));
        }}
        for (int32_t f = 0; f < {filters}; f += {_GROUP}, w += {2 * pairs}) {{
            memset(sums, 0, {4 * SUMS});
            four_rows(b0, w, sums);
            for (int32_t g = f; g < f + {_GROUP} && g < {filters}; ++g, line += {memory}) {{
                int32_t entry = saturate({scaled("sums[g - f]", entry)} + ({state.zero_point}), {int(info.min)}, {int(info.max)});
                if (g % {operator.rank} == 0) {{
                    total = {start};
                }}
                total = {advance}(line, p1 + g * {memory}, {memory}, entry, total);
                if (g % {operator.rank} == {operator.rank - 1}) {{
                    y0[b * {units} + g / {operator.rank}] = ({c_type(y.dtype)}){saturated(scaled("total", result), y, operator.clamp)};
                }}
            }}
        }}
    }}
"""
    return Kernel(
        family="svdf",
        parameters=arguments(graph, operator, reads=1, constants=tuple(constants), workspace="int32_t"),
        body=body,
        helpers={**SCALING, **four_rows(), advance: text},
        constants=tuple(constants),
        workspace_bytes=4 * (pairs + SUMS),
        overlaps={0: 0} if batches == 1 else {},  # all of the input is read first
    )


def _advance(kind: str, times: str, entries: int) -> tuple[str, str]:
    """Function ``(line, weights, entries, new entry, sum)``, which gives the sum; its name and text."""
    even = kind == times == "int16_t" and entries % 2 == 0
    name = f"{kind.removesuffix('_t')}_{times.removesuffix('_t')}{'_even' if even else ''}"
    text = _ADVANCE.format(name=name, kind=kind, times=times, fast=_PAIRS if even else "")
    return f"advance_{name}", (INCLUDE_ACLE if even else "") + text
