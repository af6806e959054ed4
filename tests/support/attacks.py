# SPDX-License-Identifier: Apache-2.0
"""Archives made to break the plan and its proof: legal C that a plan must respect, and kernels that leave their
tensors. Each comes with its inputs and with what the code computes when nothing shares memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from archives import tar_bytes
from model_cases import PREAMBLE, SIGNATURE, Net

Arrays = dict[str, np.ndarray[Any, Any]]
SIZE = 256
I = np.arange(SIZE, dtype=np.int32)  # noqa: E741


def loop(statement: str, count: int = SIZE) -> str:
    return f"  for (int32_t i = 0; i < {count}; ++i) {{ {statement} }}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """A graph of kernels.

    Attributes:
        calls: function, its inputs (``x`` or earlier functions) and its body, which has p0, p1, ... and T.
        expected: outputs of the last call for an input.
        top: text before the kernels.
        more: further members of the archive.
    """

    name: str
    calls: Sequence[tuple[str, Sequence[str], str]]
    expected: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]
    top: str = ""
    more: dict[str, str] = field(default_factory=dict)
    dtype: str = "int32"

    def inputs(self) -> Arrays:
        values = np.random.default_rng(7).integers(-100, 100, SIZE)
        return {"x": values.astype(self.dtype)}

    def write(self, folder: Path) -> Path:
        net = Net(self.name)
        refs = {"x": net.input("x", (SIZE,), self.dtype)}
        for function, inputs, body in self.calls:
            symbol = net.symbol(function)
            refs[function] = net.call(function, [refs[i] for i in inputs], define=False)
            net.kernels[symbol] = self._kernel(symbol, len(inputs), body)
        files = net.files(refs[self.calls[-1][0]])
        source = next(name for name in files if name.endswith(".c"))
        files[source] = files[source].replace(PREAMBLE.encode(), (PREAMBLE + self.top).encode(), 1)
        files.update({name: (PREAMBLE + text).encode() for name, text in self.more.items()})
        path = folder / f"{self.name}.tar"
        path.write_bytes(tar_bytes(files))
        return path

    @staticmethod
    def _kernel(symbol: str, inputs: int, body: str) -> str:
        return body if body.startswith("#") else packed(symbol, inputs, body)


def packed(symbol: str, inputs: int, body: str, head: str = "TVM_DLL") -> str:
    """A packed kernel as TVM writes them, around a body."""
    names = [*(f"p{i}" for i in range(inputs)), "T"]
    lines = [f"  void* arg_{name} = (((TVMValue*)args)[{i}].v_handle);\n" for i, name in enumerate(names)]
    lines += [f"  void* {name} = (((DLTensor*)arg_{name})[0].data);\n" for name in names]
    device = "  int32_t dev_id = (((DLTensor*)arg_p0)[0].device.device_id);\n"
    return f"{head} int32_t {symbol}{SIGNATURE} {{\n{''.join(lines)}{device}{body}  return 0;\n}}\n"


FIRST = loop("((int32_t*)T)[i] = ((int32_t*)p0)[i] * 2 + i;")
LAST = loop("((int32_t*)T)[i] = ((int32_t*)p0)[i] * 4 + i;")
SUM = loop("((int32_t*)T)[i] = ((int32_t*)p0)[i] + 5 * ((int32_t*)p1)[i];")


def late_reader(declaration: str, use: str) -> str:
    """A body that looks as if it were done with p0 before it writes T, and reads p0 by another name at last."""
    return (
        f"  {declaration}\n"
        "  void* ws = TVMBackendAllocWorkspace(1, dev_id, (uint64_t)1024, 0, 32);\n"
        "  if (ws == NULL) { return -1; }\n"
        + loop("((int32_t*)ws)[i] = ((int32_t*)p0)[i] + 7;")
        + loop("((int32_t*)T)[i] = ((int32_t*)ws)[i] * 3;")
        + loop(f"((int32_t*)T)[i] = ((int32_t*)T)[i] + {use};")
        + "  if (TVMBackendFreeWorkspace(1, dev_id, ws) != 0) { return -1; }\n"
    )


def late_expected(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    a = 2 * x + I
    return 4 * (3 * (a + 7) + a) + I


EARLY = (
    "  void* ws = TVMBackendAllocWorkspace(1, dev_id, (uint64_t)1024, 0, 32);\n"
    "  if (ws == NULL) { return -1; }\n"
    + loop("((int32_t*)ws)[i] = ((int32_t*)p0)[i];")
    + loop("((int32_t*)T)[i] = ((int32_t*)ws)[i];")
    + "  if (TVMBackendFreeWorkspace(1, dev_id, ws) != 0) { return -1; }\n"
)


def late(name: str, declaration: str, use: str, top: str = "") -> Attack:
    middle = late_reader(declaration, use)
    calls = (("k1", ["x"], FIRST), ("k2", ["k1"], middle), ("k3", ["k2"], LAST))
    return Attack(name=name, calls=calls, expected=late_expected, top=top)


def hidden(name: str, around: Callable[[str, str], str], more: dict[str, str], top: str = "") -> Attack:
    """The kernel k2 that is visible first is not the one that is linked."""
    symbol = f"tvmgen_{name}_k2"
    real = packed(symbol, 1, late_reader("int32_t* q = (int32_t*)p0;", "q[i]"))
    calls = (("k1", ["x"], FIRST), ("k2", ["k1"], around(real, symbol)), ("k3", ["k2"], LAST))
    return Attack(
        name=name,
        calls=calls,
        expected=late_expected,
        top=top,
        more={member: text.replace("REAL", real) for member, text in more.items()},
    )


def stateful(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return (x + I) * 3 + (2 * x + 1 + 5)


LEGAL = (
    late("ext_addr", "int32_t* q = __extension__ & ((int32_t*)p0)[0];", "q[i]"),
    late("half_arr", "int32_t* q = ((half*)p0)[0];", "q[i]", "typedef int32_t half[4];\n"),
    late("desig", "int32_t* q[1] = { [0] & ((int32_t*)p0)[0] };", "q[0][i]"),
    hidden(
        "opt_header",
        lambda real, symbol: (
            '#define USE_OPTIMISED\n#ifdef USE_OPTIMISED\n#include "k2_opt.h"\n#else\n'
            + packed(symbol, 1, EARLY)
            + "#endif\n"
        ),
        {"codegen/host/include/k2_opt.h": "REAL"},
    ),
    hidden(
        "decoy_static",
        lambda real, symbol: "#define DECOY 0\n" + real,
        {
            "codegen/host/src/decoy_lib0.c": packed("tvmgen_decoy_static_k2", 1, EARLY, "static")
            + "int32_t decoy_user(void) { return (int32_t)(uintptr_t)tvmgen_decoy_static_k2; }\n"
        },
    ),
    Attack(
        name="globptr",
        top="static void* g_saved;\n",
        calls=(
            ("k1", ["x"], "  g_saved = p0;\n" + FIRST),
            ("k2", ["k1"], loop("((int32_t*)T)[i] = ((int32_t*)p0)[i] * 3 + i;")),
            ("k3", ["k2"], loop("((int32_t*)T)[i] = ((int32_t*)p0)[i] + ((int32_t*)g_saved)[i];")),
        ),
        expected=lambda x: 3 * (2 * x + I) + I + x,
    ),
    Attack(
        name="inplace",
        calls=(
            (
                "kb",
                ["x"],
                loop("((int32_t*)T)[i] = ((int32_t*)p0)[i] + i;")
                + loop("((int32_t*)p0)[i] = ((int32_t*)p0)[i] * 3 + 1;"),
            ),
            ("kc", ["x"], loop("((int32_t*)T)[i] = ((int32_t*)p0)[i] * 2;")),
            ("kr", ["kb"], loop("((int32_t*)T)[i] = ((int32_t*)p0)[i] * (i + 1);")),
            ("ka", ["kr", "kc"], SUM),
        ),
        expected=lambda x: (x + I) * (I + 1) + 5 * 2 * (3 * x + 1),
    ),
    Attack(
        name="stateful",
        top="static int32_t state = 1;\n",
        calls=(
            ("kb", ["x"], loop("((int32_t*)T)[i] = ((int32_t*)p0)[i] + i;") + "  state = state + 5;\n"),
            ("kc", ["x"], loop("((int32_t*)T)[i] = ((int32_t*)p0)[i] * 2 + state;")),
            ("kr", ["kb"], loop("((int32_t*)T)[i] = ((int32_t*)p0)[i] * 3;")),
            ("ka", ["kr", "kc"], loop("((int32_t*)T)[i] = ((int32_t*)p0)[i] + ((int32_t*)p1)[i];")),
        ),
        expected=stateful,
    ),
)
"""Legal C: runs right, or is refused."""


def leaving(name: str, body: str) -> Attack:
    calls = (("k1", ["x"], FIRST), ("k2", ["k1"], body), ("k3", ["k1", "k2"], SUM))
    return Attack(name=name, calls=calls, expected=lambda x: 6 * (2 * x + I))


BYTE = loop("((int8_t*)T)[i] = ((int8_t)(((int8_t*)p0)[i] + 1));")
BYTES = "((int8_t*)p0)[i] * 1 + ((int8_t*)p1)[i] * 2 + ((int8_t*)p2)[i] * 3"
ILLEGAL = (
    leaving("overrun1", loop("((int32_t*)T)[i] = ((i < 256) ? ((int32_t*)p0)[i] : 12345);", count=SIZE + 1)),
    leaving("bigger_kernel", loop("((int32_t*)T)[i] = ((int32_t*)p0)[(i % 256)];", count=300)),
    Attack(
        name="byte4",
        dtype="int8",
        calls=(
            ("k1", ["x"], BYTE),
            (
                "k2",
                ["x"],
                loop(
                    "((int8_t*)T)[(i - 1)] = ((int8_t)(((int8_t*)p0)[i] ^ 85)); "
                    "((int8_t*)T)[i] = ((int8_t)(((int8_t*)p0)[i] ^ 85));"
                ),
            ),
            ("k3", ["k1", "k2", "x"], loop(f"((int8_t*)T)[i] = ((int8_t)({BYTES}));")),
        ),
        expected=lambda x: (x + 1) * 1 + (x ^ 85) * 2 + x * 3,
    ),
)
"""Kernels that write outside of their tensors: refused, or found."""
