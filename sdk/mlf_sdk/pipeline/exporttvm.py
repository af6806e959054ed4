# SPDX-License-Identifier: Apache-2.0
"""Write a Relax module of TVM as an archive in the Model Library Format."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlf_sdk.compiler.operators import Array
from mlf_sdk.compiler.options import GOALS, CompileOptions, Goal, core_names
from mlf_sdk.errors import InputError
from mlf_sdk.ir.model import Model
from mlf_sdk.ir.names import legal_identifier
from mlf_sdk.tools.files import write_whole


def export_tvm(
    module: Any,  # noqa: ANN401 - TVM states no types
    params: Mapping[str, Array] | None,
    output: str | os.PathLike[str],
    *,
    core: str = CompileOptions().core,
    goal: str = Goal.BALANCED.value,
    name: str = "model",
) -> Model:
    """Write an archive whose kernels TVM generates: plain C functions, their memory left to the planner.

    Args:
        module: an ``IRModule``; its Relax function ``main`` is the model, all of its shapes are fixed.
        params: numbers of those parameters of ``main`` that are constant, by name; the others are the inputs.
        output: path of the archive; an existing one is replaced.
        core: processor that it is meant for, e.g. ``cortex-m4``; it runs on any.
        goal: ``size`` leaves loops rolled, ``speed`` and ``balanced`` unroll them.
        name: of the model, a C identifier.

    Returns:
        The model as read back from the archive.

    Raises:
        InputError: TVM is not installed, the module has no such ``main``, or TVM can't express it in C.
    """
    from mlf_sdk.compiler.build import compile_graph
    from mlf_sdk.compiler.relax.package import require_tvm
    from mlf_sdk.compiler.relax.translate import relax_graph
    from mlf_sdk.frontends import load
    from mlf_sdk.frontends.compiled import choice_of
    from mlf_sdk.frontends.mlf.compiled import archive_of
    from mlf_sdk.frontends.mlf.writer import tar_of

    require_tvm("export_tvm")
    for what, given, known in (("core", core, core_names()), ("goal", goal, GOALS)):
        if given not in known:
            raise InputError(
                f"no {what} {given!r}", where="export_tvm", hint=f"Give one of: {', '.join(known)}."
            )
    if legal_identifier(name, fallback="", max_length=40) != name:
        raise InputError(f"no identifier of C with at most 40 characters: {name!r}", where="export_tvm: name")
    options = CompileOptions(core=core, goal=goal, kernels="tvm")
    graph = relax_graph(module, params, name, unroll=options.generation.unroll)
    write_whole(Path(output), tar_of(archive_of(compile_graph(graph, choice_of(options)), options)))
    return load(Path(output))
