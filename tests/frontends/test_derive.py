# SPDX-License-Identifier: Apache-2.0
"""Calls derived for archives without a main function: the only consistent order, or none at all."""

from __future__ import annotations

import ctypes
import math
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from mlf_sdk.errors import FaultCollector
from mlf_sdk.frontends.code import index_code
from mlf_sdk.frontends.mlf.derive import NOTE, derive_wiring
from mlf_sdk.frontends.mlf.interface import InterfaceHeader
from mlf_sdk.frontends.mlf.params import NamedTensor
from mlf_sdk.frontends.mlf.parts import BuildInput, Wiring
from mlf_sdk.frontends.mlf.rawmetadata import ModuleMetadata
from mlf_sdk.frontends.mlf.reader import CodeFile, RawArchive, RawModule, load_mlf
from mlf_sdk.ir.dtype import DType
from mlf_sdk.ir.model import StepAbi, TensorKind

FLOAT = DType.parse("float32")
CRT = Path(__file__).resolve().parents[2] / "crt" / "include"


def kernel(name: str, *sizes: int, element: str = "float") -> str:
    """A kernel that reads arguments of these sizes and writes the last one."""
    parameters = ", ".join(f"void* arg{i}" for i in range(len(sizes)))
    lines = [f"int32_t tvmgen_m_fused_{name}({parameters}) {{"]
    lines += [f"void* x{i} = arg{i};" for i in range(len(sizes))]
    lines += ["float sum[1];"]
    for i, size in enumerate(sizes[:-1]):
        lines.append(
            f"for (int32_t i = 0; i < {size}; ++i) {{ sum[(0)] = (sum[(0)] + (({element}*)x{i})[(i)]); }}"
        )
    last = len(sizes) - 1
    lines.append(f"for (int32_t i = 0; i < {sizes[-1]}; ++i) {{ (({element}*)x{last})[(i)] = sum[(0)]; }}")
    return "\n".join([*lines, "return 0;", "}"])


@dataclass(slots=True)
class Case:
    """A model without main: relay text, kernels, shapes of the parameters."""

    head: str
    body: str
    kernels: list[str]
    params: list[tuple[int, ...]] = field(default_factory=list)
    inputs: tuple[str, ...] | None = None
    outputs: tuple[str, ...] = ("output",)

    def derive(self) -> tuple[Wiring | None, str]:
        header = None
        if self.inputs is not None:
            header = InterfaceHeader(
                run_function="tvmgen_m_run",
                run_parameters=("inputs", "outputs"),
                inputs=self.inputs,
                outputs=self.outputs,
                workspace_pools=(),
                devices=(),
                macros={},
            )
        return derive_from(
            RawModule(
                metadata=ModuleMetadata(
                    name="m",
                    style="full-model",
                    executors=("aot",),
                    targets=(),
                    main=(),
                    operator_functions={},
                    operator_args={},
                    storage_bytes={},
                    tvm_version=None,
                    export_datetime=None,
                ),
                graph=None,
                graph_member=None,
                params=tuple(reversed([parameter(i, shape) for i, shape in enumerate(self.params)])),
                sources=(CodeFile(member="lib1.c", kind="c", data="\n".join(self.kernels).encode()),),
                relay=f"def @main({self.head}) {{\n{self.body}\n}}\n",
                interface=header,
            )
        )

    def calls(self) -> list[tuple[str, ...]]:
        wiring, fault = self.derive()
        assert wiring is not None, fault
        return calls_of(wiring)

    def fault(self) -> str:
        wiring, fault = self.derive()
        assert wiring is None
        return fault


def parameter(index: int, shape: tuple[int, ...]) -> NamedTensor:
    return NamedTensor(name=f"p{index}", dtype=FLOAT, shape=shape, data=bytes(4 * math.prod(shape)))


def derive_from(module: RawModule) -> tuple[Wiring | None, str]:
    archive = RawArchive(source="m.tar", sha256="", version=5, modules=(module,))
    faults = FaultCollector("m.tar")
    code = index_code(module, faults)
    assert not faults.faults
    source = BuildInput(archive=archive, module=module, code=code, faults=faults)
    wiring = derive_wiring(source, f"tvmgen_{module.metadata.name}")
    assert (wiring is None) == bool(faults.faults)
    return wiring, faults.faults[0].what if faults.faults else ""


def calls_of(wiring: Wiring) -> list[tuple[str, ...]]:
    """Kernel and inputs of each step; results are called after the number of their step."""
    names = {t.id: t.name for t in wiring.tensors}
    found = []
    for step in wiring.steps:
        found.append((step.symbol.partition("_fused_")[2], *[names[i] for i in step.inputs]))
        names |= dict.fromkeys(step.outputs, f"#{step.index}")
    return found


def tensors(*parts: str) -> str:
    return ", ".join(f"%{p.split()[0]}: Tensor[({p.partition(' ')[2]}), float32]" for p in parts)


DENSE = Case(
    tensors("x 1, 4", "w 4, 4", "b 4", "v 4, 4", "c 4"),
    "%0 = nn.dense(%x, %w);\n%1 = nn.bias_add(%0, %b);\n%2 = nn.relu(%1);\n"
    "%3 = nn.dense(%2, %v);\n%4 = nn.bias_add(%3, %c);\nnn.relu(%4)",
    [kernel("nn_contrib_dense_pack_add_nn_relu", 4, 16, 4, 4)],
    [(1, 4, 4), (1, 4), (1, 4, 4), (1, 4)],
    inputs=("x",),
)


def changed(case: Case, **changes: object) -> Case:
    values = {
        name: getattr(case, name) for name in ("head", "body", "kernels", "params", "inputs", "outputs")
    }
    return Case(**{**values, **changes})


def test_a_kernel_that_is_called_twice() -> None:
    name = "nn_contrib_dense_pack_add_nn_relu"
    assert DENSE.calls() == [(name, "x", "p0", "p1"), (name, "#0", "p2", "p3")]
    wiring, _ = DENSE.derive()
    assert wiring is not None
    assert wiring.executor == "aot"
    assert wiring.notes == (NOTE,)
    assert [step.abi for step in wiring.steps] == [StepAbi.POINTERS] * 2
    assert [t.name for t in wiring.tensors if t.kind is TensorKind.CONSTANT] == ["p0", "p1", "p2", "p3"]
    assert [wiring.tensors[i].name for i in wiring.inputs] == ["x"]
    assert [wiring.tensors[i].shape for i in wiring.outputs] == [(1, 4)]
    assert wiring.outputs == wiring.steps[1].outputs


def test_parameters_and_inputs_are_told_apart() -> None:
    assert [call[1:] for call in changed(DENSE, inputs=None).calls()] == [
        ("x", "p0", "p1"),
        ("#0", "p2", "p3"),
    ]
    case = Case(tensors("x 1, 4", "b 1, 4"), "add(%x, %b)", [kernel("add", 4, 4, 4)], [(1, 4)])
    assert "inputs can't be told from the parameters" in case.fault()
    assert changed(case, inputs=("b",)).calls() == [("add", "p0", "b")]
    assert changed(case, head=tensors("x 1, 4", "b 1, 1"), kernels=[kernel("add", 4, 1, 4)]).calls() == [
        ("add", "p0", "b")
    ]


def test_inputs_follow_the_interface() -> None:
    case = Case(
        tensors("a:0 1, 4", "b 1, 2"),
        "%0 = (%a:0, %b);\nconcatenate(%0, axis=1)",
        [kernel("concatenate", 4, 2, 6)],
        inputs=("b", "a_0"),
    )
    wiring, _ = case.derive()
    assert wiring is not None
    assert [wiring.tensors[i].name for i in wiring.inputs] == ["b", "a:0"]
    assert calls_of(wiring) == [("concatenate", "a:0", "b")]
    assert "not those" in changed(case, inputs=("b", "z")).fault()
    assert "outputs" in changed(case, outputs=("u", "v")).fault()


def test_arguments_come_in_the_order_in_which_operators_are_met() -> None:
    # exp is inside of the group: its argument comes before the other one of subtract, though it stands behind.
    case = Case(
        tensors("x 1, 4", "y 1, 4"),
        "%0 = exp(%y);\nsubtract(%x, %0)",
        [kernel("exp_subtract", 4, 4, 4)],
        inputs=("x", "y"),
    )
    assert case.calls() == [("exp_subtract", "y", "x")]


def test_a_value_that_is_used_twice_is_one_argument() -> None:
    case = Case(
        tensors("x 1, 4"),
        "%0 = sigmoid(%x);\nmultiply(%x, %0)",
        [kernel("sigmoid_multiply", 4, 4)],
        inputs=("x",),
    )
    assert case.calls() == [("sigmoid_multiply", "x")]
    apart = changed(case, kernels=[kernel("sigmoid", 4, 4), kernel("multiply", 4, 4, 4)])
    assert apart.calls() == [("sigmoid", "x"), ("multiply", "x", "#0")]


def test_a_value_that_is_used_twice_inside_of_a_group_is_computed_once() -> None:
    case = Case(
        tensors("x 1, 4"),
        "%0 = exp(%x);\n%1 = tanh(%0);\nadd(%1, %0)",
        [kernel("exp_tanh_add", 4, 4)],
        inputs=("x",),
    )
    assert case.calls() == [("exp_tanh_add", "x")]


def test_what_is_used_elsewhere_is_not_inside_of_a_group() -> None:
    case = Case(
        tensors("x 1, 4"),
        "%0 = exp(%x);\n%1 = tanh(%0);\n(%0, %1)",
        [kernel("exp_tanh", 4, 4)],
        inputs=("x",),
        outputs=("a", "b"),
    )
    assert "the operators" in case.fault() or "the kernels" in case.fault()
    assert changed(case, kernels=[kernel("exp", 4, 4), kernel("tanh", 4, 4)]).calls() == [
        ("exp", "x"),
        ("tanh", "#0"),
    ]


def test_constant_operators_are_folded_and_numbers_are_inlined() -> None:
    case = Case(
        tensors("x 1, 4", "b 4"),
        "%0 = expand_dims(%b, axis=0);\n%1 = multiply(%x, 2f);\nadd(%1, %0)",
        [kernel("multiply_add", 4, 4, 4)],
        [(1, 4)],
        inputs=("x",),
    )
    assert case.calls() == [("multiply_add", "x", "p0")]


def test_several_results_of_one_kernel() -> None:
    two = (
        kernel("split", 4, 2)
        .replace("void* arg1)", "void* arg1, void* arg2)")
        .replace(
            "return 0;", "for (int32_t i = 0; i < 2; ++i) { ((float*)arg2)[(i)] = sum[(0)]; }\nreturn 0;"
        )
    )
    type_ = "Tensor[(1, 2), float32]"
    case = Case(
        tensors("x 1, 4"),
        f"%0 = split(%x, axis=1) /* ty=({type_}, {type_}) */;\n%1 = %0.1;\n%2 = tanh(%1);\n(%2, %0.0)",
        [two, kernel("tanh", 2, 2)],
        inputs=("x",),
        outputs=("a", "b"),
    )
    wiring, fault = case.derive()
    assert wiring is not None, fault
    split, tanh = wiring.steps
    assert tanh.inputs == (split.outputs[1],)
    assert wiring.outputs == (tanh.outputs[0], split.outputs[0])


CONV = Case(
    tensors("x 1, 4, 3, 3", "w 8, 4, 1, 1"),
    "%0 = nn.conv2d(%x, %w, padding=[0, 0, 0, 0], channels=8, kernel_size=[1, 1]);\n"
    "%1 = nn.relu(%0);\n%2 = nn.batch_flatten(%1);\ntanh(%2)",
    [
        kernel("layout_transform", 36, 36),
        kernel("nn_contrib_conv2d_NCHWc_nn_relu", 36, 32, 72),
        kernel("layout_transform_nn_batch_flatten_tanh", 72, 72),
    ],
    [(2, 1, 1, 1, 4, 4)],
    inputs=("x",),
)


def test_layout_transforms_are_found() -> None:
    assert CONV.calls() == [
        ("layout_transform", "x"),
        ("nn_contrib_conv2d_NCHWc_nn_relu", "#0", "p0"),
        ("layout_transform_nn_batch_flatten_tanh", "#1"),
    ]
    apart = [*CONV.kernels[:2], kernel("layout_transform_1", 72, 72), kernel("nn_batch_flatten_tanh", 72, 72)]
    assert [call[0] for call in changed(CONV, kernels=apart).calls()] == [
        "layout_transform",
        "nn_contrib_conv2d_NCHWc_nn_relu",
        "layout_transform_1",
        "nn_batch_flatten_tanh",
    ]


def test_depthwise_convolutions() -> None:
    case = Case(
        tensors("x 1, 4, 3, 3", "w 4, 1, 1, 1"),
        "%0 = nn.conv2d(%x, %w, groups=4, kernel_size=[1, 1]);\nnn.batch_flatten(%0)",
        [
            kernel("layout_transform", 36, 36),
            kernel("nn_contrib_depthwise_conv2d_NCHWc", 36, 4, 36),
            kernel("layout_transform_nn_batch_flatten", 36, 36),
        ],
        [(1, 1, 1, 1, 1, 4)],
        inputs=("x",),
    )
    assert [call[1:] for call in case.calls()] == [("x",), ("#0", "p0"), ("#1",)]
    assert "stay unassigned" in changed(case, kernels=case.kernels[1:]).fault()
    assert "stay unassigned" in changed(case, params=[(4, 1, 1)]).fault()


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"params": [(2, 1, 1, 1, 8, 2)]}, "stay unassigned"),
        ({"params": [(8, 4, 1, 1)]}, "stay unassigned"),
        ({"kernels": CONV.kernels[1:]}, "stay unassigned"),
        ({"kernels": CONV.kernels[:2]}, "stay unassigned"),
        ({"kernels": [*CONV.kernels[:2], kernel("nn_batch_flatten_tanh", 72, 72)]}, "stay unassigned"),
        (
            {"kernels": [*CONV.kernels, kernel("layout_transform_1", 9, 9)]},
            "the kernels fused_layout_transform_1",
        ),
        ({"params": [*CONV.params, (3,)]}, "contradict"),
        ({"params": []}, "stay unassigned"),
    ],
)
def test_layouts_sizes_and_counts_must_fit(changes: dict[str, object], what: str) -> None:
    assert what in changed(CONV, **changes).fault()


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"params": [(1, 4, 4), (1, 4), (1, 4, 4)]}, "contradict"),
        ({"params": [(1, 4, 4), (1, 4), (1, 4, 4), (1, 5)]}, "contradict"),
        ({"params": [(1, 4, 4), (1, 4), (1, 4, 4), (1, 4), (1, 4)]}, "contradict"),
        ({"params": [(4, 4, 1), (1, 4), (2, 4, 4), (1, 4)]}, "contradict"),
        ({"kernels": []}, "0 kernels"),
        ({"kernels": [kernel("nn_dense_add_tanh", 4, 16, 4, 4)]}, "not named after"),
        ({"kernels": [kernel("nn_contrib_dense_pack_add_nn_relu", 5, 16, 4, 4)]}, "stay unassigned"),
        ({"kernels": [kernel("nn_contrib_dense_pack_add_nn_relu", 4, 16, 4, 5)]}, "stay unassigned"),
        ({"kernels": [kernel("nn_contrib_dense_pack_add_nn_relu", 4, 16, 4)]}, "stay unassigned"),
        ({"kernels": [kernel("nn_contrib_dense_pack_add_nn_relu", 4, 16, 4, 4, element="int32_t")]}, "stay"),
        ({"kernels": [DENSE.kernels[0].replace("((float*)x3)", "((float*)x0)")]}, "write its last"),
        ({"kernels": [DENSE.kernels[0].replace("i < 16", "i < n")]}, "not understood"),
        ({"body": "nn.relu(%x)"}, "not named after"),
        ({"body": "%0 = nn.dense(%x, %w);\n%1 = nn.bias_add(%0, %b);\nnn.relu(%1)"}, "contradict"),
        ({"body": "let %a = nn.relu(%x)"}, "not a call"),
        ({"body": DENSE.body.replace("nn.relu(%4)", "layout_transform(%4)")}, "layout transforms of its own"),
    ],
)
def test_what_contradicts_is_refused(changes: dict[str, object], what: str) -> None:
    assert what in changed(DENSE, **changes).fault()


def test_parameters_must_be_numbered() -> None:
    wiring, fault = derive_from(
        RawModule(
            metadata=load_metadata(),
            graph=None,
            graph_member=None,
            params=(NamedTensor(name="w", dtype=FLOAT, shape=(1,), data=bytes(4)),),
            sources=(),
            relay="def @main(%x: Tensor[(1), float32]) {\nnn.relu(%x)\n}",
            interface=None,
        )
    )
    assert wiring is None
    assert "not called p0" in fault


def load_metadata() -> ModuleMetadata:
    return ModuleMetadata(
        name="m", style="full-model", executors=("aot",), targets=(), main=(),
        operator_functions={}, operator_args={}, storage_bytes={}, tvm_version=None, export_datetime=None,
    )  # fmt: skip


def test_namesakes_of_equal_size_are_ambiguous() -> None:
    case = Case(
        tensors("x 2, 2"),
        "%0 = transpose(%x, axes=[1, 0]);\n%1 = tanh(%0);\ntranspose(%1, axes=[0, 1])",
        [kernel("transpose", 4, 4), kernel("tanh", 4, 4), kernel("transpose_1", 4, 4)],
        inputs=("x",),
    )
    assert "ambiguous" in case.fault()
    # ... unless other namesakes show how they are numbered.
    told = changed(
        case,
        head=tensors("x 2, 2", "y 2, 3"),
        body="%0 = transpose(%x, axes=[1, 0]);\n%1 = tanh(%0);\n%2 = transpose(%1, axes=[0, 1]);\n"
        "%3 = (%2, %y);\n%4 = concatenate(%3, axis=1);\ntanh(%4)",
        kernels=[*case.kernels, kernel("concatenate", 4, 6, 10), kernel("tanh_1", 10, 10)],
        inputs=("x", "y"),
    )
    assert [call[0] for call in told.calls()] == ["transpose", "tanh", "transpose_1", "concatenate", "tanh_1"]
    backwards = changed(
        told,
        kernels=[*case.kernels[::2], told.kernels[3], kernel("tanh", 10, 10), kernel("tanh_1", 4, 4)],
    )
    assert [call[0] for call in backwards.calls()] == [
        "transpose_1",
        "tanh_1",
        "transpose",
        "concatenate",
        "tanh",
    ]


def test_different_attributes_need_different_kernels() -> None:
    case = Case(
        tensors("x 2, 2"),
        "%0 = transpose(%x, axes=[1, 0]);\n%1 = tanh(%0);\ntranspose(%1, axes=[0, 1])",
        [kernel("transpose", 4, 4), kernel("tanh", 4, 4)],
        inputs=("x",),
    )
    assert "contradict" in case.fault()
    assert len(changed(case, body=case.body.replace("[0, 1]", "[1, 0]")).calls()) == 3


def test_equal_calls_are_calls_of_one_kernel() -> None:
    body = "%0 = tanh(%x);\n%1 = exp(%0);\ntanh(%1)"
    case = Case(
        tensors("x 1, 4"),
        body,
        [kernel("tanh", 4, 4), kernel("exp", 4, 4), kernel("tanh_1", 4, 4)],
        inputs=("x",),
    )
    assert "the kernels fused_tanh_1 stay" in case.fault()
    assert [call[0] for call in changed(case, kernels=case.kernels[:2]).calls()] == ["tanh", "exp", "tanh"]


def test_different_numbers_and_shapes_need_different_kernels() -> None:
    case = Case(
        tensors("x 2, 2"),
        "%0 = multiply(%x, 2f);\n%1 = tanh(%0);\nmultiply(%1, 3f)",
        [kernel("multiply", 4, 4), kernel("tanh", 4, 4)],
        inputs=("x",),
    )
    assert "contradict" in case.fault()
    assert len(changed(case, body=case.body.replace("3f", "2f")).calls()) == 3
    shaped = changed(case, head=tensors("x 2, 2", "y 1, 4"), inputs=("x", "y"), outputs=("a", "b"))
    assert (
        "contradict"
        in changed(shaped, body="%0 = tanh(%x);\n%1 = tanh(%y);\n(%0, %1)", kernels=case.kernels[1:]).fault()
    )


def test_repeated_fields_of_a_tuple_are_one_argument() -> None:
    case = Case(
        tensors("x 1, 4", "y 1, 4"),
        "%0 = subtract(%x, %y);\n%1 = (%0, %0, %x);\nconcatenate(%1)",
        [kernel("subtract", 4, 4, 4), kernel("concatenate", 4, 4, 12)],
        inputs=("x", "y"),
    )
    assert case.calls() == [("subtract", "x", "y"), ("concatenate", "#0", "x")]


def test_names_with_too_many_readings_are_refused() -> None:
    case = Case(
        tensors("x 1, 4"),
        "%0 = a(%x);\na_a(%0)",
        [kernel("_".join(["a"] * 30), 4, 4)],
        inputs=("x",),
    )
    assert "too many readings" in case.fault()


def test_operators_with_too_many_inputs_are_refused() -> None:
    body = "%0 = (" + ", ".join(["%x"] * 400) + ");\nconcatenate(%0, axis=1)"
    case = Case(tensors("x 1, 4"), body, [kernel("concatenate", 4, 1600)], inputs=("x",))
    assert "too many inputs" in case.fault()


def test_ways_to_group_operators_are_ambiguous() -> None:
    chain = "\n".join(f"%{i + 1} = exp(%{i});" for i in range(8))
    case = Case(
        tensors("x 1, 4"),
        f"%0 = exp(%x);\n{chain}\nexp(%8)",
        [kernel("exp", 4, 4), kernel("exp_exp", 4, 4)],
        inputs=("x",),
    )
    assert "ambiguous" in case.fault()


def test_an_argument_that_may_be_too_small_is_refused() -> None:
    guarded = kernel("tanh", 4, 4).replace(
        "float sum[1];", "float sum[1];\nif (f(sum[(0)])) { sum[(0)] = ((float*)x0)[(9)]; }"
    )
    case = Case(tensors("x 1, 4"), "tanh(%x)", [guarded], inputs=("x",))
    assert "not certain" in case.fault()


def test_results_that_no_kernel_gives_are_refused() -> None:
    case = Case(
        tensors("x 1, 4"),
        "%0 = tanh(%x);\n(%0, %x)",
        [kernel("tanh", 4, 4)],
        inputs=("x",),
        outputs=("a", "b"),
    )
    assert "contradict" in case.fault()


def test_arguments_that_nothing_uses_are_refused_without_an_interface() -> None:
    case = Case(tensors("x 1, 4", "unused 1, 3"), "tanh(%x)", [kernel("tanh", 4, 4)])
    assert "not used" in case.fault()
    wiring, _ = changed(case, inputs=("x", "unused")).derive()
    assert wiring is not None
    assert len(wiring.inputs) == 2


def test_a_search_without_end_is_given_up() -> None:
    chain = "\n".join(f"%{i + 1} = exp(%{i});" for i in range(300))
    case = Case(
        tensors("x 1, 4"),
        f"%0 = exp(%x);\n{chain}\nexp(%300)",
        [kernel("exp", 4, 4), kernel("exp_exp", 4, 4)],
        [(7,)],  # never used: no way is consistent
        inputs=("x",),
    )
    started = time.process_time()
    assert "too many ways" in case.fault()
    assert time.process_time() - started < 20


def test_too_many_sizes_alike_are_refused() -> None:
    names = [f"a{i} 1, 4" for i in range(16)]
    body = "%0 = (" + ", ".join(f"%a{i}" for i in range(16)) + ");\nconcatenate(%0, axis=1)"
    case = Case(tensors(*names), body, [kernel("concatenate", *[4] * 16, 64)], [(1, 4)] * 8)
    assert "told apart" in case.fault()


# ---- real archives ----

AOT = ["conv1d-aot", "conv1d-aotc", "two_in_two_out-aot", "two_in_two_out-aotc", "digits/digits-aotc"]
GRAPHS = ["conv1d-graph", "two_in_two_out-graph", "digits/digits-graph"]


def real(shared_mlf: Path, name: str) -> tuple[RawModule, Wiring]:
    module = load_mlf(shared_mlf / f"{name}.tar").modules[0]
    wiring, fault = derive_from(module)
    assert wiring is not None, fault
    return module, wiring


def graph_calls(module: RawModule) -> list[tuple[str, ...]]:
    """What the graph executor calls, as `calls_of` tells it."""
    assert module.graph is not None
    names: dict[int, str] = {}
    found: list[tuple[str, ...]] = []
    for index, node in enumerate(module.graph.nodes):
        names[index] = node.name
        if node.op != "null":
            symbol = (node.func_name or "").partition("_fused_")[2]
            names[index] = f"#{len(found)}"
            found.append((symbol, *[names[ref[0]] for ref in node.inputs]))
    return found


@pytest.mark.shared
@pytest.mark.parametrize("version", ["0.8.0", "0.11.1"])
@pytest.mark.parametrize("name", GRAPHS)
def test_graph_archives_derive_what_their_graph_says(shared_mlf: Path, name: str, version: str) -> None:
    module, wiring = real(shared_mlf, f"{name}-tvm{version}")
    assert calls_of(wiring) == graph_calls(module)


@pytest.mark.shared
@pytest.mark.parametrize("name", AOT)
def test_real_archives_derive_what_the_graph_of_the_same_model_says(shared_mlf: Path, name: str) -> None:
    _, wiring = real(shared_mlf, f"{name}-tvm0.8.0")
    other = load_mlf(shared_mlf / f"{name.rpartition('-')[0]}-graph-tvm0.8.0.tar").modules[0]
    assert calls_of(wiring) == graph_calls(other)
    assert wiring.notes == (NOTE,)
    packed = name.endswith("-aot")
    assert {step.abi for step in wiring.steps} == {StepAbi.PACKED if packed else StepAbi.POINTERS}


WORKSPACE = (
    "void* TVMBackendAllocWorkspace(int t, int d, uint64_t n, int c, int b) { return malloc(n); }\n"
    "int TVMBackendFreeWorkspace(int t, int d, void* p) { free(p); return 0; }\n"
)


@pytest.mark.shared
@pytest.mark.toolchain
@pytest.mark.parametrize("name", ["conv1d", "two_in_two_out", "digits"])
def test_derived_calls_compute_what_tvm_computes(
    shared_mlf: Path, tmp_path: Path, needs_cc: str, name: str
) -> None:
    folder = "digits/" if name == "digits" else ""
    module, wiring = real(shared_mlf, f"{folder}{name}-aotc-tvm0.8.0")
    source = next(file.data.decode() for file in module.sources if file.member.endswith("lib1.c"))
    (tmp_path / "k.c").write_text(f"#include <stdlib.h>\n#include <stdint.h>\n{source}\n{WORKSPACE}")
    library = tmp_path / "k.so"
    command = [
        needs_cc,
        "-O1",
        "-w",
        "-shared",
        "-fPIC",
        f"-I{CRT}",
        str(tmp_path / "k.c"),
        "-o",
        str(library),
    ]
    subprocess.run([*command, "-lm"], check=True, timeout=60)
    code = ctypes.CDLL(str(library))
    for inputs, outputs in samples(shared_mlf, name):
        arrays = {
            t.id: np.frombuffer(t.data, np.float32).copy() if t.data else np.zeros(t.elements, np.float32)
            for t in wiring.tensors
        }
        for index in wiring.inputs:
            arrays[index][:] = inputs[wiring.tensors[index].name].ravel()
        for step in wiring.steps:
            pointers = [arrays[i].ctypes.data_as(ctypes.c_void_p) for i in (*step.inputs, *step.outputs)]
            assert code[step.symbol](*pointers) == 0
        for index, expected in zip(wiring.outputs, outputs, strict=True):
            np.testing.assert_allclose(arrays[index], expected.ravel(), rtol=1e-5, atol=1e-5)


def samples(folder: Path, name: str) -> list[tuple[dict[str, np.ndarray], list[np.ndarray]]]:
    if name == "digits":
        data = np.load(folder / "digits" / "test.npz")
        return [({"image": data["image"][i]}, [data["logits"][i]]) for i in range(20)]
    data = np.load(folder / f"{name}.npz")
    inputs = {key[4:]: data[key] for key in data if key.startswith("in::")}
    return [(inputs, [data[f"out::{i}"] for i in range(len(data) - len(inputs))])]
