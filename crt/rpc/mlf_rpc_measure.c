/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that measure memory: STATS, PREPARE. */
#include <string.h>

#include "mlf_rpc_internal.h"

size_t mlf_rpc_stack_size(const mlf_rpc_config_t *config) {
  if (config->stack_low == NULL || config->stack_top == NULL || config->stack_pointer == NULL) {
    return 0;
  }
  const uintptr_t low = (uintptr_t)config->stack_low;
  const uintptr_t top = (uintptr_t)config->stack_top;
  return low < top ? top - low : 0;
}

/* Paints from the lowest address up to a little below the stack pointer. Writes byte by byte
 * through volatile, so that no call takes stack where it paints. */
static void paint_stack(mlf_rpc_t *rpc, uint8_t pattern) {
  const size_t size = mlf_rpc_stack_size(rpc->config);
  volatile uint8_t *low = rpc->config->stack_low;
  if (size == 0) {
    return;
  }
  const uintptr_t pointer = (uintptr_t)rpc->config->stack_pointer(rpc->config->ctx);
  if (pointer < (uintptr_t)low || pointer - (uintptr_t)low > size) {
    return;
  }
  const size_t unused = pointer - (uintptr_t)low;
  for (size_t i = MLF_RPC_STACK_MARGIN; i < unused; i++) {
    low[i - MLF_RPC_STACK_MARGIN] = pattern;
  }
  rpc->stack_pattern = pattern;
  rpc->stack_painted = 1;
}

static uint32_t stack_high_water(const mlf_rpc_t *rpc) {
  const size_t size = mlf_rpc_stack_size(rpc->config);
  const volatile uint8_t *low = rpc->config->stack_low;
  size_t unused = 0;
  while (unused < size && low[unused] == rpc->stack_pattern) {
    unused++;
  }
  return (uint32_t)(size - unused);
}

static uint8_t pattern_of(const mlf_rpc_request_t *request) {
  return (uint8_t)(*request->note >> MLF_RPC_NOTE_PATTERN_SHIFT);
}

static uint32_t high_water(const uint8_t *arena, uint32_t size, uint8_t pattern) {
  while (size != 0 && arena[size - 1u] == pattern) {
    size--;
  }
  return size;
}

static uint32_t arena_high_water(const mlf_rpc_request_t *request) {
  return high_water(request->model->arena, request->model->arena_bytes, pattern_of(request));
}

#if MLF_RPC_ARENAS
/* The arenas of the model in other memories; NULL: it has none. */
static const mlf_rpc_arenas_t *more_arenas(const mlf_rpc_request_t *request) {
  const mlf_rpc_config_t *config = request->rpc->config;
  uint32_t index = 0;
  while (config->models[index] != request->model) {
    index++;
  }
  return config->more_arenas != NULL ? &config->more_arenas[index] : NULL;
}

static void put_marks(const mlf_rpc_request_t *request, mlf_rpc_out_t *out, int painted) {
  const mlf_rpc_arenas_t *more = more_arenas(request);
  const uint8_t count = more != NULL ? more->count : 0;
  mlf_rpc_put_u8(out, count);
  for (uint8_t i = 0; i < count; i++) {
    const mlf_rpc_arena_t *one = &more->arenas[i];
    mlf_rpc_put_u32(out, painted != 0 ? high_water(one->address, one->size_bytes, pattern_of(request)) : 0);
  }
}

static void paint_more(const mlf_rpc_request_t *request, uint8_t pattern) {
  const mlf_rpc_arenas_t *more = more_arenas(request);
  for (uint8_t i = 0; more != NULL && i < more->count; i++) {
    (void)memset(more->arenas[i].address, pattern, more->arenas[i].size_bytes);
  }
}
#endif

/* Paint the guards, or look for the first one that does not hold the pattern any more. */
static void walk_guards(const mlf_rpc_request_t *request, int paint) {
  const mlf_model_t *model = request->model;
  const uint8_t pattern = pattern_of(request);
  for (uint32_t n = 0; n < model->num_guards; n++) {
    uint8_t *guard = model->guards[n];
    for (uint32_t i = 0; i < MLF_GUARD_BYTES; i++) {
      if (paint != 0) {
        guard[i] = pattern;
      } else if (guard[i] != pattern) {
        request->rpc->guard = (uint16_t)(n + 1u);
        return;
      }
    }
  }
}

void mlf_rpc_check_guards(const mlf_rpc_request_t *request) {
  if ((*request->note & MLF_RPC_NOTE_PAINTED) != 0 && request->rpc->guard == 0) {
    walk_guards(request, 0);
  }
}

int32_t mlf_rpc_do_stats(const mlf_rpc_request_t *request, mlf_rpc_out_t *out) {
  const mlf_rpc_t *rpc = request->rpc;
  const int arena_painted = (*request->note & MLF_RPC_NOTE_PAINTED) != 0 && request->model->arena_bytes != 0;
  uint32_t trace[3] = {0, 0, 0}; /* high water, requests, refused */
#if MLF_TRACE
  const uintptr_t arena = (uintptr_t)request->model->arena;
  const uintptr_t high = (uintptr_t)mlf_trace.high_water;
  if (high >= arena && high - arena <= request->model->arena_bytes) {
    trace[0] = (uint32_t)(high - arena);
  }
  trace[1] = mlf_trace.requests;
  trace[2] = mlf_trace.refused_bytes;
#endif
  mlf_rpc_put_u8(out, (uint8_t)((arena_painted ? 1u : 0u) | (rpc->stack_painted != 0 ? 2u : 0u)));
  mlf_rpc_put_u32(out, arena_painted ? arena_high_water(request) : 0);
  mlf_rpc_put_u32(out, trace[0]);
  mlf_rpc_put_u32(out, trace[1]);
  mlf_rpc_put_u32(out, trace[2]);
  mlf_rpc_put_u32(out, (uint32_t)mlf_rpc_stack_size(rpc->config));
  mlf_rpc_put_u32(out, rpc->stack_painted != 0 ? stack_high_water(rpc) : 0);
  mlf_rpc_put_u32(out, rpc->dropped);
  mlf_rpc_put_u16(out, request->model->num_guards);
  mlf_rpc_put_u16(out, rpc->guard);
#if MLF_RPC_ARENAS
  put_marks(request, out, arena_painted);
#endif
  return MLF_OK;
}

int32_t mlf_rpc_do_prepare(const mlf_rpc_request_t *request, mlf_rpc_out_t *out) {
  const uint8_t pattern = request->body[0];
  (void)out;
  mlf_rpc_forget_neighbours(request);
  mlf_rpc_forget_inputs(request);
  if (request->model->arena_bytes != 0) {
    (void)memset(request->model->arena, pattern, request->model->arena_bytes);
  }
#if MLF_RPC_ARENAS
  paint_more(request, pattern);
#endif
  *request->note = MLF_RPC_NOTE_PAINTED | (uint32_t)pattern << MLF_RPC_NOTE_PATTERN_SHIFT;
  request->rpc->guard = 0;
  walk_guards(request, 1);
  paint_stack(request->rpc, pattern);
#if MLF_TRACE
  mlf_trace_reset();
#endif
  return MLF_OK;
}
