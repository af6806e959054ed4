/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uart_16550.c - a UART with the registers of the 16550, a byte each. Sixteen bytes are buffered on receipt; they are
 * polled, or taken by its interrupt (uart_rx.h).
 *
 * mlf_board.h gives MLF_UART_BASE, MLF_UART_BAUD, MLF_UART_MAX_BAUD and MLF_UART_CLOCK_HZ.
 */
#include "cpu.h"
#include "mlf/mlf_platform.h"
#include "mlf_board.h"
#include "uart_rate.h"
#include "uart_rx.h"

#define UART_REG(offset) (*(volatile uint8_t *)(uintptr_t)(MLF_UART_BASE + (offset)))
#define UART_DATA UART_REG(0u)         /* with DLAB: the low byte of the divisor */
#define UART_INT_ENABLE UART_REG(1u)   /* with DLAB: the high byte of the divisor */
#define UART_FIFO_CONTROL UART_REG(2u) /* writes */
#define UART_LINE_CONTROL UART_REG(3u)
#define UART_LINE_STATUS UART_REG(5u)
#define UART_INT_RX 1u
#define UART_FIFO_ENABLE 1u
#define UART_LINE_8N1 3u
#define UART_LINE_DLAB 0x80u
#define UART_STATUS_RX_READY (1u << 0)
#define UART_STATUS_TX_EMPTY (1u << 5) /* the buffer; the last byte may still be on the line */
#define UART_STATUS_IDLE (1u << 6)

#define CLOCKS_A_BIT 16u
#define LARGEST_DIVISOR 0xFFFFu

#if MLF_UART_CLOCK_HZ / MLF_UART_BAUD < CLOCKS_A_BIT
#error "the UART's clock must be at least 16 times the baud rate"
#endif

static int is_started;

static uint32_t divisor_of(uint32_t baud) { return mlf_uart_divisor(MLF_UART_CLOCK_HZ, CLOCKS_A_BIT * baud); }

static void set_divisor(uint32_t divisor) {
  UART_LINE_CONTROL = UART_LINE_8N1 | UART_LINE_DLAB;
  UART_DATA = (uint8_t)divisor;
  UART_INT_ENABLE = (uint8_t)(divisor >> 8);
  UART_LINE_CONTROL = UART_LINE_8N1;
}

void mlf_uart_init(void) {
  if (is_started == 0) {
    set_divisor(divisor_of(MLF_UART_BAUD));
    UART_FIFO_CONTROL = UART_FIFO_ENABLE;
    is_started = 1;
  }
#if MLF_UART_RX_BYTES > 0
  UART_INT_ENABLE = UART_INT_RX;
  mlf_uart_rx_enable();
#else
  UART_INT_ENABLE = 0;
#endif
}

#if MLF_UART_RX_BYTES > 0
void MLF_UART_HANDLER(void) {
  while ((UART_LINE_STATUS & UART_STATUS_RX_READY) != 0u) {
    mlf_uart_rx_put(UART_DATA);
  }
}

size_t mlf_uart_read(uint8_t *out_data, size_t capacity) { return mlf_uart_rx_take(out_data, capacity); }
#else
size_t mlf_uart_read(uint8_t *out_data, size_t capacity) {
  size_t count = 0;
  while (count < capacity && (UART_LINE_STATUS & UART_STATUS_RX_READY) != 0u) {
    out_data[count] = UART_DATA;
    count++;
  }
  return count;
}
#endif

void mlf_uart_write(const uint8_t *data, size_t size) {
  for (size_t i = 0; i < size; i++) {
    while ((UART_LINE_STATUS & UART_STATUS_TX_EMPTY) == 0u) {
    }
    UART_DATA = data[i];
  }
}

int mlf_uart_can_set_baud(uint32_t baud) {
  return mlf_uart_can_divide(MLF_UART_CLOCK_HZ, CLOCKS_A_BIT, baud, 1u, LARGEST_DIVISOR);
}

void mlf_uart_set_baud(uint32_t baud) {
  while ((UART_LINE_STATUS & UART_STATUS_IDLE) == 0u) {
  }
  set_divisor(divisor_of(baud != 0u ? baud : MLF_UART_BAUD));
}
