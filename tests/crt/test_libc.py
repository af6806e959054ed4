# SPDX-License-Identifier: Apache-2.0
"""The runtime's part of a C library, for compilers that come without one, against this machine's."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ccode import CRT

pytestmark = [
    pytest.mark.toolchain,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no cc"),
]
LIBC = CRT / "libc"
CHECK = Path(__file__).parent / "libc" / "check_math.c"
FUNCTION = re.compile(r"^(?:float|double|long|int|AS_WRITTEN [a-z]+) \*?(\w+)\(", re.MULTILINE)


def test_functions_of_floats_are_those_of_this_machine(tmp_path: Path) -> None:
    """At most two units in the last place apart, over all magnitudes; whole parts, NaN and zeros alike."""
    source = (LIBC / "math.c").read_text()
    names = [name for name in FUNCTION.findall(source) if f"static double {name}" not in source]
    renamed = tmp_path / "renamed.h"
    renamed.write_text("".join(f"#define {name} own_{name}\n" for name in names))
    own, check, program = (tmp_path / name for name in ("own.o", "check.o", "check"))
    plain = ["cc", "-O2", "-fno-builtin", "-w"]
    subprocess.run(
        [*plain, f"-I{LIBC / 'include'}", "-include", renamed, "-c", LIBC / "math.c", "-o", own], check=True
    )
    subprocess.run([*plain, "-c", CHECK, "-o", check], check=True)
    subprocess.run(["cc", check, own, "-lm", "-o", program], check=True)
    lines = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
    worst = {line.split()[0]: int(line.split()[1]) for line in lines}
    assert {name for name in names if name not in worst} == {
        *("rint", "nearbyint", "roundevenf", "lrint", "lrintf", "lround", "lroundf"),
        *("ldexpf", "scalbnf", "frexpf", "modff"),
    }
    assert worst.pop("parts") == 0
    assert all(units <= 2 for units in worst.values()), lines
    assert {worst[name] for name in ("rintf", "nearbyintf", "fdimf", "hypotf", "remainderf")} == {0}


STRINGS = r"""
#include <string.h>
#include <stdlib.h>
int main(void) {
  char to[8];
  memset(to, 'x', sizeof to);
  strncpy(to, "ab", 4);
  int right = to[0] == 'a' && to[1] == 'b' && to[2] == 0 && to[3] == 0 && to[4] == 'x';
  right &= strncpy(to, "abcdef", 3) == to && to[2] == 'c' && to[3] == 0;
  right &= strcpy(to, "wxyz") == to && to[4] == 0 && to[3] == 'z';
  right &= strcmp("a", "a") == 0 && strcmp("a", "b") < 0 && strcmp("\xff", "a") > 0 && strcmp("ab", "a") > 0;
  right &= strncmp("abc", "abd", 2) == 0 && strncmp("abc", "abd", 3) < 0 && strncmp("a", "b", 0) == 0;
  right &= strchr("abc", 'c') - "abc" != 0 && *strchr("abc", 'c') == 'c' && strchr("abc", 'x') == NULL;
  right &= strchr("abc", 0) != NULL && memchr("abc", 'c', 2) == NULL && *(char *)memchr("abc", 'c', 3) == 'c';
  right &= abs(-3) == 3 && labs(-4L) == 4;
  return !right;
}
"""


def test_strings(tmp_path: Path) -> None:
    source, program = tmp_path / "check.c", tmp_path / "check"
    source.write_text(STRINGS)
    files = [source, LIBC / "string.c"]
    subprocess.run(
        ["cc", "-O1", "-fno-builtin", "-w", f"-I{LIBC / 'include'}", *files, "-o", program], check=True
    )
    assert subprocess.run([program]).returncode == 0
