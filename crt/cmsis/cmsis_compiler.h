/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What CMSIS-NN asks of CMSIS-Core's compiler header, by the compiler's own Arm C Language
 * Extensions: with it, a CMSIS-NN checkout needs no CMSIS-Core beside it.
 */
#ifndef MLF_CMSIS_COMPILER_H
#define MLF_CMSIS_COMPILER_H

#include <arm_acle.h>
#include <stdint.h>

#define __ASM __asm__
#define __INLINE inline
#define __STATIC_INLINE static inline
#define __STATIC_FORCEINLINE static inline __attribute__((always_inline))
#define __ALIGNED(bytes) __attribute__((aligned(bytes)))
#define __RESTRICT __restrict
#define __WEAK __attribute__((weak))
#define __PACKED __attribute__((packed))
#define __UNUSED __attribute__((unused))

__STATIC_FORCEINLINE uint32_t mlf_ror(uint32_t value, uint32_t count) {
  count &= 31u;
  return count != 0u ? (value >> count) | (value << (32u - count)) : value;
}

__STATIC_FORCEINLINE uint8_t mlf_clz(uint32_t value) {
  return value != 0u ? (uint8_t)__builtin_clz(value) : 32u;
}

#define __ROR(value, count) mlf_ror((uint32_t)(value), (uint32_t)(count))
#define __CLZ(value) mlf_clz((uint32_t)(value))

#if defined(__ARM_FEATURE_DSP) && __ARM_FEATURE_DSP == 1
#define __SMLAD(a, b, sum) ((uint32_t)__smlad((int16x2_t)(a), (int16x2_t)(b), (int32_t)(sum)))
#define __SMLALD(a, b, sum) ((uint64_t)__smlald((int16x2_t)(a), (int16x2_t)(b), (int64_t)(sum)))
#define __SMUAD(a, b) ((uint32_t)__smuad((int16x2_t)(a), (int16x2_t)(b)))
#define __SXTB16(a) ((uint32_t)__sxtb16((int8x4_t)(a)))
#define __SXTAB16(a, b) ((uint32_t)__sxtab16((int16x2_t)(a), (int8x4_t)(b)))
#define __SADD16(a, b) ((uint32_t)__sadd16((int16x2_t)(a), (int16x2_t)(b)))
#define __QADD16(a, b) ((uint32_t)__qadd16((int16x2_t)(a), (int16x2_t)(b)))
#define __QSUB16(a, b) ((uint32_t)__qsub16((int16x2_t)(a), (int16x2_t)(b)))
#define __QSUB8(a, b) ((uint32_t)__qsub8((int8x4_t)(a), (int8x4_t)(b)))
#define __QADD(a, b) ((int32_t)__qadd((int32_t)(a), (int32_t)(b)))
#define __QSUB(a, b) ((int32_t)__qsub((int32_t)(a), (int32_t)(b)))
#define __PKHBT(low, high, shift) \
  (((uint32_t)(low)&0x0000FFFFu) | (((uint32_t)(high) << (shift)) & 0xFFFF0000u))
#define __PKHTB(high, low, shift) \
  (((uint32_t)(high)&0xFFFF0000u) | ((uint32_t)((int32_t)(low) >> (shift)) & 0x0000FFFFu))

__STATIC_FORCEINLINE uint32_t __SXTB16_RORn(uint32_t value, uint32_t count) {
  return __SXTB16(mlf_ror(value, count));
}

__STATIC_FORCEINLINE uint32_t __SXTAB16_RORn(uint32_t sum, uint32_t value, uint32_t count) {
  return __SXTAB16(sum, mlf_ror(value, count));
}
#endif

#define __SSAT(value, bits) ((int32_t)__ssat((value), (bits)))
#define __USAT(value, bits) ((uint32_t)__usat((value), (bits)))

#endif /* MLF_CMSIS_COMPILER_H */
