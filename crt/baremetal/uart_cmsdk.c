/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uart_cmsdk.c - the APB UART of the Cortex-M System Design Kit. One byte of buffer each way; what comes in
 * is polled, or taken by its interrupt (uart_rx.h).
 *
 * mlf_board.h gives MLF_UART_BASE, MLF_UART_BAUD, MLF_UART_MAX_BAUD and MLF_CLOCK_HZ.
 */
#include "cpu.h"
#include "mlf/mlf_platform.h"
#include "mlf_board.h"
#include "uart_rate.h"
#include "uart_rx.h"

#define UART_DATA MLF_REG32(MLF_UART_BASE + 0x00u)
#define UART_STATE MLF_REG32(MLF_UART_BASE + 0x04u)
#define UART_CTRL MLF_REG32(MLF_UART_BASE + 0x08u)
#define UART_INTCLEAR MLF_REG32(MLF_UART_BASE + 0x0Cu)
#define UART_BAUDDIV MLF_REG32(MLF_UART_BASE + 0x10u)
#define UART_STATE_TX_FULL (1u << 0)
#define UART_STATE_RX_FULL (1u << 1)
#define UART_CTRL_TX_ENABLE (1u << 0)
#define UART_CTRL_RX_ENABLE (1u << 1)
#define UART_CTRL_RX_INTERRUPT (1u << 3)
#define UART_INT_RX (1u << 1)

#define LEAST_DIVISOR 16u
#define LARGEST_DIVISOR 0xFFFFFu /* the register has 20 bits */
#define LONGEST_BYTE 12u         /* bits of a byte on the line, with some to spare */

#if MLF_CLOCK_HZ / MLF_UART_BAUD < LEAST_DIVISOR
#error "the clock must be at least 16 times the baud rate"
#endif

static int is_started;

static uint32_t divisor_of(uint32_t baud) { return mlf_uart_divisor(MLF_CLOCK_HZ, baud); }

void mlf_uart_init(void) {
  if (is_started == 0) {
    UART_BAUDDIV = divisor_of(MLF_UART_BAUD);
    is_started = 1;
  }
#if MLF_UART_RX_BYTES > 0
  UART_CTRL = UART_CTRL_TX_ENABLE | UART_CTRL_RX_ENABLE | UART_CTRL_RX_INTERRUPT;
  mlf_uart_rx_enable();
#else
  UART_CTRL = UART_CTRL_TX_ENABLE | UART_CTRL_RX_ENABLE;
#endif
}

#if MLF_UART_RX_BYTES > 0
void MLF_UART_HANDLER(void) {
  UART_INTCLEAR = UART_INT_RX;
  while ((UART_STATE & UART_STATE_RX_FULL) != 0u) {
    mlf_uart_rx_put((uint8_t)UART_DATA);
  }
}

size_t mlf_uart_read(uint8_t *out_data, size_t capacity) { return mlf_uart_rx_take(out_data, capacity); }
#else
size_t mlf_uart_read(uint8_t *out_data, size_t capacity) {
  size_t count = 0;
  while (count < capacity && (UART_STATE & UART_STATE_RX_FULL) != 0u) {
    out_data[count] = (uint8_t)UART_DATA;
    count++;
  }
  return count;
}
#endif

void mlf_uart_write(const uint8_t *data, size_t size) {
  for (size_t i = 0; i < size; i++) {
    while ((UART_STATE & UART_STATE_TX_FULL) != 0u) {
    }
    UART_DATA = data[i];
  }
}

int mlf_uart_can_set_baud(uint32_t baud) {
  return mlf_uart_can_divide(MLF_CLOCK_HZ, 1u, baud, LEAST_DIVISOR, LARGEST_DIVISOR);
}

void mlf_uart_set_baud(uint32_t baud) {
  while ((UART_STATE & UART_STATE_TX_FULL) != 0u) {
  }
  /* Nothing tells when the last byte has left: a turn of this loop takes one clock or more. */
  for (volatile uint32_t clocks = LONGEST_BYTE * UART_BAUDDIV; clocks != 0u; clocks--) {
  }
  UART_BAUDDIV = divisor_of(baud != 0u ? baud : MLF_UART_BAUD);
}
