# SPDX-License-Identifier: Apache-2.0
"""Call graph of a linked image, calls through pointers included, and the deepest stack that follows.

A call through a pointer is followed only where its targets are known:

- the executor's (`EXECUTORS`): the kernels in the models' step tables, and those that take rows;
- `TVMBackendParallelLaunch`: the tasks that its callers hand to it;
- the start-up code's: the functions of ``.init_array``;
- a server's (`SERVERS`): its own tables, and the callbacks of the application: each function whose
  address is taken outside of the kernels;
- a pointer that the code loads from a constant table: the functions in that table.

Any other has an unknown target, and what calls it has no bound: its pointer may be computed or come from
memory that changes. Exception handlers are called by the CPU only, and where a thread begins by its
scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mlf_sdk.analysis.elf.image import Section, Symbol
from mlf_sdk.analysis.machine.calls import Call, Frame
from mlf_sdk.analysis.machine.registry import Depth, MachineCode, Path

EXECUTORS = frozenset({"mlf_run", "mlf_run_step", "mlf_rows_done"})
"""Functions of the runtime that call a step's kernel; ``mlf_run_step`` calls the clock as well."""

SERVERS = frozenset(
    {
        "mlf_rpc_feed",
        "mlf_rpc_do_advance",
        "mlf_rpc_do_build",
        "mlf_rpc_do_hello",
        "mlf_rpc_do_prepare",
        "mlf_rpc_do_open",
        "mlf_rpc_do_run",
        "mlf_rpc_do_write",
        "mlf_mlperf_feed",
    }
)
"""Functions of the runtime that call the application's callbacks, directly or in static functions."""

LAUNCH = "TVMBackendParallelLaunch"
_STARTUP = frozenset({"mlf_start_main", "z_init_static", "__libc_init_array"})
_ROLES = {
    "executor": EXECUTORS - {"mlf_run_step"},
    "stepper": frozenset({"mlf_run_step"}),
    "launcher": frozenset({LAUNCH}),
    "start": _STARTUP,
    "server": SERVERS,
}
_INIT = ("__init_array_start", "__init_array_end")
_THREADS = frozenset({"z_thread_entry", "bg_thread_main"})  # Zephyr: where a thread begins
_VECTORS = ("mlf_vectors", "_vector_table", "_irq_vector_table", "_sw_isr_table")
_SMALL = 16  # words; of a larger constant object one in so many must be a pointer, or it holds numbers


@dataclass(slots=True)
class _Path:
    bytes: int
    path: Path
    unknown: frozenset[str] = field(default_factory=frozenset)


class CallGraph:
    """The calls of an image."""

    def __init__(
        self, code: MachineCode, steps: Mapping[str, Sequence[tuple[int, int]]], constants: Iterable[str]
    ) -> None:
        """Look at all functions of ``code``.

        Args:
            steps: by model, the addresses where its tables of kernels begin and end.
            constants: objects that hold no pointers, whatever their bytes look like: parameters.
        """
        self.code = code
        self.image = code.image
        self.frames = self._linked()
        self.kernels = {
            name: set[int]().union(*(code.pointers(*span) for span in spans)) for name, spans in steps.items()
        }
        self.tasks, self.unknown_task = self._tasks()
        self.init = code.pointers(*self._init_span())
        self.roles = {a: role for role, names in _ROLES.items() for a in self._runtime(names)}
        self.users = self._users()
        self.plain = self._plain()
        self.tables = self._tables()
        self.escaped = self._escaped([span for spans in steps.values() for span in spans], constants)

    def _linked(self) -> dict[int, Frame]:
        """Find reachable functions: by the entry, pointers in data, calls, and addresses taken."""
        pending = {self.image.entry}
        for section in self._data():
            pending |= self.code.pointers(section.address, section.end)
        for name in _VECTORS:
            table = self.image.find(name)
            pending |= self.code.pointers(table.address, table.end) if table is not None else set()
        result: dict[int, Frame] = {}
        while pending:
            entry = pending.pop()
            frame = self.code.frame(entry) if entry not in result else None
            if frame is not None:
                result[entry] = frame
                pending |= frame.taken | {site.target for site in frame.calls if site.target is not None}
        return result

    def _tasks(self) -> tuple[set[int], bool]:
        launch = self.image.find(LAUNCH)
        handed = {
            site.argument
            for frame in self.frames.values()
            for site in frame.calls
            if launch is not None and site.target == launch.address
        }
        return {task & ~1 for task in handed if task is not None}, None in handed

    def _runtime(self, names: Iterable[str]) -> set[int]:
        """Global functions of these names, and static functions that they alone call."""
        static = {s.address for s in self.image.symbols if s.is_function and s.file}
        result = {s.address for s in self.image.symbols if s.is_function and s.name in names} - static
        callers: dict[int, set[int]] = {}
        for frame in self.frames.values():
            static -= frame.taken
            for site in frame.calls:
                if site.target in static:
                    callers.setdefault(site.target, set()).add(frame.entry)
        while more := {a for a, by in callers.items() if by <= result and a in static} - result:
            result |= more
        return result

    def _init_span(self) -> tuple[int, int]:
        start, end = (self.image.find(name) for name in _INIT)
        return (start.address, end.address) if start is not None and end is not None else (0, 0)

    def _data(self) -> list[Section]:
        return [s for s in self.image.sections if s.in_file and not s.executable]

    def _escaped(self, skipped: list[tuple[int, int]], constants: Iterable[str]) -> set[int]:
        """Functions whose addresses are taken, apart from those whose callers are known."""
        skipped.append(self._init_span())
        for name in (*_VECTORS, *constants):
            symbol = self.image.find(name)
            if symbol is not None:
                skipped.append((symbol.address, symbol.end))
        for symbol in self.image.symbols:
            if self._is_numbers(symbol) or any(symbol in own for own in self.tables.values()):
                skipped.append((symbol.address, symbol.end))
        result: set[int] = set()
        for section in self._data():
            for start, end in _gaps(section.address, section.end, skipped):
                result |= self.code.pointers(start, end)
        for frame in self.frames.values():
            if frame.entry not in self.plain:  # kernels hand on tasks only; the rest are numbers
                result |= frame.taken
        return {a for a in result - self.tasks if self.code.functions[a].name not in _THREADS}

    def _is_numbers(self, symbol: Symbol) -> bool:
        """True when a constant object is no table of pointers, though some of its bytes may look like one.

        Objects of kernels that call through no pointer are none, nor large ones with few pointers.
        """
        if symbol.is_function or not self.image.is_constant(symbol.address):
            return False
        by = self.users.get(symbol.address, [])
        if by and all(frame.entry in self.plain for frame in by):
            return True
        words = (symbol.end - symbol.address) // 4
        return words > _SMALL and len(self.code.pointers(symbol.address, symbol.end)) * _SMALL < words

    def _users(self) -> dict[int, list[Frame]]:
        """By the address of an object: functions that refer to it."""
        users: dict[int, list[Frame]] = {}
        for frame in self.frames.values():
            for address in frame.objects:
                users.setdefault(address, []).append(frame)
        return users

    def _plain(self) -> set[int]:
        """Kernels and all that they call, if none of them but the task launcher calls through a pointer."""
        result: set[int] = set()
        pending = [*self.tasks.union(*self.kernels.values())]
        while pending:
            entry = pending.pop()
            frame = self.frames.get(entry)
            if entry in result or frame is None:
                continue
            if frame.function.name != LAUNCH and any(self.targets(site) is None for site in frame.calls):
                return set()
            result.add(entry)
            pending += [target for site in frame.calls for target in self.targets(site) or ()]
        return result

    def _tables(self) -> dict[int, list[Symbol]]:
        """Constant objects that a single function of the server refers to, by the entry of that function."""
        result: dict[int, list[Symbol]] = {}
        for address, by in self.users.items():
            symbol = self.image.object_at(address)
            is_own = len(by) == 1 and self.roles.get(by[0].entry) == "server"
            if symbol is not None and is_own and self.image.is_constant(address):
                result.setdefault(by[0].entry, []).append(symbol)
        return result

    # ---- the deepest stack ----

    def deepest(self, entry: int, model: str | None = None) -> Depth:
        """The deepest stack from ``entry``; with a model, as far as its own kernels go."""
        kernels = self.kernels.get(model, set()) if model else set().union(*self.kernels.values())
        depth = _Search(self, kernels).depth(entry)
        return Depth(bytes=depth.bytes, path=depth.path, unknown=tuple(sorted(depth.unknown)))

    def reached(self, entry: int) -> tuple[set[int], bool]:
        """Entries of all functions that a call of the one at ``entry`` can lead to.

        Returns:
            The entries, and True when no call below has an unknown target, so that they are all.
        """
        search = _Search(self, set().union(*self.kernels.values()))
        search.depth(entry)
        return set(search.known), not search.unresolved

    def targets(self, site: Call) -> set[int] | None:
        """Functions that a call can lead to by its own code; None when a pointer decides at run time."""
        if site.target is not None:
            return {site.target}
        table = self.image.object_at(site.table) if site.table is not None else None
        section = self.image.section_at(table.address) if table is not None else None
        if table is None or section is None or section.writable or not self.image.is_constant(table.address):
            return None
        return self.code.pointers(table.address, table.end) or None

    def callers(self, entry: int) -> list[str]:
        """Functions that call the one at ``entry`` or take its address, by name."""
        return sorted(
            {
                frame.function.name
                for frame in self.frames.values()
                if entry in frame.taken or any(site.target == entry for site in frame.calls)
            }
        )


class _Search:
    """Depth-first search for the deepest stack; each function is searched once."""

    def __init__(self, graph: CallGraph, kernels: set[int]) -> None:
        self.graph = graph
        self.kernels = kernels
        self.known: dict[int, _Path] = {}
        self.active: list[int] = []
        self.unresolved = False

    def depth(self, entry: int) -> _Path:
        """Compute the deepest stack from ``entry``; never raises: unknown parts are listed in the result."""
        if entry in self.known:
            return self.known[entry]
        frame = self.graph.code.frame(entry)
        if frame is None:
            return _Path(0, (), frozenset({f"no code at 0x{entry:08x}"}))
        self.active.append(entry)
        name = frame.function.name
        best = _Path(frame.bytes, ((name, frame.bytes),))
        unknown = set(frame.unknown)
        for site in frame.calls:
            for target in self._targets(frame, site, unknown):
                if target in self.active:
                    unknown.add(self._cycle(target, by_pointer=site.target is None))
                    continue
                below = self.depth(target)
                unknown |= below.unknown
                if site.depth + below.bytes > best.bytes:
                    best = _Path(site.depth + below.bytes, ((name, site.depth), *below.path))
        self.active.pop()
        best.unknown = frozenset(unknown)
        self.known[entry] = best
        return best

    def _targets(self, frame: Frame, site: Call, unknown: set[str]) -> list[int]:
        graph = self.graph
        known = graph.targets(site)
        if known is not None:
            return sorted(known)
        own = graph.tables.get(frame.entry, [])
        result = {
            "executor": self.kernels,
            "stepper": self.kernels | graph.escaped,
            "launcher": graph.tasks,
            "start": graph.init,
            "server": graph.escaped.union(*(graph.code.pointers(s.address, s.end) for s in own)),
        }
        role = graph.roles.get(frame.entry, "")
        why = ""
        if role not in result:
            why = f"{frame.function.name} calls through a pointer at 0x{site.address:08x}"
        elif role == "launcher" and graph.unknown_task:
            why = f"{LAUNCH} runs a task that is only known at run time"
        if why:
            self.unresolved = True
            unknown.add(f"unknown call: {why}")
        return sorted(result.get(role, ()))

    def _cycle(self, target: int, *, by_pointer: bool) -> str:
        names = [
            self.graph.frames[a].function.name if a in self.graph.frames else hex(a) for a in self.active
        ]
        ring = [*names[self.active.index(target) :], names[self.active.index(target)]]
        said = " -> ".join(ring)
        return f"perhaps recursion, through a pointer: {said}" if by_pointer else f"recursion: {said}"


def _gaps(start: int, end: int, skipped: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Parts of a range that lie outside of others."""
    gaps = []
    for first, last in sorted((max(a, start), min(b, end)) for a, b in skipped if a < end and b > start):
        gaps.append((start, first))
        start = max(start, last)
    return [(first, last) for first, last in (*gaps, (start, end)) if first < last]
