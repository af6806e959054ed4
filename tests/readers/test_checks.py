# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from mlf_sdk.tools.checks import (
    MAX_FAULTS,
    BoundedFaults,
    function_name_problem,
    module_name_problem,
    shown,
    tensor_name_problem,
)


def test_a_collector_keeps_so_many() -> None:
    faults = BoundedFaults("a.tar")
    for number in range(10 * MAX_FAULTS):
        faults.add("m", f"fault {number}")
    assert [str(fault) for fault in faults.faults[-1:]] == [f"m: fault {MAX_FAULTS - 1}"]


def test_shown_is_short_and_printable() -> None:
    assert shown("a\x1b\n") == "'a\\x1b\\n'"
    assert shown("x" * 100) == "'" + "x" * 80 + "'..."


@pytest.mark.parametrize(
    "name",
    ["x", "image:0", "aux-vec", "a b", 'say "hi"', "${HOME}", "*/", "{{x}}", "\u8f93\u5165", "x" * 1024],
)
def test_odd_tensor_names_are_legal(name: str) -> None:
    assert tensor_name_problem(name) is None


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "is empty"),
        ("a\n", "control"),
        ("\x00", "control"),
        ("a\u200bb", "control"),
        ("\ud800", "control"),
        ("x" * 1025, "longer than 1024 bytes"),
        ("\u20ac" * 342, "longer than 1024 bytes"),
    ],
)
def test_bad_tensor_names(name: str, problem: str) -> None:
    assert problem in str(tensor_name_problem(name))


@pytest.mark.parametrize(
    "name", ["default", "my model (v2)", "net:1", "x" * 128, "\u6a21\u578b" * 64, "a..b"]
)
def test_odd_module_names_are_legal(name: str) -> None:
    assert module_name_problem(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "a\nb", "x" * 129])
def test_bad_module_names(name: str) -> None:
    assert module_name_problem(name) is not None


@pytest.mark.parametrize("name", ["f", "_f1", "tvmgen_default___tvm_main__", "x" * 1024])
def test_function_names(name: str) -> None:
    assert function_name_problem(name) is None


@pytest.mark.parametrize("name", ["", "1f", "f-g", "f g", "f\n", "f()", "\u00e9", "int", "x" * 1025])
def test_bad_function_names(name: str) -> None:
    assert function_name_problem(name) is not None
