/* SPDX-License-Identifier: Apache-2.0 */
/*
 * math.h for kernels on the minimal C library, whose own declares next to nothing: the functions of
 * the toolchain's libm. Without a declaration a call would be compiled as one that returns an int.
 */
#ifndef MLF_LIBM_MATH_H
#define MLF_LIBM_MATH_H

#include_next <math.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MLF_LIBM_1(name)      \
  extern double name(double); \
  extern float name##f(float);
#define MLF_LIBM_2(name)              \
  extern double name(double, double); \
  extern float name##f(float, float);

MLF_LIBM_1(acos)
MLF_LIBM_1(acosh)
MLF_LIBM_1(asin)
MLF_LIBM_1(asinh)
MLF_LIBM_1(atan)
MLF_LIBM_1(atanh)
MLF_LIBM_1(cbrt)
MLF_LIBM_1(ceil)
MLF_LIBM_1(cos)
MLF_LIBM_1(cosh)
MLF_LIBM_1(erf)
MLF_LIBM_1(erfc)
MLF_LIBM_1(exp)
MLF_LIBM_1(exp10)
MLF_LIBM_1(exp2)
MLF_LIBM_1(expm1)
MLF_LIBM_1(fabs)
MLF_LIBM_1(floor)
MLF_LIBM_1(lgamma)
MLF_LIBM_1(log)
MLF_LIBM_1(log10)
MLF_LIBM_1(log1p)
MLF_LIBM_1(log2)
MLF_LIBM_1(logb)
MLF_LIBM_1(nearbyint)
MLF_LIBM_1(rint)
MLF_LIBM_1(round)
MLF_LIBM_1(sin)
MLF_LIBM_1(sinh)
MLF_LIBM_1(sqrt)
MLF_LIBM_1(tan)
MLF_LIBM_1(tanh)
MLF_LIBM_1(tgamma)
MLF_LIBM_1(trunc)
MLF_LIBM_2(atan2)
MLF_LIBM_2(copysign)
MLF_LIBM_2(fdim)
MLF_LIBM_2(fmax)
MLF_LIBM_2(fmin)
MLF_LIBM_2(fmod)
MLF_LIBM_2(hypot)
MLF_LIBM_2(nextafter)
MLF_LIBM_2(pow)
MLF_LIBM_2(remainder)

#undef MLF_LIBM_1
#undef MLF_LIBM_2

extern double fma(double, double, double);
extern float fmaf(float, float, float);
extern double ldexp(double, int);
extern float ldexpf(float, int);
extern int ilogb(double);
extern int ilogbf(float);
extern long lrint(double);
extern long lrintf(float);
extern long lround(double);
extern long lroundf(float);
extern long long llrint(double);
extern long long llrintf(float);
extern long long llround(double);
extern long long llroundf(float);
extern double scalbn(double, int);
extern float scalbnf(float, int);
extern double frexp(double, int *);
extern float frexpf(float, int *);
extern double modf(double, double *);
extern float modff(float, float *);

#ifdef __cplusplus
}
#endif

#ifndef HUGE_VALF
#define HUGE_VALF __builtin_huge_valf()
#endif
#ifndef INFINITY
#define INFINITY __builtin_inff()
#endif
#ifndef NAN
#define NAN __builtin_nanf("")
#endif
#ifndef isnan
#define isnan(x) __builtin_isnan(x)
#endif
#ifndef isinf
#define isinf(x) __builtin_isinf_sign(x)
#endif
#ifndef signbit
#define signbit(x) __builtin_signbit(x)
#endif
#ifndef isfinite
#define isfinite(x) __builtin_isfinite(x)
#endif

#endif /* MLF_LIBM_MATH_H */
