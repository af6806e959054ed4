/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uart_pl011.c - Arm's PrimeCell UART PL011: Stellaris, Raspberry Pi Pico and others. 16 bytes are buffered on
 * receipt; they are polled, or taken by its interrupt (uart_rx.h).
 *
 * Clocks and pins are the row's [[init]] writes, before main(). mlf_board.h gives MLF_UART_BASE, MLF_UART_BAUD,
 * MLF_UART_MAX_BAUD and MLF_UART_CLOCK_HZ, the rate of its own clock.
 */
#include "cpu.h"
#include "mlf/mlf_platform.h"
#include "mlf_board.h"
#include "uart_rate.h"
#include "uart_rx.h"

#define UART_DR MLF_REG32(MLF_UART_BASE + 0x00u)
#define UART_FR MLF_REG32(MLF_UART_BASE + 0x18u)
#define UART_IBRD MLF_REG32(MLF_UART_BASE + 0x24u)
#define UART_FBRD MLF_REG32(MLF_UART_BASE + 0x28u)
#define UART_LCRH MLF_REG32(MLF_UART_BASE + 0x2Cu)
#define UART_CR MLF_REG32(MLF_UART_BASE + 0x30u)
#define UART_IMSC MLF_REG32(MLF_UART_BASE + 0x38u)
#define UART_ICR MLF_REG32(MLF_UART_BASE + 0x44u)
#define UART_FR_BUSY (1u << 3)
#define UART_FR_RXFE (1u << 4)
#define UART_FR_TXFF (1u << 5)
#define UART_LCRH_8BITS (3u << 5)
#define UART_LCRH_FIFOS (1u << 4)
#define UART_CR_ON 0x301u                    /* UARTEN, TXE, RXE */
#define UART_INT_RX ((1u << 4) | (1u << 6)) /* bytes wait, or wait for long */

#if MLF_UART_CLOCK_HZ / MLF_UART_BAUD < 16u
#error "the clock must be at least 16 times the baud rate"
#endif

static int is_started;

/* Clock / (16 * baud) in 64ths, rounded. */
static uint32_t divisor_of(uint32_t baud) {
  const uint64_t rate = baud;
  const uint64_t clock = MLF_UART_CLOCK_HZ;
  const uint64_t divisor = (clock * 4u + rate / 2u) / rate;

  return (uint32_t)divisor;
}

static void start(uint32_t baud) {
  const uint32_t divisor = divisor_of(baud);

  UART_CR = 0;
  UART_IBRD = divisor >> 6;
  UART_FBRD = divisor & 63u;
  UART_LCRH = UART_LCRH_8BITS | UART_LCRH_FIFOS; /* takes over the divisor */
  UART_CR = UART_CR_ON;
}

void mlf_uart_init(void) {
  if (is_started == 0) {
    start(MLF_UART_BAUD);
    is_started = 1;
  }
#if MLF_UART_RX_BYTES > 0
  UART_IMSC = UART_INT_RX;
  mlf_uart_rx_enable();
#endif
}

#if MLF_UART_RX_BYTES > 0
void MLF_UART_HANDLER(void) {
  UART_ICR = UART_INT_RX;
  while ((UART_FR & UART_FR_RXFE) == 0u) {
    mlf_uart_rx_put((uint8_t)UART_DR);
  }
}

size_t mlf_uart_read(uint8_t *out_data, size_t capacity) { return mlf_uart_rx_take(out_data, capacity); }
#else
size_t mlf_uart_read(uint8_t *out_data, size_t capacity) {
  size_t count = 0;
  while (count < capacity && (UART_FR & UART_FR_RXFE) == 0u) {
    out_data[count] = (uint8_t)UART_DR;
    count++;
  }
  return count;
}
#endif

void mlf_uart_write(const uint8_t *data, size_t size) {
  for (size_t i = 0; i < size; i++) {
    while ((UART_FR & UART_FR_TXFF) != 0u) {
    }
    UART_DR = data[i];
  }
}

int mlf_uart_can_set_baud(uint32_t baud) {
  if (baud == 0u) {
    return MLF_UART_MAX_BAUD > MLF_UART_BAUD;
  }
  return baud >= LEAST_BAUD && baud <= MLF_UART_MAX_BAUD && divisor_of(baud) >= 64u &&
         divisor_of(baud) >> 6 <= 0xFFFFu;
}

void mlf_uart_set_baud(uint32_t baud) {
  while ((UART_FR & UART_FR_BUSY) != 0u) {
  }
  start(baud != 0u ? baud : MLF_UART_BAUD);
}
