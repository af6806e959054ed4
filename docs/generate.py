# SPDX-License-Identifier: Apache-2.0
"""Writes the pages of ``docs/reference`` that are made from the code: `make docs`.

cli.md comes from the commands themselves, c-api.md from the headers, project-file.md from the types that read
the file. With --check, nothing is written and the exit code tells whether a page is out of date.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import textwrap
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import msgspec

import mlf_sdk
from mlf_sdk.cli.main import app
from mlf_sdk.codegen import lock
from mlf_sdk.pipeline.declare import option_of

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "docs" / "reference"
HEADERS = (
    "include/mlf/mlf.h",
    "include/mlf/mlf_platform.h",
    "rpc/mlf_rpc.h",
    "graph/mlf_graph.h",
    "params/mlf_params.h",
    "params/mlf_store.h",
    "params/mlf_store_flash.h",
)
MADE = "<!-- Made by docs/generate.py: edit the source, then `make docs`. -->\n\n"


# ---- the command line ----


def cli_page() -> str:
    """Every command with its options by group, from the commands themselves."""
    context = click.Context(app, info_name="mlf-sdk")
    out = [
        MADE + "# Command line\n",
        str(app.help),
        "",
        "Every option may stand in `mlf.toml` (or `[tool.mlf-sdk]` of `pyproject.toml`) as a default.\n",
    ]
    for name in app.list_commands(context):
        out += _command_section(f"mlf-sdk {name}", _command(app, context, name), context)
    return "\n".join(out).rstrip() + "\n"


def _command(group: click.Group, context: click.Context, name: str) -> click.Command:
    """Command of a name that the group lists."""
    command = group.get_command(context, name)
    if command is None:
        raise LookupError(name)
    return command


def _command_section(words: str, command: click.Command, parent: click.Context) -> list[str]:
    context = click.Context(command, info_name=words.rpartition(" ")[2], parent=parent)
    if isinstance(command, click.Group):
        found = []
        for name in command.list_commands(context):
            found += _command_section(f"{words} {name}", _command(command, context, name), context)
        return found
    usage = context.get_usage().removeprefix("Usage: ")
    text = inspect.cleandoc(command.help or command.callback.__doc__ or "")
    out = [f"## `{words}`\n", text, "", "```text", f"$ {' '.join(usage.split())}", "```\n"]
    groups: dict[str, list[str]] = {}
    for param in command.get_params(context):
        record = param.get_help_record(context)
        if isinstance(param, click.Argument):
            shown = param.help_text(context) if hasattr(param, "help_text") else ""
            groups.setdefault("Arguments", []).append(f"* `{param.make_metavar(context)}`: {shown}")
        elif record is not None and param.name != "help":
            row = f"* `{record[0]}`: {' '.join(record[1].split())}"
            groups.setdefault(getattr(param, "group", "Output"), []).append(row)
    for group, rows in groups.items():
        out += [f"**{group}**\n", *rows, ""]
    return out


# ---- the C API ----


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A piece of a header: its name ('' for a section), what its comment says, and its code."""

    name: str
    comment: str
    code: str


_SECTION = re.compile(r"/\* ---- (?P<title>.*?) -+ \*/")
_COMMENT = re.compile(r"/\*(?P<text>.*?)\*/\s*", re.DOTALL)
_NOISE = re.compile(r"#(include|endif|if defined\(__cplusplus\)|ifdef __cplusplus)\b.*|extern \"C\" \{|\}")
_NAMES = (  # the first that finds any tells what an item is
    re.compile(r"^\} ?(\w+);", re.MULTILINE),
    re.compile(r"^typedef .*\(\*(\w+)\)", re.MULTILINE),
    re.compile(r"^(?!#| )[\w *()]*?\b(mlf_\w+)\(", re.MULTILINE),
    re.compile(r"^extern [\w ]*?\*?(\w+)(?:\[|;)", re.MULTILINE),
    re.compile(r"^#define (\w+)", re.MULTILINE),
)


def header_items(text: str) -> tuple[str, list[Item]]:
    """What the head of a header says, and its items in order."""
    text = text.removeprefix("/* SPDX-License-Identifier: Apache-2.0 */\n")
    head = _COMMENT.match(text)
    said = _plain(head["text"]) if head else ""
    items = []
    for chunk in _chunks(text[head.end() :] if head else text):
        if section := _SECTION.match(chunk):
            items.append(Item(name="", comment=section["title"], code=""))
            continue
        comment = _COMMENT.match(chunk)
        code = chunk[comment.end() :] if comment else chunk
        lines = [line for line in code.splitlines() if not _NOISE.fullmatch(line.strip())]
        code = "\n".join(lines).strip("\n")
        bare = re.sub(r"/\*.*?\*/", "", code, flags=re.DOTALL)
        names = next((found for pattern in _NAMES if (found := pattern.findall(bare))), [])
        name = "`, `".join(dict.fromkeys(names))
        if name and not (name.endswith("_H") or "#error" in code):
            items.append(Item(name=name, comment=_plain(comment["text"]) if comment else "", code=code))
    return said, items


def _chunks(text: str) -> Iterator[str]:
    """What blank lines divide, a structure with blank lines inside whole."""
    held = ""
    for part in re.split(r"\n[ \t]*\n", text):
        held = f"{held}\n\n{part}" if held else part
        code = _COMMENT.sub("", held).replace('extern "C" {', "")
        if code.count("{") <= code.count("}"):
            yield held
            held = ""


def _plain(comment: str) -> str:
    """A comment without its stars; indented parts stay code."""
    lines = [re.sub(r"^\s*\*? ?", "", line, count=1) for line in comment.strip("\n").splitlines()]
    return "\n".join(lines).strip("\n").strip()


def c_page() -> str:
    """The public headers, item by item."""
    out = [MADE + "# C API\n"]
    out.append(
        "A generated project has these headers below `crt/`, and a typed header for each model,\n"
        "`model/<name>/<name>.h`: `<name>_run()`, `<name>_input_<tensor>()` and `<name>_output()` with the\n"
        "tensor's C type, and its sizes and shape as macros. Nothing here allocates memory; the status of a\n"
        "call that can fail must be looked at.\n"
    )
    for header in HEADERS:
        said, items = header_items((ROOT / "crt" / header).read_text())
        out.append(f"## {header.rpartition('/')[2]}\n\n{_paragraphs(said)}\n")
        for item in items:
            if not item.name:
                out.append(f"### {item.comment.capitalize()}\n")
                continue
            out.append(f"#### `{item.name}`\n\n```c\n{item.code}\n```\n")
            if item.comment:
                out.append(f"{_paragraphs(item.comment)}\n")
    return "\n".join(out)


def _paragraphs(text: str) -> str:
    """Paragraphs of a comment; those that are indented are code."""
    parts = []
    for part in re.split(r"\n\s*\n", text):
        if all(line.startswith("    ") for line in part.splitlines()):
            parts.append(f"```c\n{textwrap.dedent(part)}\n```")
        else:
            parts.append(part.replace("*", "\\*").replace("<", "&lt;"))
    return "\n\n".join(parts)


# ---- the project file ----


def project_page() -> str:
    """The types of mlf-project.json."""
    out = [MADE + "# Project file\n"]
    out.append(
        "`mlf-project.json` in a generated project says what it was made from, with which options, and\n"
        f"what is promised of it: stable, indented JSON (schema {lock.SCHEMA}), the same for the same\n"
        "archive and options. `mlf-sdk check` and `run` hold the promises against the image and the target.\n"
        "It is generated; do not edit it.\n"
    )
    for kind in _structs(lock.Lock):
        title = kind.__name__.removeprefix("Lock") or "The file"
        out.append(f"## {title}\n\n{inspect.cleandoc(kind.__doc__ or '').replace('``', '`')}\n")
        out.append("| key | type |\n|---|---|")
        hints = typing.get_type_hints(kind)
        rows = [f"| `{f.encode_name}` | {_type_text(hints[f.name])} |" for f in msgspec.structs.fields(kind)]
        out.append("\n".join(rows) + "\n")
    return "\n".join(out)


def _structs(kind: type) -> Iterator[type]:
    """A struct and all that it refers to, each once, in reading order."""
    waiting, seen = [kind], set()
    while waiting:
        current = waiting.pop(0)
        if current in seen:
            continue
        seen.add(current)
        yield current
        for hint in typing.get_type_hints(current).values():
            waiting += [a for a in (hint, *typing.get_args(hint)) if isinstance(a, type) and _is_struct(a)]


def _is_struct(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _type_text(hint: object) -> str:
    arguments = typing.get_args(hint)
    if isinstance(hint, types.UnionType):
        return " or ".join("null" if a is type(None) else _type_text(a) for a in arguments)
    if typing.get_origin(hint) is tuple:
        return f"list of {_type_text(arguments[0])}"
    if _is_struct(hint):
        name = getattr(hint, "__name__", "").removeprefix("Lock")
        return f"[{name}](#{name.lower()})"
    return {str: "string", int: "integer", bool: "boolean"}.get(typing.cast("type", hint), str(hint))


# ---- the Python API ----


def python_page() -> str:
    """Public names of the package, with their signatures and docstrings, and the options of a request."""
    out = [
        MADE + "# Python API\n",
        "<!-- doc-test: needs=qemu-system-arm,arm-none-eabi-gcc -->\n"
        "<!-- doc-test: copy=examples/digits/digits-graph-tvm0.11.1.tar:digits.tar -->\n"
        "<!-- doc-test: copy=examples/digits/test.npz[:30]:test.npz -->\n"
        "```python\nimport mlf_sdk\n\n"
        'report = mlf_sdk.run("digits.tar", board="mps2-an386", inputs="test.npz", expect="test.npz")\n'
        "```\n",
        "Functions take the options below as keyword arguments, or prepared in a `Request`. Paths may be\n"
        "`str` or `pathlib.Path`; `inputs` and `expect` may be mappings of arrays.\n",
        "## Options of a `Request`\n",
        "| name | default | stage | |",
        "| --- | --- | --- | --- |",
    ]
    for field in dataclasses.fields(mlf_sdk.Request):
        declared = option_of(field)
        if declared.stage is not None:
            values = f" One of {', '.join(declared.choices)}." if declared.choices else ""
            stage = declared.stage.name.lower()
            text = f"{declared.help}{values}".replace("|", "\\|")
            out.append(f"| `{field.name}` | `{field.default!r}` | {stage} | {text} |")
    functions = [name for name in mlf_sdk.__all__ if inspect.isfunction(getattr(mlf_sdk, name))]
    out.append("\n## Functions\n")
    for name in functions:
        function = getattr(mlf_sdk, name)
        signature = re.sub(r"<[^>]*>", "...", str(inspect.signature(function)))
        out.append(f"### `{name}`\n\n```text\n{name}{signature}\n```\n\n{_docstring(function)}\n")
    out.append("## Errors and other types\n")
    for name in mlf_sdk.__all__:
        found = getattr(mlf_sdk, name)
        if inspect.isclass(found):
            bases = f"({found.__bases__[0].__name__})" if issubclass(found, Exception) else ""
            out.append(f"### `{name}{bases}`\n\n{_docstring(found)}\n")
    return "\n".join(out).rstrip() + "\n"


def _docstring(of: object) -> str:
    """Docstring with its sections (Args, Raises, Attributes) as code."""
    head, *sections = re.split(r"\n\n(?=(?:Args|Returns|Raises|Attributes):\n)", inspect.getdoc(of) or "")
    return "\n\n".join([head, *(f"```text\n{section}\n```" for section in sections)])


# ---- all of them ----


def pages() -> dict[Path, str]:
    """The text of each page that is made."""
    return {
        REFERENCE / "cli.md": cli_page(),
        REFERENCE / "python.md": python_page(),
        REFERENCE / "c-api.md": c_page(),
        REFERENCE / "project-file.md": project_page(),
    }


def main(arguments: list[str]) -> int:
    """Write the pages, or with --check tell which are out of date."""
    made = pages()
    old = [path for path, text in made.items() if not path.is_file() or path.read_text() != text]
    if "--check" in arguments:
        for path in old:
            sys.stderr.write(f"{path.relative_to(ROOT)} is out of date: make docs\n")
        return 1 if old else 0
    for path in old:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made[path])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
