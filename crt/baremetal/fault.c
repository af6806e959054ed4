/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault.c - what happens when nothing can go on: one line over the UART, then stop.
 *
 * The line (all numbers but `step` in hex, absent status registers as 0):
 *   mlf-fault: <kind> pc=.. lr=.. sp=.. r0=.. r1=.. r2=.. r3=.. r12=.. xpsr=.. cfsr=.. hfsr=..
 *              mmfar=.. bfar=.. step=<n> model=<name>
 * A zero byte goes before and after it: on a console that carries frames it is a frame of its own.
 */
#include <stdbool.h>
#include <stdlib.h>

#include "cortexm.h"
#include "mlf/mlf_platform.h"

#define MODEL_NAME_MAX 64u

/* In place of an exception number: abort() was called; the stack is used up (the number of Reset). */
#define ABORT 0u
#define STACK_OVERFLOW 1u

/* What the CPU stacks on entry of an exception. */
typedef struct {
  uint32_t r0, r1, r2, r3, r12, lr, pc, xpsr;
} mlf_frame_t;

extern uint32_t __mlf_stack_bottom[];
extern uint32_t __mlf_stack_top[];

void mlf_fault_handler(void);
void mlf_fault_report(const mlf_frame_t *frame);

__attribute__((weak)) void mlf_fault_context(mlf_fault_context_t *out_context) {
  out_context->model = NULL;
  out_context->step = -1;
}

static void put_char(char c) {
  const uint8_t byte = (uint8_t)c;
  mlf_uart_write(&byte, 1);
}

static void put_text(const char *text) {
  for (; *text != '\0'; text++) {
    put_char(*text);
  }
}

static void put_hex(const char *name, uint32_t value) {
  put_text(name);
  for (uint32_t shift = 32; shift != 0u;) {
    shift -= 4u;
    put_char("0123456789abcdef"[(value >> shift) & 15u]);
  }
}

/* No division: Armv6-M has none, and a fault handler should need no library. */
static void put_decimal(int32_t value) {
  static const uint32_t powers[] = {1000000000u, 100000000u, 10000000u, 1000000u, 100000u,
                                    10000u,      1000u,      100u,      10u,      1u};
  uint32_t rest = value < 0 ? 0u - (uint32_t)value : (uint32_t)value;
  bool started = false;
  if (value < 0) {
    put_char('-');
  }
  for (size_t i = 0; i < sizeof powers / sizeof powers[0]; i++) {
    char digit = '0';
    for (; rest >= powers[i]; rest -= powers[i]) {
      digit++;
    }
    started = started || digit != '0' || powers[i] == 1u;
    if (started) {
      put_char(digit);
    }
  }
}

/* A name is for people and may hold anything: what could end the line or the frame is shown as '?'. */
static void put_name(const char *name) {
  if (name == NULL || name[0] == '\0') {
    put_char('-');
    return;
  }
  for (size_t i = 0; name[i] != '\0' && i < MODEL_NAME_MAX; i++) {
    put_char(name[i] > ' ' && name[i] != '\x7f' ? name[i] : '?');
  }
}

static const char *kind_name(uint32_t exception) {
  static const char *const names[] = {"abort",    "stack-overflow", "nmi",        "hardfault",
                                      "memfault", "busfault",       "usagefault", "securefault"};
  return exception < sizeof names / sizeof names[0] ? names[exception] : "unexpected-exception";
}

static void put_fault_status(void) {
#if MLF_HAS_FAULT_STATUS
  put_hex(" cfsr=", SCB_CFSR);
  put_hex(" hfsr=", SCB_HFSR);
  put_hex(" mmfar=", SCB_MMFAR);
  put_hex(" bfar=", SCB_BFAR);
#else
  put_text(" cfsr=00000000 hfsr=00000000 mmfar=00000000 bfar=00000000");
#endif
}

static void put_frame(const mlf_frame_t *frame, uintptr_t sp) {
  put_hex(" pc=", frame->pc);
  put_hex(" lr=", frame->lr);
  put_hex(" sp=", (uint32_t)sp);
  put_hex(" r0=", frame->r0);
  put_hex(" r1=", frame->r1);
  put_hex(" r2=", frame->r2);
  put_hex(" r3=", frame->r3);
  put_hex(" r12=", frame->r12);
  put_hex(" xpsr=", frame->xpsr);
}

/* The frame was stacked: it lies in the stack, and no error was met while it was written. */
static bool frame_is_valid(const mlf_frame_t *frame, uint32_t status) {
  const uintptr_t address = (uintptr_t)frame;
  const uintptr_t bottom = (uintptr_t)__mlf_stack_bottom;
  const uintptr_t top = (uintptr_t)__mlf_stack_top;
  if (address % 4u != 0u || address < bottom || address >= top || top - address < sizeof *frame) {
    return false;
  }
  /* A frame that would cross the limit is not written; the stack pointer is set to the limit. */
  const bool crossed = (status & SCB_CFSR_STKOF) != 0u && address == bottom;
  return (status & (SCB_CFSR_STKERR | SCB_CFSR_MSTKERR)) == 0u && !crossed;
}

__attribute__((noreturn)) static void report(uint32_t exception, const mlf_frame_t *frame, uintptr_t sp) {
  static const mlf_frame_t lost = {0, 0, 0, 0, 0, 0, 0, 0};
  mlf_fault_context_t context = {NULL, -1};
  __asm volatile("cpsid i" : : : "memory");
  mlf_fault_context(&context);
  mlf_uart_init();
  put_char('\0');
  put_text("mlf-fault: ");
  put_text(kind_name(exception));
  put_frame(frame != NULL ? frame : &lost, sp);
  put_fault_status();
  put_text(" step=");
  put_decimal(context.step);
  put_text(" model=");
  put_name(context.model);
  put_text("\n");
  put_char('\0');
  mlf_platform_exit(134);
}

__attribute__((used, noreturn)) void mlf_fault_report(const mlf_frame_t *frame) {
  uint32_t exception;
  uint32_t status = 0;
  __asm volatile("mrs %0, ipsr" : "=r"(exception));
#if MLF_HAS_FAULT_STATUS
  status = SCB_CFSR;
#endif
  const bool valid = frame_is_valid(frame, status);
  if (!valid || (status & SCB_CFSR_STKOF) != 0u) {
    exception = STACK_OVERFLOW;
  }
  /* Bit 9 of the stacked xPSR: a word was skipped to align the stack. */
  const uintptr_t skipped = valid && (frame->xpsr & (1u << 9)) != 0u ? 4u : 0u;
  report(exception, valid ? frame : NULL, (uintptr_t)frame + (valid ? sizeof *frame + skipped : 0u));
}

/* Entry of every exception that is not expected. Hands on the stacked frame; when the stack is used
 * up, the report runs on a fresh one (the program that owned it is lost anyway). */
__attribute__((naked, used)) void mlf_fault_handler(void) {
  __asm volatile(
      ".syntax unified\n\t"
#if MLF_HAS_STACK_LIMIT
      "movs r2, #0\n\t"
      "msr msplim, r2\n\t"
#endif
      "mrs r0, msp\n\t"
      "mov r1, lr\n\t"
      "movs r2, #4\n\t"
      "tst r1, r2\n\t"
      "beq 1f\n\t"
      "mrs r0, psp\n"
      "1:\n\t"
      "ldr r1, =__mlf_stack_bottom\n\t"
      "mov r2, sp\n\t"
      "subs r2, r2, r1\n\t"
      "bcc 2f\n\t"
      "lsrs r2, r2, #9\n\t" /* 512 bytes are enough for the report */
      "bne 3f\n"
      "2:\n\t"
      "ldr r1, =__mlf_stack_top\n\t"
      "mov sp, r1\n"
      "3:\n\t"
      "ldr r1, =mlf_fault_report\n\t"
      "bx r1\n\t"
      ".ltorg\n\t");
}

/* The C library's way out (a failed assertion, a broken invariant) ends here too. */
void abort(void) {
  mlf_frame_t frame = {0, 0, 0, 0, 0, 0, 0, 0};
  frame.lr = (uint32_t)(uintptr_t)__builtin_return_address(0);
  frame.pc = frame.lr;
  report(ABORT, &frame, (uintptr_t)__builtin_frame_address(0));
}
