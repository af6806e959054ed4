# SPDX-License-Identifier: Apache-2.0
"""``generate`` on hostile archives: exit code 2, one error, nothing written, soon, in little memory.

Their reader refuses them, which tests/readers/test_hostile.py has all of: here are those of no format, the largest
in effect, and a fifth of the others.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from archives import tar_bytes
from cli_helpers import Caller
from effort import Effort
from hostile import GOOD, HOSTILE, SAYS

# Files that do not even look like an archive of any format.
OF_NO_FORMAT = {
    "header: too many members",
    *(f"container: {what}" for what in ("empty file", "only zeros", "text", "zip", "bzip2", "zstd")),
}
MAX_CALLS = 5_000_000  # 0.8 million for the largest archive; what is quadratic takes billions
MAX_BYTES = 128 << 20
MAX_RESIDENT_KIB = 320 << 10  # of a whole process, the interpreter and numpy included
SAMPLE = [
    name
    for name in HOSTILE
    if any(word in name for word in ("bomb", "million", "deep", "ratio", "2^", "overflow"))
]
CALLED = [n for i, n in enumerate(HOSTILE) if i % 5 == 0 or n in OF_NO_FORMAT or n in SAMPLE]


def test_the_good_archive_is_generated(call: Caller, tmp_path: Path) -> None:
    """Whatever the others are refused for, it is not this way of calling."""
    path = tmp_path / "good.tar"
    path.write_bytes(tar_bytes(GOOD))
    called = call("generate", path, "-o", tmp_path / "app", "--board", "mps2-an386")
    assert (called.code, called.err) == (0, "")
    assert (tmp_path / "app/mlf-project.json").is_file()
    assert len(CALLED) >= 60


@pytest.mark.parametrize("name", CALLED)
def test_is_refused_and_leaves_nothing(name: str, call: Caller, tmp_path: Path, monkeypatch) -> None:
    for folder in ("cwd", "out", "in"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    archive = tmp_path / "in" / "evil.tar"
    archive.write_bytes(HOSTILE[name])
    tracemalloc.start()
    try:
        with Effort() as effort:
            called = call("generate", archive, "-o", tmp_path / "out/app", "--board", "mps2-an386")
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert called.code == 2
    assert called.out == ""
    block = called.block()
    assert block["where"] == str(archive)
    assert block["do"]
    says = "not a compiled model of a known format" if name in OF_NO_FORMAT else SAYS[name]
    assert says in called.err.replace("\n  ", "\n")
    assert len(called.err) < 8000
    assert "".join(called.err.split("\n")).isprintable()
    assert 0 < effort.calls < MAX_CALLS
    assert peak_bytes < MAX_BYTES
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")} == {
        "cwd",
        "out",
        "in",
        "in/evil.tar",
    }


@pytest.mark.parametrize("name", SAMPLE[:: max(1, len(SAMPLE) // 6)])
def test_memory_of_the_whole_process(name: str, tmp_path: Path) -> None:
    archive = tmp_path / "evil.tar"
    archive.write_bytes(HOSTILE[name])
    program = (
        "import json, sys\n"
        "from mlf_sdk.cli.main import main\n"
        "code = main(sys.argv[1:])\n"
        # Of this program alone: ru_maxrss begins with that of the process which started it.
        "lines = open('/proc/self/status').read().splitlines()\n"
        "used = int(next(line for line in lines if line.startswith('VmHWM')).split()[1])\n"
        "print(json.dumps({'code': code, 'kib': used}))\n"
    )
    argv = [sys.executable, "-c", program, "generate", str(archive), "-o", "app", "--board", "host"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["code"] == 2
    assert said["kib"] < MAX_RESIDENT_KIB
    assert [path.name for path in tmp_path.iterdir()] == ["evil.tar"]
