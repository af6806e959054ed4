/* SPDX-License-Identifier: Apache-2.0 */
/*
 * startup.c - from reset to main() on a bare Cortex-M, with no C library start-up files.
 *
 * Needs the symbols of the linker script (board_templates/baremetal/linker.ld.j2). There is no heap:
 * nothing defines _sbrk, so that a hidden call of malloc is an error when linking.
 */
#include <stdint.h>

#include "cortexm.h"
#include "mlf/mlf_platform.h"
#include "uart_rx.h"

typedef void (*mlf_handler_t)(void);

/* One run of words to copy (from != to) or to clear (from == NULL) before main(). */
typedef struct {
  const uint32_t *from;
  uint32_t *to;
  uint32_t size_bytes; /* a multiple of 4 */
} mlf_init_row_t;

extern uint32_t __mlf_stack_top[];
extern uint32_t __mlf_stack_bottom[];
extern uint32_t __mlf_stack_guard[]; /* 32 kB that nothing uses, right below the stack; NULL: none */
extern const mlf_init_row_t __mlf_init_table[];
extern const mlf_init_row_t __mlf_init_table_end[];
extern const mlf_handler_t __init_array_start[];
extern const mlf_handler_t __init_array_end[];

extern int main(void);
extern void mlf_fault_handler(void);
extern void mlf_systick_handler(void);
void mlf_reset_handler(void);

/* Left alone by start-up: the count goes on over resets for as long as the RAM has power. */
__attribute__((section(".bss.noinit.mlf_boots"))) static uint32_t boots;

uint32_t mlf_boot_nonce(void) { return boots; }

/* Volatile: the loops must not turn into calls of memcpy and memset, which may be what is copied. */
static void init_memory(void) {
  for (const mlf_init_row_t *row = __mlf_init_table; row != __mlf_init_table_end; row++) {
    const uint32_t words = row->size_bytes / sizeof(uint32_t);
    volatile uint32_t *to = row->to;
    for (uint32_t i = 0; i < words; i++) {
      to[i] = row->from != NULL ? row->from[i] : 0u;
    }
  }
}

#if MLF_HAS_STACK_GUARD
/* An overflow of the stack is a fault at once, also where the bus would ignore the access. */
static void guard_stack(void) {
  const uintptr_t guard = (uintptr_t)__mlf_stack_guard;
  if (guard != 0u && MPU_TYPE != 0u) {
    MPU_RNR = 0;
    MPU_RBAR = guard;
    MPU_RASR = MPU_RASR_NO_ACCESS | MPU_RASR_SIZE_32K | MPU_RASR_ENABLE;
    MPU_CTRL = MPU_CTRL_PRIVDEFENA | MPU_CTRL_ENABLE;
  }
}
#endif

/* Everything that main() relies on; not inlined, so that no floating-point instruction can move
 * above the switch that permits them. */
__attribute__((noinline, noreturn)) static void start_main(void) {
  init_memory();
  boots = boots + 1u != 0u ? boots + 1u : 1u;
  for (const mlf_handler_t *init = __init_array_start; init != __init_array_end; init++) {
    (*init)();
  }
  mlf_platform_exit((int32_t)main());
}

__attribute__((noreturn, used)) void mlf_reset_handler(void) {
#if MLF_HAS_CP10
  SCB_CPACR |= SCB_CPACR_CP10_CP11;
#endif
#if MLF_HAS_STACK_LIMIT
  __asm volatile("msr msplim, %0" : : "r"(__mlf_stack_bottom));
#endif
#if MLF_HAS_STACK_GUARD
  guard_stack();
#endif
#if MLF_HAS_FAULT_STATUS
  SCB_SHCSR |= SCB_SHCSR_FAULTS;
#endif
  __asm volatile("dsb\n\tisb" : : : "memory");
  start_main();
}

/* 0: initial stack pointer; 1: reset; 2..15: the exceptions of the architecture; then those of the
 * peripherals, of which only the UART's may be enabled. */
typedef union {
  mlf_handler_t handler;
  uint32_t *stack;
} mlf_vector_t;

#if MLF_UART_RX_BYTES > 0
#define NUM_VECTORS (16u + MLF_UART_IRQ + 1u)
#else
#define NUM_VECTORS 16u
#endif

extern const mlf_vector_t mlf_vectors[NUM_VECTORS];
__attribute__((section(".mlf.vectors"), used)) const mlf_vector_t mlf_vectors[NUM_VECTORS] = {
    {.stack = __mlf_stack_top},       /* initial stack pointer */
    {.handler = mlf_reset_handler},   /* Reset */
    {.handler = mlf_fault_handler},   /* NMI */
    {.handler = mlf_fault_handler},   /* HardFault */
    {.handler = mlf_fault_handler},   /* MemManage */
    {.handler = mlf_fault_handler},   /* BusFault */
    {.handler = mlf_fault_handler},   /* UsageFault */
    {.handler = mlf_fault_handler},   /* SecureFault */
    {.handler = mlf_fault_handler},   /* reserved */
    {.handler = mlf_fault_handler},   /* reserved */
    {.handler = mlf_fault_handler},   /* reserved */
    {.handler = mlf_fault_handler},   /* SVCall */
    {.handler = mlf_fault_handler},   /* DebugMonitor */
    {.handler = mlf_fault_handler},   /* reserved */
    {.handler = mlf_fault_handler},   /* PendSV */
    {.handler = mlf_systick_handler}, /* SysTick */
#if MLF_UART_RX_BYTES > 0
    [16u + MLF_UART_IRQ] = {.handler = mlf_uart_handler},
#endif
};
