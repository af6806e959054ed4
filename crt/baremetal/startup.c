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

#ifdef MLF_SECOND_STAGE
/* The boot ROM copies it from the start of the flash to RAM, and runs it if the checksum is right. */
__attribute__((section(".mlf.second_stage"), used)) static const uint32_t second_stage[64] = MLF_SECOND_STAGE;
#endif

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

#ifdef MLF_INIT_WRITES
#define MLF_INIT_READS 1000000u /* of a bit that does not come */

/* One write of the board's row; `failed` counts those whose bits did not come. */
static uint32_t init_register(uintptr_t address, uint32_t mask, uint32_t value, uintptr_t where, uint32_t wait_mask,
                              uint32_t wait_value) {
  volatile uint32_t *const written = (volatile uint32_t *)address;
  volatile const uint32_t *const read = (volatile const uint32_t *)where;
  uint32_t left = MLF_INIT_READS;

  *written = mask != 0u ? (*written & ~mask) | value : value;
  while ((*read & wait_mask) != wait_value) {
    if (--left == 0u) {
      return 1;
    }
  }
  return 0;
}

/* Clocks and pins, as the board's row has them. The console may not work by what failed: the number is kept where a
 * debugger finds it. */
uint32_t mlf_init_failed; /* number of the first write whose bits did not come, from 1 on; 0: all did */

static void init_board(void) {
  uint32_t number = 0;
#define MLF_INIT_WRITE(address, mask, value, where, wait_mask, wait_value)                                \
  ++number;                                                                                               \
  if (init_register(address, mask, value, where, wait_mask, wait_value) != 0u && mlf_init_failed == 0u) { \
    mlf_init_failed = number;                                                                             \
  }
  MLF_INIT_WRITES(MLF_INIT_WRITE)
}
#endif

void mlf_start_main(void) {
  init_memory();
#ifdef MLF_INIT_WRITES
  init_board();
#endif
  boots = boots + 1u != 0u ? boots + 1u : 1u; /* before the data cache is on: it must reach the RAM */
#if MLF_CACHES
  mlf_cpu_enable_caches();
#endif
  for (const mlf_init_t *init = __init_array_start; init != __init_array_end; init++) {
    (*init)();
  }
  mlf_platform_exit((int32_t)main());
}
