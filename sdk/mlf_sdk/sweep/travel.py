# SPDX-License-Identifier: Apache-2.0
"""Inputs that travel to workers by their hash, and jobs as workers run them."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

from distributed import get_worker

from mlf_sdk.errors import InputError, MlfError
from mlf_sdk.resources import cache_dir
from mlf_sdk.sweep.identity import digest_of, files_in
from mlf_sdk.sweep.job import Job, JobResult, Run, Setup, lost_result, worker_name
from mlf_sdk.tools.files import make_folder, scratch_folder, write_error
from mlf_sdk.tools.locks import cache_in_use

TOPIC = "mlf-sweep"
Packed = tuple[str, bytes]


def pack(path: str) -> Packed:
    """Name of an input, and its files as a tar."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, file in files_in(path):
            tar.add(file, arcname=name, recursive=False)
    return Path(path).name + ("/" if Path(path).is_dir() else ""), buffer.getvalue()


def store_digest(digest: str, packed: Packed) -> Packed:
    """Content of an input, as a task: a worker that needs it gets it from any other that has it."""
    del digest
    return packed


def unpack(digest: str, packed: Packed, root: Path | None = None) -> str:
    """Path of an input in this machine's store, where it lies under its hash and its name.

    Nothing in the store is ever changed, moved or removed while workers are there: they use it. Beside a copy
    that is damaged lies the next.

    Args:
        digest: of the input.
        packed: as `pack` gives it.
        root: of the store; default: in the user's cache.

    Raises:
        InputError: the content is not that of the digest, or can't be written.
        ToolError: the disk is full.
    """
    name, content = packed
    store = root or cache_dir("inputs")
    key = hashlib.sha256(f"{digest}/{name}".encode()).hexdigest()
    number = 0
    while True:
        folder = store / f"{key}-{number}"
        place = folder / name.rstrip("/")
        if not folder.is_dir():
            _publish(digest, name, content, folder)
        if _is_whole(place, digest):
            return str(place)
        number += 1


def _publish(digest: str, name: str, content: bytes, folder: Path) -> None:
    """Make the folder of an input in one step, unless another worker is faster."""
    make_folder(folder.parent)
    try:
        with scratch_folder(".part-", folder.parent) as part:
            whole = part / "in"
            with tarfile.open(fileobj=io.BytesIO(content)) as tar:
                # Python 3.11.2 of Debian 12 has no filters yet; the tar is one of `pack`.
                tar.extraction_filter = getattr(tarfile, "data_filter", None)
                tar.extractall(whole / name if name.endswith("/") else whole)  # noqa: S202
            if not _is_whole(whole / name.rstrip("/"), digest):
                raise InputError("it was changed since the sweep was planned", where=name)
            try:
                whole.rename(folder)
            except OSError:
                if not folder.is_dir():
                    raise
    except OSError as error:
        raise write_error(
            error, "can't keep an input", where=str(folder), hint="Is the disk sound?"
        ) from error


def _is_whole(place: Path, digest: str) -> bool:
    try:
        return digest_of(place) == digest
    except InputError:  # a part of it is missing
        return False


def run_remote(job: Job, setup: Setup, inputs: Mapping[str, Packed], run: Run) -> JobResult:
    """Run a job on a worker of dask."""
    worker = get_worker()
    said = {
        "name": job.spec.name,
        "key": str(worker.get_current_task()),
        "worker": worker.address,
        "process": worker_name(),
    }
    worker.log_event(TOPIC, said)
    setup.adopt()
    with cache_in_use():
        try:
            files = {path: unpack(job.spec.files[path], packed) for path, packed in inputs.items()}
        except MlfError as error:
            return lost_result(job, str(error))
        return run(job, files)
