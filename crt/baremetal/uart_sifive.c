/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uart_sifive.c - the UART of SiFive's FE310 family. Eight bytes are buffered on receipt; they are polled, or taken by
 * its interrupt (uart_rx.h).
 *
 * Clocks and pins are the row's [[init]] writes, before main(). mlf_board.h gives MLF_UART_BASE, MLF_UART_BAUD,
 * MLF_UART_MAX_BAUD and MLF_UART_CLOCK_HZ. Registers: SiFive FE310-G000 manual, chapter "Universal Asynchronous
 * Receiver/Transmitter".
 */
#include "cpu.h"
#include "mlf/mlf_platform.h"
#include "mlf_board.h"
#include "uart_rate.h"
#include "uart_rx.h"

#define UART_TX_DATA MLF_REG32(MLF_UART_BASE + 0x00u)
#define UART_RX_DATA MLF_REG32(MLF_UART_BASE + 0x04u) /* reading takes the byte */
#define UART_TX_CONTROL MLF_REG32(MLF_UART_BASE + 0x08u)
#define UART_RX_CONTROL MLF_REG32(MLF_UART_BASE + 0x0Cu)
#define UART_INT_ENABLE MLF_REG32(MLF_UART_BASE + 0x10u)
#define UART_INT_PENDING MLF_REG32(MLF_UART_BASE + 0x14u)
#define UART_DIVISOR MLF_REG32(MLF_UART_BASE + 0x18u) /* clocks a bit, less one */
#define UART_FULL_OR_EMPTY (1u << 31)
#define UART_ENABLE 1u
#define UART_TX_BELOW_ONE (1u << 16) /* pending while less than one byte waits */
#define UART_INT_TX (1u << 0)
#define UART_INT_RX (1u << 1)

#define CLOCKS_A_BIT 16u
#define LARGEST_DIVISOR 0xFFFFu
#define FRAME_BITS 10u

#if MLF_UART_CLOCK_HZ / MLF_UART_BAUD < CLOCKS_A_BIT
#error "the clock must be at least 16 times the baud rate"
#endif

static int is_started;

static uint32_t clocks_of(uint32_t baud) { return mlf_uart_divisor(MLF_UART_CLOCK_HZ, baud); }

void mlf_uart_init(void) {
  if (is_started == 0) {
    UART_DIVISOR = clocks_of(MLF_UART_BAUD) - 1u;
    is_started = 1;
  }
  UART_TX_CONTROL = UART_TX_BELOW_ONE | UART_ENABLE;
  UART_RX_CONTROL = UART_ENABLE;
#if MLF_UART_RX_BYTES > 0
  UART_INT_ENABLE = UART_INT_RX;
  mlf_uart_rx_enable();
#else
  UART_INT_ENABLE = 0;
#endif
}

#if MLF_UART_RX_BYTES > 0
void MLF_UART_HANDLER(void) {
  for (uint32_t data = UART_RX_DATA; (data & UART_FULL_OR_EMPTY) == 0u; data = UART_RX_DATA) {
    mlf_uart_rx_put((uint8_t)data);
  }
}

size_t mlf_uart_read(uint8_t *out_data, size_t capacity) { return mlf_uart_rx_take(out_data, capacity); }
#else
size_t mlf_uart_read(uint8_t *out_data, size_t capacity) {
  size_t count = 0;
  while (count < capacity) {
    const uint32_t data = UART_RX_DATA;
    if ((data & UART_FULL_OR_EMPTY) != 0u) {
      break;
    }
    out_data[count] = (uint8_t)data;
    count++;
  }
  return count;
}
#endif

void mlf_uart_write(const uint8_t *data, size_t size) {
  for (size_t i = 0; i < size; i++) {
    while ((UART_TX_DATA & UART_FULL_OR_EMPTY) != 0u) {
    }
    UART_TX_DATA = data[i];
  }
}

int mlf_uart_can_set_baud(uint32_t baud) {
  return mlf_uart_can_divide(MLF_UART_CLOCK_HZ, 1u, baud, CLOCKS_A_BIT, LARGEST_DIVISOR);
}

void mlf_uart_set_baud(uint32_t baud) {
  while ((UART_INT_PENDING & UART_INT_TX) == 0u) {
  }
  /* The last byte has left the buffer, and may be on the line for a frame more: no register tells. */
  for (volatile uint32_t left = FRAME_BITS * (UART_DIVISOR + 1u); left != 0u; left--) {
  }
  UART_DIVISOR = clocks_of(baud != 0u ? baud : MLF_UART_BAUD) - 1u;
}
