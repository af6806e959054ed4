/* SPDX-License-Identifier: Apache-2.0 */
#include <mlf/mlf_adapter.h>

#include "mlf_internal.h"

mlf_context_t mlf_context;

mlf_status_t mlf_run(const mlf_model_t *model) {
  const mlf_step_t *step = model->steps;
  const mlf_step_t *const end = step + model->num_steps;
  int32_t *const type_codes = MLF_ABI_POINTER(model->type_codes);
  int64_t ret_value; /* for kernels to write, by the ABI; never read */
  int32_t ret_type_code;
  mlf_status_t status = MLF_OK;

  if (!mlf_claim(step)) {
    return MLF_E_BUSY;
  }
  while (step != end) {
    mlf_context.step = step;
    mlf_context.slot = step->slots;
    ++step; /* before the call: gcc then needs one instruction less per step */
    if (step[-1].kernel(MLF_ABI_POINTER(step[-1].args), type_codes, step[-1].num_args, &ret_value,
                        &ret_type_code, NULL) != 0) {
      status = mlf_note_failure();
      break;
    }
  }
  mlf_release();
  return status;
}

void *mlf_refuse(uint32_t size_bytes) {
  mlf_context.refused_bytes = size_bytes != 0u ? size_bytes : 1u;
#if MLF_TRACE
  mlf_trace.refused_bytes = mlf_context.refused_bytes;
#endif
  return NULL;
}

static int32_t index_of(const mlf_model_t *model, const mlf_step_t *step) {
  const uintptr_t first = (uintptr_t)model->steps;
  const uintptr_t at = (uintptr_t)step;
  const uintptr_t span = sizeof(mlf_step_t) * model->num_steps;

  return at >= first && at - first < span ? (int32_t)((at - first) / sizeof(mlf_step_t)) : -1;
}

int32_t mlf_running_step(const mlf_model_t *model) { return index_of(model, mlf_context.step); }

int32_t mlf_failed_step(const mlf_model_t *model) { return index_of(model, mlf_context.failed); }

const mlf_tensor_t *mlf_input(const mlf_model_t *model, uint32_t index) {
  return index < model->num_inputs ? &model->inputs[index] : NULL;
}

const mlf_tensor_t *mlf_output(const mlf_model_t *model, uint32_t index) {
  return index < model->num_outputs ? &model->outputs[index] : NULL;
}
