# SPDX-License-Identifier: Apache-2.0
"""Choice of the kernels that take the least flash together: constants, and code that layers share.

Bytes of constants are exact. Those of code are estimated from its text, for no compiler of the core need be
there: so many for an instruction, so many for a token of C.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mlf_sdk.compiler.cores import Core, core_macros
from mlf_sdk.compiler.kernels.kernel import Kernel

_INSTRUCTION_BYTES: Final = 3.8
_TOKEN_BYTES: Final = 1.1
_LEAST_GAIN: Final = 0.001  # of a change: less is rounding
_ARGUMENT_BYTES: Final = 8  # of a call: an instruction and the address that it loads

_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TOKEN: Final = re.compile(r"\w+|[-+*/%<>&|^=!?\[]")


@dataclass(frozen=True, slots=True)
class _Flash:
    """Bytes that a kernel takes for itself, and those of each function that it shares with others."""

    own: int
    shared: dict[str, float]

    @classmethod
    def of(cls, kernel: Kernel, core: Core) -> _Flash:
        texts = _called(kernel, core)
        inlined = [kernel.body, *(text for text in texts.values() if "static inline" in text)]
        shared = {name: code_bytes(t, core) for name, t in texts.items() if "static inline" not in t}
        shared[kernel.key] = sum(code_bytes(text, core) for text in inlined)
        return cls(kernel.constants_bytes + _ARGUMENT_BYTES * len(kernel.parameters), shared)


def _called(kernel: Kernel, core: Core) -> dict[str, str]:
    """Helpers that a kernel's function calls on a core, themselves or through others."""
    result: dict[str, str] = {}
    todo = [kernel.body]
    while todo:
        words = set(re.findall(r"\w+", "\n".join(_compiled_lines(todo.pop(), core))))
        new = {n: text for n, text in kernel.helpers.items() if n in words and n not in result}
        result |= new
        todo += new.values()
    return result


def smallest_first(result: Sequence[tuple[Kernel, ...]], core: Core) -> list[tuple[Kernel, ...]]:
    """Kernels of each operator, first those that take the least flash together; the others in their order.

    Args:
        found: kernels that can compute each operator; none where no code is needed.
    """
    sizes = [[_Flash.of(kernel, core) for kernel in kernels] for kernels in result]
    starts = (
        [0] * len(result),
        [max(len(kernels) - 1, 0) for kernels in result],
        [min(range(len(k)), key=lambda i: k[i].own, default=0) for k in sizes],
    )
    chosen, _ = min((_improved(sizes, start) for start in starts), key=lambda one: one[1])
    return [(k[i], *k[:i], *k[i + 1 :]) if k else k for k, i in zip(result, chosen, strict=True)]


def _improved(sizes: Sequence[Sequence[_Flash]], start: Sequence[int]) -> tuple[list[int], float]:
    """A choice that no other kernel of a single operator makes smaller, and its bytes."""
    chosen = list(start)
    used = [kernels[i] for kernels, i in zip(sizes, chosen, strict=True) if kernels]
    count = Counter(name for one in used for name in one.shared)
    code = {name: size for one in used for name, size in one.shared.items()}
    total = sum(one.own for one in used) + sum(code.values())
    changed = True
    while changed:
        changed = False
        for position, kernels in enumerate(sizes):
            if not kernels:
                continue
            now = kernels[chosen[position]]
            count.subtract(now.shared.keys())
            rest = total - _added(now, count)
            costs = [rest + _added(one, count) for one in kernels]
            best = min(range(len(kernels)), key=costs.__getitem__)
            if best != chosen[position] and costs[best] < total - _LEAST_GAIN:
                chosen[position], total, changed = best, costs[best], True
            count.update(kernels[chosen[position]].shared.keys())
    return chosen, total


def _added(one: _Flash, count: Counter[str]) -> float:
    """Bytes that a kernel adds to others, whose functions are counted."""
    return one.own + sum(size for name, size in one.shared.items() if count[name] <= 0)


@functools.lru_cache(maxsize=4096)
def code_bytes(text: str, core: Core) -> float:
    """Estimated bytes of a C text's code on a core."""
    total = 0.0
    for line in _compiled_lines(_COMMENT.sub("", text), core):
        if line.lstrip().startswith('"'):
            total += _INSTRUCTION_BYTES * line.count("\\n")
        else:
            total += _TOKEN_BYTES * len(_TOKEN.findall(line))
    return total


def _compiled_lines(text: str, core: Core) -> list[str]:
    """Lines that the preprocessor leaves for a core."""
    taken: list[list[bool]] = []  # of each open condition: whether its lines are taken, and whether any were
    result = []
    for line in text.splitlines():
        word = line.lstrip()
        if word.startswith("#if"):
            holds = _holds(word, core)
            taken.append([holds, holds])
        elif word.startswith("#elif"):
            holds = not taken[-1][1] and _holds(word, core)
            taken[-1] = [holds, holds or taken[-1][1]]
        elif word.startswith("#else"):
            taken[-1] = [not taken[-1][1], True]
        elif word.startswith("#endif"):
            taken.pop()
        elif not word.startswith("MLF_UNWIND") and all(now for now, _ in taken):
            result.append(line)
    return result


def _holds(condition: str, core: Core) -> bool:
    """Return whether a condition is true on a core: every macro that tells cores apart is one of its own."""
    return all(macro in core.macros for macro in core_macros() if macro in condition)
