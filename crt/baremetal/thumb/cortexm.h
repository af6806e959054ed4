/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cortexm.h - the few registers of the Armv6-M, v7-M and v8-M system control space in use here,
 * by the names of the architecture reference manuals. Private to crt/baremetal.
 */
#ifndef MLF_CORTEXM_H
#define MLF_CORTEXM_H

#include <stdint.h>

#define MLF_REG32(address) (*(volatile uint32_t *)(uintptr_t)(address))

#define SYST_CSR MLF_REG32(0xE000E010u)
#define SYST_RVR MLF_REG32(0xE000E014u)
#define SYST_CVR MLF_REG32(0xE000E018u)
#define SYST_CSR_ENABLE (1u << 0)
#define SYST_CSR_TICKINT (1u << 1)
#define SYST_CSR_CLKSOURCE (1u << 2)

#define NVIC_ISER(word) MLF_REG32(0xE000E100u + 4u * (word))

#define SCB_CCR MLF_REG32(0xE000ED14u)
#define SCB_CCR_DC (1u << 16)
#define SCB_CCR_IC (1u << 17)
#define SCB_CCSIDR MLF_REG32(0xE000ED80u)
#define SCB_CCSIDR_SETS(size) ((size) >> 13 & 0x7FFFu) /* less one */
#define SCB_CCSIDR_WAYS(size) ((size) >> 3 & 0x3FFu)   /* less one */
#define SCB_CSSELR MLF_REG32(0xE000ED84u)
#define SCB_ICIALLU MLF_REG32(0xE000EF50u)
#define SCB_DCISW MLF_REG32(0xE000EF60u)
#define SCB_DCISW_LINE(set, way) ((set) << 5 | (way) << 30) /* lines of 32 bytes, four ways: M7, M55 */

#define SCB_ICSR MLF_REG32(0xE000ED04u)
#define SCB_ICSR_PENDSTCLR (1u << 25)
#define SCB_ICSR_PENDSTSET (1u << 26)
#define SCB_SHCSR MLF_REG32(0xE000ED24u)
#define SCB_SHCSR_FAULTS (7u << 16) /* MemManage, BusFault and UsageFault handlers on */
#define SCB_CPACR MLF_REG32(0xE000ED88u)
#define SCB_CPACR_CP10_CP11 (0xFu << 20)

#define MPU_TYPE MLF_REG32(0xE000ED90u)
#define MPU_CTRL MLF_REG32(0xE000ED94u)
#define MPU_CTRL_ENABLE (1u << 0)
#define MPU_CTRL_PRIVDEFENA (1u << 2)
#define MPU_RNR MLF_REG32(0xE000ED98u)
#define MPU_RBAR MLF_REG32(0xE000ED9Cu)
#define MPU_RASR MLF_REG32(0xE000EDA0u)
#define MPU_RASR_ENABLE (1u << 0)
#define MPU_RASR_SIZE_32K (14u << 1)
#define MPU_RASR_NO_ACCESS (1u << 28) /* AP = 0, no execution */

/* Armv6-M has one fault, no fault status and no coprocessors. */
#if defined(__ARM_ARCH_6M__)
#define MLF_HAS_FAULT_STATUS 0
#else
#define MLF_HAS_FAULT_STATUS 1
#endif

/* Floating-point or vector instructions may occur: coprocessors 10 and 11 must be switched on. */
#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
#define MLF_HAS_CP10 1
#else
#define MLF_HAS_CP10 0
#endif

/* The main extension of Armv8-M checks the stack pointer against a limit. */
#if defined(__ARM_ARCH_8M_MAIN__) || defined(__ARM_ARCH_8_1M_MAIN__)
#define MLF_HAS_STACK_LIMIT 1
#else
#define MLF_HAS_STACK_LIMIT 0
#endif

/* Armv7-M has no such limit: a forbidden region below the stack stands in for it. */
#if defined(__ARM_ARCH_7M__) || defined(__ARM_ARCH_7EM__)
#define MLF_HAS_STACK_GUARD 1
#else
#define MLF_HAS_STACK_GUARD 0
#endif

#endif /* MLF_CORTEXM_H */
