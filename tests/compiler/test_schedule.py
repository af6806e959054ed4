# SPDX-License-Identifier: Apache-2.0
"""Tables of what is imported when an operator needs it: each place exists, each class has one name."""

from __future__ import annotations

import importlib
from collections import Counter

import pytest

from makers import makers
from mlf_sdk.compiler import (
    classical,
    computed,
    generated,
    operators,
    reals,
    recurrences,
    reference,
    schedule,
    signals,
)
from mlf_sdk.compiler.operators import Operator, Stateful
from mlf_sdk.compiler.tflite import load

KINDS = [
    found
    for module in (operators, reals, recurrences, signals, computed, classical, generated)
    for found in vars(module).values()
    if isinstance(found, type) and issubclass(found, Operator) and found.__module__ == module.__name__
    if found not in (Operator, Stateful)
]


def test_every_operator_has_a_row_of_makers() -> None:
    """Tables name operators by their classes: no two may have one name."""
    assert [name for name, count in Counter(kind.__name__ for kind in KINDS).items() if count > 1] == []
    assert {kind.__name__ for kind in KINDS} == set(schedule.KERNELS)


@pytest.mark.parametrize("place", sorted({place for _, place in makers()}))
def test_every_maker_is_at_its_place(place: str) -> None:
    assert callable(schedule.maker_at(place))


@pytest.mark.parametrize("kind", load.BUILDERS)
def test_every_builder_is_at_its_place(kind: str) -> None:
    assert callable(load.builder_of(kind))


def test_every_reference_is_in_its_family() -> None:
    for family, names in reference._FAMILIES.items():
        importlib.import_module(f"mlf_sdk.compiler.reference.{family}")
        theirs = {
            kind.__name__
            for kind, made in reference.REFERENCES.items()
            if made.__module__.endswith(f".{family}")
        }
        assert theirs == set(names), family
    # Left out are the interpreter's own, and those without a reference.
    others = {"ReadState", "WriteState", "Custom", "Generated"}
    assert {kind.__name__ for kind in reference.REFERENCES} == set(schedule.KERNELS) - others
