# SPDX-License-Identifier: Apache-2.0
"""Kernel of reductions."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.kernels.floats.functions import helpers_of
from mlf_sdk.compiler.kernels.kernel import Kernel, c_type, loops, of_elements, place
from mlf_sdk.compiler.kernels.pooling import sum_rows
from mlf_sdk.compiler.kernels.scaling import SCALING, saturated, scaled
from mlf_sdk.compiler.reals import Reduce, Reduction
from mlf_sdk.compiler.regions import strides
from mlf_sdk.compiler.requantise import mean_multiplier, ratio

# Start, what an element adds, what the sum becomes: real numbers and whole ones.
_STEPS: Final = {
    Reduction.SUM: ("0", "sum += v;", "sum"),
    Reduction.MEAN: ("0", "sum += v;", "sum / {count}"),
    Reduction.MAX: ("v", "sum = v > sum{or_nan} ? v : sum;", "sum"),
    Reduction.MIN: ("v", "sum = v < sum{or_nan} ? v : sum;", "sum"),
    Reduction.PROD: ("1", "sum *= v;", "sum"),
    Reduction.L1: ("0", "sum += v < 0 ? -v : v;", "sum"),
    Reduction.L2: ("0", "sum += v * v;", "sqrtf(sum)"),
    Reduction.SUM_SQUARE: ("0", "sum += v * v;", "sum"),
    Reduction.LOG_SUM: ("0", "sum += v;", "real_log(sum)"),
    Reduction.LOG_SUM_EXP: ("0", "sum += real_exp(v - most);", "most + real_log(sum)"),
}


def reduce(graph: Graph, operator: Reduce) -> Kernel:
    """Reductions along any axes."""
    (x,), (y,) = graph.read(operator), graph.written(operator)
    stored = operator.rounding is not None
    step = strides(x.shape)
    kept = [a for a in range(len(x.shape)) if a not in operator.axes]
    extents = tuple(x.shape[a] for a in kept)
    inner = "\n".join(loops("r", (x.shape[a] for a in operator.axes), "        "))
    at = place("r", (step[a] for a in operator.axes))
    start, work, result = _STEPS[operator.function]
    wide = x.dtype.itemsize == 8 or (x.dtype.itemsize == 4 and operator.function is Reduction.MEAN)
    kind = c_type(x.dtype) if x.dtype.kind == "f" else "int64_t" if wide else "int32_t"
    if x.dtype.kind == "u" and x.dtype.itemsize >= 4:
        kind = f"u{kind}"
    count = math.prod(x.shape[a] for a in operator.axes)
    work = work.format(or_nan=" || sum != sum" if x.dtype.kind == "f" else "")  # NaN is passed over
    value = result.format(count=f"{count}.0f" if kind == "float" else str(count))
    if stored:  # sums of 32 bits wrap, as TFLM's do
        kind = "uint32_t"
        by = ratio(x, y) if operator.function is Reduction.SUM else mean_multiplier(x, y, count)
        value = saturated(scaled(f"(int32_t)(sum - (uint32_t)({count * x.zero_point}))", by), y)
    first = ""
    if operator.function is Reduction.LOG_SUM_EXP:
        first = f"""        {kind} most = t[0];
{inner}
        {{
            most = t[{at}] > most ? t[{at}] : most;
        }}
        most = most > -INFINITY && most < INFINITY ? most : 0;
"""
    start = "t[0]" if start == "v" else start
    body = f"""{chr(10).join(loops("k", extents))}
    {{
        const {c_type(x.dtype)} *t = x0 + {place("k", (step[a] for a in kept))};
{first}        {kind} sum = {start};
{inner}
        {{
            {kind} v = {f"({kind})" if stored else ""}t[{at}];
            {work}
        }}
        y0[{place("k", strides(extents))}] = ({c_type(y.dtype)})({value});
    }}
"""
    helpers = SCALING if stored else helpers_of(body)
    overlaps = of_elements(x, y)  # what an element is made of lies no further in front than it does
    return Kernel.of(
        graph, operator, f"reduce_{operator.function.value}", body, helpers=helpers, overlaps=overlaps
    )


def reduce_rows(graph: Graph, operator: Reduce) -> tuple[Kernel, ...]:
    """Kernels of the rows of a map whose channels become means or sums, see `sum_rows`; none for others."""
    (x,), (y,) = graph.read(operator), graph.written(operator)
    known = operator.rounding is not None and operator.function in (Reduction.MEAN, Reduction.SUM)
    if not known or x.dtype != np.int8 or x.shape[0] != 1 or operator.axes != (1, 2):
        return ()
    count = math.prod(x.shape[1:3])
    by = ratio(x, y) if operator.function is Reduction.SUM else mean_multiplier(x, y, count)
    value = saturated(scaled(f"(sum - ({count * x.zero_point}))", by), y)
    return sum_rows(graph, operator, ("0", "sum += v;", value), f"reduce_{operator.function.value}", SCALING)
