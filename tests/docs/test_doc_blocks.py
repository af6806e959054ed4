# SPDX-License-Identifier: Apache-2.0
"""The reader of pages finds what a page holds, and tells right output from wrong."""

from __future__ import annotations

import pytest

from doc_blocks import Command, blocks, commands, missing_line

PAGE = """\
# Page

<!-- doc-test: copy=a/b.tar:c.tar -->

<!-- doc-test: needs=qemu-system-arm -->
<!-- doc-test: exit=1 -->
```console
$ first \\
>   --more
shown ...

shown too
$ second
```

- in a list:

  <!-- doc-test: file=x/y.c -->
  ```c
  int main(void);
  ```

```
plain
```
"""


def test_blocks_with_their_directives() -> None:
    copy, console, c, plain = blocks(PAGE)
    assert copy.directives == {"copy": "a/b.tar:c.tar"}
    assert console.language == "console"
    assert console.directives == {"needs": "qemu-system-arm", "exit": "1"}
    assert (c.language, c.text, c.directives) == ("c", "int main(void);\n", {"file": "x/y.c"})
    assert (plain.language, plain.directives) == ("", {})


def test_commands_with_what_they_show() -> None:
    console = blocks(PAGE)[1]
    assert commands(console) == [
        Command(line=8, text="first \\\n  --more", expected=("shown ...", "", "shown too")),
        Command(line=13, text="second", expected=()),
    ]


@pytest.mark.parametrize(
    ("expected", "output", "missing"),
    [
        (("a", "b"), "a\nx\nb\n", None),
        (("a", "b"), "b\na\n", "b"),
        (("a  b",), "a      b\n", None),
        (("took ... s",), "took 1.5 s\n", None),
        (("took ... s",), "took 1.5 ms\n", "took ... s"),
        (("...", "end"), "anything\nend\n", None),
        (("a.c",), "abc\n", "a.c"),
    ],
)
def test_output_in_order(expected: tuple[str, ...], output: str, missing: str | None) -> None:
    assert missing_line(expected, output) == missing
