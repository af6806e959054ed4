# SPDX-License-Identifier: Apache-2.0
"""Raw archive to model: chooses the module, builds it, and reports all of its faults together."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from mlf_sdk.errors import FaultCollector, InputError, ModuleChoiceError
from mlf_sdk.frontends.code import index_code
from mlf_sdk.frontends.mlf.aot_schedule import schedule_aot
from mlf_sdk.frontends.mlf.archive import RawArchive, RawModule, load_mlf
from mlf_sdk.frontends.mlf.extension import KEY
from mlf_sdk.frontends.mlf.graph_schedule import schedule_graph
from mlf_sdk.frontends.mlf.operator_schedule import schedule_operator
from mlf_sdk.frontends.mlf.rawmetadata import OPERATOR
from mlf_sdk.frontends.mlf.schedule import BuildInput, assemble
from mlf_sdk.frontends.mlf.stated_schedule import schedule_stated
from mlf_sdk.ir.model import Model

_STATED: Final = f"metadata.json states it under {KEY}: correct the program that wrote the archive."


def load_model(path: Path, *, module: str | None = None) -> Model:
    """Read the archive at ``path`` and build the model of one of its modules.

    Args:
        module: which module (or, in operator style, which function); needed when there are several.

    Raises:
        ArchiveError: the archive is broken; all of its faults at once.
        InputError: the module must be chosen, or there is none of that name.
    """
    return schedule_model(read_module(load_mlf(path), module), module)


def read_module(archive: RawArchive, module: str | None) -> BuildInput:
    """One module of ``archive`` with its code scanned; arguments and errors as in `load_model`."""
    raw = choose_module(archive, module)
    faults = FaultCollector(archive.source)
    return BuildInput(archive=archive, module=raw, code=index_code(raw.sources, faults), faults=faults)


def schedule_model(source: BuildInput, module: str | None) -> Model:
    """The model of a module that was read; arguments and errors as in `load_model`."""
    raw = source.module
    if raw.metadata.style == OPERATOR:
        schedule = schedule_operator(source, module if module != raw.metadata.name else None)
    elif raw.metadata.extension is not None and raw.metadata.extension.model is not None:
        schedule = schedule_stated(source, raw.metadata.extension.model)
    elif raw.graph is not None:
        schedule = schedule_graph(source, raw.graph)
    else:
        schedule = schedule_aot(source)
    source.faults.raise_if_any()
    try:
        return assemble(source, schedule)
    except InputError as error:
        if raw.metadata.extension is not None:
            error.hint = _STATED
        raise


def choose_module(archive: RawArchive, module: str | None) -> RawModule:
    """The module called ``module``, or the only one; raises InputError."""
    names = [m.metadata.name for m in archive.modules]
    if archive.modules[0].metadata.style == OPERATOR or (module is None and len(names) == 1):
        return archive.modules[0]
    if module is None or module not in names:
        what = "several modules" if module is None else f"no module called '{module}'"
        raise ModuleChoiceError(f"the archive has {what}", where=archive.source, names=names)
    return archive.modules[names.index(module)]
