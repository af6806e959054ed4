/* SPDX-License-Identifier: Apache-2.0 */
/* Workspaces of the host twin: each an allocation of its own, so that the address sanitizer sees an access outside
 * of it, or after it was freed. Nothing of the memory plan is used. */
#include <mlf/mlf.h>
#include <stdlib.h>
#include <tvm/runtime/c_backend_api.h>

#if MLF_WORKSPACE_HEAP
#define ALIGNMENT 64u /* as TVM's own runtime gives on a host, at most */

void *TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t nbytes, int dtype_code_hint,
                               int dtype_bits_hint) {
  void *base = NULL;
  (void)device_type;
  (void)device_id;
  (void)dtype_code_hint;
  (void)dtype_bits_hint;
  return posix_memalign(&base, ALIGNMENT, (size_t)nbytes) == 0 ? base : NULL;
}

int TVMBackendFreeWorkspace(int device_type, int device_id, void *ptr) {
  (void)device_type;
  (void)device_id;
  free(ptr);
  return 0;
}
#endif
