/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares crt/libc/math.c, whose functions are renamed to own_NAME, with this machine's C library: prints
 * for each the largest distance in units in the last place, and an argument that has it. Arguments: every
 * 4,099th float, and special ones.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#undef NAMES
#define ONE(X)                                                                                           \
  X(acosf)                                                                                               \
  X(acoshf) X(asinf) X(asinhf) X(atanf) X(atanhf) X(cbrtf) X(coshf) X(erfcf) X(erff) X(expm1f) X(log1pf) \
      X(nearbyintf) X(rintf) X(sinhf) X(tanhf)
#define TWO(X) X(atan2f) X(fdimf) X(hypotf) X(powf) X(remainderf)

#define DECLARE_ONE(name) extern float own_##name(float);
#define DECLARE_TWO(name) extern float own_##name(float, float);
ONE(DECLARE_ONE)
TWO(DECLARE_TWO)
extern double own_rint(double), own_nearbyint(double);
extern long own_lrint(double), own_lround(double), own_lrintf(float), own_lroundf(float);
extern float own_ldexpf(float, int), own_scalbnf(float, int), own_frexpf(float, int*),
    own_modff(float, float*);

static uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static uint32_t place(float x) { /* floats in their order */
  const uint32_t bits = bits_of(x);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

/* Units in the last place between two results; NaN is as far as can be from anything but NaN, -0 from 0. */
static uint32_t distance(float a, float b) {
  if (isnan(a) || isnan(b)) {
    return isnan(a) && isnan(b) ? 0 : UINT32_MAX;
  }
  if (a == 0.0f && b == 0.0f) {
    return signbit(a) == signbit(b) ? 0 : UINT32_MAX;
  }
  return place(a) > place(b) ? place(a) - place(b) : place(b) - place(a);
}

static const float special[] = {0.0f,       1.0f,       0.5f,        2.0f,       3.0f,  1.5f,     2.5f,
                                1e-3f,      1e-40f,     16777216.0f, 8388607.5f, 1e30f, INFINITY, NAN,
                                0.9999999f, 1.0000001f, 4.0f,        20.0f,      88.8f, 103.9f};
enum { SPECIALS = sizeof special / sizeof special[0] };

static float argument(uint32_t i) { /* specials of both signs, then all over the range */
  return i < 2 * SPECIALS ? (i & 1 ? -special[i / 2] : special[i / 2]) : float_of((i - 2 * SPECIALS) * 4099u);
}
enum { COUNT = 2 * SPECIALS + 1047808 };

static uint32_t seed = 1;
static float drawn(void) {
  seed = seed * 1664525u + 1013904223u;
  const float scale = (float[]){1.0f, 10.0f, 1e4f, 1e-3f}[seed >> 8 & 3];
  seed = seed * 1664525u + 1013904223u;
  const float x = ((float)(seed >> 8) / 8388608.0f - 1.0f) * scale;
  return seed & 128 ? x : rintf(x);
}

static void say(const char* name, uint32_t worst, float x, float y, float own, float theirs) {
  printf("%s %u %a %a own %a theirs %a\n", name, worst, (double)x, (double)y, (double)own, (double)theirs);
}

#define CHECK_ONE(name)                                        \
  {                                                            \
    uint32_t worst = 0;                                        \
    float at = 0;                                              \
    for (uint32_t i = 0; i < COUNT; i++) {                     \
      const float x = argument(i);                             \
      const uint32_t found = distance(own_##name(x), name(x)); \
      if (found > worst) worst = found, at = x;                \
    }                                                          \
    say(#name, worst, at, 0, own_##name(at), name(at));        \
  }

#define CHECK_TWO(name)                                                                                 \
  {                                                                                                     \
    uint32_t worst = 0;                                                                                 \
    float at = 0, by = 0;                                                                               \
    for (uint32_t i = 0; i < 400000; i++) {                                                             \
      const uint32_t n = 2 * SPECIALS;                                                                  \
      const float x = i < n * n ? argument(i / n) : drawn(), y = i < n * n ? argument(i % n) : drawn(); \
      const uint32_t found = distance(own_##name(x, y), name(x, y));                                    \
      if (found > worst) worst = found, at = x, by = y;                                                 \
    }                                                                                                   \
    say(#name, worst, at, by, own_##name(at, by), name(at, by));                                        \
  }

static uint32_t parts(void) { /* those that return integers or parts */
  uint32_t wrong = 0;
  for (uint32_t i = 0; i < COUNT; i++) {
    const float x = argument(i);
    int own_exponent = 0, exponent = 0;
    float own_whole = 0, whole = 0;
    wrong += distance(own_frexpf(x, &own_exponent), frexpf(x, &exponent)) != 0;
    wrong += !isnan(x) && !isinf(x) && own_exponent != exponent;
    wrong += distance(own_modff(x, &own_whole), modff(x, &whole)) != 0 || distance(own_whole, whole) != 0;
    const int shift = (int)(i % 700) - 350;
    wrong += distance(own_ldexpf(x, shift), ldexpf(x, shift)) != 0 ||
             distance(own_scalbnf(x, shift), scalbnf(x, shift)) != 0;
    if (fabsf(x) < 2e9f) {
      const double d = (double)x * 1.0000001;
      wrong += own_lrintf(x) != lrintf(x) || own_lroundf(x) != lroundf(x);
      wrong += own_lrint(d) != lrint(d) || own_lround(d) != lround(d);
      wrong += own_rint(d) != rint(d) || own_nearbyint(d) != nearbyint(d);
    }
  }
  return wrong;
}

int main(void) {
  ONE(CHECK_ONE)
  TWO(CHECK_TWO)
  printf("parts %u\n", parts());
  return 0;
}
