# SPDX-License-Identifier: Apache-2.0
"""Records are decoded in several threads: msgspec crashes where two make what it knows of one at a time."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import mlf_sdk

# A new process each: what msgspec knows is made once. Without the lock about half of them crash.
PROGRAM = """
import sys, threading
sys.setswitchinterval(1e-6)
from mlf_sdk.resources import data_dir
from mlf_sdk.targets.boards.row import Board
from mlf_sdk.tools.rowfile import read_checked

paths = sorted((data_dir("board_templates") / "boards").glob("*.toml"))[:8]
barrier, rows = threading.Barrier(len(paths)), []

def read(path):
    barrier.wait()
    rows.append(read_checked(path, Board)[0])

threads = [threading.Thread(target=read, args=(path,)) for path in paths]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(rows), None in rows)
"""
TYPED = re.compile(r"msgspec\.(?:\w+\.decode\(.*type=|convert\(|\w+\.Decoder\().*")


def test_rows_are_read_in_eight_threads() -> None:
    for _ in range(6):
        said = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
        assert said.stdout == "8 False\n"


def test_every_decoding_of_a_record_takes_the_lock() -> None:
    sources = sorted(Path(mlf_sdk.__file__).parent.rglob("*.py"))
    calls = [
        line
        for path in sources
        if path.name not in ("rowfile.py", "rowfaults.py")  # parts of a record that was decoded before
        for line in path.read_text().splitlines()
        if TYPED.search(line) and "type=dict" not in line
    ]
    assert len(calls) > 15
    assert not [line for line in calls if "described(" not in line]
