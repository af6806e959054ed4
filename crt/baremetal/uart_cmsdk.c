/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uart_cmsdk.c - the APB UART of the Cortex-M System Design Kit, polled. One byte of buffer each way.
 *
 * mlf_board.h gives MLF_UART_BASE, MLF_UART_BAUD and MLF_CLOCK_HZ.
 */
#include "cortexm.h"
#include "mlf/mlf_platform.h"
#include "mlf_board.h"

#define UART_DATA MLF_REG32(MLF_UART_BASE + 0x00u)
#define UART_STATE MLF_REG32(MLF_UART_BASE + 0x04u)
#define UART_CTRL MLF_REG32(MLF_UART_BASE + 0x08u)
#define UART_BAUDDIV MLF_REG32(MLF_UART_BASE + 0x10u)
#define UART_STATE_TX_FULL (1u << 0)
#define UART_STATE_RX_FULL (1u << 1)
#define UART_CTRL_TX_ENABLE (1u << 0)
#define UART_CTRL_RX_ENABLE (1u << 1)

#if MLF_CLOCK_HZ / MLF_UART_BAUD < 16
#error "the clock must be at least 16 times the baud rate"
#endif

void mlf_uart_init(void) {
  UART_BAUDDIV = MLF_CLOCK_HZ / MLF_UART_BAUD;
  UART_CTRL = UART_CTRL_TX_ENABLE | UART_CTRL_RX_ENABLE;
}

size_t mlf_uart_read(uint8_t *out_data, size_t capacity) {
  size_t count = 0;
  while (count < capacity && (UART_STATE & UART_STATE_RX_FULL) != 0u) {
    out_data[count] = (uint8_t)UART_DATA;
    count++;
  }
  return count;
}

void mlf_uart_write(const uint8_t *data, size_t size) {
  for (size_t i = 0; i < size; i++) {
    while ((UART_STATE & UART_STATE_TX_FULL) != 0u) {
    }
    UART_DATA = data[i];
  }
}
