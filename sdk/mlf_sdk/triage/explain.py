# SPDX-License-Identifier: Apache-2.0
"""A fault that a target reported, explained by the image that it ran: where it was, how it got there, why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from mlf_sdk.analysis.elf.codemap import CodeMap, Function
from mlf_sdk.errors import InputError
from mlf_sdk.triage.faultline import FaultReport
from mlf_sdk.triage.faultwords import cause, status_words

_MOST_FRAMES = 32
_ENOUGH = 2  # frames that fit together: no chance
_LAST = frozenset({"main", "mlf_reset_handler"})
_SHOWN_WIDTH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A function on the way to a fault.

    Attributes:
        address: of the instruction; of a call, for all but the innermost.
        function: its name, with the offset; empty: not known.
        path, line: its source; 0: not known.
        text: that line, where the source lies beside the image.
        certain: False: by the look of the stack only.
        repeats: how many frames in a row were this one.
    """

    address: int
    function: str = ""
    path: str = ""
    line: int = 0
    text: str = ""
    certain: bool = True
    repeats: int = 1

    @property
    def place(self) -> str:
        """Function, file and line for people."""
        source = f"{self.path}:{self.line}" if self.line else "no debug information"
        return f"{self.function or f'0x{self.address:08x}'}  {source}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Triage:
    """What is known of a fault.

    Attributes:
        fault: as reported.
        cause: most probably, in a sentence; empty: not known.
        status: the bits of the fault status registers, in words.
        instruction: at pc, as in a listing.
        frames: innermost first; its first is where it was.
        step_name: function of the step that ran; empty: not known.
    """

    fault: FaultReport
    cause: str
    status: tuple[str, ...]
    instruction: str = ""
    frames: tuple[Frame, ...] = ()
    step_name: str = ""


def triage(fault: FaultReport, elf: Path | None, *, step_name: str = "") -> Triage:
    """Explain a fault by the image; with no image, or one that can't be read, by the registers alone."""
    code: CodeMap | None = None
    if elf is not None and fault.registers:
        try:
            code = CodeMap(elf)
        except InputError:
            code = None
    pc = fault.registers.get("pc", 0) & ~1
    instruction = code.instruction_at(pc) if code is not None and pc else ""
    root = elf.parent.parent if elf is not None else None
    return Triage(
        fault=fault,
        cause=cause(fault, instruction=instruction, runs=code is None or code.is_code(pc)),
        status=status_words(fault.registers),
        instruction=instruction,
        frames=_described(code, _walk(code, fault, step_name), root) if code is not None else (),
        step_name=step_name,
    )


# ---- the way through the stack ----


@dataclass(frozen=True, slots=True)
class _Step:
    address: int
    certain: bool = True
    is_entry: bool = False


def _walk(code: CodeMap, fault: FaultReport, step_name: str) -> list[_Step]:
    """The addresses from the fault outwards."""
    pc, lr = (fault.registers.get(name, 0) & ~1 for name in ("pc", "lr"))
    words = {offset: word & ~1 for offset, word in fault.calls}
    if pc and code.is_code(pc):
        return [_Step(pc), *_callers(code, words, pc, 0, lr, is_call=False)]
    called = code.call_before(lr) if lr else None
    if called is not None:
        return [_Step(called.address), *_callers(code, words, called.address, 0, None, is_call=True)]
    return _lost(code, words, code.function_named(step_name))


def _lost(code: CodeMap, words: dict[int, int], kernel: Function | None) -> list[_Step]:
    """With the registers lost: the deepest return address from which a call path leads on."""
    first: list[_Step] = []
    for offset, word in sorted(words.items()):
        call = code.call_before(word)
        if call is None:
            continue
        # What it called is where the stack ended; through a pointer it calls the step's kernel.
        target = call.target if call.target is not None else kernel.address if kernel else None
        inner = [_Step(target, certain=False, is_entry=True)] if target is not None else []
        onward = list(_callers(code, words, call.address, offset + 4, None, is_call=True))
        found = [*inner, _Step(call.address, certain=bool(onward)), *onward]
        if sum(step.certain for step in onward) >= _ENOUGH:
            return found
        first = first or found
    return first


def _callers(
    code: CodeMap, words: dict[int, int], at: int, sp: int, lr: int | None, *, is_call: bool
) -> Iterator[_Step]:
    """The calls that lead to an address, innermost first; ``sp`` counts from that of the fault.

    By the frames of the debug information; where that ends, by the look of the stack.
    """
    for _ in range(_MOST_FRAMES):
        function = code.function_at(at)
        if function is None or function.name in _LAST:
            return
        rule = code.frame_at(at + 2 if is_call else at)
        back, certain = None, True
        if rule is not None:
            end = sp + rule.size_bytes
            back = lr if rule.return_at is None else words.get(end + rule.return_at)
            sp_after = end
        call = code.call_before(back) if back is not None else None
        if call is None:
            certain = False
            found = next(
                (
                    (offset, site)
                    for offset, word in sorted(words.items())
                    if offset >= sp
                    and (site := code.call_before(word)) is not None
                    and site.target in {function.address, None}
                ),
                None,
            )
            if found is None:
                return
            sp_after, call = found[0] + 4, found[1]
        yield _Step(call.address, certain=certain)
        at, sp, lr, is_call = call.address, sp_after, None, True


# ---- in words ----


def _described(code: CodeMap, steps: list[_Step], root: Path | None) -> tuple[Frame, ...]:
    frames: list[Frame] = []
    for step in steps:
        function = code.function_at(step.address)
        source = code.line_at(step.address, is_entry=step.is_entry)
        offset = "" if function is None else f"{function.name}+0x{step.address - function.address:x}"
        frame = Frame(
            address=step.address,
            function=offset,
            path=source.path.removeprefix("./") if source else "",
            line=source.line if source else 0,
            text=source_text(root, source.path, source.line) if source and root else "",
            certain=step.certain,
        )
        if frames and (frames[-1].function, frames[-1].line) == (frame.function, frame.line):
            frames[-1] = replace(frames[-1], repeats=frames[-1].repeats + 1)
        else:
            frames.append(frame)
    return tuple(frames)


def source_text(root: Path, path: str, line: int) -> str:
    """A line of a project's source, shortened; empty where the source is elsewhere."""
    try:
        with (root / path).open(encoding="utf-8", errors="replace") as file:
            for number, text in enumerate(file, 1):
                if number == line:
                    return text.strip()[:_SHOWN_WIDTH]
    except OSError:
        pass
    return ""


def fault_headline(found: Triage) -> str:
    """What happened, in a line."""
    fault = found.fault
    name = f" ({found.step_name})" if found.step_name else ""
    at_step = f" in step {fault.step}{name}" if fault.step >= 0 else ""
    return f"the target faulted{at_step}: {fault.kind}"


def triage_lines(found: Triage) -> list[str]:
    """The explanation for people: a line each, what matters most first."""
    fault = found.fault
    lines = [f"cause: {found.cause}"] if found.cause else []
    for index, frame in enumerate(found.frames):
        head = ("in", "from")[index > 0]
        if not frame.certain:
            head = ("in, or in what it calls:", "from, by the look of the stack:")[index > 0]
        times = f"  ({frame.repeats} times)" if frame.repeats > 1 else ""
        lines.append(f"{head} {frame.place}{times}")
        if frame.text and index == 0:
            lines.append(f"    {frame.text}")
    lines += [text for names in _ROWS if (text := _registers(fault, names))]
    if "cfsr" in fault.registers:
        lines += list(found.status)
        if not fault.registers["cfsr"] and not fault.registers.get("hfsr") and fault.kind == "hardfault":
            lines.append("no fault status: Armv6-M (Cortex-M0, M0+) has no such registers")
    return lines


_ROWS = (
    ("pc", "lr", "sp", "xpsr"),
    ("r0", "r1", "r2", "r3", "r12"),
    ("cfsr", "hfsr", "mmfar", "bfar"),
)


def _registers(fault: FaultReport, names: tuple[str, ...]) -> str:
    return " ".join(f"{name}=0x{fault.registers[name]:08x}" for name in names if name in fault.registers)


def triage_values(found: Triage) -> dict[str, object]:
    """The explanation as plain values."""
    fault = found.fault
    return {
        "kind": fault.kind,
        "cause": found.cause,
        "model": fault.model or None,
        "step": fault.step if fault.step >= 0 else None,
        "step_name": found.step_name or None,
        "registers": {name: f"0x{value:08x}" for name, value in fault.registers.items()},
        "status": list(found.status),
        "instruction": found.instruction or None,
        "frames": [
            {
                "address": f"0x{frame.address:08x}",
                "function": frame.function or None,
                "file": frame.path or None,
                "line": frame.line or None,
                "certain": frame.certain,
                "repeats": frame.repeats,
            }
            for frame in found.frames
        ],
    }
