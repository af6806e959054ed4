# SPDX-License-Identifier: Apache-2.0
"""Copies of bytes with the vector extension (MVE, Helium), as C functions."""

from __future__ import annotations

from typing import Final

from mlf_sdk.compiler.kernels.assembly import UNALIGNED

MVE: Final = f"{UNALIGNED} && defined(__ARM_FEATURE_MVE)"
INCLUDE: Final = f"#if {MVE}\n#include <arm_mve.h>\n#endif\n"
COPY_BYTES: Final = f"""static inline void copy_bytes(int8_t *d, const int8_t *s, int32_t n)
{{
#if {MVE}
    do {{
        mve_pred16_t some = vctp8q((uint32_t)n);
        vstrbq_p_s8(d, vldrbq_z_s8(s, some), some);
        d += 16;
        s += 16;
        n -= 16;
    }} while (n > 0);
#else
    memcpy(d, s, (size_t)n);
#endif
}}
"""
INTERLEAVE_ROWS: Final = f"""static void interleave_rows(const int8_t *x, int32_t y, int32_t height, int32_t pitch, const int8_t *beyond,
    int8_t *d, int32_t n)
{{
    const int8_t *s0 = y >= 0 && y < height ? x + y * pitch : beyond;
    const int8_t *s1 = y >= -1 && y + 1 < height ? x + (y + 1) * pitch : beyond;
    const int8_t *s2 = y >= -2 && y + 2 < height ? x + (y + 2) * pitch : beyond;
    const int8_t *s3 = y >= -3 && y + 3 < height ? x + (y + 3) * pitch : beyond;
#if {MVE}
    int8x16x4_t v;
    for (int32_t t = 0; t < n / 16; ++t, s0 += 16, s1 += 16, s2 += 16, s3 += 16, d += 64) {{
        v.val[0] = vldrbq_s8(s0);
        v.val[1] = vldrbq_s8(s1);
        v.val[2] = vldrbq_s8(s2);
        v.val[3] = vldrbq_s8(s3);
        vst4q_s8(d, v);
    }}
    if (n % 16 != 0) {{
        const int32_t back = 16 - n % 16;
        v.val[0] = vldrbq_s8(s0 - back);
        v.val[1] = vldrbq_s8(s1 - back);
        v.val[2] = vldrbq_s8(s2 - back);
        v.val[3] = vldrbq_s8(s3 - back);
        vst4q_s8(d - 4 * back, v);
    }}
#else
    for (int32_t t = 0; t < n; ++t, d += 4) {{
        d[0] = s0[t];
        d[1] = s1[t];
        d[2] = s2[t];
        d[3] = s3[t];
    }}
#endif
}}
"""
"""Function that makes a word of each column of four rows of an image, from row ``y`` on, of ``n`` bytes, at least 16.

Those outside of the image are ``beyond``. No loop chooses between the two: of several choices at once GCC 12 makes
constant predicates that are wrong, or that it can't assemble.
"""


def copy_function(name: str, count: int) -> str:
    """Function ``(to, from)`` that copies ``count`` bytes; the last vector begins in the one before it."""
    blocks, rest = divmod(count // 16, 8)
    lines = []
    if blocks:
        lines = [f"for (int32_t i = 0; i < {blocks}; ++i, d += 128, s += 128) {{"]
        lines += [f"    {_copied(16 * k)}" for k in range(8)] + ["}"]
    lines += [_copied(16 * k) for k in range(rest)]
    if count < 16:
        lines = [f"mve_pred16_t some = vctp8q({count});", "vstrbq_p_s8(d, vldrbq_z_s8(s, some), some);"]
    elif count % 16:
        lines.append(_copied(count % 128 - 16))
    text = "".join(f"    {line}\n" for line in lines)
    return f"""static inline void {name}(int8_t *d, const int8_t *s)
{{
#if {MVE}
{text}#else
    memcpy(d, s, {count});
#endif
}}
"""


def _copied(offset: int) -> str:
    place = f" + {offset}" if offset > 0 else f" - {-offset}" if offset else ""
    return f"vstrbq_s8(d{place}, vldrbq_s8(s{place}));"
