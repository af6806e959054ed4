# SPDX-License-Identifier: Apache-2.0
"""Power cuts after each write to flash of signed pushes, on QEMU's micro:bit.

``PYTHONPATH=sdk:tests/support python tests/support/power_cuts.py --monocypher PATH`` (``make power-cuts``). Three
packages are pushed to a machine that stops at each write to its slots and each erased page: one whose self-test
fails, a good one, and a newer one over it. The flash as it was after each write is put into another machine, which is
reset and asked which model is in force: that of before; after the last write of a good package the new one. A cut
between two writes, in a self-test for one, leaves the flash of the write before.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import mlf_sdk
from gdb_remote import GdbRemote
from mlf_sdk.analysis.elf.read import read_image
from mlf_sdk.cli.main import main as command
from mlf_sdk.codegen.lock import read_lock
from mlf_sdk.codegen.packagefile import HEAD_BYTES, Package, read_package
from mlf_sdk.pipeline.package import make_keys
from mlf_sdk.targets.boards.signatures import VERIFYING_STACK_BYTES
from mlf_sdk.targets.qemu import QemuOptions, qemu_argv
from mlf_sdk.targets.registry import project_target
from mlf_sdk.targets.target import TargetChoice
from mlf_sdk.tools.child import death_watch
from mlf_sdk.tools.signing import Signer
from mlf_sdk.wire.codes import DeviceFaultError
from mlf_sdk.wire.link import Timeouts
from mlf_sdk.wire.package import DevicePackages, PackageError, PackageStatus
from mlf_sdk.wire.session import Session
from mlf_sdk.wire.transport import SocketTransport

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples/digits/digits-graph-tvm0.11.1.tar"
ERASE_PAGE = 0x508  # register of the controller, beside its base
SIGNED_BYTES, AT_VERSION, AT_CASES_SHA512 = 320, 8, 160  # of a head: crt/PACKAGES.md
NEAR_BYTES = 64  # a push writes upwards: the next word is looked for here first
LAST = 10  # states before the end of a push that every stride includes
OUTPUTS_EVERY = 50  # of the states that are asked: the model runs, and the flash is read back


@dataclass(frozen=True)
class Write:
    """Bytes that one write or erased page changed; none where it wrote what was there."""

    offset: int
    data: bytes

    @property
    def end(self) -> int:
        return self.offset + len(self.data)

    def put(self, flash: bytearray) -> None:
        flash[self.offset : self.end] = self.data


@dataclass
class Push:
    """A package, and the writes of its push.

    Attributes:
        status: that refused it; None: it is in force.
    """

    package: Package
    writes: list[Write] = field(default_factory=list)
    status: PackageStatus | None = None


@dataclass
class Count:
    """Boots by the model that was in force."""

    old: int = 0
    new: int = 0
    other: list[str] = field(default_factory=list)

    @property
    def boots(self) -> int:
        return self.old + self.new + len(self.other)


class Bench:
    """An image for the micro:bit that trusts a key, and machines that run it.

    Args:
        folder: project, keys and packages.
        model: archive or model file.
        options: of `mlf_sdk.generate`.
    """

    def __init__(self, folder: Path, model: Path, monocypher: str, **options: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        trusted = folder / "trusted.pem"
        make_keys(str(folder / "key"), str(trusted), [])
        self.signer = Signer(folder / "key.key")
        self.project = folder / "app"
        mlf_sdk.generate(
            model,
            self.project,
            board="microbit",
            stack=str(VERIFYING_STACK_BYTES),
            executor="graph",
            trust=str(trusted),
            monocypher=monocypher,
            **options,
        )
        mlf_sdk.build(self.project)
        lock = read_lock(self.project)
        target = project_target(self.project, lock, TargetChoice())
        self.board = target.board
        self.erase_register = target.board.flash_controller.base + ERASE_PAGE
        self.elf = target.image(self.project).resolve()
        slots = next(s for s in read_image(self.elf).sections if s.name == ".slots")
        self.base, self.size = slots.address, slots.size_bytes
        path = folder / "first.mlfp"
        keyed = ["--project", str(self.project), "--key", str(folder / "key.key"), "--model-version", "1"]
        if command(["package", str(model), *keyed, "-o", str(path)]) != 0:
            raise RuntimeError("no package")
        self.first = read_package(path.read_bytes())

    def package(self, version: int, spoilt_at: int | None = None) -> Package:
        """The package with another version, signed; the output whose tolerance lies there in the cases is wrong."""
        body = bytearray(self.first.data[HEAD_BYTES:])
        start = self.first.manifest.params_bytes
        if spoilt_at is not None:
            at = start + spoilt_at
            body[at : at + 4] = bytes(4)
            body[at + 4] ^= 0x80
        head = bytearray(self.first.data[:SIGNED_BYTES])
        struct.pack_into("<I", head, AT_VERSION, version)
        head[AT_CASES_SHA512 : AT_CASES_SHA512 + 64] = hashlib.sha512(body[start:]).digest()
        return read_package(bytes(head) + self.signer.sign(bytes(head)) + bytes(body))

    @contextmanager
    def machine(self) -> Iterator[tuple[GdbRemote, Session]]:
        """A machine that is stopped at its reset, and a session on its line."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        ours, theirs = socket.socketpair()
        options = QemuOptions(icount_shift=None, read_ahead=True)
        argv = qemu_argv(self.board, self.elf, console_fd=theirs.fileno(), options=options)
        argv = [a for a in argv if a != "-no-reboot"] + ["-gdb", f"tcp:127.0.0.1:{port}", "-S"]
        process = subprocess.Popen([*death_watch(), *argv], pass_fds=(theirs.fileno(),))
        theirs.close()
        timeouts = Timeouts(transfer_s=3600, first_try_s=5, hello_first_s=0.02)
        try:
            with (
                Session(SocketTransport(ours, name="machine"), timeouts=timeouts) as session,
                closing(GdbRemote(port)) as gdb,
            ):
                yield gdb, session
        finally:
            ours.close()
            process.kill()
            process.wait()

    def outputs(self, session: Session) -> bytes:
        """Outputs of the model for one input."""
        rng = np.random.default_rng(0)
        inputs = [
            rng.integers(0, 2, i.shape).astype(np.dtype(i.dtype).newbyteorder("<"))
            for i in session.info.models[0].inputs
        ]
        return b"".join(output.tobytes() for output in session.infer(0, inputs))


def packages(bench: Bench) -> list[Package]:
    """One whose self-test fails, a good one, and a newer one."""
    with bench.machine() as (gdb, session):
        gdb.resume()
        session.hello()
        inputs = sum(i.size_bytes for i in session.info.models[0].inputs)
    return [bench.package(2, inputs), bench.package(3), bench.package(4)]


def recorded(bench: Bench, pushed: list[Package], most: int | None = None) -> tuple[bytes, list[Push]]:
    """Push to one machine; the slots before, and each push with its writes as the stub has seen them.

    Args:
        most: writes that are seen; those after them are one. None: all are.
    """
    errors: list[BaseException] = []
    pushes = [Push(package) for package in pushed]
    current = [pushes[0]]

    def push_all(session: Session) -> None:
        try:
            for push in pushes:
                current[0] = push
                try:
                    DevicePackages(session, 0).push_package(push.package)
                except PackageError as error:
                    push.status = PackageStatus(error.status)
        except BaseException as error:
            errors.append(error)

    with bench.machine() as (gdb, session):
        before = gdb.read(bench.base, bench.size)
        gdb.resume()
        session.hello()
        gdb.interrupt()
        gdb.watch(bench.base, bench.size)
        gdb.watch(bench.erase_register, 4)
        thread = threading.Thread(target=push_all, args=(session,))
        gdb.resume()
        thread.start()
        flash = bytearray(before)
        at = seen = 0
        while seen != most:
            if not gdb.stopped(0.5):
                if thread.is_alive():
                    continue
                break
            gdb.step_over()
            write = change(bench, gdb, flash, at)
            at = write.end
            write.put(flash)
            current[0].writes.append(write)
            seen += 1
            if seen == most:
                gdb.unwatch()
            gdb.resume()
        thread.join()
        gdb.interrupt()
        after = gdb.read(bench.base, bench.size)
        if most is not None:
            current[0].writes.append(Write(0, after))
        elif after != bytes(flash):
            errors.append(RuntimeError("the flash is not what its writes make of it"))
    if errors:
        raise errors[0]
    return before, pushes


def change(bench: Bench, gdb: GdbRemote, flash: bytes | bytearray, at: int) -> Write:
    """The bytes that differ now: near the last write, or anywhere."""
    near = bench.base + at, min(NEAR_BYTES, bench.size - at)
    for (address, size), is_whole in ((near, False), ((bench.base, bench.size), True)):
        start = address - bench.base
        now = gdb.read(address, size)
        old = flash[start : start + size]
        if now == old:
            continue
        differing = [i for i, (a, b) in enumerate(zip(now, old, strict=True)) if a != b]
        first, end = differing[0], differing[-1] + 1
        if is_whole or end < size:
            return Write(start + first, now[first:end])
    return Write(at, b"")


def cut(
    bench: Bench, before: bytes, pushes: list[Push], stride: int, *, progress: bool = False
) -> list[Count]:
    """Boot with the flash as it was after writes of each push, each push on a machine of its own."""
    flash = bytearray(before)
    version = 0
    outputs: dict[int, bytes] = {}
    with ThreadPoolExecutor(len(pushes)) as pool:
        counts = []
        for push in pushes:
            counts.append(
                pool.submit(cut_push, bench, bytes(flash), version, push, stride, outputs, progress)
            )
            for write in push.writes:
                write.put(flash)
            version = version if push.status is not None else push.package.manifest.version
        return [count.result() for count in counts]


def cut_push(
    bench: Bench,
    before: bytes,
    version: int,
    push: Push,
    stride: int,
    outputs: dict[int, bytes],
    progress: bool,
) -> Count:
    """Boot with the flash of before a push and as it was after its writes; the last one decides it.

    Args:
        version: in force before.
        outputs: of each version, as they were first seen.
    """
    flash = bytearray(before)
    pending = [Write(0, before)]
    count = Count()
    last = len(push.writes)
    after = version if push.status is not None else push.package.manifest.version
    with bench.machine() as (gdb, session):
        gdb.resume()
        for n in range(last + 1):
            if n:
                write = push.writes[n - 1]
                write.put(flash)
                pending.append(write)
            if n % stride and n < last - LAST:
                continue
            gdb.interrupt()
            for write in pending:
                gdb.write(bench.base + write.offset, write.data)
            pending.clear()
            gdb.reset()
            gdb.resume()
            try:
                session.hello()
                now = DevicePackages(session, 0).package_info().version
                fault = "" if now == (after if n == last else version) else f"version {now}"
                if count.boots % OUTPUTS_EVERY == 0 or n >= last - LAST:
                    fault = fault or _wrong(bench, gdb, session, bytes(flash), outputs, now)
            except DeviceFaultError as error:
                fault = error.what
            if fault:
                count.other.append(f"write {n}: {fault}")
            elif n == last and after != version:
                count.new += 1
            else:
                count.old += 1
            if progress and count.boots % 500 == 0:
                print(f"  {push.package.manifest.version}: write {n} of {last}", flush=True)
    return count


def _wrong(
    bench: Bench, gdb: GdbRemote, session: Session, flash: bytes, outputs: dict[int, bytes], version: int
) -> str:
    """What else is wrong with a machine that has booted: its outputs, or its flash."""
    got = bench.outputs(session)
    gdb.interrupt()
    is_same = gdb.read(bench.base, bench.size) == flash
    gdb.resume()
    if outputs.setdefault(version, got) != got:
        return "other outputs"
    return "" if is_same else "the boot has written to flash"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--monocypher", required=True, metavar="PATH", help="a release's folder")
    parser.add_argument("--model", type=Path, default=DIGITS)
    parser.add_argument("--for", dest="goal", help="goal of the compiler, for a model that it compiles")
    parser.add_argument(
        "--stride", type=int, default=1, help="cut after each so many writes, and the last ten"
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "build/power-cuts")
    args = parser.parse_args()
    shutil.rmtree(args.folder, ignore_errors=True)
    bench = Bench(args.folder, args.model, args.monocypher, **({"goal": args.goal} if args.goal else {}))
    start = time.monotonic()
    before, pushes = recorded(bench, packages(bench))
    for push in pushes:
        said = "in force" if push.status is None else push.status.name
        print(f"version {push.package.manifest.version}: {len(push.writes)} writes, {said}", flush=True)
    counts = cut(bench, before, pushes, args.stride, progress=True)
    for push, count in zip(pushes, counts, strict=True):
        print(f"version {push.package.manifest.version}: {count.boots} boots, {count.old} with the model of before, "
              f"{count.new} with the new one, {len(count.other)} others")  # fmt: skip
        for text in count.other[:20]:
            print(text)
    print(f"{time.monotonic() - start:.0f} s")
    return 1 if any(count.other for count in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
