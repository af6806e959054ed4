/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uart_nrf51.c - the UART of the nRF51 family. Six bytes are buffered on receipt; they are polled, or taken
 * by its interrupt (uart_rx.h).
 *
 * mlf_board.h gives MLF_UART_BASE, MLF_UART_BAUD, MLF_UART_MAX_BAUD, MLF_UART_TX_PIN and MLF_UART_RX_PIN.
 */
#include "cpu.h"
#include "mlf/mlf_platform.h"
#include "mlf_board.h"
#include "uart_rx.h"

#define UART_TASKS_STARTRX MLF_REG32(MLF_UART_BASE + 0x000u)
#define UART_TASKS_STARTTX MLF_REG32(MLF_UART_BASE + 0x008u)
#define UART_EVENTS_RXDRDY MLF_REG32(MLF_UART_BASE + 0x108u)
#define UART_EVENTS_TXDRDY MLF_REG32(MLF_UART_BASE + 0x11Cu)
#define UART_INTENSET MLF_REG32(MLF_UART_BASE + 0x304u)
#define UART_ENABLE MLF_REG32(MLF_UART_BASE + 0x500u)
#define UART_PSELTXD MLF_REG32(MLF_UART_BASE + 0x50Cu)
#define UART_PSELRXD MLF_REG32(MLF_UART_BASE + 0x514u)
#define UART_RXD MLF_REG32(MLF_UART_BASE + 0x518u)
#define UART_TXD MLF_REG32(MLF_UART_BASE + 0x51Cu)
#define UART_BAUDRATE MLF_REG32(MLF_UART_BASE + 0x524u)
#define UART_ENABLE_ON 4u
#define UART_INT_RXDRDY (1u << 2)

/* The rate register holds baud * 2^32 / 16 MHz in its upper 20 bits: baud * (268 + 3567 / 2^13), to 1 in 8 million.
 * Divided in 64 bits it would be the only such division of most images, which takes 400 bytes. */
static uint32_t rate_of(uint32_t baud) { return (baud * 268u + (baud * 3567u >> 13) + 0x800u) & 0xFFFFF000u; }

static int is_started;

void mlf_uart_init(void) {
  UART_PSELTXD = MLF_UART_TX_PIN;
  UART_PSELRXD = MLF_UART_RX_PIN;
  if (is_started == 0) {
    UART_BAUDRATE = rate_of(MLF_UART_BAUD);
    is_started = 1;
  }
  UART_ENABLE = UART_ENABLE_ON;
  UART_EVENTS_RXDRDY = 0;
  UART_TASKS_STARTRX = 1;
  UART_TASKS_STARTTX = 1;
#if MLF_UART_RX_BYTES > 0
  UART_INTENSET = UART_INT_RXDRDY;
  mlf_uart_rx_enable();
#endif
}

#if MLF_UART_RX_BYTES > 0
void MLF_UART_HANDLER(void) {
  while (UART_EVENTS_RXDRDY != 0u) {
    UART_EVENTS_RXDRDY = 0; /* before reading: a byte still in the buffer raises the event again */
    mlf_uart_rx_put((uint8_t)UART_RXD);
  }
}

size_t mlf_uart_read(uint8_t *out_data, size_t capacity) { return mlf_uart_rx_take(out_data, capacity); }
#else
size_t mlf_uart_read(uint8_t *out_data, size_t capacity) {
  size_t count = 0;
  while (count < capacity && UART_EVENTS_RXDRDY != 0u) {
    /* Clear before reading: a byte still in the buffer raises the event again. */
    UART_EVENTS_RXDRDY = 0;
    out_data[count] = (uint8_t)UART_RXD;
    count++;
  }
  return count;
}
#endif

void mlf_uart_write(const uint8_t *data, size_t size) {
  for (size_t i = 0; i < size; i++) {
    UART_EVENTS_TXDRDY = 0;
    UART_TXD = data[i];
    while (UART_EVENTS_TXDRDY == 0u) {
    }
  }
}

/* Any rate that the generator makes within 2 %: its steps are 15 bits a second. */
int mlf_uart_can_set_baud(uint32_t baud) {
  return baud == 0u ? MLF_UART_MAX_BAUD > MLF_UART_BAUD : baud >= 1200u && baud <= MLF_UART_MAX_BAUD;
}

/* mlf_uart_write() returns when its last byte has left: there is nothing to wait for. */
void mlf_uart_set_baud(uint32_t baud) { UART_BAUDRATE = rate_of(baud != 0u ? baud : MLF_UART_BAUD); }
