/* SPDX-License-Identifier: Apache-2.0 */
/*
 * math.c - functions of <math.h> for floats, for compilers that come without a C library. Theirs (exp, log,
 * sqrt, sin, cos, floor, fmod, round, of floats and doubles) are not repeated here.
 *
 * Each is computed in doubles, where the textbook's formula has some 1e-12 of relative error, and rounded
 * once: results are those of a correctly rounding library but for about one argument in ten thousand, which
 * is off by one unit in the last place. errno is not set.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define PI 3.14159265358979323846
#define SQRT3 1.73205080756887729353
#define TWO_OF_SQRT_PI 1.12837916709551257390
#define SMALL 1e-3 /* below it a few terms of the series are exact enough, and the formula is not */

static double power_of_two(int exponent) {
  const uint64_t bits = (uint64_t)(exponent + 1023) << 52;
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static float signed_as(double value, float sign) { return copysignf((float)value, sign); }

/* The arc tangent of x >= 0, infinity included. */
static double arc_tangent(double x) {
  const int inverted = x > 1.0;
  const double a = inverted ? 1.0 / x : x;
  const int shifted = a > 0.26794919243112270647; /* tan(pi / 12) */
  const double t = shifted ? (a * SQRT3 - 1.0) / (a + SQRT3) : a;
  double sum = 0.0;
  for (int n = 23; n > 0; n -= 2) {
    sum = 1.0 / n - t * t * sum;
  }
  sum *= t;
  sum += shifted ? PI / 6.0 : 0.0;
  return inverted ? PI / 2.0 - sum : sum;
}

float atanf(float x) { return isnan(x) ? x : signed_as(arc_tangent(fabs((double)x)), x); }

float atan2f(float y, float x) {
  if (isnan(x) || isnan(y)) {
    return x + y;
  }
  double angle;
  if (isinf(x) && isinf(y)) {
    angle = PI / 4.0;
  } else if (y == 0.0f) {
    angle = 0.0;
  } else {
    angle = arc_tangent(fabs((double)y) / fabs((double)x));
  }
  return signed_as(signbit(x) ? PI - angle : angle, y);
}

float asinf(float x) {
  const double a = fabs((double)x);
  return a <= 1.0 ? signed_as(arc_tangent(a / sqrt((1.0 - a) * (1.0 + a))), x) : NAN;
}

float acosf(float x) {
  const double a = (double)x;
  return fabs(a) <= 1.0 ? (float)(2.0 * arc_tangent(sqrt((1.0 - a) / (1.0 + a)))) : NAN;
}

/* exp(x) - 1 */
static double exponential_minus_1(double x) {
  return fabs(x) < SMALL ? x * (1.0 + x / 2.0 * (1.0 + x / 3.0 * (1.0 + x / 4.0))) : exp(x) - 1.0;
}

/* log(1 + x) */
static double logarithm_plus_1(double x) {
  return fabs(x) < SMALL ? x * (1.0 - x * (1.0 / 2.0 - x * (1.0 / 3.0 - x * (1.0 / 4.0 - x / 5.0))))
                         : log(1.0 + x);
}

float expm1f(float x) { return x == 0.0f ? x : (float)exponential_minus_1((double)x); }

float log1pf(float x) { return x == 0.0f ? x : (float)logarithm_plus_1((double)x); }

float sinhf(float x) {
  const double a = exponential_minus_1(fabs((double)x));
  return !(fabs((double)x) < 200.0) ? x * INFINITY : signed_as((a + a / (a + 1.0)) / 2.0, x);
}

float coshf(float x) {
  const double a = exp(fabs((double)x));
  return (float)((a + 1.0 / a) / 2.0);
}

float tanhf(float x) {
  const double a = fabs((double)x);
  if (a > 20.0) {
    return signed_as(1.0, x);
  }
  const double e = exponential_minus_1(2.0 * a);
  return isnan(x) ? x : signed_as(e / (e + 2.0), x);
}

float asinhf(float x) {
  const double a = fabs((double)x);
  return isinf(x) ? x : signed_as(logarithm_plus_1(a + a * a / (1.0 + sqrt(a * a + 1.0))), x);
}

float acoshf(float x) {
  const double a = (double)x - 1.0;
  return a < 0.0 ? NAN : isinf(x) ? x : (float)logarithm_plus_1(a + sqrt(a * (a + 2.0)));
}

float atanhf(float x) {
  const double a = fabs((double)x);
  return a == 1.0 ? signed_as((double)INFINITY, x)
                  : signed_as(logarithm_plus_1(2.0 * a / (1.0 - a)) / 2.0, x);
}

static double error_function(double x) { /* of 0 <= x <= 4, all terms positive */
  double term = x, sum = x;
  for (int n = 1; term > sum * 1e-13; n++) {
    term *= 2.0 * x * x / (2 * n + 1);
    sum += term;
  }
  return TWO_OF_SQRT_PI * exp(-x * x) * sum;
}

float erff(float x) {
  const double a = fabs((double)x);
  return isnan(x) ? x : signed_as(a > 4.0 ? 1.0 : error_function(a), x);
}

float erfcf(float x) {
  const double a = (double)x;
  if (isnan(x)) {
    return x;
  }
  if (a < 1.0) {
    return (float)(a < -4.0 ? 2.0 : a < 0.0 ? 1.0 + error_function(-a) : 1.0 - error_function(a));
  }
  double fraction = a;
  for (int n = 80; n > 0; n--) {
    fraction = a + n / 2.0 / fraction;
  }
  return (float)(exp(-a * a) * TWO_OF_SQRT_PI / 2.0 / fraction);
}

static int is_odd(float y) { /* of an integer; from 2 to the 24th on floats are even */
  return fabsf(y) < 16777216.0f && ((int32_t)y & 1) != 0;
}

float powf(float x, float y) {
  if (x == 1.0f || y == 0.0f) {
    return 1.0f;
  }
  if (isnan(x) || isnan(y)) {
    return x + y;
  }
  const int is_integer = truncf(y) == y;
  const float sign = signbit(x) && is_integer && is_odd(y) ? -1.0f : 1.0f;
  const double a = fabs((double)x);
  if (isinf(y)) {
    return a == 1.0 ? 1.0f : (a > 1.0) == (y > 0.0f) ? INFINITY : 0.0f;
  }
  if (a == 0.0 || isinf(x)) {
    return copysignf((a == 0.0) == (y > 0.0f) ? 0.0f : INFINITY, sign);
  }
  if (x < 0.0f && !is_integer) {
    return NAN;
  }
  const double exponent = (double)y * log(a);
  return signed_as(exponent > 200.0 ? (double)INFINITY : exponent < -200.0 ? 0.0 : exp(exponent), sign);
}

float cbrtf(float x) {
  const double a = fabs((double)x);
  if (a == 0.0 || !(a <= 3.5e38)) {
    return x;
  }
  const double root = exp(log(a) / 3.0);
  return signed_as(root - (root * root * root - a) / (3.0 * root * root), x);
}

float hypotf(float x, float y) {
  return isinf(x) || isinf(y) ? INFINITY : (float)sqrt((double)x * (double)x + (double)y * (double)y);
}

/* To the nearest integer, ties to even. */
float rintf(float x) {
  const float a = fabsf(x);
  return a < 8388608.0f ? copysignf((a + 8388608.0f) - 8388608.0f, x) : x;
}

double rint(double x) {
  const double a = fabs(x);
  return a < 4503599627370496.0 ? copysign((a + 4503599627370496.0) - 4503599627370496.0, x) : x;
}

float nearbyintf(float x) { return rintf(x); }

double nearbyint(double x) { return rint(x); }

float roundevenf(float x) { return rintf(x); }

long lrintf(float x) { return (long)rintf(x); }

long lrint(double x) { return (long)rint(x); }

long lroundf(float x) { return (long)roundf(x); }

long lround(double x) { return (long)round(x); }

float fdimf(float x, float y) { return x <= y ? 0.0f : x - y; }

float ldexpf(float x, int exponent) {
  const int bounded = exponent > 300 ? 300 : exponent < -300 ? -300 : exponent;
  return (float)((double)x * power_of_two(bounded));
}

float scalbnf(float x, int exponent) { return ldexpf(x, exponent); }

float frexpf(float x, int* out_exponent) {
  *out_exponent = 0;
  if (x == 0.0f || isnan(x) || isinf(x)) {
    return x;
  }
  uint64_t bits;
  double value = (double)x;
  memcpy(&bits, &value, sizeof bits);
  *out_exponent = (int)(bits >> 52 & 0x7FFu) - 1022;
  return (float)(value * power_of_two(-*out_exponent));
}

float modff(float x, float* out_integer) {
  *out_integer = truncf(x);
  return isinf(x) ? copysignf(0.0f, x) : copysignf(x - *out_integer, x);
}

float remainderf(float x, float y) {
  const double b = fabs((double)y);
  if (isinf(y) && !isnan(x) && !isinf(x)) {
    return x;
  }
  double rest = fmod(fabs((double)x), 2.0 * b);
  if (2.0 * rest > b) {
    rest -= b;
    if (2.0 * rest >= b) {
      rest -= b;
    }
  }
  return (float)(signbit(x) ? -rest : rest);
}
