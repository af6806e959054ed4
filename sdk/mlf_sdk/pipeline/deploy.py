# SPDX-License-Identifier: Apache-2.0
"""A model that is ready to be asked: on an emulated board, the host, or a board on a port."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mlf_sdk.codegen.lock import Lock, LockModel, LockTensor, choose_model, read_lock
from mlf_sdk.codegen.options import ProjectOptions
from mlf_sdk.codegen.writer import LOCK_NAME
from mlf_sdk.errors import InputError
from mlf_sdk.judge.data import Batch, match_inputs
from mlf_sdk.judge.execute import find_model
from mlf_sdk.pipeline.cache import cached_project
from mlf_sdk.pipeline.project import PathLike, build, load, plan_project, project_board
from mlf_sdk.pipeline.results import Array
from mlf_sdk.targets.boards import DEFAULT_BOARD
from mlf_sdk.targets.boards.load import Board
from mlf_sdk.targets.launch import open_session
from mlf_sdk.targets.serial.session import PortChoice, port_session
from mlf_sdk.targets.zephyr.build import ZephyrSetup
from mlf_sdk.tools.locks import exclusive
from mlf_sdk.wire.deadline import Deadline
from mlf_sdk.wire.device import ModelInfo
from mlf_sdk.wire.session import Session

Say = Callable[[str], None]
Console = Callable[[str], None]
_HELLO_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A project that a target can run: where it lies, what it promises, and which of its models is meant."""

    folder: Path
    lock: Lock
    board: Board
    model: LockModel


class Deployed:
    """A model on a target that answers.

    Attributes:
        session: the open session, for all that ``infer`` does not do.
        model: what the project promises about the model.
        board: what it runs on.
        info: what the target says about the model.
    """

    def __init__(self, prepared: Prepared, session: Session, info: ModelInfo) -> None:
        self.session = session
        self.model = prepared.model
        self.board = prepared.board
        self.info = info

    @property
    def console_text(self) -> str:
        """What the target printed so far."""
        return self.session.console_text

    def infer(
        self, inputs: Array | Sequence[Array] | Mapping[str, Array], *, timeout_s: float | None = None
    ) -> list[Array]:
        """Run one inference, or a batch of them, and return every output.

        Args:
            inputs: an array for each input, in order, or by name or number; one array where there is one
                input. One extra leading axis is a batch, and the outputs have it as well.
            timeout_s: for all of it; None: the session's own.

        Raises:
            InputError: an array is missing or does not fit.
            TargetError: the target did not answer in time, or faulted.
        """
        arrays = self._by_name(inputs)
        batch = match_inputs(self.model, arrays, "inputs")
        deadline = None if timeout_s is None else Deadline.after(timeout_s)
        results = [self.infer_one(batch, index, deadline) for index in range(batch.count)]
        if all(array.shape == self._tensor(key).shape for key, array in arrays.items()):
            return results[0]
        return [np.stack(found) for found in zip(*results, strict=True)]

    def infer_one(self, batch: Batch, index: int, deadline: Deadline | None = None) -> list[Array]:
        """Run one inference of a batch."""
        return self.session.infer(self.info, batch.inputs(index), deadline)

    def _tensor(self, key: str) -> LockTensor:
        named = next((t for t in self.model.inputs if t.name == key), None)
        return named if named is not None else self.model.inputs[int(key)]

    def _by_name(self, inputs: Array | Sequence[Array] | Mapping[str, Array]) -> dict[str, Array]:
        if isinstance(inputs, Mapping):
            known = {t.name for t in self.model.inputs} | {str(i) for i in range(len(self.model.inputs))}
            unknown = sorted(set(inputs) - known)
            if unknown:
                raise InputError(f"there is no input {unknown[0]!r}", where=f"model {self.model.name}")
            return {name: np.asarray(array) for name, array in inputs.items()}
        given = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
        if len(given) != len(self.model.inputs):
            raise InputError(
                f"{len(given)} inputs were given for {len(self.model.inputs)}",
                where=f"model {self.model.name}",
            )
        return {str(index): np.asarray(array) for index, array in enumerate(given)}


def prepare(
    target: PathLike,
    *,
    board: str | None = None,
    board_file: PathLike | None = None,
    module: str | None = None,
    options: ProjectOptions | None = None,
    platform: str | None = None,
    zephyr: ZephyrSetup | None = None,
) -> Prepared:
    """The project of an archive (kept in the cache) or in a folder; nothing is built.

    Raises:
        InputError: bad archive or arguments, or the project's application takes no inputs.
    """
    path = Path(target)
    if (path / LOCK_NAME).is_file():
        lock = read_lock(path)
        row = project_board(path, lock)
        if board not in (None, row.name):
            raise InputError(
                f"the project is for the board {row.name}",
                where=str(path),
                hint=f"Generate it for {board} in another folder, or give the archive itself.",
            )
        prepared = Prepared(folder=path, lock=lock, board=row, model=choose_model(lock, module, path))
    else:
        model = load(path, module=module)
        plan = plan_project(
            [model],
            board=board or DEFAULT_BOARD,
            board_file=board_file,
            options=options,
            platform=platform,
            zephyr=zephyr,
        )
        prepared = Prepared(
            folder=cached_project(plan), lock=plan.lock, board=plan.board, model=plan.lock.models[0]
        )
    if prepared.lock.options.app != "rpc":
        raise InputError(
            f"the project's application is {prepared.lock.options.app}: it takes no inputs",
            where=str(path),
            hint="Generate it with --app rpc to give it inputs.",
        )
    return prepared


@contextmanager
def deployed(
    prepared: Prepared,
    *,
    port: PortChoice | str | None = None,
    timeout_s: float = 120.0,
    build_timeout_s: float = 600.0,
    say: Say = lambda _: None,
    console: Console | None = None,
) -> Iterator[Deployed]:
    """The model on a target, ready to be asked; whatever was started is gone afterwards.

    Args:
        prepared: what to run.
        port: where a board answers that holds the model already; None: it is built and started here.
        timeout_s: for a run and, with a port, for the board's first answer.
        console: called with each piece of text that the target prints.

    Raises:
        ToolError: a tool is missing or failed.
        TargetError: the target did not answer, or holds another model.
    """
    with _session(prepared, port, timeout_s, build_timeout_s, say, console) as session:
        session.hello(Deadline.after(min(timeout_s, _HELLO_S)))
        yield Deployed(prepared, session, find_model(session, prepared.model))


@contextmanager
def _session(
    prepared: Prepared,
    port: PortChoice | str | None,
    timeout_s: float,
    build_timeout_s: float,
    say: Say,
    console: Console | None,
) -> Iterator[Session]:
    if port is not None:
        say(f"asking the board on {port.spec if isinstance(port, PortChoice) else port}")
        with port_session(port, board=prepared.board, timeout_s=timeout_s, console=console) as session:
            yield session
        return
    say(f"building for {prepared.board.name}")
    with exclusive(str(prepared.folder.resolve()), build_timeout_s):
        elf = build(prepared.folder, timeout_s=build_timeout_s).elf
    say(f"running on {prepared.board.name}")
    with open_session(prepared.board, elf, timeout_s=timeout_s, console=console) as session:
        yield session
