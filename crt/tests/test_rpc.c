/* SPDX-License-Identifier: Apache-2.0 */
/* The RPC server against fake models. Usage: test_rpc [VECTORS], one conversation. */
#include "test_rpc.h"

#include <stdio.h>

#include "rpc_device.h"

int main(int argc, char **argv) {
  unsigned long checks = test_requests();
  checks += test_sessions();
  checks += test_damage();
  if (argc > 1) {
    checks += test_vectors(argv[1]);
  }
  checks += end_device();
  printf("%lu checks\n", checks);
  return 0;
}
