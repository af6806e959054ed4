/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uart_stm32.c - the USART of the STM32 F1, F2, F4 and L1 families (registers SR, DR, BRR, CR1). One byte is
 * buffered on receipt; it is polled, or taken by its interrupt (uart_rx.h).
 *
 * Clocks and pins are the row's [[init]] writes, before main(). mlf_board.h gives MLF_UART_BASE, MLF_UART_BAUD,
 * MLF_UART_MAX_BAUD and MLF_UART_CLOCK_HZ: the rate of the bus of this USART as those writes leave it.
 */
#include "cpu.h"
#include "mlf/mlf_platform.h"
#include "mlf_board.h"
#include "uart_rate.h"
#include "uart_rx.h"

#define USART_SR MLF_REG32(MLF_UART_BASE + 0x00u)
#define USART_DR MLF_REG32(MLF_UART_BASE + 0x04u)
#define USART_BRR MLF_REG32(MLF_UART_BASE + 0x08u)
#define USART_CR1 MLF_REG32(MLF_UART_BASE + 0x0Cu)
#define USART_SR_RXNE (1u << 5)
#define USART_SR_TC (1u << 6)
#define USART_SR_TXE (1u << 7)
#define USART_CR1_RE (1u << 2)
#define USART_CR1_TE (1u << 3)
#define USART_CR1_RXNEIE (1u << 5)
#define USART_CR1_UE (1u << 13)

#define LEAST_DIVISOR 16u
#define LARGEST_DIVISOR 0xFFFFu /* of the clock, in sixteenths: 12 bits and 4 */

#if MLF_UART_CLOCK_HZ / MLF_UART_BAUD < LEAST_DIVISOR
#error "the clock must be at least 16 times the baud rate"
#endif

static int is_started;

/* With 16 samples a bit, BRR holds clock / baud: its lower 4 bits are the fraction. */
static uint32_t divisor_of(uint32_t baud) { return mlf_uart_divisor(MLF_UART_CLOCK_HZ, baud); }

void mlf_uart_init(void) {
  if (is_started == 0) {
    USART_BRR = divisor_of(MLF_UART_BAUD);
    is_started = 1;
  }
#if MLF_UART_RX_BYTES > 0
  USART_CR1 = USART_CR1_UE | USART_CR1_TE | USART_CR1_RE | USART_CR1_RXNEIE;
  mlf_uart_rx_enable();
#else
  USART_CR1 = USART_CR1_UE | USART_CR1_TE | USART_CR1_RE;
#endif
}

#if MLF_UART_RX_BYTES > 0
void MLF_UART_HANDLER(void) {
  while ((USART_SR & USART_SR_RXNE) != 0u) {
    mlf_uart_rx_put((uint8_t)USART_DR); /* reading clears it, and an overrun */
  }
}

size_t mlf_uart_read(uint8_t *out_data, size_t capacity) { return mlf_uart_rx_take(out_data, capacity); }
#else
size_t mlf_uart_read(uint8_t *out_data, size_t capacity) {
  size_t count = 0;
  while (count < capacity && (USART_SR & USART_SR_RXNE) != 0u) {
    out_data[count] = (uint8_t)USART_DR;
    count++;
  }
  return count;
}
#endif

void mlf_uart_write(const uint8_t *data, size_t size) {
  for (size_t i = 0; i < size; i++) {
    while ((USART_SR & USART_SR_TXE) == 0u) {
    }
    USART_DR = data[i];
  }
}

int mlf_uart_can_set_baud(uint32_t baud) {
  return mlf_uart_can_divide(MLF_UART_CLOCK_HZ, 1u, baud, LEAST_DIVISOR, LARGEST_DIVISOR);
}

void mlf_uart_set_baud(uint32_t baud) {
  while ((USART_SR & USART_SR_TC) == 0u) { /* until the last byte has left */
  }
  USART_BRR = divisor_of(baud != 0u ? baud : MLF_UART_BAUD);
}
