/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server as a program of the host: requests on standard input, replies on standard output.
 *   rpc_host [BOOT_NONCE [RUNS_FILE]]: each run adds a byte to the file, whatever becomes of the program
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "fake_models.h"
#include "mlf_rpc.h"

static void write_all(void *ctx, const uint8_t *data, size_t size) {
  (void)ctx;
  while (size != 0) {
    const ssize_t done = write(STDOUT_FILENO, data, size);
    if (done <= 0) {
      _exit(1);
    }
    data += done;
    size -= (size_t)done;
  }
}

static int runs_file = -1;

static void count_run(void) {
  if (runs_file >= 0 && write(runs_file, "r", 1) != 1) {
    _exit(1);
  }
}

int main(int argc, char **argv) {
  static const char banner[] = "rpc_host: ready\n";
  static uint32_t state[MLF_RPC_STATE_WORDS(FAKE_TOTAL_INPUTS, FAKE_NUM_MODELS)];
  static mlf_rpc_t rpc;
  static uint8_t buffer[256];
  static mlf_rpc_config_t config = {
      .models = fake_models,
      .num_models = 3, /* the fourth cannot be described in full */
      .state = state,
      .state_words = sizeof state / sizeof state[0],
      .write = write_all,
      .window_bytes = 65535, /* a pipe holds the host back */
      .ticks = fake_ticks,
      .ticks_hz = 1000000,
      .boot_nonce = 0xB0070001u,
      .sdk_version = "1.2.3",
  };
  if (argc > 1) {
    config.boot_nonce = (uint32_t)strtoul(argv[1], NULL, 10);
  }
  if (argc > 2) {
    runs_file = open(argv[2], O_WRONLY | O_APPEND | O_CREAT, 0600);
    fake_on_run = count_run;
  }
  if (mlf_rpc_init(&rpc, &config) != MLF_OK) {
    return 1;
  }
  for (size_t i = 0; i < sizeof banner - 1; i++) {
    const uint8_t byte = (uint8_t)banner[i];
    write_all(NULL, &byte, 1);
  }
  for (;;) {
    const ssize_t size = read(STDIN_FILENO, buffer, sizeof buffer);
    if (size <= 0) {
      return 0;
    }
    mlf_rpc_feed(&rpc, buffer, (size_t)size);
  }
}
