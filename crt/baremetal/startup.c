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
#include "mlf_board.h"

typedef void (*mlf_init_t)(void);

/* One run of words to copy (from != to) or to clear (from == NULL) before main(). */
typedef struct {
  const uint32_t *from;
  uint32_t *to;
  uint32_t size_bytes; /* a multiple of 4 */
} mlf_init_row_t;

extern uint32_t __mlf_stack_bottom[];
extern uint32_t __mlf_stack_guard[]; /* 32 kB that nothing uses, right below the stack; NULL: none */
extern const mlf_init_row_t __mlf_init_table[];
extern const mlf_init_row_t __mlf_init_table_end[];
extern const mlf_init_t __init_array_start[];
extern const mlf_init_t __init_array_end[];

extern int main(void);
void mlf_reset_handler(void);

/* Left alone by start-up: the count goes on over resets for as long as the RAM has power. */
__attribute__((section(".bss.noinit.mlf_boots"))) static uint32_t boots;

uint32_t mlf_boot_nonce(void) { return boots; }

/* Volatile: the loops must not turn into calls of memcpy and memset, which may be what is copied. */
static void init_memory(void) {
  for (const mlf_init_row_t *row = __mlf_init_table; row != __mlf_init_table_end; row++) {
    const uint32_t *from = row->from;
    volatile uint32_t *to = row->to;
    for (uint32_t left = row->size_bytes; left != 0u; left -= 4u) {
      *to++ = from != NULL ? *from++ : 0u;
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

#if MLF_CACHES
/* The caches hold nothing valid at reset: invalidate both, then switch them on. */
static void enable_caches(void) {
  SCB_ICIALLU = 0;
  SCB_CSSELR = 0; /* level 1, data */
  __asm volatile("dsb\n\tisb" : : : "memory");
  SCB_CCR |= SCB_CCR_IC;
  const uint32_t size = SCB_CCSIDR;
  for (uint32_t set = 0; set <= SCB_CCSIDR_SETS(size); set++) {
    for (uint32_t way = 0; way <= SCB_CCSIDR_WAYS(size); way++) {
      SCB_DCISW = SCB_DCISW_LINE(set, way);
    }
  }
  __asm volatile("dsb" : : : "memory");
  SCB_CCR |= SCB_CCR_DC;
  __asm volatile("dsb\n\tisb" : : : "memory");
}
#endif

/* Everything that main() relies on; not inlined, so that no floating-point instruction can move
 * above the switch that permits them. */
__attribute__((noinline, noreturn)) static void start_main(void) {
  init_memory();
  boots = boots + 1u != 0u ? boots + 1u : 1u; /* before the data cache is on: it must reach the RAM */
#if MLF_CACHES
  enable_caches();
#endif
  for (const mlf_init_t *init = __init_array_start; init != __init_array_end; init++) {
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
