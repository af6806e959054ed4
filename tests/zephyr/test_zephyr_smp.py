# SPDX-License-Identifier: Apache-2.0
"""Signed packages by MCUmgr's SMP: files of projects, and a real Zephyr on an emulated board that loses power."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import mlf_sdk
from dynamic_helpers import DIGITS
from mlf_sdk.cli.main import main
from mlf_sdk.codegen.lock import read_lock
from mlf_sdk.codegen.packagefile import HEAD_BYTES, Package, SelfTest, build_package, read_package
from mlf_sdk.codegen.paramsblob import ParamsBlob
from mlf_sdk.errors import InputError
from mlf_sdk.pipeline.package import make_keys
from mlf_sdk.pipeline.params import lay_out_params, read_source
from mlf_sdk.pipeline.retrained import firmware_of
from mlf_sdk.targets.launch import keep_emulated_slots, with_slots
from mlf_sdk.targets.serial.session import port_session
from mlf_sdk.targets.target import TargetChoice
from mlf_sdk.targets.zephyr.build import ZephyrSetup, find_module
from mlf_sdk.targets.zephyr.files import zephyr_board
from mlf_sdk.tools.signing import Signer
from mlf_sdk.wire.package import DevicePackages, PackageError, PackageOpcode, PackageStatus
from mlf_sdk.wire.session import Session
from qemu_pty import qemu_pty
from zephyr_bench import setup_of
from zephyr_trees import MakeTree, arm_modules, zephyr_options

X = np.linspace(-1, 1, 64, dtype=np.float32)
LOOSE = np.float32(1e9).tobytes()


@pytest.mark.usefixtures("bench")
@pytest.mark.parametrize(("board", "transport"), [("mps2/an385", "SHELL"), ("nrf52840dk/nrf52840", "UART")])
def test_a_project_has_the_options_of_smp(
    make_tree: MakeTree, tmp_path: Path, board: str, transport: str
) -> None:
    options = zephyr_options(setup_of(make_tree("4.1.0")))
    app = tmp_path / "app"
    mlf_sdk.generate(DIGITS, app, board=board, platform="zephyr", executor="graph", **options)
    text = (app / "smp.conf").read_text()
    assert "CONFIG_MLF_SMP=y" in text and f"CONFIG_MCUMGR_TRANSPORT_{transport}=y" in text
    assert (app / "boards/mps2_an385.overlay").exists() == (board == "mps2/an385")
    assert "mlf_store_flash_open(&digits_store" in (app / "model/digits/digits.c").read_text()
    (app / "smp.conf").write_text("# mine\n")
    mlf_sdk.generate(DIGITS, app, board=board, platform="zephyr", executor="graph", **options)
    assert (app / "smp.conf").read_text() == "# mine\n"


@pytest.mark.usefixtures("bench")
def test_where_it_is_not_generated(make_tree: MakeTree, tmp_path: Path) -> None:
    known = {"board": "mps2/an385", "platform": "zephyr"}
    old = zephyr_options(setup_of(make_tree("3.2.0")))
    mlf_sdk.generate(DIGITS, tmp_path / "old", **known, **old)
    assert not (tmp_path / "old/smp.conf").exists()
    options = zephyr_options(setup_of(make_tree("4.1.0")))
    with pytest.raises(InputError, match="a library has the static executor"):
        mlf_sdk.generate(DIGITS, tmp_path / "x", app="library", executor="graph", **known, **options)


class Device:
    """A project that takes signed packages by SMP, built, and packages for it."""

    def __init__(self, folder: Path, setup: ZephyrSetup) -> None:
        self.folder = folder
        for name in ("own", "foreign"):
            make_keys(str(folder / name), str(folder / "trusted.pem") if name == "own" else None, [])
        app = folder / "app"
        options = zephyr_options(setup) | {"zephyr_modules": smp_modules(setup), "west": False}
        mlf_sdk.generate(
            DIGITS,
            app,
            board="mps2/an385",
            platform="zephyr",
            executor="graph",
            trust=str(folder / "trusted.pem"),
            monocypher=os.environ["MONOCYPHER"],
            **options,
        )
        built = mlf_sdk.build(app, **options | {"cmake_args": ("-DEXTRA_CONF_FILE=smp.conf",)})
        self.app, self.elf = app, built.elf
        self.board = zephyr_board("mps2/an385")
        keep_emulated_slots(read_lock(app), self.board, self.elf)
        self.firmware = firmware_of(app, None)

    def package(self, version: int, *, key: str = "own", scale: float = 0.5, **other: bytes) -> Package:
        """A package of scaled parameters, whose case takes any outputs."""
        graph, model = self.firmware.graph, self.firmware.model
        blob = lay_out_params(read_source(DIGITS, self.firmware), graph)
        data = (np.frombuffer(blob.data, np.float32) * np.float32(scale)).tobytes()
        scaled = ParamsBlob(graph_id=blob.graph_id, archive_sha256=blob.archive_sha256, data=data)
        sizes = [np.prod(tensor.shape, dtype=int) for tensor in model.outputs]
        case = SelfTest((X.tobytes(),), tuple((np.zeros(n, np.float32).tobytes(), LOOSE) for n in sizes))
        signer = Signer(self.folder / f"{key}.key")
        ids = {"graph_id": graph.graph_id, "code_id": graph.code_id, **other}
        return read_package(
            build_package(
                params=scaled.pack(),
                cases=[case],
                version=version,
                arena_bytes=graph.arena_bytes,
                key_id=signer.public.id,
                sign=signer.sign,
                **ids,
            )
        )

    @contextmanager
    def port(self) -> Iterator[str]:
        """The board behind a line, with what its flash has kept; it loses power at the end of the block."""
        folder = self.folder / "run"
        folder.mkdir(exist_ok=True)
        with qemu_pty(with_slots(self.board, self.elf), self.elf, folder) as machine:
            yield f"smp:{machine.port}"

    @contextmanager
    def booted(self) -> Iterator[Session]:
        with self.port() as port, port_session(TargetChoice(port=port), timeout_s=120) as session:
            session.hello()
            yield session


def smp_modules(setup: ZephyrSetup) -> tuple[str, ...]:
    """Modules of the build; skips where the tree's workspace has no zcbor."""
    zcbor = find_module("zcbor", setup.tree().base, setup)
    if zcbor is None:
        pytest.skip("MCUmgr needs the module zcbor: west update zcbor, or name it in ZEPHYR_MODULES")
    return tuple(dict.fromkeys([*arm_modules(setup), str(zcbor)]))


@pytest.fixture(scope="module")
def device(real_setup: ZephyrSetup, zephyr_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Device:
    pytest.importorskip("smpclient")
    if "MONOCYPHER" not in os.environ:
        pytest.skip("MONOCYPHER is not set")
    smp_modules(real_setup)
    return Device(tmp_path_factory.mktemp("smp"), real_setup)


def output(session: Session) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    shape = session.info.models[0].inputs[0].shape
    return session.infer(0, [X.reshape(shape)])[0]


@pytest.mark.zephyr
@pytest.mark.qemu
@pytest.mark.slow
def test_a_board_without_power_has_the_old_model_until_the_commit(device: Device) -> None:
    """Cut behind the head, in the middle, and right before the commit: each time the old model runs."""
    package = device.package(5)
    data = package.data
    with device.booted() as session:
        old = output(session)
    middle = HEAD_BYTES + (len(data) - HEAD_BYTES) // 2 // 64 * 64
    for last in (HEAD_BYTES, middle, len(data)):
        with device.booted() as session:
            session.extension(PackageOpcode.PACKAGE_BEGIN, b"\0" + struct.pack("<I", len(data)))
            start = 0
            for end in sorted({HEAD_BYTES, last, *range(HEAD_BYTES, last, 2048)}):
                piece = struct.pack("<I", start) + data[start:end]
                session.extension(PackageOpcode.PACKAGE_WRITE, b"\0" + piece)
                start = end
            assert DevicePackages(session, 0).package_info().received == last
        with device.booted() as session:
            np.testing.assert_array_equal(output(session), old)
    with device.booted() as session:
        DevicePackages(session, 0).push_package(package)
    with device.booted() as session:
        assert DevicePackages(session, 0).package_info().version == 5
        assert np.abs(output(session) - old).max() > 0.1


@pytest.mark.zephyr
@pytest.mark.qemu
@pytest.mark.slow
def test_each_refusal_arrives_with_its_code_and_a_push_goes_on_at_the_byte(device: Device) -> None:
    good = device.package(20)
    broken = bytearray(good.data)
    broken[HEAD_BYTES - 1] ^= 1
    wrong = Package(manifest=good.manifest, signature=good.signature, header=good.header, data=bytes(broken))
    refused = {
        PackageStatus.KEY: device.package(20, key="foreign"),
        PackageStatus.SIGNATURE: wrong,
        PackageStatus.MODEL: device.package(20, graph_id=bytes(32)),
        PackageStatus.FIRMWARE: device.package(20, code_id=bytes(32)),
    }
    with device.port() as port:
        for status, package in refused.items():
            with port_session(TargetChoice(port=port), timeout_s=120) as session:
                session.hello()
                with pytest.raises(PackageError) as error:
                    DevicePackages(session, 0).push_package(package)
                assert error.value.status is status
        path = device.folder / "good.mlfp"
        path.write_bytes(good.data)

        class CutError(Exception):
            pass

        def cut(done: int, _total: int) -> None:
            if done > 9000:
                raise CutError

        with port_session(TargetChoice(port=port), timeout_s=120) as session:
            session.hello()
            with pytest.raises(CutError):
                DevicePackages(session, 0).push_package(good, cut)
        with port_session(TargetChoice(port=port), timeout_s=120) as session:
            session.hello()
            received = DevicePackages(session, 0).package_info().received
            counted: list[int] = []
            DevicePackages(session, 0).push_package(good, lambda done, _: counted.append(done))
            assert counted[0] > received > 9000
        assert main(["package", "push", str(path), "--port", port]) == 4
