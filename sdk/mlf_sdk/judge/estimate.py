# SPDX-License-Identifier: Apache-2.0
"""Estimate of a model's instructions and cycles from its layers, before anything is built.

The costs of a layer are terms for each multiply-accumulate, each element of its output and each call, by
family of kernels and core. They are fitted to layers that were counted on emulated boards, and kept as data
in ``board_templates/costs`` (``docs/layer_costs.py`` writes it); docs/estimates.md has their errors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from mlf_sdk.errors import InputError
from mlf_sdk.resources import data_dir
from mlf_sdk.tools.rowfile import read_row

if TYPE_CHECKING:
    from mlf_sdk.codegen.lock import LockModel
    from mlf_sdk.ir.model import Model

Terms = tuple[float, float, float]


class KernelCost(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Terms of a family of kernels.

    Attributes:
        kernel: the family; empty: any that has no terms of its own.
        samples: layers that were counted.
        instructions, cycles: for each multiply-accumulate, element of the output, and call; cycles are None
            where the core has no timing.
    """

    kernel: str
    samples: int
    instructions: Terms
    cycles: Terms | None = None


class CostModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Costs of layers on a core.

    Attributes:
        core: that kernels are compiled for.
        analogous: other cores that are estimated as this one.
        runtime_bytes: flash of an image beside its model.
        kernel_bytes: flash of a kernel and the tables that call it.
        error: of each counted model's total, estimated from the other models; relative.
    """

    core: str
    analogous: tuple[str, ...] = ()
    runtime_bytes: int
    kernel_bytes: int
    error: dict[str, float]
    kernels: tuple[KernelCost, ...]

    def terms(self, kernel: str) -> KernelCost:
        """Terms of a family, or those of any."""
        result = {one.kernel: one for one in self.kernels}
        return result.get(kernel, result[""])


class LayerWork(msgspec.Struct, frozen=True, kw_only=True):
    """Work of a layer: the family of its kernel, its MACs, elements of its outputs, its function."""

    kernel: str
    macs: int
    elements: int
    symbol: str


class ModelEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """Estimated cost of one inference.

    Attributes:
        cycles: at no wait states; of a core without timing, one for each instruction.
        timed: the core has a timing.
        unseen: layers whose kernel was not counted on the core.
    """

    instructions: int
    cycles: int
    timed: bool
    unseen: int = 0


@cache
def cost_models() -> Mapping[str, CostModel]:
    """Cost models by the name of each core that they are for.

    Raises:
        InputError: a row is not as it must be.
    """
    rows = []
    for path in sorted((data_dir("board_templates") / "costs").glob("*.toml")):
        row = read_row(path, CostModel)
        if not any(one.kernel == "" for one in row.kernels):
            raise InputError("no terms for any kernel", where=str(path))
        rows.append(row)
    return {name: row for row in rows for name in (row.core, *row.analogous)}


def layers_of(model: Model | LockModel, *, all_or_none: bool = False) -> tuple[LayerWork, ...]:
    """Work of the layers of a model whose kernels its file states.

    Args:
        all_or_none: none, where it does not state all of them.
    """
    if all_or_none and any(step.layer is None for step in model.steps):
        return ()
    return tuple(
        LayerWork(
            kernel=step.layer.kernel,
            macs=step.layer.macs,
            elements=sum(math.prod(model.tensors[i].shape) for i in step.outputs),
            symbol=step.symbol,
        )
        for step in model.steps
        if step.layer is not None
    )


def estimate(layers: Sequence[LayerWork], costs: CostModel) -> ModelEstimate:
    """Estimate one inference of these layers."""
    timed = all(one.cycles is not None for one in costs.kernels)
    instructions = cycles = 0.0
    unseen = 0
    for layer in layers:
        terms = costs.terms(layer.kernel)
        unseen += terms.kernel != layer.kernel
        counted = _sum(terms.instructions, layer)
        instructions += counted
        cycles += counted if terms.cycles is None else _sum(terms.cycles, layer)
    return ModelEstimate(instructions=round(instructions), cycles=round(cycles), timed=timed, unseen=unseen)


def _sum(terms: Terms, layer: LayerWork) -> float:
    return terms[0] * layer.macs + terms[1] * layer.elements + terms[2]
