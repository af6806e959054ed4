/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of tests of the RPC server; each gives the number of its checks. */
#ifndef TEST_RPC_H
#define TEST_RPC_H

unsigned long test_requests(void);
unsigned long test_sessions(void);
unsigned long test_damage(void);
unsigned long test_vectors(const char *path);

#endif /* TEST_RPC_H */
