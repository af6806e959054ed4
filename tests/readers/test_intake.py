# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gzip
import hashlib
import os
import random
import socket
import tarfile
from pathlib import Path

import pytest

from archives import build, entry, tar_bytes, tar_of, write
from mlf_sdk.errors import ArchiveError, InputError
from mlf_sdk.frontends.intake.limits import Limits
from mlf_sdk.frontends.intake.members import folder_hash, is_kept, path_problem, read_archive

FILES = build()


def faults_of(path: Path, limits: Limits | None = None) -> list[str]:
    with pytest.raises(ArchiveError) as caught:
        read_archive(path, limits or Limits())
    assert caught.value.where == str(path)
    return [str(fault) for fault in caught.value.faults]


def saved(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_a_tar_is_told_by_its_content(tmp_path: Path) -> None:
    data = tar_bytes(FILES, "xz")
    archive = read_archive(saved(tmp_path / "model.tar.gz", data))
    assert dict(archive.files) == FILES
    assert list(archive.files) == sorted(FILES)
    assert archive.sha256 == hashlib.sha256(data).hexdigest()
    assert archive.source == str(tmp_path / "model.tar.gz")
    assert archive.skipped == ()


def test_files_cannot_be_changed(tmp_path: Path) -> None:
    archive = read_archive(write(FILES, tmp_path / "a.tar"))
    with pytest.raises(TypeError):
        archive.files["metadata.json"] = b""  # type: ignore[index]


def test_only_what_matters_is_kept(tmp_path: Path) -> None:
    others = {
        "runtime/Makefile": b"all:",
        "templates/crt_config.h": b"",
        "CMakeLists.txt": b"x",
        "notes (1): $HOME.txt": b"x",
        "codegen/host/src/.hidden.c": b"x",
        "src/.git/config": b"x",
        "._metadata.json": b"x",
        "sub/metadata.json": b"{}",
    }
    for name in ("a.tar", "a"):
        archive = read_archive(write({**FILES, **others}, tmp_path / name))
        assert dict(archive.files) == FILES
        assert archive.skipped == tuple(sorted(others))


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("metadata.json", True),
        ("src/relay.txt", True),
        ("codegen/host/src/lib0.c", True),
        ("runtime-config/graph/graph.json", True),
        ("src", False),
        ("x/metadata.json", False),
        ("metadata.json.bak", False),
        ("codegen/.x/lib0.c", False),
    ],
)
def test_is_kept(name: str, kept: bool) -> None:
    assert is_kept(name) is kept


@pytest.mark.parametrize(
    "name", ["src/a b-c+d@e=f,g.txt", "src/\u00e9t\u00e9.txt", "src/a..b", "x/$(y)", "src/a/b/c/d"]
)
def test_harmless_paths(name: str) -> None:
    assert path_problem(name, 240) is None


@pytest.mark.parametrize(
    "name", ["src/-x", "src/ x", "src/x ", "src/x:y", "src/~x", "src/#x", "src/a&b", "src/a*", "src/a?"]
)
def test_odd_names_are_refused_where_they_would_be_kept(name: str) -> None:
    assert "characters other than" in str(path_problem(name, 240))


def test_a_folder_hash_is_that_of_its_kept_files(tmp_path: Path) -> None:
    one = read_archive(write({**FILES, "README": b"1"}, tmp_path / "one"))
    two = read_archive(write({**FILES, "README": b"2"}, tmp_path / "two"))
    assert one.sha256 == two.sha256 == folder_hash(FILES)
    changed = {**FILES, "src/tiny.relay": b"x"}
    renamed = {
        **{name: data for name, data in FILES.items() if name != "src/tiny.relay"},
        "src/x": FILES["src/tiny.relay"],
    }
    hashes = {folder_hash(files) for files in (FILES, changed, renamed, {"ab": b"c"}, {"a": b"bc"})}
    assert len(hashes) == 5


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: no such file or directory") as caught:
        read_archive(tmp_path / "a.tar")
    assert caught.value.hint
    assert not isinstance(caught.value, ArchiveError)


def test_neither_a_file_nor_a_folder(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(InputError, match="neither a file nor a folder"):
        read_archive(tmp_path / "fifo")


def test_empty_folder(tmp_path: Path) -> None:
    assert faults_of(tmp_path) == ["(archive): the archive has no members"]


def test_what_a_folder_may_not_hold(tmp_path: Path) -> None:
    root = write(FILES, tmp_path / "m")
    (root / "src/link").symlink_to("/etc/passwd")
    (root / "linked").symlink_to(root / "src")
    (root / "src/loop").symlink_to(root)
    os.mkfifo(root / "parameters/fifo")
    here = Path.cwd()
    os.chdir(root)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    os.chdir(here)
    (root / "src/$(x).txt").write_bytes(b"")
    (root / os.fsdecode(b"\xff")).mkdir()
    (root / os.fsdecode(b"\xff") / "metadata.json").write_bytes(b"")
    (root / "METADATA.JSON").write_bytes(b"")
    assert sorted(faults_of(root)) == [
        "'\\udcff': a path with control, unprintable or non-UTF-8 characters",
        "linked: a symbolic link; only files and folders are allowed",
        "metadata.json: differs only in case or accents from 'METADATA.JSON'",
        "parameters/fifo: a device, fifo or socket; only files and folders are allowed",
        "socket: a device, fifo or socket; only files and folders are allowed",
        "src/$(x).txt: a path with characters other than letters, digits, space and ._+@=,-",
        "src/link: a symbolic link; only files and folders are allowed",
        "src/loop: a symbolic link; only files and folders are allowed",
    ]


def test_all_faults_of_a_tar_are_reported_together(tmp_path: Path) -> None:
    data = tar_of(
        [
            entry("./../x", b"1"),
            entry("./metadata.json", b"{}"),
            entry("./src/link", type_=tarfile.SYMTYPE),
            entry("./metadata.json", b"[]"),
            entry("/abs", b"2"),
            entry("./src", b"not empty", tarfile.DIRTYPE),
            entry("./src/./x", b"3"),
        ]
    )
    assert faults_of(saved(tmp_path / "a.tar", data)) == [
        "./../x: a path with '..'",
        "./src/link: a symbolic link; only files and folders are allowed",
        "./metadata.json: occurs twice",
        "/abs: an absolute path",
        "./src/: a folder with content",
        "./src/./x: a path with an empty or '.' component",
    ]


def test_folders_may_be_named_again(tmp_path: Path) -> None:
    folders = [entry(name, type_=tarfile.DIRTYPE) for name in (".", "./", "./src", "src/", "./src/")]
    data = tar_of([*folders, entry("src/x.txt", b"1"), entry("src", type_=tarfile.DIRTYPE)])
    assert dict(read_archive(saved(tmp_path / "a.tar", data)).files) == {"src/x.txt": b"1"}


@pytest.mark.parametrize("kind", ["tar", "folder"])
@pytest.mark.parametrize(
    ("limits", "fault"),
    [
        (Limits(members=5), "(archive): more than 5 members"),
        (Limits(file_bytes=1000), "1000"),
        (Limits(total_bytes=4000), "4000 bytes"),
        (Limits(path_chars=20), "a path of more than 20 characters"),
    ],
)
def test_limits(tmp_path: Path, kind: str, limits: Limits, fault: str) -> None:
    path = write(FILES, tmp_path / ("a.tar" if kind == "tar" else "a"))
    assert any(fault in one for one in faults_of(path, limits))
    total = Limits(members=40, file_bytes=5000, total_bytes=50_000, path_chars=60)
    assert dict(read_archive(path, total).files) == FILES


def test_the_sum_of_sizes_is_bounded_though_each_is_small(tmp_path: Path) -> None:
    header, _ = entry("./src/x.txt", b"")
    header.size = 300_000
    data = tar_of([entry("src/a.txt", bytes(300_000)), (header, b"")])
    assert faults_of(saved(tmp_path / "a.tar", data), Limits(total_bytes=500_000)) == [
        "./src/x.txt: the members have more than 500000 bytes"
    ]


def test_a_long_name_is_shown_cut(tmp_path: Path) -> None:
    data = tar_of([entry("src/" + "x" * 5000, b"")], tarfile.PAX_FORMAT)
    (fault,) = faults_of(saved(tmp_path / "a.tar", data))
    assert fault.startswith("'src/xxx")
    assert len(fault) < 200


def test_any_damage_is_an_input_error(tmp_path: Path) -> None:
    """Flipped, dropped and doubled bytes anywhere: the archive is read as before or refused."""
    chance = random.Random(2)
    for data in (tar_bytes(FILES), tar_bytes(FILES, "gz"), tar_bytes(FILES, "xz")):
        for _ in range(150):
            at = chance.randrange(len(data))
            piece = chance.choice([b"", bytes([data[at] ^ 1 << chance.randrange(8)]), data[at : at + 1] * 2])
            path = saved(tmp_path / "a.tar", data[:at] + piece + data[at + 1 :])
            try:
                names = set(read_archive(path).files)
            except InputError as error:
                assert str(path) in str(error)
            else:
                assert len(names) <= len(FILES)


def test_a_wrong_gzip_checksum_is_noticed(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(tar_bytes(FILES), mtime=0))
    data[-8] ^= 1
    (fault,) = faults_of(saved(tmp_path / "a.tar.gz", bytes(data)))
    assert fault.startswith("(archive): the compressed data is damaged")
