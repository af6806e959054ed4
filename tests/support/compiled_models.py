# SPDX-License-Identifier: Apache-2.0
"""Runs the kernels of a compiled archive on the host, one by one, each tensor in memory of its own."""

from __future__ import annotations

import ctypes
import hashlib
import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import asdict

from ccode import WARNINGS
from mlf_sdk.errors import FaultCollector
from mlf_sdk.frontends.analysis import analyse
from mlf_sdk.frontends.mlf.load import load_model
from mlf_sdk.frontends.mlf.params import parse_params
from mlf_sdk.frontends.mlf.writer import tar_of
from mlf_sdk.ir.model import TensorKind
from mlf_sdk.planner.layout import lay_out

Array = np.ndarray[Any, np.dtype[Any]]
GUARD = 64
END = -GUARD - 1


def overlapped(call: Any, used: list[Array], given: int, output: int, distance: int) -> bytes:
    """Output of a kernel whose output lies ``distance`` bytes before one of its inputs, and over it.

    Args:
        used: memory of all arguments, with guards; left as it is.
        given, output: positions of the input and of the output in it.
    """
    x, y = used[given][GUARD:-GUARD], used[output][GUARD:-GUARD]
    memory = np.full(2 * GUARD + max(distance + x.size, y.size), 0xA5, np.uint8)
    memory[GUARD + distance : GUARD + distance + x.size] = x
    own = [m.copy() for m in used]
    addresses = [m.ctypes.data + GUARD for m in own]
    addresses[output] = memory.ctypes.data + GUARD
    addresses[given] = addresses[output] + distance
    call(*(ctypes.c_void_p(address) for address in addresses))
    assert (memory[:GUARD] == 0xA5).all() and (memory[-GUARD:] == 0xA5).all()
    return memory[GUARD : GUARD + y.size].tobytes()


def pointers_to(used: list[Array]) -> list[ctypes.c_void_p]:
    """Addresses behind the guards of arrays."""
    return [ctypes.c_void_p(m.ctypes.data + GUARD) for m in used]


def writes_the_end(call: Any, used: list[Array]) -> bool:
    """True where a kernel writes the last byte of its workspace, the last of ``used``."""
    own = [m.copy() for m in used]
    own[-1][:] = 0x5A
    call(*(ctypes.c_void_p(m.ctypes.data + GUARD) for m in own))
    return bool(own[-1][END] != 0x5A)


class NoRoomError(Exception):
    """The ring of a streamed input has no room for the next row."""


def stream_rows(call: Callable[[], None], stream: Mapping[str, int], workspace: Array, data: bytes) -> None:
    """Call a kernel with the rows of its input, as many at once as a ring takes, or fewer.

    Args:
        call: the kernel on its arguments.
        workspace: of the kernel.

    Raises:
        NoRoomError: a row is due that does not fit.
    """
    workspace[: stream["counter_bytes"]] = 0
    counters, size, ring = workspace[:8].view(np.uint32), stream["row_bytes"], stream["ring_offset_bytes"]
    random = np.random.default_rng(len(data))
    while counters[0] < stream["rows"]:
        held = int(counters[0] - counters[1])
        free = min(stream["ring_rows"] - held, stream["rows"] - int(counters[0]))
        if free < 1:
            raise NoRoomError
        end = ring + stream["ring_rows"] * size
        workspace[ring + held * size : end] = 0xEE
        at, count = int(counters[0]) * size, int(random.integers(1, free + 1))
        rows = np.frombuffer(data[at : at + count * size], np.uint8)
        workspace[ring + held * size : ring + held * size + rows.size] = rows
        counters[0] += count
        call()
        assert counters[1] <= counters[0] and counters[0] - counters[1] <= stream["ring_rows"]


class KernelRunner:
    """Kernels of an archive as a shared library, called in the order of the graph.

    Each kernel is called again for every overlap that the archive states, at exactly that distance, and must
    give the same output. Where ``exact`` is set, it must use its workspace to the end: plans state exactly what is used.
    """

    def __init__(
        self,
        files: Mapping[str, bytes],
        folder: Path,
        flags: tuple[str, ...] = ("-O2",),
        *,
        exact: bool = False,
    ) -> None:
        self.exact = exact
        metadata = json.loads(files["metadata.json"])
        ((name, self.module),) = metadata["modules"].items()
        self.facts = self.module["mlf_sdk"]
        self.graph = json.loads(files[f"executor-config/graph/{name}.graph"])
        code = {member: data for member, data in files.items() if member.startswith("codegen/host/")}
        for member, data in code.items():
            (folder / member.rpartition("/")[2]).write_bytes(data)
        sources = [member for member in code if member.endswith(".c")]
        # A library of a path that was loaded before would be the old one.
        library = folder / f"{name}-{hashlib.sha256(repr((code, flags)).encode()).hexdigest()[:12]}.so"
        objects = [
            self._object(folder / m.rpartition("/")[2], flags, clean=m in self.facts["clean"])
            for m in sources
        ]
        subprocess.run(["gcc", *flags, "-shared", "-o", library, *objects, "-lm"], check=True)
        self.library = ctypes.CDLL(str(library))
        faults = FaultCollector(name)
        blob = files.get(f"parameters/{name}.params")
        self.params = {p.name: p.array() for p in parse_params(blob, name, faults)} if blob else {}
        self.states = {s: self._guarded(self.params[s].nbytes) for s in self.facts.get("states", ())}
        for state, memory in self.states.items():
            memory[GUARD:-GUARD] = np.frombuffer(self.params[state].tobytes(), np.uint8)

    @staticmethod
    def _object(source: Path, flags: tuple[str, ...], *, clean: bool) -> Path:
        """Object of a source: the compiler's own code is built with the warnings of the runtime."""
        strict = WARNINGS if clean else ["-std=c11", "-Wall", "-Wextra", "-Werror"]
        built = source.with_suffix(".o")
        subprocess.run(["gcc", *flags, *strict, "-fPIC", "-c", "-o", built, source], check=True)
        return built

    @staticmethod
    def _guarded(size: int) -> Array:
        return np.full(size + 2 * GUARD, 0xA5, np.uint8)

    def run(self, inputs: list[Array]) -> list[Array]:
        """Outputs of one run; raises AssertionError when a kernel writes outside of its arrays."""
        graph = self.graph
        pointers = graph["node_row_ptr"]
        types, shapes = graph["attrs"]["dltype"][1], graph["attrs"]["shape"][1]
        given = iter(inputs)
        memory: dict[int, Array] = {}
        for number, node in enumerate(graph["nodes"]):
            entry = pointers[number]
            if node["op"] == "null":
                if node["name"] in self.states:
                    memory[entry] = self.states[node["name"]]
                    continue
                data = self.params[node["name"]] if node["name"] in self.params else next(given)
                memory[entry] = self._guarded(data.nbytes)
                memory[entry][GUARD : GUARD + data.nbytes] = np.frombuffer(data.tobytes(), np.uint8)
                continue
            reads = [pointers[n] + o for n, o, _ in node["inputs"]]
            if node["attrs"]["func_name"] == "__nop":
                memory[entry] = memory[reads[0]]
                continue
            for e in range(entry, pointers[number + 1]):
                memory[e] = self._guarded(int(np.prod(shapes[e])) * np.dtype(types[e]).itemsize)
            used = [memory[e] for e in (*reads, *range(entry, pointers[number + 1]))]
            facts = self.facts["calls"][node["name"]]
            if facts.get("workspace_bytes"):
                used.append(self._guarded(facts["workspace_bytes"]))
            call = getattr(self.library, node["attrs"]["func_name"])
            if stream := facts.get("stream"):
                data = inputs[stream["input"]].tobytes()
                stream_rows(lambda c=call, u=used: c(*pointers_to(u)), stream, used[-1][GUARD:-GUARD], data)
            else:
                call(*pointers_to(used))
            if self.exact and not stream and facts.get("workspace_bytes") and used[-1][END] == 0xA5:
                assert writes_the_end(call, used), (node["name"], "the end of its workspace is not used")
            for m in used:
                assert (m[:GUARD] == 0xA5).all() and (m[-GUARD:] == 0xA5).all(), node["name"]
            for overlap in () if facts.get("writes") else facts.get("overlaps", ()):
                output = len(reads) + overlap["output"]
                got = overlapped(call, used, overlap["input"], output, overlap["distance_bytes"])
                assert got == used[output][GUARD:-GUARD].tobytes(), (node["name"], overlap)
        outputs = []
        for node, position, _ in graph["heads"]:
            entry = pointers[node] + position
            dtype = np.dtype(types[entry])
            size = int(np.prod(shapes[entry])) * dtype.itemsize
            outputs.append(memory[entry][GUARD : GUARD + size].tobytes())
            outputs[-1] = np.frombuffer(outputs[-1], dtype).reshape(shapes[entry])
        return outputs


class PlannedRunner:
    """The kernels of a runner in one arena, as its plan lays tensors and workspaces over each other."""

    def __init__(self, runner: KernelRunner, files: Mapping[str, bytes], folder: Path) -> None:
        archive = folder / "planned.tar"
        archive.write_bytes(tar_of(files))
        self.layout = lay_out(analyse(load_model(archive), None))
        self.library = runner.library
        self.arena = np.full(self.layout.arena_bytes, 0xA5, np.uint8)
        self.params = np.frombuffer(self.layout.params_blob() + b"\0", np.uint8).copy()
        self.states = np.frombuffer(self.layout.state_blob() + b"\0", np.uint8).copy()

    def _memory(self, tensor: int) -> Array:
        kinds = {TensorKind.CONSTANT: self.params, TensorKind.STATE: self.states}
        memory = kinds.get(self.layout.model.root(tensor).kind, self.arena)
        start = self.layout.offset(tensor)
        return memory[start : start + self.layout.model.tensors[tensor].size_bytes]

    def run(self, inputs: list[Array]) -> list[bytes]:
        """Bytes of the outputs of one run."""
        model = self.layout.model
        for tensor, data in zip(model.inputs, inputs, strict=True):
            if tensor == model.streamed:
                continue
            self._memory(tensor)[:] = np.frombuffer(data.tobytes(), np.uint8)
        for step in self.layout.steps:
            addresses = [self._memory(tensor).ctypes.data for tensor in step.arguments]
            for slot in sorted(self.layout.plan.workspace_offsets.get(step.index, {})):
                addresses.append(
                    self.arena.ctypes.data + self.layout.plan.workspace_offsets[step.index][slot]
                )
            function = getattr(self.library, step.symbol)
            if step.stream is None:
                function(*map(ctypes.c_void_p, addresses))
                continue
            at, size = self.layout.plan.workspace_offsets[step.index][0], step.workspaces[0].size_bytes
            stream_rows(
                lambda f=function, a=addresses: f(*map(ctypes.c_void_p, a)),
                asdict(step.stream),
                self.arena[at : at + size],
                inputs[step.stream.input].tobytes(),
            )
        return [self._memory(tensor).tobytes() for tensor in model.outputs]
