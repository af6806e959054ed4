/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uart_rate.h - rates of UARTs that divide a clock by a whole number. Private to crt/baremetal.
 */
#ifndef MLF_UART_RATE_H
#define MLF_UART_RATE_H

#include <stdint.h>

#include "mlf_board.h"

#define LEAST_BAUD 1200u /* a device at a lower rate would take seconds to hear that nobody follows */

/* The divisor of a clock whose rate is nearest. */
static inline uint32_t mlf_uart_divisor(uint32_t clock_hz, uint32_t rate) { return (clock_hz + rate / 2u) / rate; }

/* The answer of mlf_uart_can_set_baud(): a bit takes `clocks` of the divided clock, the divisor lies between
 * `least` and `most`, and what it gives within 2 % of the rate. */
static inline int mlf_uart_can_divide(uint32_t clock_hz, uint32_t clocks, uint32_t baud, uint32_t least,
                                      uint32_t most) {
  if (baud == 0u) {
    return MLF_UART_MAX_BAUD > MLF_UART_BAUD;
  }
  if (baud < LEAST_BAUD || baud > MLF_UART_MAX_BAUD) {
    return 0;
  }
  const uint32_t divisor = mlf_uart_divisor(clock_hz, clocks * baud);
  if (divisor < least || divisor > most) {
    return 0;
  }
  const uint32_t actual = clock_hz / (clocks * divisor);
  return (actual > baud ? actual - baud : baud - actual) <= baud / 50u;
}

#endif /* MLF_UART_RATE_H */
