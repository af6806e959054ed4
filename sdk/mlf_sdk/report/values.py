# SPDX-License-Identifier: Apache-2.0
"""Results as plain values: what ``--json`` prints. Keys are stable; sizes are in bytes."""

from __future__ import annotations

import dataclasses
from typing import Any

from mlf_sdk.analysis.thumb.callgraph import Depth
from mlf_sdk.ir.model import Model, UnitKind
from mlf_sdk.judge.check import CheckReport
from mlf_sdk.judge.compare import Comparison
from mlf_sdk.judge.stack import StackBound
from mlf_sdk.pipeline.results import RunReport
from mlf_sdk.planner.layout import ModelLayout

Values = dict[str, Any]


def run_values(report: RunReport) -> Values:
    """A run."""
    return {
        "ok": report.ok,
        "model": report.model.name,
        "board": report.board.name,
        "archive": report.model.archive,
        "archive_sha256": report.model.archive_sha256,
        "project": str(report.folder),
        "inferences": report.inferences,
        "outputs": {
            name: {"shape": list(array.shape), "dtype": str(array.dtype)}
            for name, array in report.outputs.items()
        },
        "compare": _compare_values(report),
        "twin": comparison_values(report.twin),
        "twin_note": report.twin_note or None,
        "accuracy": report.accuracy,
        "memory": dataclasses.asdict(report.memory),
        "instructions": report.instructions,
        "ticks": report.ticks,
        "ticks_hz": report.ticks_hz,
        "build": {"seconds": round(report.build_seconds, 3)},
        "check": check_values(report.check),
        "console": report.console or None,
    }


def _compare_values(report: RunReport) -> Values | None:
    """The comparison with the reference; without one, with the host's outputs."""
    found = comparison_values(report.compare or report.twin)
    return None if found is None else {"against": "reference" if report.compare else "host", **found}


def comparison_values(found: Comparison | None) -> Values | None:
    """A comparison; None stays None."""
    if found is None:
        return None
    return {
        "ok": found.ok,
        "max_abs": found.max_abs,
        "max_rel": found.max_rel,
        "mismatches": found.mismatches,
        "outputs": [dataclasses.asdict(output) for output in found.outputs],
    }


def check_values(report: CheckReport) -> Values:
    """What a linked image shows."""
    return {
        "ok": report.ok,
        "rows": [dataclasses.asdict(row) for row in report.rows],
        "kernels": [dataclasses.asdict(item) for item in report.kernels],
        "groups": {item.name: item.size_bytes for item in report.groups},
        "regions": [
            {**dataclasses.asdict(region), "fill": round(region.fill, 4)} for region in report.regions
        ],
        "stack_bytes": report.stack_bytes,
        "stack": _stack_values(report.stack),
        "allocators": None
        if report.allocators is None
        else [dataclasses.asdict(found) for found in report.allocators],
    }


def _stack_values(bound: StackBound | None) -> Values | None:
    """The bound of the stack: paths from the outermost function to the innermost."""
    if bound is None:
        return None

    def depth(found: Depth) -> Values:
        path = [{"function": name, "size_bytes": taken} for name, taken in found.path]
        return {"size_bytes": found.bytes, "path": path, "unknown": list(found.unknown)}

    return {
        "size_bytes": bound.bytes,
        "complete": bound.is_complete,
        "entry": bound.entry,
        "image": depth(bound.image),
        "models": {of.model: depth(of.depth) for of in bound.models},
        "exception_bytes": bound.exception_bytes,
        "handler": bound.handler or None,
        "handler_bytes": bound.handler_bytes,
    }


def model_values(model: Model, layout: ModelLayout) -> Values:
    """A model and its memory plan."""
    names = dict(zip(model.outputs, model.output_names, strict=True))

    def tensor(index: int) -> Values:
        found = model.tensors[index]
        return {
            "name": names.get(index, found.name),
            "dtype": found.dtype.name,
            "shape": list(found.shape),
            "size_bytes": found.size_bytes,
        }

    return {
        "name": model.name,
        "c_name": model.c_name,
        "archive": model.provenance.source,
        "archive_sha256": model.provenance.sha256,
        "format": model.provenance.format,
        "format_version": model.provenance.format_version,
        "compiler": model.provenance.compiler,
        "compiler_version": model.provenance.compiler_version,
        "executor": model.executor,
        "targets": list(model.targets),
        "inputs": [tensor(i) for i in model.inputs],
        "outputs": [tensor(i) for i in model.outputs],
        "steps": [
            {
                "name": step.name,
                "symbol": step.symbol,
                "abi": step.abi.value,
                "workspace_bytes": sum(w.size_bytes for w in step.workspaces) + step.stack_high_water_bytes,
                "exact": step.exact,
            }
            for step in layout.steps
        ],
        "memory": {
            "arena_bytes": layout.arena_bytes,
            "lower_bound_bytes": layout.plan.lower_bound_bytes,
            "io_bytes": layout.io_bytes,
            "params_bytes": layout.params_bytes,
            "summary": {
                "workspace_bytes": model.summary.workspace_bytes,
                "constants_bytes": model.summary.constants_bytes,
                "io_bytes": model.summary.io_bytes,
            },
        },
        "code": [
            {"member": u.member, "kind": u.kind.value, "size_bytes": len(u.data), "linked": u.linked}
            for u in model.units
            if u.kind is not UnitKind.HEADER
        ],
        "external_headers": list(model.external_headers),
    }
