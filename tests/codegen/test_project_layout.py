# SPDX-License-Identifier: Apache-2.0
"""Memory of a model, symbols of several models, samples: pure decisions, no compiler."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysed import load_model
from archives import Spec, build, write
from mlf_sdk.codegen.link import link_models
from mlf_sdk.codegen.samples import pattern_array, pattern_bytes
from mlf_sdk.ir.dtype import DType
from mlf_sdk.ir.model import CodeUnit, Model, UnitKind
from mlf_sdk.planner.layout import ALIGNMENT, ModelLayout, align_up, lay_out, plan_problem
from mlf_sdk.planner.plan import check_plan
from model_cases import Net, by_name


def tiny(tmp_path: Path, spec: Spec | None = None) -> Model:
    return load_model(write(build(spec or Spec()), tmp_path / "tiny.tar"))


def constants_net() -> tuple[Net, object]:
    """Constants whose sizes are no multiples of the alignment, one of them empty."""
    net = Net()
    total = net.input("x", (1,))
    for size in (1, 3, 4, 5, 8):
        value = np.arange(1, size + 1, dtype=np.float32)
        total = net.call(
            f"add{size}", [total, net.constant(f"w{size}", value)], f"in0[0] + in1[{size - 1}]", shape=(1,)
        )
    return net, total


# ---- arena and parameters ----


@pytest.mark.parametrize(("size", "aligned"), [(0, 0), (1, 16), (16, 16), (17, 32)])
def test_align_up(size: int, aligned: int) -> None:
    assert align_up(size) == aligned


@pytest.mark.parametrize("keep_inputs", [False, True])
@pytest.mark.parametrize("spec", [Spec(), Spec(nop=True), Spec(dtype="int8"), Spec(kind="aot-c")], ids=str)
def test_arena_is_the_plan(tmp_path: Path, spec: Spec, keep_inputs: bool) -> None:
    model = tiny(tmp_path, spec)
    layout = lay_out(model, keep_inputs=keep_inputs)
    check_plan(plan_problem(model, keep_inputs=keep_inputs), layout.plan)
    ends = [b.offset + b.size_bytes for b in layout.plan.buffers]
    assert layout.arena_bytes == layout.plan.arena_bytes == max(ends)
    assert layout.arena_reserved_bytes % ALIGNMENT == 0
    assert 0 <= layout.arena_reserved_bytes - layout.arena_bytes < ALIGNMENT
    assert all(b.offset % ALIGNMENT == 0 for b in layout.plan.buffers)
    assert layout.inputs_kept is keep_inputs
    assert layout.steps == model.steps


def test_tiny_figures(tmp_path: Path) -> None:
    """While the padded copy (40 bytes) is read, only the output (32) is written: nothing else lives."""
    layout = lay_out(tiny(tmp_path))
    assert (layout.arena_bytes, layout.plan.lower_bound_bytes) == (72, 72)
    assert layout.io_bytes == 64
    kept = lay_out(tiny(tmp_path), keep_inputs=True)
    assert kept.arena_bytes == kept.plan.lower_bound_bytes == 104


def test_parameters_are_aligned_and_whole(tmp_path: Path) -> None:
    net, total = constants_net()
    model = net.load(tmp_path, total)
    layout = lay_out(model)
    blob = layout.params_blob()
    assert len(blob) == layout.params_bytes
    assert set(layout.constant_offsets) == {t.id for t in model.constants}
    used = bytearray(len(blob))
    for tensor in model.constants:
        offset = layout.constant_offsets[tensor.id]
        assert offset % 16 == 0
        assert blob[offset : offset + tensor.size_bytes] == tensor.data
        assert not any(used[offset : offset + tensor.size_bytes])
        used[offset : offset + tensor.size_bytes] = b"\1" * tensor.size_bytes
    gaps = bytes(value for value, taken in zip(blob, used, strict=True) if not taken)
    assert gaps == bytes(len(gaps))
    assert used[-1] == 1  # nothing behind the last one
    assert layout.params_bytes == 16 + 16 + 16 + 32 + 32


def test_no_parameters(tmp_path: Path) -> None:
    layout = lay_out(tiny(tmp_path, Spec(kind="aot-c")))
    assert (layout.params_bytes, layout.params_blob()) == (0, b"")


def test_constants_take_no_arena(tmp_path: Path) -> None:
    net = Net()
    w = net.constant("w", np.ones((1, 8), np.float32))
    flat = net.nop(w, (8,))
    model = net.load(tmp_path, net.call("add", [net.input("x", (8,)), flat], "in0[i] + in1[i]"), w)
    layout = lay_out(model)
    in_arena = {b.key for b in layout.plan.buffers}
    assert in_arena == {by_name(model, "x").id, by_name(model, "tvmgen_net_add").id}
    assert layout.io_bytes == 64  # the output that is a constant is not in it


def test_alias_has_the_place_of_its_root(tmp_path: Path) -> None:
    model = tiny(tmp_path, Spec(nop=True))
    offsets = lay_out(model).plan.tensor_offsets
    alias = by_name(model, "reshape_nop")
    assert offsets[alias.id] == offsets[model.root(alias.id).id]


def test_output_that_is_an_input_outlives_the_run(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x")
    y = net.call("neg", [x], "-in0[i]")
    for _ in range(3):
        y = net.call("neg", [y], "-in0[i]")
    model = net.load(tmp_path, y, x)
    plan = lay_out(model).plan
    (kept,) = [b for b in plan.buffers if b.key == model.inputs[0]]
    assert kept.last == max(b.last for b in plan.buffers)


def test_model_without_steps(tmp_path: Path) -> None:
    net = Net()
    net.kernels["unused"] = "int unused(void) { return 0; }\n"
    layout = lay_out(net.load(tmp_path, net.nop(net.input("x"), (2, 4))))
    assert (layout.arena_bytes, layout.steps) == (32, ())


# ---- several models in one image ----


def unit(*symbols: str, linked: bool = True) -> CodeUnit:
    return CodeUnit(
        member=f"code/{'-'.join(symbols)}-{linked}.c",
        kind=UnitKind.C,
        data=b"",
        linked=linked,
        symbols=symbols,
    )


def layouts(tmp_path: Path, *units: tuple[CodeUnit, ...]) -> list[ModelLayout]:
    model = tiny(tmp_path)
    return [
        lay_out(dataclasses.replace(model, c_name=f"m{index}", units=mine))
        for index, mine in enumerate(units)
    ]


def test_alone_nothing_is_renamed(tmp_path: Path) -> None:
    (layout,) = layouts(tmp_path, (unit("f", "g"),))
    for share in (False, True):
        (linkage,) = link_models([layout], share_arena=share)
        assert (linkage.renames, linkage.arena_symbol, linkage.owns_arena) == ({}, "m0_arena", True)
        assert linkage.arena_reserved_bytes == layout.arena_reserved_bytes
        assert linkage.symbol("f") == "f"


def test_later_models_are_renamed(tmp_path: Path) -> None:
    both = layouts(tmp_path, (unit("f", "g"),), (unit("g", "h"),), (unit("h", "f", "own"),))
    renames = [linkage.renames for linkage in link_models(both, share_arena=False)]
    assert renames == [{}, {"g": "m1_g"}, {"h": "m2_h", "f": "m2_f"}]


def test_new_name_that_is_taken_too(tmp_path: Path) -> None:
    both = layouts(tmp_path, (unit("g", "m1_g"),), (unit("g"),))
    names = [
        [linkage.symbol(s) for s in symbols]
        for linkage, symbols in zip(link_models(both, share_arena=False), [["g", "m1_g"], ["g"]], strict=True)
    ]
    assert len({*names[0], *names[1]}) == 3


def test_code_that_is_not_linked_does_not_collide(tmp_path: Path) -> None:
    both = layouts(tmp_path, (unit("f"),), (unit("f", linked=False), unit("h")))
    assert [linkage.renames for linkage in link_models(both, share_arena=False)] == [{}, {}]


@pytest.mark.parametrize(
    "symbol", ["main", "memcpy", "mlf_run", "TVMBackendAllocWorkspace", "TVMAPISetLastError"]
)
def test_names_of_the_runtime_are_taken(tmp_path: Path, symbol: str) -> None:
    (linkage,) = link_models(layouts(tmp_path, (unit(symbol, "f"),)), share_arena=False)
    assert linkage.renames == {symbol: f"m0_{symbol}"}


def test_shared_arena_has_the_largest_size_and_one_owner(tmp_path: Path) -> None:
    small, large = (lay_out(tiny(tmp_path, Spec(dtype=d))) for d in ("int8", "float32"))
    assert small.arena_reserved_bytes < large.arena_reserved_bytes
    linkages = link_models([small, large], share_arena=True)
    assert [link.arena_symbol for link in linkages] == ["tiny_shared_arena"] * 2
    assert [link.owns_arena for link in linkages] == [True, False]
    assert {link.arena_reserved_bytes for link in linkages} == {large.arena_reserved_bytes}
    apart = link_models([small, large], share_arena=False)
    assert [link.owns_arena for link in apart] == [True, True]
    assert [link.arena_reserved_bytes for link in apart] == [
        small.arena_reserved_bytes,
        large.arena_reserved_bytes,
    ]


# ---- samples ----


def array_of(dtype: str, *shape: int, salt: int = 0) -> np.ndarray[Any, Any]:
    return pattern_array(DType.parse(dtype), shape, salt=salt)


def bytes_of(dtype: str, elements: int) -> bytes:
    return pattern_bytes(DType.parse(dtype), elements)


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "int32", "int64", "uint64", "float16", "float32", "float64", "bool"]
)
def test_pattern(dtype: str) -> None:
    value = array_of(dtype, 4, 25)
    assert value.shape == (4, 25)
    assert value.tobytes() == bytes_of(dtype, 100)
    different = len(np.unique(value))
    assert different == 2 if dtype == "bool" else different > 50
    assert (value != array_of(dtype, 4, 25, salt=1)).any()
    if value.dtype.kind == "f":
        assert np.abs(value).max() <= 1.0
        assert value.min() < 0 < value.max()


def test_pattern_is_the_same_everywhere() -> None:
    assert array_of("float32", 2).tolist() == [
        pytest.approx(12345 / (1 << 31) - 1.0),
        pytest.approx((2654435761 + 12345) / (1 << 31) - 1.0),
    ]
    assert bytes_of("int8", 3) == bytes((n * 2654435761 + 12345) % (1 << 32) >> 24 for n in range(3))


@pytest.mark.parametrize("dtype", ["int4", "bfloat16", "int8x4", "uint1"])
def test_pattern_of_types_that_numpy_has_not(dtype: str) -> None:
    assert len(bytes_of(dtype, 5)) == 5 * DType.parse(dtype).size_bytes


def test_pattern_of_nothing() -> None:
    assert bytes_of("float32", 0) == b""
    assert len(bytes_of("float32", 1)) == 4
