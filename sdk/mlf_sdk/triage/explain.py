# SPDX-License-Identifier: Apache-2.0
"""Explanation of a fault by the image that the target runs: location, call path, probable cause."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mlf_sdk.analysis.elf.image import Symbol
from mlf_sdk.analysis.elf.read import read_image
from mlf_sdk.analysis.machine.registry import faults_by_registers, machine_code
from mlf_sdk.errors import InputError
from mlf_sdk.ir.names import layer_of_function
from mlf_sdk.triage.fault_report import FaultReport

if TYPE_CHECKING:
    from mlf_sdk.analysis.machine.registry import Faults, MachineCode

_MOST_FRAMES = 32
_CONSISTENT_FRAMES = 2  # a chain of so many frames is no coincidence
_OUTERMOST = frozenset({"main", "mlf_reset_handler"})
_SHOWN_WIDTH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFrame:
    """Function on the call path of a fault.

    Attributes:
        address: of the instruction; of a call, for all but the innermost.
        function: name and offset; empty when not known.
        path, line: of its source; line 0 when not known.
        text: that line, where the source lies beside the image.
        certain: False for a frame found by scanning the stack.
        repeats: number of equal frames in a row.
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
        """Function, file and line."""
        source = f"{self.path}:{self.line}" if self.line else "no debug information"
        return f"{self.function or f'0x{self.address:08x}'}  {source}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Triage:
    """Explanation of a fault.

    Attributes:
        fault: as reported.
        cause: most probable cause, in a sentence; empty when not known.
        status: set bits of the fault status registers, described.
        instruction: disassembly at pc.
        frames: call path, innermost first.
        step_name: function of the step that ran; empty when not known.
        layer: number of the layer that ran, where several run by rows in the step; None: not known.
    """

    fault: FaultReport
    cause: str
    status: tuple[str, ...]
    instruction: str = ""
    frames: tuple[CallFrame, ...] = ()
    step_name: str = ""
    layer: int | None = None


def triage(fault: FaultReport, elf: Path | None, *, step_name: str = "") -> Triage:
    """Explain a fault by the image; without an image that can be read, by the registers alone.

    Args:
        fault: as reported by the device.
        elf: image that the device runs, ``PROJECT/build/app.elf``.
        step_name: function of the step that ran.
    """
    code: MachineCode | None = None
    if elf is not None and fault.registers:
        try:
            code = machine_code(read_image(elf))
        except InputError:
            code = None
    pc = fault.registers.get("pc", 0) & ~1
    instruction = code.text_at(pc) if code is not None and pc else ""
    root = elf.parent.parent if elf is not None else None
    faults = faults_by_registers(fault.registers)
    frames = _make_frames(code, _unwind(code, fault, step_name), root) if code is not None else ()
    layers = (layer_of_function(frame.function) for frame in frames)
    return Triage(
        fault=fault,
        cause=_cause(fault, faults, instruction=instruction, in_code=code is None or code.image.is_code(pc)),
        status=faults.describe_status(fault.registers) if faults is not None else (),
        instruction=instruction,
        frames=frames,
        step_name=step_name,
        layer=next((layer for layer in layers if layer is not None), None),
    )


def _cause(fault: FaultReport, faults: Faults | None, *, instruction: str, in_code: bool) -> str:
    """Most probable cause of a fault, in a sentence; empty where nothing can be said."""
    if fault.kind in _CAUSES:
        return _CAUSES[fault.kind]
    if faults is None or "pc" not in fault.registers:
        return _SIGNALS.get(fault.kind, "")
    return faults.probable_cause(fault.kind, fault.registers, instruction=instruction, in_code=in_code)


_CAUSES = {
    "stack-overflow": "stack overflow: local arrays of a kernel, or recursion, exceed the board's stack size",
    "abort": "the program terminated itself: abort(), a failed assertion, or a panic",
}
_SIGNALS = {
    "sigsegv": "access through an invalid pointer or index, or a jump to an invalid address",
    "sigbus": "access through an invalid pointer",
    "sigfpe": "integer division by zero",
    "sigill": "instruction that this machine does not have, or a trap",
    "sanitizer": "invalid access found by a sanitizer; its report names the line",
}


# ---- stack unwinding ----


class _Location(msgspec.Struct, frozen=True):
    address: int
    certain: bool = True
    is_entry: bool = False


def _unwind(code: MachineCode, fault: FaultReport, step_name: str) -> list[_Location]:
    """Locations on the call path, innermost first."""
    pc, lr = (fault.registers.get(name, 0) & ~1 for name in ("pc", fault.return_register))
    words = {offset: word & ~1 for offset, word in fault.calls}
    if pc and code.image.is_code(pc):
        return [_Location(pc), *_callers(code, words, pc, 0, lr, is_call=False)]
    called = code.call_before(lr) if lr else None
    if called is not None:
        return [_Location(called.address), *_callers(code, words, called.address, 0, None, is_call=True)]
    return _unwind_from_stack(code, words, code.image.find(step_name))


def _unwind_from_stack(code: MachineCode, words: dict[int, int], kernel: Symbol | None) -> list[_Location]:
    """Unwind from the deepest return address on the stack that starts a consistent call path."""
    first: list[_Location] = []
    for offset, word in sorted(words.items()):
        call = code.call_before(word)
        if call is None:
            continue
        # The called function overflowed the stack; a call through a pointer is that of the step's kernel.
        target = call.target if call.target is not None else kernel.address if kernel else None
        inner = [_Location(target, certain=False, is_entry=True)] if target is not None else []
        onward = list(_callers(code, words, call.address, offset + 4, None, is_call=True))
        result = [*inner, _Location(call.address, certain=bool(onward)), *onward]
        if sum(step.certain for step in onward) >= _CONSISTENT_FRAMES:
            return result
        first = first or result
    return first


def _callers(
    code: MachineCode, words: dict[int, int], at: int, sp: int, lr: int | None, *, is_call: bool
) -> Iterator[_Location]:
    """Yield the calls that lead to an address, innermost first.

    Frames come from the debug information; where it ends, from scanning the stack for return addresses.

    Args:
        words: possible return addresses by their distance from the sp of the fault, in bytes.
        at: address inside the innermost function.
        sp: distance from the sp of the fault, in bytes.
        lr: link register, for the innermost function.
        is_call: whether ``at`` is a call.
    """
    for _ in range(_MOST_FRAMES):
        function = code.image.function_at(at)
        if function is None or function.name in _OUTERMOST:
            return
        rule = code.image.debug.frame_at(at + 2 if is_call else at)
        back, certain = None, True
        if rule is not None:
            end = sp + rule.size_bytes
            back = lr if rule.return_at is None else words.get(end + rule.return_at)
            sp_after = end
        call = code.call_before(back) if back is not None else None
        if call is None:
            certain = False
            result = next(
                (
                    (offset, site)
                    for offset, word in sorted(words.items())
                    if offset >= sp
                    and (site := code.call_before(word)) is not None
                    and site.target in {function.address, None}
                ),
                None,
            )
            if result is None:
                return
            sp_after, call = result[0] + 4, result[1]
        yield _Location(call.address, certain=certain)
        at, sp, lr, is_call = call.address, sp_after, None, True


# ---- text and values ----


def _make_frames(code: MachineCode, steps: list[_Location], root: Path | None) -> tuple[CallFrame, ...]:
    frames: list[CallFrame] = []
    for step in steps:
        function = code.image.function_at(step.address)
        source = code.image.debug.line_at(step.address, is_entry=step.is_entry)
        offset = "" if function is None else f"{function.name}+0x{step.address - function.address:x}"
        frame = CallFrame(
            address=step.address,
            function=offset,
            path=source.path.removeprefix("./") if source else "",
            line=source.line if source else 0,
            text=source_text(root, source.path, source.line) if source and root else "",
            certain=step.certain,
        )
        frames.append(frame)
    return fold_repeats(frames)


def fold_repeats(frames: list[CallFrame]) -> tuple[CallFrame, ...]:
    """Join equal frames in a row, which a recursion leaves, to one that counts them."""
    folded: list[CallFrame] = []
    for frame in frames:
        if folded and (folded[-1].function, folded[-1].line) == (frame.function, frame.line):
            folded[-1] = replace(folded[-1], repeats=folded[-1].repeats + 1)
        else:
            folded.append(frame)
    return tuple(folded)


def source_text(root: Path, path: str, line: int) -> str:
    """Read a line of a source file of the project, shortened; empty when there is no such file."""
    try:
        with (root / path).open(encoding="utf-8", errors="replace") as file:
            for number, text in enumerate(file, 1):
                if number == line:
                    return text.strip()[:_SHOWN_WIDTH]
    except OSError:
        pass
    return ""


def fault_headline(result: Triage) -> str:
    """Summary of a fault in one line: step, kernel, layer inside of it, and kind."""
    fault = result.fault
    name = f" ({result.step_name})" if result.step_name else ""
    at_step = f" in step {fault.step}{name}" if fault.step >= 0 else ""
    if result.layer is not None:
        at_step += f"{',' if at_step else ' in'} layer {result.layer}"
    return f"the target faulted{at_step}: {fault.kind}"


def fault_text(result: Triage) -> str:
    """Summary and explanation of a fault, for a message or a console."""
    return "\n  ".join([fault_headline(result), *triage_lines(result)])


def triage_lines(result: Triage) -> list[str]:
    """Explanation as lines of text, most important first."""
    fault = result.fault
    lines = [f"cause: {result.cause}"] if result.cause else []
    for index, frame in enumerate(result.frames):
        head = ("in", "from")[index > 0]
        if not frame.certain:
            head = ("in, or in a function that it calls:", "probably from:")[index > 0]
        times = f"  ({frame.repeats} times)" if frame.repeats > 1 else ""
        lines.append(f"{head} {frame.place}{times}")
        if frame.text and index == 0:
            lines.append(f"    {frame.text}")
    faults = faults_by_registers(fault.registers)
    rows = faults.REGISTER_ROWS if faults is not None else (tuple(fault.registers),)
    lines += [text for names in rows if (text := _registers(fault, names))]
    if faults is not None:
        lines += list(result.status)
        lines += filter(None, [faults.status_note(fault.kind, fault.registers)])
    return lines


def _registers(fault: FaultReport, names: tuple[str, ...]) -> str:
    return " ".join(f"{name}=0x{fault.registers[name]:08x}" for name in names if name in fault.registers)


def triage_values(result: Triage) -> dict[str, object]:
    """Explanation as a mapping for JSON; registers and addresses in hexadecimal."""
    fault = result.fault
    return {
        "kind": fault.kind,
        "cause": result.cause,
        "model": fault.model or None,
        "step": fault.step if fault.step >= 0 else None,
        "step_name": result.step_name or None,
        "layer": result.layer,
        "registers": {name: f"0x{value:08x}" for name, value in fault.registers.items()},
        "status": list(result.status),
        "instruction": result.instruction or None,
        "frames": [
            {
                "address": f"0x{frame.address:08x}",
                "function": frame.function or None,
                "file": frame.path or None,
                "line": frame.line or None,
                "certain": frame.certain,
                "repeats": frame.repeats,
            }
            for frame in result.frames
        ],
    }
