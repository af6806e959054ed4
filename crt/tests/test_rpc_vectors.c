/* SPDX-License-Identifier: Apache-2.0 */
/* A conversation from a file: lines of "name send receive" in hexadecimal ("-" for nothing). */
#include <string.h>

#include "check.h"
#include "rpc_device.h"
#include "test_rpc.h"

#define VECTORS_MAX 400u
#define LINE_MAX_SIZE 8192u

typedef struct {
  size_t send_size, receive_size;
  uint8_t send[LINE_MAX_SIZE / 4], receive[LINE_MAX_SIZE / 4];
} vector_t;

static vector_t vectors[VECTORS_MAX];
static uint32_t num_vectors;

static size_t from_hex(const char *text, uint8_t *data, size_t capacity) {
  size_t size = 0;
  if (text[0] == '-') {
    return 0;
  }
  for (; text[2 * size] != '\0'; size++) {
    const char pair[3] = {text[2 * size], text[2 * size + 1], '\0'};
    CHECK(size < capacity && pair[1] != '\0');
    data[size] = (uint8_t)strtoul(pair, NULL, 16);
  }
  return size;
}

static void load_vectors(const char *path) {
  static char name[LINE_MAX_SIZE], send[LINE_MAX_SIZE], receive[LINE_MAX_SIZE];
  FILE *file = fopen(path, "r");
  CHECK(file != NULL);
  while (fscanf(file, "%8191s %8191s %8191s", name, send, receive) == 3) {
    CHECK(num_vectors < VECTORS_MAX);
    vector_t *vector = &vectors[num_vectors++];
    vector->send_size = from_hex(send, vector->send, sizeof vector->send);
    vector->receive_size = from_hex(receive, vector->receive, sizeof vector->receive);
  }
  fclose(file);
  CHECK(num_vectors > 20);
}

/* The whole conversation in pieces of up to `most` bytes, each at once with most == 0. */
static void play_vectors(uint32_t most) {
  start_rated();
  for (uint32_t i = 0; i < num_vectors; i++) {
    const vector_t *vector = &vectors[i];
    for (size_t at = 0; at < vector->send_size;) {
      const size_t left = vector->send_size - at;
      const size_t drawn = most == 0 ? left : 1u + random_below(most);
      const size_t size = drawn < left ? drawn : left;
      mlf_rpc_feed(rpc, &vector->send[at], size);
      at += size;
    }
    if (sent_size != vector->receive_size || memcmp(sent, vector->receive, sent_size) != 0) {
      fprintf(stderr, "vector %u (pieces of up to %u)\n", (unsigned)i, (unsigned)most);
      CHECK(0);
    }
    check_count++;
    sent_size = 0;
  }
}

/* Each vector cut in two at every byte; a duplicate must then give the same reply again. */
static void split_vectors(void) {
  for (uint32_t i = 0; i < num_vectors; i++) {
    const vector_t *vector = &vectors[i];
    for (size_t cut = 0; cut <= vector->send_size; cut++) {
      start_rated();
      for (uint32_t before = 0; before < i; before++) {
        mlf_rpc_feed(rpc, vectors[before].send, vectors[before].send_size);
      }
      sent_size = 0;
      mlf_rpc_feed(rpc, vector->send, cut);
      mlf_rpc_feed(rpc, &vector->send[cut], vector->send_size - cut);
      CHECK(sent_size == vector->receive_size);
      CHECK(memcmp(sent, vector->receive, sent_size) == 0);
    }
  }
}

unsigned long test_vectors(const char *path) {
  load_vectors(path);
  play_vectors(0);
  play_vectors(1);
  for (uint32_t i = 0; i < 50; i++) {
    play_vectors(40);
  }
  split_vectors();
  return check_count;
}
