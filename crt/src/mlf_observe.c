/* SPDX-License-Identifier: Apache-2.0 */
/* Steps one at a time: what mlf_run() does for all of them, with a look at the clock around the kernel. */
#include "mlf_internal.h"

#if MLF_OBSERVE
static uint64_t no_ticks(void) { return 0; }

mlf_status_t mlf_run_step(const mlf_model_t *model, uint32_t index, uint64_t (*ticks)(void),
                          uint64_t *out_ticks) {
  const mlf_step_t *const step = &model->steps[index];
  int32_t *const type_codes = (int32_t *)(uintptr_t)model->type_codes;
  uint64_t (*const now)(void) = ticks != NULL ? ticks : no_ticks;
  int64_t ret_value = 0;
  int32_t ret_type_code = 0;
  int32_t failed;
  uint64_t start;

  mlf_context.refused_bytes = 0;
  mlf_context.step = step;
  mlf_context.slot = step->slots;
  start = now();
  failed = step->kernel((void *)(uintptr_t)step->args, type_codes, step->num_args, &ret_value, &ret_type_code,
                        NULL);
  *out_ticks = now() - start;
  if (failed != 0) {
    return mlf_context.refused_bytes != 0 ? MLF_E_WORKSPACE : MLF_E_KERNEL;
  }
  return MLF_OK;
}
#endif
