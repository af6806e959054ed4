# SPDX-License-Identifier: Apache-2.0
"""Kernels of matrix products of two values that are both computed."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.kernels.kernel import Kernel, Parameter, c_type, loops, operands, place
from mlf_sdk.compiler.kernels.scaling import RESCALE_INT64, SATURATE, SCALING, saturated
from mlf_sdk.compiler.reals import MatMul
from mlf_sdk.compiler.regions import strides
from mlf_sdk.compiler.requantise import matrix_multiplier


class _Terms(msgspec.Struct, frozen=True, kw_only=True):
    """C texts of sums of products, by the type of the values.

    Attributes:
        element, type: of the first matrix, as it is multiplied.
        sum: type of a sum.
        before: statements before the loops.
        start: what sums begin with; ``row``: statements before those of a row.
        result: stored value of a sum.
    """

    element: str
    type: str
    sum: str
    before: str = ""
    row: str = ""
    start: str = "0"
    result: str = "{}"
    helpers: Mapping[str, str] = {}


def mat_mul(graph: Graph, operator: MatMul) -> Kernel:
    """Products of matrices: four columns at a time, then one."""
    a, b = graph.read(operator)[:2]
    (y,) = graph.written(operator)
    (m, k), n = a.shape[-2:], b.shape[-1]
    batch = y.shape[:-2]
    parameters, constants = operands(graph, operator)
    terms = _terms(y, parameters) if y.quantisation is None else _stored_terms(a, b, y)
    first, second = (f"{p.name} + {_place(v, batch)}" for p, v in zip(parameters, (a, b), strict=False))

    def columns(count: int) -> str:
        products = "".join(f"                    s{i} += e * w[{i}];\n" for i in range(count))
        places = ["c"] if count == 1 else [f"c + {i}" for i in range(count)]
        stored = "".join(
            f"                z[{at}] = {terms.result.format(f's{i}')};\n" for i, at in enumerate(places)
        )
        return f"""                {terms.sum} {", ".join(f"s{i} = {terms.start}" for i in range(count))};
                const {c_type(b.dtype)} *w = v + c;
                for (int32_t i = 0; i < {k}; ++i, w += {n}) {{
                    {terms.type} e = {terms.element};
{products}                }}
{stored}"""

    body = f"""{terms.before}{chr(10).join(loops("i", batch))}
    {{
        const {c_type(a.dtype)} *u = {first};
        const {c_type(b.dtype)} *v = {second};
        {c_type(y.dtype)} *z = y0 + {place("i", (s * m * n for s in strides(batch)))};
        for (int32_t r = 0; r < {m}; ++r, u += {k}, z += {n}) {{
{terms.row}            int32_t c = 0;
            for (; c + 4 <= {n}; c += 4) {{
{columns(4)}            }}
            for (; c < {n}; ++c) {{
{columns(1)}            }}
        }}
    }}
"""
    return Kernel("matmul", parameters, body, helpers=terms.helpers, constants=constants)


def _terms(y: Value, parameters: tuple[Parameter, ...]) -> _Terms:
    """Of real or whole numbers; a third input is taken off every element."""
    kind = c_type(y.dtype)
    terms = _Terms(element="u[i]", type=kind, sum=kind)
    if len(parameters) == 3:  # with the output
        return terms
    before = f"    const {kind} zero = {parameters[2].name}[0];\n"
    return msgspec.structs.replace(terms, element="u[i] - zero", before=before)


def _stored_terms(a: Value, b: Value, y: Value) -> _Terms:
    """Of stored values; the zero point of the second matrix is in what the sums start with."""
    wide, by, k = y.dtype == np.int16, matrix_multiplier(a, b, y), a.shape[-1]
    element = f"u[i] - ({a.zero_point})" if a.zero_point else "u[i]"
    row = f"""            int32_t first = 0;
            for (int32_t i = 0; i < {k}; ++i) {{
                first -= ({element}) * ({b.zero_point});
            }}
"""
    scaled = f"{'scale_wide' if wide else 'scale_sum'}({{}}, {by.value}, {by.shift})"
    return _Terms(
        element=element,
        type="int32_t",
        sum="int64_t" if wide else "int32_t",
        row=row if b.zero_point else "",
        start="first" if b.zero_point else "0",
        result=f"({c_type(y.dtype)}){saturated(scaled, y)}",
        helpers={"saturate": SATURATE, "scale_wide": RESCALE_INT64} if wide else SCALING,
    )


def _place(value: Value, batch: tuple[int, ...]) -> str:
    """Expression of the first element of a matrix, by the indices of the batch."""
    own = (1,) * (len(batch) + 2 - len(value.shape)) + value.shape
    steps = zip(strides(own)[: len(batch)], own, strict=False)
    return place("i", (step if extent > 1 else 0 for step, extent in steps))
