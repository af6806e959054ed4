/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that compiled kernels call: TVM's backend ABI, 0.8 to 0.20. */
#include <mlf/mlf_adapter.h>
#include <tvm/runtime/c_backend_api.h>

#include "mlf_internal.h"

#if MLF_TRACE
mlf_trace_t mlf_trace;

void mlf_trace_reset(void) {
  mlf_trace.high_water = NULL;
  mlf_trace.requests = 0;
  mlf_trace.refused_bytes = 0;
}

static void mlf_trace_request(const uint8_t *base, uint64_t size_bytes) {
  const uint8_t *const end = base + size_bytes;

  mlf_trace.requests++;
  if (mlf_trace.high_water == NULL || end > mlf_trace.high_water) {
    mlf_trace.high_water = end;
  }
}
#define MLF_TRACE_REQUEST(base, size_bytes) mlf_trace_request((base), (size_bytes))
#else
#define MLF_TRACE_REQUEST(base, size_bytes) ((void)0)
#endif

void mlf_stack_begin(uint8_t *base, uint32_t size_bytes) {
  mlf_context.slot = NULL;
  mlf_context.top = base;
  mlf_context.limit = base + size_bytes;
}

static void *mlf_refuse(uint64_t size_bytes) {
  mlf_context.refused_bytes = size_bytes < UINT32_MAX ? (uint32_t)size_bytes : UINT32_MAX;
#if MLF_TRACE
  mlf_trace.refused_bytes = mlf_context.refused_bytes;
#endif
  return NULL;
}

void *TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t nbytes, int dtype_code_hint,
                               int dtype_bits_hint) {
  const mlf_slot_t *const slot = mlf_context.slot;
  (void)device_type;
  (void)device_id;
  (void)dtype_code_hint;
  (void)dtype_bits_hint;

  if (slot != NULL) {
    if (nbytes > slot->size_bytes) {
      return mlf_refuse(nbytes);
    }
    mlf_context.slot = slot + 1;
    MLF_TRACE_REQUEST(slot->base, nbytes);
    return slot->base;
  }
  {
    uint8_t *const base = mlf_context.top;
    const size_t room = (size_t)(mlf_context.limit - base);

    if (nbytes > room) {
      return mlf_refuse(nbytes);
    }
    MLF_TRACE_REQUEST(base, nbytes);
    {
      const size_t rounded = ((size_t)nbytes + (MLF_STACK_ALIGN - 1u)) & ~(size_t)(MLF_STACK_ALIGN - 1u);
      mlf_context.top = rounded < room ? base + rounded : mlf_context.limit;
    }
    return base;
  }
}

int TVMBackendFreeWorkspace(int device_type, int device_id, void *ptr) {
  (void)device_type;
  (void)device_id;
  if (mlf_context.slot != NULL) {
    mlf_context.slot--;
  } else {
    mlf_context.top = ptr;
  }
  return 0;
}

void TVMAPISetLastError(const char *msg) { mlf_context.message = msg; }

int TVMBackendParallelLaunch(FTVMParallelLambda flambda, void *cdata, int num_task) {
  TVMParallelGroupEnv env = {NULL, 1};
  (void)num_task;
  return flambda(0, &env, cdata);
}

int TVMBackendParallelBarrier(int task_id, TVMParallelGroupEnv *penv) {
  (void)task_id;
  (void)penv;
  return 0;
}
