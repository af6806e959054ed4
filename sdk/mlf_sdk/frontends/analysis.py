# SPDX-License-Identifier: Apache-2.0
"""Analysis of a model's code for one compiler: facts about its steps that memory planning needs.

Loading a model says which functions it calls; what they do depends on the compiler that the build uses, and
is found here, in the preprocessed text of the linked sources. A kernel that can't be read is taken as a
whole: everything that it gets is in use in all of its run.
"""

from __future__ import annotations

import dataclasses

from mlf_sdk.analysis.c.stackpeak import stack_peak
from mlf_sdk.analysis.elf.objects import read_object
from mlf_sdk.errors import FaultCollector
from mlf_sdk.frontends.kernelfacts import STACK_ALIGNMENT, kernel_facts
from mlf_sdk.frontends.readcode import Code, read_code
from mlf_sdk.ir.model import Model, Step, UnitKind
from mlf_sdk.tools.programs import Compiler


def analyse(model: Model, compiler: Compiler | None, *, as_compiled: bool = False) -> Model:
    """Read the code of a model's steps.

    Args:
        model: as loaded; one that is analysed already is returned as it is.
        compiler: the build's, or another one where that is not known or not here; None: there is none.
        as_compiled: keep the entry of an ahead-of-time model as one step; else it becomes the steps that it
            is shown to consist of.

    Raises:
        ArchiveError: functions that are defined twice, workspaces of unknown size, kernels that reach
            beyond their tensors; all of them at once.
        NotPossibleError: a kernel writes to a parameter, or the code is recursive.
    """
    if model.is_analysed:
        return model
    faults = FaultCollector(model.provenance.source)
    code = read_code(model, compiler, faults)
    result = dataclasses.replace(model, is_analysed=True, reader=code.reader)
    if model.executor != "aot":
        steps = tuple(kernel_facts(model, step, code, faults) for step in model.steps)
        faults.raise_if_any()
        return dataclasses.replace(result, steps=steps)
    faults.raise_if_any()
    for entry in model.steps:
        result = _split(result, entry, code, as_compiled=as_compiled)
    return result


def _split(model: Model, entry: Step, code: Code, *, as_compiled: bool) -> Model:
    """The steps of an ahead-of-time model, or its entry as it is."""
    why = "--as-compiled"
    if not as_compiled:
        from mlf_sdk.frontends.aotsteps import split_entry  # needs numpy

        result = split_entry(model, entry, code)
        if isinstance(result, Model):
            return result
        why = result
    return dataclasses.replace(model, steps=(_entry(model, entry, code),), entry=f"as compiled: {why}")


def _entry(model: Model, step: Step, code: Code) -> Step:
    """The single step of an ahead-of-time model: its workspaces are replayed."""
    peak = stack_peak(tuple(code.scans.values()), step.symbol, alignment=STACK_ALIGNMENT)
    objects = [u for u in model.units if u.linked and u.kind is UnitKind.OBJECT]
    faults = FaultCollector("")
    result = (read_object(u.data, u.member, faults) for u in objects)
    is_known = peak.bytes is not None and not any(info is not None and info.allocates for info in result)
    return dataclasses.replace(
        step,
        workspace_stack_bytes=(peak.bytes or 0) if is_known else model.summary.workspace_bytes or 0,
        exact=peak.exact and is_known,
        opaque_reason="one call runs all kernels",
    )
