# SPDX-License-Identifier: Apache-2.0
"""Inputs that travel to workers by their hash, and jobs as workers run them."""

from __future__ import annotations

import hashlib
import io
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

from distributed import get_worker

from mlf_sdk.pipeline.cache import cache_folder
from mlf_sdk.sweep.identity import digest_of, files_in
from mlf_sdk.sweep.job import Job, JobResult, Run, Setup, worker_name

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
    """Path of an input in this machine's store, where it lies under its hash and its name; written once.

    Args:
        digest: of the input.
        packed: as `pack` gives it.
        root: of the store; default: in the user's cache.
    """
    name, content = packed
    store = root or cache_folder().parent / "inputs"
    folder = store / hashlib.sha256(f"{digest}/{name}".encode()).hexdigest()
    place = folder / name.rstrip("/")
    if place.exists() and digest_of(place) == digest:
        return str(place)
    store.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=store, prefix=".part-") as part:
        whole = Path(part) / "in"
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            # Python 3.11.2 of Debian 12 has no filters yet; the tar is one of `pack`.
            tar.extraction_filter = getattr(tarfile, "data_filter", None)
            tar.extractall(whole / name if name.endswith("/") else whole)  # noqa: S202
        shutil.rmtree(folder, ignore_errors=True)
        try:
            whole.rename(folder)
        except OSError:  # another worker was faster
            if not folder.is_dir():
                raise
    return str(place)


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
    files = {path: unpack(job.spec.files[path], packed) for path, packed in inputs.items()}
    return run(job, files)
