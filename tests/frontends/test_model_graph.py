# SPDX-License-Identifier: Apache-2.0
"""Graphs to models: tensors, aliases, steps, and what a graph may not say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analysed import load_model
from archives import Spec, build, edit_json, graph_member, write
from mlf_sdk.errors import ArchiveError
from mlf_sdk.ir.abi import PACKED
from mlf_sdk.ir.model import Model, TensorKind, UnitKind
from model_cases import Net, by_name

ONES = np.ones((1, 8), np.float32)


def faults_of(call: object, *args: object) -> list[tuple[str, str, str]]:
    with pytest.raises(ArchiveError) as caught:
        call(*args)  # type: ignore[operator]
    return [(fault.member, fault.field, fault.what) for fault in caught.value.faults]


def load(files: dict[str, bytes], tmp_path: Path) -> Model:
    return load_model(write(files, tmp_path / "model.tar"))


# ---- the tiny model, all of it ----


def test_tiny_model(tmp_path: Path) -> None:
    path = write(build(), tmp_path / "tiny.tar")
    model = load_model(path)
    assert (model.name, model.c_name, model.executor) == ("tiny", "tiny", "graph")
    assert model.provenance.format_text == "MLF 7"
    assert model.provenance.source == str(path)
    assert len(model.provenance.sha256) == 64
    assert model.targets == ("c -keys=cpu",)
    assert [(t.name, t.kind, t.shape, t.dtype.name) for t in model.tensors] == [
        ("x", TensorKind.INPUT, (1, 8), "float32"),
        ("p0", TensorKind.CONSTANT, (1, 8), "float32"),
        ("tvmgen_tiny_fused_multiply", TensorKind.INTERMEDIATE, (1, 8), "float32"),
        ("tvmgen_tiny_fused_smooth", TensorKind.INTERMEDIATE, (1, 8), "float32"),
        ("p1", TensorKind.CONSTANT, (1, 8), "float32"),
        ("tvmgen_tiny_fused_add_relu", TensorKind.INTERMEDIATE, (1, 8), "float32"),
    ]
    assert [t.id for t in model.tensors] == list(range(6))
    assert (model.inputs, model.outputs, model.output_names) == ((0,), (5,), ("output",))
    assert [(s.index, s.symbol, s.abi, s.inputs, s.outputs, s.exact) for s in model.steps] == [
        (0, "tvmgen_tiny_fused_multiply", PACKED, (0, 1), (2,), True),
        (1, "tvmgen_tiny_fused_smooth", PACKED, (2,), (3,), True),
        (2, "tvmgen_tiny_fused_add_relu", PACKED, (3, 4), (5,), True),
    ]
    assert [[(w.slot, w.size_bytes) for w in s.workspaces] for s in model.steps] == [[], [(0, 40)], []]
    assert model.constants == (model.tensors[1], model.tensors[4])
    assert model.tensors[1].data == np.array([1, -2, 0.5, 4, -0.25, 3, 1.5, 2], np.float32).tobytes()
    assert {(u.member, u.kind, u.linked) for u in model.units} == {
        ("codegen/host/src/tiny_lib0.c", UnitKind.C, False),
        ("codegen/host/src/tiny_lib1.c", UnitKind.C, True),
    }
    summary = model.summary
    assert (summary.workspace_bytes, summary.constants_bytes, summary.io_bytes) == (104, 64, 64)
    assert summary.operators["tvmgen_tiny_fused_smooth"] == 40


def test_workspace_and_arguments_have_phases(tmp_path: Path) -> None:
    """Of the smoothing kernel: the input is read while the padded copy is filled, and never again."""
    step = load(build(), tmp_path).steps[1]
    read, written = step.spans
    (padded,) = step.workspaces
    assert step.phases >= 2
    assert read.last < written.first
    assert padded.span.first <= read.first
    assert padded.span.last >= written.last
    assert all(0 <= span.first <= span.last < step.phases for span in (read, written, padded.span))


def test_steps_are_in_the_order_of_the_graph(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x")
    first = net.call("first", [x], "in0[i]")
    second = net.call("second", [x], "2 * in0[i]")
    y = net.call("sum", [second, first], "in0[i] + in1[i]")
    model = net.load(tmp_path, y)
    assert [s.symbol for s in model.steps] == [f"tvmgen_net_{n}" for n in ("first", "second", "sum")]
    assert model.steps[2].inputs == (2, 1)
    assert [s.index for s in model.steps] == [0, 1, 2]


def test_one_kernel_called_twice(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x")
    y = net.call("twice", [net.call("twice", [x], "2 * in0[i]")], "2 * in0[i]", name="again")
    model = net.load(tmp_path, y)
    assert [s.symbol for s in model.steps] == ["tvmgen_net_twice"] * 2
    assert [s.name for s in model.steps] == ["tvmgen_net_twice", "again"]


# ---- aliases ----


def test_nop_is_an_alias_and_no_step(tmp_path: Path) -> None:
    model = load(build(nop=True), tmp_path)
    alias = by_name(model, "reshape_nop")
    assert alias.alias_of == 3
    assert alias.shape == (2, 4)
    assert alias.kind is TensorKind.INTERMEDIATE
    assert model.root(alias.id) == model.tensors[3]
    assert len(model.steps) == 3
    assert model.steps[2].inputs == (alias.id, 5)


def test_nop_as_the_first_step_is_an_alias_of_the_input(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x")
    y = net.call("neg", [net.nop(x, (8,))], "-in0[i]")
    model = net.load(tmp_path, y)
    alias = by_name(model, "reshape_nop")
    assert model.root(alias.id).kind is TensorKind.INPUT
    assert model.inputs == (0,)
    assert model.steps[0].inputs == (alias.id,)
    assert len(model.steps) == 1


def test_nop_of_a_constant(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x")
    w = net.nop(net.constant("w", ONES), (8,))
    model = net.load(tmp_path, net.call("add", [x, w], "in0[i] + in1[i]"))
    alias = by_name(model, "reshape_nop")
    assert model.root(alias.id).kind is TensorKind.CONSTANT
    assert model.root(alias.id).data == ONES.tobytes()
    assert [t.name for t in model.constants] == ["w"]  # the blob holds it once


def test_chain_of_nops_ends_at_one_root(tmp_path: Path) -> None:
    net = Net()
    ref = net.call("neg", [net.input("x")], "-in0[i]")
    for number, shape in enumerate([(8,), (2, 4), (4, 2), (8, 1)]):
        ref = net.nop(ref, shape, f"r{number}")
    model = net.load(tmp_path, ref)
    assert {model.root(by_name(model, f"r{n}").id).name for n in range(4)} == {"tvmgen_net_neg"}
    assert by_name(model, "r3").alias_of == by_name(model, "r2").id
    assert model.outputs == (by_name(model, "r3").id,)
    assert model.tensors[model.outputs[0]].shape == (8, 1)


def test_model_of_nops_only_has_no_steps(tmp_path: Path) -> None:
    net = Net()
    net.call("unused", [x := net.input("x")], "in0[i]")  # the archive must have code
    net.nodes.pop()
    net.entries.pop()
    model = net.load(tmp_path, net.nop(x, (2, 4)))
    assert model.steps == ()
    assert model.root(model.outputs[0]).kind is TensorKind.INPUT


def test_flatten_data(tmp_path: Path) -> None:
    """A node with flatten_data takes its tensors as one dimension; the storage is the same."""
    net = Net()
    x = net.input("x", (2, 4))
    y = net.call("neg", [x], "-in0[i]", flatten=True)
    z = net.call("neg", [y], "-in0[i]", name="again")
    model = net.load(tmp_path, z)
    source, result = model.tensors[model.steps[0].inputs[0]], model.tensors[model.steps[0].outputs[0]]
    assert (source.shape, result.shape) == ((8,), (8,))
    assert source.size_bytes == 32
    assert model.root(source.id).id == model.inputs[0]
    assert model.tensors[model.inputs[0]].shape == (2, 4)
    assert model.tensors[model.steps[1].inputs[0]].shape == (2, 4)
    assert model.root(model.steps[1].inputs[0]) == model.root(result.id)
    assert model.tensors[model.outputs[0]].shape == (2, 4)


def test_flat_view_is_made_once(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", (2, 4))
    y = net.call("add", [x, x], "in0[i] + in1[i]", flatten=True)
    model = net.load(tmp_path, net.call("mul", [y, x], "in0[i] * in1[i]", flatten=True))
    assert model.steps[0].inputs[0] == model.steps[0].inputs[1] == model.steps[1].inputs[1]
    assert model.steps[1].inputs[0] == model.steps[0].outputs[0]
    assert len(model.tensors) == 6


# ---- inputs, parameters, outputs ----


def test_parameter_as_node_zero(tmp_path: Path) -> None:
    net = Net()
    w = net.constant("w", ONES)
    x = net.input("x")
    model = net.load(tmp_path, net.call("add", [x, w], "in0[i] + in1[i]"))
    assert model.tensors[0].kind is TensorKind.CONSTANT
    assert model.inputs == (1,)
    assert model.io_names == (("x",), ("output",))
    assert model.steps[0].inputs == (1, 0)


def test_several_outputs_in_the_order_of_the_heads(tmp_path: Path) -> None:
    net = Net()
    low, high = net.call("split", [net.input("x")], "in0[i] - 1", "in0[i] + 1")
    model = net.load(tmp_path, high, low, high)
    assert [model.tensors[i].name for i in model.outputs] == [
        "tvmgen_net_split:1",
        "tvmgen_net_split",
        "tvmgen_net_split:1",
    ]
    assert model.output_names == ("output0", "output1", "output2")
    assert model.steps[0].outputs == (1, 2)


def test_an_input_that_is_an_output(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x")
    model = net.load(tmp_path, net.call("neg", [x], "-in0[i]"), x)
    assert model.outputs[1] == model.inputs[0]


def test_a_constant_that_is_an_output(tmp_path: Path) -> None:
    net = Net()
    w = net.constant("w", ONES)
    model = net.load(tmp_path, net.call("neg", [net.input("x")], "-in0[i]"), w)
    assert model.tensors[model.outputs[1]].kind is TensorKind.CONSTANT


def test_unused_inputs_stay_inputs(tmp_path: Path) -> None:
    net = Net()
    net.input("unused", (3,), "int64")
    model = net.load(tmp_path, net.call("neg", [net.input("x")], "-in0[i]"))
    assert model.io_names[0] == ("unused", "x")
    assert model.tensors[model.inputs[0]].size_bytes == 24


def test_scalar(tmp_path: Path) -> None:
    net = Net()
    model = net.load(tmp_path, net.call("neg", [net.input("x", ())], "-in0[i]"))
    assert model.tensors[0].shape == ()
    assert (model.tensors[0].elements, model.tensors[0].size_bytes) == (1, 4)


def test_names_that_legalise_alike_stay_apart(tmp_path: Path) -> None:
    net = Net()
    a, b, c = net.input("in:0"), net.input("in.0"), net.input("IN 0")
    model = net.load(tmp_path, net.call("add", [a, b, c], "in0[i] + in1[i] + in2[i]"))
    assert [model.tensors[i].name for i in model.inputs] == ["in:0", "in.0", "IN 0"]
    assert len({model.tensors[i].c_name.lower() for i in model.inputs}) == 3


@pytest.mark.parametrize(
    ("named", "names"),
    [
        ({}, ("output0", "output1")),
        ({"output0": 32, "output1": 16}, ("output0", "output1")),
        ({"wide": 32, "narrow": 16}, ("wide", "narrow")),
        ({"narrow": 16, "wide": 32}, ("wide", "narrow")),
        ({"same": 32, "too": 32}, ("output0", "output1")),
        ({"wide": 32}, ("output0", "output1")),
        ({"wide": 32, "other": 8}, ("output0", "output1")),
    ],
)
def test_real_output_names(tmp_path: Path, named: dict[str, int], names: tuple[str, ...]) -> None:
    """The metadata's map of outputs has no order: names count where sizes tell them apart."""
    net = Net()
    x = net.input("x")
    wide = net.call("neg", [x], "-in0[i]")
    narrow = net.call("head", [x], "in0[i]", shape=(4,))
    if named:
        net.main["outputs"] = {name: {"size": size, "dtype": "float32"} for name, size in named.items()}
    assert net.load(tmp_path, wide, narrow).output_names == names


# ---- faults: all of them, each with its place ----


def test_kernel_that_nothing_defines(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x")
    y = net.call("known", [x], "in0[i]")
    z = net.call("declared", [y], "in0[i]", define=False)
    net.kernels["declared"] = f"int32_t tvmgen_net_declared{'(void* args)'};\n"
    found = faults_of(net.load, tmp_path, z)
    assert found == [
        (
            "executor-config/graph/net.graph",
            "$.nodes[2].attrs.func_name",
            "calls 'tvmgen_net_declared', which no source or object of the archive defines",
        )
    ]


def test_static_function_of_another_file_is_no_kernel(tmp_path: Path) -> None:
    net = Net()
    y = net.call("hidden", [net.input("x")], "in0[i]")
    text = net.kernels["tvmgen_net_hidden"].replace("TVM_DLL int32_t", "static int32_t")
    net.kernels["tvmgen_net_hidden"] = text
    found = faults_of(net.load, tmp_path, y)
    assert [field for _, field, _ in found] == ["$.nodes[1].attrs.func_name"]


def test_two_definitions_of_one_symbol(tmp_path: Path) -> None:
    files = build()
    source = files["codegen/host/src/tiny_lib1.c"]
    files["codegen/host/src/tiny_lib2.c"] = source
    found = faults_of(load, files, tmp_path)
    names = ("fused_multiply", "fused_smooth", "fused_add_relu")
    assert {(member, what) for member, _, what in found} == {
        (
            "codegen/host/src/tiny_lib2.c",
            f"'tvmgen_tiny_{name}' is defined in codegen/host/src/tiny_lib1.c as well",
        )
        for name in names
    }


def test_static_functions_may_have_one_name_in_two_files(tmp_path: Path) -> None:
    helper = b"static int32_t helper(void) {\n  return 0;\n}\n"
    files = build()
    files["codegen/host/src/tiny_lib1.c"] += helper
    files["codegen/host/src/tiny_lib2.c"] = helper
    assert len(load(files, tmp_path).steps) == 3


def test_parameter_that_the_graph_does_not_know(tmp_path: Path) -> None:
    net = Net()
    net.constant("ghost", ONES)
    net.nodes.pop()
    net.entries.pop()
    found = faults_of(net.load, tmp_path, net.call("neg", [net.input("x")], "-in0[i]"))
    assert found == [("parameters/net.params", "", "holds 'ghost', which the graph does not know")]


def test_all_faults_of_the_model_together(tmp_path: Path) -> None:
    net = Net()
    net.constant("ghost", ONES)
    net.nodes.pop()
    net.entries.pop()
    y = net.call("one", [net.input("x")], "in0[i]", define=False)
    y = net.call("two", [y], "in0[i]", define=False)
    net.kernels["one"] = "/* tvmgen_net_one tvmgen_net_two */\n"
    members = [member for member, _, _ in faults_of(net.load, tmp_path, y)]
    assert members == ["executor-config/graph/net.graph"] * 2 + ["parameters/net.params"]


def test_workspace_that_nobody_tells(tmp_path: Path) -> None:
    """A size that the code computes at run time needs the metadata's figure; without one it is a fault."""
    files = build()
    member = "codegen/host/src/tiny_lib1.c"
    files[member] = files[member].replace(b"(uint64_t)40", b"(uint64_t)(num_args * 20)")
    model = load(files, tmp_path)
    step = model.steps[1]
    assert (step.exact, step.workspace_stack_bytes, step.workspaces) == (False, 40, ())
    assert step.is_packed
    assert not step.is_direct  # its workspace is a stack
    assert all(0 <= span.first <= span.last < step.phases for span in step.spans)

    def forget(top: dict) -> None:
        functions = top["modules"]["tiny"]["memory"]["functions"]
        functions["operator_functions"] = []

    found = faults_of(load, edit_json(files, "metadata.json", forget), tmp_path)
    assert len(found) == 1
    assert found[0][:2] == ("./metadata.json", "memory.functions.operator_functions")
    assert "tvmgen_tiny_fused_smooth" in found[0][2]


def test_long_function_names(tmp_path: Path) -> None:
    net = Net()
    model = net.load(tmp_path, net.call("fused_" + "nn_conv2d_" * 20, [net.input("x")], "in0[i]"))
    assert len(model.steps[0].symbol) > 200
    assert len(model.tensors[1].c_name) <= 63


def test_shared_graph_member_of_old_versions(tmp_path: Path) -> None:
    for version in (1, 5):
        spec = Spec(version=version)
        model = load(build(spec), tmp_path)
        assert model.provenance.format_version == str(version)
        assert graph_member(spec).endswith("graph.json")
        assert len(model.steps) == 3
