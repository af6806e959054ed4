# SPDX-License-Identifier: Apache-2.0
"""The same archive and options give the same bytes, wherever, whenever and by whomever they are built."""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path

import pytest

import mlf_sdk
from archives import Spec, build, write
from emulated import need_board_tools
from mlf_sdk.tools.process import run_process

pytestmark = pytest.mark.toolchain
DEEP = "a folder whose name is much longer/and deeper"


def build_in(
    folder: Path, spec: Spec, board: str, home: Path, *options: str, shared: bool = False
) -> dict[str, bytes]:
    """All that is generated and linked, built by somebody whose home is ``home``.

    Every source is compiled anew, unless ``shared``: then as in the other tests.
    """
    archive = write(build(spec), folder / "model.tar")
    app = folder / "app"
    mlf_sdk.generate(archive, app, board=board)
    home.mkdir(parents=True)
    environment = {**os.environ, "HOME": str(home), "TMPDIR": str(home), "TZ": f"X{len(home.parts)}"}
    if not shared:
        environment = {key: value for key, value in environment.items() if not key.endswith("_LAUNCHER")}
    for argv in (["cmake", "--preset", "default", *options], ["cmake", "--build", "--preset", "default"]):
        run_process(argv, cwd=app, env=environment, timeout_s=300)
    files = [p for p in app.rglob("*") if p.is_file() and p.relative_to(app).parts[0] != "build"]
    images = [p for p in (app / "build").glob("app.*") if p.suffix in (".elf", ".bin", ".hex")]
    return {p.relative_to(app).as_posix(): p.read_bytes() for p in (*files, *images)}


def check(tmp_path: Path, spec: Spec, board: str, *options: str) -> dict[str, bytes]:
    (tmp_path / "x").mkdir()
    (tmp_path / DEEP).mkdir(parents=True)
    first = build_in(tmp_path / "x", spec, board, tmp_path / "h", *options)
    day = time.strftime("%b %e %Y").encode()
    second = build_in(tmp_path / DEEP, spec, board, tmp_path / "home of another", *options)
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []
    elf = first["build/app.elf"]
    assert not re.findall(rb"[ -~]*" + re.escape(str(tmp_path).encode()) + rb"[ -~]*", elf)
    assert day not in elf
    return first


@pytest.mark.parametrize(
    ("kind", "board"),
    [*((kind, "mps2-an386") for kind in ("graph", "aot-c", "aot-packed")), ("graph", "qemu-virt-rv32")],
)
def test_an_image_for_a_board(kind: str, board: str, tmp_path: Path, needs_arm: None) -> None:
    need_board_tools(board)
    found = check(tmp_path, Spec(kind=kind), board)
    assert {"build/app.elf", "build/app.bin", "build/app.hex"} <= found.keys()


def test_shared_objects_make_the_same_image(tmp_path: Path, needs_arm: None) -> None:
    """What the tests build with ccache is what users build without it (see tests/conftest.py)."""
    if shutil.which("ccache") is None:
        pytest.skip("not installed: ccache")
    images = []
    for name in ("fresh", "first", "second"):
        (tmp_path / name).mkdir()
        found = build_in(
            tmp_path / name, Spec(), "mps2-an386", tmp_path / f"{name}-home", shared=name != "fresh"
        )
        images.append(found["build/app.elf"])
    assert images[0] == images[1] == images[2]


def test_an_image_for_the_host(tmp_path: Path, needs_host: None) -> None:
    """Without the sanitizers: what they print names the compiled files as they were given to the compiler."""
    check(tmp_path, Spec(), "host", "-DMLF_SANITIZE=OFF")


def test_no_source_asks_for_the_time() -> None:
    crt = Path(__file__).resolve().parents[2] / "crt"
    sources = [p for p in crt.rglob("*") if p.suffix in (".c", ".h", ".S")]
    assert len(sources) > 30
    assert [p for p in sources if re.search(r"__(DATE|TIME|TIMESTAMP)__", p.read_text())] == []
