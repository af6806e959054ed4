/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uart_rx.h - the receive buffer of a UART. Private to crt/baremetal.
 *
 * With MLF_UART_RX_BYTES, the driver's interrupt (MLF_UART_IRQ of mlf_board.h) puts bytes into a ring of that
 * size; else the driver is polled, and only the hardware buffers bytes.
 */
#ifndef MLF_UART_RX_H
#define MLF_UART_RX_H

#include <stddef.h>
#include <stdint.h>

#include "cpu.h"
#include "mlf_board.h"

#ifndef MLF_UART_RX_BYTES
#define MLF_UART_RX_BYTES 0
#endif

#if MLF_UART_RX_BYTES > 0

#ifndef MLF_UART_IRQ
#error "a receive buffer needs uart.irq in the board's row"
#endif

/* The driver's interrupt handler, under the name that mlf_board.h gives its vector. */
void MLF_UART_HANDLER(void);

/* Let the interrupt come. */
static inline void mlf_uart_rx_enable(void) { mlf_cpu_enable_irq(MLF_UART_IRQ); }

/* From the interrupt: keep a byte. One that finds no room is lost, and its frame damaged. */
void mlf_uart_rx_put(uint8_t byte);

/* Take up to `capacity` bytes; returns their number. With none, sleeps until an interrupt, then returns 0.
 * Enables interrupts. */
size_t mlf_uart_rx_take(uint8_t *out_data, size_t capacity);

#endif

#endif /* MLF_UART_RX_H */
