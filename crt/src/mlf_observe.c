/* SPDX-License-Identifier: Apache-2.0 */
/* One step at a time: the body of mlf_run(), with the clock read around the kernel. */
#include <mlf/mlf_adapter.h>

#include "mlf_internal.h"

#if MLF_OBSERVE
static uint64_t no_ticks(void *ctx) {
  (void)ctx;
  return 0;
}

mlf_status_t mlf_run_step(const mlf_model_t *model, uint32_t index, mlf_ticks_t ticks, void *ctx,
                          uint64_t *out_ticks) {
  const mlf_step_t *const step = &model->steps[index];
  int32_t *const type_codes = MLF_ABI_POINTER(model->type_codes);
  const mlf_ticks_t now = ticks != NULL ? ticks : no_ticks;
  int64_t ret_value; /* for kernels to write, by the ABI; never read */
  int32_t ret_type_code;
  int32_t failed;
  uint64_t start;
  mlf_status_t status = MLF_OK;

  if (!mlf_claim(step)) {
    return MLF_E_BUSY;
  }
  mlf_context.slot = step->slots;
  start = now(ctx);
  failed = step->kernel(MLF_ABI_POINTER(step->args), type_codes, step->num_args, &ret_value, &ret_type_code,
                        NULL);
  *out_ticks = now(ctx) - start;
  if (failed != 0) {
    status = mlf_note_failure();
  }
  mlf_release();
  return status;
}
#endif
