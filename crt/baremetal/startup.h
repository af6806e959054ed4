/* SPDX-License-Identifier: Apache-2.0 */
/*
 * startup.h - between the reset handler of an architecture and the common start-up. Private to crt/baremetal.
 */
#ifndef MLF_STARTUP_H
#define MLF_STARTUP_H

#include <stdint.h>

/* Everything that main() relies on, then main(). Called by the reset handler with a stack; a function of its own, so
 * that no floating-point instruction can move above the switch that permits them. */
__attribute__((noreturn)) void mlf_start_main(void);

/* With MLF_CACHES: switch instruction and data cache on. */
void mlf_cpu_enable_caches(void);

#endif /* MLF_STARTUP_H */
