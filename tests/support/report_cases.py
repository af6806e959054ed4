# SPDX-License-Identifier: Apache-2.0
"""Findings of real plans and of images drawn up here, and pages taken apart."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import numpy as np

from mlf_sdk.analysis.elf.image import Image, Section, Symbol
from mlf_sdk.analysis.elf.info import FirmwareInfo
from mlf_sdk.codegen.lock import Lock
from mlf_sdk.compiler.options import CompileOptions
from mlf_sdk.frontends.compiled import compiling_frontend
from mlf_sdk.judge.check import check_image
from mlf_sdk.judge.compare import Comparison, OutputDifference
from mlf_sdk.judge.layerfacts import file_facts
from mlf_sdk.judge.memorymap import Contents, memory_maps
from mlf_sdk.judge.profile import Costs, Profile, step_rows, works_of
from mlf_sdk.judge.witnesses.witness import ModelFile
from mlf_sdk.pipeline.api import load
from mlf_sdk.pipeline.report import Findings
from mlf_sdk.pipeline.results import MemoryFigures, RunReport
from mlf_sdk.pipeline.sources import KernelSource
from model_cases import Net
from planning import examine, plan_project

RAM = 0x20000000
LAYERS = Path(__file__).parents[2] / "examples" / "layers" / "layers.tflite"


def long_net(path: Path, steps: int) -> Path:
    """A chain with a branch around every fourth step."""
    net = Net(name="long")
    before = last = net.input("x", (1, 64))
    for number in range(steps):
        inputs = [last, before] if number % 4 == 3 else [last]
        body = "in0[i] + in1[i]" if len(inputs) == 2 else "in0[i] * 2.0f"
        before, last = last, net.call(f"fused_nn_conv2d_add_fixed_point_multiply_{number}", inputs, body)
    return net.write(path, last)


def image_of(lock: Lock) -> Image:
    """An image with every symbol that the lock promises, packed as a linker would."""
    symbols: list[Symbol] = []

    def add(name: str, address: int, size: int, section: str, *, function: bool = False) -> int:
        symbols.append(
            Symbol(
                name=name,
                address=address,
                size_bytes=size,
                is_function=function,
                is_object=not function,
                section=section,
            )
        )
        return address + size

    model = lock.models[0]
    add("mlf_vectors", 0, 64, ".vectors")
    cursor = add("mlf_run", 64, 116, ".text", function=True)
    for index, name in enumerate(model.kernel_symbols):
        cursor = add(name, cursor + 4 * (index % 2), 200 + 4 * index, ".text", function=True)
    cursor = add("memcpy", cursor, 308, ".text", function=True)
    text, rodata = (
        Section(name=".text", address=64, load_address=64, size_bytes=cursor - 64, in_file=True),
        1 << 16,
    )
    cursor = add(f"{model.c_name}_steps", rodata, 16 * len(model.steps), ".rodata")
    if model.params_bytes:
        cursor = add(f"{model.c_name}_params", -(-cursor // 16) * 16, model.params_bytes, ".rodata")
    sections = [
        Section(name=".vectors", address=0, load_address=0, size_bytes=64, in_file=True),
        text,
        Section(
            name=".rodata", address=rodata, load_address=rodata, size_bytes=cursor - rodata + 40, in_file=True
        ),
        Section(name=".stack", address=RAM, load_address=RAM, size_bytes=8192, in_file=False),
        Section(name=".data", address=RAM + 8192, load_address=cursor + 40, size_bytes=96, in_file=True),
    ]
    arena = RAM + 8288
    add(model.arena_symbol, arena, model.arena_reserved_bytes + 2 * model.guard_bytes, ".noinit")
    sections.append(
        Section(
            name=".noinit",
            address=arena,
            load_address=arena,
            size_bytes=model.arena_reserved_bytes + 2 * model.guard_bytes + 24,
            in_file=False,
        )
    )
    return Image(path=Path("app.elf"), machine="EM_ARM", symbols=tuple(symbols), sections=tuple(sections))


def findings(archive: Path, *, was_run: bool = True) -> Findings:
    """What would be found on an emulated Cortex-M4."""
    plan = plan_project([load(archive)], board="mps2-an386")
    model = msgspec.structs.replace(plan.lock.models[0], params_sha256="")  # the image has symbols, no bytes
    lock = msgspec.structs.replace(plan.lock, models=(model, *plan.lock.models[1:]))
    image, regions = image_of(lock), plan.board.regions
    contents = Contents(lock, image)
    check = check_image(lock, image, regions)
    run = None
    if was_run:
        same = OutputDifference(name="output", max_abs=0.0, max_rel=0.0, mismatches=0, elements=8)
        run = RunReport(
            model=model,
            board=plan.board,
            folder=Path("app"),
            build_id="",
            outputs={},
            inferences=1,
            compare=None,
            twin=Comparison(outputs=(same,)),
            twin_note="",
            accuracy=None,
            memory=MemoryFigures(
                exact=True,
                arena_bytes=model.arena_bytes,
                lower_bound_bytes=model.lower_bound_bytes,
                arena_high_water_bytes=model.arena_bytes,
                params_bytes=model.params_bytes,
                stack_bytes=8192,
                stack_high_water_bytes=948,
            ),
            check=check,
            instructions=1_234_600,
            instructions_resolution=120,
            ticks=0,
            ticks_hz=0,
            build_seconds=0.0,
            console="",
        )
    return Findings(
        lock=lock,
        model=model,
        board=plan.board,
        check=check,
        image=image,
        memories=memory_maps(contents, image, regions),
        code=contents.items(),
        firmware=FirmwareInfo(
            machine="ARM",
            elf_class=32,
            kind="executable",
            build_id="ab" * 20,
            provenances=(),
            toolchain=("GCC: 12.2.1",),
            sections=(),
        ),
        run=run,
        not_run="" if was_run else "it was not asked for",
        profile=profile_of(lock) if was_run else None,
        no_profile="" if was_run else "it was not asked for",
        examination=examine(archive),
    )


def layer_findings(archive: Path) -> Findings:
    """Findings about an archive compiled from `LAYERS`, with the file's layers and a source for each kernel."""
    found = findings(archive)
    file = ModelFile(LAYERS, compiling_frontend(LAYERS), CompileOptions())
    inputs = [np.zeros(file.graph.values[n].shape, file.graph.values[n].dtype) for n in file.graph.inputs]
    symbols = dict.fromkeys(step.symbol for step in found.model.steps)
    kernels = {
        name: KernelSource(
            path="model/layers/kernels/lib0.c", line=7, text="a < b && c", is_cut=False, calls=("tile",)
        )
        for name in symbols
    }
    kernels["tile"] = KernelSource(path="lib0.c", line=1, text="tile()", is_cut=True, calls=())
    return dataclasses.replace(found, layers=file_facts(file, inputs), kernels=kernels)


def profile_of(lock: Lock) -> Profile:
    """A profile whose step k costs (k + 1) * 1000."""
    model = lock.models[0]
    rows = tuple((index + 1) * 1000 for index in range(len(model.steps)))
    costs = Costs(totals=(sum(rows) + 77,), names=tuple(s.name for s in model.steps), rows=(rows,))
    return Profile(
        model=model.name,
        archive_sha256=model.archive_sha256,
        board=lock.board,
        rows="steps",
        unit="instructions",
        hz=0,
        runs=1,
        steps=step_rows(costs, works_of(model)),
        overhead=77,
        total=sum(rows) + 77,
        resolution=0,
        method="counted",
    )


# ---- pages ----

VOID = {"meta", "br", "hr", "img", "link", "input", "wbr"}


@dataclass
class Element:
    """An element of a page."""

    tag: str
    attributes: dict[str, str]
    parent: Element | None = None
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def find(self, tag: str) -> list[Element]:
        """Elements with this tag, below this one."""
        found = [child for child in self.children if child.tag == tag]
        for child in self.children:
            found += child.find(tag)
        return found

    def all(self) -> list[Element]:
        """All elements below this one."""
        return [e for child in self.children for e in (child, *child.all())]

    def words(self) -> str:
        """All text in it."""
        return self.text + "".join(child.words() for child in self.children)


class Page(HTMLParser):
    """A page as a tree; what is not closed in its place, or closed twice, is an error."""

    def __init__(self, data: bytes) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self._open = self.root
        self.comments: list[str] = []
        self.feed(data.decode())
        self.close()
        assert self._open is self.root, f"<{self._open.tag}> is not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice: {names}"
        element = Element(tag, {name: value or "" for name, value in attrs}, self._open)
        self._open.children.append(element)
        if tag not in VOID:
            self._open = element

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.tag == tag, f"</{tag}> closes <{self._open.tag}>: {self.getpos()}"
        assert self._open.parent is not None
        self._open = self._open.parent

    def handle_data(self, data: str) -> None:
        # Text stands in its place among the children: as an element of its own.
        self._open.children.append(Element("#text", {}, self._open, text=data))

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)


def zeros(*shape: int) -> np.ndarray:
    """A constant."""
    return np.zeros(shape, dtype=np.float32)
