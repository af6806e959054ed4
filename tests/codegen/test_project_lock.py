# SPDX-License-Identifier: Apache-2.0
"""The lock: what it says, that it comes back as it was, and that damage is one clear error. Options."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archives import Spec, build, write
from mlf_sdk.codegen.lock import SCHEMA, Lock, choose_model, encode_lock, read_lock
from mlf_sdk.codegen.options import ProjectOptions, parse_kernel_flags
from mlf_sdk.codegen.writer import LOCK_NAME
from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.api import load
from mlf_sdk.pipeline.project import ProjectPlan
from model_cases import Net
from planning import plan_project


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> ProjectPlan:
    folder = tmp_path_factory.mktemp("lock")
    models = [
        load(write(build(spec), folder / f"{number}.tar"))
        for number, spec in enumerate((Spec(nop=True), Spec(kind="aot-c", dtype="int8")))
    ]
    return plan_project(models, board="mps2-an386", cflags="-Os")


@pytest.fixture(scope="module")
def good(plan: ProjectPlan) -> bytes:
    return encode_lock(plan.lock)


def damaged(folder: Path, data: bytes) -> str:
    (folder / LOCK_NAME).write_bytes(data)
    with pytest.raises(InputError) as caught:
        read_lock(folder)
    assert str(folder) in caught.value.where
    assert "Generate the project again" in caught.value.hint
    return caught.value.what


# ---- what it says ----


def test_round_trip(tmp_path: Path, plan: ProjectPlan, good: bytes) -> None:
    (tmp_path / LOCK_NAME).write_bytes(good)
    assert read_lock(tmp_path) == plan.lock
    assert encode_lock(read_lock(tmp_path)) == good
    assert plan.files()[LOCK_NAME] == good


def test_names_that_are_hard_to_write_down(tmp_path: Path) -> None:
    net = Net(name='größe "0"')
    x = net.input("a\\b*/{{ }}", (1, 8))
    lock = plan_project([net.load(tmp_path, net.call("neg", [x], "-in0[i]"))], board="host").lock
    (tmp_path / LOCK_NAME).write_bytes(encode_lock(lock))
    assert read_lock(tmp_path).models[0].inputs[0].name == "a\\b*/{{ }}"
    assert read_lock(tmp_path) == lock


def test_it_is_stable_json_and_names_no_folder(good: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    top = json.loads(good)
    assert top["schema"] == SCHEMA
    assert [m["archive"] for m in top["models"]] == ["0.tar", "1.tar"]
    assert str(tmp_path_factory.getbasetemp()).encode() not in good
    assert good.endswith(b"}\n")


def test_promises(plan: ProjectPlan) -> None:
    graph, aot = plan.lock.models
    layouts = plan.layouts
    assert [m.c_name for m in plan.lock.models] == ["tiny", "tiny_2"]
    assert [m.arena_bytes for m in plan.lock.models] == [layout.arena_bytes for layout in layouts]
    assert graph.lower_bound_bytes == layouts[0].plan.lower_bound_bytes
    assert (graph.params_bytes, aot.params_bytes) == (64, 0)
    assert (graph.constants_in_code, aot.constants_in_code) == (False, True)
    assert [(t.name, t.dtype, t.shape, t.size_bytes) for t in graph.inputs] == [("x", "float32", (1, 8), 32)]
    assert [(t.name, t.dtype, t.shape, t.size_bytes) for t in graph.outputs] == [
        ("output", "float32", (2, 4), 32)
    ]
    assert [s.symbol for s in graph.steps] == [
        f"tvmgen_tiny_fused_{n}" for n in ("multiply", "smooth", "add_relu")
    ]
    assert [s.workspace_bytes for s in graph.steps] == [0, 40, 0]
    assert len(graph.buffers) == len(layouts[0].plan.buffers)
    assert [b.name for b in graph.buffers if b.kind == "workspace"] == [
        "workspace 0 of tvmgen_tiny_fused_smooth"
    ]
    assert graph.summary.workspace_bytes == 104
    # the second archive has the same kernels: they are listed as they are called in the image
    assert aot.steps[0].symbol == "tvmgen_tiny_run"
    assert "tiny_2_tvmgen_tiny_fused_smooth" in aot.kernel_symbols
    assert plan.lock.options.kernel_flags == ("-Os",)
    assert plan.lock.options.trace is True


def test_dataflow_and_times(plan: ProjectPlan) -> None:
    graph = plan.lock.models[0]
    (layout, _) = plan.layouts
    model = layout.model
    assert [t.name for t in graph.tensors] == [t.name for t in model.tensors]
    assert (graph.input_tensors, graph.output_tensors) == (model.inputs, model.outputs)
    assert [t.kind for t in graph.tensors] == [t.kind.value for t in model.tensors]
    assert [t.root for t in graph.tensors] == [model.root(t.id).id for t in model.tensors]
    assert any(t.root != number for number, t in enumerate(graph.tensors)), "the archive has a __nop"
    assert [(s.inputs, s.outputs) for s in graph.steps] == [(s.inputs, s.outputs) for s in layout.steps]
    end = max(b.last for b in graph.buffers)
    assert [s.first for s in graph.steps[1:]] == [s.first + s.phases for s in graph.steps[:-1]]
    assert (graph.steps[0].first, graph.steps[-1].first + graph.steps[-1].phases) == (1, end)
    for found, placed in zip(graph.buffers, layout.plan.buffers, strict=True):
        assert (found.tensor is None) == (found.kind == "workspace") == (found.step is not None)
        if found.step is None:
            assert found.tensor == placed.key
        else:
            step = graph.steps[found.step]
            assert step.first <= found.first <= found.last < step.first + step.phases


# ---- damage ----


def named(plan: ProjectPlan, *names: tuple[str, str]) -> Lock:
    model = plan.lock.models[0]
    models = tuple(msgspec.structs.replace(model, name=name, c_name=c_name) for name, c_name in names)
    return msgspec.structs.replace(plan.lock, models=models)


def test_which_model(plan: ProjectPlan) -> None:
    lock = named(plan, ("two", "one"), ("my-net", "my_net"), ("one", "one_2"), ("my-net", "my_net_2"))
    chosen = {
        wanted: choose_model(lock, wanted, Path("app")).c_name
        for wanted in (None, "two", "one", "one_2", "my_net", "my_net_2")
    }
    assert chosen == {
        None: "one", "two": "one", "one": "one", "one_2": "one_2", "my_net": "my_net", "my_net_2": "my_net_2"
    }  # fmt: skip
    with pytest.raises(InputError, match="the project has 2 models 'my-net'") as caught:
        choose_model(lock, "my-net", Path("app"))
    assert caught.value.where == "app"
    assert caught.value.hint == "Name one by its C name: my_net, my_net_2."
    with pytest.raises(InputError, match="the project has no model 'net'") as caught:
        choose_model(lock, "net", Path("app"))
    assert caught.value.hint == "It has: two, one, my-net, my_net, one_2, my_net_2."


def test_no_project(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"no generated project here \(mlf-project.json is missing\)"
    ) as caught:
        read_lock(tmp_path)
    assert caught.value.where == str(tmp_path)
    assert "mlf-sdk generate" in caught.value.hint


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"null", b"[]", b"3", b'"lock"', b"{}", b"\xff\xfe", b"{}{}", b"[" * 100_000],
    ids=repr,
)
def test_no_lock_at_all(tmp_path: Path, data: bytes) -> None:
    assert "can't be read" in damaged(tmp_path, data)


def test_cut_anywhere(tmp_path: Path, good: bytes) -> None:
    for length in range(0, len(good.rstrip()), 37):
        assert "can't be read" in damaged(tmp_path, good[:length])


def change(top: Any, path: str, value: object) -> Any:
    """``top`` with the field at ``path`` set, or removed when ``value`` is the Ellipsis."""
    *parents, last = [int(p) if p.isdigit() else p for p in path.split(".")]
    at = top
    for key in parents:
        at = at[key]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return top


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("models.0.arena_bytes", "72", r"\$\.models\[0\]\.arena_bytes"),
        ("models.0.arena_bytes", 7.5, "arena_bytes"),
        ("models.0.arena_bytes", None, "arena_bytes"),
        ("models.0.arena_bytes", ..., "arena_bytes"),
        ("models.1.steps.0.exact", 1, "exact"),
        ("models.0.inputs", {}, "inputs"),
        ("models.0.inputs.0.shape", [1, "8"], "shape"),
        ("models.0.unknown", 1, "unknown"),
        ("unknown", 1, "unknown"),
        ("options.app", ..., "app"),
        ("board", 5, "board"),
        ("schema", "1", "schema"),
        ("models", None, "models"),
    ],
)
def test_wrong_field(tmp_path: Path, good: bytes, path: str, value: object, says: str) -> None:
    data = json.dumps(change(json.loads(good), path, value)).encode()
    assert re.search(says, damaged(tmp_path, data))


@pytest.mark.parametrize("schema", [0, 2, -1, 10**6])
def test_other_schema(tmp_path: Path, good: bytes, schema: int) -> None:
    data = json.dumps(change(json.loads(good), "schema", schema)).encode()
    assert damaged(tmp_path, data) == f"the project's lock has schema {schema}; this SDK reads {SCHEMA}"


def test_lock_that_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / LOCK_NAME).mkdir()
    with pytest.raises(InputError, match="no generated project"):
        read_lock(tmp_path)


# ---- options ----


@pytest.mark.parametrize(
    ("name", "known"),
    [("app", "rpc, standalone, mlperf, library"), ("params", "flash, ram"), ("executor", "static, graph")],
)
@pytest.mark.parametrize("value", ["", "none", None, 1, "RPC"])
def test_invalid_choices(name: str, known: str, value: object) -> None:
    with pytest.raises(InputError, match=f"invalid value {value!r}: must be one of {known}") as caught:
        ProjectOptions(**{name: value})  # type: ignore[arg-type]
    assert caught.value.where == f"ProjectOptions.{name}"


@pytest.mark.parametrize(
    "flag",
    [
        "-O2",
        "-ffp-contract=off",
        "-DNAME=1",
        "-Wl,-z,relro",
        "-march=armv7e-m+fp",
        "-I/opt/x",
        "-x",
        "-DA=a:b@c%d",
    ],
)
def test_flags_that_are_passed_on(flag: str) -> None:
    assert ProjectOptions(kernel_flags=(flag,)).kernel_flags == (flag,)


@pytest.mark.parametrize(
    "flag",
    ["", "-", "O2", "-O2 -O3", "-D'x'", '-D"x"', "-D$HOME", "-D$(id)", "-D`id`", "-Da;b", "-Da\nb", "-Da\\b", "-D${X}",
     "-D<x>", "-D|x", "-D&x", "-Dé", "-D" + "x" * 300, "-O2\n", "@file"],
)  # fmt: skip
def test_flags_that_are_refused(flag: str) -> None:
    with pytest.raises(InputError, match="invalid compiler flag") as caught:
        ProjectOptions(kernel_flags=("-O2", flag))
    assert caught.value.where == "--cflags"
    assert repr(flag) in caught.value.what


@given(st.text(alphabet=st.characters(max_codepoint=255), max_size=4))
def test_what_is_passed_on_is_safe_for_cmake_and_shells(text: str) -> None:
    flag = f"-D{text}"
    try:
        ProjectOptions(kernel_flags=(flag,))
    except InputError:
        return
    assert re.fullmatch(r"[A-Za-z0-9_=.,+:/@%-]+", flag)


def test_cflags_are_split_at_spaces() -> None:
    assert parse_kernel_flags("  -O3   -DX=1\t-g ") == ("-O3", "-DX=1", "-g")
    assert parse_kernel_flags("") == ()


@pytest.mark.parametrize(
    ("app", "trace", "traces"),
    [("rpc", None, True), ("standalone", None, False), ("rpc", False, False), ("standalone", True, True)],
)
def test_trace_goes_with_the_server(app: Any, trace: bool | None, traces: bool) -> None:
    assert ProjectOptions(app=app, trace=trace).traces is traces


def test_options_survive_pickle_and_json() -> None:
    options = ProjectOptions(app="standalone", kernel_flags=("-Os",), trace=True, cmsis_nn="/a/CMSIS-NN")
    assert pickle.loads(pickle.dumps(options)) == options
    assert msgspec.json.decode(msgspec.json.encode(options), type=ProjectOptions) == options
