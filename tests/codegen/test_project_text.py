# SPDX-License-Identifier: Apache-2.0
"""Text from an archive inside C comments and strings, alone and in a whole generated project."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysed import load_model
from mlf_sdk.codegen.lock import read_lock
from mlf_sdk.codegen.writer import write_project
from mlf_sdk.ir.model import Model
from mlf_sdk.tools.ctext import c_comment, c_real, c_string
from mlf_sdk.tools.process import run_process
from model_cases import Net
from planning import plan_project

STRICT = [
    "-std=c99",
    "-trigraphs",
    "-fsyntax-only",
    "-Wall",
    "-Wextra",
    "-Wcomment",
    "-Wtrigraphs",
    "-Wconversion",
    "-Wcast-qual",
    "-Wundef",
    "-Wshadow",
    "-Wmissing-prototypes",
    "-Werror",
]

TENSOR_NAMES = [
    "*/",
    "/*",
    "//",
    "*/ int injected; /*",
    '"',
    'a"; int injected; "',
    "'",
    "??/",
    "a??/",
    "??)??!??<",
    "\\",
    "a\\",
    "\\n",
    "{{ 7*7 }}",
    "{% raw %}",
    "{# note #}",
    "${HOME}",
    "$(touch injected)",
    "$<BUILD_INTERFACE:x>",
    "`id`",
    "a;b",
    "%s%n",
    "#define",
    "@x@",
    "größe",
    "入力:0",
    "int",
    "1",
    "0123456789",
    "L",
    "x" * 1000,
    "image:0",
    "image.0",
    "IMAGE 0",
]
MODULE_NAMES = [
    'a"b',
    "${HOME}",
    "$(touch injected)",
    "a;b",
    "{{ 7*7 }}",
    "{% raw %}",
    "??",
    "größe",
    "int",
    "main",
    "mlf_run",
    "mlf",
    "app",
    "board",
    "tvm",
    "1",
    "static_cast",
    "linux",
    "x" * 128,
]


def decoded(literal: str) -> bytes:
    """What a C compiler makes of a literal that holds plain characters and three-digit octal escapes."""
    assert literal[0] == literal[-1] == '"'
    body = literal[1:-1]
    assert re.fullmatch(r'(?:[^"\\?\n]|\\[0-7]{3})*', body), literal
    return re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8)]), body.encode("ascii"))


@given(st.text(st.characters(codec="utf-8")))
def test_string_holds_the_bytes(text: str) -> None:
    assert decoded(c_string(text)) == text.encode()


def test_string_keeps_what_is_plain() -> None:
    assert c_string("image:0 [1, 2]") == '"image:0 [1, 2]"'
    assert c_string('"\\?\n\0é') == '"\\042\\134\\077\\012\\000\\303\\251"'
    assert c_string("\x011") == '"\\0011"'  # a digit after an escape stays a digit
    assert decoded(c_string("\udc80")) == b"\xed\xb2\x80"


@given(st.text() | st.text(alphabet="*/?\\\n a"), st.integers(min_value=4, max_value=200))
def test_comment_never_ends_early(text: str, max_length: int) -> None:
    comment = c_comment(text, max_length=max_length)
    assert "*/" not in comment and "/*" not in comment
    assert comment.isprintable()
    assert not set(comment) & set("\\?")
    assert len(comment) <= max_length
    assert "*/" not in f"x{comment} "


def test_comment_keeps_what_people_read() -> None:
    assert c_comment("input 'größe:0': int8 [1, 2]") == "input 'größe:0': int8 [1, 2]"
    assert c_comment("a*/b/*c") == "a*_b/_c"
    assert c_comment("/*/") == "/__"
    assert c_comment("a\nb\u202ec") == "a_b_c"
    assert c_comment("x" * 101) == "x" * 97 + "..."
    assert c_comment("x" * 100) == "x" * 100


def hostile_net(name: str, inputs: list[str]) -> tuple[Net, list[object]]:
    """A model that adds its inputs up, one after another, in nodes with the same hostile names."""
    net = Net(name=name)
    first, *others = [net.input(text) for text in inputs]
    total = first
    for other in others:
        total = net.call("add", [total, other], "in0[i] + in1[i]", name=f"{inputs[other.node]}!")
    return net, [total if others else net.call("neg", [first], "-in0[i]")]


def generated(folder: Path, net: Net, heads: list[object], app: str) -> Path:
    model = load_model(net.write(folder / "net.tar", *heads))  # type: ignore[arg-type]
    return written(folder / "project", [model], app)


def written(folder: Path, models: list[Model], app: str = "rpc") -> Path:
    options: dict[str, Any] = {"app": app}  # type: ignore[arg-type]
    write_project(plan_project(models, board="host", **options).files(), folder)
    return folder


def compile_strictly(folder: Path, compiler: str = "cc") -> None:
    """The generated sources, with every warning an error."""
    models = sorted(p for p in (folder / "model").iterdir() if p.is_dir())
    sources = [folder / "src" / "main.c", *(m / f"{m.name}.c" for m in models)]
    includes = [f"-I{p}" for p in (*models, folder / "crt" / "include", folder / "crt" / "rpc")]
    for trace in (0, 1):
        run_process([compiler, *STRICT, f"-DMLF_TRACE={trace}", *includes, *map(str, sources)], timeout_s=60)


@pytest.mark.toolchain
@pytest.mark.parametrize("app", ["rpc", "standalone"])
def test_hostile_tensor_names_compile(tmp_path: Path, needs_cc: str, app: str) -> None:
    net, heads = hostile_net("net", TENSOR_NAMES)
    folder = generated(tmp_path, net, heads, app)
    compile_strictly(folder, needs_cc)
    text = (folder / "model" / "net" / "net.c").read_text()
    literals = re.findall(r'^    \{ ("(?:[^"\\]|\\.)*"), MLF_ABI_POINTER\(net_arena', text, re.MULTILINE)
    assert [decoded(literal).decode() for literal in literals] == [*TENSOR_NAMES, "output"]
    assert "49" not in (folder / "CMakeLists.txt").read_text()


@pytest.mark.toolchain
def test_hostile_module_names_compile(tmp_path: Path, needs_cc: str) -> None:
    """All in one project: their folders, files, macros and functions are legal and stay apart."""
    models = []
    for number, name in enumerate(MODULE_NAMES):
        net, heads = hostile_net(name, ["x"])
        models.append(load_model(net.write(tmp_path / f"{number}.tar", *heads)))
    folder = written(tmp_path / "project", models)
    compile_strictly(folder, needs_cc)
    folders = sorted(path.name for path in (folder / "model").iterdir())
    assert len({name.lower() for name in folders}) == len(MODULE_NAMES)
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,62}", name) for name in folders)
    lock = read_lock(folder)
    assert [model.name for model in lock.models] == MODULE_NAMES
    for model in lock.models:
        source = (folder / "model" / model.c_name / f"{model.c_name}.c").read_text()
        assert f".name = {c_string(model.name)}," in source
    for path in ("CMakeLists.txt", "CMakePresets.json", "src/main.c"):
        text = (folder / path).read_text()
        assert not [
            n for n in MODULE_NAMES if n in text and not n.isidentifier() and n not in ("1", "${HOME}")
        ]
    assert "${HOME}" not in (folder / "CMakeLists.txt").read_text()


@pytest.mark.toolchain
def test_models_whose_names_are_alike(tmp_path: Path, needs_cc: str) -> None:
    names = ["net", "net", "net_2", "NET", "Net 2"]
    models = []
    for number, name in enumerate(names):
        net, heads = hostile_net(name, ["x"])
        models.append(load_model(net.write(tmp_path / f"{number}.tar", *heads)))
    folder = written(tmp_path / "project", models)
    assert [m.c_name for m in read_lock(folder).models] == ["net", "net_2", "net_2_2", "NET_3", "Net_2_3"]
    compile_strictly(folder, needs_cc)


@pytest.mark.toolchain
def test_names_that_numbering_makes_alike(tmp_path: Path, needs_cc: str) -> None:
    """The third input is numbered apart from the first, and must not become the second."""
    net, heads = hostile_net("net", ["a b", "a_b_2", "a.b"])
    compile_strictly(generated(tmp_path, net, heads, "rpc"), needs_cc)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "(0x1.99999a0000000p-4f)"),
        (-0.0, "(-0x0.0p+0f)"),
        (3.4e38, "(0x1.ff933c0000000p+127f)"),
        (-1e39, "-INFINITY"),
        (math.inf, "INFINITY"),
        (math.nan, "NAN"),
    ],
)
def test_single_precision_numbers_in_c(value: float, text: str) -> None:
    """Exact for single precision; what is beyond its range is infinite, as a conversion in C."""
    assert c_real(value) == text
