# SPDX-License-Identifier: Apache-2.0
"""The static bound of the stack and the proof that there is no heap, on images made for the purpose."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from mlf_sdk.analysis.elf.read import read_image
from mlf_sdk.analysis.machine.callgraph import EXECUTORS, LAUNCH, SERVERS, CallGraph
from mlf_sdk.analysis.machine.registry import machine_code
from mlf_sdk.analysis.thumb.code import ThumbCode
from mlf_sdk.codegen.lock import Lock
from mlf_sdk.errors import InputError
from mlf_sdk.judge.stack import StackBound, call_graph, linked_allocators, stack_bound
from mlf_sdk.tools.process import run_process

ROOT = Path(__file__).parents[2]
CPUS = {
    "m0": ["-mcpu=cortex-m0"],
    "m4": ["-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"],
    "m55": ["-mcpu=cortex-m55", "-mfloat-abi=hard", "-mfpu=auto"],
}
pytestmark = [pytest.mark.toolchain, pytest.mark.usefixtures("needs_arm")]

FRAMES = r"""
typedef __SIZE_TYPE__ size_t;
void *memcpy(void *to, const void *from, size_t size) {
  for (size_t i = 0; i < size; i++) ((volatile char *)to)[i] = ((const char *)from)[i];
  return to;
}
void *memset(void *to, int value, size_t size) {
  for (size_t i = 0; i < size; i++) ((volatile char *)to)[i] = (char)value;
  return to;
}
__attribute__((noinline)) int use(volatile int *p, int n) { return p[n] + p[0]; }
__attribute__((noinline)) int leaf(int a) { return a * 3; }
__attribute__((noinline)) int small(int a) { volatile int local[10]; local[a] = a; return use(local, a); }
__attribute__((noinline)) int large(int a) { volatile int local[1000]; local[a] = a; return use(local, a); }
__attribute__((noinline)) int choice(int a) {
  volatile int x[20];
  x[0] = a;
  switch (a) {
    case 0: return small(a); case 1: return leaf(a) + use(x, 1); case 2: return 7 * use(x, 2);
    case 3: x[3] = small(4); return use(x, 3); case 4: return use(x, 4) + small(a); case 5: return 9;
    case 6: return use(x, 6) + 1; case 7: return small(1) + small(2) + use(x, 7); default: return -1;
  }
}
__attribute__((noinline)) float floats(const float *p, int n) {
  float a = 0, b = 1, c = 2, d = 3, e = 4, f = 5, g = 6, h = 7, k = 8, l = 9;
  for (int i = 0; i < n; i++) {
    a += p[i] * b; b += a * c; c += b; d += c * p[i]; e += d; f += e * a; g += f; h += g * b; k += h; l += k;
    a += (float)leaf((int)l);
  }
  return a + b + c + d + e + f + g + h + k + l;
}
__attribute__((noinline)) double wide(double a, int n, ...) { return n > 1 ? a * 2.5 : a + leaf(n); }
struct big { int v[64]; };
__attribute__((noinline)) struct big copy(struct big in, int a) { in.v[a & 63] = a; return in; }
__attribute__((noinline)) int copies(int a) { struct big b = {{1}}; b = copy(b, a); return b.v[3]; }
int main(void);
int main(void) {
  float f[4] = {1, 2, 3, 4};
  return small(1) + large(2) + choice(leaf(3)) + (int)floats(f, 4) + (int)wide(2.0, 1) + copies(5);
}
"""


def link(folder: Path, cpu: str, source: str, *flags: str, suffix: str = "c") -> ThumbCode:
    (folder / f"p.{suffix}").write_text(source)
    gcc = "arm-none-eabi-g++" if suffix == "cc" else "arm-none-eabi-gcc"
    argv = [gcc, *CPUS[cpu], "-mthumb", "-g", "-w", "-fstack-usage", "-ffunction-sections", *flags]
    run_process(
        [*argv, "-nostartfiles", "--specs=nano.specs", f"p.{suffix}", "-Wl,-e,main", "-o", "p.elf"],
        cwd=folder,
        timeout_s=60,
    )
    code = machine_code(read_image(folder / "p.elf"))
    assert code is not None
    return code


def graph(code: ThumbCode, **steps: tuple[int, int]) -> CallGraph:
    return CallGraph(code, {name: [span] for name, span in steps.items()}, [])


def said_by_gcc(folder: Path) -> dict[str, int]:
    """Bytes of each function whose frame gcc calls static, by the name in the source."""
    lines = [line.split("\t") for su in folder.glob("*.su") for line in su.read_text().splitlines()]
    return {where.rsplit(":", 1)[1]: int(size) for where, size, kind in lines if kind == "static"}


@pytest.mark.parametrize("cpu", list(CPUS))
@pytest.mark.parametrize("level", ["-O0", "-O2", "-O3", "-Os"])
def test_frames_are_what_the_compiler_says(tmp_path: Path, cpu: str, level: str) -> None:
    """An independent witness: gcc's own -fstack-usage, of every function that it reports."""
    code = link(tmp_path, cpu, FRAMES, level)
    calls = graph(code)
    expected = said_by_gcc(tmp_path)
    found = {f.function.name: f.bytes for f in calls.frames.values() if f.function.name in expected}
    assert len(found) >= 10
    # gcc leaves out what such a function stores of its arguments in registers: at most four words
    pretend = {name: found.pop(name) - expected[name] for name in ("wide", "copy")}
    assert found == {name: expected[name] for name in found}
    assert all(0 < more <= 16 for more in pretend.values())
    assert not any(frame.unknown for frame in calls.frames.values())


@pytest.mark.parametrize("cpu", list(CPUS))
def test_deepest_path(tmp_path: Path, cpu: str) -> None:
    code = link(tmp_path, cpu, FRAMES, "-O1")
    calls = graph(code)
    main = code.image.find("main")
    assert main is not None
    found = calls.deepest(main.address)
    assert [name for name, _ in found.path] == ["main", "large"]
    assert found.bytes == sum(taken for _, taken in found.path) >= 4000
    assert found.unknown == ()


def deepest(code: ThumbCode) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
    main = code.image.find("main")
    assert main is not None
    found = graph(code).deepest(main.address)
    return found.bytes, tuple(name for name, _ in found.path), found.unknown


def test_recursion_is_named(tmp_path: Path) -> None:
    source = """
    int odd(int); int even(int n) { return n == 0 ? 1 : 1 + odd(n - 1); }
    __attribute__((noipa)) int odd(int n) { return n == 0 ? 0 : 2 + even(n - 1); }
    int main(void) { return even(4) + 1; }"""
    _, _, unknown = deepest(link(tmp_path, "m4", source, "-O1"))
    assert unknown == ("recursion: odd -> even -> odd",) or unknown == ("recursion: even -> odd -> even",)


def test_frame_of_variable_size_is_named(tmp_path: Path) -> None:
    source = """
    __attribute__((noipa)) int fill(char *p, int n) { return p[n]; }
    __attribute__((noipa)) int varies(int n) { char room[n]; return fill(room, n - 1); }
    int main(void) { return varies(7) + 1; }"""
    for level in ("-O0", "-O2"):
        _, _, unknown = deepest(link(tmp_path, "m4", source, level))
        assert unknown == ("varies: a frame whose size is only known at run time",)


@pytest.mark.parametrize("cpu", list(CPUS))
@pytest.mark.parametrize("level", ["-O1", "-O2", "-Os"])
def test_address_on_the_stack_that_is_counted_down(tmp_path: Path, cpu: str, level: str) -> None:
    """The address may be any in the end: the way through the loop ends all the same."""
    source = """
    __attribute__((noipa)) int use(const char *p) { return p[0]; }
    int main(void) {
      volatile unsigned start = 1234;
      unsigned n = start;
      char text[12], *p = text + sizeof text;
      do { *--p = (char)('0' + (n & 7)); n >>= 3; } while (n);
      return use(p);
    }"""
    size, path, unknown = deepest(link(tmp_path, cpu, source, level))
    assert unknown == () and path[0] == "main" and 12 < size < 64


def test_calls_through_pointers(tmp_path: Path) -> None:
    """A pointer from a constant table leads to what the table holds; one that is handed on, anywhere."""
    source = """
    typedef int (*fn)(int);
    __attribute__((noipa)) int deep(int a) { volatile int x[100]; x[a] = a; return x[1] + x[a]; }
    __attribute__((noipa)) int flat(int a) { return a + 1; }
    static const fn table[] = {flat, deep};
    __attribute__((noipa)) int chosen(int i) { return table[i & 1](i) + 1; }
    __attribute__((noipa)) int back(int a) { volatile int x[30]; x[a] = a; return x[2]; }
    __attribute__((noipa)) int later(fn f) { return f(3) + 1; }
    int main(void) { return chosen(1) + later(back) + 1; }"""
    code = link(tmp_path, "m4", source, "-O2")
    size, path, unknown = deepest(code)
    assert path == ("main", "chosen", "deep") and size >= 400
    assert len(unknown) == 1 and unknown[0].startswith("unknown call: later calls through a pointer at 0x")
    chosen = code.image.find("chosen")
    assert chosen is not None
    found = graph(code).deepest(chosen.address)
    assert [name for name, _ in found.path] == ["chosen", "deep"] and found.unknown == ()


def test_a_text_that_looks_like_an_address_is_none(tmp_path: Path) -> None:
    """Texts have no symbols: unless the linker says which words it relocated, they may be pointers."""
    source = """
    __attribute__((noipa)) int other(void) { return 1; }
    __attribute__((section(".looks"), used)) int looks_alike(void) { return other(); }
    __attribute__((noipa)) const char *text(int a) { return a ? "bfar=\\4" : "bfar=\\1 pc=\\2"; }
    int main(void) { return text(1)[0] + looks_alike(); }"""
    at = "-Wl,--section-start=.looks=0x43c"
    guessed = graph(link(tmp_path, "m0", source, "-O2", "-Wl,-Ttext=0x8000", at))
    known = graph(link(tmp_path, "m0", source, "-O2", "-Wl,-Ttext=0x8000", at, "-Wl,--emit-relocs"))
    assert [guessed.code.functions[a].name for a in guessed.escaped] == ["looks_alike"]
    assert known.escaped == set()


@pytest.mark.parametrize("pic", [True, False])
def test_an_offset_that_is_added_to_the_pc_is_no_address(tmp_path: Path, pic: bool) -> None:
    """A static function of the server whose address is a number elsewhere has its role still."""
    use = "add r0, pc" if pic else "nop"
    source = f"""
    typedef int (*fn)(int);
    __attribute__((noipa)) int flat(int a) {{ return a + 1; }}
    static const fn table[] = {{flat, flat}};
    static volatile unsigned half;
    __attribute__((noipa)) static int chosen(int i) {{ fn f = (fn)((unsigned)table[i & 1] + half); return f(i) + 1; }}
    __attribute__((noipa)) int mlf_rpc_feed(int i) {{ return chosen(i) + 1; }}
    __attribute__((naked, noipa)) int number(void) {{
      __asm volatile("ldr r0, =%c0 + 1\\n nop\\n {use}\\n bx lr" ::"i"(chosen));
    }}
    int main(void) {{ return mlf_rpc_feed(1) + number(); }}"""
    _, _, unknown = deepest(link(tmp_path, "m4", source, "-O2"))
    assert any("chosen calls through a pointer" in what for what in unknown) != pic


POINTERS = """
typedef int (*fn)(int);
__attribute__((noipa)) int deep(int a) { volatile int x[900]; x[a] = a; return x[1] + x[a]; }
__attribute__((noipa)) int flat(int a) { return a + 1; }
volatile fn other = flat;
static volatile unsigned half;
"""


@pytest.mark.parametrize("cpu", list(CPUS))
@pytest.mark.parametrize(
    "call",
    [
        "unsigned p = (unsigned)deep ^ 0x5a5a5a5au; __asm volatile('' : '+r'(p)); half = p;"
        "int main(void) { return ((fn)(half ^ 0x5a5a5a5au))(3) + other(1); }",
        "fn table[] = {flat, flat}; int main(void) { table[half & 1] = deep; return table[half & 1](3) + 1; }",
        "const fn table[] = {flat, flat};"
        "int main(void) { return ((fn)((unsigned)table[half & 1] + half))(3) + 1; }",
        "const unsigned table[] = {1, 2}; int main(void) { return ((fn)table[half & 1])(3) + 1; }",
        "__attribute__((noipa)) static int refuse(fn f) { return f(3) + 1; }"
        "int main(void) { return refuse(other) + 1; }",
        "__attribute__((noipa)) static int mlf_rpc_feed(fn f) { return f(3) + 1; }"
        "int main(void) { return mlf_rpc_feed(other) + 1; }",
        "__attribute__((noipa)) static int mlf_run(fn f) { return f(3) + 1; }"
        "int main(void) { return mlf_run(other) + 1; }",
    ],
    ids=["computed", "written", "offset", "numbers", "static", "servers-name", "executors-name"],
)
def test_call_through_a_pointer_that_nobody_knows(tmp_path: Path, cpu: str, call: str) -> None:
    """Functions whose addresses escape elsewhere complete no bound: the target may be none of them."""
    if call.startswith("unsigned p"):
        body, main = call.split(";int main(void) {", 1)
        call = f"int main(void) {{ {body}; {main}"
    code = link(tmp_path, cpu, POINTERS + call.replace("'", '"'), "-O2")
    _, _, unknown = deepest(code)
    assert unknown and all("calls through a pointer at 0x" in what for what in unknown)
    main_symbol = code.image.find("main")
    assert main_symbol is not None and not graph(code).reached(main_symbol.address)[1]


def test_table_whose_address_is_an_operand_like_any_other(tmp_path: Path) -> None:
    """Without a scaled index either register may hold the address: a constant is no table then."""
    source = (
        POINTERS
        + """
    const fn table[] = {flat, flat};
    __attribute__((naked, noipa)) int pick(const char *p) {
      __asm volatile("push {lr}\\n ldr r1, =table\\n ldr r3, [r0, r1]\\n blx r3\\n pop {pc}");
    }
    int main(void) { return pick((const char *)half) + table[0](1); }"""
    )
    _, _, unknown = deepest(link(tmp_path, "m4", source, "-O2"))
    assert any("pick calls through a pointer" in what for what in unknown)


def test_call_that_leads_who_knows_where(tmp_path: Path) -> None:
    source = "int main(void) { int (*f)(void) = *(int (**)(void))0x20000000; return f() + 1; }"
    _, _, unknown = deepest(link(tmp_path, "m4", source, "-O1"))
    assert len(unknown) == 1 and unknown[0].startswith("unknown call: main calls through a pointer at 0x")


def test_virtual_calls_and_constructors(tmp_path: Path) -> None:
    source = """
    struct A { virtual int f(int) const; }; struct B : A { int f(int) const override; };
    int A::f(int a) const { return a; }
    int B::f(int a) const { volatile int x[50]; x[a] = a; return x[0]; }
    __attribute__((noipa)) int call(const A &a) { return a.f(1) + 1; }
    B b;
    int main() { return call(b) + 1; }"""
    flags = ["-O2", "-fno-exceptions", "-fno-rtti", "-ffreestanding"]
    _, path, unknown = deepest(link(tmp_path, "m4", source, *flags, suffix="cc"))
    assert path == ("main", "_Z4callRK1A")
    assert len(unknown) == 1 and "_Z4callRK1A calls through a pointer" in unknown[0]


def test_kernels_are_called_by_the_executor_alone(tmp_path: Path) -> None:
    source = """
    typedef int (*fn)(int);
    __attribute__((noipa)) int kernel_a(int a) { volatile int x[100]; x[a] = a; return x[1]; }
    __attribute__((noipa)) int kernel_b(int a) { volatile int x[200]; x[a] = a; return x[1]; }
    const fn a_steps[] = {kernel_a}; const fn b_steps[] = {kernel_b};
    __attribute__((noipa)) int mlf_run(const fn *steps) { return steps[0](1) + 1; }
    __attribute__((noipa)) int other(fn f) { return f(1) + 1; }
    __attribute__((noipa)) int callback(int a) { volatile int x[9]; x[0] = a; return x[0]; }
    int main(void) { return mlf_run(a_steps) + mlf_run(b_steps) + other(callback) + 1; }"""
    code = link(tmp_path, "m4", source, "-O2")
    steps = {}
    for name in "ab":
        table = code.image.find(f"{name}_steps")
        assert table is not None
        steps[name] = (table.address, table.end)
    calls = graph(code, **steps)
    run, other = code.image.find("mlf_run"), code.image.find("other")
    assert run is not None and other is not None
    assert [n for n, _ in calls.deepest(run.address, "a").path] == ["mlf_run", "kernel_a"]
    assert [n for n, _ in calls.deepest(run.address).path] == ["mlf_run", "kernel_b"]
    found = calls.deepest(other.address)
    assert [n for n, _ in found.path] == ["other"] and len(found.unknown) == 1
    assert calls.deepest(run.address).unknown == ()


def test_executors_are_all_known() -> None:
    """Every function of the runtime that calls a step's kernel is one that the call graph knows."""
    found = set()
    for path in [*(ROOT / "crt").rglob("*.c"), *(ROOT / "board_templates").rglob("*.j2")]:
        name = ""
        for line in path.read_text().splitlines() if "tests" not in path.parts else []:
            start = re.match(r"\w[\w\s*]*?(\w+)\(", line)
            name = start.group(1) if start else name
            if re.search(r"(->|\.)kernel\(|stream->compute\(", line):
                found.add(name)
            if re.search(r"\bflambda\(", line):
                assert name == LAUNCH
    assert found == EXECUTORS


def test_servers_are_all_known() -> None:
    """Every function of a server that calls a callback is known, or a static one that these call."""
    found = set()
    callback = r"config->\w+\(|handler->carry_out\(|mlf_ticks_t ticks = "
    for path in [path for name in ("rpc", "mlperf") for path in (ROOT / "crt" / name).glob("*.c")]:
        functions = re.split(r"^(?=\w[\w *]*\()", path.read_text(), flags=re.MULTILINE)[1:]
        bodies = {re.match(r"[\w *]*?(\w+)\(", body)[1]: body for body in functions}  # type: ignore[index]
        calls, pattern = set[str](), callback
        while more := {name for name, body in bodies.items() if re.search(pattern, body)} - calls:
            calls |= more
            static = [name for name in calls if bodies[name].startswith("static")]
            pattern = "|".join([callback, *(rf"(?<!^)\b{name}\(" for name in static)])
        found |= {name for name in calls if not bodies[name].startswith("static")}
    assert found == SERVERS


# ---- the bound of an image ----

LOCK = cast(
    Lock, SimpleNamespace(models=[SimpleNamespace(name=n, c_name=f"c_{n}") for n in ("one", "two", "seq")])
)
IMAGE = """
typedef int (*fn)(int);
__attribute__((noipa)) int use(volatile int *p) { return p[0]; }
#define TAKES(words) { volatile int room[words]; room[0] = 1; return use(room) + 1; }
__attribute__((noipa)) int k_one(int a) TAKES(30)
__attribute__((noipa)) int k_two(int a) TAKES(200)
__attribute__((noipa)) int sequence(int a) TAKES(60)
__attribute__((noipa)) int c_one_kernels(int a) TAKES(2)
__attribute__((noipa)) int in_params(int a) TAKES(900)
__attribute__((noipa)) int callback(int a) TAKES(9)
const fn c_one_steps[] = {k_one}; const int c_one_model[] = {1};
const fn c_two_kernels[] = {k_two};
const fn c_seq_model[] = {sequence};
const fn c_one_params[] = {in_params};
__attribute__((noipa)) int mlf_run(const fn *steps) { return steps[0](1) + 1; }
__attribute__((noipa)) int mlf_rpc_feed(fn f) { return f(1) + 1; }
__attribute__((noipa)) int a_handler(void) TAKES(A_WORDS)
__attribute__((noipa)) int z_handler(void) TAKES(20)
__attribute__((noipa)) int mlf_fault_handler(void) TAKES(500)
int NMI_Handler(void) __attribute__((alias("mlf_fault_handler")));
int ENTRY(void) {
  return mlf_run(c_one_steps) + mlf_run(c_two_kernels) + mlf_run(c_seq_model) + mlf_rpc_feed(callback) + c_one_kernels(1);
}
"""
VECTORS = """
typedef int (*handler)(void);
const handler mlf_vectors[] = {
  (handler)0x20001000, ENTRY, NMI_Handler, mlf_fault_handler,
  z_handler, a_handler, z_handler};
"""


def bound_of(
    folder: Path, cpu: str, source: str, entry: str = "mlf_reset_handler", words: int = 40
) -> StackBound | None:
    """The bound of an image whose functions lie in the order of their names."""
    flags = [f"-DENTRY={entry}", f"-DA_WORDS={words}", f"-Wl,-e,{entry},--sort-section=name"]
    code = link(folder, cpu, source, "-O2", *flags)
    return stack_bound(LOCK, call_graph(LOCK, code))


@pytest.mark.parametrize(
    ("cpu", "exception", "words", "handler"),
    [("m0", 32 + 4, 40, "a_handler"), ("m4", 104 + 4, 10, "z_handler")],
)
def test_bound_of_an_image(tmp_path: Path, cpu: str, exception: int, words: int, handler: str) -> None:
    """The deepest path, an exception at its end, and the deepest handler that returns; each model by its own table."""
    bound = bound_of(tmp_path, cpu, IMAGE + VECTORS, words=words)
    frames = said_by_gcc(tmp_path)
    assert bound is not None and bound.is_complete and bound.entry == "mlf_reset_handler"
    assert [name for name, _ in bound.image.path] == ["mlf_reset_handler", "mlf_run", "k_two"]
    assert bound.image.bytes == sum(frames[name] for name, _ in bound.image.path) >= 800
    assert (bound.handler, bound.handler_bytes) == (handler, frames[handler])
    assert bound.exception_bytes == exception
    assert bound.bytes == bound.image.bytes + exception + frames[handler]
    assert [(model.model, model.depth.path[-1][0], model.depth.bytes) for model in bound.models] == [
        (name, kernel, frames["mlf_run"] + frames[kernel])
        for name, kernel in (("one", "k_one"), ("two", "k_two"), ("seq", "sequence"))
    ]


def test_bound_of_an_image_whose_handlers_have_another_stack(tmp_path: Path) -> None:
    bound = bound_of(tmp_path, "m0", IMAGE, "bg_thread_main")
    assert bound is not None and bound.entry == "bg_thread_main"
    assert (bound.handler, bound.handler_bytes) == ("", 0)
    assert bound.bytes == bound.image.bytes + bound.exception_bytes


def test_bound_of_an_image_that_calls_who_knows_what(tmp_path: Path) -> None:
    bound = bound_of(tmp_path, "m0", IMAGE.replace("mlf_rpc_feed", "other_feed") + VECTORS)
    assert bound is not None and not bound.is_complete
    assert not any(model.depth.unknown for model in bound.models)


def test_bound_of_an_image_without_runs_or_entry(tmp_path: Path) -> None:
    bound = bound_of(tmp_path, "m0", IMAGE.replace("mlf_run", "other_run"))
    assert bound is not None and bound.models == ()
    assert bound_of(tmp_path, "m0", IMAGE, "main") is None


# ---- the heap ----

HEAP = """
#include <stdlib.h>
char room[4096]; char *next = room;
void *_sbrk(int n) { char *p = next; next += n; return p; }
int (*volatile other)(int);
__attribute__((noipa)) int kernel(int n) { return other(n) + 1; }
__attribute__((noipa)) int mlf_run(int n) { return %s; }
__attribute__((noipa)) int app(int n) { return malloc(n) != 0; }
int main(void) { return mlf_run(3) + %s; }
"""


@pytest.mark.parametrize(
    ("run", "main", "callers", "by_model"),
    [
        ("n + 1", "app(4)", ("app",), False),
        ("malloc(n) != 0", "0", ("mlf_run",), True),
        ("kernel(n) + 1", "app(4)", ("app",), None),  # who knows where that leads
    ],
    ids=["application", "model", "unknown"],
)
def test_heap_is_named_with_who_pulls_it_in(
    tmp_path: Path, run: str, main: str, callers: tuple[str, ...], by_model: bool | None
) -> None:
    code = link(tmp_path, "m4", HEAP % (run, main), "-O2", "-Wl,--gc-sections")
    found = {a.name: a for a in linked_allocators(graph(code))}
    assert {"malloc", "_malloc_r", "_sbrk"} <= set(found)
    assert found["malloc"].callers == callers
    assert all(a.used_by_model == by_model for a in found.values() if a.name in ("malloc", "_malloc_r"))


def test_a_heap_without_a_run_is_not_cleared(tmp_path: Path) -> None:
    """Nothing says that no model uses it where the image has no mlf_run."""
    source = (HEAP % ("n + 1", "app(4)")).replace("mlf_run", "other_run")
    found = linked_allocators(graph(link(tmp_path, "m4", source, "-O2", "-Wl,--gc-sections")))
    assert found and {a.used_by_model for a in found} == {None}


def test_no_heap(tmp_path: Path) -> None:
    code = link(tmp_path, "m4", HEAP % ("n + 1", "2"), "-O2", "-Wl,--gc-sections")
    assert linked_allocators(graph(code)) == ()


# ---- images that are none ----


def test_image_of_another_machine(tmp_path: Path, needs_cc: str) -> None:
    (tmp_path / "p.c").write_text("int main(void) { return 0; }")
    run_process([needs_cc, "p.c", "-o", "p.elf"], cwd=tmp_path, timeout_s=60)
    assert machine_code(read_image(tmp_path / "p.elf")) is None


def test_image_cut_anywhere(tmp_path: Path) -> None:
    """One clear error, or what is left of the image: never another exception."""
    link(tmp_path, "m4", FRAMES, "-O1")
    whole = (tmp_path / "p.elf").read_bytes()
    errors = 0
    for length in range(0, len(whole), max(1, len(whole) // 23)):
        (tmp_path / "cut.elf").write_bytes(whole[:length])
        try:
            read_image(tmp_path / "cut.elf")
        except InputError:
            errors += 1
    assert errors > 10
