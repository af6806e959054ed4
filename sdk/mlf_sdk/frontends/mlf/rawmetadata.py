# SPDX-License-Identifier: Apache-2.0
"""Content of ``metadata.json``, in one shape for all versions of the format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from mlf_sdk.frontends.mlf.extension import Extension
from mlf_sdk.ir.dtype import DType

FULL_MODEL: Final = "full-model"
OPERATOR: Final = "operator"
"""Styles of archives."""


class TensorSize(msgspec.Struct, frozen=True, kw_only=True):
    """Size in bytes and element type of an input or output, as stated under ``memory.functions.main``."""

    size_bytes: int
    dtype: DType


class MainMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of the whole model on one device, as TVM counted it: for comparison, not for sizing.

    Attributes:
        device: DLPack device type, 1 for the CPU.
        workspace_size_bytes: of all intermediate tensors and workspaces.
        constants_size_bytes: of the parameters.
        io_size_bytes: of inputs and outputs.
        inputs: by name; None before TVM 0.11.
        outputs: by name; None before TVM 0.11.
    """

    device: int
    workspace_size_bytes: int
    constants_size_bytes: int
    io_size_bytes: int
    inputs: Mapping[str, TensorSize] | None
    outputs: Mapping[str, TensorSize] | None


class OperatorArg(msgspec.Struct, frozen=True, kw_only=True):
    """One argument of a function of an operator archive."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    size_bytes: int


class ModuleMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata of one module.

    Attributes:
        name: ``model_name``, or the key under ``modules``.
        style: ``full-model`` or ``operator``.
        executors: ``graph``, ``aot``; empty for operators.
        targets: TVM's target strings.
        main: one a device.
        operator_functions: bytes of workspace of each function of a full model, summed over devices.
        storage_bytes: size of each storage id, as TVM states it; often wrong, for comparison only.
        operator_args: arguments of each function of an operator archive.
        tvm_version: of the compiler, where ``external_dependencies`` states it.
        export_datetime: as written; local time, though it ends in Z.
        extension: facts that its compiler states beyond the format; None without them.
    """

    name: str
    style: str
    executors: tuple[str, ...]
    targets: tuple[str, ...]
    main: tuple[MainMemory, ...] = ()
    operator_functions: Mapping[str, int] = msgspec.field(default_factory=dict)
    operator_args: Mapping[str, tuple[OperatorArg, ...]] = msgspec.field(default_factory=dict)
    storage_bytes: Mapping[int, int] = msgspec.field(default_factory=dict)
    tvm_version: str | None = None
    export_datetime: str | None = None
    extension: Extension | None = None


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """All of ``metadata.json``: its version (1 to 7) and its modules, in the order of the file."""

    version: int
    modules: tuple[ModuleMetadata, ...]
