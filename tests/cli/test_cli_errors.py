# SPDX-License-Identifier: Apache-2.0
"""Errors: one block that says what, where and what to do; the exit code; JSON; no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from archives import Spec, build, edit_json, merge, sample, write
from cli_helpers import Called, Caller, named_archive
from hidden_packages import hide_packages
from mlf_sdk import frontends
from mlf_sdk.codegen.lock import read_lock
from mlf_sdk.errors import TargetError
from mlf_sdk.resources import data_dir
from mlf_sdk.targets.unicorn import launch


def check_block(called: Called, code: int, *says: str) -> dict[str, str]:
    """The call printed one whole error block and nothing else."""
    assert called.code == code, called.err
    assert called.out == ""
    block = called.block()
    assert block.keys() >= {"what", "do"}, called.err
    for text in says:
        assert text in called.err
    return block


# ---- bad arguments: 2 ----


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["nope"], ["no such command 'nope'", "mlf-sdk --help"]),
        (["exprot"], ["no such command 'exprot'", "Did you mean export?"]),
        (
            ["export", "m.tflite", "--as", "platformi", "-o", "x"],
            ["'platformi' is not one of", "Did you mean platformio? See:"],
        ),
        (["bench", "mlpref"], ["no such command 'mlpref'", "where: mlf-sdk bench\n", "Did you mean mlperf?"]),
        (["run", "--nope"], ["no such option", "--nope", "where: mlf-sdk run", "mlf-sdk run --help"]),
        (["--nope", "run"], ["no such option", "--nope", "where: mlf-sdk\n"]),
        (["inspect"], ["missing argument 'MODEL|ARCHIVE|FIRMWARE'"]),
        (["build"], ["missing argument 'DIR'"]),
        (["check", "a", "b"], ["extra argument"]),
        (["generate", "x.tar", "--board", "host"], ["missing option '--output'"]),
        (["generate", "x.tar", "-o", "app"], ["no board was chosen", "--board", "mps2-an386"]),
        (
            ["generate", "x.tar", "-o", "app", "-b", "host", "--app", "x"],
            ["--app", "'rpc', 'standalone', 'mlperf', 'library'"],
        ),
        (["generate", "x.tar", "-o", "app", "-b", "host", "--params", "rom"], ["--params", "'flash', 'ram'"]),
        (["run", "x.tar", "--rtol", "much"], ["invalid value for '--rtol'"]),
        (["run", "x.tar", "--rtol", "nan"], ["--rtol", "finite number >= 0"]),
        (["run", "x.tar", "--atol", "-1"], ["--atol", "finite number >= 0"]),
        (["run", "x.tar", "--timeout", "0"], ["--timeout", "must be > 0"]),
        (["build", "x", "--build-timeout", "inf"], ["--build-timeout", "must be > 0"]),
        (["run", "x.tar", "--cmsis-nn", "nowhere"], ["--cmsis-nn", "nowhere"]),
        (["run", "x.tar", "--output", "no/such/folder.npz"], ["folder of the output", "no/such"]),
        (["boards", "--board-file", "nowhere.toml"], ["nowhere.toml"]),
    ],
)
def test_bad_arguments(argv: list[str], says: list[str], call: Caller, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    check_block(call(*argv), 2, *says)
    as_json = call(*argv, "--json")
    assert as_json.code == 2
    assert as_json.value["error"].keys() == {"what", "where", "hint", "exit_code"}
    assert as_json.value["error"]["exit_code"] == 2
    assert as_json.block()["what"] == as_json.value["error"]["what"].split("\n")[0]
    assert list(tmp_path.iterdir()) == []


def test_unknown_board(call: Caller, tiny: Path) -> None:
    check_block(call("run", tiny, "--board", "mps2-an368"), 2, "no board 'mps2-an368'", "mps2-an386")
    check_block(call("run", tiny, "--board", "../host"), 2, "no board '../host'")


def test_cflags_that_cannot_be_passed_on(call: Caller, tiny: Path, tmp_path: Path) -> None:
    for flags in ("-O2;touch pwned", "$(id)", "-O2 `id`", "-DX='a b'"):
        check_block(
            call("generate", tiny, "-o", tmp_path / "app", "-b", "host", f"--cflags={flags}"), 2, "--cflags"
        )
    assert list(tmp_path.iterdir()) == []


# ---- bad input: 2 ----


def test_no_archive(call: Caller, tmp_path: Path) -> None:
    check_block(call("inspect", tmp_path / "none.tar"), 2, "none.tar", "no such file")
    (tmp_path / "empty.tar").touch()
    check_block(call("inspect", tmp_path / "empty.tar"), 2, "empty.tar")


def test_all_faults_of_an_archive_are_told_at_once(call: Caller, tmp_path: Path) -> None:
    def change(top) -> None:
        top["version"] = 99
        top["modules"]["tiny"]["style"] = 5

    path = write(edit_json(build(), "metadata.json", change), tmp_path / "bad.tar")
    called = call("doctor", path, "--json")
    assert called.code == 2
    error = called.value["error"]
    assert error["where"] == str(path)
    assert [f["field"] for f in error["faults"]] == [f["field"] for f in error["faults"] if f["what"]]
    assert {f["member"].removeprefix("./") for f in error["faults"]} == {"metadata.json"}
    assert called.block()["what"].startswith("the archive has ")


def test_several_modules(call: Caller, tmp_path: Path) -> None:
    path = write(merge(Spec(name="one"), Spec(name="two")), tmp_path / "several.tar")
    check_block(call("inspect", path), 2, "several modules", "--module", "one", "two")
    check_block(call("inspect", path, "--module", "three"), 2, "three", "one")
    assert call("inspect", path, "--module", "two", "--json").value["name"] == "two"


@pytest.mark.parametrize("command", ["build", "check"])
def test_not_a_project(command: str, call: Caller, tmp_path: Path) -> None:
    check_block(call(command, tmp_path), 2, "no generated project", "mlf-sdk generate")


def test_check_before_build(call: Caller, tiny: Path, tmp_path: Path) -> None:
    assert call("generate", tiny, "-o", tmp_path / "app", "-b", "host").code == 0
    check_block(call("check", tmp_path / "app"), 2, "app.elf", "mlf-sdk build")


def test_output_folder_that_is_something_else(call: Caller, tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    check_block(call("generate", tiny, "-o", tmp_path, "-b", "host"), 2, "not empty", "nothing was written")
    check_block(call("generate", tiny, "-o", tmp_path / "mine.txt", "-b", "host"), 2, "no folder")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_options_that_a_project_has_decided(call: Caller, tiny: Path, tmp_path: Path) -> None:
    app = tmp_path / "app"
    assert call("generate", tiny, "-o", app, "-b", "host").code == 0
    check_block(call("run", app, "--board", "mps2-an386"), 2, "is for the board host")
    for options in (["--params", "ram"], ["--cflags=-Os"], ["--keep-inputs"]):
        check_block(call("run", app, *options), 2, "generated with its own options", options[0].split("=")[0])


def arrays(path: Path, **named: np.ndarray) -> Path:
    np.savez(path, **named)
    return path


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ({"y": np.zeros((1, 8), np.float32)}, ["no array for the input 'x'", "the file has: y"]),
        ({"x": np.zeros((1, 9), np.float32)}, ["shape [1, 9]", "[1, 8]", "batch"]),
        ({"x": np.zeros((2, 2, 1, 8), np.float32)}, ["shape [2, 2, 1, 8]"]),
        ({}, ["the file has: nothing"]),
    ],
)
def test_inputs_that_do_not_fit(named, says: list[str], call: Caller, tiny: Path, tmp_path: Path) -> None:
    path = arrays(tmp_path / "in.npz", **named)
    check_block(call("run", tiny, "--board", "host", "--inputs", path), 2, "in.npz", *says)


def test_inputs_of_another_type(call: Caller, tmp_path: Path) -> None:
    tiny8 = write(build(dtype="int8"), tmp_path / "tiny8.tar")
    for bad in (np.full((1, 8), 300, np.int32), np.full((1, 8), 0.5), np.full((1, 8), -129.0)):
        path = arrays(tmp_path / "in.npz", x=bad)
        check_block(call("run", tiny8, "--board", "host", "--inputs", path), 2, "do not fit 'x'", "int8")


def test_files_that_are_no_arrays(call: Caller, tiny: Path, tmp_path: Path) -> None:
    objects = tmp_path / "objects.npz"
    np.savez(objects, x=np.array([{"a": 1}], dtype=object))
    np.save(tmp_path / "one.npy", np.zeros(8))
    (tmp_path / "text.npz").write_text("text")
    (tmp_path / "cut.npz").write_bytes(objects.read_bytes()[:60])
    for name in ("objects.npz", "one.npy", "text.npz", "cut.npz", "missing.npz", "."):
        check_block(call("run", tiny, "--board", "host", "--inputs", tmp_path / name), 2, "savez")


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ({"z": np.zeros((1, 8), np.float32)}, ["no array has the name of an output", "output"]),
        ({"0": np.zeros((3, 1, 8), np.float32)}, ["3 inferences here, and 1 in the inputs"]),
        ({"label": np.zeros(4, np.int64)}, ["4 inferences here", "label"]),
        ({"0": np.zeros((1, 4), np.float32)}, ["shape [1, 4]"]),
    ],
)
def test_references_that_do_not_fit(named, says: list[str], call: Caller, tiny: Path, tmp_path: Path) -> None:
    path = arrays(tmp_path / "expect.npz", **named)
    check_block(call("run", tiny, "--board", "host", "--expect", path), 2, "expect.npz", *says)


def test_inputs_are_checked_before_anything_is_built(
    call: Caller, tiny: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    path = arrays(tmp_path / "in.npz", x=np.zeros(3))
    check_block(call("run", tiny, "--inputs", path), 2, "does not fit 'x'")


def test_a_model_that_does_not_fit(call: Caller, tmp_path: Path) -> None:
    """The refusal has the numbers: needs, has, what would help."""

    root = Path(__file__).parents[2]
    row = (root / "board_templates/boards/microbit.toml").read_text()
    assert "0x0000_4000" in row
    small = tmp_path / "small.toml"
    small.write_text(row.replace("0x0000_4000", "0x0000_1c00"))
    digits = root / "examples/digits/digits-graph-tvm0.11.1.tar"
    called = call("generate", digits, "-o", tmp_path / "app", "-b", "microbit", "--board-file", small)
    check_block(called, 2, "does not fit", "7,168", "7,296")
    assert [path.name for path in tmp_path.iterdir()] == ["small.toml"]


# ---- a tool is missing: 3 ----


def only(folder: Path, monkeypatch: pytest.MonkeyPatch, *programs: str) -> None:
    """A PATH with these programs, and no others in packages."""
    hide_packages(monkeypatch)
    folder.mkdir()
    for name in programs:
        real = next(Path(p) / name for p in os.environ["PATH"].split(os.pathsep) if (Path(p) / name).exists())
        (folder / name).symlink_to(real)
    monkeypatch.setenv("PATH", str(folder))


@pytest.mark.toolchain
@pytest.mark.parametrize("option", [(), ("--library",)])
def test_a_board_file_alone_is_the_board(
    option: tuple[str, ...], call: Caller, tiny: Path, tmp_path: Path
) -> None:
    row, out = tmp_path / "mine.toml", tmp_path / "app"
    known = data_dir("board_templates") / "boards" / "microbit.toml"
    row.write_text(known.read_text().replace('name = "microbit"', 'name = "mine"', 1))
    assert call("generate", tiny, "-o", out, "--board-file", row, *option).code == 0
    assert read_lock(out).board == "mine"


def test_cmake_is_missing(call: Caller, tiny: Path, tmp_path: Path, monkeypatch) -> None:
    only(tmp_path / "bin", monkeypatch)
    called = call("run", tiny, "--cflags=-O1")
    block = check_block(called, 3, "'cmake' is not installed")
    assert block["do"].startswith("Install it: sudo apt-get install cmake; mlf-sdk doctor")
    assert call("run", tiny, "--cflags=-O1", "--json").value["error"]["exit_code"] == 3


@pytest.mark.qemu
@pytest.mark.usefixtures("needs_qemu")
def test_qemu_is_missing(call: Caller, tiny: Path, tmp_path: Path, monkeypatch) -> None:
    given = ("run", tiny, "--no-twin", "--board", "microbit")
    assert call(*given).code == 0
    only(tmp_path / "bin", monkeypatch, "cmake", "ninja", "arm-none-eabi-gcc", "arm-none-eabi-objcopy")
    for installed in (True, False):
        monkeypatch.setattr(
            launch, "find_spec", lambda _, found=installed: find_spec("json") if found else None
        )
        block = check_block(call(*given), 3, "'qemu-system-arm' is not installed", "starting microbit")
        assert "Install it: sudo apt-get install qemu-system-arm; mlf-sdk doctor" in block["do"]
        assert ("Unicorn has no UART 'nrf51'" in block["do"]) is installed


@pytest.mark.toolchain
@pytest.mark.usefixtures("needs_host")
def test_code_that_does_not_compile(call: Caller, archives_dir: Path) -> None:
    files = build()
    name = "codegen/host/src/tiny_lib1.c"
    path = archives_dir / "broken.tar"
    write(
        {**files, name: files[name] + b"\n#warning \x1b[31mred\x1b[0m\nint f(void) { return undeclared; }\n"},
        path,
    )
    called = call("run", path, "--board", "host")
    block = check_block(called, 3, "undeclared", "tiny_lib1.c")
    assert "\x1b" not in called.err
    assert "The folder is kept" in block["do"]


def test_doctor_says_what_is_missing(call: Caller, tmp_path: Path, monkeypatch) -> None:
    only(tmp_path / "bin", monkeypatch)
    called = call("doctor")
    assert (called.code, called.err) == (3, "")
    assert called.out.rstrip().endswith("FAIL")
    assert "cmake: sudo apt-get install cmake" in called.out
    value = call("doctor", "--json").value
    assert value["ok"] is False
    assert {t["tool"]["name"] for t in value["tools"] if t["path"] is None} >= {"cmake", "ninja", "cc"}


# ---- defects, files, interruption ----


def test_a_defect_shows_no_traceback(call: Caller, tiny: Path, monkeypatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr(frontends, "load", broken)
    check_block(call("inspect", tiny), 3, "mlf-sdk itself failed: KeyError: 'x'", "--debug")
    assert call("inspect", tiny, "--json").value["error"]["exit_code"] == 3
    for argv in (["--debug", "inspect", tiny], ["inspect", tiny, "--debug"]):
        called = call(*argv)
        assert called.code == 3
        assert "Traceback (most recent call last)" in called.err
        assert called.err.count("error: mlf-sdk itself failed") == 1


def test_an_unforeseen_file_error(call: Caller, tiny: Path, monkeypatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "/some/file")

    monkeypatch.setattr(frontends, "load", full)
    block = call("inspect", tiny).block()
    assert (block["what"], block["where"]) == ("the disk is full", "/some/file")
    assert "mlf-sdk cache clean" in block["do"]


def test_ctrl_c(call: Caller, tiny: Path, monkeypatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(frontends, "load", stop)
    called = call("inspect", tiny)
    assert (called.code, called.out, called.err) == (130, "", "stopped\n")


def test_every_layer_of_an_error_is_escaped(call: Caller, tiny: Path, monkeypatch) -> None:
    def evil(*_: object, **__: object) -> None:
        raise TargetError("a\x1b[2Jb\rc", where="d\u202ee [red]f[/red]", hint="g\x00h\r\ni :smile:")

    monkeypatch.setattr(frontends, "load", evil)
    called = call("inspect", tiny)
    assert called.code == 4
    assert called.err.splitlines() == [
        r"error: a\x1b[2Jb\rc",
        r"  where: d\u202ee [red]f[/red]",
        r"  do: g\x00h",
        r"      i :smile:",
    ]


def run_program(*argv: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    program = (
        "import sys; from mlf_sdk.cli.start import run_console_script as f; sys.argv[0] = 'mlf-sdk'; f()"
    )
    command = [sys.executable, "-c", program, *map(str, argv)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)


@pytest.mark.parametrize("module", ["click", "mlf_sdk.cli.archives", "mlf_sdk.frontends.mlf.load"])
def test_ctrl_c_while_modules_are_imported(tiny: Path, module: str) -> None:
    """In the first moments of the command, before and after the command line is read."""
    program = (
        "import sys, os, signal\n"
        "class Stop:\n"
        "    def find_spec(self, name, *rest):\n"
        f"        if name == {module!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Stop())\n"
        "from mlf_sdk.cli.start import run_console_script\n"
        f"sys.argv = ['mlf-sdk', 'inspect', {str(tiny)!r}]\n"
        "run_console_script()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "stopped")


HEAVY = frozenset(
    {"numpy", "jinja2", "elftools", "capstone", "serial", "rich.progress", "platformdirs", "filelock"}
)


@pytest.mark.parametrize(
    ("argv", "needed"),
    [
        (("inspect", "tiny.tar"), set()),
        (("boards",), set()),
        (
            ("generate", "tiny.tar", "-o", "app", "--board", "microbit"),
            {"jinja2", "platformdirs", "filelock"},
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_command_imports_only_what_it_needs(
    tiny: Path, tmp_path: Path, argv: tuple[str, ...], needed: set[str]
) -> None:
    program = (
        "import sys; from mlf_sdk.cli.main import main; code = main(sys.argv[1:])\n"
        f"sys.exit(code or ' '.join(sorted({set(HEAVY)!r} & set(sys.modules))))"
    )
    (tmp_path / "tiny.tar").write_bytes(tiny.read_bytes())
    done = subprocess.run(
        [sys.executable, "-c", program, *argv], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert done.returncode == 1, done.stderr
    assert set(done.stderr.split()) == needed


def test_an_encoding_that_lacks_a_character(archives_dir: Path) -> None:
    path = named_archive(archives_dir / "name.tar", input_name="größe→x")
    latin = {**os.environ, "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"}
    done = run_program("inspect", path, env=latin, encoding="latin-1")
    assert done.returncode == 0, done.stderr
    assert r"'größe\u2192x'" in done.stdout


def test_names_that_are_not_utf8(call: Caller, tmp_path: Path) -> None:
    """Their bytes are shown escaped: in text, in JSON and in the files of a project."""
    name = os.fsdecode(b"Gr\xf6\xdfe")
    model = tmp_path / f"{name}.tflite"
    model.write_bytes((Path(__file__).parents[2] / "examples" / "layers" / "layers.tflite").read_bytes())
    shown = call("inspect", model, "--json")
    assert shown.code == 0 and json.loads(shown.out)["model"].endswith(r"Gr\udcf6\udcdfe.tflite")
    out = tmp_path / name
    assert call("generate", model, "-o", out, "--board", "host", "--json").code == 0
    assert r"Gr\\udcf6\\udcdfe.tflite" in (out / "mlf-project.json").read_text()


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_a_closed_stream(closed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlf_sdk.cli.start import run_console_script

    monkeypatch.setattr(sys, closed, None)
    monkeypatch.setattr(sys, "argv", ["mlf-sdk", "--version"])
    with pytest.raises(SystemExit) as caught:
        run_console_script()
    getattr(sys, closed).close()
    assert caught.value.code == 0


def test_a_reader_that_goes_away(tiny: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    program = "from mlf_sdk.cli.start import run_console_script as f; f()"
    command = [sys.executable, "-c", program, "inspect", str(tiny)]
    done = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (0, "")


def test_sample_fits(tiny: Path, tmp_path: Path) -> None:
    """The archives of these tests are good: only what each test breaks is broken."""
    assert sample(Spec()).shape == (1, 8)
    assert mlf_sdk.load(tiny).name == "tiny"


@pytest.mark.parametrize(
    ("arguments", "flag"),
    [
        (("proof", "none.tar", "-j", "0"), "--jobs"),
        (("profile", "none.tar", "--runs", "0"), "--runs"),
        (("profile", "none.tar", "--wait-states", "16"), "--wait-states"),
    ],
)
def test_options_of_a_single_command_are_checked(arguments: tuple[str, ...], flag: str, call: Caller) -> None:
    done = call(*arguments)
    assert done.code == 2
    assert f"where: {flag}" in done.err
    assert "invalid value" in done.err
