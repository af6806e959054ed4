# SPDX-License-Identifier: Apache-2.0
"""The architecture, checked on the source: who imports whom, who prints, exits, or starts programs."""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "sdk" / "mlf_sdk"
MODULES = sorted(PACKAGE.rglob("*.py"))
MAX_LINES = 350
MAX_COMPILER_LINES = 300
RIDDLE = re.compile(r"(What|Whether|How|Where|Why|Who|When)\b")
FORMAT_NAME = re.compile(r"\bMLF\b|tvmgen_")

# From top to bottom: a layer imports only from those below it, and from itself.
LAYERS = (
    ("__main__",),
    ("cli", "pytest_plugin"),
    ("reporting",),
    ("sweep",),
    ("pipeline",),
    ("judge",),
    ("testing",),
    ("targets",),
    ("wire",),
    ("triage",),
    ("codegen",),
    ("frontends",),
    ("compiler",),
    ("analysis",),
    ("planner",),
    ("ir",),
    ("tools",),
    ("resources",),
    ("errors", "version"),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
FRONT = "__init__"  # the package's own front door re-exports; it may import any layer


def most_lines(name: str) -> int:
    """Lines that a module may have."""
    return MAX_COMPILER_LINES if name.startswith("compiler/") else MAX_LINES


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.fixture(scope="module", autouse=True)
def _forget_trees() -> Iterator[None]:
    """Free the trees of all modules after the last test."""
    yield
    for kept in (parsed, nodes, text_of):
        kept.cache_clear()


@functools.lru_cache(maxsize=1024)
def parsed(source: str) -> ast.Module:
    return ast.parse(source)


@functools.lru_cache(maxsize=1024)
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree))


@functools.cache
def text_of(path: Path) -> str:
    return path.read_text()


def imports(tree: ast.AST, path: Path) -> Iterator[tuple[int, str]]:
    """Every absolute module name that is imported, wherever in the file, with its line."""
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = path.relative_to(PACKAGE.parent).parts[: -node.level] if node.level else ()
            base = ".".join(filter(None, [*parents, node.module]))
            yield node.lineno, base
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def layers_used(tree: ast.AST, path: Path) -> Iterator[tuple[int, str]]:
    for line, module in imports(tree, path):
        parts = module.split(".")
        if parts[0] == "mlf_sdk" and len(parts) > 1 and parts[1] in LEVEL:
            yield line, parts[1]


def upward(source: str, path: Path) -> list[str]:
    """Imports that go up, or sideways to another layer of the same height."""
    own = layer_of(path)
    return [
        f"line {line}: {own} imports {used}"
        for line, used in layers_used(parsed(source), path)
        if used != own and LEVEL[used] <= LEVEL[own]
    ]


def circle(sources: Mapping[str, str]) -> list[str]:
    """Modules that import each other at run time, wherever in the file; empty: there are none."""
    graph = {
        name: {used for _, used in imports(without_type_checking(parsed(source)), PACKAGE / name)}
        for name, source in sources.items()
    }
    files = {"mlf_sdk." + name.removesuffix(".py").replace("/", "."): name for name in sources}
    known = {name: {files[used] for used in found if used in files} for name, found in graph.items()}
    try:
        TopologicalSorter(known).prepare()
    except CycleError as error:
        return [str(name) for name in error.args[1]]
    return []


def without_type_checking(tree: ast.Module) -> ast.Module:
    body = [
        node
        for node in tree.body
        if not (
            isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        )
    ]
    return ast.Module(body=body, type_ignores=[])


def uses(source: str, path: Path) -> set[str]:
    """Find uses that only some layers may contain: print, exit, subprocess, assert."""
    tree = parsed(source)
    found = {"subprocess" for _, module in imports(tree, path) if module.split(".")[0] == "subprocess"}
    for node in nodes(tree):
        if isinstance(node, ast.Assert):
            found.add("assert")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found |= {node.func.id} & {"print", "exit", "quit"}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            called = f"{node.value.id}.{node.attr}"
            if called in ("sys.exit", "os._exit", "os.abort"):
                found.add("exit")
            elif called in ("os.system", "os.popen", "os.fork", "os.posix_spawn"):
                found.add("subprocess")
            elif called in ("sys.stdout", "sys.stderr"):
                found.add("print")
        elif isinstance(node, ast.Name) and node.id == "SystemExit":
            found.add("exit")
    return found


def docstrings(tree: ast.AST) -> Iterator[str]:
    """Docstrings of a module, and of its classes and functions."""
    for node in nodes(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield ast.get_docstring(node) or ""


def riddles(source: str) -> list[str]:
    """First lines of docstrings that begin with a question word."""
    found = (text.partition("\n")[0] for text in docstrings(parsed(source)))
    return [line for line in found if RIDDLE.match(line)]


def names_of_formats(source: str) -> list[str]:
    """Strings, docstrings aside, that name a format or what its compiler calls things."""
    tree = parsed(source)
    docs = {node.value for node in nodes(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in nodes(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if FORMAT_NAME.search(node.value) and node not in docs
    ]


def complaints(check: Callable[[str, Path], object]) -> dict[str, object]:
    """Findings of ``check`` by module; modules without a finding are left out."""
    found = {name_of(path): check(text_of(path), path) for path in MODULES}
    return {name: said for name, said in found.items() if said}


def test_every_module_has_a_layer() -> None:
    assert len(MODULES) > 60
    unknown = {layer_of(path) for path in MODULES} - {*LEVEL, FRONT}
    assert not unknown, f"not in the list of layers: {unknown}"
    assert {layer_of(path) for path in MODULES} >= LEVEL.keys()


def test_imports_go_down() -> None:
    assert complaints(lambda source, path: layer_of(path) != FRONT and upward(source, path)) == {}


def test_no_modules_import_each_other() -> None:
    assert circle({name_of(path): text_of(path) for path in MODULES}) == []


def test_a_circle_is_seen() -> None:
    lazy = "def f() -> None:\n    from mlf_sdk.ir.a import g\n"
    assert circle({"ir/a.py": "from mlf_sdk.ir.b import f\n", "ir/b.py": lazy}) != []
    typed = "if TYPE_CHECKING:\n    from mlf_sdk.ir.a import g\n"
    assert circle({"ir/a.py": "from mlf_sdk.ir.b import f\n", "ir/b.py": typed}) == []


def test_only_some_print_exit_or_start_programs() -> None:
    def forbidden(source: str, path: Path) -> set[str]:
        found = uses(source, path)
        if layer_of(path) == "cli":
            found -= {"print", "exit"}
        if name_of(path) == "tools/process.py":
            found -= {"subprocess"}
        return found

    assert complaints(forbidden) == {}


def test_modules_are_short() -> None:
    lines = {name_of(path): len(text_of(path).splitlines()) for path in MODULES}
    assert {name: count for name, count in lines.items() if count > most_lines(name)} == {}


def test_only_frontends_name_formats() -> None:
    """Layers above the frontends are independent of archive formats."""
    above = [name for names in LAYERS[: LEVEL["frontends"]] for name in names]
    assert complaints(lambda source, path: layer_of(path) in above and names_of_formats(source)) == {}


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    """None begins with a question word."""
    assert complaints(lambda source, _path: riddles(source)) == {}


# ---- the checks themselves ----


@pytest.mark.parametrize(
    "source",
    [
        "import mlf_sdk.cli.main",
        "from mlf_sdk.cli import main",
        "from mlf_sdk import cli",
        "from mlf_sdk.pipeline import run",
        "from ..judge.check import check_image",
        "from .. import wire",
        "def f():\n    from mlf_sdk.targets.boards.load import Board",
        "if True:\n    import mlf_sdk.targets.cmake as c",
    ],
)
def test_an_upward_import_is_seen(source: str) -> None:
    assert upward(source, PACKAGE / "codegen" / "x.py")


def test_codegen_and_targets() -> None:
    """Targets compose what codegen renders, never the other way round."""
    down = "from mlf_sdk.codegen.render import PlatformFiles"
    assert upward(down, PACKAGE / "targets" / "x.py") == []
    assert upward("from mlf_sdk.targets.boards.load import Board", PACKAGE / "codegen" / "x.py")
    assert (
        upward("from mlf_sdk.errors import InputError\nimport mlf_sdk.version", PACKAGE / "ir" / "x.py") == []
    )
    assert upward("from mlf_sdk.version import __version__", PACKAGE / "errors.py")


def test_a_docstring_that_asks_is_seen() -> None:
    source = '"""How it goes."""\nclass A:\n    """Board of a user."""\n    def f(self):\n        """What is there."""'
    assert riddles(source) == ["How it goes.", "What is there."]


def test_the_name_of_a_format_is_seen() -> None:
    source = '"""Reads MLF."""\nx = f"MLF {n}"\ny = "tvmgen_net_"\nz = "MLF_E_BUSY"'
    assert names_of_formats(source) == ["tvmgen_net_", "MLF "]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("print(1)", {"print"}),
        ("import sys\nsys.stdout.write('')", {"print"}),
        ("import sys\nsys.exit(1)", {"exit"}),
        ("raise SystemExit", {"exit"}),
        ("exit()", {"exit"}),
        ("from subprocess import run", {"subprocess"}),
        ("import subprocess as s", {"subprocess"}),
        ("import os\nos.system('')", {"subprocess"}),
        ("assert 1", {"assert"}),
        ("self.print = 1\nx.exit()", set()),
    ],
)
def test_a_forbidden_use_is_seen(source: str, found: set[str]) -> None:
    assert uses(source, PACKAGE / "ir" / "x.py") == found


# ---- coverage ----


def test_coverage_is_measured_in_the_tests_of_the_readers_only() -> None:
    """Elsewhere it is off, in the processes of pytest-xdist too (see conftest.py): it doubles the time of a test."""
    assert not type(sys.gettrace()).__module__.startswith("coverage")


# ---- licences ----

SOURCE_SUFFIXES = {".py", ".c", ".h", ".toml", ".j2", ".sh", ".S", ".cmake", ".ld"}
SOURCE_NAMES = {"Makefile", "CMakeLists.txt", "run"}
SKIPPED = {"build", "dist", "node_modules", "__pycache__"}
TOP = ("sdk", "board_templates", "crt", "qemu", "tests", "examples", ".ci")
SPDX = re.compile(r"SPDX-License-Identifier: Apache-2\.0\b")


def source_files() -> list[Path]:
    found = [path for path in ROOT.iterdir() if path.is_file()]
    for top in TOP:
        found += [
            path
            for path in (ROOT / top).rglob("*")
            if path.is_file()
            and not any(
                part in SKIPPED or part.startswith(".") for part in path.relative_to(ROOT / top).parts
            )
        ]
    return sorted(
        path
        for path in found
        if (path.suffix in SOURCE_SUFFIXES or path.name in SOURCE_NAMES)
        and not path.name.endswith(".md.j2")  # a page for people: a comment would be its first line
    )


def test_every_source_starts_with_its_licence() -> None:
    files = source_files()
    assert len(files) > 150
    assert {path.suffix for path in files} >= {".py", ".c", ".h", ".toml", ".j2", ".sh"}
    without = []
    for path in files:
        first, second, *_ = [*path.read_text().splitlines(), "", ""]
        line = second if first.startswith("#!") else first
        if not SPDX.search(line):
            without.append(str(path.relative_to(ROOT)))
    assert without == []


def test_registers_that_assembly_changes_are_no_other_operands() -> None:
    """GCC may give an operand that is read and changed the register of an equal input, unless it has ``&``."""
    kernels = (PACKAGE / "compiler" / "kernels").rglob("*.py")
    found = [f"{name_of(path)}: {text}" for path in kernels for text in re.findall(r'"\+\w+"', text_of(path))]
    assert found == []


def test_contributing_has_the_layers_in_their_order() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    table = text.partition("| layer | holds |")[2].partition("\n\n")[0]
    rows = [re.findall(r"`(\w+)`", line.split("|")[1]) for line in table.splitlines()[2:]]
    assert [{*row} for row in rows] == [{*layer} for layer in LAYERS if layer != ("__main__",)]
