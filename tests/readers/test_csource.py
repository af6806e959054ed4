# SPDX-License-Identifier: Apache-2.0
"""C sources: what is found in generated ones, and that no text can hurt."""

import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import Effort
from mlf_sdk.analysis.c import source as csource
from mlf_sdk.analysis.c.parser import _language, parse
from mlf_sdk.analysis.c.source import scan_source
from mlf_sdk.analysis.c.text import read_text, type_text, words_and_calls
from mlf_sdk.analysis.c.unit import EntryArgument, EntryWrapper, Pool, Struct

SHARED = Path(__file__).resolve().parents[3] / "shared" / "mlf"

PACKED_08 = "void* args, void* arg_type_ids, int32_t num_args, void* out_ret_value, void* out_ret_tcode, void* resource_handle"
PACKED_11 = PACKED_08.replace("void* arg_type_ids", "int32_t* arg_type_ids").replace(
    "void* out_ret_tcode", "int32_t* out_ret_tcode"
)
PACKED_PROTOTYPE = (
    "TVMValue* args, int* type_code, int num_args, TVMValue* out_value, int* out_type_code, void* r"
)

GENERATED = """// tvm target: c -keys=cpu
#define TVM_EXPORTS
#include "tvm/runtime/c_runtime_api.h"
#  include <math.h>
#ifdef __cplusplus
extern "C" {
#endif
static const float __attribute__((section(".rodata.tvm"), aligned(16))) constants[2] = {
    0x1.8p-3, -0x1.f8b076p-5 /* } */
};
#ifdef __cplusplus
}  // extern "C"
#endif
#ifdef __cplusplus
extern "C"
#endif
TVM_DLL int32_t net_k(void* args, int32_t* arg_type_ids, int32_t num_args, void* out_ret_value, int32_t* out_ret_tcode, void* resource_handle) {
  if (helper(1) != 0) { return -1; }
  return (int32_t)expf(constants[0]);
}
static int helper(int x) { return x; }
TVM_DLL int32_t net_run(struct net_inputs* inputs);
int32_t counter = 3, table[4] = {1, 2, 3, 4};
extern int elsewhere;
"""


def functions(text: str) -> dict:
    scan = scan_source(text, "a.c")
    return {function.name: function for function in scan.functions}


class TestGenerated:
    scan = scan_source(GENERATED, "lib1.c")

    def test_nothing_is_wrong(self):
        assert self.scan.faults == ()

    def test_includes(self):
        assert self.scan.includes == (
            "tvm/runtime/c_runtime_api.h",
            "math.h",
        )

    def test_functions(self):
        kernel, helper = self.scan.functions
        assert (kernel.name, kernel.return_type, kernel.is_packed, kernel.is_static) == (
            "net_k",
            "int32_t",
            True,
            False,
        )
        assert (helper.name, helper.return_type, helper.is_packed, helper.is_static) == (
            "helper",
            "int",
            False,
            True,
        )
        assert [(p.type, p.name) for p in kernel.parameters][:2] == [
            ("void*", "args"),
            ("int32_t*", "arg_type_ids"),
        ]

    def test_calls(self):
        assert self.scan.functions[0].called == {"helper", "expf"}
        assert self.scan.called == {"helper", "expf"}

    def test_declarations(self):
        (declaration,) = self.scan.declarations
        assert declaration.name == "net_run"
        assert [(p.type, p.name) for p in declaration.parameters] == [("struct net_inputs*", "inputs")]
        assert not declaration.is_packed

    def test_variables_with_external_linkage(self):
        assert self.scan.variables == ("counter", "table")

    def test_macros(self):
        assert self.scan.macros == {"TVM_EXPORTS": ""}


@pytest.mark.parametrize(
    ("parameters", "packed"),
    [
        (PACKED_08, True),
        (PACKED_11, True),
        (PACKED_PROTOTYPE, True),
        ("void* self, void* args, int32_t num_args, void* result", False),
        (PACKED_11 + ", int32_t more", False),
        (PACKED_11.replace("int32_t num_args", "int32_t* num_args"), False),
        ("float* p0, float* T_add", False),
        ("void", False),
        ("", False),
    ],
)
def test_packed_abi_is_told_from_the_parameters(parameters, packed):
    scan = scan_source(f"int32_t f({parameters}) {{ return 0; }}\nint32_t g({parameters});", "a.c")
    assert scan.functions[0].is_packed is packed
    assert scan.declarations[0].is_packed is packed


@pytest.mark.parametrize(
    "text",
    [
        "int (*table[2])(int);",  # a variable
        "int first(void), second(void);",
        "int first(int) (second);",
        "struct { int x; } f(void);",
        "typedef int f(void);",
        "int (f);",
        "if (x);",
    ],
)
def test_what_declares_no_single_function(text):
    assert scan_source(text, "a.h").declarations == ()


def test_parameters_without_names_and_arrays():
    (declaration,) = scan_source(
        "int f(int, const float *x, float y[3][4], unsigned long);", "a.h"
    ).declarations
    assert [(p.type, p.name) for p in declaration.parameters] == [
        ("int", ""),
        ("const float*", "x"),
        ("float[3][4]", "y"),
        ("unsigned long", ""),
    ]


USMP = """
__attribute__((section(".rodata.tvm"), ))
static struct global_const_workspace {
  float a_let[60] __attribute__((aligned(16))); // 240 bytes, aligned offset: 0
} global_const_workspace = {
  .a_let = {
    0x1.8a0036p-3
  },
};// of total size 240 bytes
__attribute__((section(".bss.noinit.tvm"), aligned(16)))
static uint8_t global_workspace[1944];
#include <tvmgen_net.h>
TVM_DLL int32_t tvmgen_net___tvm_main__(void* x,void* y,uint8_t* c,uint8_t* w);
int32_t tvmgen_net_run(struct tvmgen_net_inputs* inputs,struct tvmgen_net_outputs* outputs) {return tvmgen_net___tvm_main__(inputs->x,outputs->y,&global_const_workspace,&global_workspace);
}
"""


def test_heads_that_are_no_functions():
    scan = scan_source("int (*g(void))(int);\nint (*h)(int);\nf(x);\n;\ntypedef int t(int);", "a.c")
    assert [d.name for d in scan.declarations] == []
    assert scan.variables == ("h",)


def test_usmp_pools_and_the_order_of_arguments():
    scan = scan_source(USMP, "lib0.c")
    assert scan.faults == ()
    assert scan.pools == (
        Pool(
            name="global_const_workspace",
            size_bytes=240,
            is_constant=True,
        ),
        Pool(
            name="global_workspace",
            size_bytes=1944,
            is_constant=False,
        ),
    )
    assert scan.variables == ()
    assert scan.wrappers == (
        EntryWrapper(
            name="tvmgen_net_run",
            callee="tvmgen_net___tvm_main__",
            arguments=(
                EntryArgument(group="inputs", name="x"),
                EntryArgument(group="outputs", name="y"),
                EntryArgument(group="&", name="global_const_workspace"),
                EntryArgument(group="&", name="global_workspace"),
            ),
        ),
    )


def test_a_pool_handed_on_as_bytes_is_the_pool_itself():
    (wrapper,) = scan_source(
        "int run(struct in* in) { return f((void*)in->x, (uint8_t *)&global_workspace, (int)in->x); }", "a.c"
    ).wrappers
    assert wrapper.arguments[:2] == (
        EntryArgument(group="in", name="x"),
        EntryArgument(group="&", name="global_workspace"),
    )
    assert wrapper.arguments[2].group == ""  # a value, no address


@pytest.mark.parametrize(
    "body",
    [
        "return f(a) + 1;",
        "return f(a); g();",
        "x = f(a);",
        "return (f)(a);",
        "return f(a), g(b);",
        "return 0;",
    ],
)
def test_what_does_more_than_hand_on_is_no_wrapper(body):
    assert scan_source(f"int h(int a) {{ {body} }}", "a.c").wrappers == ()


def test_a_static_array_without_a_section_is_no_pool():
    assert scan_source("static uint8_t scratch[16];", "a.c").pools == ()
    words = '__attribute__((section(".bss.noinit"))) static uint32_t scratch[16];'
    assert scan_source(words, "a.c").pools == ()


def test_the_grammar_is_loaded_when_a_text_is_parsed() -> None:
    """Once a process, maybe while tests are collected, where coverage is not measured."""
    _language.cache_clear()
    assert scan_source("static uint8_t scratch[16];", "a.c").pools == ()
    assert _language.cache_info().misses == 1


def test_strings_and_comments_hide_what_is_in_them():
    found = functions(
        "const char* s = \"int f(void) {\"; // int g(void) {\n/* int h(void) { */ int k(void) { return '{'; }\n"
    )
    assert set(found) == {"k"}
    assert found["k"].words == {"return"}


def test_comments_and_quotes_inside_skipped_braces():
    text = 'int a[] = { 1 /* } */, \'}\', // }\n 4 / 2, "}\\"", \n#if 1 // }\n 3\n#endif\n};\nint f(void) { return 1; }'
    scan = scan_source(text, "a.c")
    assert (scan.faults, [f.name for f in scan.functions], list(scan.variables)) == (
        (),
        ["f"],
        ["a"],
    )
    assert scan_source("int f(void) { // }", "a.c").functions == ()


def test_a_directive_with_an_open_comment():
    assert scan_source("int f(void) {\n#define A /* }\n}", "a.c").faults != ()
    (fault,) = scan_source("int x;\n#define A /* no end", "a.c").faults
    assert (fault.field, fault.what) == ("line 2", "a comment does not end")
    assert read_text("#define A 'b' // c /* d\nx").directives == [(0, "#define A 'b' // c /* d")]


def test_string_with_escapes_and_zeros():
    scan = scan_source(r'static const R r = {"\t\000a\"b\000{"}; int f(void) { return 0; }', "a.c")
    assert scan.faults == ()
    assert [function.name for function in scan.functions] == ["f"]


def test_spliced_lines_join_words_and_directives():
    scan = scan_source("#define A \\\n  { {\nint f\\\noo(void) { ba\\\r\nr(); }", "a.c")
    assert scan.faults == ()
    assert [function.name for function in scan.functions] == ["foo"]
    assert scan.called == {"bar"}


def test_macros_in_a_body_count_for_the_whole_source():
    found = functions("int f(void) { return g(); }\nint h(void) {\n#define g evil\n return 0; }")
    assert found["f"].macros == {"g"}
    assert found["h"].doubts == ("a preprocessor line is in the body",)


@pytest.mark.parametrize(
    ("text", "member", "doubt"),
    [
        ("int f(void) { x ??/\n y; }", "a.c", "trigraphs"),
        ("int f(void) <% return 0; %>\nint g(void) { return 0; }", "a.c", "trigraphs"),
        ('int f(void) { s = R"(x)"; }', "a.c", "raw strings"),
        ("int f(void) { return 0; }", "a.cc", "not C"),
        ("int f(void) { return @; }", "a.c", "not C"),
        ("int f(void) { return 0; }\nint f(void) { return 0; }", "a.c", "more than once"),
        ("int f(void) {\n#if X\n return 1;\n#endif\n return 0; }", "a.c", "preprocessor"),
        ("int f(void) { x = 1 }", "a.c", "not C"),
        ("int f(void) { return \u00e9; }", "a.c", "not C"),
        ("int f(void) { return 0; \0 }", "a.c", "not C"),
        ("int f(void) { return 0; }\nint (*g(void))(int) { }", "a.c", "line 2 is not understood"),
        ("int f(void) { return 0; }\nEXPORT(1) int x;", "a.c", "line 2 is not understood"),
    ],
)
def test_doubts(text, member, doubt):
    found = scan_source(text, member).functions
    assert doubt in " ".join(found[0].doubts)


def test_pragmas_and_plain_code_raise_no_doubt():
    assert functions("int f(void) {\n  #pragma GCC unroll 3\n return 0; }")["f"].doubts == ()


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("int f(void) {\n  return 0;\n", 1, "a brace does not close"),
        ("\n/* no end", 2, "a comment does not end"),
        ('\n\nconst char* s = "abc', 3, "a string or character literal does not end"),
        ("int f(void) {\n 'x\n }", 2, "a string or character literal does not end"),
        ("}", 1, "a closing brace has no opening one"),
        ('extern "C" {', 1, "a brace does not close"),
        ('int x;\nconst char* s = "abc\n;', 2, "a string or character literal does not end"),
        (
            'int f(void) { return 0; }\nint g(void) { x = "a\n; }\n}',
            2,
            "a string or character literal does not end",
        ),
        ("int f(void) { /* }", 1, "a brace does not close"),
    ],
)
def test_faults_name_the_line(text, line, what):
    faults = scan_source(text, "a.c").faults
    assert [(fault.member, fault.field, fault.what) for fault in faults][:1] == [
        ("a.c", f"line {line}", what)
    ]


def test_faults_are_bounded():
    assert len(scan_source("}" * 5000, "a.c").faults) == 20


LONG = 1 << 15
HOSTILE = {
    "nothing": "",
    "null bytes": "\0" * LONG,
    "replacement characters": "\ufffd" * LONG,
    "one line of digits": "int a[] = {" + "1," * (LONG // 2) + "};",
    "one line of words": "a " * (LONG // 2),
    "one word": "a" * LONG,
    "one number": "1" * LONG,
    "number with exponents": "1e+" * (LONG // 3),
    "open braces": "{" * LONG,
    "closed braces": "}" * LONG,
    "pairs of braces": "{}" * (LONG // 2),
    "named braces": "a{}" * (LONG // 3),
    "structs without end": "struct a {} " * (LONG // 12),
    "initialisers without end": "int a" + " = {}, b" * (LONG // 8),
    "parentheses": "(" * LONG,
    "calls in calls": "int f(void) {" + "g(" * (LONG // 2) + ")" * (LONG // 2) + ";}",
    "attributes": "__attribute__((" * (LONG // 15),
    "semicolons": ";" * LONG,
    "open comments": "/*" * (LONG // 2),
    "slashes": "/ " * (LONG // 2),
    "stars": "/*" + "*" * LONG,
    "open quotes": '"\n' * (LONG // 2),
    "escaped quotes": '\\"' * (LONG // 2),
    "quote with escapes": '"' + '\\"' * (LONG // 2),
    "mixed quotes": "\"'" * (LONG // 2),
    "hashes": "#" * LONG,
    "directives": "#define A\n" * (LONG // 10),
    "directive with quotes": "#" + "'\"" * (LONG // 2),
    "spaces": " " * LONG,
    "spaces in lines": ("    " * 64 + "\n") * (LONG // 257),
    "backslashes": "\\" * LONG,
    "backslashes and spaces": "\\ " * (LONG // 2),
    "commas": "int a" + ",b" * (LONG // 2) + ";",
    "empty functions": "int f(void) {}\n" * (LONG // 15),
    "deep blocks": "int f(void) {" + "{" * (LONG // 2) + "}" * (LONG // 2) + "}",
    "linkage blocks": 'extern "C" {' * (LONG // 12),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_read_in_linear_time(name):
    with Effort() as effort:
        scan_source(HOSTILE[name], "a.c")
    assert effort.calls < 100 * len(HOSTILE[name]) + 1000  # 24; what is quadratic takes thousands


# Texts on which the time of the parser grows faster than their size.
SLOW = {
    "casts or operands": "int f(void) { return " + "a * (b) + " * 25_000 + "1; }",
    "calls in calls": "int f(void) { " + "g(" * 75_000 + ")" * 75_000 + "; }",
    "functions without a head": "a{}" * 75_000,
    "words": "a " * 125_000,
    "mixtures": "int f(int){ typedef (a)(b)*c[d]{e};;, sizeof (x) y -> . if else ) ( } " * 3_500,
}


@pytest.mark.parametrize("name", SLOW)
def test_long_broken_text_is_read_or_given_up(name):
    """Without the parser's limit, the first would take hours at four times its length."""
    text = SLOW[name]
    root = parse(text, base_seconds=0.2)
    assert root is None or root.end_byte <= len(text)


def test_a_source_that_takes_too_long_is_a_fault(monkeypatch):
    monkeypatch.setattr(csource, "parse", lambda code: parse(code, base_seconds=-10))
    scan = scan_source("int f(void) { return 0; }\n" * 1000, "a.c")
    assert [fault.what for fault in scan.faults] == ["the source takes too long to read"]


def test_a_megabyte_on_one_line():
    scan = scan_source("int f(void) { return " + "g(1)+" * (1 << 18) + "0; }", "a.c")
    assert scan.faults == ()
    assert [function.called for function in scan.functions] == [{"g"}]
    (statement,) = scan.functions[0].body.parts
    assert [(value.kind, value.text) for value in statement.values] == [("unknown", "call")]


FRAGMENTS = st.sampled_from(
    [
        "int f(void) {",
        "}",
        "{",
        ";",
        '"',
        "'",
        "/*",
        "*/",
        "//",
        "\n",
        "#define a ",
        "\\\n",
        "(",
        ")",
        "[",
        "]",
        "struct s ",
        "= ",
        "extern ",
        '"C" ',
        "static ",
        "x",
        ", ",
        "1e+5",
        "__attribute__((",
        "return ",
        "\\",
        "#",
    ]
)


@given(st.one_of(st.text(max_size=200), st.lists(FRAGMENTS, max_size=60).map("".join)))
@settings(max_examples=300, deadline=None)
def test_any_text_gives_a_scan_whose_bodies_can_be_walked(text):
    source = read_text(text)
    assert len(source.code) == len(source.original)
    assert source.code.count("\n") == source.original.count("\n")
    for function in scan_source(text, "a.c").functions:
        for statement in function.body.walk():
            assert all(part.depth <= 91 for value in statement.values for part in value.walk())


def test_words_outside_of_literals():
    text = "int a = f (1) + g(\"h()\") + 0x1fp-3 - .5e3f * s.x + 'c';"
    assert words_and_calls(text) == (frozenset(["int", "a", "f", "g", "s", "x"]), {"f", "g"})


def test_one_spelling_of_types():
    assert type_text("const   float  *") == "const float*"
    assert type_text("float * [ 3 ][4]") == "float*[3][4]"
    assert type_text("int ( * ) ( int )") == "int(*)(int)"


def test_a_quote_behind_a_backslash_does_not_end_a_literal():
    assert read_text(r'"a\"b" c').problems == []
    assert read_text(r'"a\"').problems == [(0, "a string or character literal does not end")]


def test_a_division_in_a_directive_is_no_comment():
    text = "#define HALF(x) ((x) / 2) /* more\nthan one line */ + 1\nint y; a # b"
    source = read_text(text)
    assert source.directives == [(0, text.partition("\nint")[0])]
    assert source.code.split() == ["int", "y;", "a", "#", "b"]


def test_tables_of_numbers_are_not_read_but_names_in_them_are():
    table = "{" + ", ".join(["-0x1.8p-3f", "12"] * 40) + "}"
    assert read_text(f"int a[] = {table};").code.split() == ["int", "a[]", "=", "{", "};"]
    with_name = table.replace("12", "p0")
    assert read_text(f"int a[] = {with_name};").code == f"int a[] = {with_name};"


def test_structs_and_what_macros_stand_for():
    scan = scan_source("#define N_SIZE 4 /* bytes */\nstruct a { int x, *y; float z[3]; };\nstruct b;", "a.h")
    assert scan.structs == (Struct(name="a", fields=("x", "y", "")),)
    assert scan.macros == {"N_SIZE": "4 /* bytes */"}


def test_an_expression_that_is_too_long_is_unknown():
    (statement,) = functions("void f(void) { g(" + "a, " * 20_001 + "b); }")["f"].body.parts
    assert [(value.kind, value.text) for value in statement.values] == [("unknown", "call")]


def test_a_function_that_returns_a_pointer():
    (found,) = functions("const float *f(void) { return 0; }").values()
    assert (found.name, found.return_type) == ("f", "const float*")


def test_macros_before_a_function():
    found = functions("__STATIC_FORCEINLINE int f(void) { return 0; }\nint MY_TVM_DLL(void) { return 0; }")
    assert (found["f"].is_static, found["f"].return_type, found["f"].doubts) == (True, "int", ())
    assert not found["MY_TVM_DLL"].is_static


def members(archive: Path, suffixes: tuple[str, ...]) -> dict[str, str]:
    with tarfile.open(archive) as tar:
        return {
            member.name: tar.extractfile(member).read().decode("utf-8", "replace")
            for member in tar
            if member.isfile() and "/codegen/" in member.name and member.name.endswith(suffixes)
        }


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="the real archives are not there: ../shared/mlf")
class TestRealArchives:
    archives = tuple(sorted(SHARED.rglob("*.tar")))

    def test_every_source_is_read_without_fault(self):
        count = 0
        for archive in self.archives:
            for name, text in members(archive, (".c", ".h")).items():
                scan = scan_source(text, name)
                assert scan.faults == (), archive.name
                doubted = [f.name for f in scan.functions if f.doubts and not f.identifiers & f.macros]
                assert not doubted, archive.name
                heads = [
                    line for line in text.splitlines() if line.startswith("TVM_DLL") and line.endswith("{")
                ]
                names = {function.name for function in scan.functions}
                assert all(any(f" {name}(" in head for name in names) for head in heads), archive.name
                count += len(scan.functions)
        assert count > 900

    def test_pools_of_usmp_archives(self):
        sizes = {}
        for archive in self.archives:
            if "usmp" in archive.name:
                for name, text in members(archive, ("_lib0.c",)).items():
                    scan = scan_source(text, name)
                    sizes[archive.name.split("-")[0]] = {p.name: p.size_bytes for p in scan.pools}
                    (wrapper,) = scan.wrappers
                    assert [a.group for a in wrapper.arguments][-2:] == ["&", "&"]
        assert sizes["resnet8_int8"] == {"global_const_workspace": 160228, "global_workspace": 102528}
        assert sizes["ad_int8"]["global_workspace"] == 165408
        assert sizes["two_in_two_out"] == {"global_const_workspace": 720, "global_workspace": 5232}

    def test_argument_order_of_an_aot_entry(self):
        texts = members(SHARED / "two_in_two_out-aotc-tvm0.11.1.tar", ("_lib0.c",))
        ((name, text),) = texts.items()
        (wrapper,) = scan_source(text, name).wrappers
        assert wrapper.callee == "tvmgen_two_in_two_out___tvm_main__"
        assert [(a.group, a.name) for a in wrapper.arguments] == [
            ("inputs", "image_0"),
            ("inputs", "aux_vec"),
            ("outputs", "output0"),
            ("outputs", "output1"),
        ]

    def test_three_megabytes_of_constants_are_fast(self):
        texts = members(SHARED / "ad_int8-aot-tvm0.11.1.tar", ("_lib2.c",))
        ((name, text),) = texts.items()
        assert len(text) > 2_600_000
        with Effort() as effort:
            scan_source(text, name)
        assert effort.calls < len(text) / 10
