/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A camera that gives an image line by line, and a model (examples/layers) whose input is streamed: there is no image in RAM,
 * each line is written where the model reads it.
 *
 * camera_line() stands for the driver: replace it by one that starts DMA to `line` and waits for its end.
 */
#include <mlf/mlf_platform.h>

#include "layers.h"

static uint32_t light = 1u; /* what the sensor of this stub sees */

/* Write the next line of the image, LAYERS_ROW_BYTES bytes. */
static void camera_line(int8_t *line) {
  uint32_t i;

  for (i = 0; i < LAYERS_ROW_BYTES; ++i) {
    light = light * 1664525u + 1013904223u;
    line[i] = (int8_t)(light >> 24);
  }
}

static void print(const char *text) {
  for (; *text != '\0'; ++text) {
    mlf_uart_write((const uint8_t *)text, 1);
  }
}

/* The class of one image; -1 when the model failed. */
static int32_t classify(void) {
  const int8_t *score;
  int8_t *line;
  int32_t best = 0;
  int32_t i;

  if (layers_begin() != MLF_OK) {
    return -1;
  }
  while ((line = layers_row()) != NULL) {
    camera_line(line);
    if (layers_rows_done(1) != MLF_OK) {
      return -1;
    }
  }
  if (layers_finish() != MLF_OK) {
    return -1;
  }
  score = layers_output_softmax();
  for (i = 1; i < (int32_t)LAYERS_OUTPUT_SOFTMAX_ELEMENTS; ++i) {
    if (score[i] > score[best]) {
      best = i;
    }
  }
  return best;
}

/* For the fault handler: the step that runs. */
void mlf_fault_context(mlf_fault_context_t *out_context) {
  out_context->model = layers_model.name;
  out_context->step = mlf_running_step(&layers_model);
}

int main(void) {
  int32_t image;
  int32_t failed = 0;

  mlf_uart_init();
  for (image = 0; image < 3; ++image) {
    const int32_t found = classify();
    const char digit[2] = {(char)('0' + found), '\0'};

    failed |= found < 0;
    print("image of class ");
    print(found < 0 ? "unknown" : digit);
    print("\r\n");
  }
  mlf_platform_exit(failed);
}
