# SPDX-License-Identifier: Apache-2.0
"""Executors of jobs, their events, and receivers of what a sweep does."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from mlf_sdk.sweep.job import Job, JobResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A worker began a job."""

    name: str
    worker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A job has a result."""

    result: JobResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Died:
    """A worker died while it ran a job."""

    name: str
    worker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A job ended without a result and without its fault, such as one that waited on a worker that died.

    Attributes:
        is_counted: it is not tried again without end; False where the executor was away, and came back.
    """

    name: str
    why: str
    is_counted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The executor waits for something that no job is about."""

    what: str


Event = Started | Finished | Died | Lost | Waiting


class Executor(Protocol):
    """Processes that run jobs; events come in order for each job."""

    def has_room(self, resources: Collection[str], running: int) -> bool:
        """Return whether a job can be taken, where ``running`` jobs with these resources are under way."""

    def lacking(self, resources: Collection[str]) -> list[str]:
        """Resources that no worker has; none where each is somewhere but no worker has all: all of them."""

    def submit(self, job: Job) -> None:
        """Take a job."""

    def events(self, timeout_s: float) -> list[Event]:
        """Events since the last call; waits for the first one."""

    def cancel(self, name: str) -> None:
        """Drop a job; no event of it follows that must be heeded."""


class Watcher:
    """Receiver of what a sweep does; this one shows nothing."""

    def begin(self, total: int, done: int, titles: Mapping[str, str] | None = None) -> None:
        """State how many cells there are, and how many are finished; what people call the others, by name."""

    def started(self, name: str, worker: str) -> None:
        """Name a cell that a worker began."""

    def ended(self, name: str, result: JobResult | None, why: str = "") -> None:
        """Pass on a finished cell, or the reason why it has no result."""

    def say(self, what: str) -> None:
        """State an event that concerns no single cell."""
