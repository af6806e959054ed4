# SPDX-License-Identifier: Apache-2.0
"""A model that contradicts itself is refused, with the place."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest

from mlf_sdk.errors import InputError
from mlf_sdk.ir.abi import PACKED, Abi, Argument, Convention, Value, call_with
from mlf_sdk.ir.dtype import DType
from mlf_sdk.ir.model import Model, Overlap, Quantisation, Span, Tensor, TensorKind, Workspace
from mlf_sdk.ir.step import Layer
from toy_format import ToyFrontend, write_toy


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Tensors: 0 constant w, 1 input x, 2 output y, 3 state; one step with a workspace of slot 0."""
    return ToyFrontend().load(write_toy(tmp_path_factory.mktemp("toy") / "scale.toy"))


def with_tensor(model: Model, index: int, **changes: Any) -> dict[str, Any]:
    tensors = list(model.tensors)
    tensors[index] = dataclasses.replace(tensors[index], **changes)
    return {"tensors": tuple(tensors)}


def with_step(model: Model, **changes: Any) -> dict[str, Any]:
    return {"steps": (dataclasses.replace(model.steps[0], **changes),)}


def with_alias(model: Model, **changes: Any) -> dict[str, Any]:
    more: dict[str, Any] = {"id": 4, "name": "a", "c_name": "a", "kind": TensorKind.INTERMEDIATE}
    alias = Tensor(**{**more, "dtype": model.tensors[2].dtype, "shape": (2,), "alias_of": 2, **changes})
    return {"tensors": (*model.tensors, alias)}


def with_member(model: Model, member: str) -> dict[str, Any]:
    return {"units": (dataclasses.replace(model.units[0], member=member),)}


def with_values(model: Model, *values: Value) -> dict[str, Any]:
    return with_step(model, abi=call_with(values))


def work(*slots: int) -> tuple[Workspace, ...]:
    return tuple(Workspace(slot=slot, size_bytes=8, span=WHOLE) for slot in slots)


WHOLE = Span(first=0, last=0)
OVERLAP = Overlap(input=2, output=0, distance_bytes=4)
PER_AXIS = Quantisation(scale=(0.5, 0.25), zero_point=(0, 1), axis=0)
LONGEST = Tensor(
    id=1, name="x", c_name="x", dtype=DType.parse("int8"), shape=(2**31 - 1,), kind=TensorKind.INPUT
)
WRONG = {
    "alignment": (lambda m: {"alignment": 24}, "alignment", "24 is not a power of two"),
    "no alignment": (lambda m: {"alignment": 0}, "alignment", "0 is not a power of two"),
    "large alignment": (lambda m: {"alignment": 8192}, "alignment", "8192 is not a power of two up to 4096"),
    "id": (lambda m: with_tensor(m, 1, id=2), "tensors[1].id", "is 2"),
    "id before": (lambda m: with_tensor(m, 1, id=0), "tensors[1].id", "is 0"),
    "extent": (lambda m: with_tensor(m, 1, shape=(-4,)), "tensors[1].shape", "negative extent"),
    "data": (lambda m: with_tensor(m, 0, data=bytes(15)), "tensors[0].data", "15 bytes; shape and type take 16"),
    "more data": (lambda m: with_tensor(m, 0, data=bytes(17)), "tensors[0].data", "17 bytes; shape and type take 16"),
    "no data": (lambda m: with_tensor(m, 0, data=None), "tensors[0].data", "a constant has none"),
    "alias": (lambda m: with_alias(m, alias_of=9), "tensors[4].alias_of", "no tensor 9"),
    "cycle": (lambda m: with_tensor(m, 2, alias_of=2), "tensors[2].alias_of", "form a cycle"),
    "distance": (lambda m: with_alias(m, offset_bytes=9), "tensors[4]", "8 bytes at 9 do not lie within tensor 2"),
    "no distance": (lambda m: with_tensor(m, 1, offset_bytes=4), "tensors[1].offset_bytes", "no distance"),
    "axis": (lambda m: with_tensor(m, 1, quantisation=PER_AXIS), "tensors[1].quantisation", "do not fit"),
    "other axis": (
        lambda m: with_tensor(m, 1, quantisation=Quantisation(scale=(0.5,), zero_point=(0,), axis=3)),
        "tensors[1].quantisation",
        "do not fit",
    ),
    "nothing along another axis": (
        lambda m: with_tensor(m, 1, quantisation=Quantisation(scale=(), zero_point=(), axis=3)),
        "tensors[1].quantisation",
        "do not fit",
    ),
    "fewer scales": (
        lambda m: with_tensor(m, 1, quantisation=Quantisation(scale=(), zero_point=(0,))),
        "tensors[1].quantisation",
        "do not fit",
    ),
    "more scales": (
        lambda m: with_tensor(m, 1, quantisation=Quantisation(scale=(0.5, 0.5), zero_point=(0,))),
        "tensors[1].quantisation",
        "do not fit",
    ),
    "two scales without an axis": (
        lambda m: with_tensor(m, 1, quantisation=Quantisation(scale=(0.5, 0.5), zero_point=(0, 0))),
        "tensors[1].quantisation",
        "do not fit",
    ),
    "input": (lambda m: {"inputs": (1, 7)}, "inputs[1]", "no tensor 7"),
    "output": (lambda m: {"outputs": (-1,)}, "outputs[0]", "no tensor -1"),
    "names": (lambda m: {"output_names": ()}, "output_names", "0 names for 1 outputs"),
    "more names": (lambda m: {"output_names": ("y", "z")}, "output_names", "2 names for 1 outputs"),
    "step": (lambda m: with_step(m, index=1), "steps[0].index", "is 1"),
    "step before": (lambda m: with_step(m, index=-1), "steps[0].index", "is -1"),
    "argument": (lambda m: with_step(m, outputs=(8,)), "steps[0].arguments[3]", "no tensor 8"),
    "phases": (lambda m: with_step(m, phases=0), "steps[0].phases", "at least 1"),
    "spans": (lambda m: with_step(m, spans=(WHOLE,)), "steps[0].spans", "1 spans for 4 arguments"),
    "more spans": (lambda m: with_step(m, spans=(WHOLE,) * 5), "steps[0].spans", "5 spans for 4 arguments"),
    "span": (lambda m: with_step(m, spans=(Span(first=0, last=1),) * 4), "steps[0].spans", "phases 0 to 1 of 1"),
    "slots": (
        lambda m: with_step(m, workspaces=(Workspace(slot=0, size_bytes=1, span=WHOLE),) * 2),
        "steps[0].workspaces",
        "slots [0, 0]",
    ),
    "span behind all": (
        lambda m: with_step(m, phases=2, spans=(Span(first=0, last=3),) * 4),
        "steps[0].spans",
        "phases 0 to 3 of 2",
    ),
    "span that ends before": (
        lambda m: with_step(m, phases=2, spans=(Span(first=1, last=0),) * 4),
        "steps[0].spans",
        "phases 1 to 0 of 2",
    ),
    "span before all": (
        lambda m: with_step(m, phases=2, spans=(Span(first=-1, last=0),) * 4),
        "steps[0].spans",
        "phases -1 to 0 of 2",
    ),
    "negative slot": (
        lambda m: with_step(m, workspaces=(Workspace(slot=-1, size_bytes=1, span=WHOLE),)),
        "steps[0].workspaces",
        "slots [-1]",
    ),
    "slots and a stack": (
        lambda m: with_step(m, workspaces=work(0, 1), workspace_stack_bytes=8),
        "steps[0].workspaces",
        "both slots and a stack",
    ),
    "size": (
        lambda m: with_step(m, workspaces=(Workspace(slot=0, size_bytes=-1, span=WHOLE),)),
        "steps[0].workspaces",
        "a size of -1 bytes; 0 to 2147483647",
    ),
    "stack": (
        lambda m: with_step(m, workspace_stack_bytes=1 << 31),
        "steps[0].workspaces",
        "a size of 2147483648 bytes; 0 to 2147483647",
    ),
    "huge": (
        lambda m: with_tensor(m, 1, shape=(1 << 29, 1)),
        "tensors[1].shape",
        "[536870912, 1] float32 takes more than 2147483647 bytes",
    ),
    **{
        f"scale {scale}": (
            lambda m, scale=scale: with_tensor(m, 1, quantisation=Quantisation(scale=(scale,), zero_point=(0,))),
            "tensors[1].quantisation",
            f"a scale of {scale}",
        )
        for scale in (0.0, -1.0, 2.0**-150, 2.0**128, 1e300, float("inf"), float("nan"))
    },
    **{
        f"zero point {point}": (
            lambda m, point=point: with_tensor(m, 1, quantisation=Quantisation(scale=(1.0,), zero_point=(point,))),
            "tensors[1].quantisation",
            f"a zero point of {point}",
        )
        for point in (-(1 << 31) - 1, 1 << 31, 1 << 40)
    },
    "dimensions": (
        lambda m: with_tensor(m, 1, shape=(4, *(1,) * 16)),
        "tensors[1].shape",
        "17 dimensions; at most 16",
    ),
    "constant input": (lambda m: {"inputs": (0,)}, "inputs[0]", "the constant 'w' is never written"),
    "layer": (
        lambda m: with_step(m, layer=Layer(number=0, operator="ADD", detail="", kernel="", macs=-1)),
        "steps[0].layer",
        "a negative number",
    ),
    "slot": (lambda m: with_step(m, workspaces=()), "steps[0].abi", "no workspace 0"),
    "value": (lambda m: with_values(m, Value.of_tensor(5)), "steps[0].abi", "no storage of the step's"),
    "other value": (
        lambda m: with_values(m, Value.of_tensor(4)) | with_alias(m, alias_of=None),
        "steps[0].abi",
        "tensor 4 is in no storage of the step's inputs and outputs",
    ),
    "behind a tensor": (
        lambda m: with_values(m, dataclasses.replace(Value.of_tensor(1), offset_bytes=4)),
        "steps[0].abi",
        "an address 4 bytes behind the start of a tensor; 0 to 0",
    ),
    "behind a workspace": (
        lambda m: with_values(m, *(Value.of_workspace(0, at) for at in (-9, 32, 33))),
        "steps[0].abi",
        "an address 33 bytes behind the start of a workspace; -2147483647 to 32",
    ),
    "before a symbol": (
        lambda m: with_values(m, Value.of_symbol("table", 4), Value.of_symbol("table", -4)),
        "steps[0].abi",
        "an address -4 bytes behind the start of a symbol; 0 to 2147483647",
    ),
    "symbol": (lambda m: with_values(m, Value.of_symbol("")), "steps[0].abi", "a symbol without a name"),
    "symbol with a slot": (
        lambda m: with_values(m, dataclasses.replace(Value.of_symbol("table"), slot=0)),
        "steps[0].abi",
        "there is no symbol 0",
    ),
    "no argument": (
        lambda m: with_step(m, abi=Abi(convention=Convention.C, arguments=(Argument(),))),
        "steps[0].abi",
        "an argument is neither a pointer nor a struct",
    ),
    "unit": (lambda m: with_step(m, abi=call_with([], unit="x.c")), "steps[0].abi", "no code member 'x.c'"),
    "overlap": (
        lambda m: with_step(m, overlaps=(Overlap(input=0, output=1, distance_bytes=0),)),
        "steps[0].overlaps[0]",
        "input 0, output 1 of 'scale', which has 3 inputs and 1 outputs",
    ),
    "negative overlap": (
        lambda m: with_step(m, overlaps=(OVERLAP, Overlap(input=1, output=0, distance_bytes=-4))),
        "steps[0].overlaps[1].distance_bytes",
        "-4 for input 1, output 0 of 'scale': it is not negative",
    ),
    "overlap twice": (
        lambda m: with_step(m, overlaps=(OVERLAP, msgspec.structs.replace(OVERLAP, distance_bytes=0))),
        "steps[0].overlaps[1]",
        "input 2, output 0 of 'scale' is stated twice",
    ),
    "writes": (lambda m: with_step(m, writes=(3,)), "steps[0].writes", "inputs [3] of 3"),
    "constant": (lambda m: with_step(m, writes=(0,)), "steps[0]", "writes to the constant 'w'"),
    "members": (lambda m: {"units": m.units * 2}, "units", "two have one name"),
    **{
        f"member {member}": (
            lambda m, member=member: with_member(m, member),
            "units",
            f"'{member}' is not a path inside a folder",
        )
        for member in ("scale.c", "code//scale.c", "/scale.c", "code/../scale.c", "./scale.c")
    },
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_refused(model: Model, name: str) -> None:
    change, where, what = WRONG[name]
    with pytest.raises(InputError) as caught:
        dataclasses.replace(model, **change(model))
    assert caught.value.where == f"model scale: {where}"
    assert what in caught.value.what


ACCEPTED = {
    "folders": lambda m: with_member(m, "codegen/host/src/scale.c"),
    "at the start": with_alias,
    "no alignment": lambda m: {"alignment": 1},
    "alignment of a page": lambda m: {"alignment": 4096},
    "nothing in it": lambda m: with_tensor(m, 1, shape=(0,)),
    "many dimensions": lambda m: with_tensor(m, 1, shape=(4, *(1,) * 15)),
    "as large as it gets": lambda m: {"tensors": (m.tensors[0], LONGEST, *m.tensors[2:])},
    **{
        f"scale {scale}": lambda m, scale=scale, point=point: with_tensor(
            m, 1, quantisation=Quantisation(scale=(scale,), zero_point=(point,))
        )
        for scale, point in ((2.0**-149, -(1 << 31)), (2.0**127 * 1.9, (1 << 31) - 1), (300.0, 1000), (1.0, -1000))
    },
    "at the end": lambda m: with_alias(m, offset_bytes=8),
    "all of it": lambda m: with_alias(m, shape=(4,)),
    "phases": lambda m: with_step(
        m, phases=3, spans=(WHOLE, Span(first=1, last=1), Span(first=0, last=2), Span(first=2, last=2))
    ),
    "other slot": lambda m: with_step(
        m, workspaces=work(5), abi=call_with([*map(Value.of_tensor, (0, 1, 2, 3)), Value.of_workspace(5)])
    ),
    "largest workspace": lambda m: with_step(
        m, workspaces=(Workspace(slot=0, size_bytes=2**31 - 1, span=WHOLE),), workspace_stack_bytes=2**31 - 1
    ),
    "slots and a stack of a packed call": lambda m: with_step(
        m, abi=PACKED, workspaces=work(0), workspace_stack_bytes=8
    ),
    "null": lambda m: with_values(m, Value.null()),
    "last kept": lambda m: with_step(m, escaping_args=(3,)),
    "layer": lambda m: with_step(m, layer=Layer(number=3, operator="ADD", detail="", kernel="", macs=5)),
    "first layer": lambda m: with_step(m, layer=Layer(number=0, operator="ADD", detail="", kernel="", macs=0)),
}  # fmt: skip


@pytest.mark.parametrize("name", ACCEPTED)
def test_taken(model: Model, name: str) -> None:
    changes = ACCEPTED[name](model)
    found = dataclasses.replace(model, **changes)
    assert {key: getattr(found, key) for key in changes} == changes


def test_accepted(model: Model) -> None:
    found = dataclasses.replace(model, **with_alias(model, offset_bytes=8))
    assert (found.root(4).id, found.offset_in_root(4)) == (2, 8)
    found = dataclasses.replace(
        model, **with_tensor(model, 1, shape=(2, 2), quantisation=PER_AXIS), alignment=64
    )
    assert found.tensors[1].quantisation == PER_AXIS


def test_a_long_chain_of_aliases(model: Model) -> None:
    links = tuple(
        dataclasses.replace(model.tensors[2], id=i, alias_of=i - 1 if i > 4 else 2) for i in range(4, 3000)
    )
    found = dataclasses.replace(model, tensors=(*model.tensors, *links))
    assert found.root(2999).id == 2
