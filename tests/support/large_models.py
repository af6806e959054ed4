# SPDX-License-Identifier: Apache-2.0
"""Networks of the shapes of known ones whose live tensors fit no single memory of a chip with several."""

from __future__ import annotations

from tflite_models import Maker


def _inverted(m: Maker, x: int, expanded: int, channels: int, stride: int) -> int:
    """Block of MobileNetV2: expand, depthwise, project, and a residual where the shapes agree."""
    wide = m.conv(x, expanded, (1, 1), 1, same=True, activation=3)
    deep = m.conv(wide, expanded, (3, 3), stride, same=True, depthwise=True, activation=3)
    narrow = m.conv(deep, channels, (1, 1), 1, same=True)
    same = stride == 1 and m.spec.tensors[x].shape == m.spec.tensors[narrow].shape
    return m.binary("ADD", x, narrow) if same else narrow


def mcunet_like(seed: int = 1) -> bytes:
    """Classifier of 160 x 160 pixels with wide blocks at its beginning, as MCUNetV2's backbones."""
    m = Maker(seed)
    first = m.conv(m.input((1, 160, 160, 3)), 16, (3, 3), 2, same=True, activation=3)
    early = _inverted(m, first, 64, 16, 1)
    x = _inverted(m, early, 48, 24, 2)
    x = _inverted(m, x, 72, 24, 1)
    x = _inverted(m, x, 72, 40, 2)
    x = _inverted(m, x, 120, 48, 2)
    return m.finish(m.softmax(m.dense(m.pool(x, 10, largest=False), 10)))


def movenet_like(seed: int = 2) -> bytes:
    """Backbone and head of 192 x 192 pixels whose early features live until the head, as MoveNet's."""
    m = Maker(seed)
    early = m.conv(m.input((1, 192, 192, 3)), 16, (3, 3), 2, same=True, activation=3)
    x = _inverted(m, early, 48, 8, 1)
    x = _inverted(m, x, 48, 24, 2)
    x = _inverted(m, x, 96, 32, 2)
    side = m.conv(early, 32, (3, 3), 2, same=True, depthwise=True)
    head = m.conv(side, 32, (3, 3), 2, same=True, depthwise=True)
    return m.finish(m.conv(m.binary("ADD", x, head), 17, (1, 1), 1, same=True))
