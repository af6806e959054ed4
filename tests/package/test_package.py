# SPDX-License-Identifier: Apache-2.0
"""The wheel and the source distribution: complete, and enough to generate a project far from the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from archives import build, write

ROOT = Path(__file__).parents[2]
DATA = ("board_templates", "crt", "qemu")
ONLY_FOR_TESTS = ("crt/fuzz/", "crt/tests/")
pytest.importorskip("hatchling", reason="hatchling builds the distributions")


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Run a command without what would lead it to the checkout; return its standard output."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "PIP_", "VIRTUAL"))
    }
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**kept, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def checked_in(folder: str) -> set[str]:
    """Files of a folder of the checkout that belong to the project."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
        and not any(p.startswith((".", "__pycache__")) for p in path.relative_to(ROOT).parts)
    }


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    program = (
        "import sys; from hatchling import build\n"
        "print(build.build_wheel(sys.argv[1])); print(build.build_sdist(sys.argv[1]))"
    )
    run(sys.executable, "-c", program, folder, cwd=ROOT)
    assert len(list(folder.iterdir())) == 2
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (found,) = dist.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty environment with the wheel; its dependencies are those of this one, and nothing of the checkout."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, system_site_packages=False, with_pip=False, symlinks=True)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        folder / "bin/python",
        "install",
        "--no-deps",
        "--no-index",
    ]
    run(*pip, wheel, cwd=folder)
    python = folder / "bin/python"
    site = Path(
        run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
    )
    # A .pth file adds a folder without reading that folder's own .pth files: no editable install.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def test_the_wheel_has_all_data(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for folder in DATA:
        wanted = {
            f"mlf_sdk/_data/{path}" for path in checked_in(folder) if not path.startswith(ONLY_FOR_TESTS)
        }
        assert wanted
        assert wanted <= names
    kinds = (".py", "py.typed", ".j2", ".css")
    code = {name.removeprefix("sdk/") for name in checked_in("sdk") if name.endswith(kinds)}
    assert code <= names
    assert "mlf_sdk/py.typed" in names
    assert not [
        name for name in names if name.startswith(tuple(f"mlf_sdk/_data/{p}" for p in ONLY_FOR_TESTS))
    ]
    assert not [name for name in names if "test" in name.split("/")[0] or name.endswith(".pyc")]
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"mlf_sdk"}


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (info,) = {name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name}
        metadata = archive.read(f"{info}/METADATA").decode()
        entry = archive.read(f"{info}/entry_points.txt").decode()
        licence = [name for name in archive.namelist() if name.startswith(info) and name.endswith("LICENSE")]
    assert "License-Expression: Apache-2.0" in metadata
    assert "Requires-Python: >=3.10" in metadata
    assert "mlf-sdk = mlf_sdk.cli.start:run_console_script" in entry
    assert licence


def test_the_source_distribution_is_complete(dist: Path) -> None:
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"pyproject.toml", "README.md", "LICENSE", "Makefile", "PKG-INFO"}
    wanted |= checked_in("examples") | checked_in("crt") | checked_in("board_templates") | checked_in("qemu")
    wanted |= {
        name for name in checked_in("sdk") | checked_in("tests") if name.endswith((".py", ".sh", ".c"))
    }
    assert wanted <= names
    assert not [
        name for name in names if "__pycache__" in name or ("/." in f"/{name}" and ".git" not in name)
    ]


def test_the_installed_command_stands_alone(installed: Path, tmp_path: Path) -> None:
    place = run(
        installed / "bin/python", "-c", "import mlf_sdk; print(mlf_sdk.__file__)", cwd=tmp_path
    ).strip()
    assert Path(place).is_relative_to(installed)
    assert str(ROOT) not in run(
        installed / "bin/python", "-c", "import sys; print(sys.path)", cwd=tmp_path
    ).replace(sysconfig.get_path("purelib"), "")
    assert run(installed / "bin/mlf-sdk", "--version", cwd=tmp_path).startswith("mlf-sdk ")


@pytest.mark.parametrize("app", ["rpc", "standalone"])
def test_it_generates_a_whole_project(installed: Path, tmp_path: Path, app: str) -> None:
    archive = write(build(), tmp_path / "tiny.tar")
    project = tmp_path / "app"
    argv = ["generate", archive, "-o", "app", "--board", "mps2-an386", "--app", app, "--json"]
    value = json.loads(run(installed / "bin/mlf-sdk", *argv, cwd=tmp_path))
    assert value["project"] == "app"
    files = {path.relative_to(project).as_posix() for path in project.rglob("*") if path.is_file()}
    assert files >= {
        "CMakeLists.txt",
        "CMakePresets.json",
        "README.md",
        "mlf-project.json",
        "src/main.c",
        "crt/src/mlf.c",
        "crt/include/mlf/mlf.h",
        "crt/baremetal/startup.c",
        "board/linker.ld",
        "board/toolchain.cmake",
        "model/tiny/tiny.c",
        "model/tiny/tiny.h",
    }
    assert ("crt/rpc/mlf_rpc.c" in files) is (app == "rpc")
    templates = [path for path in files if path.endswith((".txt", ".h", ".c", ".ld", ".cmake", ".md", ".S"))]
    for path in templates:
        if not path.startswith("model/tiny/codegen/"):
            text = (project / path).read_text()
            assert "{%" not in text
            assert str(ROOT) not in text
            assert str(tmp_path) not in text


@pytest.mark.qemu
@pytest.mark.toolchain
@pytest.mark.usefixtures("needs_qemu", "needs_host")
def test_it_runs_an_archive(installed: Path, tmp_path: Path) -> None:
    archive = write(build(), tmp_path / "tiny.tar.xz")
    cache = tmp_path / "cache"
    argv = ["run", archive, "--board", "mps2-an386", "--json"]
    value = json.loads(run(installed / "bin/mlf-sdk", *argv, cwd=tmp_path, XDG_CACHE_HOME=str(cache)))
    assert value["ok"] is True
    assert Path(value["folder"]).is_relative_to(cache)


def test_the_same_project_from_the_checkout(installed: Path, tmp_path: Path) -> None:
    """What the wheel holds is what the checkout holds, byte for byte."""
    archive = write(build(), tmp_path / "tiny.tar")
    argv = ["generate", archive, "--board", "microbit", "--json"]
    run(installed / "bin/mlf-sdk", *argv, "-o", "one", cwd=tmp_path)
    program = "import sys; from mlf_sdk.cli.main import main; sys.exit(main())"
    run(sys.executable, "-c", program, *argv, "-o", "two", cwd=tmp_path, PYTHONPATH=str(ROOT / "sdk"))
    one, two = (
        {p.relative_to(tmp_path / name): p.read_bytes() for p in (tmp_path / name).rglob("*") if p.is_file()}
        for name in ("one", "two")
    )
    assert one == two
    assert len(one) > 20
