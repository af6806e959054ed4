/* SPDX-License-Identifier: Apache-2.0 */
#include <mlf/mlf_adapter.h>

#include "mlf_internal.h"

mlf_context_t mlf_context;

#if MLF_SEQUENCES
/* Not in mlf_run(), where it would take registers from the loop. */
__attribute__((noinline)) static mlf_status_t run_sequence(const mlf_model_t *model) {
#if MLF_WORKSPACE_SLOTS
  static const mlf_slot_t no_slots[1] = {MLF_SLOT_END};
#endif
  const uint8_t *const first = mlf_first_mark(model);
  mlf_status_t status = MLF_OK;

  if (!mlf_claim(first)) {
    return MLF_E_BUSY;
  }
#if MLF_WORKSPACE_SLOTS
  mlf_context.slot = no_slots;
#endif
  if (model->sequence(&mlf_context.step, first) != 0) {
    status = mlf_note_failure();
  }
  mlf_release();
  return status;
}
#endif

mlf_status_t mlf_run(const mlf_model_t *model) {
#if MLF_STEP_TABLES
  const mlf_step_t *step = model->steps; /* of a model with a sequence: NULL */
  const mlf_step_t *end;
  int32_t *const type_codes = MLF_ABI_POINTER(model->type_codes);
  int64_t ret_value; /* for kernels to write, by the ABI; never read */
  int32_t ret_type_code;
  mlf_status_t status = MLF_OK;

#if MLF_SEQUENCES
  if (model->sequence != NULL) {
    return run_sequence(model);
  }
#endif
  end = step + model->num_steps;
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
#else
  return run_sequence(model);
#endif
}

void *mlf_refuse(uint32_t size_bytes) {
  mlf_context.refused_bytes = size_bytes != 0u ? size_bytes : 1u;
#if MLF_TRACE
  mlf_trace.refused_bytes = mlf_context.refused_bytes;
#endif
  return NULL;
}

static int32_t index_of(const mlf_model_t *model, const void *step) {
#if MLF_SEQUENCES
  if (!MLF_STEP_TABLES || model->sequence != NULL) {
    const uintptr_t mark = (uintptr_t)step - (uintptr_t)mlf_first_mark(model);
    return mark < model->num_steps ? (int32_t)mark : -1;
  }
#endif
#if MLF_STEP_TABLES
  const uintptr_t first = (uintptr_t)model->steps;
  const uintptr_t at = (uintptr_t)step;
  const uintptr_t span = sizeof(mlf_step_t) * model->num_steps;
  return at >= first && at - first < span ? (int32_t)((at - first) / sizeof(mlf_step_t)) : -1;
#else
  return -1;
#endif
}

int32_t mlf_running_step(const mlf_model_t *model) { return index_of(model, mlf_context.step); }

int32_t mlf_failed_step(const mlf_model_t *model) { return index_of(model, mlf_context.failed); }

const mlf_tensor_t *mlf_input(const mlf_model_t *model, uint32_t index) {
  return index < model->num_inputs ? &model->inputs[index] : NULL;
}

const mlf_tensor_t *mlf_output(const mlf_model_t *model, uint32_t index) {
  return index < model->num_outputs ? &model->outputs[index] : NULL;
}

mlf_status_t mlf_set_input(const mlf_model_t *model, uint32_t index, const void *data) {
  if (model->input_at == NULL) {
    return MLF_E_STATE;
  }
  if (index >= model->num_inputs || data == NULL || (uintptr_t)data % model->input_alignment != 0u) {
    return MLF_E_ARGUMENT;
  }
  if (!mlf_claim(mlf_first_step(model))) {
    return MLF_E_BUSY;
  }
  model->input_at[index] = data;
  mlf_release();
  return MLF_OK;
}
