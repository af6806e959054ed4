/* SPDX-License-Identifier: Apache-2.0 */
/* mlf_platform.h on a hosted machine: the UART is stdin and stdout, one tick is a nanosecond. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <mlf/mlf_platform.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ns(void) {
  struct timespec now = {0, 0};

  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void mlf_uart_init(void) {}

/* Waits for input: a hosted program has nothing else to do. Ends with its input. */
size_t mlf_uart_read(uint8_t *out_data, size_t capacity) {
  const ssize_t got = read(STDIN_FILENO, out_data, capacity);

  if (got == 0 || (got < 0 && errno != EINTR)) {
    mlf_platform_exit(got == 0 ? 0 : 1);
  }
  return got > 0 ? (size_t)got : 0;
}

void mlf_uart_write(const uint8_t *data, size_t size) {
  while (size > 0) {
    const ssize_t sent = write(STDOUT_FILENO, data, size);
    if (sent < 0 && errno != EINTR) {
      mlf_platform_exit(1);
    }
    if (sent > 0) {
      data += sent;
      size -= (size_t)sent;
    }
  }
}

void mlf_ticks_init(void) {}
uint64_t mlf_ticks(void) { return now_ns(); }
uint32_t mlf_tick_hz(void) { return 1000000000u; }

/* The host's stack is not the target's: it is not measured. */
uint8_t *mlf_stack_bottom(void) { return NULL; }
uint8_t *mlf_stack_top(void) { return NULL; }
uint8_t *mlf_stack_pointer(void) { return NULL; }

uint32_t mlf_boot_nonce(void) { return ((uint32_t)now_ns() ^ (uint32_t)getpid()) | 1u; }

void mlf_platform_exit(int32_t status) { _Exit(status); }
