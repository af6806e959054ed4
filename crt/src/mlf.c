/* SPDX-License-Identifier: Apache-2.0 */
#include "mlf_internal.h"

mlf_context_t mlf_context;

mlf_status_t mlf_run(const mlf_model_t *model) {
  const mlf_step_t *step = model->steps;
  const mlf_step_t *const end = step + model->num_steps;
  /* The packed ABI takes its constant arguments through plain pointers and never writes to them. */
  int32_t *const type_codes = (int32_t *)(uintptr_t)model->type_codes;
  int64_t ret_value = 0;
  int32_t ret_type_code = 0;

  mlf_context.refused_bytes = 0;
  for (; step != end; ++step) {
    mlf_context.step = step;
    mlf_context.slot = step->slots;
    if (step->kernel((void *)(uintptr_t)step->args, type_codes, step->num_args, &ret_value, &ret_type_code,
                     NULL) != 0) {
      return mlf_context.refused_bytes != 0 ? MLF_E_WORKSPACE : MLF_E_KERNEL;
    }
  }
  return MLF_OK;
}

void *mlf_refuse(uint32_t size_bytes) {
  mlf_context.refused_bytes = size_bytes != 0u ? size_bytes : 1u;
#if MLF_TRACE
  mlf_trace.refused_bytes = mlf_context.refused_bytes;
#endif
  return NULL;
}

int32_t mlf_current_step(const mlf_model_t *model) {
  const uintptr_t first = (uintptr_t)model->steps;
  const uintptr_t at = (uintptr_t)mlf_context.step;
  const uintptr_t span = sizeof(mlf_step_t) * model->num_steps;

  return at >= first && at - first < span ? (int32_t)((at - first) / sizeof(mlf_step_t)) : -1;
}

const mlf_tensor_t *mlf_input(const mlf_model_t *model, uint32_t index) {
  return index < model->num_inputs ? &model->inputs[index] : NULL;
}

const mlf_tensor_t *mlf_output(const mlf_model_t *model, uint32_t index) {
  return index < model->num_outputs ? &model->outputs[index] : NULL;
}
