# SPDX-License-Identifier: Apache-2.0
"""A microkernel as a static C function: assembly for an instruction set, plain C for all others."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

from mlf_sdk.compiler.microkernels.allocate import Allocation, allocated
from mlf_sdk.compiler.microkernels.builder import MOVING, Builder, Operation, Register
from mlf_sdk.compiler.microkernels.instruction_set import File, InstructionSet, instruction_set
from mlf_sdk.compiler.microkernels.plain import plain

_WORD = 4
_END = 99  # label in front of a function's last instructions
_CFI = ".cfi_"  # begins a directive of the assembler for debuggers
UNWIND = """#if defined(__GCC_HAVE_DWARF2_CFI_ASM)
#define MLF_UNWIND(rule) ".cfi_" rule "\\n"
#else
#define MLF_UNWIND(rule)
#endif
"""
"""Text of the macro around unwind rules: for compilers that begin a table of them for the function."""


def assembly(builder: Builder, target: InstructionSet) -> list[str]:
    """C string literals with one instruction each, unwind rules and comments."""
    allocation = allocated(builder, target)
    frame, files = target.frame, _saved_files(allocation, target)
    saved_bytes = frame.bytes + sum(f.bytes for f in files)
    bytes_ = _WORD * allocation.slots
    bytes_ += -(bytes_ + saved_bytes) % frame.alignment if bytes_ else 0
    lines = [_line(t.format()) for t in frame.enter]
    for file in files:
        lines += [*(_literal(t.format()) for t in file.save), _rule(f"adjust_cfa_offset {file.bytes}")]
    if bytes_:
        lines += [_literal(t.format(i=bytes_)) for t in frame.reserve]
        lines.append(_rule(f"def_cfa_offset {saved_bytes + bytes_}"))
    writer = _Writer(allocation, target, saved_bytes + bytes_)
    for o in allocation.operations:
        lines += [f"/* {o.text} */"] if o.name == "note" else [_literal(t) for t in writer.text(o)]
    if any(o.name == "leave_if" for o in allocation.operations):
        lines += [_literal(t.format(label=_END)) for t in target.flow["label"]]
    if bytes_:
        lines += [_literal(t.format(i=bytes_)) for t in frame.release]
        lines.append(_rule(f"def_cfa_offset {saved_bytes}"))
    for file in reversed(files):
        lines += [*(_literal(t.format()) for t in file.restore), _rule(f"adjust_cfa_offset -{file.bytes}")]
    return lines + [_line(t.format()) for t in frame.leave]


def _saved_files(allocation: Allocation, target: InstructionSet) -> list[File]:
    """Files of which the function uses registers that it has to preserve."""
    used = {(r.kind.file, place) for r, place in allocation.places.items() if r.kind.file}
    return [f for name, f in target.files.items() if any(n == name and k >= f.kept for n, k in used)]


def _literal(text: str) -> str:
    return f'"{text}\\n"'


def _line(text: str) -> str:
    """An instruction or an unwind rule at an end of the function."""
    return _rule(text.removeprefix(_CFI)) if text.startswith(_CFI) else _literal(text)


def _rule(text: str) -> str:
    return f'MLF_UNWIND("{text}")'


class _Writer:
    """Instructions of operations whose registers are known."""

    def __init__(self, allocation: Allocation, target: InstructionSet, frame_bytes: int) -> None:
        self._name = {r: target.names(r.kind.file)[n] for r, n in allocation.places.items()}
        self._frame_bytes = frame_bytes
        self._place = allocation.places
        self._target = target

    def text(self, o: Operation) -> Iterator[str]:
        """Instructions of an operation, one after the other."""
        spelling, flow = self._target.spellings.get(o.name), self._target.flow
        operands = [self._name[r] for r in o.operands]
        results = [self._name[r] for r in o.results]
        fields: dict[str, str | int] = dict(zip("abc", operands, strict=False))
        if spelling is not None:
            if spelling.modifies and results[0] != operands[0]:
                raise ValueError(f"{o.name}: the result is not in the register of the first operand")
            fields |= dict(zip("de", results, strict=False)) | {
                "i": o.i,
                "low": o.i & 0xFFFF,
                "high": o.i >> 16 & 0xFFFF,
            }
            return (t.format(**fields) for t in spelling.text)
        if o.name in flow:
            fields |= {"d": results[0] if results else "", "label": o.i or _END, "step": o.step}
            return (t.format(**fields) for t in flow[o.name])
        if o.name == "argument":
            offset = self._frame_bytes + _WORD * o.i
            return (t.format(d=results[0], i=offset) for t in self._target.memory["reload"])
        if o.name == "give_back":
            first, copy = self._target.registers.all[0], self._target.spellings["copy"].text
            return (t.format(d=first, a=operands[0]) for t in copy if operands[0] != first)
        if o.name in ("place", "advance"):
            return self._added(results[0], operands[0], o.i)
        key, fields = self._access(o, operands, results)
        return (t.format(**fields) for t in self._target.memory[key])

    def _access(
        self, o: Operation, operands: list[str], results: list[str]
    ) -> tuple[str, dict[str, str | int]]:
        """Key and fields of a load or a store."""
        if o.name.startswith(("spill", "reload")):
            fields: dict[str, str | int] = {"i": _WORD * o.i, "list": self._list(o.results)}
            fields |= dict(zip("ab", operands, strict=False)) | dict(zip("de", results, strict=False))
            return o.name, fields
        fields = {"base": operands[-1], "i": o.i}
        many = o.results or o.operands[:-1]
        if o.name in MOVING:
            fields["list"] = self._list(many)
        if results:
            fields["d"] = results[0]
        if len(operands) > 1:
            fields["a"] = operands[0]
        keys = {"load": ("load", "load_many"), "store_many": ("store", "store_many")}
        return keys[o.name][len(many) > 1] if o.name in keys else o.name, fields

    def _list(self, registers: tuple[Register, ...]) -> str:
        """Registers of a list, which are in ascending order."""
        places = [self._place[r] for r in registers]
        if places != sorted(places):
            raise ValueError(f"a list of registers is not in ascending order: {places}")
        return "{" + ", ".join(self._name[r] for r in registers) + "}"

    def _added(self, result: str, source: str, constant: int) -> Iterator[str]:
        """Add a constant in one instruction, or in several, or to its upper part in a register."""
        flow, limits = self._target.flow, self._target.limits
        kind = "subtract_constant" if constant < 0 else "add_constant"
        left = abs(constant)
        if left > limits.step and result != source:
            yield from (t.format(d=result, i=left) for t in flow["constant"])
            yield self._target.spellings["add"].text[0].format(d=result, a=result, b=source)
            return
        while left:
            step = left if left <= limits.step else limits.step_many
            yield from (t.format(d=result, a=source, i=step) for t in flow[kind])
            source, left = result, left - step


def static_function(
    name: str, builder: Builder, target: InstructionSet, about: str = ""
) -> Mapping[str, str]:
    """Text of a function with the builder's parameters, behind the texts that it needs, by name."""
    return function_of_sets(name, ((builder, target),), about)


def function_of_sets(
    name: str, variants: Sequence[tuple[Builder, InstructionSet]], about: str = ""
) -> Mapping[str, str]:
    """`static_function` with assembly for several instruction sets, each recorded with the same parameters.

    Its plain C is that of the first one.

    Args:
        about: begins the comment with which each function in assembly begins.
    """
    builder, target = variants[0]
    body, functions = plain(builder, target.meanings)
    result = builder.returned.c_type if builder.returned else "void "
    declarations = [f"{p.kind.c_type}{p.name}" for p in builder.parameters]
    unused = ", ".join(f"{d} __attribute__((unused))" for d in declarations)
    parts = []
    for builder, target in variants:
        lines = assembly(builder, target)
        note = about + _counts(builder, target, lines)
        parts.append(f"""if {target.condition}
__attribute__((naked, noinline)) static {result}{name}({unused})
{{
    __asm__ volatile(
{"".join(f"        {line}{chr(10)}" for line in (f"/* {note} */", *lines))}    );
}}
""")
    text = "#el".join(parts)
    text = f"""#{text}#else
static {result}{name}({", ".join(declarations)})
{{
{body}}}
#endif
"""
    return {**functions, name: text}


def _counts(builder: Builder, target: InstructionSet, lines: Sequence[str]) -> str:
    """Instructions of a function and products that these compute, each as often as it stands there."""
    instructions = sum(line.startswith('"') and not line.endswith(':\\n"') for line in lines)
    products = sum(_products(target.meanings.get(o.name, "")) for o in builder.operations)
    return f"{instructions} instructions" + (f" for {products} products" if products else "")


@functools.cache
def _products(meaning: str) -> int:
    """Products that an operation adds up or stores; of one with several results, those of the last."""
    turns, _, assignments = meaning.rpartition(": ")
    last = re.sub(r"\[[^]]*\]", "", assignments.rpartition("; ")[2])
    return int(turns or 1) * last.count(" * ")


@functools.lru_cache(maxsize=1024)
def recorded(
    name: str, target: str, record: Callable[..., Builder], *given: Hashable, **options: Hashable
) -> Mapping[str, str]:
    """`static_function` of what ``record`` records, which is kept: many layers share a function.

    Args:
        target: name of an instruction set.
        given, options: arguments of ``record``.
    """
    about = f"{record.__module__.rpartition('.')[2]}: "
    return static_function(name, record(*given, **options), instruction_set(target), about)
