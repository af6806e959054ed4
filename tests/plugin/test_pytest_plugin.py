# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin, in test runs of their own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from archives import Spec, build, write
from pytest_runs import UNUSED

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.toolchain

# A kernel that never returns in its second run, on the host; it sleeps, so that it takes no time of other tests.
HANG = "  extern int pause(void);\n  static int runs = 0;\n"
HANG += "  if (++runs == 2) {\n    for (;;) {\n      pause();\n    }\n  }\n"
KERNEL = "codegen/host/src/tiny_lib1.c"

GOOD = """
import numpy as np

def test_one(mlf_model):
    model = mlf_model("tiny.tar")
    assert model.infer(np.ones((1, 8), np.float32))[0].shape == (1, 8)
"""


@pytest.fixture
def tiny(pytester: pytest.Pytester) -> Path:
    return write(build(Spec()), pytester.path / "tiny.tar")


@pytest.fixture
def spin(pytester: pytest.Pytester) -> Path:
    files = build(Spec())
    text = files[KERNEL].decode()
    at = text.index("(void)dev_id;\n", text.index("tvmgen_tiny_fused_smooth(")) + len("(void)dev_id;\n")
    return write({**files, KERNEL: (text[:at] + HANG + text[at:]).encode()}, pytester.path / "spin.tar")


def run(pytester: pytest.Pytester, source: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(source)
    return pytester.runpytest_subprocess(*UNUSED, "-p", "no:xdist", *options)


def test_three_lines(pytester: pytest.Pytester, tiny: Path) -> None:
    result = run(pytester, GOOD, "--mlf-board", "host", "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["mlf boards: host", "*::test_one?host? PASSED*"])


def test_the_answer_is_the_models(pytester: pytest.Pytester, tiny: Path) -> None:
    """One inference, by position and by name; a batch along one more axis; what the session shows."""
    (pytester.path / "reference.py").write_text("")
    result = run(
        pytester,
        f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parents[1] / "support")!r})
        import numpy as np
        import pytest
        from archives import Spec, reference

        X = np.random.default_rng(1).standard_normal((3, 1, 8)).astype(np.float32)

        def test_inputs(mlf_model, mlf_board):
            model = mlf_model("tiny.tar")
            wanted = [reference(Spec(), x) for x in X]
            for inputs in (X[0], [X[0]], {{"x": X[0]}}, {{"0": X[0]}}):
                np.testing.assert_allclose(model.infer(inputs)[0], wanted[0], rtol=1e-5)
            batch = model.infer(X)[0]
            assert batch.shape == (3, 1, 8)
            np.testing.assert_allclose(batch, np.stack(wanted), rtol=1e-5)
            assert model.infer(X[:1])[0].shape == (1, 1, 8)
            assert model.board == mlf_board == "host"
            assert model.model.name == model.session.info.models[0].name == "tiny"

        def test_the_board_is_started_once(mlf_model):
            assert mlf_model("tiny.tar") is mlf_model("tiny.tar")

        def test_bad_inputs(mlf_model):
            from mlf_sdk import MlfError
            model = mlf_model("tiny.tar")
            for bad in (X[0][:, :7], [X[0], X[0]], {{"y": X[0]}}, []):
                with pytest.raises(MlfError):
                    model.infer(bad)
            model.infer(X[0])

        @pytest.mark.mlf("tiny.tar")
        def test_session(mlf_session):
            assert mlf_session.infer(0, [X[0]])[0].shape == (1, 8)
        """,
        "--mlf-board",
        "host",
        "--strict-markers",
    )
    result.assert_outcomes(passed=4)


def test_without_an_archive(pytester: pytest.Pytester, tiny: Path) -> None:
    source = "def test_it(mlf_session):\n    assert len(mlf_session.info.models) == 1\n"
    result = run(pytester, source, "--mlf-board", "host")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*no archive: mlf_model(FILE)*"])
    run(pytester, source, "--mlf-board", "host", "--mlf-archive", "tiny.tar").assert_outcomes(passed=1)


def test_a_failure_is_shown_at_the_line_of_the_test(pytester: pytest.Pytester, tiny: Path) -> None:
    source = """
    def test_it(mlf_model):
        mlf_model("tiny.tar").infer([])
    """
    result = run(pytester, source, "--mlf-board", "host")
    result.assert_outcomes(failed=1)
    shown = result.stdout.str()
    assert 'mlf_model("tiny.tar").infer([])' in shown
    assert "0 inputs were given for 1" in shown
    assert "opentarget.py" not in shown and "pytest_plugin.py" not in shown


@pytest.mark.parametrize(
    ("option", "field", "value"),
    [
        (["--mlf-cflags=-Os"], "cflags", "-Os"),
        (["--mlf-timeout", "7"], "timeout_s", 7.0),
        (["--mlf-baud", "300"], "baud", 300),
        (["--mlf-keep-inputs"], "keep_inputs", True),
        (["--mlf-zephyr-module", "a", "--mlf-zephyr-module", "b"], "zephyr_modules", ("a", "b")),
    ],
)
def test_options_are_those_of_a_request(pytester: pytest.Pytester, option, field: str, value: object) -> None:
    """Also with a default of mlf.toml, which the option overrides."""
    (pytester.path / "mlf.toml").write_text('cflags = "-O1"\ntimeout = 3\n')
    source = f"""
    from mlf_sdk.pytest_plugin import _request

    def test_it(pytestconfig):
        assert _request(pytestconfig).{field} == {value!r}
        assert _request(pytestconfig).params == "flash"
    """
    run(pytester, source, *option).assert_outcomes(passed=1)


def test_several_boards(pytester: pytest.Pytester, tiny: Path) -> None:
    pytester.makepyfile("def test_it(mlf_board):\n    pass\n\ndef test_plain():\n    pass\n")
    result = pytester.runpytest_subprocess(
        *UNUSED,
        "--collect-only",
        "-q",
        "--mlf-board",
        "host",
        "--mlf-board",
        "mps2-an386",
        "--mlf-board",
        "host",
    )
    lines = [line.split("::")[1] for line in result.outlines if "::" in line]
    assert sorted(lines) == ["test_it[host]", "test_it[mps2-an386]", "test_plain"]


def test_a_test_may_choose_its_boards(pytester: pytest.Pytester) -> None:
    source = """
    import pytest

    @pytest.mark.parametrize("mlf_board", ["one", "two"], indirect=True)
    def test_it(mlf_board):
        assert mlf_board in ("one", "two")
    """
    run(pytester, source, "--mlf-board", "host").assert_outcomes(passed=2)


def test_an_unknown_board(pytester: pytest.Pytester, tiny: Path) -> None:
    result = run(pytester, GOOD, "--mlf-board", "hots")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*there is no board 'hots'*"])


def test_a_board_that_died_is_not_tried_again(pytester: pytest.Pytester, tiny: Path, spin: Path) -> None:
    """Its other tests are skipped at once with the reason; another image is not touched by it."""
    source = """
    import numpy as np

    X = np.ones((1, 8), np.float32)

    def test_lives(mlf_model):
        mlf_model("spin.tar").infer(X)

    def test_dies(mlf_model):
        mlf_model("spin.tar").infer(X)

    def test_after(mlf_model):
        mlf_model("spin.tar")
        raise AssertionError("not reached")

    def test_another(mlf_model):
        mlf_model("tiny.tar").infer(X)
    """
    result = run(pytester, source, "--mlf-board", "host", "--mlf-timeout", "3", "-rs", "--durations=0", "-vv")
    result.assert_outcomes(passed=2, failed=1, skipped=1)
    result.stdout.fnmatch_lines(
        [
            "*NoAnswerError*did not answer RUN*",
            "SKIPPED * the board host died: the device did not answer RUN*test_dies*",
        ]
    )


def test_a_session_that_died(pytester: pytest.Pytester, spin: Path) -> None:
    """Also when the test talks to the session itself."""
    source = """
    import numpy as np
    import pytest

    pytestmark = pytest.mark.mlf("spin.tar")

    @pytest.mark.parametrize("number", range(4))
    def test_it(mlf_session, number):
        mlf_session.infer(0, [np.ones((1, 8), np.float32)])
    """
    result = run(pytester, source, "--mlf-board", "host", "--mlf-timeout", "3")
    result.assert_outcomes(passed=1, failed=1, skipped=2)


def test_a_port_without_a_board(pytester: pytest.Pytester, tiny: Path) -> None:
    result = run(pytester, GOOD, "--mlf-board", "mps2-an386", "--mlf-port=mps2-an386=/dev/none")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*there is no such port*"])


def test_the_console_is_in_the_report(pytester: pytest.Pytester) -> None:
    """What the kernel's board prints between messages, with the failed test and only with its own."""
    files = build(Spec())
    text = files[KERNEL].decode()
    at = text.index("(void)dev_id;\n", text.index("tvmgen_tiny_fused_smooth(")) + len("(void)dev_id;\n")
    text = text[:at] + '  (void)write(1, "hello from the kernel\\n", 22);\n' + text[at:]
    text = "extern long write(int, const void *, unsigned long);\n" + text
    write({**files, KERNEL: text.encode()}, pytester.path / "talks.tar")
    source = """
    import numpy as np

    def test_talks(mlf_model):
        mlf_model("talks.tar").infer(np.ones((1, 8), np.float32))
        raise AssertionError("as planned")

    def test_is_silent(mlf_model):
        mlf_model("talks.tar")
        raise AssertionError("as planned")
    """
    result = run(pytester, source, "--mlf-board", "host")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*Captured console call (host)*", "hello from the kernel"])
    assert result.stdout.str().count("Captured console") == 1


def test_nothing_heavy_is_imported(pytester: pytest.Pytester) -> None:
    """A run without boards pays nothing for the plugin."""
    program = (
        "import sys, mlf_sdk.pytest_plugin\n"
        "heavy = {'numpy', 'msgspec', 'jinja2', 'elftools', 'capstone', 'serial', 'rich', 'click'}\n"
        "print(sorted(heavy & set(sys.modules)), sorted(m for m in sys.modules if m.startswith('mlf_sdk')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.startswith("[] ")
    loaded = set(re.findall(r"'mlf_sdk\.([\w.]+)'", done.stdout))
    assert loaded == {
        "compiler",
        "compiler.options",
        "errors",
        "pipeline",
        "pipeline.compileroptions",
        "pipeline.declare",
        "pipeline.request",
        "pytest_plugin",
        "pytest_plugin.evidence",
        "pytest_plugin.model",
        "resources",
        "pytest_plugin.pool",
        "targets",
        "targets.boards",
        "tools",
        "tools.checks",
        "tools.ctext",
        "version",
    }


def test_the_package_still_gives_what_it_promises() -> None:
    import mlf_sdk

    for name in mlf_sdk.__all__:
        assert getattr(mlf_sdk, name) is not None
    with pytest.raises(AttributeError, match="nothing_like_it"):
        mlf_sdk.nothing_like_it  # noqa: B018


@pytest.mark.qemu
def test_an_emulated_board(pytester: pytest.Pytester, tiny: Path) -> None:
    result = run(pytester, GOOD, "--mlf-board", "mps2-an386", "--mlf-board", "host", "-v")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*::test_one?mps2-an386? PASSED*", "*::test_one?host? PASSED*"])


@pytest.mark.qemu
def test_the_default_board_is_an_emulated_one(pytester: pytest.Pytester, tiny: Path) -> None:
    result = run(pytester, GOOD, "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*::test_one?mps2-an386? PASSED*"])
