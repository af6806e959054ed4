# SPDX-License-Identifier: Apache-2.0
"""The mutation run: which changes it makes, how it puts them in force, what its page says."""

from __future__ import annotations

import os
import signal
import time
import types
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path

import pytest

from forked import (
    changed_by,
    changed_functions,
    choose,
    code_of_functions,
    in_child,
    is_change,
    mutations_of,
    mutations_of_kernels,
    statement_lines,
)
from mutation_page import Change, Result, read_reasons, renew_page

TEXT = """\
LIMIT = 3


class Box:
    size = 2

    def fits(self, size: int | None = 1) -> bool:
        if (
            size is None
        ):
            return False
        return size <= self.size


def keep(sizes):
    return [size for size in sizes if size < LIMIT]
"""


def test_mutations_are_sorted_and_leave_out_annotations_and_numbers() -> None:
    found = mutations_of(TEXT)
    assert found == sorted(found)
    assert {mutation.line for mutation in found} >= {9, 11, 12, 16}
    assert not any("Number" in m.operator or "BitOr" in m.operator for m in found)


def test_a_larger_sample_adds_to_a_smaller_one() -> None:
    every = mutations_of(TEXT)
    small, large = choose(every, 3, 1, set()), choose(every, 6, 1, set())
    assert len(small) == 3 and len(large) == 6 and {*small} < {*large} and large == sorted(large)
    assert choose(every, 3, 1, {astuple(x) for x in large}) == large
    assert choose(every, 0, 1, set()) == choose(every, 1 << 20, 1, set()) == every
    assert choose(every, 3, 2, set()) != small


@pytest.mark.parametrize(
    ("line", "lines"), [(1, {1}), (5, {5}), (7, {7}), (9, {8, 9, 10}), (12, {12}), (16, {16}), (2, set())]
)
def test_lines_of_a_statement(line: int, lines: set[int]) -> None:
    assert statement_lines(TEXT, line) == lines


@pytest.mark.parametrize(
    "change", [("LIMIT = 3", "LIMIT = 4"), ("size = 2", "size = 5"), ("None = 1", "None = 2")]
)
def test_a_change_that_an_import_runs_needs_a_new_process(change: tuple[str, str]) -> None:
    assert changed_functions(TEXT, TEXT.replace(*change), "box.py") is None


@pytest.mark.parametrize(
    ("after", "is_one"),
    [
        ("def f(a, /, b=True): pass", False),
        ("def f(a, +, b=True): pass", False),
        ("def f(a, *, b=False): pass", True),
    ],
)
def test_the_star_of_parameters_is_no_multiplication(after: str, is_one: bool) -> None:
    assert is_change("def f(a, *, b=True): pass", after) == is_one


def test_decorators_are_not_changed() -> None:
    assert not is_change("@d(True)\nclass A:\n  x = True", "@d(False)\nclass A:\n  x = True")
    assert is_change("@d(True)\nclass A:\n  x = True", "@d(True)\nclass A:\n  x = False")
    assert not is_change("class A(B, d=True):\n  x = True", "class A(B, d=False):\n  x = True")


def test_code_is_replaced_wherever_the_function_is_known() -> None:
    module = types.ModuleType("box")
    exec(compile(TEXT, "a-file-of-this-test.py", "exec"), module.__dict__)
    box, fits, keep = module.Box(), module.Box().fits, module.keep
    for old, new in (("size <= self", "size < self"), ("size < LIMIT", "size > LIMIT")):
        changed = changed_functions(TEXT, TEXT.replace(old, new), "a-file-of-this-test.py")
        assert changed is not None and len(changed) == 1
        for function, code in code_of_functions("a-file-of-this-test.py", changed):
            function.__code__ = code
    assert (fits(2), box.fits(1), keep([2, 3, 4])) == (False, True, [4])
    with pytest.raises(LookupError, match="another"):
        code_of_functions("another.py", {("fits", 7): fits.__code__})


@pytest.mark.parametrize(
    ("work", "outcome"),
    [
        (lambda: True, ""),
        (lambda: False, "failed"),
        (lambda: 1 // 0, "failed"),
        (lambda: os.kill(os.getpid(), signal.SIGXCPU), "time"),
    ],
)
def test_outcome_of_a_child(work: Callable[[], bool], outcome: str) -> None:
    assert in_child(work, timeout_s=600) == outcome


def test_a_child_that_is_late_is_no_kill() -> None:
    """It used none of its CPU time: a busy machine must not look like a test that noticed something."""
    assert in_child(lambda: time.sleep(600) is None, timeout_s=0.05) == "late"


DIFF = "--- \n+++ \n@@ -16 +16 @@\n-    return a < b\n+    return a <= b"


def test_a_page_keeps_what_was_not_run_again(tmp_path: Path) -> None:
    change = Change.of_diff(16, DIFF)
    assert change == Change(16, "return a < b", "return a <= b")
    one = Result("a.py", ("tests/a",), "2026-01-02", ran=3, timed_out=1, left_out=4, survivors=[change])
    two = Result("b.py", ("tests/b",), "2026-01-03", ran=5)
    page, reasons = tmp_path / "page.md", {"a.py": {change.key: "a is never b"}}
    renew_page(page, [one, two], reasons, ["b.py", "a.py"])
    text = page.read_text()
    rows = "| `b.py` | 2026-01-03 | 5 | 5 | 0 | 0 | 0 | 0 |\n| `a.py` | 2026-01-02 | 3 of 7 | 2 | 1 | 1 | 1 | 0 |\n"
    assert rows in text
    assert text.index("## b.py") < text.index("## a.py") < text.index("- `a.py:16`: a is never b")
    renew_page(
        page,
        [Result("b.py", ("tests/b",), "2026-02-03", ran=6, survivors=[change])],
        reasons,
        ["b.py", "a.py"],
    )
    again = page.read_text()
    assert (
        "| `b.py` | 2026-02-03 | 6 | 5 | 0 | 1 | 0 | 1 |" in again
        and "- `b.py:16`: **no test notices it**" in again
    )
    assert again.partition("## a.py")[2] == text.partition("## a.py")[2]


KERNEL = '''"""A document - of a kernel."""
def make(operator, window):
    operator.log = False
    if operator.log:
        return 1
    return f"""for (i = 0; i < {window.stride[0] + 1}; ++i) {{ s += v[i] - {operator.y.zero_point}; }}"""
'''


def test_mutations_of_kernels_leave_out_attributes_and_change_the_text_in_strings() -> None:
    found = mutations_of_kernels(KERNEL)
    texts = [changed_by(mutation, KERNEL) for mutation in found]
    changed = [
        [(a, b) for a, b in zip(KERNEL.splitlines(), text.splitlines(), strict=True) if a != b]
        for text in texts
    ]
    assert [(m.line, m.operator) for m in found] == [
        (4, "kernel/attribute"), (6, "kernel/attribute"),
        (6, "kernel/c"), (6, "kernel/c"), (6, "kernel/c"),
    ]  # fmt: skip
    pieces = ("if False:", "{(1, 1)[0] + 1}", "i <= {window", "s -= v[i]", "v[i] + {operator")
    assert all(len(one) == 1 and piece in one[0][1] for one, piece in zip(changed, pieces, strict=True))
    assert all(is_change(KERNEL, text) for text in texts)


def test_reasons_are_of_lines_that_exist() -> None:
    package = Path(__file__).parents[2] / "sdk" / "mlf_sdk"
    for module, reasons in read_reasons(Path(__file__).with_name("equal.toml")).items():
        lines = {line.strip() for line in (package / module).read_text().splitlines()}
        assert [key for key in reasons if key.partition(" => ")[0] not in lines] == []
