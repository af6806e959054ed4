# SPDX-License-Identifier: Apache-2.0
"""A worker of a scheduler: describes its machine, runs cells, waits for a scheduler that is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack

import dask
from distributed import Nanny

from mlf_sdk.errors import ToolError
from mlf_sdk.pipeline.options import WorkerOptions
from mlf_sdk.sweep.describe import describe_machine
from mlf_sdk.sweep.identity import PLACE_SCHEME
from mlf_sdk.sweep.places import release_abandoned, tagged_places
from mlf_sdk.targets.serial.ports import list_serial_ports
from mlf_sdk.tools.files import scratch_folder
from mlf_sdk.tools.locks import end_orphans

ALL_PLACES = "all"
_AGAIN_S = 1.0
_CONFIG = {
    "distributed.comm.timeouts.connect": "5s",
    "distributed.worker.daemon": False,
}


def serve(scheduler: str, own: WorkerOptions, say: Callable[[str], None]) -> None:
    """Run cells until the process is interrupted.

    Args:
        scheduler: address, such as ``tcp://127.0.0.1:8786``.
        own: processes and places.
        say: called with what happens.

    Raises:
        ToolError: the address is none.
    """
    boards = _boards(own)
    end_orphans()
    release_abandoned()
    with scratch_folder("mlf-worker-") as folder, dask.config.set(_CONFIG):
        scratch = str(folder)
        while True:
            say(f"connecting to {scheduler}")
            try:
                asyncio.run(_serve_once(scheduler, own, boards, scratch, say))
            except (OSError, asyncio.TimeoutError, RuntimeError):
                pass
            except ValueError as error:
                raise ToolError(f"no scheduler's address: {error}", where=scheduler) from error
            asyncio.run(asyncio.sleep(_AGAIN_S))


def _boards(own: WorkerOptions) -> tuple[str, ...]:
    named = tagged_places() if own.places == (ALL_PLACES,) else own.places
    places = tuple(f"{PLACE_SCHEME}:{name.removeprefix(PLACE_SCHEME + ':')}" for name in named)
    return (*places, *(f"port {port.device}" for port in list_serial_ports()))


async def _serve_once(
    scheduler: str, own: WorkerOptions, boards: tuple[str, ...], scratch: str, say: Callable[[str], None]
) -> None:
    """Serve until the scheduler is gone."""
    async with AsyncExitStack() as stack:
        nannies = []
        for number in range(own.jobs):
            nanny = Nanny(
                scheduler,
                nthreads=1,
                resources=describe_machine(boards[number :: own.jobs]),
                local_directory=scratch,
                memory_limit=0,
                host=own.listen,
                dashboard=False,
                silence_logs="CRITICAL",
                env={"TMPDIR": scratch},  # what its jobs leave when they are killed goes with it
            )
            nannies.append(await stack.enter_async_context(nanny))
        say(f"{own.jobs} cells at the same time for {scheduler}")
        done = {asyncio.ensure_future(nanny.finished()) for nanny in nannies}
        await asyncio.wait(done, return_when=asyncio.FIRST_COMPLETED)
