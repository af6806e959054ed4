/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arm C Language Extensions where the compiler has none: the integer, saturating and 32-bit SIMD intrinsics in
 * plain C, so that kernels for a Cortex-M can be compiled for the host and compared with their results on the
 * target, and CMSIS-NN, which includes this header on every architecture, for RISC-V. A Cortex-M has its
 * compiler's own.
 *
 * ARM_CPU_INTRINSICS_EXIST is what TVM's kernels for Cortex-M ask before they define __ror, __pkhbt and
 * __pkhtb in Arm assembly.
 */
#ifndef MLF_ARM_ACLE_H
#define MLF_ARM_ACLE_H

#if defined(__arm__) || defined(__aarch64__)
#include_next <arm_acle.h>
#endif

#include <stdint.h>

#if defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'
#define MLF_ACLE_NATIVE
#endif

#if !defined(MLF_ACLE_NATIVE) && !defined(__ARM_FEATURE_SIMD32) && !defined(ARM_CPU_INTRINSICS_EXIST)
#define ARM_CPU_INTRINSICS_EXIST

#define MLF_ACLE static inline __attribute__((unused, always_inline))

typedef int32_t int8x4_t;
typedef uint32_t uint8x4_t;
typedef int32_t int16x2_t;
typedef uint32_t uint16x2_t;

/* The GE flags: one bit a byte, set by additions and subtractions, read by __sel. */
static uint32_t mlf_acle_ge __attribute__((unused));

MLF_ACLE int32_t mlf_acle_byte(uint32_t x, int i) { return (int8_t)(x >> (8 * i)); }
MLF_ACLE int32_t mlf_acle_half(uint32_t x, int i) { return (int16_t)(x >> (16 * i)); }
MLF_ACLE int32_t mlf_acle_within(int64_t x, int64_t low, int64_t high) {
  return (int32_t)(x < low ? low : x > high ? high : x);
}

#if !defined(__aarch64__)
MLF_ACLE uint32_t __ror(uint32_t x, uint32_t count) {
  count &= 31u;
  return count != 0u ? (x >> count) | (x << (32u - count)) : x;
}
MLF_ACLE unsigned int __clz(uint32_t x) { return x != 0u ? (unsigned int)__builtin_clz(x) : 32u; }
MLF_ACLE uint32_t __rev(uint32_t x) { return __builtin_bswap32(x); }
MLF_ACLE uint32_t __rbit(uint32_t x) {
  uint32_t y = 0u;
  for (int i = 0; i < 32; ++i) {
    y |= ((x >> i) & 1u) << (31 - i);
  }
  return y;
}
#endif

#define __ssat(x, bits) mlf_acle_within((x), -(INT64_C(1) << ((bits)-1)), (INT64_C(1) << ((bits)-1)) - 1)
#define __usat(x, bits) ((uint32_t)mlf_acle_within((x), 0, (INT64_C(1) << (bits)) - 1))
MLF_ACLE int32_t __qadd(int32_t a, int32_t b) {
  return mlf_acle_within((int64_t)a + b, INT32_MIN, INT32_MAX);
}
MLF_ACLE int32_t __qsub(int32_t a, int32_t b) {
  return mlf_acle_within((int64_t)a - b, INT32_MIN, INT32_MAX);
}
MLF_ACLE int32_t __qdbl(int32_t a) { return __qadd(a, a); }

MLF_ACLE int32_t __smulbb(int32_t a, int32_t b) {
  return mlf_acle_half((uint32_t)a, 0) * mlf_acle_half((uint32_t)b, 0);
}
MLF_ACLE int32_t __smulbt(int32_t a, int32_t b) {
  return mlf_acle_half((uint32_t)a, 0) * mlf_acle_half((uint32_t)b, 1);
}
MLF_ACLE int32_t __smultb(int32_t a, int32_t b) {
  return mlf_acle_half((uint32_t)a, 1) * mlf_acle_half((uint32_t)b, 0);
}
MLF_ACLE int32_t __smultt(int32_t a, int32_t b) {
  return mlf_acle_half((uint32_t)a, 1) * mlf_acle_half((uint32_t)b, 1);
}
MLF_ACLE int32_t mlf_acle_sum(int32_t a, int32_t b) { return (int32_t)((uint32_t)a + (uint32_t)b); }
MLF_ACLE int32_t __smlabb(int32_t a, int32_t b, int32_t sum) { return mlf_acle_sum(__smulbb(a, b), sum); }
MLF_ACLE int32_t __smlabt(int32_t a, int32_t b, int32_t sum) { return mlf_acle_sum(__smulbt(a, b), sum); }
MLF_ACLE int32_t __smlatb(int32_t a, int32_t b, int32_t sum) { return mlf_acle_sum(__smultb(a, b), sum); }
MLF_ACLE int32_t __smlatt(int32_t a, int32_t b, int32_t sum) { return mlf_acle_sum(__smultt(a, b), sum); }

MLF_ACLE int32_t __smuad(int16x2_t a, int16x2_t b) { return mlf_acle_sum(__smulbb(a, b), __smultt(a, b)); }
MLF_ACLE int32_t __smuadx(int16x2_t a, int16x2_t b) { return mlf_acle_sum(__smulbt(a, b), __smultb(a, b)); }
MLF_ACLE int32_t __smusd(int16x2_t a, int16x2_t b) { return __smulbb(a, b) - __smultt(a, b); }
MLF_ACLE int32_t __smlad(int16x2_t a, int16x2_t b, int32_t sum) { return mlf_acle_sum(__smuad(a, b), sum); }
MLF_ACLE int32_t __smladx(int16x2_t a, int16x2_t b, int32_t sum) { return mlf_acle_sum(__smuadx(a, b), sum); }
MLF_ACLE int32_t __smlsd(int16x2_t a, int16x2_t b, int32_t sum) { return mlf_acle_sum(__smusd(a, b), sum); }
MLF_ACLE int64_t __smlald(int16x2_t a, int16x2_t b, int64_t sum) {
  return (int64_t)((uint64_t)sum + (uint64_t)((int64_t)__smulbb(a, b) + __smultt(a, b)));
}

MLF_ACLE uint32_t mlf_acle_pair(int32_t low, int32_t high) {
  return ((uint32_t)low & 0xFFFFu) | ((uint32_t)high << 16);
}
MLF_ACLE int16x2_t __sxtb16(int8x4_t x) {
  return (int16x2_t)mlf_acle_pair(mlf_acle_byte((uint32_t)x, 0), mlf_acle_byte((uint32_t)x, 2));
}
MLF_ACLE uint16x2_t __uxtb16(uint8x4_t x) { return x & 0x00FF00FFu; }
MLF_ACLE int16x2_t __sxtab16(int16x2_t a, int8x4_t x) {
  return (int16x2_t)mlf_acle_pair(mlf_acle_half((uint32_t)a, 0) + mlf_acle_byte((uint32_t)x, 0),
                                  mlf_acle_half((uint32_t)a, 1) + mlf_acle_byte((uint32_t)x, 2));
}
#define __pkhbt(a, b, count) (((uint32_t)(a)&0xFFFFu) | (((uint32_t)(b) << (count)) & 0xFFFF0000u))
#define __pkhtb(a, b, count) \
  (((uint32_t)(a)&0xFFFF0000u) | (((uint32_t)((int32_t)(b) >> ((count) != 0 ? (count) : 0))) & 0xFFFFu))

MLF_ACLE uint32_t mlf_acle_bytes(uint32_t a, uint32_t b, int32_t sign) {
  uint32_t y = 0u;
  mlf_acle_ge = 0u;
  for (int i = 0; i < 4; ++i) {
    int32_t value = mlf_acle_byte(a, i) + sign * mlf_acle_byte(b, i);
    y |= ((uint32_t)value & 0xFFu) << (8 * i);
    mlf_acle_ge |= (value >= 0 ? 1u : 0u) << i;
  }
  return y;
}
MLF_ACLE uint32_t mlf_acle_halves(uint32_t a, uint32_t b, int32_t sign) {
  uint32_t y = 0u;
  mlf_acle_ge = 0u;
  for (int i = 0; i < 2; ++i) {
    int32_t value = mlf_acle_half(a, i) + sign * mlf_acle_half(b, i);
    y |= ((uint32_t)value & 0xFFFFu) << (16 * i);
    mlf_acle_ge |= (value >= 0 ? 3u : 0u) << (2 * i);
  }
  return y;
}
MLF_ACLE int8x4_t __sadd8(int8x4_t a, int8x4_t b) {
  return (int8x4_t)mlf_acle_bytes((uint32_t)a, (uint32_t)b, 1);
}
MLF_ACLE int8x4_t __ssub8(int8x4_t a, int8x4_t b) {
  return (int8x4_t)mlf_acle_bytes((uint32_t)a, (uint32_t)b, -1);
}
MLF_ACLE int16x2_t __sadd16(int16x2_t a, int16x2_t b) {
  return (int16x2_t)mlf_acle_halves((uint32_t)a, (uint32_t)b, 1);
}
MLF_ACLE int16x2_t __ssub16(int16x2_t a, int16x2_t b) {
  return (int16x2_t)mlf_acle_halves((uint32_t)a, (uint32_t)b, -1);
}
MLF_ACLE uint8x4_t __sel(uint8x4_t a, uint8x4_t b) {
  uint32_t mask = 0u;
  for (int i = 0; i < 4; ++i) {
    mask |= ((mlf_acle_ge >> i) & 1u ? 0xFFu : 0u) << (8 * i);
  }
  return (a & mask) | (b & ~mask);
}
#define MLF_ACLE_SATURATED(sign, bits, part, count)                                   \
  uint32_t y = 0u;                                                                    \
  for (int i = 0; i < (count); ++i) {                                                 \
    int32_t value = __ssat(part((uint32_t)a, i) + (sign)*part((uint32_t)b, i), bits); \
    y |= ((uint32_t)value & ((1u << (bits)) - 1u)) << ((bits)*i);                     \
  }                                                                                   \
  return (int32_t)y
MLF_ACLE int8x4_t __qadd8(int8x4_t a, int8x4_t b) { MLF_ACLE_SATURATED(1, 8, mlf_acle_byte, 4); }
MLF_ACLE int8x4_t __qsub8(int8x4_t a, int8x4_t b) { MLF_ACLE_SATURATED(-1, 8, mlf_acle_byte, 4); }
MLF_ACLE int16x2_t __qadd16(int16x2_t a, int16x2_t b) { MLF_ACLE_SATURATED(1, 16, mlf_acle_half, 2); }
MLF_ACLE int16x2_t __qsub16(int16x2_t a, int16x2_t b) { MLF_ACLE_SATURATED(-1, 16, mlf_acle_half, 2); }

#endif
#endif
