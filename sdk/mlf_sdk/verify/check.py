# SPDX-License-Identifier: Apache-2.0
"""The linked image against the plan and against the archive's memory summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlf_sdk.project.lock import Lock, LockModel
from mlf_sdk.verify.image import Image, Region, Symbol, region_use

_RUNTIME_PREFIXES = ("mlf_", "TVMBackend", "TVMAPI")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofRow:
    """One promise: what the archive says, what was planned, what the image has, what was measured.

    Attributes:
        item: what it is about, e.g. ``arena``.
        summary, planned, image, measured: bytes; None where nothing is said.
        ok: whether planned, image and measured agree; the archive's summary is never held against it.
        note: why a figure differs, for people.
    """

    model: str
    item: str
    summary: int | None
    planned: int | None
    image: int | None
    measured: int | None
    ok: bool
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedItem:
    """A function or group and its bytes in the image."""

    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """Everything that the image shows without running it."""

    rows: tuple[ProofRow, ...]
    kernels: tuple[SizedItem, ...]
    groups: tuple[SizedItem, ...]
    regions: tuple[Region, ...]
    stack_bytes: int | None

    @property
    def ok(self) -> bool:
        """Whether every promise that can be checked holds."""
        return all(row.ok for row in self.rows)


def check_image(lock: Lock, image: Image, regions: Sequence[tuple[str, int, int]]) -> CheckReport:
    """Compare the image with the lock's promises.

    Args:
        regions: the board's memories: name, origin, size in bytes.
    """
    rows: list[ProofRow] = []
    for model in lock.models:
        rows += _model_rows(model, image)
    top, bottom = image.find("__mlf_stack_top"), image.find("__mlf_stack_bottom")
    return CheckReport(
        rows=tuple(rows),
        kernels=tuple(_kernels(lock, image)),
        groups=tuple(_groups(lock, image)),
        regions=region_use(image, regions),
        stack_bytes=top.address - bottom.address if top and bottom else None,
    )


def _model_rows(model: LockModel, image: Image) -> list[ProofRow]:
    arena = image.find(model.arena_symbol)
    rows = [
        ProofRow(
            model=model.name,
            item="arena",
            summary=model.summary.workspace_bytes,
            planned=model.arena_bytes,
            image=arena.size_bytes if arena else None,
            measured=None,
            ok=arena is not None and arena.size_bytes == model.arena_reserved_bytes,
            note="" if arena else f"symbol {model.arena_symbol} is not linked",
        )
    ]
    if model.params_bytes:
        params = image.find(f"{model.c_name}_params")
        rows.append(
            ProofRow(
                model=model.name,
                item="parameters",
                summary=model.summary.constants_bytes,
                planned=model.params_bytes,
                image=params.size_bytes if params else None,
                measured=None,
                ok=params is not None
                and params.size_bytes == model.params_bytes
                and params.address % 16 == 0,
                note=_alignment_note(params),
            )
        )
    wanted = dict.fromkeys(step.symbol for step in model.steps)
    missing = [s for s in wanted if image.find(s) is None]
    rows.append(
        ProofRow(
            model=model.name,
            item="functions",
            summary=None,
            planned=len(wanted),
            image=len(wanted) - len(missing),
            measured=None,
            ok=not missing,
            note=f"not linked: {', '.join(missing[:3])}" if missing else "",
        )
    )
    return rows


def _alignment_note(params: Symbol | None) -> str:
    if params is None:
        return "the parameters are not linked"
    return "" if params.address % 16 == 0 else f"not 16-byte aligned: 0x{params.address:08x}"


def _kernels(lock: Lock, image: Image) -> list[SizedItem]:
    names = dict.fromkeys(s for model in lock.models for s in model.kernel_symbols)
    found = [image.find(name) for name in names]
    return [SizedItem(name=s.name, size_bytes=s.size_bytes) for s in found if s is not None]


def _groups(lock: Lock, image: Image) -> list[SizedItem]:
    """Bytes of the symbols of each kind: arena, parameters, tables, kernels, runtime, other."""
    kernels = {s for model in lock.models for s in model.kernel_symbols}
    arenas = {model.arena_symbol for model in lock.models}
    params = {f"{model.c_name}_params" for model in lock.models}
    prefixes = tuple(f"{model.c_name}_" for model in lock.models)
    sizes = dict.fromkeys(["arena", "parameters", "kernels", "model tables", "runtime", "other"], 0)
    seen: set[tuple[int, str]] = set()
    for symbol in image.symbols:
        if (symbol.address, symbol.section) in seen or not symbol.size_bytes:
            continue
        seen.add((symbol.address, symbol.section))
        name = symbol.name
        if name in arenas:
            group = "arena"
        elif name in params:
            group = "parameters"
        elif name in kernels or name.startswith("tvmgen_"):
            group = "kernels"
        elif name.startswith(prefixes):
            group = "model tables"
        elif name.startswith(_RUNTIME_PREFIXES) or name in ("main", "rpc", "state", "models"):
            group = "runtime"
        else:
            group = "other"
        sizes[group] += symbol.size_bytes
    return [SizedItem(name=name, size_bytes=size) for name, size in sizes.items()]
