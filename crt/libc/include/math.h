/* SPDX-License-Identifier: Apache-2.0 */
/*
 * math.h - for compilers that come without a C library; math.c and the compiler's own library have the
 * functions.
 */
#ifndef MLF_LIBC_MATH_H
#define MLF_LIBC_MATH_H

#define INFINITY __builtin_inff()
#define HUGE_VALF __builtin_inff()
#define HUGE_VAL __builtin_inf()
#define NAN __builtin_nanf("")
#define M_PI 3.14159265358979323846
#define M_E 2.71828182845904523536
#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf(x)
#define isfinite(x) __builtin_isfinite(x)
#define signbit(x) __builtin_signbit(x)

#ifdef __cplusplus
extern "C" {
#endif
#define MLF_LIBC_ONE(name) \
  float name##f(float x);  \
  double name(double x);
#define MLF_LIBC_TWO(name)         \
  float name##f(float x, float y); \
  double name(double x, double y);

MLF_LIBC_ONE(ceil)
MLF_LIBC_ONE(cos)
MLF_LIBC_ONE(exp)
MLF_LIBC_ONE(exp2)
MLF_LIBC_ONE(fabs)
MLF_LIBC_ONE(floor)
MLF_LIBC_ONE(log)
MLF_LIBC_ONE(log10)
MLF_LIBC_ONE(log2)
MLF_LIBC_ONE(nearbyint)
MLF_LIBC_ONE(rint)
MLF_LIBC_ONE(round)
MLF_LIBC_ONE(sin)
MLF_LIBC_ONE(sqrt)
MLF_LIBC_ONE(tan)
MLF_LIBC_ONE(trunc)
MLF_LIBC_TWO(copysign)
MLF_LIBC_TWO(fmax)
MLF_LIBC_TWO(fmin)
MLF_LIBC_TWO(fmod)
float fmaf(float x, float y, float z);
double fma(double x, double y, double z);
long lrint(double x);
long lround(double x);

/* Of floats alone. */
float acosf(float x);
float acoshf(float x);
float asinf(float x);
float asinhf(float x);
float atan2f(float y, float x);
float atanf(float x);
float atanhf(float x);
float cbrtf(float x);
float coshf(float x);
float erfcf(float x);
float erff(float x);
float expm1f(float x);
float fdimf(float x, float y);
float frexpf(float x, int* out_exponent);
float hypotf(float x, float y);
float ldexpf(float x, int exponent);
float log1pf(float x);
float modff(float x, float* out_integer);
float powf(float x, float y);
float remainderf(float x, float y);
float roundevenf(float x);
float scalbnf(float x, int exponent);
float sinhf(float x);
float tanhf(float x);
long lrintf(float x);
long lroundf(float x);

#undef MLF_LIBC_ONE
#undef MLF_LIBC_TWO
#ifdef __cplusplus
}
#endif

#endif /* MLF_LIBC_MATH_H */
