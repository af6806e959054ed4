# SPDX-License-Identifier: Apache-2.0
"""Runs the mutations of one module, each in a forked child of one process of pytest.

    python tests/mutation/forked.py run JOB.json      # of mutate.py, in a tree of its own

The tests are collected once. Then each runs alone in a child, which notes the lines of the module that it reaches.
A mutation meets all tests that reach its statement, the quickest first, in a child where the functions of the
module have their changed code. What an import runs (constants, defaults, class bodies) is changed in a new
process. Nothing on the disk is changed: a run that is stopped leaves nothing behind.
"""

from __future__ import annotations

import ast
import difflib
import gc
import importlib
import importlib.abc
import importlib.util
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import cosmic_ray.plugins
import coverage
import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code

from kernel_mutations import FOLDER, replacements

PACKAGE = Path("sdk/mlf_sdk")
OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0")
CPU_FACTOR, CPU_MARGIN_S = 10, 3  # a mutation may take that much more CPU time than its tests do without it
TIME = "time"  # the outcome of a mutation: no test failed, but that CPU time was over
FAILED, INVALID = "failed", "invalid"
LATE = "late"  # neither: the machine is busy, or the tests wait for something; it is run again the next time
EXCLUDED = re.compile(
    # What changes no result: annotations such as ``int | None``, and the text of decorators. Numbers are many.
    "core/(ReplaceBinaryOperator_BitOr_.*|RemoveDecorator|NumberReplacer"
    # What nobody writes by mistake, or what is the same for small whole numbers.
    "|ReplaceBinaryOperator_.*_(Pow|Mod|FloorDiv|BitAnd|BitOr|BitXor|LShift|RShift)"
    "|ReplaceComparisonOperator_(Eq|NotEq|Lt|LtE|Gt|GtE|In|NotIn)_(Is|IsNot))"
)
Functions = dict[tuple[str, int], types.CodeType]


def module_name(path: Path) -> str:
    """Dotted name of a module by its path in the tree."""
    return ".".join(path.with_suffix("").relative_to("sdk").parts)


class Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds one module, and loads it from a text; a plugin of pytest, to come before pytest's own finder."""

    def __init__(self, path: Path, text: str) -> None:
        self.name = module_name(path)
        self.path, self.text = path.resolve(), text

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self) -> None:
        sys.meta_path.insert(0, self)

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.path, loader=self)

    def exec_module(self, module: types.ModuleType) -> None:
        exec(compile(self.text, str(self.path), "exec"), module.__dict__)


class Only:
    """Plugin of pytest: keeps some tests, in their order."""

    def __init__(self, tests: Sequence[str]) -> None:
        self._rank = {test: number for number, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((x for x in items if x.nodeid in self._rank), key=lambda x: self._rank[x.nodeid])


@dataclass
class Test:
    """A collected test: its CPU time, and the lines of the module that it reaches."""

    item: pytest.Item
    cpu_s: float
    lines: frozenset[int]


def start_tracer(file: str) -> coverage.Coverage:
    """Start noting the lines of a file that run; none may."""
    tracer = coverage.Coverage(data_file=None, include=[file], config_file=False)
    tracer.set_option("run:disable_warnings", ["no-data-collected", "module-not-measured"])
    tracer.start()
    return tracer


def in_child(work: Callable[[], bool], *, timeout_s: float, cpu_s: float = 0.0) -> str:
    """Run work in a child; "" when it returns true, TIME or LATE when its CPU time or its time is over, else FAILED."""
    child = os.fork()
    if child == 0:
        try:
            os.setsid()  # what it starts ends with it
            if cpu_s:  # the load of the machine does not count
                resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_s) + 1, int(cpu_s) + 2))
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    status, end = None, time.monotonic() + timeout_s
    while status is None and time.monotonic() < end:
        done, found = os.waitpid(child, os.WNOHANG)
        status = found if done else None
        time.sleep(0.005)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if status is None:
        os.waitpid(child, 0)
        return LATE
    code = os.waitstatus_to_exitcode(status)
    return TIME if code in (-signal.SIGXCPU, -signal.SIGKILL) else FAILED if code else ""


def run_items(session: pytest.Session, items: Sequence[pytest.Item]) -> bool:
    """Run collected tests to the first that fails; whether all passed."""
    session.items = [*items]
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return False
    return True


class Suite:
    """The tests of a module; `outcome` runs them against a text in its place."""

    def __init__(
        self, session: pytest.Session, path: Path, timeout_s: float, imported: set[int], notes: Path
    ) -> None:
        self._session, self._path, self._timeout_s = session, path, timeout_s
        self._imported, self._notes = imported, notes
        self._text = path.read_text()
        self._tests: list[Test] = []
        self._start_cpu_s = time.process_time()  # what imports and collection took

    def measure(self) -> str:
        """Run each test alone, without a change; the name of one that fails, or "" when all pass."""
        for item in self._session.items:
            failed = in_child(lambda item=item: self._trace(item), timeout_s=self._timeout_s)
            if failed:
                return item.nodeid
            cpu_s, lines = json.loads(self._notes.read_text())
            self._tests.append(Test(item, cpu_s, frozenset(lines)))
        return ""

    def _trace(self, item: pytest.Item) -> bool:
        file = str(self._path.resolve())
        tracer = start_tracer(file)
        passed = run_items(self._session, [item])
        tracer.stop()
        self._notes.write_text(json.dumps([time.process_time(), tracer.get_data().lines(file) or []]))
        return passed

    @property
    def reaches(self) -> bool:
        """Whether a test runs a line of the module that its import does not."""
        return any(test.lines - self._imported for test in self._tests)

    @property
    def cpu_s(self) -> float:
        """CPU time of all tests."""
        return sum(test.cpu_s for test in self._tests)

    def outcome(self, text: str, line: int) -> str:
        """What the tests say of a text that differs in a line: "" when all pass, TIME, LATE or FAILED."""
        lines = statement_lines(self._text, line)
        changed = changed_functions(self._text, text, str(self._path.resolve()))
        if changed is None or lines & self._imported:
            return self._outcome_anew(text)
        near = [test for test in self._tests if lines & test.lines]
        files: dict[Path, float] = {}
        for test in near:
            files[test.item.path] = files.get(test.item.path, 0.0) + test.cpu_s
        near.sort(key=lambda test: (files[test.item.path], str(test.item.path), test.cpu_s))

        code = code_of_functions(str(self._path.resolve()), changed)

        def work() -> bool:
            for function, new in code:
                function.__code__ = new  # every name that stands for it sees it
            return run_items(self._session, [test.item for test in near])

        cpu_s = CPU_FACTOR * sum(files.values()) + CPU_MARGIN_S
        return in_child(work, timeout_s=self._timeout_s, cpu_s=cpu_s)

    def _outcome_anew(self, text: str) -> str:
        changed = self._notes.with_suffix(".py")
        changed.write_text(text)
        tests = [test.item.nodeid for test in sorted(self._tests, key=lambda test: test.cpu_s)]
        self._notes.write_text(json.dumps(tests))
        command = [sys.executable, __file__, "anew", str(self._path), str(changed), str(self._notes)]
        arguments = self._session.config.args
        cpu_s = int(CPU_FACTOR * (self.cpu_s + self._start_cpu_s)) + CPU_MARGIN_S
        try:
            done = subprocess.run(
                [*command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=self._timeout_s,
                check=False,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1)),
            )
        except subprocess.TimeoutExpired:
            return LATE
        if done.returncode == pytest.ExitCode.USAGE_ERROR:
            raise RuntimeError(f"pytest does not know one of {' '.join(arguments)}")
        if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return TIME
        return FAILED if done.returncode else ""


def statement_lines(text: str, line: int) -> set[int]:
    """Lines of the smallest statement at a line; of a compound one those before its body."""
    found: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.stmt):
            continue
        body = getattr(node, "body", None)
        last = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or node.lineno
        if node.lineno <= line <= last:
            found = {*range(node.lineno, last + 1)}  # inner statements come later
    return found


def changed_functions(before: str, after: str, file: str) -> Functions | None:
    """Functions of a module, by name and first line, whose code differs; None when what an import runs differs."""
    pairs = [(compile(before, file, "exec"), compile(after, file, "exec"))]
    found: Functions = {}
    while pairs:
        old, new = pairs.pop()
        consts = [[x for x in code.co_consts if not isinstance(x, types.CodeType)] for code in (old, new)]
        inner = [[x for x in code.co_consts if isinstance(x, types.CodeType)] for code in (old, new)]
        same = (old.co_code, old.co_names, repr(consts[0])) == (new.co_code, new.co_names, repr(consts[1]))
        if not same or len(inner[0]) != len(inner[1]):
            return None
        for one, other in zip(*inner, strict=True):
            if not one.co_flags & 2:  # no CO_NEWLOCALS: the body of a class
                pairs.append((one, other))
            elif one != other:
                key = (one.co_name, one.co_firstlineno)
                if key in found or key != (other.co_name, other.co_firstlineno):
                    return None
                found[key] = other
    return found


def code_of_functions(file: str, changed: Functions) -> list[tuple[types.FunctionType, types.CodeType]]:
    """The living functions of a file that get other code."""
    found = []
    for function in gc.get_objects():
        if isinstance(function, types.FunctionType) and function.__code__.co_filename == file:
            key = (function.__code__.co_name, function.__code__.co_firstlineno)
            if key in changed:
                found.append((function, changed[key]))
    if missing := {*changed} - {(f.__code__.co_name, f.__code__.co_firstlineno) for f, _ in found}:
        raise LookupError(f"{file}: no function {missing}")
    return found


@dataclass(frozen=True, order=True)
class Mutation:
    """An operator of Cosmic Ray or kind of `kernel_mutations`, applied at the n-th place where it fits."""

    line: int
    operator: str
    occurrence: int


def mutations_of(text: str) -> list[Mutation]:
    """All mutations of a text that are not excluded, in the order of their lines."""
    tree, found = get_ast(text), []
    for name in cosmic_ray.plugins.operator_names():
        operator_class = cosmic_ray.plugins.get_operator(name)
        if EXCLUDED.fullmatch(name) or operator_class.arguments():
            continue
        operator = operator_class()
        places = (start for node in ast_nodes(tree) for start, _ in operator.mutation_positions(node))
        found += [Mutation(start[0], name, number) for number, start in enumerate(places)]
    return sorted(found)


def mutations_of_kernels(text: str) -> list[Mutation]:
    """Those of `kernel_mutations`, in the order of their lines."""
    return sorted(
        Mutation(place.line, kind, number)
        for kind, places in replacements(text).items()
        for number, place in enumerate(places)
    )


def changed_by(mutation: Mutation, text: str) -> str:
    """The text after a mutation."""
    kinds = replacements(text)
    if mutation.operator in kinds:
        return kinds[mutation.operator][mutation.occurrence].applied(text)
    changed = mutate_code(text, cosmic_ray.plugins.get_operator(mutation.operator)(), mutation.occurrence)
    assert changed is not None
    return changed


def choose(
    every: Sequence[Mutation], sample: int, seed: int, ran: Collection[tuple[int, str, int]]
) -> list[Mutation]:
    """So many mutations of a module (0: all), and those that ran already; a larger sample holds a smaller one."""
    mixed = random.Random(seed).sample(every, len(every))
    first = {*(mixed[:sample] if sample else mixed)}
    return [mutation for mutation in every if mutation in first or astuple(mutation) in ran]


def is_change(before: str, after: str) -> bool:
    """Whether a text differs in more than decorators, keywords of classes such as ``frozen=True``, and the star of
    parameters, which is no multiplication.
    """
    try:
        trees = ast.parse(before), ast.parse(after)
    except SyntaxError:
        return False
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                node.decorator_list = []
            if isinstance(node, ast.ClassDef):
                node.keywords = []
            if isinstance(node, ast.arguments):
                node.args = [*node.posonlyargs, *node.args, *node.kwonlyargs]
                node.defaults = [*node.defaults, *(default for default in node.kw_defaults if default)]
                node.posonlyargs, node.kwonlyargs, node.kw_defaults = [], [], []
    return ast.dump(trees[0]) != ast.dump(trees[1])


class Mutations:
    """Plugin of pytest: in place of the collected tests it runs the mutations of a job."""

    def __init__(self, job: dict[str, Any]) -> None:
        self._job, self._path = job, PACKAGE / job["module"]
        self._text = self._path.read_text()
        self._tracer = start_tracer(str(self._path.resolve()))

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        importlib.import_module(module_name(self._path))  # some are loaded by what first needs them
        self._tracer.stop()
        imported = {*(self._tracer.get_data().lines(str(self._path.resolve())) or [])}
        results = Path(self._job["results"])
        suite = Suite(session, self._path, self._job["timeout_s"], imported, results.with_name("tests.json"))
        if failed := suite.measure():
            raise pytest.UsageError(f"{failed} fails without a change, or takes too long")
        if not suite.reaches:
            raise pytest.UsageError(f"{self._path}: its tests run none of its functions")
        rows = [json.loads(row) for row in results.read_text().splitlines()] if results.is_file() else []
        every = mutations_of(self._text)
        if self._job["module"].startswith(FOLDER):
            every = sorted([*every, *mutations_of_kernels(self._text)])
        survived = {tuple(r["mutation"]): not r["outcome"] for r in rows if r.get("outcome", LATE) != LATE}
        chosen = choose(every, self._job["sample"], self._job["seed"], {*survived})
        if self._job["survivors"]:
            chosen = [mutation for mutation in chosen if astuple(mutation) in survived]
        with results.open("a") as output:
            head = {"mutations": len(every), "chosen": [astuple(x) for x in chosen]}
            print(json.dumps(head), file=output, flush=True)
            for mutation in chosen:
                known = astuple(mutation) in survived
                if not known or (self._job["survivors"] and survived[astuple(mutation)]):
                    print(json.dumps(self._run(mutation, suite)), file=output, flush=True)
        return True

    def _run(self, mutation: Mutation, suite: Suite) -> dict[str, object]:
        changed = changed_by(mutation, self._text)
        outcome = suite.outcome(changed, mutation.line) if is_change(self._text, changed) else INVALID
        diff = difflib.unified_diff(self._text.splitlines(), changed.splitlines(), lineterm="", n=0)
        return {"mutation": astuple(mutation), "outcome": outcome, "diff": "\n".join(diff)}


def main(argv: Sequence[str]) -> int:
    """Run what is pending, and on demand what survived; or the tests against one changed module."""
    if argv[0] == "anew":
        path, changed, notes, *tests = argv[1:]
        plugins = [Changed(Path(path), Path(changed).read_text()), Only(json.loads(Path(notes).read_text()))]
        return pytest.main([*OPTIONS, *tests], plugins=plugins)
    job = json.loads(Path(argv[1]).read_text())
    return pytest.main([*OPTIONS, *job["tests"]], plugins=[Mutations(job)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
