# SPDX-License-Identifier: Apache-2.0
"""Kernel of detection post-processing: boxes and their best scores are worked out once, then taken one by one.

Taking the best box that is left, and leaving out what overlaps with it, gives what sorting all of them would, and
needs no list of them in order.
"""

from __future__ import annotations

from mlf_sdk.compiler.computed import DetectionPostProcess
from mlf_sdk.compiler.graph import Graph, Value
from mlf_sdk.compiler.kernels.floats.functions import EXP
from mlf_sdk.compiler.kernels.kernel import Kernel, Parameter, Role, operands
from mlf_sdk.tools.ctext import c_real


def detection_post_process(graph: Graph, operator: DetectionPostProcess) -> Kernel:
    """Decode, choose a class each, then suppress; the workspace holds corners, scores and classes."""
    encodings, scores, anchors = graph.read(operator)
    boxes, count = anchors.shape[0], graph.written(operator)[1].shape[1]
    parameters, constants = operands(graph, operator)
    x, s, a = (parameter.name for parameter in parameters[:3])
    scale = [c_real(value) for value in operator.scales]
    box = [_real(encodings, f"{x}[4 * i + {at}]") for at in range(4)]
    anchor = [_real(anchors, f"{a}[4 * i + {at}]") for at in range(4)]
    background = scores.shape[2] - operator.classes
    body = f"""    float *corners = b0, *best = b0 + {4 * boxes}, *label = b0 + {5 * boxes};
    for (int32_t i = 0; i < {boxes}; ++i) {{
        float height = {anchor[2]}, width = {anchor[3]};
        float y = {box[0]} / {scale[0]} * height + {anchor[0]};
        float x = {box[1]} / {scale[1]} * width + {anchor[1]};
        height *= 0.5f * real_exp({box[2]} / {scale[2]});
        width *= 0.5f * real_exp({box[3]} / {scale[3]});
        corners[4 * i] = y - height;
        corners[4 * i + 1] = x - width;
        corners[4 * i + 2] = y + height;
        corners[4 * i + 3] = x + width;
        int32_t most = 0;
        for (int32_t c = 1; c < {operator.classes}; ++c)
            if ({s}[{scores.shape[2]} * i + {background} + c] > {s}[{scores.shape[2]} * i + {background} + most])
                most = c;
        best[i] = {_real(scores, f"{s}[{scores.shape[2]} * i + {background} + most]")};
        label[i] = best[i] >= {c_real(operator.least_score)} ? (float)most : -1.0f;
    }}
    int32_t found = 0;
    for (; found < {count}; ++found) {{
        int32_t top = -1;
        for (int32_t i = 0; i < {boxes}; ++i)
            if (label[i] >= 0.0f && (top < 0 || best[i] > best[top]))
                top = i;
        if (top < 0)
            break;
        const float *u = corners + 4 * top;
        float area = (u[2] - u[0]) * (u[3] - u[1]);
        for (int32_t k = 0; k < 4; ++k)
            y0[4 * found + k] = u[k];
        y1[found] = label[top];
        y2[found] = best[top];
        label[top] = -1.0f;
        for (int32_t i = 0; i < {boxes}; ++i)
            if (label[i] >= 0.0f && box_overlap(u, corners + 4 * i, area) > {c_real(operator.most_overlap)})
                label[i] = -1.0f;
    }}
    y3[0] = (float)found;
    for (; found < {count}; ++found) {{
        for (int32_t k = 0; k < 4; ++k)
            y0[4 * found + k] = 0.0f;
        y1[found] = y2[found] = 0.0f;
    }}
"""
    return Kernel(
        family="detection_post_process",
        parameters=(*parameters, Parameter(Role.WORKSPACE, 0, "float")),
        body=body,
        helpers={"real_exp": EXP, "box_overlap": _OVERLAP},
        constants=constants,
        workspace_bytes=24 * boxes,
    )


def _real(value: Value, element: str) -> str:
    """Real number of a stored element."""
    if value.dtype.kind == "f":
        return element
    return f"((float)({element} - ({value.zero_point})) * {c_real(value.scale)})"


_OVERLAP = """static inline float box_overlap(const float *a, const float *b, float area_a)
{
    float area_b = (b[2] - b[0]) * (b[3] - b[1]);
    if (area_a <= 0.0f || area_b <= 0.0f)
        return 0.0f;
    float bottom = a[2] < b[2] ? a[2] : b[2], right = a[3] < b[3] ? a[3] : b[3];
    float top = a[0] > b[0] ? a[0] : b[0], left = a[1] > b[1] ? a[1] : b[1];
    if (bottom <= top || right <= left)
        return 0.0f;
    float inner = (bottom - top) * (right - left);
    return inner / (area_a + area_b - inner);
}
"""
