# SPDX-License-Identifier: Apache-2.0
"""Signed packages end to end: to the host (OpenSSL) and an emulated board (Monocypher), cut, resumed, refused."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from dynamic_helpers import DIGITS, build_project
from mlf_sdk.cli.main import main
from mlf_sdk.codegen.lock import read_lock
from mlf_sdk.codegen.options import MONOCYPHER_SOURCES
from mlf_sdk.codegen.packagefile import HEAD_BYTES, Package, read_package
from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.package import make_keys
from mlf_sdk.targets.registry import project_target
from mlf_sdk.targets.target import TargetChoice
from mlf_sdk.wire.difference import Base
from mlf_sdk.wire.package import DevicePackages, PackageError, PackageOpcode, PackageStatus
from mlf_sdk.wire.params import BlobStatus, DeviceParams, ParamsError
from mlf_sdk.wire.session import Session

X = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)

pytestmark = pytest.mark.toolchain


class Field:
    """A project that takes signed packages, and packages for it."""

    def __init__(self, folder: Path, board: str, half: Path, **options: object) -> None:
        self.keys = folder
        for name in ("old", "new", "foreign"):
            make_keys(str(folder / name), None if name == "foreign" else str(folder / "trusted.pem"), [])
        self.folder = build_project(
            DIGITS, folder / "app", board, trust=str(folder / "trusted.pem"), **options
        )
        lock = read_lock(self.folder)
        self.target = project_target(self.folder, lock, TargetChoice())
        self.elf = self.target.image(self.folder)
        self.target.keep_slots(lock, self.elf)
        self.cases = folder / "half.npz"
        self.half = half

    def package(self, version: int, *extra: str, key: str = "old", source: Path = DIGITS) -> Package:
        """A package of this version, by the command."""
        path = self.keys / f"{version}.mlfp"
        options = ["--project", str(self.folder), "--key", str(self.keys / f"{key}.key")]
        command = ["package", str(source), *options, "--model-version", str(version), "-o", str(path), *extra]
        assert main(command) == 0
        return read_package(path.read_bytes())

    def half_package(self, version: int, key: str = "old", *extra: str) -> Package:
        """A package of the halved parameters; what their outputs must be is measured once, on an open image."""
        return self.package(version, "--cases", str(self.cases), *extra, key=key, source=self.half)

    @contextmanager
    def booted(self) -> Iterator[Session]:
        """The target, ended by a kill."""
        with self.target.open(self.elf, timeout_s=60) as session:
            session.hello()
            yield session

    def output(self) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
        """What it answers after a boot."""
        with self.booted() as session:
            shape = session.info.models[0].inputs[0].shape
            return session.infer(0, [X.reshape(shape)])[0]

    def forget(self) -> None:
        """Blank slots."""
        for path in self.elf.parent.glob("*_PARAMS_STORE.bin"):
            size = path.stat().st_size
            path.write_bytes(bytes(size))


@pytest.fixture(scope="module")
def half_cases(scaled_params: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Outputs of the halved parameters on an image without keys, as self-test cases."""
    from mlf_sdk.pipeline.params import lay_out_params, read_source

    folder = build_project(DIGITS, tmp_path_factory.mktemp("open") / "app", "host")
    target = project_target(folder, read_lock(folder), TargetChoice())
    with target.open(target.image(folder), timeout_s=60) as session:
        session.hello()
        device = DeviceParams(session, 0)
        device.push(lay_out_params(read_source(scaled_params), device.graph(device.info())))
        model = session.info.models[0]
        out = session.infer(0, [X.reshape(model.inputs[0].shape)])[0]
        path = folder.parent / "half.npz"
        np.savez(path, **{model.inputs[0].name: X.reshape(1, *model.inputs[0].shape), "0": out[None]})
    return path


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, scaled_params: Path, half_cases: Path) -> Field:
    if not Path("/usr/include/openssl/evp.h").exists():
        pytest.skip("OpenSSL's headers are not installed")
    field = Field(tmp_path_factory.mktemp("host"), "host", scaled_params)
    shutil.copy(half_cases, field.cases)
    return field


@pytest.fixture(scope="module")
def emulated(
    tmp_path_factory: pytest.TempPathFactory, needs_qemu: None, scaled_params: Path, half_cases: Path
) -> Field:
    if "MONOCYPHER" not in os.environ:
        pytest.skip("MONOCYPHER is not set")
    folder = tmp_path_factory.mktemp("mps2")
    field = Field(folder, "mps2-an386", scaled_params, monocypher=os.environ["MONOCYPHER"])
    shutil.copy(half_cases, field.cases)
    return field


def refused(field: Field, package: Package) -> PackageStatus:
    """The code by which a device refuses a package."""
    with field.booted() as session, pytest.raises(PackageError) as error:
        DevicePackages(session, 0).push_package(package)
    return error.value.status


def cut_everywhere(field: Field, pieces: int) -> int:
    """Kill the target after each of so many pieces and once before the commit; it goes on as it was."""
    field.forget()
    old = field.output()
    package = field.half_package(9)
    data = package.data
    size = -(-(len(data) - HEAD_BYTES) // pieces // 64) * 64
    ends = [HEAD_BYTES, *range(HEAD_BYTES + size, len(data), size), len(data)]
    for last in range(len(ends)):
        with field.booted() as session:
            session.extension(PackageOpcode.PACKAGE_BEGIN, b"\0" + struct.pack("<I", len(data)))
            start = 0
            for end in ends[: last + 1]:
                piece = struct.pack("<I", start) + data[start:end]
                session.extension(PackageOpcode.PACKAGE_WRITE, b"\0" + piece)
                start = end
        np.testing.assert_array_equal(field.output(), old)
    with field.booted() as session:
        DevicePackages(session, 0).push_package(package)
    assert np.abs(field.output() - old).max() > 0.1
    return len(ends)


def test_a_kill_after_any_piece_leaves_the_old_model(host: Field) -> None:
    assert cut_everywhere(host, 40) > 30


@pytest.mark.qemu
@pytest.mark.slow
def test_a_kill_after_any_piece_leaves_the_old_model_of_a_board(emulated: Field) -> None:
    assert cut_everywhere(emulated, 12) > 10


def test_the_commands(host: Field, capsys: pytest.CaptureFixture[str]) -> None:
    host.forget()
    host.package(3)
    path, trust = str(host.keys / "3.mlfp"), str(host.keys / "trusted.pem")
    assert main(["package", "verify", path, "--trust", trust]) == 0
    capsys.readouterr()
    assert main(["package", "push", path, "--project", str(host.folder), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["version_before"], said["version"], said["cases"]) == (0, 3, 1)
    assert main(["package", "push", path, "--project", str(host.folder)]) == 4
    assert "OLD" in capsys.readouterr().err
    assert main(["params", "push", str(DIGITS), "--project", str(host.folder)]) == 2
    assert "signed packages only" in capsys.readouterr().err


def test_each_refusal_has_its_code(host: Field) -> None:
    host.forget()
    old = host.output()
    assert refused(host, host.half_package(5, "foreign")) is PackageStatus.KEY
    wrong = host.keys / "wrong.npz"
    arrays = dict(np.load(host.cases))
    np.savez(wrong, **{**arrays, "0": arrays["0"] + np.float32(1)})
    shutil.copy(host.cases, host.keys / "good.npz")
    shutil.copy(wrong, host.cases)
    package = host.half_package(5)
    with host.booted() as session, pytest.raises(PackageError, match="case 0") as error:
        DevicePackages(session, 0).push_package(package)
    assert error.value.status is PackageStatus.CASE
    assert error.value.failed_case == 0
    shutil.copy(host.keys / "good.npz", host.cases)
    good = host.half_package(5)
    data = bytearray(good.data)
    data[HEAD_BYTES - 1] ^= 1
    broken = Package(manifest=good.manifest, signature=good.signature, header=good.header, data=bytes(data))
    assert refused(host, broken) is PackageStatus.SIGNATURE
    np.testing.assert_array_equal(host.output(), old)
    with host.booted() as session:
        DevicePackages(session, 0).push_package(good)
    assert refused(host, good) is PackageStatus.OLD
    assert np.abs(host.output() - old).max() > 0.1


def test_keys_are_rotated_in_the_field(host: Field) -> None:
    """The new key signs and revokes the old one, which is then refused, as are packages without the revocation."""
    host.forget()
    revoke = ("--revoke", str(host.keys / "old.pub"))
    with host.booted() as session:
        DevicePackages(session, 0).push_package(host.package(2))
        DevicePackages(session, 0).push_package(host.half_package(3, "new", *revoke))
    assert refused(host, host.package(4)) is PackageStatus.REVOKED
    assert refused(host, host.package(4, key="new")) is PackageStatus.REVOKED
    with host.booted() as session:
        DevicePackages(session, 0).push_package(host.package(4, *revoke, key="new"))
        assert DevicePackages(session, 0).package_info().version == 4


def test_a_transfer_goes_on_where_it_was_cut(host: Field) -> None:
    host.forget()
    package = host.half_package(6)

    class CutError(Exception):
        pass

    def cut(done: int, _total: int) -> None:
        if done > 9000:
            raise CutError

    with host.booted() as session:
        with pytest.raises(CutError):
            DevicePackages(session, 0).push_package(package, cut)
        session.hello()
        received = DevicePackages(session, 0).package_info().received
        assert received > 9000
        counted: list[int] = []
        DevicePackages(session, 0).push_package(package, lambda done, _: counted.append(done))
        assert counted[0] > received
        assert DevicePackages(session, 0).package_info().total == 0


def test_a_base_that_the_device_does_not_have_costs_a_whole_transfer(
    host: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copied bytes that are others, or not there, are refused by code; then all of it is sent.

    The image's own parameters, copied whole, are whole (HASH); a mixture of both is not even that (CRC).
    """
    statuses: list[int] = []
    call = DevicePackages._call

    def recorded(device: DevicePackages, *args: object, **options: object) -> bytes:
        try:
            return call(device, *args, **options)  # type: ignore[arg-type]
        except (PackageError, ParamsError) as error:
            statuses.append(error.status)
            raise

    monkeypatch.setattr(DevicePackages, "_call", recorded)
    package = host.half_package(6)
    body = package.data[HEAD_BYTES:]
    size = package.manifest.params_bytes
    refusals = {None: [PackageStatus.HASH], 0: [BlobStatus.RANGE, BlobStatus.CRC]}
    for version, expected in refusals.items():
        host.forget()
        statuses.clear()
        with host.booted() as session:
            device = DevicePackages(session, 0)
            before = device.package_info()
            crc = device.info().header_crc  # of what the image has: none of the new parameters
            base = Base(version=version, header_crc=crc, content=body, params_bytes=size)
            after = device.push_package(package, bases=[base])
            assert (before.version, after.version) == (0, 6)
            assert statuses == expected
            assert device.sent_bytes > len(body)
            np.testing.assert_array_equal(
                session.infer(0, [X.reshape(session.info.models[0].inputs[0].shape)])[0],
                np.load(host.cases)["0"][0],
            )


def test_outputs_of_before_an_update_are_not_valid_after_it(host: Field) -> None:
    host.forget()
    with host.booted() as session:
        shape = session.info.models[0].inputs[0].shape
        session.infer(0, [X.reshape(shape)])
        DevicePackages(session, 0).push_package(host.half_package(6))
        with pytest.raises(mlf_sdk.TargetError, match="STATE"):
            session.read_output(0, 0)


def test_open_firmware_takes_no_package(host: Field, tmp_path: Path) -> None:
    folder = build_project(DIGITS, tmp_path / "app", "host")
    target = project_target(folder, read_lock(folder), TargetChoice())
    with target.open(target.image(folder), timeout_s=60) as session:
        session.hello()
        with pytest.raises(InputError, match="takes no packages"):
            DevicePackages(session, 0).push_package(host.half_package(6))


def test_nothing_is_written_without_a_good_head(host: Field) -> None:
    host.forget()
    package = host.half_package(6, "foreign")
    store = next(host.elf.parent.glob("*_PARAMS_STORE.bin"))
    before = store.read_bytes()
    assert refused(host, package) is PackageStatus.KEY
    assert store.read_bytes() == before
    with host.booted() as session, pytest.raises(ParamsError, match="missing"):
        device = DevicePackages(session, 0)
        device._call(PackageOpcode.PACKAGE_BEGIN, struct.pack("<I", 20000))
        device._call(PackageOpcode.PACKAGE_WRITE, struct.pack("<I", 64) + bytes(64))


@pytest.mark.parametrize(
    ("version", "is_taken"), [("3.0.0", False), ("3.1.2", True), ("4.0.2", True), ("5.0.0", False)]
)
def test_versions_of_the_library(version: str, is_taken: bool, tmp_path: Path) -> None:
    release = tmp_path / "monocypher"
    for name in MONOCYPHER_SOURCES:
        (release / name).parent.mkdir(parents=True, exist_ok=True)
        (release / name).write_text(f"// Monocypher version {version}\n")
    make_keys(str(tmp_path / "a"), str(tmp_path / "trusted.pem"), [])
    options = {"trust": str(tmp_path / "trusted.pem"), "monocypher": str(release)}
    made = tmp_path / "x"
    if is_taken:
        mlf_sdk.generate(DIGITS, made, board="mps2-an386", executor="graph", **options)
        return
    with pytest.raises(InputError, match=rf"this is Monocypher version {version}; 3\.1 and later"):
        mlf_sdk.generate(DIGITS, made, board="mps2-an386", executor="graph", **options)
    assert not made.exists()


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"board": "mps2-an386", "executor": "graph"}, "a library that verifies"),
        ({"board": "mps2-an386", "executor": "graph", "monocypher": "."}, "no Monocypher"),
        ({"board": "host"}, "dynamic executor"),
    ],
)
def test_what_can_not_be_generated(host: Field, tmp_path: Path, options: dict[str, str], what: str) -> None:
    with pytest.raises(InputError, match=what):
        mlf_sdk.generate(DIGITS, tmp_path / "x", trust=str(host.keys / "trusted.pem"), **options)
    assert not (tmp_path / "x").exists()
    with pytest.raises(InputError, match="signed packages"):
        mlf_sdk.generate(DIGITS, tmp_path / "x", board="host", executor="graph", model_version=3)
