/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reset.S - the first instructions after reset, and the entry of every trap.
 */
#include "mlf_board.h"

#ifndef MLF_TRAP_ALIGNMENT
#define MLF_TRAP_ALIGNMENT 4
#endif

    .option arch, +zicsr

#define MSTATUS_MIE 8
#define MSTATUS_VS_INITIAL 0x200 /* vector registers may be used */
#define PMP_LOCKED_NO_ACCESS 0x98 /* locked, so that it holds for machine mode; a naturally aligned power of two */
#define PMP_32K 0xFFF             /* size of the region, below the address in units of four bytes */
#define FRAME_BYTES 80            /* mlf_frame_t, and what aligns the stack */
#define FRAME_PC 64
#define FRAME_SP 68

    .macro address register, symbol
    lui \register, %hi(\symbol)
    addi \register, \register, %lo(\symbol)
    .endm

    /* The boot memory begins with this section. */
    .section .mlf.vectors, "ax", @progbits
    .global mlf_reset_handler
    .type mlf_reset_handler, @function
mlf_reset_handler:
#if MLF_TRAP_ALIGNMENT > 0
    csrci mstatus, MSTATUS_MIE
    csrw mie, zero
#endif
#if defined(__riscv_vector)
    li t0, MSTATUS_VS_INITIAL
    csrs mstatus, t0
#endif
    address sp, __mlf_stack_top
    address tp, __mlf_tls
#if MLF_TRAP_ALIGNMENT > 0
    /* A write below the stack is a fault at once. A core without memory protection traps here, and goes on; one that
     * asks for more than four bytes of alignment must have it. */
    address t0, 1f
    csrw mtvec, t0
    address t0, __mlf_stack_guard
    beqz t0, 1f
    srli t0, t0, 2
    li t1, PMP_32K
    or t0, t0, t1
    csrw pmpaddr0, t0
    li t1, PMP_LOCKED_NO_ACCESS
    csrw pmpcfg0, t1
    .balign 4
1:
    address t0, mlf_trap_entry
    csrw mtvec, t0
#endif
    tail mlf_start_main
    .size mlf_reset_handler, . - mlf_reset_handler

#if MLF_TRAP_ALIGNMENT > 0

    /* Saves what a C function may change, calls mlf_trap(frame, mcause), and returns from the trap. Where the stack is
     * used up, the report starts at its top again (its contents are lost anyway). */
    .section .text.mlf_trap_entry, "ax", @progbits
    .global mlf_trap_entry
    .type mlf_trap_entry, @function
    .balign MLF_TRAP_ALIGNMENT
mlf_trap_entry:
    csrw mscratch, t0
    address t0, __mlf_stack_bottom + FRAME_BYTES
    bltu sp, t0, 1f
    address t0, __mlf_stack_top
    bltu t0, sp, 1f
    mv t0, sp
    j 2f
1:
    mv t0, sp
    address sp, __mlf_stack_top
2:
    addi sp, sp, -FRAME_BYTES
    sw t0, FRAME_SP(sp)
    csrr t0, mscratch
    sw ra, 0(sp)
    sw t0, 4(sp)
    sw t1, 8(sp)
    sw t2, 12(sp)
    sw a0, 16(sp)
    sw a1, 20(sp)
    sw a2, 24(sp)
    sw a3, 28(sp)
    sw a4, 32(sp)
    sw a5, 36(sp)
    sw a6, 40(sp)
    sw a7, 44(sp)
    sw t3, 48(sp)
    sw t4, 52(sp)
    sw t5, 56(sp)
    sw t6, 60(sp)
    csrr t0, mepc
    sw t0, FRAME_PC(sp)
    mv a0, sp
    csrr a1, mcause
    call mlf_trap
    lw t0, FRAME_PC(sp)
    csrw mepc, t0
    lw ra, 0(sp)
    lw t0, 4(sp)
    lw t1, 8(sp)
    lw t2, 12(sp)
    lw a0, 16(sp)
    lw a1, 20(sp)
    lw a2, 24(sp)
    lw a3, 28(sp)
    lw a4, 32(sp)
    lw a5, 36(sp)
    lw a6, 40(sp)
    lw a7, 44(sp)
    lw t3, 48(sp)
    lw t4, 52(sp)
    lw t5, 56(sp)
    lw t6, 60(sp)
    addi sp, sp, FRAME_BYTES
    mret
    .size mlf_trap_entry, . - mlf_trap_entry
#endif
