# SPDX-License-Identifier: Apache-2.0
"""TVM's passes: from operators of Relax to loops, one function for each group of operators."""

from __future__ import annotations

from mlf_sdk.compiler.relax.package import TvmObject, require_tvm
from mlf_sdk.compiler.relax.schedules import scheduled
from mlf_sdk.errors import InputError


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
