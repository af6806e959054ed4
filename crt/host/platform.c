/* SPDX-License-Identifier: Apache-2.0 */
/* mlf_platform.h on a hosted machine: the UART is stdin and stdout, one tick is a nanosecond. */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <mlf/mlf_fault.h>
#include <mlf/mlf_platform.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

static uint64_t now_ns(void) {
  struct timespec now = {0, 0};

  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- a crash: the fault line names model and step, as on a target ---- */

#if defined(__SANITIZE_ADDRESS__)

/* Called by the sanitizers after they have written their report to standard error. */
static void report_death(void) {
  mlf_fault_begin("sanitizer");
  mlf_fault_end();
}

static void watch_for_faults(void) { __sanitizer_set_death_callback(report_death); }

#else

static const struct {
  int number;
  const char *name;
} signals[] = {
    {SIGSEGV, "sigsegv"}, {SIGBUS, "sigbus"}, {SIGFPE, "sigfpe"}, {SIGILL, "sigill"}, {SIGABRT, "abort"}};

/* The signal is the default one again when this returns: the access is repeated, and ends the program. */
static void report_signal(int number) {
  for (size_t i = 0; i < sizeof signals / sizeof signals[0]; ++i) {
    if (signals[i].number == number) {
      mlf_fault_begin(signals[i].name);
      mlf_fault_end();
    }
  }
}

static void watch_for_faults(void) {
  static uint8_t stack[64u << 10]; /* of its own: the program's may be used up */
  const stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
  struct sigaction action = {.sa_flags = (int)(SA_RESETHAND | (unsigned)SA_ONSTACK)};

  action.sa_handler = report_signal;
  (void)sigaltstack(&own, NULL);
  for (size_t i = 0; i < sizeof signals / sizeof signals[0]; ++i) {
    (void)sigaction(signals[i].number, &action, NULL);
  }
}

#endif

void mlf_uart_init(void) { watch_for_faults(); }

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

/* A pipe has no rate. */
int mlf_uart_can_set_baud(uint32_t baud) {
  (void)baud;
  return 0;
}

void mlf_uart_set_baud(uint32_t baud) { (void)baud; }

void mlf_ticks_init(void) {}
uint64_t mlf_ticks(void) { return now_ns(); }
uint32_t mlf_tick_hz(void) { return 1000000000u; }

/* The host's stack is not the target's: it is not measured. */
uint8_t *mlf_stack_bottom(void) { return NULL; }
uint8_t *mlf_stack_top(void) { return NULL; }
uint8_t *mlf_stack_pointer(void) { return NULL; }

uint32_t mlf_boot_nonce(void) { return ((uint32_t)now_ns() ^ (uint32_t)getpid()) | 1u; }

void mlf_platform_exit(int32_t status) { _Exit(status); }
