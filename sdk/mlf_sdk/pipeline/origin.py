# SPDX-License-Identifier: Apache-2.0
"""The archive that a project was made from: a project does not hold it, but knows its digest."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from mlf_sdk.codegen.lock import Lock, LockModel, choose_model, read_lock
from mlf_sdk.compiler.options import CompileOptions
from mlf_sdk.errors import InputError, MlfError, ModuleChoiceError, NotPossibleError
from mlf_sdk.ir.model import Model
from mlf_sdk.pipeline import loading
from mlf_sdk.pipeline.request import Request


def archive_request(request: Request) -> Request:
    """Return the request of a project with its archive as the source, and the project's own options.

    The archive is the one that the request names, else a file of the recorded name in the current folder or
    beside the project that has the recorded digest.

    Raises:
        NotPossibleError: none was named, and there is no such archive.
        InputError: the one that was named is another.
    """
    folder = Path(request.source[0])
    lock = read_lock(folder)
    model = choose_model(lock, request.module, folder)
    path, module = _archive_of(request, folder, lock, model)
    cflags = request.cflags or " ".join(lock.options.kernel_flags)
    options = _options(path, model)
    return request.replace(
        source=(str(path),),
        module=module,
        board=None,
        archive=None,
        cflags=cflags,
        as_compiled=lock.options.as_compiled,
        pre=_section_text(model),
        **options,
    )


def _section_text(model: LockModel) -> str | None:
    """The section ``[pre]`` of a model as an option; None: it has none."""
    if model.preprocessing is None:
        return None
    from mlf_sdk.compiler.preprocess.section import section_text

    return section_text(model.preprocessing.section)


def _options(path: Path, model: LockModel) -> dict[str, Any]:
    """Options that a model which is compiled when it is loaded was compiled with."""
    request = Request(source=(str(path),))
    if not loading.compiled_sources(request):
        return {}
    result = dataclasses.asdict(CompileOptions.from_texts(model.compile_options))
    del result["tuned"]
    result["max_arena"] = str(result["max_arena"]) if result["max_arena"] else None
    for field, option in (("shapes", "shape"), ("custom", "custom")):
        result[option] = tuple(filter(None, result.pop(field).split(";")))
    return result


def _archive_of(request: Request, folder: Path, lock: Lock, model: LockModel) -> tuple[Path, str | None]:
    """Path of the archive, and the module to choose from it."""
    if request.archive is not None:
        return Path(request.archive), _module_of(Path(request.archive), folder, lock, model)
    others = ""
    for beside in (Path(), folder.resolve().parent):
        path = beside / Path(model.archive).name
        if path.exists():
            try:
                return path, _module_of(path, folder, lock, model)
            except MlfError as error:
                others += f", and {path} is not it: {error.what}"
    raise NotPossibleError(
        f"a project does not hold the archive that it was made from{others}",
        where=str(folder),
        hint=f"Name it: --archive {model.archive}",
    )


def _module_of(path: Path, folder: Path, lock: Lock, model: LockModel) -> str | None:
    """The module of an archive that is the model; None: it is the only one."""
    request = Request(source=(str(path),), **_options(path, model))
    try:
        loaded, module = loading.load(request)[0], None
    except ModuleChoiceError:
        loaded, module = loading.load(request.replace(module=model.name))[0], model.name
    check_same_archive(folder, lock, loaded)
    return module


def check_same_archive(folder: Path, lock: Lock, model: Model) -> None:
    """Refuse a project that was made from another archive.

    Raises:
        InputError: no model of the project has the digest and the name.
    """
    if any(m.archive_sha256 == model.provenance.sha256 and m.name == model.name for m in lock.models):
        return
    held = ", ".join(f"{m.name} ({m.archive_sha256[:12]})" for m in lock.models)
    raise InputError(
        f"the project was not made from this archive ({model.provenance.sha256[:12]}); it holds: {held}",
        where=str(folder),
        hint="Give the archive that it was made from.",
    )
