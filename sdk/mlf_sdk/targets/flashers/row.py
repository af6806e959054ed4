# SPDX-License-Identifier: Apache-2.0
"""Schema of a runner: arguments, and the patterns of success and failure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Name = Annotated[str, Meta(pattern=r"\A[a-z0-9][a-z0-9_-]{0,31}\Z")]
Line = Annotated[str, Meta(min_length=1, max_length=300)]

PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")
FILES = ("elf", "bin", "hex", "uf2")


class Failure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pattern of a runner's output that means failure.

    Attributes:
        pattern: regular expression, looked for in each line.
        kind: ``no-probe``: it found nothing to work on; ``failed``: anything else.
        what: one sentence.
        hint: what to do.
    """

    pattern: Line
    what: Line
    kind: Literal["no-probe", "failed"] = "failed"
    hint: str = ""


class Dialect(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of a runner's program from a major version on.

    Attributes:
        since: the major version; 0: all before the next dialect.
        options: values of placeholders.
    """

    since: Annotated[int, Meta(ge=0)]
    options: dict[str, str]


class DebugServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """GDB server that works with a runner's probe; its arguments have the runner's placeholders.

    Attributes:
        program: names to look for on PATH.
        args: arguments; ``{gdb_port}`` is the TCP port to listen on.
        reset: command of its monitor that resets the chip and halts it.
        install: how to get it; empty: as the runner.
    """

    program: tuple[Line, ...]
    args: tuple[str | tuple[str, ...], ...]
    reset: Line
    install: str = ""


class RunnerRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A runner.

    Arguments and script hold placeholders: ``{elf}``, ``{bin}``, ``{hex}``, ``{uf2}`` (paths of the
    image), ``{address}`` (where the image is loaded), ``{vectors}`` (where its vector table lies),
    ``{port}`` (what ``--port`` says), ``{script}`` (path of the script), ``{extra}`` (arguments of the
    user), and every option of the board row's ``[flasher.options]``.

    Attributes:
        name: what ``--runner`` and a board's ``flasher.runner`` take.
        title: for people.
        kind: ``program``: one is started; ``copy``: the image is copied to a mounted volume.
        program: names to look for on PATH; the first that is there is used.
        install: how to get it.
        port: what ``{port}`` is: nothing, the board's serial port, or a debug server.
        needs: options that the board row must have, unless the user gives arguments of his own.
        defaults: default options.
        version_args: arguments with which the program prints its version.
        dialects: options by version, where the program's arguments have changed; one is since 0.
        args: arguments; those in an inner list are left out when an option in them is not known.
        script: text of the script.
        success: regular expressions that the output must all match; the exit code must be 0 as well.
        failures: what the output may say; the first that matches is reported.
        late: what to look at when it did not end in time.
        file: for a copy: which form of the image.
        marker: for a copy: a file that marks the volume; ``label`` (an option) names it as well.
        fail_file: for a copy: a file that the board puts there when it refused the image.
        server: GDB server for ``mlf-sdk debug``; None: there is none.
    """

    name: Name
    title: Line
    kind: Literal["program", "copy"] = "program"
    program: tuple[Line, ...] = ()
    install: str = ""
    port: Literal["none", "serial", "gdb"] = "none"
    needs: tuple[Name, ...] = ()
    defaults: dict[str, str] = {}
    version_args: tuple[Line, ...] = ()
    dialects: tuple[Dialect, ...] = ()
    args: tuple[str | tuple[str, ...], ...] = ()
    script: str = ""
    success: tuple[Line, ...] = ()
    failures: tuple[Failure, ...] = ()
    late: str = ""
    file: Literal["elf", "bin", "hex", "uf2"] = "elf"
    marker: str = ""
    fail_file: str = ""
    server: DebugServer | None = None

    def texts(self) -> Iterator[str]:
        """Everything that may hold placeholders."""
        for arg in self.args:
            yield from (arg,) if isinstance(arg, str) else arg
        yield self.script


def row_faults(row: RunnerRow) -> list[str]:
    """Return the faults of a row beyond its types, as ``<field>: <fault>``."""
    faults = []
    if (row.kind == "program") != bool(row.program):
        faults.append("program: a runner of kind 'program' needs one, a copy has none")
    if row.kind == "copy" and not row.marker:
        faults.append("marker: a copy needs the name of a file that marks the volume")
    if row.dialects and (not row.version_args or all(d.since for d in row.dialects)):
        faults.append("dialects: they need version_args, and one of them since = 0")
    patterns = [("success", p) for p in row.success] + [("failures", f.pattern) for f in row.failures]
    for field, pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            faults.append(f"{field}: '{pattern}' is no regular expression: {error}")
    used = {name for text in row.texts() for name in PLACEHOLDER.findall(text)}
    if row.kind == "program" and not used & set(FILES):
        faults.append("args: no placeholder of the image: {elf}, {bin}, {hex} or {uf2}")
    if ("port" in used) != (row.port != "none") and row.kind == "program":
        faults.append("port: it must say what {port} is, where that is used, and only there")
    if ("script" in used) != bool(row.script):
        faults.append("script: it is used as {script} in args, or not there")
    return faults
