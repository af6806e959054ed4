# SPDX-License-Identifier: Apache-2.0
"""Entries of ahead-of-time models as steps: every interface, and every reason to keep one as it is."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec
import pytest

from analysed import host_compiler
from aot_mains import CALLS, INTERFACES, PAD_AT, build_aot
from archives import build, write
from elfobjects import Elf
from mlf_sdk.frontends.analysis import analyse
from mlf_sdk.frontends.mlf.load import load_model
from mlf_sdk.ir.abi import Convention, ValueKind
from mlf_sdk.ir.model import CodeUnit, Model, UnitKind
from mlf_sdk.planner.layout import lay_out

WHOLE = 32 + 32 + 64 + 32 + 48  # x, output, s1, s2, and the workspace of pad rounded up
SPLIT = 32 + 64 + 40  # pad: x, its workspace; s1 comes to lie over neither


def load(
    tmp_path: Path, interface: str, changes: dict[str, str] | None = None, *, as_compiled: bool = False
) -> Model:
    path = write(build_aot(interface, changes=changes), tmp_path / "model.tar")
    return analyse(load_model(path), host_compiler(), as_compiled=as_compiled)


def names(model: Model) -> list[str]:
    return [model.label(step.symbol) for step in model.steps]


@pytest.mark.parametrize("interface", INTERFACES)
def test_each_interface(tmp_path: Path, interface: str) -> None:
    model = load(tmp_path, interface)
    assert model.entry == "the 5 calls of the main function, as steps"
    assert names(model) == [kernel for kernel, *_ in CALLS]
    assert model.executor == "aot"
    assert {s.is_packed for s in model.steps} == {interface == "packed"}
    own = [t for t in model.tensors if t.alias_of is None]
    tensors = [t for t in own if t.id not in (*model.inputs, *model.outputs)]
    found = [[t.size_bytes, t.dtype.name] for t in tensors]
    assert found == [[32, "float32"], [32, "float32"], [64, "float32"], [16, "float32"]]
    assert [model.tensors[i].name for s in model.steps for i in s.outputs][-1] == "output"
    assert not any(
        s.writes or s.escaping_args or s.persistent_globals or s.opaque_reason for s in model.steps
    )
    whole = load(tmp_path, interface, as_compiled=True)
    assert (whole.entry, len(whole.steps)) == ("as compiled: --as-compiled", 1)
    small, large = lay_out(model), lay_out(whole)
    assert small.arena_bytes == small.plan.lower_bound_bytes < large.arena_bytes
    assert analyse(model, None) is model


def test_the_steps_pass_what_main_passed(tmp_path: Path) -> None:
    model = load(tmp_path, "static")
    pad, half = model.steps[:2]
    kinds = [value.kind for value in pad.abi.values]
    assert kinds == [ValueKind.TENSOR, ValueKind.TENSOR, ValueKind.NULL, ValueKind.WORKSPACE]
    (workspace,) = pad.workspaces
    assert (workspace.size_bytes, list(pad.abi.values)[3].offset_bytes) == (40, -PAD_AT)
    assert (workspace.span.first, workspace.span.last, pad.phases) == (0, 1, 2)
    constants = list(half.abi.values)[2]
    assert (constants.kind, constants.symbol) == (ValueKind.SYMBOL, "global_const_workspace")
    assert (half.abi.unit, pad.abi.unit) == ("codegen/host/src/tiny_lib0.c", "")
    assert half.abi.convention is Convention.C


def test_views_of_one_value(tmp_path: Path) -> None:
    """A descriptor with another shape, and a pointer into a value, are the same memory."""
    shape = {
        "  ((int64_t*)stack_shape)[1] = (int64_t)16;": "  ((int64_t*)stack_shape)[0] = (int64_t)4;\n  ((int64_t*)stack_shape)[1] = (int64_t)4;"
    }
    model = load(tmp_path, "packed", shape)
    view = model.tensors[model.steps[3].inputs[0]]
    assert (view.shape, model.root(view.id).shape) == ((4, 4), (1, 16))
    part = {
        "sums(s1, s2)": "sums(s3, s2)",
        "  if (tvmgen_tiny_pad": "  void* s3 = ((float*)s1) + 4;\n  if (tvmgen_tiny_pad",
        "(i * 4) + j]": "(i * 3) + j]",
    }
    model = load(tmp_path, "c", part)
    view = model.tensors[model.steps[3].inputs[0]]
    assert (view.offset_bytes, view.size_bytes, model.root(view.id).size_bytes) == (16, 48, 64)


SHARED = "the 5 calls of the main function, as steps; memory that stays as compiled: "


@pytest.mark.parametrize(
    ("interface", "changes", "reason"),
    [
        # sums adds to what half left there, of which there is enough.
        ("c", {"    ((float*)y)[i] = 0.0f;\n": ""}, None),
        # wide adds to more than pad left there.
        ("c", {"((float*)y)[i] = ((float*)x)[i / 2] + 1.0f": "((float*)y)[i] += ((float*)x)[i / 2] + 1.0f"}, "s1 is read where no value of a kernel is alone"),
        # half leaves a gap, and what is read later may be of the kernel before.
        ("c", {"i < 8; ++i) {\n    ((float*)y)[i] = ((float*)x)[i] * 0.5f": "i < 8; ++i) {\n    if (i != 3) ((float*)y)[i] = ((float*)x)[i] * 0.5f", "pad(x, s1)": "pad(x, s2)", "half(s1, s2)": "half(x, s2)"}, None),
        # A kernel reads more than the last one wrote.
        ("c", {"(i * 4) + j]": "(i * 5) + j]"}, "s1: a kernel reaches beyond its end"),
        ("packed", {"(i * 4) + j]": "(i * 5) + j]"}, "s1: the bytes that a kernel accesses are not known"),
        ("c", {"wide(s2, s1)": "wide(s1, s1)"}, "s1: a kernel writes over what it reads"),
        ("c", {"void* x, void* y) {\n  for (int32_t i = 0; i < 8": "float* x, float* y) {\n  float* p = &y[0]; p[0] = 1.0f;\n  for (int32_t i = 0; i < 8"}, "s1: the bytes that a kernel accesses are not known; s2: the bytes that a kernel accesses are not known"),
        ("static", {f"pool[{PAD_AT}]": "pool[32]"}, None),
        ("static", {f"pool[{PAD_AT}]": "pool[0]"}, "pool: a kernel's workspace lies over what it reads or writes"),
        ("static", {"((float*)w)[i] = (1": "if (i != 3) ((float*)w)[i] = (1"}, "pool: the bytes that a kernel accesses are not known"),
        ("static", {f"pool[{PAD_AT}]": "pool[16]", "pad(x, s1": "pad(x, s4", "half(s1": "half(s4", "  void* s1": "  void* s4 = (&(pool[128]));\n  void* s1"}, None),
    ],
)  # fmt: skip
def test_values_that_cannot_be_told_apart(
    tmp_path: Path, interface: str, changes: dict[str, str], reason: str | None
) -> None:
    """The storage is one tensor, in which each kernel finds what main had there."""
    model = load(tmp_path, interface, changes)
    assert len(model.steps) == 5
    assert model.entry == (SHARED.split(";")[0] if reason is None else SHARED + reason)


def test_a_storage_that_stays_whole(tmp_path: Path) -> None:
    more = {"((float*)y)[i] = ((float*)x)[i / 2] + 1.0f": "((float*)y)[i] += ((float*)x)[i / 2] + 1.0f"}
    model = load(tmp_path, "c", more)
    wide = model.steps[2]
    whole = model.root(wide.inputs[1])
    assert (whole.name, whole.size_bytes, whole.dtype.name) == ("s1", 64, "uint8")
    assert (wide.outputs, wide.writes) == ((), (1,))
    assert model.root(model.steps[0].outputs[0]).id == whole.id
    assert lay_out(model).arena_bytes <= WHOLE


def test_a_kernel_that_keeps_an_address(tmp_path: Path) -> None:
    kept = {
        "TVM_DLL int32_t tvmgen_tiny_half(void* x, void* y) {\n": "static void* last;\nTVM_DLL int32_t tvmgen_tiny_half(void* x, void* y) {\n  last = y;\n"
    }
    model = load(tmp_path, "c", kept)
    assert "s2: a kernel keeps its address" in model.entry
    assert model.steps[1].persistent_globals == ("last",)


def test_an_output_that_kernels_work_in(tmp_path: Path) -> None:
    """Main may use the output's memory for values of its own."""
    through = {
        "wide(s2, s1)": "half(s2, output)",
        "sums(s1, s2)": "half(output, s2)",
        "i / 2] + ((float*)z": "i] + ((float*)z",
    }
    model = load(tmp_path, "c", through)
    assert [s.outputs == model.outputs for s in model.steps] == [False, False, True, False, True]
    assert [s.name for s in model.steps][1:4] == [f"tvmgen_tiny_half{end}" for end in ("", ":2", ":3")]
    changed = load(
        tmp_path, "c", {**through, "((float*)y)[i] = ((float*)x)[i] +": "((float*)y)[i] += ((float*)x)[i] +"}
    )
    assert changed.steps[4].writes == (2,)


def test_a_kernel_that_writes_the_input(tmp_path: Path) -> None:
    model = load(tmp_path, "c", {"((float*)z)[i];": "((float*)z)[i]; ((float*)z)[i] = 0.0f;"})
    assert model.steps[4].writes == (1,)


def test_workspaces_that_are_not_certain(tmp_path: Path) -> None:
    """A kernel whose requests depend on a condition gets the peak of all of them."""
    changes = {
        "  void* w =": "  if (((float*)x)[0] > 0.0f) { helper(); }\n  void* w =",
        "#include <math.h>\n": "#include <math.h>\nstatic void helper(void) {\n  void* v = TVMBackendAllocWorkspace(1, 0, (uint64_t)24, 2, 32);\n  TVMBackendFreeWorkspace(1, 0, v);\n}\n",
    }
    pad = load(tmp_path, "c", changes).steps[0]
    assert (pad.workspaces, pad.workspace_stack_bytes, pad.exact) == ((), 48, False)


@pytest.mark.parametrize(
    ("interface", "changes", "reason"),
    [
        ("c", {"  if (tvmgen_tiny_half": "  if (x[0] > 0.0f) {\n  }\n  if (x[0] > 1.0f) { return 0; }\n  if (tvmgen_tiny_half"}, "tvmgen_tiny___tvm_main__: the function returns with a workspace allocated"),
        ("static", {"  if (tvmgen_tiny_half": "  if (x[0] > 0.0f) {\n    x = output;\n  }\n  if (tvmgen_tiny_half"}, "tvmgen_tiny___tvm_main__: it has a branch"),
        ("packed", {"ndim) = (uint32_t)2": "ndim) = num_args"}, "tvmgen_tiny___tvm_main__: the ndim of a tensor is not a number"),
        ("c", {"return tvmgen_tiny___tvm_main__": "if (inputs == 0) { return -1; }\nreturn tvmgen_tiny___tvm_main__"}, "tvmgen_tiny_run does more than to call the main function"),
        ("c", {"(inputs->x,outputs": "(inputs->x + 1,outputs"}, "tvmgen_tiny_run passes something else than the fields of its structs"),
        ("c", {"TVM_DLL int32_t tvmgen_tiny_half(": "static int32_t tvmgen_tiny_half("}, "tvmgen_tiny_half has no source in C"),
        ("c", {"TVM_DLL int32_t tvmgen_tiny_half(": "TVM_DLL int64_t tvmgen_tiny_half("}, "tvmgen_tiny_half returns int64_t"),
        ("c", {"half(s1, s2)": "half(s1, s2, x)"}, "tvmgen_tiny_half is called with other arguments than it has"),
        ("c", {"half(s1, s2)": "half(s1, x)", "wide(s2": "wide(x", "last(s2, x, output)": "last(s2, x, s1)"}, "nothing writes the output 'output'"),
        ("c", {"half(s1, s2)": "half(s2, s2)"}, "s2 is read where no value of a kernel is alone"),
        ("c", {"half(s1, s2)": "half(output, s2)"}, "the output 'output' is read before it is written"),
        ("static", {"half(s1, s2, constants": "half(s1, constants, constants"}, "a kernel writes to the constants in global_const_workspace"),
        ("packed", {"arg_x = (((TVMValue*)args)[0]": "arg_x = (((TVMValue*)args)[1]", "arg_y = (((TVMValue*)args)[1]": "arg_y = (((TVMValue*)args)[0]"}, None),
    ],
)  # fmt: skip
def test_entries_that_stay_as_they_are(
    tmp_path: Path, interface: str, changes: dict[str, str], reason: str | None
) -> None:
    model = load(tmp_path, interface, changes)
    assert len(model.steps) == 1
    if reason is not None:
        assert model.entry == f"as compiled: {reason}"


def test_a_main_without_calls(tmp_path: Path) -> None:
    files = build_aot("c")
    member = "codegen/host/src/tiny_lib1.c"
    head, _, _ = files[member].decode().partition("TVM_DLL int32_t tvmgen_tiny___tvm_main__(")
    files[member] = (
        head + "TVM_DLL int32_t tvmgen_tiny___tvm_main__(float* x, float* output) {\n  return 0;\n}\n"
    ).encode()
    model = analyse(load_model(write(files, tmp_path / "model.tar")), host_compiler())
    assert model.entry == "as compiled: the main function has 0 calls"


def bare(*relocations: tuple[int, int, int]) -> bytes:
    """An object that names the workspace allocator, and refers to it where a relocation says so."""
    return Elf(symbols=[("TVMBackendAllocWorkspace", 0, 16, 0)], relocations=[*relocations]).build()


@pytest.mark.parametrize(
    ("data", "linked", "is_replayed"),
    [
        (None, True, True),
        (bare(), True, True),
        (bare((0, 10, 1)), False, True),
        (bare((0, 10, 1)), True, False),
    ],
    ids=["sources", "allocates-nothing", "not-linked", "allocates"],
)
def test_workspaces_of_an_entry_as_compiled(
    tmp_path: Path, data: bytes | None, linked: bool, is_replayed: bool
) -> None:
    """Replayed from its sources; what objects request is only in what the archive states."""
    model = load_model(write(build(kind="aot-c"), tmp_path / "a.tar"))
    unit = CodeUnit(member="lib/more.o", kind=UnitKind.OBJECT, data=data or b"", linked=linked)
    model = dataclasses.replace(
        model,
        units=(*model.units, *([unit] if data else [])),
        summary=msgspec.structs.replace(model.summary, workspace_bytes=4096),
    )
    (step,) = analyse(model, host_compiler(), as_compiled=True).steps
    assert step.exact == is_replayed
    assert (step.workspace_stack_bytes == 4096) == (not is_replayed)
    assert step.workspace_stack_bytes > 0


def test_workspace_of_an_entry_that_can_not_be_replayed(tmp_path: Path) -> None:
    files = build(kind="aot-c")
    for member, data in files.items():
        files[member] = data.replace(b"(uint64_t)32, 0, 8", b"(uint64_t)(intptr_t)output, 0, 8")
    model = load_model(write(files, tmp_path / "a.tar"))
    for stated in (4096, None):
        model = dataclasses.replace(
            model, summary=msgspec.structs.replace(model.summary, workspace_bytes=stated)
        )
        (step,) = analyse(model, host_compiler(), as_compiled=True).steps
        assert (step.workspace_stack_bytes, step.exact) == (stated or 0, False)
