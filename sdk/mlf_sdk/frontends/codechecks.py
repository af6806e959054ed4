# SPDX-License-Identifier: Apache-2.0
"""Facts about the code of a model that decide on which board it runs, and how well."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mlf_sdk.ir.model import CodeUnit, Model, UnitKind

_CODE = frozenset({UnitKind.C, UnitKind.CXX})
_DOUBLE = re.compile(rb"\bdouble\b")
_NO_SCRATCH = re.compile(rb"cmsis_nn_context\s+\w+\s*=\s*\{\s*NULL\s*,\s*0\s*\}")


def needs_cmsis_nn(model: Model) -> bool:
    """Return whether linked code includes a header of CMSIS-NN."""
    return any("arm_nn" in header for header in model.external_headers)


def computes_in_double(model: Model) -> tuple[str, ...]:
    """Members of linked code that computes in double."""
    return tuple(unit.member for unit in linked_sources(model) if _DOUBLE.search(unit.data))


def lacks_scratch(model: Model) -> bool:
    """Return whether the code hands empty scratch buffers to CMSIS-NN, as that for a generic CPU does."""
    return any(_NO_SCRATCH.search(unit.data) for unit in linked_sources(model))


def linked_sources(model: Model) -> Iterator[CodeUnit]:
    """C and C++ sources that are linked."""
    return (unit for unit in model.units if unit.linked and unit.kind in _CODE)
