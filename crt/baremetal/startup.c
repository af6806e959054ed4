/* SPDX-License-Identifier: Apache-2.0 */
/*
 * startup.c - from the reset handler (thumb/reset.c, rv32/reset.S) to main(), with no C library start-up files.
 *
 * Needs the symbols of the linker script (board_templates/baremetal/linker.ld.j2). There is no heap:
 * nothing defines _sbrk, so that a hidden call of malloc is an error when linking.
 */
#include "startup.h"

#include "mlf/mlf_platform.h"
#include "mlf_board.h"

typedef void (*mlf_init_t)(void);

/* One run of words to copy (from != to) or to clear (from == NULL) before main(). */
typedef struct {
  const uint32_t *from;
  uint32_t *to;
  uint32_t size_bytes; /* a multiple of 4 */
} mlf_init_row_t;

extern const mlf_init_row_t __mlf_init_table[];
extern const mlf_init_row_t __mlf_init_table_end[];
extern const mlf_init_t __init_array_start[];
extern const mlf_init_t __init_array_end[];

extern int main(void);

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

void mlf_start_main(void) {
  init_memory();
  boots = boots + 1u != 0u ? boots + 1u : 1u; /* before the data cache is on: it must reach the RAM */
#if MLF_CACHES
  mlf_cpu_enable_caches();
#endif
  for (const mlf_init_t *init = __init_array_start; init != __init_array_end; init++) {
    (*init)();
  }
  mlf_platform_exit((int32_t)main());
}
