# SPDX-License-Identifier: Apache-2.0
"""Models of one step: ahead of time (C interface, packed, static pools) and operator style; modules."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlf_sdk
from analysed import load_model
from archives import Spec, build, edit_json, merge, reference, sample, without, write
from elfobjects import Elf
from mlf_sdk.errors import ArchiveError, InputError
from mlf_sdk.ir.abi import PACKED, Argument, Convention, Field, Value, call_with
from mlf_sdk.ir.model import Model, TensorKind

LIB0 = "codegen/host/src/tiny_lib0.c"
LIB1 = "codegen/host/src/tiny_lib1.c"
HEADER = "codegen/host/include/tvmgen_tiny.h"


def load(files: dict[str, bytes], tmp_path: Path, module: str | None = None) -> Model:
    return load_model(write(files, tmp_path / "model.tar"), module=module)


def faults_of(files: dict[str, bytes], tmp_path: Path) -> list[tuple[str, str]]:
    with pytest.raises(ArchiveError) as caught:
        load(files, tmp_path)
    return [(fault.member, fault.what) for fault in caught.value.faults]


def replaced(files: dict[str, bytes], member: str, *pairs: tuple[str, str]) -> dict[str, bytes]:
    text = files[member].decode()
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return {**files, member: text.encode()}


def main_of(top: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = top["modules"]["tiny"]["memory"]["functions"]["main"][0]
    return found


def forget_io(top: dict[str, Any]) -> None:
    main_of(top).pop("inputs")
    main_of(top).pop("outputs")


def typed_relay(dtype: str = "float32") -> dict[str, bytes]:
    """Relay text as TVM writes it, with the type of the result."""
    tensor = f"Tensor[(1, 8), {dtype}]"
    return {"src/tiny.relay": f"def @main(%x: {tensor}) -> {tensor} {{\n  nn.relu(%x)\n}}\n".encode()}


def structs(model: Model) -> dict[str, tuple[str, ...]]:
    """Fields of the structs that the only step takes, by tag."""
    (step,) = model.steps
    return {a.struct: tuple(f.name for f in a.fields) for a in step.abi.arguments}


# ---- ahead of time ----


@pytest.mark.parametrize(("dtype", "peak"), [("float32", 112), ("int8", 80)])
def test_c_interface(tmp_path: Path, dtype: str, peak: int) -> None:
    """The peak of the stack: two tensors of 8 and a workspace of 40 bytes, each rounded up to 16."""
    model = load(build(kind="aot-c", dtype=dtype), tmp_path)
    (step,) = model.steps
    assert model.executor == "aot"
    assert (step.symbol, step.name, model.label(step.name)) == ("tvmgen_tiny_run", "tvmgen_tiny_run", "run")
    assert step.abi.convention is Convention.C
    assert structs(model) == {"tvmgen_tiny_inputs": ("x",), "tvmgen_tiny_outputs": ("output",)}
    assert [value.tensor for value in step.abi.values] == [0, 1]
    assert set(step.kernels) == {f"tvmgen_tiny_fused_{n}" for n in ("multiply", "smooth", "add_relu")}
    assert step.workspace_stack_bytes == peak
    assert step.exact
    assert (step.inputs, step.outputs) == ((0,), (1,))
    assert [(t.name, t.kind, t.shape, t.dtype.name) for t in model.tensors] == [
        ("x", TensorKind.INPUT, (1, 8), dtype),
        ("output", TensorKind.INTERMEDIATE, (8,), dtype),
    ]  # the relay text of this archive does not tell the result: only its size is known
    assert step.abi.header == HEADER
    assert model.constants == ()
    assert {u.member for u in model.units if u.linked} == {LIB0, LIB1}


def test_packed_interface(tmp_path: Path) -> None:
    model = load(build(kind="aot-packed"), tmp_path)
    (step,) = model.steps
    assert (step.abi, step.symbol) == (PACKED, "tvmgen_tiny___tvm_main__")
    assert not step.is_direct  # its workspace is a stack
    assert step.exact
    assert [u.member for u in model.units if u.linked] == [LIB1]  # its wrapper is not needed


@pytest.mark.parametrize("version", [3, 4, 5, 6])
@pytest.mark.parametrize("kind", ["aot-c", "aot-packed"])
def test_versions_before_7(tmp_path: Path, version: int, kind: str) -> None:
    """No inputs and outputs in the metadata: their types stand in the relay text."""
    files = build(kind=kind, version=version)
    (text,) = typed_relay().values()
    model = load({**files, "src/relay.txt": text}, tmp_path)
    assert model.provenance.format_version == str(version)
    assert [t.shape for t in model.tensors] == [(1, 8), (1, 8)]
    assert model.steps[0].exact


def test_shapes_come_from_the_declaration_of_main(tmp_path: Path) -> None:
    model = load({**build(kind="aot-c"), **typed_relay()}, tmp_path)
    assert [t.shape for t in model.tensors] == [(1, 8), (1, 8)]


NO_TYPES = (
    "./metadata.json",
    "the types of the inputs and outputs are stated neither here nor in C metadata tables nor in the relay text",
)


@pytest.mark.parametrize("kind", ["aot-c", "aot-packed"])
def test_types_are_stated_nowhere(tmp_path: Path, kind: str) -> None:
    files = edit_json(build(kind=kind), "metadata.json", forget_io)
    assert faults_of(without(files, "src/tiny.relay"), tmp_path) == [NO_TYPES]


@pytest.mark.parametrize("kind", ["aot-c", "aot-packed"])
def test_sizes_come_from_the_metadata(tmp_path: Path, kind: str) -> None:
    """Without the relay text only sizes are known: one dimension."""
    model = load(without(build(kind=kind), "src/tiny.relay"), tmp_path)
    assert model.io_names == (("x",), ("output",))
    assert [(t.shape, t.dtype.name) for t in model.tensors] == [((8,), "float32"), ((8,), "float32")]


def more_io(count: int, *, inputs: tuple[str, ...] = ("x",), stem: str = "output") -> Any:
    """An edit of the metadata: other inputs, and ``count`` outputs of different sizes."""

    def edit(top: dict[str, Any]) -> None:
        main = main_of(top)
        main["inputs"] = {name: {"size": 32, "dtype": "float32"} for name in sorted(inputs)}
        main["outputs"] = {
            name: {"size": 4 + 4 * int(name.removeprefix(stem)), "dtype": "float32"}
            for name in sorted(f"{stem}{i}" for i in range(count))
        }

    return edit


def test_numbered_outputs_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    files = edit_json(build(kind="aot-packed"), "metadata.json", more_io(11))
    model = load(without(files, "src/tiny.relay"), tmp_path)
    assert model.output_names == tuple(f"output{i}" for i in range(11))
    assert [model.tensors[i].shape for i in model.outputs] == [(i + 1,) for i in range(11)]


@pytest.mark.parametrize("edit", [more_io(2, stem="result"), more_io(1, inputs=("x", "y"))])
def test_order_that_is_stated_nowhere(tmp_path: Path, edit: Any) -> None:
    files = edit_json(build(kind="aot-packed"), "metadata.json", edit)
    assert faults_of(without(files, "src/tiny.relay"), tmp_path) == [NO_TYPES]


def test_header_decides_the_order_of_sizes(tmp_path: Path) -> None:
    files = edit_json(build(kind="aot-c"), "metadata.json", more_io(2, inputs=("x", "y"), stem="result"))
    files = replaced(
        without(files, "src/tiny.relay"),
        HEADER,
        ("  void* x;\n", "  void* y;\n  void* x;\n"),
        ("  void* output;\n", "  void* result1;\n  void* result0;\n"),
    )
    model = load(files, tmp_path)
    assert [model.tensors[i].name for i in model.inputs] == ["y", "x"]
    assert [model.tensors[i].shape for i in model.outputs] == [(2,), (1,)]
    assert list(structs(model).values()) == [("y", "x"), ("result1", "result0")]


def test_header_decides_the_order_of_the_inputs(tmp_path: Path) -> None:
    tensor = "Tensor[(1, 8), float32]"
    relay = f"def @main(%x: {tensor}, %y: {tensor}) -> {tensor} {{\n  add(%x, %y)\n}}\n".encode()
    files = {**build(kind="aot-c"), "src/tiny.relay": relay}
    files = edit_json(files, "metadata.json", forget_io)
    files = replaced(files, HEADER, ("  void* x;\n", "  void* y;\n  void* x;\n"))
    model = load(files, tmp_path)
    assert [model.tensors[i].name for i in model.inputs] == ["y", "x"]
    assert structs(model)["tvmgen_tiny_inputs"] == ("y", "x")


def test_header_that_does_not_fit(tmp_path: Path) -> None:
    files = {**build(kind="aot-c"), **typed_relay()}
    files = replaced(files, HEADER, ("  void* x;\n", "  void* z;\n"))
    found = faults_of(files, tmp_path)
    assert [member for member, _ in found] == [HEADER]
    assert "['z']" in found[0][1] and "['x']" in found[0][1]


def test_real_name_of_an_input(tmp_path: Path) -> None:
    """The C field is legalised; the metadata and the relay text have the real name."""
    tensor = "Tensor[(1, 8), float32]"
    files = build(kind="aot-c")
    files["src/tiny.relay"] = f"def @main(%x:0: {tensor}) -> {tensor} {{\n  nn.relu(%x:0)\n}}\n".encode()

    def rename(top: dict[str, Any]) -> None:
        inputs = main_of(top)["inputs"]
        inputs["x:0"] = inputs.pop("x")

    files = edit_json(files, "metadata.json", rename)
    files = replaced(files, HEADER, ("  void* x;\n", "  void* x_0;\n"))
    files = replaced(files, LIB0, ("inputs->x,", "inputs->x_0,"))
    model = load(files, tmp_path)
    assert model.io_names == (("x:0",), ("output",))
    assert list(structs(model).values()) == [("x_0",), ("output",)]


@pytest.mark.parametrize("kind", ["aot-c", "aot-packed"])
def test_function_that_nothing_defines(tmp_path: Path, kind: str) -> None:
    files = build(kind=kind)
    text = files[LIB1].decode()
    start = text.index("TVM_DLL int32_t tvmgen_tiny_fused_smooth(")
    body = text.index("{", start)
    end = text.index("return 0;\n}\n", start) + len("return 0;\n}\n")
    files[LIB1] = (text[:body].rstrip() + ";\n" + text[end:]).encode()
    found = faults_of(files, tmp_path)
    assert len(found) == 1
    assert found[0][0] == "./codegen/host"
    assert "'tvmgen_tiny_fused_smooth'" in found[0][1]


def test_entry_that_nothing_defines(tmp_path: Path) -> None:
    files = build(kind="aot-c")
    found = faults_of(without(files, LIB0), tmp_path)
    assert len(found) == 1
    assert "'tvmgen_tiny_run', the entry" in found[0][1]


def test_workspace_that_the_code_does_not_state_is_the_archives_figure(tmp_path: Path) -> None:
    files = replaced(build(kind="aot-c"), LIB1, ("(uint64_t)40", "(uint64_t)(dev_id + 40)"))
    (step,) = load(files, tmp_path).steps
    assert not step.exact
    assert step.workspace_stack_bytes == 104  # workspace_size_bytes of main


# ---- ahead of time with static memory planning ----

USMP = (
    '__attribute__((section(".rodata.tvm"), ))\nstatic struct global_const_workspace {\n'
    "  float p0[8] __attribute__((aligned(16))); // 32 bytes, aligned offset: 0\n} global_const_workspace = {\n"
    "  .p0 = {1, 2, 3, 4, 5, 6, 7, 8},\n};// of total size 32 bytes\n"
    '__attribute__((section(".bss.noinit.tvm"), aligned(16)))\nstatic uint8_t global_workspace[176];\n'
)


def usmp_files() -> dict[str, bytes]:
    """The entry takes inputs, outputs and the two pools; the wrapper passes the static ones."""
    files = replaced(
        build(kind="aot-c"),
        LIB0,
        ("(void* x,void* output0);", "(void* x,void* output0,uint8_t* const_ws,uint8_t* ws);"),
        (
            "(inputs->x,outputs->output)",
            "(inputs->x,outputs->output,&global_const_workspace,&global_workspace)",
        ),
        ("#include <tvmgen_tiny.h>\n", f"#include <tvmgen_tiny.h>\n{USMP}"),
    )
    files = replaced(
        files,
        LIB1,
        ("__tvm_main__(void* x, void* output)", "__tvm_main__(void* x, void* output, void* c, void* w)"),
    )
    return {**files, **typed_relay()}


def test_static_pools(tmp_path: Path) -> None:
    model = load(usmp_files(), tmp_path)
    (step,) = model.steps
    assert step.symbol == "tvmgen_tiny___tvm_main__"
    constants, workspace = Value.of_symbol("global_const_workspace"), Value.of_workspace(1)
    tensors = [Value.of_tensor(0), Value.of_tensor(1)]
    assert step.abi == call_with([*tensors, constants, workspace], unit=LIB0, header=LIB0)
    assert [(w.slot, w.size_bytes) for w in step.workspaces] == [(1, 176)]
    assert {u.member for u in model.units if u.linked} == {LIB0, LIB1}


def test_a_static_pool_is_passed_as_another_type(tmp_path: Path) -> None:
    """Forks of TVM write ``((uint8_t*)&global_workspace)``: the pool is in the arena all the same."""
    files = replaced(usmp_files(), LIB0, ("&global_workspace)", "((uint8_t*)&global_workspace))"))
    (step,), (usual,) = load(files, tmp_path).steps, load(usmp_files(), tmp_path).steps
    assert (step.abi, step.workspaces) == (usual.abi, usual.workspaces)


def test_pool_of_unknown_size(tmp_path: Path) -> None:
    files = replaced(usmp_files(), LIB0, ("[176]", "[N]"))
    assert faults_of(files, tmp_path) == [(LIB0, "the size of the pool 'global_workspace' is not stated")]


# ---- pools that the caller gives ----


def pool_files(macros: str = "#define TVMGEN_TINY_SRAM_WORKSPACE_POOL_SIZE 176\n") -> dict[str, bytes]:
    """The run function takes a struct with one memory pool."""
    files = replaced(
        build(kind="aot-c"),
        HEADER,
        ("int32_t tvmgen_tiny_run(", f"struct tvmgen_tiny_workspace_pools {{\n  void* sram;\n}};\n{macros}int32_t tvmgen_tiny_run("),
        ("tvmgen_tiny_outputs* outputs\n)", "tvmgen_tiny_outputs* outputs,\n  struct tvmgen_tiny_workspace_pools* workspace_pools\n)"),
    )  # fmt: skip
    files = replaced(
        files,
        LIB0,
        ("outputs* outputs) {", "outputs* outputs, struct tvmgen_tiny_workspace_pools* workspace_pools) {"),
        ("(void* x,void* output0);", "(void* x,void* output0,void* sram);"),
        ("(inputs->x,outputs->output)", "(inputs->x,outputs->output,workspace_pools->sram)"),
    )
    return {**files, **typed_relay()}


def test_pools_of_the_caller(tmp_path: Path) -> None:
    (step,) = load(pool_files(), tmp_path).steps
    assert step.symbol == "tvmgen_tiny_run"
    pool = Field(name="sram", value=Value.of_workspace(0))
    assert step.abi.arguments[2:] == (Argument(struct="tvmgen_tiny_workspace_pools", fields=(pool,)),)
    assert [(w.slot, w.size_bytes) for w in step.workspaces] == [(0, 176)]


@pytest.mark.parametrize(
    "macros",
    [
        "",
        "#define TVMGEN_TINY_SRAM_WORKSPACE_POOL_SIZE -176\n",
        "#define TVMGEN_TINY_SRAM_A_SIZE 176\n#define TVMGEN_TINY_SRAM_B_SIZE 176\n",
    ],
)
def test_pool_of_the_caller_of_unknown_size(tmp_path: Path, macros: str) -> None:
    assert faults_of(pool_files(macros), tmp_path) == [(HEADER, "the size of the pool 'sram' is not stated")]


# ---- which function is the entry, and what tells its arguments ----


def test_entry_of_an_older_name(tmp_path: Path) -> None:
    files = replaced(build(kind="aot-packed"), LIB1, ("___tvm_main__(", "_run_model("))
    files = replaced(files, LIB0, ("___tvm_main__(", "_run_model("))
    assert load(files, tmp_path).steps[0].symbol == "tvmgen_tiny_run_model"


def plain_files(*typed: str) -> dict[str, bytes]:
    """An archive of 2021: the interface is declared, only main is defined; parameters of a kernel have types."""
    kernel = "tvmgen_tiny_fused_add_relu("
    kernels = [(kernel + "void* in, void* other, void* out", kernel + ", ".join(typed))] if typed else []
    files = replaced(build(kind="aot-c", version=5), LIB1, *kernels)
    del files[LIB0]
    return files


@pytest.mark.toolchain
def test_main_in_place_of_an_interface_that_nothing_defines(tmp_path: Path, needs_cc: str) -> None:
    files = plain_files("float* in, float* other, float* out")
    model = load(files, tmp_path)
    assert [step.symbol for step in model.steps] == ["tvmgen_tiny_run_model"]
    found = [(t.name, t.dtype.name, t.shape) for t in (*map(model.tensors.__getitem__, model.inputs),)]
    assert found == [("x", "float32", (1, 8))]
    (output,) = (model.tensors[i] for i in model.outputs)
    assert (output.dtype.name, output.shape) == ("float32", (8,))
    spec = Spec(kind="aot-c", version=5)
    x = sample(spec)
    run = mlf_sdk.run(write(files, tmp_path / "plain.tar"), board="host", inputs={"x": x}, twin=False)
    (y,) = run.outputs.values()
    np.testing.assert_allclose(np.asarray(y).ravel(), reference(spec, x).ravel(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "typed", ["", "float* in, float* other, struct s* out", "float* a, float* b, int64_t* c"]
)
def test_an_output_whose_type_nothing_states(tmp_path: Path, typed: str) -> None:
    """Its size is what the metadata counts beside the input: 32 bytes here, and 36 are no whole numbers of int64."""
    files = plain_files(*filter(None, [typed]))
    if "int64" in typed:
        files = edit_json(files, "metadata.json", lambda top: _main_of(top).update(io_size_bytes=68))
    assert any(
        "the types of the inputs and outputs are stated neither" in what
        for _, what in faults_of(files, tmp_path)
    )


def _main_of(top: dict[str, Any]) -> dict[str, Any]:
    (main,) = top["memory"]["functions"]["main"]
    return main


def test_no_function_that_could_be_the_entry(tmp_path: Path) -> None:
    files = replaced(build(kind="aot-packed"), LIB1, ("___tvm_main__(", "_start("))
    files = replaced(files, LIB0, ("___tvm_main__(", "_start("), ("tvmgen_tiny_run(", "tvmgen_tiny_begin("))
    (fault,) = faults_of(files, tmp_path)
    assert fault[0] == "./codegen/host"
    assert "no source or object defines 'tvmgen_tiny_run', the entry" in fault[1]


def test_main_that_nothing_defines(tmp_path: Path) -> None:
    """An archive that TVM 0.8 built without a C host target: main is declared, and nothing defines it."""
    kernel = b"int32_t tvmgen_tiny_fused_nn_relu(void* p0, void* T_relu) {\n  return 0;\n}\n"
    files = {**build(kind="aot-c", version=5), LIB1: kernel}
    ((member, what),) = faults_of(files, tmp_path)
    assert member == "./codegen/host"
    assert what.startswith("the main function 'tvmgen_tiny_run_model' is declared but not defined")
    assert "without a C host target" in what
    assert "tvm.target.Target(TARGET, host=TARGET)" in what


def c_metadata(name: str = "x_0", code: int = 2) -> bytes:
    """C metadata tables of one input and one output of 8 elements, and the function that gives them."""
    tables = ""
    for kind, tensor in (("inputs", name), ("outputs", "output")):
        tables += (
            f"static const int64_t kTvmgenMetadata_{kind}_0_shape[2] = {{\n1L, \n8L}};\n"
            f"static const struct TVMTensorInfo kTvmgenMetadata_{kind}[1] = {{\n{{\n"
            f'"{tensor}" /* name*/, \nkTvmgenMetadata_{kind}_0_shape, \n2L /* num_shape*/, \n'
            f"{{{code}, 32, 1}} /* dtype*/}}\n}};\n"
        )
    return f"{tables}int32_t tvmgen_tiny_get_c_metadata(void) {{\n  return 0;\n}}\n".encode()


def test_shapes_come_from_c_metadata(tmp_path: Path) -> None:
    def rename(top: dict[str, Any]) -> None:
        inputs = main_of(top)["inputs"]
        inputs["x:0"] = inputs.pop("x")

    files = {**build(kind="aot-packed"), "codegen/host/src/tiny_lib2.c": c_metadata()}
    model = load(edit_json(files, "metadata.json", rename), tmp_path)
    assert model.io_names == (("x:0",), ("output",))  # the metadata has the real name
    assert [t.shape for t in model.tensors] == [(1, 8), (1, 8)]
    model = load(files, tmp_path)
    assert model.io_names == (("x_0",), ("output",))  # nothing else there is called like that


@pytest.mark.parametrize("broken", [c_metadata(code=9), c_metadata().replace(b"_shape[2]", b"_dims[2]")])
def test_c_metadata_that_cannot_be_read_is_left_alone(tmp_path: Path, broken: bytes) -> None:
    files = {**build(kind="aot-packed"), "codegen/host/src/tiny_lib2.c": broken, **typed_relay()}
    assert load(files, tmp_path).io_names == (("x",), ("output",))


def test_result_of_a_type_that_is_stated_nowhere(tmp_path: Path) -> None:
    """The relay text has no type at its result, and the metadata no outputs."""
    files = edit_json(build(kind="aot-packed"), "metadata.json", forget_io)
    assert faults_of(files, tmp_path) == [NO_TYPES]


@pytest.mark.parametrize("allocates", [False, True])
def test_entry_that_calls_an_object(tmp_path: Path, allocates: bool) -> None:
    """A kernel may be machine code; what it asks for is not replayed: the archive's figure is taken."""
    files = build(kind="aot-c")
    text = files[LIB1].decode()
    start = text.index("TVM_DLL int32_t tvmgen_tiny_fused_smooth(")
    body = text.index("{", start)
    end = text.index("return 0;\n}\n", start) + len("return 0;\n}\n")
    files[LIB1] = (text[:body].rstrip() + ";\n" + text[end:]).encode()
    symbols = [("tvmgen_tiny_fused_smooth", 1, 18, 1), ("TVMBackendAllocWorkspace", 0, 16, 0)]
    elf = Elf(symbols=symbols, relocations=[(0, 10, 2)]) if allocates else Elf(symbols=symbols[:1])
    files["codegen/host/lib/tiny_lib2.o"] = elf.build()
    model = load({**files, **typed_relay()}, tmp_path)
    assert {u.member for u in model.units if u.linked} == {LIB0, LIB1, "codegen/host/lib/tiny_lib2.o"}
    assert model.steps[0].exact is not allocates
    assert model.steps[0].workspace_stack_bytes == (104 if allocates else 64)


# ---- operator style ----


def two_operators() -> dict[str, bytes]:
    """A second function, ``half``, that reads B and writes A's neighbour."""
    files = build(kind="operator")
    source = files["codegen/host/src/lib1.c"].decode()
    start = source.index('#ifdef __cplusplus\nextern "C"\n#endif\nTVM_DLL int32_t scale(')
    end = source.index('#ifdef __cplusplus\nextern "C"\n#endif\nTVM_DLL int32_t __tvm_main__')
    half = source[start:end].replace("scale(", "half(").replace("* (float)2", "/ (float)2")
    files["codegen/host/src/lib1.c"] = (source + half).encode()

    def describe(top: dict[str, Any]) -> None:
        top["memory"]["half"] = [dict(entry) for entry in top["memory"]["scale"]]

    return edit_json(files, "metadata.json", describe)


def test_operator(tmp_path: Path) -> None:
    model = load(build(kind="operator"), tmp_path)
    assert (model.executor, model.name) == ("operator", "tiny")
    assert model.io_names == (("A",), ("B",))
    (step,) = model.steps
    assert (step.symbol, step.abi, step.inputs, step.outputs) == ("scale", PACKED, (0,), (1,))
    assert [t.shape for t in model.tensors] == [(8,), (8,)]
    assert [u.member for u in model.units if u.linked] == ["codegen/host/src/lib1.c"]


def test_operator_is_chosen_by_name(tmp_path: Path) -> None:
    files = two_operators()
    assert load(files, tmp_path, "half").steps[0].symbol == "half"
    assert load(files, tmp_path, "scale").steps[0].symbol == "scale"
    for module, what in (
        (None, "several functions"),
        ("tiny", "several functions"),
        ("third", "no function called 'third'"),
    ):
        with pytest.raises(InputError, match=what) as caught:
            load(files, tmp_path, module)
        assert caught.value.hint == "Choose one with --module: scale, half"
        assert not isinstance(caught.value, ArchiveError)


def operator(body: str, arguments: str = "A B C") -> dict[str, bytes]:
    """An operator with this body over the data pointers of its arguments."""
    files = build(kind="operator")
    names = arguments.split()
    unpack = "".join(
        f"  void* arg_{name} = (((TVMValue*)args)[{i}].v_handle);\n"
        f"  void* {name} = (((DLTensor*)arg_{name})[0].data);\n"
        for i, name in enumerate(names)
    )
    source = files["codegen/host/src/lib1.c"].decode()
    head = source[: source.index("{\n") + 2]
    files["codegen/host/src/lib1.c"] = f"{head}{unpack}{body}\n  return 0;\n}}\n".encode()

    def describe(top: dict[str, Any]) -> None:
        top["memory"]["scale"] = [
            {"size_bytes": 32, "shape": [8], "dtype": "float32", "input_binding": name} for name in names
        ]

    return edit_json(files, "metadata.json", describe)


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        ("  ((float*)C)[0] = ((float*)A)[0] + ((float*)B)[0];", "C"),
        ("  ((float*)B)[0] = 1.0f; ((float*)C)[0] = ((float*)A)[0];", "B C"),
        ("  ((float*)C)[0] += ((float*)A)[0];", "C"),
        ("  if (((float*)A)[0] == ((float*)B)[0]) ((float*)C)[((int32_t*)B)[0]] = 0;", "C"),
        ("  ((float*)C)[0] = ((float*)A)[0] <= 1.0f;", "C"),
        ("  (void)A;", "C"),  # stores nothing that can be seen: the last one
        ("  memcpy(C, A, 32);", "C"),
    ],
)
def test_which_arguments_an_operator_writes(tmp_path: Path, body: str, outputs: str) -> None:
    model = load(operator(body), tmp_path)
    assert list(model.output_names) == outputs.split()
    assert [model.tensors[i].name for i in model.inputs] == [n for n in "ABC" if n not in outputs]


def test_operator_that_writes_before_it_reads_another(tmp_path: Path) -> None:
    body = "  ((float*)A)[0] = ((float*)B)[0];"
    assert faults_of(operator(body, "A B"), tmp_path) == [
        ("./metadata.json", "'scale' writes an argument before it reads another")
    ]


# ---- modules ----


def test_modules_are_chosen_by_name(tmp_path: Path) -> None:
    files = merge(Spec(name="first"), Spec(name="second", dtype="int8", kind="aot-c"))
    first, second = load(files, tmp_path, "first"), load(files, tmp_path, "second")
    assert (first.name, first.executor, first.tensors[0].dtype.name) == ("first", "graph", "float32")
    assert (second.name, second.executor, second.tensors[0].dtype.name) == ("second", "aot", "int8")
    assert first.provenance.sha256 == second.provenance.sha256
    assert not {u.member for u in first.units if u.linked} & {u.member for u in second.units if u.linked}
    for module, what in ((None, "several modules"), ("third", "no module called 'third'")):
        with pytest.raises(InputError, match=what) as caught:
            load(files, tmp_path, module)
        assert caught.value.hint == "Choose one with --module: first, second"


def test_wrong_name_of_the_only_module(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=re.escape("no module called 'other'")):
        load(build(), tmp_path, "other")
    assert load(build(), tmp_path, "tiny").name == "tiny"
