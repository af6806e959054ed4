/* SPDX-License-Identifier: Apache-2.0 */
/* Self-test cases of a package: inputs, and the outputs that the model must give. */
#include <string.h>

#include "mlf_package.h"

enum { TYPE_INT = 0, TYPE_UINT = 1, TYPE_FLOAT = 2, TOLERANCE_BYTES = 4 };

/* An element of up to 32 bits. */
static uint32_t element(const uint8_t *data, uint32_t bytes) {
  uint32_t value = 0;
  while (bytes-- != 0) {
    value = value << 8 | data[bytes];
  }
  return value;
}

static int integers_agree(uint32_t a, uint32_t b, uint32_t flip, uint32_t most) {
  a ^= flip; /* as unsigned numbers in the same order */
  b ^= flip;
  return (a > b ? a - b : b - a) <= most;
}

static int floats_agree(uint32_t got, uint32_t wanted, uint32_t tolerance) {
  float a;
  float b;
  float most;
  memcpy(&a, &got, sizeof a);
  memcpy(&b, &wanted, sizeof b);
  memcpy(&most, &tolerance, sizeof most);
  return (a > b ? a - b : b - a) <= most; /* never of NaN */
}

/* Equal bytes, or elements within the tolerance. */
static int agree(const mlf_tensor_t *tensor, const uint8_t *wanted, uint32_t tolerance) {
  const uint8_t *got = tensor->data;
  const uint32_t bytes = tensor->bits / 8u;
  if (memcmp(got, wanted, tensor->size_bytes) == 0) {
    return 1;
  }
  if (tolerance == 0 || tensor->lanes != 1 || tensor->type_code > TYPE_FLOAT ||
      (bytes != 4 && (tensor->type_code == TYPE_FLOAT || (bytes != 1 && bytes != 2)))) {
    return 0;
  }
  const uint32_t flip = tensor->type_code == TYPE_INT ? 1u << (8u * bytes - 1u) : 0;
  for (uint32_t at = 0; at + bytes <= tensor->size_bytes; at += bytes) {
    const uint32_t a = element(&got[at], bytes);
    const uint32_t b = element(&wanted[at], bytes);
    if (a != b && !(tensor->type_code == TYPE_FLOAT ? floats_agree(a, b, tolerance)
                                                    : integers_agree(a, b, flip, tolerance))) {
      return 0;
    }
  }
  return 1;
}

static uint32_t case_bytes(const mlf_model_t *model) {
  uint32_t size = 0; /* it does not overflow: the tensors lie in memory */
  for (uint32_t i = 0; i < model->num_inputs; i++) {
    size += model->inputs[i].size_bytes;
  }
  for (uint32_t i = 0; i < model->num_outputs; i++) {
    size += TOLERANCE_BYTES + model->outputs[i].size_bytes;
  }
  return size;
}

static int run_case(const mlf_model_t *model, const uint8_t *data) {
  for (uint32_t i = 0; i < model->num_inputs; i++) {
    memcpy(model->inputs[i].data, data, model->inputs[i].size_bytes);
    data += model->inputs[i].size_bytes;
  }
  if (mlf_run(model) != MLF_OK) {
    return 0;
  }
  for (uint32_t i = 0; i < model->num_outputs; i++) {
    if (!agree(&model->outputs[i], &data[TOLERANCE_BYTES], mlf_blob_u32(data))) {
      return 0;
    }
    data += TOLERANCE_BYTES + model->outputs[i].size_bytes;
  }
  return 1;
}

int32_t mlf_package_run_cases(const mlf_model_t *model, const mlf_package_head_t *head, const uint8_t *cases,
                              uint16_t *out_case) {
  const uint32_t size = case_bytes(model);
  if (size > head->cases_bytes / head->num_cases ||
      head->cases_bytes - size * head->num_cases >= MLF_PACKAGE_ALIGNMENT) {
    return MLF_E_PACKAGE_FORMAT;
  }
  for (uint16_t i = 0; i < head->num_cases; i++) {
    if (!run_case(model, &cases[size * i])) {
      *out_case = i;
      return MLF_E_PACKAGE_CASE;
    }
  }
  return MLF_BLOB_OK;
}
