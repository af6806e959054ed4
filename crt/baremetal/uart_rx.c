/* SPDX-License-Identifier: Apache-2.0 */
/* The ring between a UART's interrupt, which alone moves `head`, and the application, which alone moves
 * `tail`. */
#include "uart_rx.h"

#if MLF_UART_RX_BYTES > 0

static volatile uint8_t ring[MLF_UART_RX_BYTES + 1u]; /* one byte stays free: full differs from empty */
static volatile uint32_t head;
static volatile uint32_t tail;

static uint32_t after(uint32_t at) { return at + 1u < sizeof ring ? at + 1u : 0u; }

void mlf_uart_rx_put(uint8_t byte) {
  const uint32_t at = head;
  if (after(at) != tail) {
    ring[at] = byte;
    head = after(at);
  }
}

/* A pending interrupt ends the sleep even while it is masked: one that comes after the comparison is not missed. */
static void sleep_while_empty(void) {
  mlf_cpu_mask();
  if (tail == head) {
    mlf_cpu_wait();
  }
  mlf_cpu_unmask();
}

size_t mlf_uart_rx_take(uint8_t *out_data, size_t capacity) {
  size_t count = 0;
  while (count < capacity && tail != head) {
    out_data[count] = ring[tail];
    tail = after(tail);
    count++;
  }
  if (count == 0u) {
    sleep_while_empty();
  }
  return count;
}

#endif
