# SPDX-License-Identifier: Apache-2.0
"""The tiny archive with a kernel that goes wrong in the way that its input chooses."""

from __future__ import annotations

import numpy as np

from archives import Spec, build

MEMBER = "codegen/host/src/tiny_lib1.c"
FILE = "tiny_lib1.c"
KERNEL = "tvmgen_tiny_fused_smooth"
STEP = 1

_BEFORE = """
#ifdef __ARM_ARCH_6M__
#define NOWHERE 0x0F000000
#else
#define NOWHERE 0xF0000000
#endif
#ifdef __riscv
#define UNDEFINED __asm volatile("unimp")
#else
#define UNDEFINED __asm volatile(".short 0xde00")
#endif
static int32_t (*volatile nowhere)(void);
static volatile int32_t forever = 1;

__attribute__((noinline)) static int32_t deep(int32_t depth, volatile int32_t* out) {
  volatile int32_t frame[13];  // many frames, more than the words of the stack in a report
  frame[depth % 13] = out[0];
  int32_t inner = deep(depth + 1, out);  // here: recursion
  return inner + frame[(depth + 1) % 13];
}

__attribute__((noinline)) static int32_t touch(volatile int32_t* at, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    at[i] = i;
  }
  return at[count / 2];
}

__attribute__((noinline)) static int32_t large(volatile int32_t* out) {  // here: large-array
  volatile int32_t frame[3000];
  return touch(frame, 3000) + out[0] + frame[0];
}

__attribute__((noinline)) static int32_t through(volatile int32_t* at) {
  at[0] = touch(at, 1);
  return at[0];
}

__attribute__((noinline)) static int32_t top(volatile int32_t* out) {  // here: top-word
  volatile int32_t frame[3000];
  frame[2999] = out[0];
  return through(out) + frame[2999];
}

__attribute__((noinline)) static int32_t leaf(int32_t value) {  // here: top-word-leaf
  volatile int32_t frame[3000];
  frame[2999] = value;
  return frame[2999];
}

"""
_INSIDE = """
  switch ((int32_t)((float*)in)[0]) {
    case 1:
      ((volatile int32_t*)NOWHERE)[0] = 1;  // here: bad-pointer
      break;
    case 2:
      ((volatile int32_t*)out)[0] = nowhere();  // here: null-call
      break;
    case 3:
      ((volatile int32_t*)out)[0] = deep(0, (volatile int32_t*)out);
      break;
    case 4:
      ((volatile int32_t*)out)[0] = large((volatile int32_t*)out);
      break;
    case 5:
      return -1;
    case 6:
      while (forever) {  // here: hang
      }
      break;
    case 10:
      ((volatile int32_t*)out)[0] = top((volatile int32_t*)out);
      break;
    case 11:
      ((volatile int32_t*)out)[0] = leaf(((volatile int32_t*)out)[0]);
      break;
#if defined(__arm__) || defined(__riscv)
    case 7:
      UNDEFINED;  // here: undefined
      break;
#endif
#ifdef __arm__
    case 8:
      __asm volatile(".short 0xee30, 0x0a20");  // here: float
      break;
    case 9: {
      register uint32_t at __asm("r1") = 1u + (uint32_t)(uintptr_t)out;
      __asm volatile("ldmia r1, {r2, r3}" : : "r"(at) : "r2", "r3");  // here: unaligned
      break;
    }
#endif
    default:
      break;
  }
"""
CASES = {
    "bad-pointer": 1,
    "null-call": 2,
    "recursion": 3,
    "large-array": 4,
    "error": 5,
    "hang": 6,
    "undefined": 7,
    "float": 8,
    "unaligned": 9,
    "top-word": 10,
    "top-word-leaf": 11,
}


def faulty() -> dict[str, bytes]:
    """The members of the archive."""
    files = build(Spec())
    text = files[MEMBER].decode()
    marker = "(void)dev_id;\n"
    at = text.index(marker, text.index(KERNEL + "(")) + len(marker)
    text = text[:at] + _INSIDE + text[at:]
    top = text.rindex("\n\n", 0, text.index(KERNEL + "(")) + 2
    return {**files, MEMBER: (text[:top] + _BEFORE + text[top:]).encode()}


def line_of(case: str) -> int:
    """The line of the kernel's file in which a case goes wrong."""
    rows = faulty()[MEMBER].decode().split("\n")
    return next(number for number, row in enumerate(rows, 1) if row.endswith(f"// here: {case}"))


def choosing(case: str) -> dict[str, np.ndarray]:
    """The input that chooses a case; an unknown one chooses none."""
    values = np.zeros((1, 8), np.float32)
    values[0, 0] = CASES.get(case, 0)
    return {"x": values}
