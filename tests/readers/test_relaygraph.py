# SPDX-License-Identifier: Apache-2.0
"""Relay text as a graph: what is read, what is refused, and the types that are filled in."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlf_sdk.frontends.mlf.relay.graph import (
    MAX_FIELDS,
    NodeKind,
    RelayGraph,
    TensorType,
    Use,
    parse_relay_graph,
)
from mlf_sdk.frontends.mlf.relay.shapes import complete_types
from mlf_sdk.frontends.mlf.relay.text import UnreadableRelayError, split_list, strip_comments


def main(body: str, head: str = "%x: Tensor[(1, 4), float32]", result: str = "") -> RelayGraph:
    return parse_relay_graph(f"def @main({head}){result} {{\n{body}\n}}\n")


def shapes(graph: RelayGraph) -> list[tuple[int, ...] | None]:
    return [t.shape if t is not None else None for types in complete_types(graph) for t in types]


def test_calls_tuples_and_names() -> None:
    graph = main(
        '  %0 = nn.dense(%x, %fc.weight, units=None, out_dtype="a,(b") /* ty=Tensor[(1, 6), float32] */;\n'
        "  %1 = (%0, %image:0);\n"
        "  %2 = concatenate(%1, axis=1);\n"
        "  (%2, %1.1, %0)",
        "%x: Tensor[(1, 4), float32], %fc.weight: Tensor[(6, 4), float32], %image:0: Tensor[(1, 2), int8]",
    )
    assert [node.name for node in graph.nodes] == ["x", "fc.weight", "image:0", "nn.dense", "concatenate"]
    assert graph.arguments == (0, 1, 2)
    dense, concatenate = graph.nodes[3:]
    assert dense.args == (Use(0), Use(1))
    assert dense.attributes == {"units": "None", "out_dtype": '"a,(b"'}
    assert dense.types[0] is not None
    assert dense.types[0].shape == (1, 6)
    assert concatenate.args == (Use(3), Use(2))
    assert concatenate.has_tuple
    assert not dense.has_tuple
    assert graph.results == (Use(4), Use(2), Use(3))


def test_results_of_several_values() -> None:
    told = main("%0 = split(%x, axis=1) /* ty=(Tensor[(1, 2), int8], Tensor[(1, 2), int8]) */;\n(%0.1, %0.0)")
    assert told.results == (Use(1, 1), Use(1, 0))
    assert len(told.nodes[1].types) == 2
    untold = main("%0 = split(%x, axis=1);\n%1 = %0.1;\nnn.relu(%1)")
    assert untold.nodes[1].types == (None, None)
    assert untold.nodes[2].args == (Use(1, 1),)


def test_literals_and_their_types() -> None:
    graph = main(
        "%0 = add(%x, 2f /* ty=float32 */);\n%1 = multiply(%0, meta[relay.Constant][3] /* ty=Tensor[(4), float32] */);\nclip(%1, a_min=-128f, a_max=1e+3f)"
    )
    literals = [node for node in graph.nodes if node.kind is NodeKind.LITERAL]
    assert [node.name for node in literals] == ["2f", "meta[relay.Constant][3]"]
    assert literals[0].types == (None,)
    assert literals[1].types[0] is not None
    assert literals[1].types[0].shape == (4,)
    assert graph.nodes[-1].attributes == {"a_min": "-128f", "a_max": "1e+3f"}


def test_odd_but_whole() -> None:
    graph = main('%0 = zeros();\n%1 = (%0, 1f);\n%2 = concatenate(%1, a="\\"),");\n\n%2')
    assert graph.nodes[1].args == ()
    assert graph.nodes[3].args == (Use(1), Use(2))
    assert graph.nodes[3].attributes == {"a": '"\\"),"'}
    open_end = parse_relay_graph("def @main(%x: Tensor[(2), int8]) {\n  nn.relu(%x)\n")
    assert open_end.results == (Use(1),)


def test_long_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlf_sdk.frontends.mlf.relay.graph.MAX_TEXT", 9)
    with pytest.raises(UnreadableRelayError, match="more than 9 characters"):
        main("nn.relu(%x)")


def test_the_head_tells_types_of_results() -> None:
    graph = main("nn.mystery(%x)", result=" -> Tensor[(7, 3), int32]")
    assert graph.nodes[1].types[0] == TensorType(dtype=graph.nodes[1].types[0].dtype, shape=(7, 3))
    assert graph.nodes[1].types[0].elements == 21
    assert graph.nodes[1].types[0].dtype.name == "int32"
    told = main("nn.mystery(%x) /* ty=Tensor[(7), int8] */", result=" -> Tensor[(9), int8]")
    assert told.nodes[1].types[0] is not None
    assert told.nodes[1].types[0].shape == (7,)


def test_a_version_line_and_metadata_around_main() -> None:
    text = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(2), int8], output_tensor_names=["a, b"]) {\n  nn.relu(%x)\n}\n\n#[metadata]\n{\n  "root": 1\n}\n'
    assert parse_relay_graph(text).results == (Use(1),)


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("nn.relu(%y)", "not defined above"),
        ("%0 = nn.relu(%0);\nnn.relu(%0)", "not defined above"),
        ("%0 = nn.relu(%x);\n%0 = nn.relu(%x);\nnn.relu(%0)", "defined twice"),
        ("%0 = nn.relu(%x)\nnn.relu(%0)", "does not end in its line"),
        ("%0 = nn.relu(%x);", "no result"),
        ("nn.relu(%x)\nnn.relu(%x)", "follows the result"),
        ("nn.relu(%x", "brackets"),
        ("nn.relu(%x])", "brackets"),
        ("nn.relu(%x) + 1", "followed by"),
        ("nn.relu(%x /* no end", "comment does not end"),
        ('nn.relu(%x, a="no end)', "string does not end"),
        ("let %a = nn.relu(%x)", "not a call"),
        ("if (%x) {", "not a call"),
        ("%0 = fn (%a) { nn.relu(%a) };\n%0(%x)", "not a call"),
        ("nn.relu(free)", "not a value"),
        ("%x.0", "no tuple"),
        ("%0 = (%x, %x);\nnn.relu(%0.2)", "has no field 2"),
        ("%0 = (%x, %x);\n%1 = (%0, %x);\nconcatenate(%1)", "tuple is inside"),
        ("%0 = (%x, %x);\ngather(%0, %x)", "a tuple and something else"),
        ("concatenate(" + "%x, " * MAX_FIELDS + "%x)", "more than"),
        ("nn.relu(%x) /* ty=Tensor[(1, 4), float33] */", "not a tensor type"),
        ("nn.relu(%x) /* ty=Tensor[(99999999, 99999999), int8] */", "too large"),
    ],
)
def test_what_is_not_a_flat_main_is_refused(body: str, what: str) -> None:
    with pytest.raises(UnreadableRelayError, match=what):
        main(body)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no main function"),
        ("def @other() {\n}", "no main function"),
        ("def @main(%x: Tensor[(1), int8]) {\n%x\n}\ndef @f() {\n}", "other functions"),
        ("def @main(%x: Tensor[(1), int8])\n{\n%x\n}", "does not end in its line"),
        ("def @main(%x: int8) {\n%x\n}", "not a tensor"),
        ("def @main(%x: (Tensor[(1), int8],)) {\n%x\n}", "not a tensor"),
        ("def @main(%x: Tensor[(1), int8], %x: Tensor[(1), int8]) {\n%x\n}", "two arguments"),
    ],
)
def test_heads_that_are_refused(text: str, what: str) -> None:
    with pytest.raises(UnreadableRelayError, match=what):
        parse_relay_graph(text)


def test_lists_and_comments() -> None:
    found = split_list('a /* b, c */, [1, 2], "x)" ) /* ty=1 */ rest', 9, closing=True)
    assert [(piece.text, piece.comment) for piece in found] == [("a", "b, c"), ("[1, 2]", ""), ('"x)"', "")]
    assert (found.comment, found.rest) == ("ty=1", "rest")
    assert strip_comments('a /* b */ "/* c */"') == 'a  "/* c */"'
    assert split_list("", 1).items == ()


@pytest.mark.parametrize(
    ("call", "argument", "shape"),
    [
        (
            "nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=8, kernel_size=[3, 3])",
            "(1, 4, 9, 7)",
            (1, 8, 9, 7),
        ),
        ("nn.conv2d(%x, %w, strides=[2, 2], padding=[0, 0])", "(1, 4, 9, 7)", (1, 8, 4, 3)),
        ("nn.conv2d(%x, %w, padding=[0, 1, 2, 3], dilation=[2, 2])", "(1, 4, 9, 7)", (1, 8, 7, 7)),
        ('nn.conv2d(%x, %w, data_layout="NCHW4c")', "(1, 4, 9, 7)", None),
        (
            "nn.max_pool2d(%x, pool_size=[2, 2], strides=[2, 2], padding=[0, 0, 0, 0])",
            "(1, 4, 9, 7)",
            (1, 4, 4, 3),
        ),
        ("nn.max_pool2d(%x, pool_size=[2, 2], ceil_mode=True)", "(1, 4, 9, 7)", None),
        ('nn.avg_pool2d(%x, pool_size=[3, 3], layout="NHWC")', "(1, 9, 7, 4)", (1, 7, 5, 4)),
        ("nn.global_avg_pool2d(%x)", "(1, 4, 9, 7)", (1, 4, 1, 1)),
        ("nn.batch_flatten(%x)", "(2, 3, 4)", (2, 12)),
        ("nn.relu(%x)", "(2, 3)", (2, 3)),
        ("add(%x, %b)", "(2, 3, 1)", (2, 3, 5)),
        ("add(%x, %b)", "(2, 3, 4)", None),
        ("nn.unheard_of(%x)", "(2, 3)", None),
        ("nn.global_avg_pool2d(%x)", "(1, 4, 9)", None),
        ('nn.conv2d(%x, %w, out_layout="NHWC")', "(1, 4, 9, 7)", None),
        ("%0 = (%x, %b);\nconcatenate(%0)", "(5)", (10,)),
        ("%0 = (%x, %b);\nconcatenate(%0, axis=1)", "(5)", None),
        ("%0 = (%x, %w);\nconcatenate(%0, axis=1)", "(1, 4)", None),
        ("nn.max_pool2d(%x, pool_size=[a])", "(1, 4, 9, 7)", None),
    ],
)
def test_types_that_the_text_leaves_out(call: str, argument: str, shape: tuple[int, ...] | None) -> None:
    head = f"%x: Tensor[{argument}, float32], %w: Tensor[(8, 4, 3, 3), float32], %b: Tensor[(5), float32]"
    assert shapes(main(call, head))[-1] == shape


def test_types_go_on_through_a_model() -> None:
    graph = main(
        "%0 = nn.dense(%x, %w);\n%1 = nn.bias_add(%0, %b);\n%2 = (%1, %x);\n%3 = concatenate(%2, axis=-1);\n"
        '%4 = nn.dense(%3, %v, out_dtype="int32");\nnn.softmax(%4)',
        "%x: Tensor[(1, 4), int8], %w: Tensor[(6, 4), int8], %b: Tensor[(6), int8], %v: Tensor[(2, 10), int8]",
    )
    assert shapes(graph)[4:] == [(1, 6), (1, 6), (1, 10), (1, 2), (1, 2)]
    last = complete_types(graph)[-1][0]
    assert last is not None
    assert last.dtype.name == "int32"


@given(st.text(alphabet='%0=(),[]{}"/*; \nax.1:', max_size=80))
@settings(max_examples=300)
def test_any_body_gives_a_graph_or_an_error(body: str) -> None:
    try:
        graph = main(body)
    except UnreadableRelayError:
        return
    for index, node in enumerate(graph.nodes):
        assert all(use.node < index for use in node.args)


def test_the_number_of_values_is_bounded() -> None:
    body = "\n".join(f"%{i} = nn.relu(%x);" for i in range(20_001))
    with pytest.raises(UnreadableRelayError, match="more than 20000 values"):
        main(f"{body}\nnn.relu(%x)")
    assert len(main("\n".join(body.splitlines()[:9000]) + "\nnn.relu(%x)").nodes) == 9002
