/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vectors.c - the vector table. Every handler is weak and has its CMSIS name: an application defines a
 * function of that name, and the linker takes it (mlf/mlf_platform.h, "interrupts"). A handler that nobody
 * defines reports a fault.
 *
 * mlf_board.h gives MLF_NUM_IRQS and MLF_IRQ_HANDLERS(X): X(number, name) for each interrupt of the device.
 */
#include "cortexm.h"
#include "mlf/mlf_platform.h"
#include "mlf_board.h"

typedef void (*mlf_handler_t)(void);

typedef union {
  mlf_handler_t handler;
  uint32_t *stack;
} mlf_vector_t;

#define NUM_VECTORS (16u + MLF_NUM_IRQS)

extern uint32_t __mlf_stack_top[];
extern const mlf_vector_t mlf_vectors[NUM_VECTORS];
void mlf_reset_handler(void);
void mlf_fault_handler(void);

/* Entry of every exception without a handler. Passes the stacked frame and EXC_RETURN to mlf_fault_report();
 * when the stack is used up, the report starts at its top again (its contents are lost anyway). */
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
      "ldr r3, =__mlf_stack_bottom\n\t"
      "mov r2, sp\n\t"
      "subs r2, r2, r3\n\t"
      "bcc 2f\n\t"
      "lsrs r2, r2, #9\n\t" /* 512 bytes are enough for the report */
      "bne 3f\n"
      "2:\n\t"
      "ldr r3, =__mlf_stack_top\n\t"
      "mov sp, r3\n"
      "3:\n\t"
      "ldr r3, =mlf_fault_report\n\t"
      "bx r3\n\t"
      ".ltorg\n\t");
}

#define WEAK __attribute__((weak, alias("mlf_fault_handler")))
#define DECLARE(irq, name) void name(void) WEAK;
#define VECTOR(irq, name) [16u + (irq)] = {.handler = (name)},

void NMI_Handler(void) WEAK;
void HardFault_Handler(void) WEAK;
void MemManage_Handler(void) WEAK;
void BusFault_Handler(void) WEAK;
void UsageFault_Handler(void) WEAK;
void SecureFault_Handler(void) WEAK;
void SVC_Handler(void) WEAK;
void DebugMon_Handler(void) WEAK;
void PendSV_Handler(void) WEAK;
void SysTick_Handler(void); /* systick.c has a weak one */
MLF_IRQ_HANDLERS(DECLARE)

__attribute__((section(".mlf.vectors"), used)) const mlf_vector_t mlf_vectors[NUM_VECTORS] = {
    {.stack = __mlf_stack_top},        /* initial stack pointer */
    {.handler = mlf_reset_handler},    /* 1 */
    {.handler = NMI_Handler},          /* 2 */
    {.handler = HardFault_Handler},    /* 3 */
    {.handler = MemManage_Handler},    /* 4: from here to 7 reserved on Armv6-M */
    {.handler = BusFault_Handler},     /* 5 */
    {.handler = UsageFault_Handler},   /* 6 */
    {.handler = SecureFault_Handler},  /* 7: Armv8-M */
    {.handler = mlf_fault_handler},    /* 8: reserved */
    {.handler = mlf_fault_handler},    /* 9: reserved */
    {.handler = mlf_fault_handler},    /* 10: reserved */
    {.handler = SVC_Handler},          /* 11 */
    {.handler = DebugMon_Handler},     /* 12 */
    {.handler = mlf_fault_handler},    /* 13: reserved */
    {.handler = PendSV_Handler},       /* 14 */
    {.handler = SysTick_Handler},      /* 15 */
    MLF_IRQ_HANDLERS(VECTOR)           /* the device's, from 16 on */
};
