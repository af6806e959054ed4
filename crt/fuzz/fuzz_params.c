/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the parameter loader and the two-slot store. The first byte chooses:
 *   bit 0: the rest is one blob (bit 1: its CRCs are set right), loaded alone;
 *   else: two slots as some flash may hold them (bit 1: their records' and blobs' CRCs are set right),
 *   then a list of requests to change the parameters. Whatever the slots hold, the model must load, with
 *   parameters that are whole; and it must load again after the last request, as if the power had failed.
 */
#include <stdlib.h>
#include <string.h>

#include "mlf_store_ram.h"
#include "tiny_model.h"

#define SLOT MLF_STORE_SLOT_BYTES(TINY_PARAMS, MLF_STORE_RAM_ERASE_BYTES)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t graph[TINY_GRAPH] __attribute__((aligned(16)));
static uint8_t image_params[TINY_BLOB] __attribute__((aligned(16)));
static uint8_t arena[TINY_ARENA] __attribute__((aligned(16)));
static uint64_t tables[TINY_WORDS];
static uint8_t slots[2u * SLOT] __attribute__((aligned(16)));
static mlf_model_t model;
static volatile uint32_t sink;

static const mlf_store_driver_t driver = MLF_STORE_RAM_DRIVER(slots, SLOT);
static mlf_dynamic_config_t config = {
    .graph =
        {
            .kernels = tiny_kernels,
            .type_codes = tiny_type_codes,
            .arena = arena,
            .memory = tables,
            .memory_bytes = sizeof tables,
            .arena_bytes = TINY_ARENA,
            .num_kernels = 2,
            .num_type_codes = 3,
        },
    .graph_blob = graph,
    .params_blob = image_params,
    .driver = &driver,
    .model = &model,
    .params_blob_bytes = TINY_BLOB,
};

static void require(int condition) {
  if (!condition) {
    abort();
  }
}

static void one_blob(const uint8_t *data, size_t size, int set_right) {
  const mlf_params_fit_t fit = {&graph[56], TINY_PARAMS};
  mlf_params_t params;
  uint8_t *blob = malloc(size != 0 ? size : 1); /* of its own: one byte too far is seen */
  require(blob != NULL);
  memcpy(blob, data, size);
  if (set_right) {
    tiny_params_crc(blob, (uint32_t)size);
  }
  if (mlf_params_open(&params, blob, size, &fit) == MLF_BLOB_OK) {
    require(params.data_bytes == TINY_PARAMS);
    for (uint32_t i = 0; i < params.data_bytes; i++) {
      sink += params.data[i];
    }
  }
  free(blob);
}

static void put_u32(uint8_t *out, uint32_t value) {
  for (uint32_t i = 0; i < 4; i++) {
    out[i] = (uint8_t)(value >> (8u * i));
  }
}

/* The model loads and runs, with parameters whose CRC is right. */
static void boot(mlf_dynamic_t *dynamic) {
  require(mlf_dynamic_boot(dynamic, &config) == MLF_BLOB_OK);
  const uint8_t *blob = dynamic->params.data - MLF_PARAMS_HEADER_BYTES;
  require(mlf_crc32(0, dynamic->params.data, TINY_PARAMS) == mlf_blob_u32(&blob[16]));
  require(dynamic->store.active != MLF_STORE_NONE ? blob >= slots && blob < &slots[sizeof slots]
                                                  : blob == image_params);
  require(mlf_run(&model) == MLF_OK);
}

static void fill_slots(const uint8_t *data, size_t size, int set_right) {
  memset(slots, 0xFF, sizeof slots);
  memcpy(slots, data, size < sizeof slots ? size : sizeof slots);
  for (uint32_t i = 0; set_right && i < 2; i++) {
    uint8_t *slot = &slots[i * SLOT];
    tiny_params_crc(&slot[MLF_STORE_BLOB_AT], TINY_BLOB);
    memcpy(&slot[16], &slot[MLF_STORE_BLOB_AT + 20u], 4);
    put_u32(&slot[28], mlf_crc32(0, slot, 28));
  }
}

/* Requests: a byte that says which, and for a write one with a size; its data follows. */
static void change(mlf_dynamic_t *dynamic, const uint8_t *data, size_t size) {
  mlf_dynamic_t fresh;
  uint8_t blob[TINY_BLOB];
  tiny_params(blob, &graph[56], 7);
  for (uint32_t left = 16; left != 0 && size >= 2; left--) {
    const uint8_t what = data[0];
    uint32_t count = data[1];
    data += 2;
    size -= 2;
    if (what % 4u == 0) {
      (void)!mlf_dynamic_begin(dynamic, (what & 4u) != 0 ? TINY_BLOB : count);
    } else if (what % 4u == 1) { /* what came with the input */
      count = count <= size ? count : (uint32_t)size;
      (void)!mlf_dynamic_write(dynamic, (what & 4u) != 0 ? dynamic->store.written : count, data, count);
      data += count;
      size -= count;
    } else if (what % 4u == 2) { /* a good blob */
      const uint32_t at = dynamic->store.written < TINY_BLOB ? dynamic->store.written : 0;
      (void)!mlf_dynamic_write(dynamic, at, &blob[at], count <= TINY_BLOB - at ? count : TINY_BLOB - at);
    } else {
      const mlf_blob_status_t status = mlf_dynamic_commit(dynamic);
      require(status != MLF_BLOB_OK || dynamic->store.active <= 1);
    }
  }
  const uint32_t generation = dynamic->store.generation;
  const uint8_t active = dynamic->store.active;
  boot(&fresh);
  require(fresh.store.active == active && fresh.store.generation == generation);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  mlf_dynamic_t dynamic;
  if (config.graph_blob_bytes == 0) {
    config.graph_blob_bytes = tiny_graph(graph);
    tiny_params(image_params, &graph[56], 1);
  }
  if (size < 1) {
    return 0;
  }
  if ((data[0] & 1u) != 0) {
    one_blob(&data[1], size - 1u, (data[0] & 2u) != 0);
    return 0;
  }
  fill_slots(&data[1], size - 1u, (data[0] & 2u) != 0);
  boot(&dynamic);
  if (size - 1u > sizeof slots) {
    change(&dynamic, &data[1u + sizeof slots], size - 1u - sizeof slots);
  }
  return 0;
}
