/* SPDX-License-Identifier: Apache-2.0 */
/* Self-test cases of a package: inputs, and the outputs that the model must give. */
#include <string.h>

#include "mlf_package.h"

enum { TYPE_INT = 0, TYPE_UINT = 1, TYPE_FLOAT = 2, TOLERANCE_BYTES = 4 };

/* An element of an integer type of 8, 16 or 32 bits, as an unsigned number in the same order. */
static uint32_t element(const uint8_t *data, uint32_t type_code, uint32_t bytes) {
  uint32_t value = 0;
  for (uint32_t i = 0; i < bytes; i++) {
    value |= (uint32_t)data[i] << (8u * i);
  }
  return type_code == TYPE_INT ? value ^ 1u << (8u * bytes - 1u) : value;
}

static int floats_agree(const uint8_t *got, const uint8_t *wanted, uint32_t size, const uint8_t *tolerance) {
  float most;
  memcpy(&most, tolerance, sizeof most);
  for (uint32_t at = 0; at + 4u <= size; at += 4u) {
    float a;
    float b;
    memcpy(&a, &got[at], sizeof a);
    memcpy(&b, &wanted[at], sizeof b);
    const float difference = a > b ? a - b : b - a;
    if (memcmp(&got[at], &wanted[at], 4u) != 0 && !(difference <= most)) { /* NaN agrees with itself alone */
      return 0;
    }
  }
  return 1;
}

static int agree(const mlf_tensor_t *tensor, const uint8_t *wanted, const uint8_t *tolerance) {
  const uint8_t *got = tensor->data;
  const uint32_t bytes = tensor->bits / 8u;
  const uint32_t most = mlf_blob_u32(tolerance);
  if (most == 0 || tensor->lanes != 1) {
    return memcmp(got, wanted, tensor->size_bytes) == 0;
  }
  if (tensor->type_code == TYPE_FLOAT && tensor->bits == 32) {
    return floats_agree(got, wanted, tensor->size_bytes, tolerance);
  }
  if (tensor->type_code > TYPE_UINT || (bytes != 1 && bytes != 2 && bytes != 4)) {
    return memcmp(got, wanted, tensor->size_bytes) == 0;
  }
  for (uint32_t at = 0; at + bytes <= tensor->size_bytes; at += bytes) {
    const uint32_t a = element(&got[at], tensor->type_code, bytes);
    const uint32_t b = element(&wanted[at], tensor->type_code, bytes);
    if ((a > b ? a - b : b - a) > most) {
      return 0;
    }
  }
  return 1;
}

/* Bytes of a case; saturating. */
static uint64_t case_bytes(const mlf_model_t *model) {
  uint64_t size = 0;
  for (uint32_t i = 0; i < model->num_inputs; i++) {
    size += model->inputs[i].size_bytes;
  }
  for (uint32_t i = 0; i < model->num_outputs; i++) {
    size += (uint64_t)model->outputs[i].size_bytes + TOLERANCE_BYTES;
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
    if (!agree(&model->outputs[i], &data[TOLERANCE_BYTES], data)) {
      return 0;
    }
    data += TOLERANCE_BYTES + model->outputs[i].size_bytes;
  }
  return 1;
}

int32_t mlf_package_run_cases(const mlf_model_t *model, const mlf_package_head_t *head, const uint8_t *cases,
                              uint16_t *out_case) {
  const uint64_t size = case_bytes(model);
  const uint64_t all = size * head->num_cases;
  if (all > head->cases_bytes || head->cases_bytes - all >= MLF_PACKAGE_ALIGNMENT) {
    return MLF_E_PACKAGE_FORMAT;
  }
  for (uint16_t i = 0; i < head->num_cases; i++) {
    if (!run_case(model, &cases[(size_t)size * i])) {
      *out_case = i;
      return MLF_E_PACKAGE_CASE;
    }
  }
  return MLF_BLOB_OK;
}
