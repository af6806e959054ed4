/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that compiled kernels call: TVM's backend ABI. */
#include <mlf/mlf_adapter.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/runtime/c_backend_api.h>

#include "mlf_internal.h"

#if MLF_TRACE
mlf_trace_t mlf_trace;

void mlf_trace_reset(void) {
  mlf_trace.high_water = NULL;
  mlf_trace.requests = 0;
  mlf_trace.refused_bytes = 0;
}

static inline __attribute__((unused)) void mlf_trace_request(const uint8_t *base, uint64_t size_bytes) {
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

#if !MLF_WORKSPACE_HEAP /* crt/host/workspace.c has its own */
#if MLF_WORKSPACE_SLOTS
static inline void *mlf_slot_take(uint64_t size_bytes) {
  const mlf_slot_t *slot;
  void *base;

  if ((uint32_t)(size_bytes >> 32) != 0u) {
    return mlf_refuse(UINT32_MAX);
  }
  slot = mlf_context.slot;
  if ((uint32_t)size_bytes >= slot->refused_from_bytes) {
    return mlf_refuse((uint32_t)size_bytes);
  }
  base = slot->base;
  ++slot; /* in this order and on its own, gcc needs no stack for it: 9 instructions */
  mlf_context.slot = slot;
  MLF_TRACE_REQUEST(base, size_bytes);
  return base;
}
#endif

#if MLF_WORKSPACE_STACK
static inline void *mlf_stack_take(uint64_t size_bytes) {
  uint8_t *base;
  uint32_t room;

  if ((uint32_t)(size_bytes >> 32) != 0u) {
    return mlf_refuse(UINT32_MAX);
  }
  base = mlf_context.top;
  room = (uint32_t)(mlf_context.limit - base);
  if ((uint32_t)size_bytes > room) {
    return mlf_refuse((uint32_t)size_bytes);
  }
  /* room is a multiple of the alignment, so the rounded request fits as well. */
  mlf_context.top = base + (((uint32_t)size_bytes + (MLF_STACK_ALIGN - 1u)) & ~(MLF_STACK_ALIGN - 1u));
  MLF_TRACE_REQUEST(base, size_bytes);
  return base;
}
#endif

void *TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t nbytes, int dtype_code_hint,
                               int dtype_bits_hint) {
  (void)device_type;
  (void)device_id;
  (void)dtype_code_hint;
  (void)dtype_bits_hint;
#if MLF_WORKSPACE_SLOTS && MLF_WORKSPACE_STACK
  return mlf_context.slot != NULL ? mlf_slot_take(nbytes) : mlf_stack_take(nbytes);
#elif MLF_WORKSPACE_SLOTS
  return mlf_slot_take(nbytes);
#elif MLF_WORKSPACE_STACK
  return mlf_stack_take(nbytes);
#else
  return mlf_refuse(nbytes < UINT32_MAX ? (uint32_t)nbytes : UINT32_MAX);
#endif
}

int TVMBackendFreeWorkspace(int device_type, int device_id, void *ptr) {
  (void)device_type;
  (void)device_id;
  (void)ptr;
#if MLF_WORKSPACE_SLOTS && MLF_WORKSPACE_STACK
  if (mlf_context.slot != NULL) {
    mlf_context.slot--;
  } else {
    mlf_context.top = ptr;
  }
#elif MLF_WORKSPACE_SLOTS
  mlf_context.slot--;
#elif MLF_WORKSPACE_STACK
  mlf_context.top = ptr;
#endif
  return 0;
}
#endif

void TVMAPISetLastError(const char *msg) { mlf_context.message = msg; }

void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message) {
  (void)kind;
  mlf_context.message = message;
}

void TVMFFIErrorSetRaisedFromCStrParts(const char *kind, const char **message_parts, int32_t num_parts) {
  mlf_context.message = num_parts > 0 ? message_parts[0] : kind;
}

/* A system library names its kernels when the program starts; here they are called by their symbols. */
int TVMBackendRegisterSystemLibSymbol(const char *name, void *symbol) {
  (void)name;
  (void)symbol;
  return 0;
}

int TVMFFIEnvModRegisterSystemLibSymbol(const char *name, void *symbol) {
  (void)name;
  (void)symbol;
  return 0;
}

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
