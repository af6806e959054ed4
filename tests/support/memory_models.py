# SPDX-License-Identifier: Apache-2.0
"""Models of steps that are drawn at random, memories with costs, and an exhaustive search for the best places."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from mlf_sdk.ir.dtype import DType
from mlf_sdk.ir.model import MemorySummary, Model, Provenance, Tensor, TensorKind
from mlf_sdk.ir.step import Layer, Overlap, Span, Step, Workspace
from mlf_sdk.planner.layout import Bank, lay_out
from mlf_sdk.planner.traffic import Traffic, traffic_of

COSTS = (1.0, 2.0, 8.0)
_BYTE = DType.parse("int8")
_WHOLE = Span(first=0, last=0)


def ram(name: str, size_bytes: int, cycles: float = 1.0) -> Bank:
    """A RAM; its room for models is a little less."""
    both = (cycles, 2 * cycles)
    return Bank(
        name=name,
        is_ram=True,
        size_bytes=size_bytes,
        read_cycles=both,
        write_cycles=both,
        noinit="n",
        data="d",
    )


def flash(name: str, size_bytes: int, cycles: float = 8.0) -> Bank:
    return Bank(name=name, is_ram=False, size_bytes=size_bytes, read_cycles=(cycles, 2 * cycles), rodata="r")


def drawn_model(seed: int, steps: int, constants: int = 2) -> Model:
    """A chain with residuals: each step reads the last tensor, some an older one, some weights or scratch."""
    rng = random.Random(seed)
    tensors: list[Tensor] = []

    def add(kind: TensorKind, size_bytes: int) -> int:
        number = len(tensors)
        data = bytes(size_bytes) if kind is TensorKind.CONSTANT else None
        name = f"{kind.value}_{number}"
        tensors.append(
            Tensor(id=number, name=name, c_name=name, dtype=_BYTE, shape=(size_bytes,), kind=kind, data=data)
        )
        return number

    made = [add(TensorKind.INPUT, 16 * rng.randint(4, 64))]
    calls = []
    for index in range(steps):
        inputs = [made[-1]]
        if len(made) > 2 and rng.random() < 0.4:
            inputs.append(rng.choice(made[:-1]))
        weights = index < constants
        if weights:
            inputs.append(add(TensorKind.CONSTANT, 16 * rng.randint(4, 128)))
        output = add(TensorKind.INTERMEDIATE, 16 * rng.randint(4, 64))
        made.append(output)
        scratch = rng.random() < 0.3
        calls.append(
            Step(
                index=index,
                name=f"step_{index}",
                symbol=f"f{index}",
                inputs=tuple(inputs),
                outputs=(output,),
                spans=(_WHOLE,) * (len(inputs) + 1),
                workspaces=(Workspace(slot=0, size_bytes=16 * rng.randint(1, 32), span=_WHOLE),) * scratch,
                overlaps=(Overlap(input=0, output=0, distance_bytes=0),) * (rng.random() < 0.3),
                layer=Layer(
                    number=index,
                    operator="CONV_2D",
                    detail="",
                    kernel="",
                    macs=rng.randint(1, 200) * tensors[inputs[-1]].size_bytes if weights else 0,
                    tile=(rng.choice((1, 2, 4)), rng.choice((1, 2, 4))),
                ),
            )
        )
    return _model(tensors, calls, made[-1])


def convolution(tile: tuple[int, int], *, scratch: bool) -> Model:
    """One layer: 3x3 windows over 8x8 pixels of 4 channels, 16 outputs each."""
    shapes = {
        TensorKind.INPUT: (1, 8, 8, 4),
        TensorKind.CONSTANT: (16, 3, 3, 4),
        TensorKind.INTERMEDIATE: (1, 8, 8, 16),
    }
    tensors = [
        Tensor(
            id=number,
            name=kind.value,
            c_name=kind.value,
            dtype=_BYTE,
            shape=shape,
            kind=kind,
            data=bytes(576) if kind is TensorKind.CONSTANT else None,
        )
        for number, (kind, shape) in enumerate(shapes.items())
    ]
    step = Step(
        index=0,
        name="conv",
        symbol="f",
        inputs=(0, 1),
        outputs=(2,),
        workspaces=(Workspace(slot=0, size_bytes=64, span=_WHOLE),) * scratch,
        layer=Layer(
            number=0, operator="CONV_2D", detail="3x3", kernel="", macs=8 * 8 * 16 * 9 * 4, tile=tile
        ),
    )
    return _model(tensors, [step], 2)


def _model(tensors: Sequence[Tensor], steps: Sequence[Step], output: int) -> Model:
    return Model(
        name="drawn",
        c_name="drawn",
        provenance=Provenance(
            format="Drawn", format_version="", compiler="", compiler_version="", sha256="", source=""
        ),
        executor="graph",
        targets=(),
        tensors=tuple(tensors),
        inputs=(0,),
        outputs=(output,),
        output_names=("y",),
        steps=tuple(steps),
        units=(),
        summary=MemorySummary(),
    )


def least_cycles(model: Model, banks: Sequence[Bank], spare_bytes: int) -> float:
    """Least cycles over all divisions whose live bytes fit at each time, whatever their placement; inf: none does.

    No code of the planner but the lifetimes: a lower bound of every plan in the order of the model's own.

    Args:
        spare_bytes: of each memory that stay free.
    """
    plan = lay_out(model).plan
    traffic = traffic_of(model)
    over = {}
    for step in model.steps:
        for one in step.overlaps:
            over[step.outputs[one.output]] = step.inputs[one.input]
    things = [(b.key, b.size_bytes, b.first, b.last) for b in plan.buffers]
    end = max(b.last for b in plan.buffers)
    things += [(t.id, t.size_bytes, 0, end) for t in model.constants]
    fixed = {t.id for t in model.constants}

    def prices(key: object) -> list[float]:
        return [
            bank.cycles(traffic.get(key, Traffic())) if bank.is_ram or key in fixed else math.inf
            for bank in banks
        ]

    things.sort(key=lambda thing: -thing[1] * (thing[3] - thing[2] + 1))
    costs = [prices(key) for key, *_ in things]
    rest = [sum(map(min, costs[k:])) for k in range(len(things) + 1)]
    used = [[0] * (end + 1) for _ in banks]
    rooms = [bank.size_bytes - spare_bytes for bank in banks]
    places: dict[object, int] = {}
    keys = {thing[0]: thing for thing in things}
    best = math.inf

    def saved(key: object, m: int) -> dict[int, int]:
        """Bytes at each time at which an output lies over an input in the same memory."""
        result: dict[int, int] = {}
        for y, x in over.items():
            if (key == y and places.get(x) == m) or (key == x and places.get(y) == m):
                time = keys[y][2]
                if time == keys[x][3]:
                    result[time] = result.get(time, 0) + min(keys[x][1], keys[y][1])
        return result

    def visit(number: int, cost: float) -> None:
        """All ways to go on, without those that can't be cheaper or do not fit already."""
        nonlocal best
        if cost + rest[number] >= best:
            return
        if number == len(things):
            best = cost
            return
        key, size, first, last = things[number]
        for m in sorted(range(len(banks)), key=costs[number].__getitem__):
            if costs[number][m] == math.inf:
                break
            less = saved(key, m)
            for time in range(first, last + 1):
                used[m][time] += size - less.get(time, 0)
            if max(used[m][first : last + 1]) <= rooms[m]:
                places[key] = m
                visit(number + 1, cost + costs[number][m])
                del places[key]
            for time in range(first, last + 1):
                used[m][time] -= size - less.get(time, 0)

    visit(0, 0.0)
    return best
