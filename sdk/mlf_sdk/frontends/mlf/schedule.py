# SPDX-License-Identifier: Apache-2.0
"""Schedules: the common result of the builders for each style of archive, and the model made from it."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from mlf_sdk.errors import FaultCollector
from mlf_sdk.frontends.code import CodeIndex
from mlf_sdk.frontends.mlf.archive import RawArchive, RawModule
from mlf_sdk.frontends.mlf.rawmetadata import ModuleMetadata
from mlf_sdk.ir.model import ALIGNMENT, OWN_COMPILER, MemorySummary, Model, Provenance, Step, Tensor
from mlf_sdk.ir.names import field_identifier, model_c_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Tensors and steps of a module, and the tensors that the caller sees."""

    tensors: tuple[Tensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    output_names: tuple[str, ...]
    steps: tuple[Step, ...]
    executor: str
    alignment: int = ALIGNMENT
    exports: tuple[str, ...] = ()
    is_analysed: bool = False


class BuildInput(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a builder reads."""

    archive: RawArchive
    module: RawModule
    code: CodeIndex
    faults: FaultCollector


def assemble(source: BuildInput, schedule: Schedule) -> Model:
    """The model of ``schedule`` with its provenance, code and summary."""
    metadata = source.module.metadata
    extension = metadata.extension
    linked = source.code.reachable(dict.fromkeys(step.symbol for step in schedule.steps))
    units_of_entries = [step.abi.unit for step in schedule.steps if step.abi.unit]
    c_name = model_c_name(metadata.name)
    return Model(
        name=metadata.name,
        c_name=c_name,
        provenance=Provenance(
            format="MLF",
            format_version=str(source.archive.version),
            compiler=extension.compiler if extension else "TVM",
            compiler_version=extension.compiler_version if extension else metadata.tvm_version or "",
            sha256=source.archive.sha256,
            source=source.archive.source,
            options=extension.options if extension else {},
            made_from=extension.made_from if extension else None,
        ),
        executor=schedule.executor,
        targets=metadata.targets,
        tensors=schedule.tensors,
        inputs=schedule.inputs,
        outputs=schedule.outputs,
        output_names=schedule.output_names,
        steps=schedule.steps,
        units=source.code.units(
            dict.fromkeys([*linked, *units_of_entries]), extension.clean if extension else ()
        ),
        summary=_summary_of(metadata),
        symbol_prefix=_symbol_prefix(c_name, metadata),
        alignment=schedule.alignment,
        exports=schedule.exports,
        is_analysed=schedule.is_analysed,
    )


def _summary_of(metadata: ModuleMetadata) -> MemorySummary:
    """Memory that the archive states; of one that was compiled here none: it holds mere sums."""
    main = metadata.main[0] if metadata.main else None
    if main is None or (metadata.extension is not None and metadata.extension.compiler == OWN_COMPILER):
        return MemorySummary(operators=metadata.operator_functions)
    return MemorySummary(
        workspace_bytes=main.workspace_size_bytes,
        constants_bytes=main.constants_size_bytes,
        io_bytes=main.io_size_bytes,
        operators=metadata.operator_functions,
    )


def _symbol_prefix(c_name: str, metadata: ModuleMetadata) -> str:
    if metadata.extension is None:
        return f"tvmgen_{field_identifier(metadata.name)}_"
    stated = metadata.extension.symbol_prefix
    return f"{c_name}_" if stated is None else stated
