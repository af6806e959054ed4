# SPDX-License-Identifier: Apache-2.0
"""Linked images, made by the host's compiler, against the promises of a lock."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pytest

from archives import Spec, build, write
from mlf_sdk.analysis.elf.image import Image, Section, Symbol
from mlf_sdk.analysis.elf.read import read_image
from mlf_sdk.analysis.machine.registry import Depth
from mlf_sdk.codegen.lock import Lock
from mlf_sdk.errors import InputError
from mlf_sdk.judge.check import (
    STACK_EXHAUSTED,
    CheckReport,
    ProofRow,
    State,
    check_image,
    heap_row,
)
from mlf_sdk.judge.memorymap import region_use
from mlf_sdk.judge.painted import painted_rows, with_painted
from mlf_sdk.judge.stack import Allocator, ModelStack, StackBound
from mlf_sdk.pipeline.api import load
from mlf_sdk.tools.process import run_process
from planning import plan_project

GUARD = 16
KERNELS = tuple(f"tvmgen_tiny_fused_{name}" for name in ("multiply", "smooth", "add_relu"))


@pytest.fixture(scope="module")
def lock(tmp_path_factory: pytest.TempPathFactory) -> Lock:
    """Arena 72 bytes, reserved 80; parameters 64, each 1; three kernels."""
    path = write(build(Spec()), tmp_path_factory.mktemp("check") / "tiny.tar")
    found = plan_project([load(path)], board="mps2-an386").lock
    assert (found.models[0].arena_bytes, found.models[0].arena_reserved_bytes) == (72, 80)
    assert found.models[0].guard_bytes == GUARD
    ones = hashlib.sha256(b"\1" * 64).hexdigest()
    return msgspec.structs.replace(
        found, models=(msgspec.structs.replace(found.models[0], params_sha256=ones),)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program with the symbols of a project."""

    arena: int | None = 80
    params: int | None = 64
    params_skew: int = 0
    params_byte: int = 1
    kernels: tuple[str, ...] = KERNELS
    stack: bool = False

    def source(self) -> str:
        lines = [f"int {name}(void) {{ return {i}; }}" for i, name in enumerate(self.kernels)]
        lines += [
            "int main(void) { return 0; }",
            "int mlf_run(void) { return 1; }",
            "const int tiny_steps[3] = {1};",
        ]
        lines += ["int helper[5];"]
        if self.arena is not None:
            lines += [f"char tiny_arena[{self.arena + 2 * GUARD}] __attribute__((aligned(16)));"]
        if self.params is not None:
            lines += [
                'asm(".section .rodata.p, \\"a\\"\\n .balign 16\\n"',
                f'".skip {self.params_skew}\\n .global tiny_params\\n .type tiny_params, %object\\n"',
                f'"tiny_params: .skip {self.params}, {self.params_byte}\\n .size tiny_params, {self.params}\\n .text");',
            ]
        if self.stack:
            lines += [
                'asm(".section .bss.s, \\"aw\\", %nobits\\n .global __mlf_stack_bottom, __mlf_stack_top\\n"'
            ]
            lines += ['"__mlf_stack_bottom: .skip 8192\\n __mlf_stack_top: .skip 8\\n .text");']
        return "\n".join(lines) + "\n"

    def link(self, folder: Path, cc: str) -> Image:
        (folder / "p.c").write_text(self.source())
        run_process(
            [cc, "-O1", "-no-pie", "-fno-toplevel-reorder", str(folder / "p.c"), "-o", str(folder / "p.elf")],
            timeout_s=60,
        )
        return read_image(folder / "p.elf")


def rows(report: CheckReport) -> dict[str, ProofRow]:
    return {row.item: row for row in report.rows}


# ---- check ----


@pytest.mark.toolchain
def test_image_that_keeps_its_promises(tmp_path: Path, needs_cc: str, lock: Lock) -> None:
    report = check_image(lock, Program(stack=True).link(tmp_path, needs_cc), [])
    assert report.ok
    found = rows(report)
    arena, params, functions = found["arena"], found["parameters"], found["functions"]
    assert (arena.model, arena.summary, arena.planned, arena.image, arena.measured) == (
        "tiny",
        104,
        72,
        80,
        None,
    )
    assert (params.summary, params.planned, params.image) == (64, 64, 64)
    assert (functions.planned, functions.image) == (3, 3)
    assert not any(row.note for row in report.rows)
    io = found["in + out"]
    assert (io.planned, io.image, io.measured) == (lock.models[0].io_bytes, None, None)
    assert "TVM's own plan" in arena.summary_note and not params.summary_note
    assert report.stack is None and report.allocators is None  # not for a Cortex-M
    assert report.stack_bytes == 0x2000
    assert [item.name for item in report.kernels] == list(KERNELS)
    assert all(item.size_bytes > 0 for item in report.kernels)
    groups = {item.name: item.size_bytes for item in report.groups}
    assert (groups["arena"], groups["parameters"], groups["model tables"]) == (80 + 2 * GUARD, 64, 12)
    assert groups["kernels"] == sum(item.size_bytes for item in report.kernels)
    assert groups["runtime"] > 0
    assert groups["other"] >= 20


@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("program", "item", "image", "note"),
    [
        (Program(arena=96), "arena", 96, ""),
        (Program(arena=72), "arena", 72, ""),
        (Program(arena=None), "arena", None, "symbol tiny_arena is not linked"),
        (Program(params=63), "parameters", 63, ""),
        (Program(params=80), "parameters", 80, ""),
        (Program(params=None), "parameters", None, "the parameters are not linked"),
        (Program(params_byte=2), "parameters", 64, "their values are not those of the model"),
        (Program(params_skew=4), "parameters", 64, "not 16-byte aligned: 0x"),
        (Program(kernels=KERNELS[:1]), "functions", 1, f"not linked: {KERNELS[1]}, {KERNELS[2]}"),
    ],
    ids=lambda value: "" if isinstance(value, Program) else str(value)[:24],
)
def test_image_that_breaks_a_promise(
    tmp_path: Path, needs_cc: str, lock: Lock, program: Program, item: str, image: int | None, note: str
) -> None:
    report = check_image(lock, program.link(tmp_path, needs_cc), [])
    assert not report.ok
    assert [row.item for row in report.rows if row.state != "proven"] == [item]
    row = rows(report)[item]
    assert row.image == image
    assert row.note.startswith(note) if note else row.note == ""


@pytest.mark.toolchain
def test_another_lock_than_the_images(tmp_path: Path, needs_cc: str, lock: Lock) -> None:
    image = Program().link(tmp_path, needs_cc)
    for change in ({"arena_reserved_bytes": 96}, {"params_bytes": 128}, {"arena_symbol": "other_arena"}):
        model = msgspec.structs.replace(lock.models[0], **change)
        report = check_image(msgspec.structs.replace(lock, models=(model,)), image, [])
        assert len([row for row in report.rows if row.state != "proven"]) == 1, change


@pytest.mark.toolchain
def test_rounding_of_the_arena_is_part_of_the_promise(tmp_path: Path, needs_cc: str, lock: Lock) -> None:
    """The plan says 72 and the image 80, its next multiple of 16; nothing else is right."""
    for size in (64, 79, 81, 96):
        assert not check_image(lock, Program(arena=size).link(tmp_path, needs_cc), []).ok


def test_model_without_parameters(tmp_path: Path, lock: Lock) -> None:
    model = msgspec.structs.replace(lock.models[0], params_bytes=0)
    report = check_image(
        msgspec.structs.replace(lock, models=(model,)), image(symbols=(symbol("tiny_arena", 80),)), []
    )
    assert "parameters" not in rows(report)


def test_no_stack_symbols(lock: Lock) -> None:
    assert check_image(lock, image(), []).stack_bytes is None
    for alone in ("__mlf_stack_top", "__mlf_stack_bottom"):
        assert check_image(lock, image(symbols=(symbol(alone, 0),)), []).stack_bytes is None


@pytest.mark.parametrize(("linked", "state"), [(8, "proven"), (7, "failed"), (9, "failed"), (None, "failed")])
def test_states_that_live_between_runs(lock: Lock, linked: int | None, state: str) -> None:
    model = msgspec.structs.replace(lock.models[0], state_bytes=8)
    symbols = () if linked is None else (symbol("tiny_state", linked + 2 * GUARD),)
    found = rows(check_image(msgspec.structs.replace(lock, models=(model,)), image(symbols=symbols), []))
    assert (found["states"].planned, found["states"].image, found["states"].state) == (8, linked, state)
    assert "states" not in rows(check_image(lock, image(symbols=symbols), []))


@pytest.mark.parametrize(("reserved", "note"), [(80, ""), (88, "shared with"), (4096, "shared with")])
def test_an_arena_of_several_models(lock: Lock, reserved: int, note: str) -> None:
    """The smaller model's arena is larger than its plan by more than its alignment."""
    model = msgspec.structs.replace(lock.models[0], arena_reserved_bytes=reserved)
    linked = image(symbols=(symbol("tiny_arena", reserved + 2 * GUARD),))
    arena = rows(check_image(msgspec.structs.replace(lock, models=(model,)), linked, []))["arena"]
    assert arena.state == "proven" and arena.note.startswith(note) and bool(arena.note) == bool(note)


@pytest.mark.parametrize("summary", [71, 73])
def test_a_summary_of_the_archive_that_differs(lock: Lock, summary: int) -> None:
    """StackAddress or above the plan; whose figure it is depends on the executor."""
    notes = []
    for executor in ("graph", "aot", "operator"):
        stated = msgspec.structs.replace(lock.models[0].summary, workspace_bytes=summary)
        model = msgspec.structs.replace(lock.models[0], summary=stated, executor=executor)
        report = check_image(msgspec.structs.replace(lock, models=(model,)), image(), [])
        notes.append(rows(report)["arena"].summary_note)
    assert all(notes) and notes[0] != notes[1] == notes[2]


@pytest.mark.parametrize("compiler", ["Glow", "mlf-sdk", "another"])
def test_a_summary_is_called_tvms_where_tvm_made_it_alone(lock: Lock, compiler: str) -> None:
    stated = msgspec.structs.replace(lock.models[0].summary, workspace_bytes=71)
    model = msgspec.structs.replace(lock.models[0], summary=stated, compiler=compiler)
    note = rows(check_image(msgspec.structs.replace(lock, models=(model,)), image(), []))[
        "arena"
    ].summary_note
    assert note and "TVM" not in note


# ---- the rows' states ----


def depth(unknown: tuple[str, ...] = ()) -> Depth:
    return Depth(bytes=300, path=(("main", 300),), unknown=unknown)


def stack_of(
    monkeypatch: pytest.MonkeyPatch,
    lock: Lock,
    bound: StackBound | None,
    reserved: int,
    allocators: tuple[Allocator, ...] = (),
) -> CheckReport:
    """The check of an image whose code is known to have this bound."""
    symbols = [
        Symbol(name=name, address=address, size_bytes=0, is_function=False, is_object=True, section=".stack")
        for name, address in (("__mlf_stack_bottom", 0x2000), ("__mlf_stack_top", 0x2000 + reserved))
    ]
    linked = image(symbols=tuple(symbols if reserved else ()))
    monkeypatch.setattr("mlf_sdk.judge.check.machine_code", lambda image: object())
    monkeypatch.setattr("mlf_sdk.judge.check.call_graph", lambda *_: object())
    monkeypatch.setattr("mlf_sdk.judge.check.stack_bound", lambda *_: bound)
    monkeypatch.setattr("mlf_sdk.judge.check.linked_allocators", lambda *_: allocators)
    return check_image(lock, linked, [])


def bound_of(unknown: tuple[str, ...] = ()) -> StackBound:
    return StackBound(
        entry="main",
        image=depth(unknown),
        models=(),
        exception_bytes=36,
        handler="tick",
        handler_bytes=8,
    )


@pytest.mark.parametrize(
    ("bound", "reserved", "state", "note"),
    [
        (bound_of(), 344, "proven", ""),
        (bound_of(), 8192, "proven", ""),
        (bound_of(), 343, "failed", "the stack can need more than is reserved"),
        (bound_of(("unknown call: f",)), 8192, "unproven", "no bound: unknown call: f"),
        (bound_of(("unknown call: f",)), 8, "unproven", "no bound: unknown call: f"),
        (bound_of(), 0, "unproven", "the image does not say how much is reserved"),
        (None, 8192, "unproven", "no bound: the image has none of the functions mlf_reset_handler, "),
    ],
)
def test_state_of_the_stack(
    monkeypatch: pytest.MonkeyPatch,
    lock: Lock,
    bound: StackBound | None,
    reserved: int,
    state: str,
    note: str,
) -> None:
    report = stack_of(monkeypatch, lock, bound, reserved)
    row = rows(report)["stack"]
    assert row.state == state and row.note.startswith(note) and bool(row.note) == bool(note)
    assert report.unproven == (("stack",) if state == "unproven" else ())
    assert rows(report)["heap"].state == "proven"


@pytest.mark.parametrize("entry", ["a_reset_handler", "mlf_reset_handler"])
def test_drivers_without_a_bound_leave_a_bare_image_unproven(
    monkeypatch: pytest.MonkeyPatch, lock: Lock, entry: str
) -> None:
    bound = dataclasses.replace(bound_of(("unknown call: f",)), entry=entry)
    assert stack_of(monkeypatch, lock, bound, 8192).unproven == ("stack",)


def test_a_heap_that_a_model_uses_fails_the_check(monkeypatch: pytest.MonkeyPatch, lock: Lock) -> None:
    report = stack_of(monkeypatch, lock, bound_of(), 8192, (allocator(True),))
    row = rows(report)["heap"]
    assert (row.state, row.image, report.ok) == ("failed", 1, False) and report.allocators == (
        allocator(True),
    )


@pytest.mark.parametrize(
    ("unknown", "reserved", "state", "planned", "note"),
    [
        ((), 336, "proven", 336, "of a run's own calls, an exception on top"),
        ((), 400, "proven", 336, "of a run's own calls, an exception on top"),
        ((), 335, "failed", 336, "a run can need more than is reserved"),
        ((), 0, "unproven", 336, "the image does not say how much is reserved"),
        (("recursion: f -> f",), 8192, "unproven", None, "no bound: recursion: f -> f"),
    ],
)
def test_a_run_on_zephyr_has_a_bound_where_drivers_have_none(
    monkeypatch: pytest.MonkeyPatch,
    lock: Lock,
    unknown: tuple[str, ...],
    reserved: int,
    state: str,
    planned: int | None,
    note: str,
) -> None:
    driver = "unknown call: uart_init calls through a pointer at 0x00000100"
    bound = dataclasses.replace(
        bound_of((driver,)),
        entry="bg_thread_main",
        models=(ModelStack(model="tiny", depth=depth(unknown)),),
    )
    report = stack_of(monkeypatch, lock, bound, reserved)
    assert "stack" not in rows(report)
    row = rows(report)["run stack"]
    assert (row.model, row.state, row.planned, row.note) == ("tiny", state, planned, note)
    assert not [row for row in painted_rows(report, None) if row.item == "thread stack"]
    if reserved:  # the mark is the thread's: a row of its own, within what is reserved
        for used, found in ((reserved - 1, "proven"), (reserved, "failed")):
            *others, thread = painted_rows(report, used)
            assert tuple(others) == report.rows and rows(report)["run stack"].measured is None
            assert (thread.item, thread.model, thread.state) == ("thread stack", "", found)
            assert (thread.planned, thread.image, thread.measured) == (None, reserved, used)
            assert "1 calls by pointer in drivers" in thread.note or found == "failed"


@pytest.mark.parametrize(
    ("used", "state", "note"),
    [
        (None, "proven", ""),
        (300, "proven", ""),
        (344, "proven", ""),
        (345, "failed", "measured use exceeds the static bound"),
        (399, "failed", "measured use exceeds the static bound"),
        (400, "failed", STACK_EXHAUSTED),  # to the last byte: who knows how much more
        (401, "failed", STACK_EXHAUSTED),
    ],
)
@pytest.mark.parametrize("item", ["stack", "run stack", "any stack"])
def test_painted_mark_against_bound_and_reservation(
    item: str, used: int | None, state: str, note: str
) -> None:
    """A bound below the mark is a failure, whatever the row is called."""
    row = ProofRow(model="", item=item, planned=344, image=400, state="proven")
    found = with_painted(row, used)
    assert (found.state, found.note, found.measured) == (state, note, used)


@pytest.mark.parametrize(("used", "state"), [(399, "unproven"), (400, "failed")])
def test_a_mark_proves_no_bound(used: int, state: str) -> None:
    row = ProofRow(model="", item="stack", image=400, state="unproven", note="no bound: why")
    assert with_painted(row, used).state == state
    assert with_painted(dataclasses.replace(row, note="unknown call: f"), used).state == state


def allocator(used_by_model: bool | None) -> Allocator:
    return Allocator(name="malloc", callers=("app",), used_by_model=used_by_model)


@pytest.mark.parametrize(
    ("found", "state"),
    [
        ((), "proven"),
        ((allocator(False),), "proven"),
        ((allocator(False), allocator(None)), "unproven"),
        ((allocator(None), allocator(True)), "failed"),
    ],
)
def test_state_of_the_heap(found: tuple[Allocator, ...], state: str) -> None:
    row = heap_row(found)
    assert (row.item, row.state, row.planned, row.image) == ("heap", state, 0, len(found))
    assert bool(row.note) == bool(found)
    assert all(f"{a.name} (from app)" in row.note for a in found)


def test_an_allocator_that_only_a_table_names() -> None:
    assert (
        "calloc (from a table)" in heap_row((Allocator(name="calloc", callers=(), used_by_model=None),)).note
    )


def test_strict(lock: Lock) -> None:
    """Only what failed makes a check fail; if strict, what nothing proves as well."""

    def report(*states: State, strict: bool) -> CheckReport:
        found = tuple(ProofRow(model="", item=state, state=state) for state in states)
        return CheckReport(rows=found, kernels=(), groups=(), regions=(), stack_bytes=None, strict=strict)

    assert report("proven", "unproven", strict=False).ok
    assert not report("proven", "unproven", strict=True).ok
    assert report("proven", strict=True).ok
    assert not report("proven", "failed", strict=False).ok
    assert not report("failed", strict=True).ok
    rest = ProofRow(model="", item="heap", state="unproven")
    assert CheckReport(rows=(rest,), kernels=(), groups=(), regions=(), stack_bytes=None).ok
    assert not check_image(lock, image(), []).strict


# ---- image ----


def symbol(name: str, size: int, address: int = 0x2000_0000) -> Symbol:
    return Symbol(
        name=name, address=address, size_bytes=size, is_function=False, is_object=True, section=".bss"
    )


def image(symbols: tuple[Symbol, ...] = (), sections: tuple[Section, ...] = ()) -> Image:
    return Image(path="app.elf", machine="EM_ARM", symbols=symbols, sections=sections)


def section(name: str, address: int, size: int, load: int | None = None, in_file: bool = True) -> Section:
    return Section(
        name=name,
        address=address,
        load_address=address if load is None else load,
        size_bytes=size,
        in_file=in_file,
    )


def test_regions() -> None:
    """What is copied to RAM at start counts in both memories, what is only cleared in one; so does padding."""
    found = region_use(
        (
            section(".text", 0x0, 100),
            section(".data", 0x2000_0000, 20, load=100),
            section(".bss", 0x2000_0020, 7, load=0x64, in_file=False),
            section(".far", 0x9000_0000, 1),
        ),
        [("flash", 0x0, 1000), ("ram", 0x2000_0000, 54), ("empty", 0x3000_0000, 8)],
    )
    assert [(r.name, r.used_bytes, r.size_bytes) for r in found] == [
        ("flash", 120, 1000),
        ("ram", 39, 54),
        ("empty", 0, 8),
    ]
    assert [r.fill for r in found] == [0.12, 39 / 54, 0.0]
    assert replace(found[2], size_bytes=0).fill == 0.0


def test_ends_of_a_region() -> None:
    sections = (section("a", 0x0F, 1), section("b", 0x10, 2), section("c", 0x1F, 4), section("d", 0x20, 8))
    (found,) = region_use(sections, [("r", 0x10, 0x10)])
    assert found.used_bytes == 0x23 - 0x10
    assert region_use((section("a", 0x0F, 1), section("b", 0x14, 0)), [("r", 0x10, 0x10)])[0].used_bytes == 0


@pytest.mark.toolchain
def test_symbols_of_a_thumb_image(tmp_path: Path, needs_arm: None) -> None:
    """Functions lose the Thumb bit; sections tell where they are loaded from."""
    (tmp_path / "a.c").write_text(
        "int data[3] = {1, 2, 3};\nint cleared[5];\nconst char text[7] = {1};\n"
        "__attribute__((used)) int function(void) { return data[0] + cleared[0]; }\n"
        "__attribute__((used)) static int local(void) { return 1; }\n"
    )
    (tmp_path / "a.ld").write_text(
        "MEMORY { flash (rx) : ORIGIN = 0x1000, LENGTH = 64K\n ram (rw) : ORIGIN = 0x20000000, LENGTH = 4K }\n"
        "SECTIONS { .text : { *(.text*) *(.rodata*) } > flash\n"
        ".data : { *(.data*) } > ram AT> flash\n.bss (NOLOAD) : { *(.bss*) *(COMMON) } > ram }\n"
        "__mlf_mark = 0x1234;\n"
    )
    flags = ["-mcpu=cortex-m4", "-mthumb", "-O1", "-nostdlib", "-nostartfiles", "-Wl,-e,function"]
    run_process(
        [
            "arm-none-eabi-gcc",
            *flags,
            f"-T{tmp_path / 'a.ld'}",
            str(tmp_path / "a.c"),
            "-o",
            str(tmp_path / "a.elf"),
        ],
        timeout_s=60,
    )
    found = read_image(tmp_path / "a.elf")
    assert found.machine == "EM_ARM"
    by_name = {s.name: s for s in found.symbols}
    assert by_name["function"].is_function and by_name["local"].is_function
    assert by_name["function"].address % 2 == 0
    assert by_name["function"].size_bytes > 2
    assert by_name["data"].is_object and by_name["data"].size_bytes == 12
    assert by_name["data"].address >= 0x2000_0000
    assert (by_name["text"].size_bytes, by_name["text"].section) == (7, ".text")
    assert found.find("missing") is None
    assert found.find("data") is by_name["data"]
    assert [s.address for s in found.symbols] == sorted(s.address for s in found.symbols)
    data = next(s for s in found.sections if s.name == ".data")
    text = next(s for s in found.sections if s.name == ".text")
    assert data.address == 0x2000_0000 and data.in_file
    assert text.address <= data.load_address < text.address + 0x1000
    assert not next(s for s in found.sections if s.name == ".bss").in_file
    flash, ram = region_use(found.sections, [("flash", 0x1000, 1 << 16), ("ram", 0x2000_0000, 4096)])
    assert ram.used_bytes == 12 + 20
    assert flash.used_bytes == data.load_address + 12 - 0x1000


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"no elf at all" * 10, b"\x7fELF" + bytes(60)], ids=len)
def test_file_that_is_no_elf(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "app.elf").write_bytes(data)
    with pytest.raises(InputError, match="can't read the image") as caught:
        read_image(tmp_path / "app.elf")
    assert caught.value.where == str(tmp_path / "app.elf")
    assert "mlf-sdk build" in caught.value.hint


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the project is not built") as caught:
        read_image(tmp_path / "app.elf")
    assert caught.value.where == str(tmp_path / "app.elf")


@pytest.mark.toolchain
def test_truncated_anywhere(tmp_path: Path, needs_cc: str) -> None:
    """One clear error, or the image as far as it is whole: never another exception."""
    Program().link(tmp_path, needs_cc)
    whole = (tmp_path / "p.elf").read_bytes()
    errors = 0
    for length in range(0, len(whole), max(1, len(whole) // 41)):
        (tmp_path / "cut.elf").write_bytes(whole[:length])
        try:
            read_image(tmp_path / "cut.elf")
        except InputError:
            errors += 1
    assert errors > 20
