# SPDX-License-Identifier: Apache-2.0
"""Programs are run with a deadline, and nothing of them is left behind."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from mlf_sdk.errors import InputError, ToolError
from mlf_sdk.tools import programs
from mlf_sdk.tools.process import (
    ProcessError,
    ProcessRunner,
    run_process,
    start_process,
)
from mlf_sdk.tools.programs import install_hint

PYTHON = sys.executable
# Starts a grandchild that ignores SIGTERM, tells its process id, and sleeps beside it.
FAMILY = """
import pathlib, signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import signal, sys, time\\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\\n"
    "open(sys.argv[1] + '.new', 'w').write('up')\\n"
    "time.sleep(86400)", sys.argv[1]])
while not pathlib.Path(sys.argv[1] + ".new").exists():
    time.sleep(0.005)
pathlib.Path(sys.argv[1]).write_text(str(child.pid))
time.sleep(float(sys.argv[2]))
"""


def is_running(pid: int) -> bool:
    """A process that is there and not merely waiting to be reaped by its new parent."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def wait_until(condition, timeout_s: float = 5.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return False


class TestRunProcess:
    def test_output_input_and_exit_code(self):
        code = "import sys; d = sys.stdin.buffer.read(); print(len(d)); sys.stderr.write('note'); sys.exit(3)"
        result = run_process([PYTHON, "-c", code], timeout_s=20, input_data=b"x" * 300_000, check=False)
        assert (result.returncode, result.stdout, result.stderr) == (3, "300000\n", "note")
        assert result.argv[0] == PYTHON
        assert result.seconds > 0
        assert result.tail() == "300000\nnote"

    def test_environment_and_folder_are_arguments(self, tmp_path):
        code = "import os; print(os.getcwd(), os.environ.get('MARK'), os.environ.get('HOME'))"
        result = run_process([PYTHON, "-c", code], timeout_s=20, cwd=tmp_path, env={"MARK": "7"})
        assert result.stdout.split() == [str(tmp_path.resolve()), "7", "None"]

    def test_there_is_no_shell(self):
        result = run_process([PYTHON, "-c", "import sys; print(sys.argv[1])", "$(id) `id` *"], timeout_s=20)
        assert result.stdout == "$(id) `id` *\n"

    def test_bytes_that_are_no_text_do_no_harm(self):
        code = "import sys; sys.stdout.buffer.write(bytes([255, 65]))"
        assert run_process([PYTHON, "-c", code], timeout_s=20).stdout == "\ufffdA"

    def test_failure_carries_the_end_of_the_output(self):
        code = "for i in range(1000): print('line', i)\nraise SystemExit(9)"
        with pytest.raises(ProcessError, match="exit code 9") as caught:
            run_process([PYTHON, "-c", code], timeout_s=20)
        error = caught.value
        assert isinstance(error, ToolError)
        assert (error.exit_code, error.returncode, error.argv[0]) == (3, 9, PYTHON)
        assert error.tail.splitlines()[-1] == "line 999"
        assert len(error.tail.splitlines()) == 30
        assert "line 999" in str(error)
        assert "line 900" not in str(error)

    def test_a_signal_is_named(self):
        code = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
        with pytest.raises(ProcessError, match="SIGSEGV") as caught:
            run_process([PYTHON, "-c", code], timeout_s=20)
        assert caught.value.returncode == -signal.SIGSEGV

    def test_a_missing_tool_says_how_to_get_it(self, tmp_path, monkeypatch):
        monkeypatch.setattr(programs, "package_folders", lambda: ())
        with pytest.raises(ProcessError, match="'cmake' is not installed") as caught:
            run_process(["cmake", "--version"], timeout_s=5, env={"PATH": str(tmp_path)})
        assert "apt-get install cmake" in caught.value.hint
        assert "pip install west" in install_hint("west")
        assert "PATH" in install_hint("no-such-program")

    @pytest.mark.parametrize("argv", [[], [""]])
    def test_no_program_is_bad_input(self, argv):
        with pytest.raises(InputError, match="no program"):
            run_process(argv, timeout_s=5)

    def test_a_file_that_is_no_program(self, tmp_path):
        program = tmp_path / "program"
        program.write_bytes(b"\x7fELF nonsense")
        with pytest.raises(ProcessError, match="is not installed"):
            run_process([str(program)], timeout_s=5)
        program.chmod(0o755)
        with pytest.raises(ProcessError, match="could not be started"):
            run_process([str(program)], timeout_s=5)

    def test_a_missing_folder_is_named(self, tmp_path):
        with pytest.raises(ProcessError, match="gone"):
            run_process([PYTHON, "-c", ""], timeout_s=5, cwd=tmp_path / "gone")

    def test_lateness_kills_the_grandchildren(self, tmp_path):
        told = tmp_path / "pid"
        with pytest.raises(ProcessError, match=r"did not end within 1 s") as caught:
            run_process([PYTHON, "-c", FAMILY, str(told), "86400"], timeout_s=1)
        assert caught.value.returncode is None
        assert wait_until(lambda: not is_running(int(told.read_text())))

    def test_a_forgotten_grandchild_is_killed_too(self, tmp_path):
        told = tmp_path / "pid"
        run_process([PYTHON, "-c", FAMILY, str(told), "0"], timeout_s=30)  # the grandchild sleeps for a day
        assert wait_until(lambda: not is_running(int(told.read_text())))

    def test_an_interrupt_kills_the_grandchildren(self, tmp_path):
        told = tmp_path / "pid"
        main = threading.main_thread().ident
        assert main is not None

        def interrupt() -> None:
            wait_until(lambda: told.exists() and told.read_text() != "")
            signal.pthread_kill(main, signal.SIGINT)

        helper = threading.Thread(target=interrupt)
        helper.start()
        with pytest.raises(KeyboardInterrupt):
            run_process([PYTHON, "-c", FAMILY, str(told), "60"], timeout_s=30)
        helper.join()
        assert wait_until(lambda: not is_running(int(told.read_text())))

    def test_it_is_a_runner(self):
        runner: ProcessRunner = run_process
        assert runner([PYTHON, "-c", "print(1)"], timeout_s=20).stdout == "1\n"


class TestStartProcess:
    def test_stop_ends_the_group_and_keeps_the_last_words(self, tmp_path):
        told = tmp_path / "pid"
        code = "import sys; sys.stderr.write('last words'); sys.stderr.flush()\n" + FAMILY
        with start_process([PYTHON, "-c", code, str(told), "60"]) as process:
            assert wait_until(told.exists)
            assert process.exit_code() is None
            assert process.wait(0.01) is None
            assert os.getpgid(process.pid) == process.pid
            assert process.stderr_tail() == "last words"
        assert process.exit_code() == -signal.SIGTERM
        assert process.stderr_tail() == "last words"
        assert wait_until(lambda: not is_running(int(told.read_text())))
        assert not Path(f"/proc/{process.pid}").exists()
        assert process.stop() == -signal.SIGTERM  # once more does no harm

    def test_one_that_ignores_the_request_is_killed(self):
        code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint(1, flush=True); time.sleep(60)"
        with start_process([PYTHON, "-c", code], pipes=True) as process:
            out = process.stdout_fd
            assert os.read(out, 1) == b"1"
            os.close(out)
            assert process.stop(grace_s=0.1) == -signal.SIGKILL

    def test_the_grandchildren_of_one_that_ended_are_killed(self, tmp_path):
        told = tmp_path / "pid"
        with start_process([PYTHON, "-c", FAMILY, str(told), "0"]) as process:
            assert process.wait(10) == 0
            assert process.exit_code() == 0
            assert is_running(int(told.read_text()))
        assert process.exit_code() == 0
        assert wait_until(lambda: not is_running(int(told.read_text())))

    def test_pipes(self):
        code = "import sys; d = sys.stdin.readline(); sys.stdout.write(d.upper())"
        with start_process([PYTHON, "-c", code], pipes=True) as process:
            to_it, from_it = process.stdin_fd, process.stdout_fd
            os.write(to_it, b"hello\n")
            assert os.read(from_it, 6) == b"HELLO\n"
            os.close(to_it)
            os.close(from_it)
            assert process.wait(10) == 0

    def test_no_pipes_unless_asked_for(self):
        with (
            start_process([PYTHON, "-c", "import sys; sys.exit(len(sys.stdin.read()))"]) as process,
            pytest.raises(InputError, match="without pipes"),
        ):
            _ = process.stdout_fd

    def test_a_missing_tool_says_how_to_get_it(self, tmp_path, monkeypatch):
        monkeypatch.setattr(programs, "package_folders", lambda: ())
        with pytest.raises(ProcessError, match="apt-get install qemu-system-arm"):
            start_process(["qemu-system-arm"], env={"PATH": str(tmp_path)})

    def test_cpus_are_set_for_it_alone(self):
        before = os.sched_getaffinity(0)
        chosen = {min(before)}
        code = "import os; print(sorted(os.sched_getaffinity(0)), flush=True)"
        with start_process([PYTHON, "-c", code], pipes=True, cpus=chosen) as process:
            out = process.stdout_fd
            assert os.read(out, 100).decode().strip() == str(sorted(chosen))
            os.close(out)
        assert os.sched_getaffinity(0) == before

    @pytest.mark.skipif(not shutil.which("setpriv"), reason="not installed: setpriv")
    def test_it_dies_with_a_parent_that_is_killed(self, tmp_path):
        told = tmp_path / "pid"
        # The child tells its own number: by then the system knows of the bond, which its start sets up.
        child_code = "import os, pathlib, sys, time; p = pathlib.Path(sys.argv[1])\n"
        child_code += "p.with_suffix('.new').write_text(str(os.getpid())); p.with_suffix('.new').rename(p)\n"
        child_code += "time.sleep(60)"
        code = (
            "import sys, time; from mlf_sdk.tools.process import start_process\n"
            "p = start_process([sys.executable, '-c', *sys.argv[1:]]); time.sleep(60)"
        )
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with start_process([PYTHON, "-c", code, child_code, str(told)], env=env) as parent:
            assert wait_until(told.exists, 20)
            child = int(told.read_text())
            assert is_running(child)
            os.kill(parent.pid, signal.SIGKILL)
            assert wait_until(lambda: not is_running(child))


def test_no_other_module_starts_programs():
    package = Path(sys.modules["mlf_sdk"].__file__ or "").parent
    users = [
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if "import subprocess" in path.read_text() or "os.system(" in path.read_text()
    ]
    assert users == ["tools/process.py"]
