# SPDX-License-Identifier: Apache-2.0
"""The commands of sweeps on a real plan: two builds of a small model on an emulated board."""

from __future__ import annotations

import csv
import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

from archives import Spec, build, write
from cli_helpers import Caller
from mlf_sdk.cli.main import main
from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.cell import Cell
from mlf_sdk.sweep import executors
from mlf_sdk.sweep.api import load_sweep, shard_of
from mlf_sdk.sweep.figures import FIGURES

distributed = pytest.importorskip(
    "distributed", reason="dask.distributed is not installed (pip install 'mlf-sdk[sweep]')"
)
PLAN = """
name = "tiny"
[axes]
model = ["tiny.tar"]
board = ["mps2-an386"]
cflags = ["-O2", "-Os"]
[gates]
flash_bytes = {max = 1000000}
"""


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Caller:
    return Caller(capsys)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory, needs_qemu: None) -> Path:
    """A folder with a plan, and its sweep beside it."""
    folder = tmp_path_factory.mktemp("sweep")
    write(build(Spec()), folder / "tiny.tar")
    (folder / "plan.toml").write_text(PLAN)
    plan, junit = str(folder / "plan.toml"), str(folder / "sweep.xml")
    assert main(["sweep", plan, "-o", str(folder / "s"), "--junit", junit, "--jobs", "2"]) == 0
    return folder


def copied(swept: Path, folder: Path) -> Path:
    return Path(shutil.copytree(swept / "s", folder / "copy"))


pytestmark = [pytest.mark.qemu, pytest.mark.toolchain]


def test_results_have_one_row_a_cell(swept: Path) -> None:
    document = json.loads((swept / "s/results.json").read_text())
    rows = document["cells"]
    assert document["ok"] and [row["cflags"] for row in rows] == ["-O2", "-Os"]
    with (swept / "s/results.csv").open() as file:
        table = list(csv.DictReader(file))
    assert list(table[0]) == document["columns"]
    for row, text in zip(rows, table, strict=True):
        assert row["verdict"] == "proven" and row["evidence"].startswith("host twin")
        assert row["arena_bytes"] == row["arena_measured_bytes"] > 0
        assert text["flash_bytes"] == str(row["flash_bytes"]) and row["instructions"] > 0
    assert rows[0]["build_id"] != rows[1]["build_id"]
    assert set(FIGURES) < set(document["columns"])


def test_results_as_parquet(swept: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed (mlf-sdk[sweep])")
    table = parquet.read_table(swept / "s/results.parquet")
    document = json.loads((swept / "s/results.json").read_text())
    assert table.column_names == document["columns"]
    assert table.to_pylist() == document["cells"]


def test_junit_has_a_case_for_each_cell(swept: Path) -> None:
    suite = ET.parse(swept / "sweep.xml").getroot()[0]
    assert suite.attrib["tests"] == "2" and suite.attrib["failures"] == "0"
    assert [case.attrib["name"] for case in suite] == ["mps2-an386, -O2", "mps2-an386, -Os"]


def test_what_is_finished_is_not_run_again(swept: Path, tmp_path: Path, call: Caller, monkeypatch) -> None:
    """Resumption, another plan with the same cells, and a shard: no executor is opened."""
    folder = copied(swept, tmp_path)

    def never(*_: object, **__: object) -> None:
        raise AssertionError("a finished cell is run")

    monkeypatch.setattr("mlf_sdk.sweep.api.open_executor", never)
    assert call("sweep", "--resume", "-o", folder).code == 0
    one = [
        "--archive",
        swept / "tiny.tar",
        "--board",
        "mps2-an386",
        "--set",
        "cflags=-Os",
        "-o",
        folder,
        "--json",
    ]
    called = call("sweep", *one)
    assert (called.code, called.value["counts"]) == (0, {"proven": 1})


def test_state_and_cells(swept: Path, tmp_path: Path, call: Caller) -> None:
    folder = copied(swept, tmp_path)
    shown = call("sweep", "status", folder, "--json").value
    assert shown["states"] == {"done": 2} and shown["running"] == []
    name = load_sweep(folder).rows[1].name
    cell = call("sweep", "show", folder, name[:10], "--json").value
    assert {row["item"] for row in cell["proof"]} >= {"arena", "stack", "heap"}
    assert "reading" in cell["log"] and cell["tries"][0]["outcome"] == "proven"
    assert call("sweep", "show", folder, name).code == 0
    assert call("sweep", "show", folder, "zzzz").code == 2
    assert "0 cells are cancelled" in call("sweep", "cancel", folder).out
    assert "1 cells are planned again" in call("sweep", "retry", folder, name[:10]).out
    assert call("sweep", "status", folder, "--json").value["states"] == {"done": 1, "planned": 1}
    assert "1 cells are cancelled" in call("sweep", "cancel", folder, name[:10]).out
    assert call("sweep", "status", tmp_path).code == 2


def worsen(folder: Path, figure: str, factor: float) -> None:
    """Plant a change of a figure in the first cell."""
    db = sqlite3.connect(folder / "journal.sqlite")
    name, result = db.execute("SELECT name, result FROM cells ORDER BY name LIMIT 1").fetchone()
    cell = msgspec.json.decode(result, type=Cell)
    changed = msgspec.structs.replace(cell, **{figure: round(getattr(cell, figure) * factor)})
    db.execute("UPDATE cells SET result = ? WHERE name = ?", (msgspec.json.encode(changed), name))
    db.commit()
    db.close()


@pytest.mark.parametrize(("factor", "tolerance", "code"), [(1.02, "1%", 1), (1.02, "3%", 0), (0.9, "0", 0)])
def test_a_planted_regression_is_found(
    swept: Path, tmp_path: Path, call: Caller, factor: float, tolerance: str, code: int
) -> None:
    folder = copied(swept, tmp_path)
    assert call("sweep", "diff", swept / "s", folder).code == 0
    worsen(folder, "instructions", factor)
    called = call("sweep", "diff", swept / "s", folder, "--tolerance", tolerance, "--json")
    assert called.code == code
    (change,) = called.value["differences"]
    assert (change["what"], change["regression"]) == ("instructions", bool(code))
    assert call("sweep", "diff", swept / "s", folder, "--tolerance", tolerance).code == code


def test_a_gate_fails_a_cell_without_running_it_again(swept: Path, tmp_path: Path, call: Caller) -> None:
    folder = copied(swept, tmp_path)
    for name in ("tiny.tar", "plan.toml"):
        shutil.copy(swept / name, tmp_path)
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN.replace("1000000", "100"))
    called = call("sweep", plan, "-o", folder, "--json")
    assert (called.code, called.value["counts"]) == (1, {"failed": 2})
    assert "gate flash_bytes" in called.value["cells"][0]["why"]


def test_shards_merge_to_the_whole(swept: Path, tmp_path: Path, call: Caller) -> None:
    """Cells of the other shard are taken from the finished sweep, so that nothing is built."""
    for number in ("1", "2"):
        shutil.copytree(swept / "s", tmp_path / number)
        argv = [swept / "plan.toml", "-o", tmp_path / number, "--shard", f"{number}/2", "--json"]
        assert call("sweep", *argv).code in (0, 1)  # a shard may have no cell
    merged = call("sweep", "merge", tmp_path / "1", tmp_path / "2", "-o", tmp_path / "all", "--json")
    assert (merged.code, merged.value["counts"]) == (0, {"proven": 2})
    assert (tmp_path / "all/index.html").is_file()


def test_bad_arguments(tmp_path: Path, call: Caller) -> None:
    assert call("sweep", tmp_path / "none.toml", "-o", tmp_path / "s").code == 2
    assert call("sweep", "-o", tmp_path / "s").code == 2
    assert call("sweep", "--resume", "-o", tmp_path / "nowhere").code == 2
    assert call("sweep").code == 0
    for text in ("0/2", "3/2", "1", "a/b"):
        with pytest.raises(InputError, match="invalid value"):
            shard_of(text)


def test_without_the_extra(tmp_path: Path, call: Caller, monkeypatch) -> None:
    """It says how to get it; a proof needs nothing of it."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    called = call("sweep", "--archive", "a.tar", "-o", tmp_path / "s")
    assert called.code == 3 and "pip install 'mlf-sdk[sweep]'" in called.err
    program = (
        "import sys\nsys.modules['distributed'] = sys.modules['dask'] = None\n"
        "import mlf_sdk.sweep.proof, mlf_sdk.cli.runs\nassert 'distributed.client' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    with executors.open_executor(1) as pool:
        assert pool.lacking(["anything"]) == []
