# SPDX-License-Identifier: Apache-2.0
"""Table of the references, by class of operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlf_sdk.compiler.graph import Graph
from mlf_sdk.compiler.operators import Array, Operator

States = list[Array]
Reference = Callable[[Graph, Any, list[Array], States], list[Array]]
REFERENCES: dict[type[Operator], Reference] = {}


def reference(kind: type[Operator]) -> Callable[[Reference], Reference]:
    """Register the reference of a class of operators."""

    def register(function: Reference) -> Reference:
        REFERENCES[kind] = function
        return function

    return register
