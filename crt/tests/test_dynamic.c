/* SPDX-License-Identifier: Apache-2.0 */
/* Graph loader, parameter loader and two-slot store: every field, every byte, power cut everywhere. */
#include <string.h>

#include "check.h"
#include "mlf_store_file.h"
#include "mlf_store_ram.h"
#include "tiny_model.h"

#define SLOT_BYTES 512u
#define GARBAGE 0x5Au
#define X 0x21u

typedef struct {
  uint8_t bytes[TINY_GRAPH] __attribute__((aligned(16)));
  uint32_t size;
} graph_blob_t;

static graph_blob_t graph;
static uint8_t image_params[TINY_BLOB] __attribute__((aligned(16)));
static uint8_t arena[TINY_ARENA] __attribute__((aligned(16)));
static uint64_t tables[TINY_WORDS];
static mlf_model_t model;

static mlf_graph_config_t graph_config(void) {
  const mlf_graph_config_t config = {
      .kernels = tiny_kernels,
      .type_codes = tiny_type_codes,
      .arena = arena,
      .memory = tables,
      .memory_bytes = sizeof tables,
      .arena_bytes = sizeof arena,
      .num_kernels = 2,
      .num_type_codes = 3,
  };
  return config;
}

static void check_outputs(uint8_t seed) {
  uint8_t expected[TINY_IO];
  tiny_reference(expected, X, seed);
  CHECK(model.num_inputs == 1 && model.num_outputs == 1 && model.num_steps == 2);
  memset(model.inputs[0].data, X, TINY_IO);
  CHECK(mlf_run(&model) == MLF_OK);
  CHECK(memcmp(model.outputs[0].data, expected, TINY_IO) == 0);
}

/* ---- graph ---------------------------------------------------------------------------------- */

/* Open and load; on an error nothing may have been written. */
static mlf_blob_status_t try_graph(const uint8_t *blob, uint32_t size, const mlf_graph_config_t *config) {
  mlf_graph_t opened;
  mlf_model_t before;
  mlf_graph_t untouched;
  uint64_t tables_before[TINY_WORDS];
  memset(&opened, 0x77, sizeof opened);
  memset(&untouched, 0x77, sizeof untouched);
  memset(&model, 0x66, sizeof model);
  memcpy(&before, &model, sizeof before);
  memset(tables, 0x55, sizeof tables);
  memcpy(tables_before, tables, sizeof tables);
  mlf_blob_status_t status = mlf_graph_open(&opened, blob, size);
  if (status != MLF_BLOB_OK) {
    CHECK(memcmp(&opened, &untouched, sizeof opened) == 0);
  } else {
    status = mlf_graph_load(&opened, config, &image_params[MLF_PARAMS_HEADER_BYTES], &model);
  }
  if (status != MLF_BLOB_OK) {
    CHECK(memcmp(&model, &before, sizeof before) == 0);
    CHECK(memcmp(tables, tables_before, sizeof tables) == 0);
  }
  return status;
}

static void test_graph_loads(void) {
  const mlf_graph_config_t config = graph_config();
  CHECK(try_graph(graph.bytes, graph.size, &config) == MLF_BLOB_OK);
  CHECK(strcmp(model.name, "tiny") == 0);
  CHECK(strcmp(model.inputs[0].name, "x") == 0 && strcmp(model.outputs[0].name, "y") == 0);
  CHECK(model.inputs[0].size_bytes == TINY_IO && model.inputs[0].shape[0] == TINY_IO);
  CHECK(model.arena_bytes == TINY_ARENA && model.params_bytes == TINY_PARAMS);
  CHECK(model.archive_sha256[0] == 0xE0u && model.archive_sha256[31] == 0xFFu);
  check_outputs(1);
  CHECK(try_graph(graph.bytes, sizeof graph.bytes, &config) == MLF_BLOB_OK); /* more room than blob */
}

static void test_graph_limits(void) {
  mlf_graph_config_t config = graph_config();
  for (size_t bytes = 0; bytes < sizeof tables; bytes += 8) {
    config.memory_bytes = bytes;
    CHECK(try_graph(graph.bytes, graph.size, &config) == MLF_BLOB_E_LIMIT);
  }
  config = graph_config();
  config.arena_bytes = TINY_ARENA - 1u;
  CHECK(try_graph(graph.bytes, graph.size, &config) == MLF_BLOB_E_LIMIT);
  config = graph_config();
  config.num_kernels = 1;
  CHECK(try_graph(graph.bytes, graph.size, &config) == MLF_BLOB_E_KERNEL);
  config = graph_config();
  config.num_type_codes = 2;
  CHECK(try_graph(graph.bytes, graph.size, &config) == MLF_BLOB_E_KERNEL);
  config = graph_config();
  config.arena = &arena[8];
  CHECK(try_graph(graph.bytes, graph.size, &config) == MLF_BLOB_E_ALIGN);
  config = graph_config();
  config.memory = (uint8_t *)tables + 4;
  CHECK(try_graph(graph.bytes, graph.size, &config) == MLF_BLOB_E_ALIGN);
  CHECK(try_graph(&graph.bytes[4], graph.size - 4u, &config) == MLF_BLOB_E_ALIGN);
}

static void test_graph_cut(void) {
  const mlf_graph_config_t config = graph_config();
  for (uint32_t size = 0; size < graph.size; size++) {
    CHECK(try_graph(graph.bytes, size, &config) == MLF_BLOB_E_SIZE);
  }
}

/* Every bit: refused by the CRC, and with the CRC set right refused or harmless. */
static void test_graph_flips(void) {
  const mlf_graph_config_t config = graph_config();
  static graph_blob_t flipped;
  uint32_t accepted = 0;
  for (uint32_t bit = 0; bit < graph.size * 8u; bit++) {
    flipped = graph;
    flipped.bytes[bit / 8u] = (uint8_t)(flipped.bytes[bit / 8u] ^ 1u << (bit % 8u));
    CHECK(try_graph(flipped.bytes, flipped.size, &config) != MLF_BLOB_OK);
    tiny_graph_crc(flipped.bytes, flipped.size);
    if (try_graph(flipped.bytes, flipped.size, &config) == MLF_BLOB_OK) {
      accepted++;
      const mlf_status_t ran = mlf_run(&model); /* whatever it gives, the sanitizers watch */
      CHECK(ran == MLF_OK || ran == MLF_E_WORKSPACE);
      CHECK(strlen(model.name) < 16 && strlen(model.inputs[0].name) < 16);
    }
  }
  CHECK(accepted > 96 * 8); /* hashes and the like */
}

typedef struct {
  uint32_t at;
  uint32_t size;
  uint32_t value;
  mlf_blob_status_t status;
} patch_t;

/* Offsets of the parts: extents 152, tensors 168, workspaces 248, steps 256, names of tensors 272,
 * arguments 296, names 306. */
static const patch_t patches[] = {
    {0, 4, 0, MLF_BLOB_E_FORMAT},
    {4, 2, 2, MLF_BLOB_E_FORMAT},
    {6, 2, 148, MLF_BLOB_E_FORMAT},
    {8, 4, 0, MLF_BLOB_E_SIZE},
    {8, 4, 0xFFFFFFFF, MLF_BLOB_E_SIZE},
    {16, 4, 65, MLF_BLOB_E_LIMIT},
    {16, 4, 63, MLF_BLOB_E_RANGE}, /* the workspace ends behind the arena */
    {20, 4, 79, MLF_BLOB_E_RANGE}, /* the parameter ends behind the parameters */
    {24, 2, 1, MLF_BLOB_E_KERNEL}, /* fewer kernels than it names */
    {26, 2, 0xFFFF, MLF_BLOB_E_SIZE},
    {28, 2, 3, MLF_BLOB_E_SIZE},
    {30, 2, 0, MLF_BLOB_E_SIZE},
    {32, 4, 0xFFFFFFFF, MLF_BLOB_E_SIZE},
    {36, 4, 0x80000001, MLF_BLOB_E_SIZE},
    {40, 4, 0x20000001, MLF_BLOB_E_SIZE},
    {44, 4, 0, MLF_BLOB_E_SIZE},
    {48, 1, 255, MLF_BLOB_E_SIZE},
    {49, 1, 0, MLF_BLOB_E_SIZE},
    {50, 1, 2, MLF_BLOB_E_FORMAT},
    {51, 1, 1, MLF_BLOB_E_FORMAT},
    {52, 4, 1, MLF_BLOB_E_FORMAT},
    {152, 4, 17, MLF_BLOB_E_RANGE},         /* an extent that the size does not follow from */
    {156, 4, 1, MLF_BLOB_E_RANGE},          /* an extent of 33 bits */
    {156, 4, 0x80000000, MLF_BLOB_E_RANGE}, /* a negative one */
    {168, 4, 8, MLF_BLOB_E_RANGE},          /* not aligned */
    {168, 4, 64, MLF_BLOB_E_RANGE},
    {168, 4, 0xFFFFFFF0, MLF_BLOB_E_RANGE},
    {172, 4, 15, MLF_BLOB_E_RANGE},
    {176, 4, 2, MLF_BLOB_E_INDEX},
    {176, 4, 0xFFFFFFFF, MLF_BLOB_E_INDEX},
    {180, 1, 2, MLF_BLOB_E_FORMAT}, /* neither arena nor parameters */
    {180, 1, 1, MLF_BLOB_E_RANGE},  /* an input among the parameters */
    {181, 1, 3, MLF_BLOB_E_INDEX},
    {183, 1, 0, MLF_BLOB_E_FORMAT},
    {184, 2, 0, MLF_BLOB_E_FORMAT},
    {184, 2, 256, MLF_BLOB_E_FORMAT},
    {186, 2, 1, MLF_BLOB_E_FORMAT},
    {248, 4, 64, MLF_BLOB_E_RANGE},
    {252, 4, 17, MLF_BLOB_E_RANGE},
    {256, 2, 2, MLF_BLOB_E_KERNEL},
    {256, 2, 0xFFFF, MLF_BLOB_E_KERNEL},
    {256, 2, 1, MLF_BLOB_E_KERNEL}, /* a kernel with another number of arguments */
    {258, 2, 2, MLF_BLOB_E_KERNEL},
    {260, 2, 2, MLF_BLOB_E_INDEX}, /* more workspaces than there are */
    {268, 2, 0, MLF_BLOB_E_INDEX}, /* one workspace too many */
    {262, 2, 1, MLF_BLOB_E_FORMAT},
    {272, 2, 4, MLF_BLOB_E_INDEX},
    {274, 2, 1, MLF_BLOB_E_FORMAT},
    {276, 4, 10000, MLF_BLOB_E_INDEX},
    {296, 2, 4, MLF_BLOB_E_INDEX},
    {296, 2, 1, MLF_BLOB_E_KERNEL}, /* an argument of another size */
    {300, 2, 1, MLF_BLOB_E_KERNEL}, /* an output among the parameters */
};

static void test_graph_patches(void) {
  const mlf_graph_config_t config = graph_config();
  static graph_blob_t patched;
  for (size_t i = 0; i < sizeof patches / sizeof patches[0]; i++) {
    patched = graph;
    for (uint32_t byte = 0; byte < patches[i].size; byte++) {
      patched.bytes[patches[i].at + byte] = (uint8_t)(patches[i].value >> (8u * byte));
    }
    tiny_graph_crc(patched.bytes, patched.size);
    const mlf_blob_status_t status = try_graph(patched.bytes, patched.size, &config);
    if (status != patches[i].status) {
      fprintf(stderr, "patch %zu at %u: status %d\n", i, (unsigned)patches[i].at, (int)status);
    }
    CHECK(status == patches[i].status);
  }
  patched = graph; /* the last name has no end */
  patched.bytes[patched.size - 1u] = 'w';
  tiny_graph_crc(patched.bytes, patched.size);
  CHECK(try_graph(patched.bytes, patched.size, &config) == MLF_BLOB_E_SIZE);
}

/* ---- parameters ----------------------------------------------------------------------------- */

static void test_params(void) {
  const mlf_params_fit_t fit = {&graph.bytes[56], TINY_PARAMS};
  const mlf_params_fit_t small = {&graph.bytes[56], TINY_PARAMS - 1u};
  const mlf_params_fit_t other = {&graph.bytes[57], TINY_PARAMS};
  static uint8_t blob[TINY_BLOB + 16u] __attribute__((aligned(16)));
  mlf_params_t params;
  memset(&params, 0x11, sizeof params);
  memcpy(blob, image_params, TINY_BLOB);
  for (uint32_t size = 0; size < TINY_BLOB; size++) {
    CHECK(mlf_params_open(&params, blob, size, &fit) == MLF_BLOB_E_SIZE);
  }
  for (uint32_t bit = 0; bit < TINY_BLOB * 8u; bit++) {
    blob[bit / 8u] = (uint8_t)(blob[bit / 8u] ^ 1u << (bit % 8u));
    const mlf_blob_status_t status = mlf_params_open(&params, blob, TINY_BLOB, &fit);
    CHECK(status == (bit < 64 ? MLF_BLOB_E_FORMAT : MLF_BLOB_E_CRC));
    blob[bit / 8u] = (uint8_t)(blob[bit / 8u] ^ 1u << (bit % 8u));
  }
  for (uint32_t at = 24; at < 32; at++) { /* the reserved bytes */
    blob[at] = 1;
    tiny_params_crc(blob, TINY_BLOB);
    CHECK(mlf_params_open(&params, blob, TINY_BLOB, &fit) == MLF_BLOB_E_FORMAT);
    blob[at] = 0;
  }
  blob[12]++; /* sizes that disagree */
  tiny_params_crc(blob, TINY_BLOB);
  CHECK(mlf_params_open(&params, blob, TINY_BLOB, &fit) == MLF_BLOB_E_SIZE);
  blob[12]--;
  tiny_params_crc(blob, TINY_BLOB);
  CHECK(mlf_params_open(&params, blob, TINY_BLOB, &small) == MLF_BLOB_E_MISMATCH);
  CHECK(mlf_params_open(&params, blob, TINY_BLOB, &other) == MLF_BLOB_E_MISMATCH);
  CHECK(mlf_params_open(&params, &blob[4], TINY_BLOB, &fit) == MLF_BLOB_E_ALIGN);
  CHECK(params.data_bytes == 0x11111111u); /* never written so far */
  CHECK(mlf_params_open(&params, blob, sizeof blob, &fit) == MLF_BLOB_OK);
  CHECK(params.data == &blob[MLF_PARAMS_HEADER_BYTES] && params.data_bytes == TINY_PARAMS);
}

/* ---- a flash whose power fails -------------------------------------------------------------- */

typedef struct {
  uint8_t bytes[2u * SLOT_BYTES] __attribute__((aligned(16)));
  uint32_t left;                       /* bytes until the power fails */
  uint8_t off;                         /* 1: it has failed */
  uint8_t garbage;                     /* 1: the rest of what was under way is random then */
  uint32_t touched;                    /* bytes erased or programmed */
  uint8_t programmed[2u * SLOT_BYTES]; /* since the last erase */
} flash_t;

static flash_t flash;

static int32_t change(uint32_t offset, const uint8_t *data, uint32_t size) {
  CHECK(offset <= sizeof flash.bytes && size <= sizeof flash.bytes - offset);
  for (uint32_t i = 0; i < size; i++) {
    if (flash.off != 0 || flash.left == 0) {
      for (; flash.off == 0 && flash.garbage != 0 && i < size; i++) {
        flash.bytes[offset + i] = (uint8_t)(GARBAGE ^ random_below(256));
      }
      flash.off = 1;
      return -1;
    }
    flash.left--;
    flash.touched++;
    flash.bytes[offset + i] = data != NULL ? data[i] : 0xFFu;
  }
  return 0;
}

static int32_t flash_erase(void *ctx, uint32_t offset, uint32_t size) {
  const mlf_store_driver_t *driver = *(const mlf_store_driver_t **)ctx;
  CHECK(offset % driver->erase_bytes == 0 && size % driver->erase_bytes == 0);
  memset(&flash.programmed[offset], 0, size);
  return change(offset, NULL, size);
}

static int32_t flash_program(void *ctx, uint32_t offset, const uint8_t *data, uint32_t size) {
  const mlf_store_driver_t *driver = *(const mlf_store_driver_t **)ctx;
  CHECK(offset % driver->program_bytes == 0 && size % driver->program_bytes == 0);
  for (uint32_t i = 0; i < size; i++) {
    CHECK(flash.off != 0 || flash.programmed[offset + i] == 0); /* once after each erase */
    flash.programmed[offset + i] = flash.off == 0;
  }
  return change(offset, data, size);
}

static const mlf_store_driver_t *current;

static mlf_store_driver_t flash_driver(uint32_t erase_bytes, uint32_t program_bytes) {
  const mlf_store_driver_t driver = {
      .map = flash.bytes,
      .slot_bytes = SLOT_BYTES,
      .erase_bytes = erase_bytes,
      .program_bytes = program_bytes,
      .erased = 0xFF,
      .erase = flash_erase,
      .program = flash_program,
      .ctx = &current,
  };
  return driver;
}

static mlf_dynamic_config_t config_with(const mlf_store_driver_t *driver) {
  const mlf_dynamic_config_t config = {
      .graph = graph_config(),
      .graph_blob = graph.bytes,
      .params_blob = image_params,
      .driver = driver,
      .model = &model,
      .graph_blob_bytes = graph.size,
      .params_blob_bytes = TINY_BLOB,
  };
  return config;
}

static mlf_blob_status_t push(mlf_dynamic_t *dynamic, const uint8_t *blob, uint32_t block) {
  mlf_blob_status_t status = mlf_dynamic_begin(dynamic, TINY_BLOB);
  for (uint32_t at = 0; status == MLF_BLOB_OK && at < TINY_BLOB; at += block) {
    const uint32_t left = TINY_BLOB - at;
    status = mlf_dynamic_write(dynamic, at, &blob[at], left < block ? left : block);
  }
  return status == MLF_BLOB_OK ? mlf_dynamic_commit(dynamic) : status;
}

static void power_on(uint32_t left, uint8_t garbage) {
  flash.left = left;
  flash.off = 0;
  flash.garbage = garbage;
  flash.touched = 0;
}

/* Two pushes go through; the third is cut after each possible number of bytes. */
static void cut_everywhere(uint32_t erase_bytes, uint32_t program_bytes, uint32_t block, uint8_t garbage) {
  const mlf_store_driver_t driver = flash_driver(erase_bytes, program_bytes);
  const mlf_dynamic_config_t config = config_with(&driver);
  static flash_t filled;
  uint8_t blobs[4][TINY_BLOB];
  mlf_dynamic_t dynamic;
  uint32_t olds = 0;
  uint32_t news = 0;
  current = &driver;
  for (uint8_t seed = 1; seed < 4; seed++) {
    tiny_params(blobs[seed], &graph.bytes[56], (uint8_t)(seed + 10u));
  }
  memset(&flash, 0, sizeof flash);
  memset(flash.bytes, 0xFF, sizeof flash.bytes);
  for (uint8_t before = 0; before < 3; before++) { /* pushes that went through before the cut one */
    const uint8_t old_seed = before == 0 ? 1 : (uint8_t)(before + 10u);
    const uint8_t new_seed = (uint8_t)(before + 11u);
    filled = flash;
    for (uint32_t cut = 0;; cut++) {
      flash = filled;
      power_on(cut, garbage);
      CHECK(mlf_dynamic_boot(&dynamic, &config) == MLF_BLOB_OK);
      check_outputs(old_seed);
      const mlf_blob_status_t status = push(&dynamic, blobs[before + 1u], block);
      check_outputs(status == MLF_BLOB_OK ? new_seed : old_seed);
      const int whole = flash.off == 0;
      CHECK(whole == (status == MLF_BLOB_OK));
      power_on(UINT32_MAX, 0);
      CHECK(mlf_dynamic_boot(&dynamic, &config) == MLF_BLOB_OK);
      CHECK(dynamic.store.generation == before || dynamic.store.generation == before + 1u);
      const int is_new = dynamic.store.generation == before + 1u;
      check_outputs(is_new ? new_seed : old_seed);
      olds += is_new ? 0 : 1;
      news += is_new ? 1 : 0;
      CHECK(push(&dynamic, blobs[3], block) == MLF_BLOB_OK); /* and can be tried again */
      check_outputs(13);
      if (whole) {
        break;
      }
    }
    flash = filled;
    power_on(UINT32_MAX, 0);
    CHECK(mlf_dynamic_boot(&dynamic, &config) == MLF_BLOB_OK);
    CHECK(push(&dynamic, blobs[before + 1u], block) == MLF_BLOB_OK);
  }
  CHECK(olds > 3u * TINY_BLOB && news >= 3);
}

static void test_power_cuts(void) {
  static const uint32_t shapes[][3] = {{64, 4, 16}, {64, 1, 64}, {256, 8, 176}, {512, 64, 64}, {32, 32, 96}};
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
    cut_everywhere(shapes[i][0], shapes[i][1], shapes[i][2], 0);
    cut_everywhere(shapes[i][0], shapes[i][1], shapes[i][2], 1);
  }
}

/* ---- store ---------------------------------------------------------------------------------- */

static void test_store_order(void) {
  const mlf_store_driver_t driver = flash_driver(64, 4);
  const mlf_dynamic_config_t config = config_with(&driver);
  uint8_t blob[TINY_BLOB];
  mlf_dynamic_t dynamic;
  current = &driver;
  memset(&flash, 0, sizeof flash);
  memset(flash.bytes, 0xFF, sizeof flash.bytes);
  power_on(UINT32_MAX, 0);
  tiny_params(blob, &graph.bytes[56], 2);
  CHECK(mlf_dynamic_boot(&dynamic, &config) == MLF_BLOB_OK);
  CHECK(dynamic.store.active == MLF_STORE_NONE);
  CHECK(mlf_dynamic_write(&dynamic, 0, blob, 16) == MLF_BLOB_E_STATE);
  CHECK(mlf_dynamic_commit(&dynamic) == MLF_BLOB_E_STATE);
  CHECK(mlf_dynamic_begin(&dynamic, TINY_BLOB - 1u) == MLF_BLOB_E_MISMATCH);
  CHECK(mlf_dynamic_begin(&dynamic, 0) == MLF_BLOB_E_MISMATCH);
  CHECK(flash.touched == 0);
  CHECK(mlf_dynamic_begin(&dynamic, TINY_BLOB) == MLF_BLOB_OK);
  CHECK(mlf_dynamic_commit(&dynamic) == MLF_BLOB_E_STATE);
  CHECK(mlf_dynamic_write(&dynamic, 4, blob, 16) == MLF_BLOB_E_GAP);
  CHECK(mlf_dynamic_write(&dynamic, 0, blob, 15) == MLF_BLOB_E_ALIGN);
  CHECK(mlf_dynamic_write(&dynamic, 0, blob, TINY_BLOB + 1u) == MLF_BLOB_E_SIZE);
  CHECK(mlf_dynamic_write(&dynamic, 0, blob, UINT32_MAX) == MLF_BLOB_E_SIZE);
  CHECK(mlf_dynamic_write(&dynamic, 0, blob, 16) == MLF_BLOB_OK);
  CHECK(mlf_dynamic_write(&dynamic, 0, blob, 16) == MLF_BLOB_E_GAP);
  CHECK(mlf_dynamic_write(&dynamic, 16, &blob[16], 0) == MLF_BLOB_OK);
  CHECK(mlf_dynamic_commit(&dynamic) == MLF_BLOB_E_STATE); /* not complete */
  CHECK(mlf_dynamic_write(&dynamic, 16, &blob[16], TINY_BLOB - 16u) == MLF_BLOB_OK);
  check_outputs(1);
  CHECK(mlf_dynamic_commit(&dynamic) == MLF_BLOB_OK);
  CHECK(mlf_dynamic_commit(&dynamic) == MLF_BLOB_E_STATE);
  check_outputs(2);
  /* a blob that is damaged on the way, or of another graph, is not taken */
  blob[100] ^= 1;
  CHECK(push(&dynamic, blob, 16) == MLF_BLOB_E_CRC);
  tiny_params(blob, &graph.bytes[57], 3);
  CHECK(push(&dynamic, blob, 16) == MLF_BLOB_E_MISMATCH);
  check_outputs(2);
  CHECK(mlf_dynamic_boot(&dynamic, &config) == MLF_BLOB_OK);
  check_outputs(2);
  CHECK(dynamic.store.generation == 1 && dynamic.store.active == 0);
}

/* Generations go on over the end of 32 bits, and damage of the newest falls back to the other. */
static void test_store_generations(void) {
  const mlf_store_driver_t driver = flash_driver(64, 4);
  const mlf_dynamic_config_t config = config_with(&driver);
  uint8_t blob[TINY_BLOB];
  mlf_dynamic_t dynamic;
  current = &driver;
  memset(&flash, 0, sizeof flash);
  power_on(UINT32_MAX, 0);
  CHECK(mlf_dynamic_boot(&dynamic, &config) == MLF_BLOB_OK);
  dynamic.store.newest = 0xFFFFFFFDu;
  for (uint8_t seed = 2; seed < 8; seed++) {
    tiny_params(blob, &graph.bytes[56], seed);
    CHECK(push(&dynamic, blob, 64) == MLF_BLOB_OK);
    CHECK(dynamic.store.generation == 0xFFFFFFFCu + seed);
    CHECK(mlf_dynamic_boot(&dynamic, &config) == MLF_BLOB_OK);
    CHECK(dynamic.store.generation == 0xFFFFFFFCu + seed);
    check_outputs(seed);
  }
  flash.bytes[dynamic.store.active * SLOT_BYTES + MLF_STORE_BLOB_AT + 100u] ^= 1;
  CHECK(mlf_dynamic_boot(&dynamic, &config) == MLF_BLOB_OK);
  check_outputs(6);
  CHECK(dynamic.store.newest == 3u); /* the damaged one still counts */
  flash.bytes[dynamic.store.active * SLOT_BYTES + MLF_STORE_BLOB_AT + 100u] ^= 1;
  CHECK(mlf_dynamic_boot(&dynamic, &config) == MLF_BLOB_OK);
  check_outputs(1); /* those of the image */
  tiny_params(blob, &graph.bytes[56], 9);
  CHECK(push(&dynamic, blob, 64) == MLF_BLOB_OK);
  CHECK(dynamic.store.generation == 4u);
  CHECK(mlf_dynamic_boot(&dynamic, &config) == MLF_BLOB_OK);
  check_outputs(9);
}

static void test_store_drivers(void) {
  static const uint32_t bad[][3] = {{500, 4, 1},    {512, 0, 4},   {512, 64, 3}, {512, 64, 0},
                                    {512, 64, 128}, {512, 48, 16}, {512, 16, 4}, {504, 8, 4}};
  mlf_params_t params;
  mlf_store_t store;
  const mlf_params_fit_t fit = {&graph.bytes[56], TINY_PARAMS};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    mlf_store_driver_t driver = flash_driver(bad[i][1], bad[i][2]);
    driver.slot_bytes = bad[i][0];
    CHECK(mlf_store_open(&store, &driver, &fit, &params) == MLF_BLOB_E_ALIGN);
  }
  mlf_store_driver_t driver = flash_driver(64, 4);
  driver.slot_bytes = 192; /* 64 and the header leave 32 */
  CHECK(mlf_store_open(&store, &driver, &fit, &params) == MLF_BLOB_E_LIMIT);
  driver.slot_bytes = 0;
  CHECK(mlf_store_open(&store, &driver, &fit, &params) == MLF_BLOB_E_LIMIT);
  driver = flash_driver(64, 4);
  driver.map = &flash.bytes[4];
  CHECK(mlf_store_open(&store, &driver, &fit, &params) == MLF_BLOB_E_ALIGN);
  const mlf_dynamic_config_t config = config_with(NULL);
  mlf_dynamic_t dynamic;
  CHECK(mlf_dynamic_boot(&dynamic, &config) == MLF_BLOB_OK);
  CHECK(mlf_dynamic_begin(&dynamic, TINY_BLOB) == MLF_BLOB_E_STATE);
  CHECK(mlf_dynamic_write(&dynamic, 0, image_params, 16) == MLF_BLOB_E_STATE);
  CHECK(mlf_dynamic_commit(&dynamic) == MLF_BLOB_E_STATE);
  check_outputs(1);
}

static void test_ready_drivers(const char *path) {
  static uint8_t memory[2][MLF_STORE_SLOT_BYTES(TINY_PARAMS, MLF_STORE_RAM_ERASE_BYTES)] __attribute__((aligned(16)));
  const mlf_store_driver_t ram = MLF_STORE_RAM_DRIVER(memory[0], sizeof memory[0]);
  mlf_store_driver_t files[3];
  const mlf_store_driver_t *drivers[4] = {&ram, &files[0], &files[1], &files[2]};
  uint8_t blob[TINY_BLOB];
  CHECK(mlf_store_file_open(&files[0], NULL, sizeof memory[0]) == 0);
  CHECK(mlf_store_file_open(&files[1], path, sizeof memory[0]) == 0);
  CHECK(mlf_store_file_open(&files[2], path, sizeof memory[0]) == 0);
  CHECK(mlf_store_file_open(&files[2], "/dev/null/nothing", 64) == -1);
  for (uint32_t i = 0; i < 4; i++) {
    const mlf_dynamic_config_t config = config_with(drivers[i]);
    mlf_dynamic_t dynamic;
    CHECK(mlf_dynamic_boot(&dynamic, &config) == MLF_BLOB_OK);
    check_outputs(i < 3 ? 1 : 22); /* the last one reads the file of the one before */
    tiny_params(blob, &graph.bytes[56], (uint8_t)(20u + i));
    CHECK(push(&dynamic, blob, 32) == MLF_BLOB_OK);
    CHECK(mlf_dynamic_boot(&dynamic, &config) == MLF_BLOB_OK);
    check_outputs((uint8_t)(20u + i));
  }
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  graph.size = tiny_graph(graph.bytes);
  CHECK(graph.size <= TINY_GRAPH);
  tiny_params(image_params, &graph.bytes[56], 1);
  test_graph_loads();
  test_graph_limits();
  test_graph_cut();
  test_graph_flips();
  test_graph_patches();
  test_params();
  test_power_cuts();
  test_store_order();
  test_store_generations();
  test_store_drivers();
  test_ready_drivers(argv[1]);
  printf("%lu checks\n", check_count);
  return 0;
}
