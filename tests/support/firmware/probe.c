/* SPDX-License-Identifier: Apache-2.0 */
/* Tries out the platform layer: says hello, then obeys one-letter commands over the UART. */
#include <string.h>

#include "cpu.h"
#include "mlf/mlf_platform.h"
#include "mlf_board.h"

#define GUARD 0xFEEDC0DEu
#ifdef __riscv
#define UNDEFINED __asm volatile("unimp")
#else
#define UNDEFINED __asm volatile("udf #0")
#endif

static uint32_t initialised = 0x12345678u;
static uint32_t cleared;
static const uint32_t constant = 0x5EC0DE5Au;
static uint32_t writable_constant __attribute__((section(".rodata.tvm"), used)) = 0xC0FFEEu;
static uint32_t constructed;
static volatile float third = 1.0f / 3.0f;
static uint8_t arena[512] __attribute__((section(".mlf.arena.probe"), aligned(16)));
static uint8_t kept[64] __attribute__((section(".bss.noinit.probe")));
__attribute__((section(".note.mlf"), used)) static const uint32_t note[5] = {4, 4, 1, 0x00464C4Du, GUARD};

#ifdef PROBE_RAM
__attribute__((section(".mlf." PROBE_RAM ".data"))) static uint32_t far_initialised[4] = {1, 2, 3, 4};
__attribute__((section(".mlf." PROBE_RAM ".bss"))) static uint32_t far_cleared[4];
__attribute__((section(".mlf." PROBE_RAM ".noinit"))) static uint32_t far_kept[4];
#endif

static void print(const char *text) { mlf_uart_write((const uint8_t *)text, strlen(text)); }

static void print_number(const char *name, uint64_t value) {
  char text[18];
  text[16] = '\n';
  text[17] = '\0';
  for (int i = 15; i >= 0; i--) {
    text[i] = "0123456789abcdef"[value & 15u];
    value >>= 4;
  }
  print(name);
  print("=");
  print(text);
}

static uint32_t read_word(void) {
  uint8_t bytes[4];
  for (size_t got = 0; got < sizeof bytes;) {
    got += mlf_uart_read(bytes + got, sizeof bytes - got);
  }
  return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static void echo(uint32_t size) {
  while (size > 0u) {
    const size_t count = mlf_uart_read(arena, size < sizeof arena ? size : sizeof arena);
    mlf_uart_write(arena, count);
    size -= (uint32_t)count;
  }
}

/* Exactly 2 * rounds + 1 instructions. */
__attribute__((noinline)) static void burn(uint32_t rounds) {
#ifdef __riscv
  __asm volatile(
      "addi %0, %0, 0\n"
      "1:\n\t"
      "addi %0, %0, -1\n\t"
      "bnez %0, 1b"
      : "+r"(rounds));
#else
  __asm volatile(
      ".syntax unified\n\t"
      "adds %0, %0, #0\n"
      "1:\n\t"
      "subs %0, %0, #1\n\t"
      "bne 1b"
      : "+l"(rounds)
      :
      : "cc");
#endif
}

static uint32_t ticks_backward(uint32_t rounds) {
  uint32_t wrong = 0;
  uint64_t last = mlf_ticks();
  for (uint32_t i = 0; i < rounds; i++) {
    const uint64_t now = mlf_ticks();
    /* A lost wrap goes back, one counted twice leaps ahead by 2^24. */
    wrong += now < last || now - last > 0x800000u;
    last = now;
  }
  return wrong;
}

/* Ticks with interrupts off go on past a wrap, and it is not counted twice afterwards. */
static uint32_t masked_wrap(void) {
  const uint64_t start = mlf_ticks();
  uint64_t before;
  uint64_t after;
  while ((mlf_ticks() & 0xFFFFFFu) < 0xFFF000u) {
  }
  mlf_cpu_mask();
  before = mlf_ticks();
  while (mlf_ticks() - before < 0x2000u) {
  }
  after = mlf_ticks();
  mlf_cpu_unmask();
  return after > before && mlf_ticks() - after < 0x10000u && after > start ? 1u : 0u;
}

__attribute__((constructor)) static void construct(void) { constructed = cleared + 1u; }

/* The first call answers 1 on a machine that was set up as C demands. */
static uint32_t memory_is_set_up(void) {
  uint32_t good = initialised == 0x12345678u && cleared == 0u && constant == 0x5EC0DE5Au ? 1u : 0u;
  good &= constructed == 1u && writable_constant == 0xC0FFEEu ? 1u : 0u;
#ifdef PROBE_RAM
  const uint32_t sum = far_initialised[0] + far_initialised[1] + far_initialised[2] + far_initialised[3];
  far_kept[3] = GUARD;
  good &= sum == 10u && (far_cleared[0] | far_cleared[3]) == 0u && far_kept[3] == GUARD ? 1u : 0u;
  far_cleared[1] = 7u;
#endif
  initialised++;
  cleared++;
  kept[0]++;
  return good;
}

__attribute__((noinline)) static uint32_t overflow(uint32_t depth) {
  volatile uint32_t frame[16];
  frame[0] = depth;
  return depth == 0u ? 0u : overflow(depth + 1u) + frame[0];
}

void mlf_fault_context(mlf_fault_context_t *out_context) {
  out_context->model = "probe\nmodel";
  out_context->step = -12345;
}

int main(void) {
  mlf_uart_init();
  mlf_ticks_init();
  print("hello from " MLF_BOARD_NAME "\n");
  for (;;) {
    uint8_t command = 0;
    while (mlf_uart_read(&command, 1) == 0u) {
    }
    if (command == 'e') {
      echo(read_word());
    } else if (command == 's') {
      const uint32_t size = read_word();
      for (uint32_t i = 0; i < size; i++) {
        const uint8_t byte = (uint8_t)(i * 7u);
        mlf_uart_write(&byte, 1);
      }
    } else if (command == 'c') {
      const uint32_t rounds = read_word();
      const uint64_t start = mlf_ticks();
      burn(rounds);
      print_number("ticks", mlf_ticks() - start);
    } else if (command == 'm') {
      print_number("memory", memory_is_set_up());
    } else if (command == 'n') {
      print_number("nonce", mlf_boot_nonce());
    } else if (command == 't') {
      print_number("backward", ticks_backward(read_word()));
    } else if (command == 'w') {
      print_number("masked", masked_wrap());
    } else if (command == 'd') {
      float sum = 0.0f;
      for (int i = 0; i < 9; i++) {
        sum += third * 1000.0f;
      }
      print_number("float", (uint64_t)(uint32_t)(sum + 0.5f));
    } else if (command == 'p') {
      const uintptr_t pointer = (uintptr_t)mlf_stack_pointer();
      const uint32_t inside = pointer > (uintptr_t)mlf_stack_bottom() && pointer < (uintptr_t)mlf_stack_top();
      print_number("inside", inside);
      print_number("bytes", (uint64_t)(mlf_stack_top() - mlf_stack_bottom()));
    } else if (command == 'f') {
      UNDEFINED;
    } else if (command == 'o') {
      print_number("deep", overflow(1));
    } else if (command == 'x') {
      mlf_platform_exit((int32_t)read_word());
    }
  }
}
