# SPDX-License-Identifier: Apache-2.0
"""TVM's passes: from operators of Relax to loops, one function for each group of operators.

Schedules are for processors with few registers and no cache: sums in registers, nothing stored in between.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from mlf_sdk.compiler.relax.package import TvmObject, require_tvm
from mlf_sdk.errors import InputError

_REDUCTION: Final = 2  # tirx.IterVar.CommReduce
_SHORT: Final = 3  # iterations of a window's loop that are written out


@dataclass(slots=True)
class _Sum:
    """A block that sums over loops: its outer loops, those it sums over, and the block behind it."""

    block: TvmObject
    name: str
    outer: list[TvmObject]
    inner: list[TvmObject]
    last: TvmObject


def scheduled(function: TvmObject, *, unroll: bool) -> TvmObject:
    """The function with another order of loops; the same one where TVM can't change it.

    Args:
        unroll: compute several results of a layer at a time.
    """
    tvm = require_tvm("Relax module")
    try:
        schedule = tvm.s_tir.Schedule(function.with_attr("global_symbol", "main"))
        schedule.get_sblock("root")
        _inline(tvm, schedule)
        sums = [b for b in _blocks(schedule) if _sums(schedule, b)]
        if len(sums) == 1 and (result := _sum(schedule, sums[0])) is not None:
            _arrange(schedule, result, unroll)
        else:
            for block in sums:
                _start_outside(schedule, block)
        changed = schedule.mod["main"]
    except (tvm.s_tir.ScheduleError, tvm.error.InternalError, ValueError):
        return function  # it has no blocks, or loops that can't be exchanged
    return changed.without_attr("global_symbol")


def _blocks(schedule: TvmObject) -> list[TvmObject]:
    return list(schedule.get_child_blocks(schedule.get_sblock("root")))


def _kinds(schedule: TvmObject, block: TvmObject) -> list[bool]:
    """For each axis of a block, whether it is summed over."""
    return [int(v.iter_type) == _REDUCTION for v in schedule.get(block).iter_vars]


def _sums(schedule: TvmObject, block: TvmObject) -> bool:
    return any(_kinds(schedule, block))


def _inline(tvm: TvmObject, schedule: TvmObject) -> None:
    """Compute elementwise blocks where they are read; padding of a sum's input stays, for it has branches."""
    changed = True
    while changed:
        changed = False
        for block in _blocks(schedule):
            readers = schedule.get_consumers(block)
            if _sums(schedule, block) or len(readers) != 1:
                continue
            if _sums(schedule, readers[0]) and "if_then_else" in schedule.get(block).body.script():
                continue
            with suppress(tvm.s_tir.ScheduleError):
                schedule.compute_inline(block)
                changed = True
                break


def _sum(schedule: TvmObject, block: TvmObject) -> _Sum | None:
    """The only sum of a function, its result in a block of its own; None where it has another form."""
    readers = schedule.get_consumers(block)
    if len(readers) > 1:
        return None
    last = readers[0] if readers else schedule.cache_write(block, 0, "global")
    loops, kinds = schedule.get_loops(block), _kinds(schedule, block)
    if len(loops) != len(kinds) or kinds != sorted(kinds):
        return None
    split = kinds.index(True)
    if not split:
        return None
    name = str(schedule.get(block).name_hint)
    return _Sum(block=block, name=name, outer=list(loops[:split]), inner=list(loops[split:]), last=last)


def _start_outside(schedule: TvmObject, block: TvmObject) -> None:
    """Set the result to its first value before the loops of a sum instead of inside of them."""
    loops, kinds = schedule.get_loops(block), _kinds(schedule, block)
    if len(loops) == len(kinds):
        schedule.decompose_reduction(block, loops[kinds.index(True)])


def _arrange(schedule: TvmObject, result: _Sum, unroll: bool) -> None:
    """Sum in registers and finish each result at once; several at a time where they share operands."""
    outer, tiles = result.outer, []
    if unroll and "conv2d" in result.name and len(outer) == 4:
        batch, channel, row, column = outer
        column, columns = _split(schedule, column, (4, 3, 2))
        shared = "group" not in result.name and "depthwise" not in result.name
        channel, channels = _split(schedule, channel, (4, 3, 2) if shared else ())
        outer, tiles = [batch, channel, row, column], [channels, columns]
    elif unroll and ("matmul" in result.name or "dense" in result.name):
        last, several = _split(schedule, outer[-1], (8, 7, 6, 5, 4, 3, 2))
        outer, tiles = [*outer[:-1], last], [several]
    schedule.reorder(*outer, *result.inner, *tiles)
    schedule.reverse_compute_at(result.last, outer[-1])
    first = schedule.decompose_reduction(result.block, result.inner[0])
    if unroll:
        for loop in result.inner[1:] if tiles else result.inner:
            if int(schedule.get(loop).extent) <= _SHORT:
                schedule.unroll(loop)
    if tiles:
        ends = [loops for block in (first, result.last) for loops in _tail(schedule, block, len(tiles))]
        for loop in (*tiles, *ends):
            schedule.unroll(loop)


def _tail(schedule: TvmObject, block: TvmObject, count: int) -> list[TvmObject]:
    return [loop for loop in list(schedule.get_loops(block))[-count:] if int(schedule.get(loop).extent) <= 8]


def _split(schedule: TvmObject, loop: TvmObject, sizes: tuple[int, ...]) -> tuple[TvmObject, TvmObject]:
    """Split a loop by the first of the sizes that divides it."""
    extent = int(schedule.get(loop).extent)
    size = next((s for s in sizes if extent % s == 0), 1)
    first, second = schedule.split(loop, [None, size])
    return first, second


def legalised(module: TvmObject, *, unroll: bool, schedule: bool = True) -> TvmObject:
    """A module whose ``main`` calls functions of loops, each of them scheduled for a small processor.

    Args:
        module: Relax functions; ``main`` is the model.
        unroll: tile and unroll the loops of layers.
        schedule: False: leave the loops as TVM's operators have them.
    """
    tvm = require_tvm("Relax module")
    relax = tvm.relax.transform
    target = tvm.target.Target("c")
    passes = [
        relax.FoldBatchnormToConv2D(),
        relax.DecomposeOpsForInference(),
        relax.CanonicalizeBindings(),
        relax.FoldConstant(),
        tvm.relax.backend.DispatchSortScan(),
        relax.LegalizeOps(),
        relax.AnnotateTIROpPattern(),
        relax.FoldConstant(),
        relax.FuseOps(fuse_opt_level=2),
        relax.FuseTIR(),
        relax.DeadCodeElimination(["main"]),
        relax.RewriteDataflowReshape(),
        relax.ToNonDataflow(),
        relax.CanonicalizeBindings(),
        relax.DeadCodeElimination(["main"]),
    ]
    try:
        with target, tvm.transform.PassContext(opt_level=3):
            module = tvm.transform.Sequential(passes)(module)
    except Exception as error:  # whatever its passes raise
        said = (str(error).strip().splitlines() or [type(error).__name__])[-1][:200]
        raise InputError(f"TVM can't turn it into loops: {said}", where="Relax module") from error
    if not schedule:
        return module
    for name, function in module.functions.items():
        if isinstance(function, tvm.tirx.PrimFunc):
            module.update_func(name, scheduled(function, unroll=unroll))
    return module


def flattened(function: TvmObject) -> TvmObject:
    """A function of loops over flat buffers, with 32-bit indices, as TVM's C generator takes it.

    TVM's own pipeline ends with its packed calling convention and with allocations at run time; this one
    leaves both out.
    """
    tvm = require_tvm("Relax module")
    blocks, loops = tvm.s_tir.transform, tvm.tirx.transform
    target = tvm.target.Target("c")
    passes = [
        loops.BindTarget(target.with_host(target)),
        blocks.CanonicalizeLoop(),
        blocks.LowerInitBlock(),
        blocks.PlanAndUpdateBufferAllocationLocation(),
        blocks.ConvertBlocksToOpaque(),
        blocks.CompactBufferAllocation(),
        blocks.LowerMatchBuffer(),
        blocks.StmtSimplify(),
        blocks.LowerOpaqueBlock(),
        loops.FlattenBuffer(),
        loops.NarrowDataType(32),
        blocks.LoopPartition(),
        loops.VectorizeLoop(False),
        loops.StorageRewrite(),
        loops.UnrollLoop(),
        loops.StmtSimplify(),
        loops.RemoveNoOp(),
        blocks.RewriteUnsafeSelect(),
        loops.CommonSubexprElim(),
        loops.LowerIntrin(),
    ]
    named = function.with_attr("global_symbol", "kernel")
    module = tvm.IRModule({"kernel": named})
    with tvm.transform.PassContext(opt_level=3):
        module = tvm.transform.Sequential(passes)(module)
    return module["kernel"]
