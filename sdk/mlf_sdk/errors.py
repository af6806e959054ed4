# SPDX-License-Identifier: Apache-2.0
"""The one hierarchy of errors.

An error holds data: what is wrong, where it is (archive member and field path, file, board row),
and what to do about it. Only the command line prints it and turns it into an exit code.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar


def command_text(*arguments: object) -> str:
    """Command line of the SDK that can be pasted into a shell."""
    return shlex.join(["mlf-sdk", *map(str, arguments)])


class MlfError(Exception):
    """Base class of all errors of the SDK.

    Args:
        what: one sentence that says what is wrong.
        where: the place: archive member and field path, file name, board name, command.
        hint: what the person can do about it.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        text = self.what if not self.where else f"{self.where}: {self.what}"
        return text if not self.hint else f"{text}\n{self.hint}"

    @property
    def details(self) -> dict[str, object]:
        """Further fields of the error, for machine-readable output."""
        return {}


class CheckError(MlfError):
    """The work was done, and a check or a comparison failed (exit code 1)."""

    exit_code = 1


class InputError(MlfError):
    """Bad arguments or bad input (exit code 2)."""

    exit_code = 2


class NotBuiltError(InputError):
    """A project has no linked image yet."""

    def __init__(self, folder: object) -> None:
        """As `InputError`, for the project in ``folder``."""
        hint = f"Build it: {command_text('build', folder)}"
        super().__init__("the project is not built", where=str(folder), hint=hint)


class NotPossibleError(InputError):
    """Work that is known to be impossible for a model on a target, whatever else is given.

    Raised only where the impossibility itself was found. A missing file, an option that is not given, or a
    tool that failed is another error: a sweep counts a cell that is not possible as no fault.
    """


class DoesNotFitError(NotPossibleError):
    """The image needs more memory than the board has."""


class ModuleChoiceError(InputError):
    """An archive has several modules (in operator style: functions), and none of them was chosen."""

    def __init__(self, what: str, *, where: str, names: Iterable[str]) -> None:
        """As `MlfError`; ``names`` are those to choose from."""
        self.names = tuple(names)
        super().__init__(what, where=where, hint="Choose one with --module: " + ", ".join(self.names))


class UndecidedError(InputError):
    """A file does not state the directions of its tensors, and nothing else decides them."""

    def __init__(self, what: str, *, where: str, names: Iterable[str]) -> None:
        """As `MlfError`; ``names`` are those of all tensors that a caller sees."""
        self.names = tuple(names)
        hint = "Name each output with --output-name NAME; the others are inputs. The tensors are: "
        super().__init__(what, where=where, hint=hint + ", ".join(self.names[:20]))


class ToolError(MlfError):
    """A tool is missing or failed (exit code 3)."""

    exit_code = 3


class MissingToolError(ToolError):
    """A program is not installed."""


class CodeError(ToolError):
    """The compiler or the linker refuses code: its diagnostics name a line or a symbol."""


class TargetError(MlfError):
    """The target did not answer, answered with an error, or faulted (exit code 4)."""

    exit_code = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Defect in an archive.

    Attributes:
        member: archive member the fault is in, e.g. ``./metadata.json``.
        field: path inside the member, e.g. ``$.nodes[3].inputs[0]``; empty for the whole member.
        what: one sentence.
    """

    member: str
    what: str
    field: str = ""

    def __str__(self) -> str:
        place = f"{self.member}: {self.field}" if self.field else self.member
        return f"{place}: {self.what}"


class ArchiveError(NotPossibleError):
    """An archive is broken or hostile, or its code is for another CPU: all of its faults at once."""

    def __init__(
        self, source: str, faults: Iterable[Fault], *, hint: str = "", subject: str = "archive"
    ) -> None:
        self.faults = tuple(faults)
        shown = [str(fault) for fault in self.faults[:20]]
        if len(self.faults) > len(shown):
            shown.append(f"... and {len(self.faults) - len(shown)} more")
        count = len(self.faults)
        head = f"the {subject} has a fault" if count == 1 else f"the {subject} has {count} faults"
        super().__init__(
            "\n  ".join([head + ":", *shown]),
            where=source,
            hint=hint or "Export the archive again, or report it to whoever made it.",
        )


class FaultCollector:
    """Collects the faults of one archive, to report them together.

    Attributes:
        subject: kind of file, for messages.
        hint: remedy; empty: that of an archive.
    """

    def __init__(self, source: str, *, subject: str = "archive", hint: str = "") -> None:
        self.source = source
        self.subject = subject
        self.hint = hint
        self.faults: list[Fault] = []

    def add(self, member: str, what: str, *, field: str = "") -> None:
        """Record one fault; identical ones are kept once."""
        fault = Fault(member=member, field=field, what=what)
        if fault not in self.faults:
            self.faults.append(fault)

    def raise_if_any(self) -> None:
        """Raise ArchiveError when anything was recorded."""
        if self.faults:
            raise ArchiveError(self.source, self.faults, hint=self.hint, subject=self.subject)
