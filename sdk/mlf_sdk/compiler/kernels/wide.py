# SPDX-License-Identifier: Apache-2.0
"""C text of logistic and hyperbolic tangent of 16-bit values: linear interpolation in one table."""

from __future__ import annotations

from typing import Final

WIDE_FUNCTIONS: Final = """static inline int32_t wide_logistic(int32_t v, const uint16_t *table)
{
    uint32_t size = (uint32_t)(v < 0 ? -v : v), at = size >> 9;
    uint32_t sum = at >= 255 ? 0x7FFFu << 10
                             : ((uint32_t)table[at] << 9) + (size & 511) * (uint32_t)(table[at + 1] - table[at]);
    return (int32_t)((v >= 0 ? sum + 512 : (1u << 25) - sum + 511) >> 10);
}
static inline int32_t wide_tanh(int32_t v, const uint16_t *table)
{
    uint32_t size = (uint32_t)(v < 0 ? -v : v), at = size >> 8;
    int32_t sum = at >= 255 ? 0xFFFF << 8
                            : (int32_t)(((uint32_t)table[at] << 8) + (size & 255) * (uint32_t)(table[at + 1] - table[at]));
    return (v >= 0 ? sum - (1 << 23) + 128 : (1 << 23) + 127 - sum) >> 8;
}
"""
