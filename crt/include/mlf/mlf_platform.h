/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlf_platform.h - the platform interface: console, clock, stack bounds, identity, stopping.
 *
 * crt/baremetal implements it for bare Cortex-M and RISC-V, crt/zephyr over Zephyr's drivers, crt/host for POSIX; a
 * board with an own UART driver implements the console part. Functions have no preconditions but those
 * stated, and none fails.
 */
#ifndef MLF_MLF_PLATFORM_H
#define MLF_MLF_PLATFORM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- compile-time options ------------------------------------------------------------------- */

/* 1: mlf_platform_exit() ends the emulator through semihosting. Only for a machine that handles semihosting
 * calls: elsewhere the call faults. 0 (default): mlf_platform_exit() stops the CPU. */
#ifndef MLF_SEMIHOSTING
#define MLF_SEMIHOSTING 0
#endif

#if MLF_SEMIHOSTING != 0 && MLF_SEMIHOSTING != 1
#error "MLF_SEMIHOSTING must be 0 or 1"
#endif

/* ---- console -------------------------------------------------------------------------------- */

/* Initialise the UART: 8 data bits, no parity, one stop bit, the rate of the board row. May be called again,
 * which leaves the rate as it is: a fault is reported at the rate at which the host listens. */
void mlf_uart_init(void);

/* Copy up to `capacity` received bytes to `out_data` and return their number, 0 when there are none yet. Where
 * an interrupt receives (MLF_UART_RX_BYTES, Zephyr), it sleeps until something may have arrived, and may still
 * return 0; on bare metal any interrupt ends the sleep, and interrupts are enabled. A polled UART returns at
 * once. After mlf_uart_init(). */
size_t mlf_uart_read(uint8_t *out_data, size_t capacity);

/* Send `size` bytes; block until the UART has taken the last one. After mlf_uart_init(). */
void mlf_uart_write(const uint8_t *data, size_t size);

/* Bytes that are buffered for mlf_uart_read() while the application is busy, 0: none. Valid after
 * mlf_uart_init(). Zephyr only: elsewhere it is a constant of the board (MLF_UART_RX_BYTES). */
size_t mlf_uart_window(void);

/* Non-zero when the UART can run at `baud` bits a second; for `baud` 0, when its rate can be changed at all.
 * A board whose row has no uart.max_baud may omit this function and the next. */
int mlf_uart_can_set_baud(uint32_t baud);

/* Wait until everything is sent, then run at `baud`, or at the rate of the start when `baud` is 0.
 * mlf_uart_can_set_baud(baud) must be non-zero. */
void mlf_uart_set_baud(uint32_t baud);

/* ---- clock ---------------------------------------------------------------------------------- */

/* Start the tick counter at 0. SysTick: interrupts must be enabled for it to count past 2^24 ticks. */
void mlf_ticks_init(void);

/* Ticks since mlf_ticks_init(), at mlf_tick_hz(): monotonic. Bare metal: at least 56 bits wide, callable from thread
 * and interrupt code; SysTick: with interrupts off for up to 2^23 ticks. Zephyr: from one thread. */
uint64_t mlf_ticks(void);

/* Ticks per second. */
uint32_t mlf_tick_hz(void);

/* ---- interrupts (crt/baremetal) ------------------------------------------------------------- */

/* An application adds an interrupt handler by defining a function with the CMSIS name of the exception, on
 * every core: SVC_Handler, PendSV_Handler, SysTick_Handler, HardFault_Handler, ... or that of an interrupt
 * of the device as the board's row names it (mlf_board.h lists them; IRQ<n>_Handler where the row gives
 * none). All are weak in the vector table. Without a definition, an interrupt is reported as a fault. In C++
 * they need extern "C".
 *
 * On RISC-V: MachineSoftware_Handler, MachineTimer_Handler, and the interrupts of the device. An exception is always
 * reported as a fault.
 *
 * SysTick counts mlf_ticks() on a Cortex-M: an application with a SysTick_Handler of its own calls this function in it,
 * or leaves mlf_ticks() and mlf_ticks_init() alone. */
void mlf_systick_handler(void);

/* ---- stack ---------------------------------------------------------------------------------- */

/* Lowest address of the stack of the caller, the first address above it, and the stack pointer (in the frame
 * of the caller or just below it). The stack grows downward. NULL: not known (host, native_sim). */
uint8_t *mlf_stack_bottom(void);
uint8_t *mlf_stack_top(void);
uint8_t *mlf_stack_pointer(void);

/* ---- identity ------------------------------------------------------------------------------- */

/* A number that differs from boot to boot as well as the machine can: never 0 where it can, 0 where it
 * cannot. */
uint32_t mlf_boot_nonce(void);

/* The build id of this image, a hash that the linker computes over its contents (--build-id=sha1). Returns its
 * size in bytes and sets `out_id`; 0: the image has none, and `out_id` is not written. */
size_t mlf_build_id(const uint8_t **out_id);

/* ---- random numbers ------------------------------------------------------------------------- */

/* Fill `out` with `size` bytes that nobody can predict, also not from those before; 0 when that was done.
 * Only for secured sessions (crt/secure). crt/host reads the kernel's; on bare metal the board's row names a
 * driver, or its sources define the function; where there is no source, there is no such function. */
int mlf_entropy(uint8_t *out, size_t size);

/* ---- stopping ------------------------------------------------------------------------------- */

/* The model and the step that run when a fault occurs; printed as `step=` and `model=`. */
typedef struct {
  const char *model; /* NUL-terminated; NULL: not known */
  int32_t step;      /* -1: none */
} mlf_fault_context_t;

/* Called by the fault handler to fill in `out_context`. The platform has a weak definition that leaves both
 * unknown; an application defines its own, with mlf_running_step(). It must not block, use the UART, or
 * fault. */
void mlf_fault_context(mlf_fault_context_t *out_context);

/* Stop for good; never returns. `status` (0: success) reaches the emulator with MLF_SEMIHOSTING. */
__attribute__((noreturn)) void mlf_platform_exit(int32_t status);

#ifdef __cplusplus
}
#endif

#endif /* MLF_MLF_PLATFORM_H */
