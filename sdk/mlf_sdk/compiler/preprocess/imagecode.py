# SPDX-License-Identifier: Apache-2.0
"""C of the preprocessing of frames, for one plan: tables and loops in whole numbers, no memory of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from mlf_sdk.compiler.kernels.kernel import C_TYPES
from mlf_sdk.compiler.preprocess.imageplan import GREY, WEIGHT_BITS, ImagePlan
from mlf_sdk.tools.ctext import c_float


def image_header(name: str, plan: ImagePlan) -> str:
    """Declarations: sizes of the frame, and the function."""
    macro = name.upper()
    size = 1
    for extent in plan.shape:
        size *= extent
    return f"""#define {macro}_FRAME_WIDTH {plan.size[0]}
#define {macro}_FRAME_HEIGHT {plan.size[1]}
#define {macro}_FRAME_BYTES {size}u

/* Write the model's input from a frame: {plan.title}. */
void {name}_preprocess(const uint8_t *frame, {C_TYPES[plan.dtype]} *input);
"""


def image_source(name: str, plan: ImagePlan) -> str:
    """Tables and functions."""
    return "\n".join([_tables(plan), *_decoder(plan), _loop(name, plan)])


def _tables(plan: ImagePlan) -> str:
    texts = [
        array_text(
            f"{C_TYPES[plan.dtype]} values[{len(plan.values)}][256]",
            (_row(plan.dtype, one) for one in plan.values),
        )
    ]
    places = {"columns": plan.columns, "rows": plan.rows}
    for table, entries in places.items():
        if plan.is_interpolated:
            body: Iterable[str] = (f"{{{at}, {weight}}}" for at, weight in entries)
            texts.append(array_text(f"uint16_t {table}[{len(entries)}][2]", body))
        else:
            texts.append(array_text(f"uint16_t {table}[{len(entries)}]", (str(at) for at, _ in entries)))
    return "\n".join(texts)


def _row(dtype: str, values: Sequence[float]) -> str:
    literal: Callable[[float], str] = c_float if dtype == "float32" else str
    return "{\n" + _lines(map(literal, values)) + "    }"


def array_text(declared: str, entries: Iterable[str]) -> str:
    """Definition of a constant array: its type, name and extents, and texts of its elements."""
    return f"static const {declared} = {{\n{_lines(entries)}}};\n"


def _lines(entries: Iterable[str]) -> str:
    texts = list(entries)
    return "".join("    " + ", ".join(texts[i : i + 16]) + ",\n" for i in range(0, len(texts), 16))


def _loop(name: str, plan: ImagePlan) -> str:
    channels, one = plan.channels, 1 << WEIGHT_BITS
    x, y, _, _ = plan.crop
    table = "values[c]" if len(plan.values) > 1 else "values[0]"
    at = f"input[c * {plan.width * plan.height} + row * {plan.width} + column]" if plan.planar else "*input++"
    if not plan.is_interpolated:
        pixels = f"""            int32_t p[{channels}];
            decoded(frame, {x} + columns[column], {y} + rows[row], p);
            for (int32_t c = 0; c < {channels}; ++c)
                {at} = {table}[p[c]];
"""
    else:
        pixels = f"""            const int32_t left = {x} + columns[column][0], right = columns[column][1];
            int32_t p[4][{channels}];
            decoded(frame, left, top, p[0]);
            decoded(frame, left + (right != 0), top, p[1]);
            decoded(frame, left, top + (down != 0), p[2]);
            decoded(frame, left + (right != 0), top + (down != 0), p[3]);
            for (int32_t c = 0; c < {channels}; ++c) {{
                const int32_t upper = ({one} - right) * p[0][c] + right * p[1][c];
                const int32_t lower = ({one} - right) * p[2][c] + right * p[3][c];
                const int32_t mean = (({one} - down) * upper + down * lower + {1 << (2 * WEIGHT_BITS - 1)}) >> {2 * WEIGHT_BITS};
                {at} = {table}[mean];
            }}
"""
    head = f"        const int32_t top = {y} + rows[row][0], down = rows[row][1];\n" * plan.is_interpolated
    return f"""void {name}_preprocess(const uint8_t *frame, {C_TYPES[plan.dtype]} *input)
{{
    for (int32_t row = 0; row < {plan.height}; ++row) {{
{head}        for (int32_t column = 0; column < {plan.width}; ++column) {{
{pixels}        }}
    }}
}}
"""


def _decoder(plan: ImagePlan) -> list[str]:
    """Function that decodes a pixel: its channels, 0 to 255, in the order of the input."""
    kind = plan.frame.partition("-")[0]
    row_pixels = plan.shape[1]
    texts: list[str] = []
    if kind == "grey8":
        decode, parts = f"    const int32_t v = frame[y * {row_pixels} + x];\n", ["v"]
    elif kind in ("rgb888", "bgr888"):
        decode = f"    const uint8_t *at = frame + 3 * (y * {row_pixels} + x);\n"
        parts = [f"at[{k}]" for k in ((0, 1, 2) if kind == "rgb888" else (2, 1, 0))]
    elif kind in ("rgb565", "rgb565be"):
        high, low = (1, 0) if kind == "rgb565" else (0, 1)
        decode = f"""    const uint8_t *at = frame + 2 * (y * {row_pixels} + x);
    const int32_t word = at[{high}] << 8 | at[{low}];
    const int32_t red = word >> 11, green = word >> 5 & 63, blue = word & 31;
"""
        parts = ["(red << 3 | red >> 2)", "(green << 2 | green >> 4)", "(blue << 3 | blue >> 2)"]
    elif kind in ("yuyv", "uyvy"):
        texts.append(_CLIP)
        decode, parts = _pairs(plan, row_pixels)
    else:
        decode, parts = _mosaic(plan), ["red", "green", "blue"]
    texts.append(
        f"static void decoded(const uint8_t *frame, int32_t x, int32_t y, int32_t *p)\n{{\n"
        f"{decode}{_channels(plan, parts)}}}\n"
    )
    return texts


_CLIP: Final = """static int32_t clipped(int32_t v)
{
    v >>= 16;
    return v < 0 ? 0 : v > 255 ? 255 : v;
}
"""


def _channels(plan: ImagePlan, parts: Sequence[str]) -> str:
    if plan.colour == "grey" and len(parts) == 3:
        weighted = " + ".join(f"{weight} * {part}" for weight, part in zip(GREY, parts, strict=True))
        return f"    p[0] = ({weighted} + {1 << 15}) >> 16;\n"
    if plan.channels == 3 and len(parts) == 1:
        parts = list(parts) * 3
    if plan.colour == "bgr":
        parts = parts[::-1]
    return "".join(f"    p[{k}] = {part};\n" for k, part in enumerate(parts))


def _pairs(plan: ImagePlan, row_pixels: int) -> tuple[str, list[str]]:
    luma, chroma = (0, 1) if plan.frame == "yuyv" else (1, 0)
    yuv = plan.yuv
    decode = f"""    const uint8_t *pair = frame + 2 * (y * {row_pixels} + (x & ~1));
    const int32_t luma = (pair[2 * (x & 1) + {luma}] - {yuv.black}) * {yuv.luma} + {1 << 15};
"""
    if plan.colour == "grey":
        return decode, ["clipped(luma)"]
    decode += f"    const int32_t u = pair[{chroma}] - 128, v = pair[{2 + chroma}] - 128;\n"
    return decode, [
        f"clipped(luma + {yuv.red_v} * v)",
        f"clipped(luma - {yuv.green_u} * u - {yuv.green_v} * v)",
        f"clipped(luma + {yuv.blue_u} * u)",
    ]


def _mosaic(plan: ImagePlan) -> str:
    width, height = plan.size
    red_y, red_x = divmod(plan.frame.partition("-")[2].index("r"), 2)
    return f"""    const int32_t left = x > 0 ? x - 1 : 1, right = x < {width - 1} ? x + 1 : {width - 2};
    const uint8_t *here = frame + y * {width};
    const uint8_t *above = frame + (y > 0 ? y - 1 : 1) * {width};
    const uint8_t *below = frame + (y < {height - 1} ? y + 1 : {height - 2}) * {width};
    const int32_t corners = (above[left] + above[right] + below[left] + below[right] + 2) >> 2;
    const int32_t cross = (above[x] + below[x] + here[left] + here[right] + 2) >> 2;
    const int32_t in_row = (here[left] + here[right] + 1) >> 1, in_column = (above[x] + below[x] + 1) >> 1;
    int32_t red, green = here[x], blue;
    if ((y & 1) == {red_y}) {{
        const int32_t is_red = (x & 1) == {red_x};
        red = is_red ? here[x] : in_row;
        blue = is_red ? corners : in_column;
        green = is_red ? cross : green;
    }} else {{
        const int32_t is_blue = (x & 1) != {red_x};
        red = is_blue ? corners : in_column;
        blue = is_blue ? here[x] : in_row;
        green = is_blue ? cross : green;
    }}
"""
