# SPDX-License-Identifier: Apache-2.0
"""Choice of the executor: processes of this machine, a local cluster, or the workers of a scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mlf_sdk.errors import ToolError
from mlf_sdk.sweep.events import Executor
from mlf_sdk.sweep.job import Setup
from mlf_sdk.sweep.pool import PoolExecutor


@contextmanager
def open_executor(
    jobs: int, scheduler: str | None = None, *, cluster: bool = False, boards: tuple[str, ...] = ()
) -> Iterator[Executor]:
    """Open an executor as long as the block lasts.

    Args:
        jobs: processes on this machine.
        scheduler: address of a scheduler whose workers run the jobs; None: this machine does.
        cluster: a local cluster in place of a plain pool of processes.
        boards: places that workers of this machine hold.

    Raises:
        ToolError: the extra ``sweep`` is not installed, or the scheduler does not answer.
    """
    if scheduler is None and not cluster:
        with PoolExecutor(jobs, Setup.of_this_process()) as pool:
            yield pool
        return
    require_cluster()
    from mlf_sdk.sweep.cluster import open_cluster

    with open_cluster(jobs, scheduler, boards) as result:
        yield result


def require_cluster() -> None:
    """Refuse work that needs dask.distributed where it is not installed.

    Raises:
        ToolError: it is not.
    """
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise ToolError(
            f"the engine of sweeps is not installed: {error}",
            where="sweep",
            hint="Install it: pip install 'mlf-sdk[sweep]'. (mlf-sdk proof works without it.)",
        ) from error
