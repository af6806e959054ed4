/* SPDX-License-Identifier: Apache-2.0 */
/* Signed packages: every field, every byte, power lost at every byte of a push and at every step of a
 * self-test. */
#include <setjmp.h>
#include <string.h>

#include "check.h"
#include "fake_crypto.h"
#include "mlf_internal.h"
#include "tiny_package.h"

/* TEST_NVMC: flash that the driver of a controller writes word by word, and erases by larger pages. */
#ifdef TEST_NVMC
#include "fake_nvmc.h"
#include "mlf_board.h"
#include "mlf_store_flash.h"
#define SLOT_BYTES 1024u
#else
#define SLOT_BYTES 768u
#endif
#define IMAGE_VERSION 5u

static uint8_t graph[TINY_GRAPH] __attribute__((aligned(16)));
static uint8_t image_params[TINY_BLOB] __attribute__((aligned(16)));
static uint8_t arena[TINY_ARENA] __attribute__((aligned(16)));
static uint64_t tables[TINY_WORDS];
static mlf_model_t model;
static mlf_dynamic_t dynamic;
static mlf_package_t receiver;

/* ---- a device whose power fails ------------------------------------------------------------- */

typedef struct {
  uint8_t bytes[2u * SLOT_BYTES] __attribute__((aligned(16)));
} flash_t;

static flash_t flash;
static uint32_t bytes_left; /* that are erased or programmed until the power fails */
static uint32_t steps_left; /* that are run until something else resets the device */
static uint8_t torn;    /* the rest of what was under way: 0 untouched, 1 random, 2 some bits of it done */
static uint32_t writes; /* erases and programs */
static uint32_t touched;
static jmp_buf reset;

static int32_t change(uint32_t offset, const uint8_t *data, uint32_t size) {
  CHECK(offset <= sizeof flash.bytes && size <= sizeof flash.bytes - offset);
  writes++;
  for (uint32_t i = 0; i < size; i++) {
    const uint8_t value = data != NULL ? data[i] : 0xFFu;
    uint8_t *byte = &flash.bytes[offset + i];
    if (bytes_left == 0) {
      for (; torn != 0 && i < size; i++) {
        const uint8_t goal = data != NULL ? data[i] : 0xFFu;
        const uint8_t bits = (uint8_t)random_below(256);
        byte = &flash.bytes[offset + i];
        *byte = torn == 1 ? bits : (uint8_t)((*byte & ~bits) | (goal & bits));
      }
      longjmp(reset, 1);
    }
    bytes_left--;
    touched++;
    *byte = value;
  }
  if (bytes_left == 0) { /* all is written, and the answer is lost */
    longjmp(reset, 1);
  }
  return 0;
}

#ifdef TEST_NVMC
#define ERASE_BYTES MLF_FLASH_PAGE_BYTES
#define flash_erase mlf_store_flash_erase
#define flash_program mlf_store_flash_program
#else
#define ERASE_BYTES 64u
static int32_t flash_erase(void *ctx, uint32_t offset, uint32_t size) {
  (void)ctx;
  CHECK(offset % 64u == 0 && size == 64u);
  return change(offset, NULL, size);
}

static int32_t flash_program(void *ctx, uint32_t offset, const uint8_t *data, uint32_t size) {
  (void)ctx;
  CHECK(offset % 8u == 0 && size % 8u == 0);
  for (uint32_t i = 0; i < size; i++) {
    CHECK(flash.bytes[offset + i] == 0xFFu); /* once after each erase */
  }
  return change(offset, data, size);
}
#endif

static const mlf_store_driver_t driver = {
    .map = flash.bytes,
    .slot_bytes = SLOT_BYTES,
    .erase_bytes = ERASE_BYTES,
    .program_bytes = 8,
    .erased = 0xFF,
    .erase = flash_erase,
    .program = flash_program,
    .ctx = flash.bytes,
};

/* Kernels that a watchdog may end. */
static int32_t combine(void *args, int32_t *codes, int32_t count, void *value, int32_t *code, void *res) {
  if (steps_left-- == 0) {
    longjmp(reset, 2);
  }
  return tiny_kernels[0].kernel(args, codes, count, value, code, res);
}

static int32_t turn(void *args, int32_t *codes, int32_t count, void *value, int32_t *code, void *res) {
  if (steps_left-- == 0) {
    longjmp(reset, 2);
  }
  return tiny_kernels[1].kernel(args, codes, count, value, code, res);
}

static mlf_graph_kernel_t kernels[2];

static mlf_package_trust_t trust = {tiny_keys, IMAGE_VERSION, 2};
static const mlf_store_seal_t seal = {mlf_package_accept, &trust, TINY_SEAL};

static mlf_dynamic_config_t config = {
    .graph =
        {
            .kernels = kernels,
            .type_codes = tiny_type_codes,
            .arena = arena,
            .memory = tables,
            .memory_bytes = sizeof tables,
            .arena_bytes = sizeof arena,
            .num_kernels = 2,
            .num_type_codes = 3,
        },
    .graph_blob = graph,
    .params_blob = image_params,
    .driver = &driver,
    .seal = &seal,
    .model = &model,
    .params_blob_bytes = TINY_BLOB,
};

static uint32_t watched;

static void watch(void *ctx, int starts) {
  (void)ctx;
  watched = watched * 10u + (starts != 0 ? 1u : 2u);
}

static const mlf_package_config_t receiver_config = {&dynamic, &trust, watch, NULL};

static void power_on(void) {
  bytes_left = UINT32_MAX;
  steps_left = UINT32_MAX;
  torn = 0;
  writes = 0;
  touched = 0;
#ifdef TEST_NVMC
  fake_nvmc_reset(flash.bytes, sizeof flash.bytes, change);
#endif
}

static void boot(void) {
  CHECK(mlf_dynamic_boot(&dynamic, &config) == MLF_BLOB_OK);
  mlf_package_init(&receiver, &receiver_config);
}

static void blank(void) {
  memset(flash.bytes, 0xFF, sizeof flash.bytes);
  power_on();
  boot();
}

/* The seed of the parameters that the model runs with. */
static uint8_t seed_in_force(void) {
  uint8_t expected[TINY_IO];
  memset(model.inputs[0].data, 0x21, TINY_IO);
  CHECK(mlf_run(&model) == MLF_OK);
  for (uint8_t seed = 1; seed < 40; seed++) {
    tiny_reference(expected, 0x21, seed);
    if (memcmp(model.outputs[0].data, expected, TINY_IO) == 0) {
      return seed;
    }
  }
  return 0;
}

static int32_t push(const uint8_t *package, uint32_t block) {
  int32_t status = mlf_package_begin(&receiver, TINY_PACKAGE);
  for (uint32_t at = 0; status == MLF_BLOB_OK && at < TINY_PACKAGE;) {
    const uint32_t end = at < MLF_PACKAGE_HEAD_BYTES ? MLF_PACKAGE_HEAD_BYTES : TINY_PACKAGE;
    const uint32_t size = end - at < block ? end - at : block;
    status = mlf_package_write(&receiver, at, &package[at], size);
    at += size;
  }
  return status == MLF_BLOB_OK ? mlf_package_commit(&receiver) : status;
}

/* Push what differs from the package in force, and copy the rest: 8 bytes are what flash takes at once. */
static uint32_t copied;

static int32_t push_difference(const uint8_t *package, const uint8_t *base) {
  int32_t status = mlf_package_begin(&receiver, TINY_PACKAGE);
  if (status == MLF_BLOB_OK) {
    status = mlf_package_write(&receiver, 0, package, MLF_PACKAGE_HEAD_BYTES);
  }
  for (uint32_t at = MLF_PACKAGE_HEAD_BYTES; status == MLF_BLOB_OK && at < TINY_PACKAGE;) {
    const int same = memcmp(&package[at], &base[at], 8) == 0;
    uint32_t end = at;
    while (end < TINY_PACKAGE && (memcmp(&package[end], &base[end], 8) == 0) == same) {
      end += 8u;
    }
    status = same ? mlf_package_copy(&receiver, at, end - at, at - MLF_PACKAGE_HEAD_BYTES)
                  : mlf_package_write(&receiver, at, &package[at], end - at);
    copied += same ? end - at : 0u;
    at = end;
  }
  return status == MLF_BLOB_OK ? mlf_package_commit(&receiver) : status;
}

/* ---- what is taken, and what is refused ----------------------------------------------------- */

static void test_good_package(void) {
  uint8_t package[TINY_PACKAGE];
  blank();
  CHECK(seed_in_force() == 1 && mlf_package_version(&dynamic, &trust) == IMAGE_VERSION);
  for (uint32_t version = IMAGE_VERSION + 1u; version < IMAGE_VERSION + 6u; version++) {
    const uint8_t seed = (uint8_t)(version * 2u);
    tiny_package(package, graph, seed, seed, version, version & 1u);
    watched = 0;
    CHECK(push(package, version * 8u) == MLF_BLOB_OK);
    CHECK(watched == 12 && seed_in_force() == seed);
    boot();
    CHECK(seed_in_force() == seed && mlf_package_version(&dynamic, &trust) == version);
    CHECK(push(package, 64) == MLF_E_PACKAGE_OLD); /* replayed */
    CHECK(seed_in_force() == seed);
  }
}

typedef struct {
  uint32_t at;
  uint8_t value;
  int32_t status;
} patch_t;

/* Changes of a head that is then signed again: each has its own code. */
static const patch_t patches[] = {
    {0, 'X', MLF_E_PACKAGE_FORMAT}, {4, 2, MLF_E_PACKAGE_FORMAT},     {6, 0, MLF_E_PACKAGE_FORMAT},
    {12, 1, MLF_E_PACKAGE_FORMAT},  {13, 4, MLF_E_PACKAGE_FORMAT},    {15, 0xFF, MLF_E_PACKAGE_FORMAT},
    {16, 1, MLF_E_PACKAGE_FORMAT},  {19, 0xFF, MLF_E_PACKAGE_FORMAT}, {24, 0, MLF_E_PACKAGE_FORMAT},
    {26, 5, MLF_E_PACKAGE_FORMAT},  {27, 1, MLF_E_PACKAGE_FORMAT},    {31, 1, MLF_E_PACKAGE_FORMAT},
    {256, 1, MLF_E_PACKAGE_FORMAT}, {296, 1, MLF_E_PACKAGE_FORMAT},   {319, 1, MLF_E_PACKAGE_FORMAT},
    {20, 65, MLF_E_PACKAGE_ARENA},  {23, 0xFF, MLF_E_PACKAGE_ARENA},  {64, 0, MLF_E_PACKAGE_FIRMWARE},
    {32, 0, MLF_E_PACKAGE_MODEL},   {63, 0, MLF_E_PACKAGE_MODEL},     {8, IMAGE_VERSION, MLF_E_PACKAGE_OLD},
    {8, 0, MLF_E_PACKAGE_OLD},
};

static void test_heads(void) {
  uint8_t package[TINY_PACKAGE];
  blank();
  for (size_t i = 0; i < sizeof patches / sizeof patches[0]; i++) {
    tiny_package(package, graph, 3, 3, 9, 0);
    package[patches[i].at] = patches[i].value;
    tiny_package_sign(package, 0);
    const int32_t status = push(package, 64);
    if (status != patches[i].status) {
      fprintf(stderr, "patch at %u: status %d\n", (unsigned)patches[i].at, (int)status);
    }
    CHECK(status == patches[i].status);
  }
  tiny_package(package, graph, 3, 3, 9, 2); /* a key that is not trusted */
  CHECK(push(package, 64) == MLF_E_PACKAGE_KEY);
  tiny_package(package, graph, 3, 3, 9, 0);
  package[383] ^= 1;
  CHECK(push(package, 64) == MLF_E_PACKAGE_SIGNATURE);
  CHECK(writes == 0); /* flash was never touched */
  tiny_package(package, graph, 3, 3, 9, 0);
  package[MLF_PACKAGE_HEAD_BYTES + TINY_BLOB + 79u] ^= 1; /* the filling is signed as well */
  CHECK(push(package, 64) == MLF_E_PACKAGE_HASH);
  tiny_package(package, graph, 3, 4, 9, 0);
  watched = 0;
  CHECK(push(package, 64) == MLF_E_PACKAGE_CASE);
  CHECK(watched == 12 && receiver.failed_case == 0);
  CHECK(mlf_dynamic_commit(&dynamic) ==
        MLF_BLOB_E_STATE); /* what failed can't be put in force in another way */
  tiny_package(package, graph, 3, 3, 9, 0);
  package[MLF_PACKAGE_HEAD_BYTES + TINY_BLOB + 36u] ^= 1; /* another input of the second case */
  tiny_package_sign(package, 0);
  CHECK(push(package, 64) == MLF_E_PACKAGE_CASE);
  CHECK(receiver.failed_case == 1);
  package[24] = 3; /* more cases than there is room for */
  tiny_package_sign(package, 0);
  CHECK(push(package, 64) == MLF_E_PACKAGE_FORMAT);
  package[24] = 1; /* and too few to be all */
  tiny_package(package, graph, 3, 3, 9, 0);
  package[MLF_PACKAGE_HEAD_BYTES + 100u] ^= 1; /* parameters that are damaged, and signed so */
  tiny_package_sign(package, 0);
  CHECK(push(package, 64) == MLF_BLOB_E_CRC);
  tiny_package(package, graph, 3, 3, 9, 0);
  tiny_params(&package[MLF_PACKAGE_HEAD_BYTES], &graph[57], 3); /* of another graph, whatever the head says */
  tiny_package_sign(package, 0);
  CHECK(push(package, 64) == MLF_BLOB_E_MISMATCH);
  CHECK(seed_in_force() == 1);
  boot();
  CHECK(seed_in_force() == 1 && dynamic.store.active == MLF_STORE_NONE);
  tiny_package(package, graph, 3, 3, 9, 0);
  CHECK(push(package, 64) == MLF_BLOB_OK);
  CHECK(seed_in_force() == 3);
}

static void set_revoked(uint8_t *package, uint32_t key, uint32_t signer) {
  package[26] = 1;
  memcpy(&package[256], tiny_keys[key], MLF_PACKAGE_KEY_ID_BYTES);
  tiny_package_sign(package, signer);
}

static void test_revocation(void) {
  uint8_t package[TINY_PACKAGE];
  blank();
  tiny_package(package, graph, 3, 3, 9, 0);
  set_revoked(package, 0, 0); /* a key does not revoke itself */
  CHECK(push(package, 64) == MLF_E_PACKAGE_REVOKED);
  tiny_package(package, graph, 3, 3, 9, 0);
  CHECK(push(package, 64) == MLF_BLOB_OK);
  tiny_package(package, graph, 4, 4, 10, 1);
  set_revoked(package, 0, 1);
  CHECK(push(package, 64) == MLF_BLOB_OK);
  tiny_package(package, graph, 5, 5, 11, 0);
  CHECK(push(package, 64) == MLF_E_PACKAGE_REVOKED);
  tiny_package(package, graph, 5, 5, 11, 1); /* a revocation is not taken back */
  CHECK(push(package, 64) == MLF_E_PACKAGE_REVOKED);
  boot();
  CHECK(seed_in_force() == 4);
  set_revoked(package, 0, 1);
  CHECK(push(package, 64) == MLF_BLOB_OK);
  CHECK(seed_in_force() == 5);
}

static void test_slots_of_others(void) {
  uint8_t package[TINY_PACKAGE];
  mlf_dynamic_config_t open_config = config;
  blank();
  /* what an unsigned store wrote does not count */
  open_config.seal = NULL;
  CHECK(mlf_dynamic_boot(&dynamic, &open_config) == MLF_BLOB_OK);
  CHECK(mlf_dynamic_begin(&dynamic, TINY_BLOB) == MLF_BLOB_OK);
  tiny_params(package, &graph[56], 7);
  CHECK(mlf_dynamic_write(&dynamic, 0, package, TINY_BLOB) == MLF_BLOB_OK);
  CHECK(mlf_dynamic_commit(&dynamic) == MLF_BLOB_OK && seed_in_force() == 7);
  CHECK(mlf_package_begin(&receiver, TINY_PACKAGE) == MLF_BLOB_E_STATE);
  boot();
  CHECK(seed_in_force() == 1);
  CHECK(mlf_dynamic_begin(&dynamic, TINY_BLOB) == MLF_BLOB_E_STATE);
  tiny_package(package, graph, 3, 3, 9, 1);
  CHECK(push(package, 64) == MLF_BLOB_OK && seed_in_force() == 3);
  /* nor does what is signed by a key that the image does not trust any more, or is older than the image */
  trust.num_keys = 1;
  boot();
  CHECK(seed_in_force() == 1);
  trust.num_keys = 2;
  trust.image_version = 9;
  boot();
  CHECK(seed_in_force() == 1);
  trust.image_version = IMAGE_VERSION;
  boot();
  CHECK(seed_in_force() == 3);
  CHECK(mlf_dynamic_boot(&dynamic, &open_config) == MLF_BLOB_OK);
  CHECK(seed_in_force() == 1 || seed_in_force() == 7); /* an open image takes no sealed slot */
}

static void test_copies(void) {
  uint8_t base[TINY_PACKAGE];
  uint8_t package[TINY_PACKAGE];
  blank();
  tiny_package(base, graph, 1, 1, 9, 0);
  tiny_package(package, graph, 3, 3, 10, 0);
  CHECK(mlf_package_copy(&receiver, 384, 8, 0) == MLF_BLOB_E_STATE);
  CHECK(mlf_package_begin(&receiver, TINY_PACKAGE) == MLF_BLOB_OK);
  CHECK(mlf_package_copy(&receiver, 0, 8, 0) == MLF_BLOB_E_STATE); /* never a head */
  CHECK(mlf_package_write(&receiver, 0, package, MLF_PACKAGE_HEAD_BYTES) == MLF_BLOB_OK);
  /* of the image there are parameters alone, and nothing beyond */
  CHECK(mlf_package_copy(&receiver, 384, 8, TINY_BLOB - 7u) == MLF_BLOB_E_RANGE);
  CHECK(mlf_package_copy(&receiver, 384, TINY_BLOB + 1u, 0) == MLF_BLOB_E_RANGE);
  CHECK(mlf_package_copy(&receiver, 384, UINT32_MAX, 8) == MLF_BLOB_E_RANGE);
  CHECK(mlf_package_copy(&receiver, 384, 8, UINT32_MAX) == MLF_BLOB_E_RANGE);
  CHECK(mlf_package_copy(&receiver, 392, 8, 0) == MLF_BLOB_E_GAP);
  CHECK(mlf_package_copy(&receiver, 384, 12, 0) == MLF_BLOB_E_ALIGN);
  CHECK(mlf_package_copy(&receiver, 384, 0, TINY_BLOB) == MLF_BLOB_OK && receiver.received == 384);
  /* more than is to come */
  CHECK(mlf_package_copy(&receiver, 384, TINY_BLOB, 0) == MLF_BLOB_OK);
  CHECK(mlf_package_copy(&receiver, 384 + TINY_BLOB, TINY_BLOB, 0) == MLF_BLOB_E_SIZE);
  CHECK(push_difference(package, base) == MLF_BLOB_E_RANGE); /* the image has no cases */
  CHECK(seed_in_force() == 1 && writes != 0);
  CHECK(push(base, 64) == MLF_BLOB_OK);
  CHECK(mlf_package_begin(&receiver, TINY_PACKAGE) == MLF_BLOB_OK);
  CHECK(mlf_package_write(&receiver, 0, package, MLF_PACKAGE_HEAD_BYTES) == MLF_BLOB_OK);
  CHECK(mlf_package_copy(&receiver, 384, TINY_BODY, 0) == MLF_BLOB_OK); /* other bytes than were signed */
  CHECK(mlf_package_commit(&receiver) == MLF_E_PACKAGE_HASH && seed_in_force() == 1);
  copied = 0;
  CHECK(push_difference(package, base) == MLF_BLOB_OK && seed_in_force() == 3);
  CHECK(copied > 64u); /* cases as well: they lie behind the parameters */
  boot();
  CHECK(seed_in_force() == 3 && mlf_package_version(&dynamic, &trust) == 10);
}

static void test_order(void) {
  uint8_t package[TINY_PACKAGE];
  blank();
  tiny_package(package, graph, 3, 3, 9, 0);
  CHECK(mlf_package_write(&receiver, 0, package, 16) == MLF_BLOB_E_STATE);
  CHECK(mlf_package_commit(&receiver) == MLF_BLOB_E_STATE);
  CHECK(mlf_package_begin(&receiver, MLF_PACKAGE_HEAD_BYTES) == MLF_E_PACKAGE_FORMAT);
  CHECK(mlf_package_begin(&receiver, TINY_PACKAGE + 64u) == MLF_BLOB_OK);
  CHECK(mlf_package_write(&receiver, 0, package, MLF_PACKAGE_HEAD_BYTES + 1u) == MLF_BLOB_E_SIZE);
  CHECK(mlf_package_write(&receiver, 1, package, 16) == MLF_BLOB_E_GAP);
  CHECK(mlf_package_write(&receiver, 0, package, MLF_PACKAGE_HEAD_BYTES) ==
        MLF_E_PACKAGE_FORMAT); /* longer */
  CHECK(mlf_package_write(&receiver, 0, package, 16) == MLF_BLOB_E_STATE);
  CHECK(mlf_package_begin(&receiver, TINY_PACKAGE) == MLF_BLOB_OK);
  for (uint32_t at = 0; at < MLF_PACKAGE_HEAD_BYTES; at++) {
    CHECK(mlf_package_write(&receiver, at, &package[at], 1) == MLF_BLOB_OK);
  }
  CHECK(mlf_package_commit(&receiver) == MLF_BLOB_E_STATE); /* truncated */
  CHECK(mlf_package_write(&receiver, 384, &package[384], 12) == MLF_BLOB_E_ALIGN);
  CHECK(mlf_package_write(&receiver, 384, &package[384], 16) == MLF_BLOB_OK);
  CHECK(mlf_package_write(&receiver, 384, &package[384], 16) == MLF_BLOB_E_GAP); /* repeated */
  CHECK(mlf_package_write(&receiver, 416, &package[416], 16) == MLF_BLOB_E_GAP); /* reordered */
  CHECK(mlf_package_write(&receiver, 400, &package[400], TINY_PACKAGE - 399u) == MLF_BLOB_E_SIZE);
  CHECK(mlf_package_write(&receiver, 400, &package[400], TINY_PACKAGE - 400u) == MLF_BLOB_OK);
  CHECK(mlf_package_commit(&receiver) == MLF_BLOB_OK);
  CHECK(mlf_package_commit(&receiver) == MLF_BLOB_E_STATE);
  CHECK(seed_in_force() == 3);
}

/* ---- mutated packages ----------------------------------------------------------------------- */

static uint32_t refused;

static void test_mutations(void) {
  static uint8_t good[TINY_PACKAGE];
  uint8_t package[TINY_PACKAGE];
  blank();
  tiny_package(good, graph, 3, 3, 9, 0);
  for (uint32_t bit = 0; bit < TINY_PACKAGE * 8u; bit++) {
    memcpy(package, good, sizeof package);
    package[bit / 8u] = (uint8_t)(package[bit / 8u] ^ 1u << (bit % 8u));
    CHECK(push(package, 128) < 0);
    refused++;
  }
  for (uint32_t i = 0; i < 2000; i++) {
    memcpy(package, good, sizeof package);
    for (uint32_t n = 1u + random_below(8); n != 0; n--) {
      const uint32_t at = random_below(TINY_PACKAGE);
      const uint32_t from = random_below(TINY_PACKAGE);
      const uint32_t most = TINY_PACKAGE - (at > from ? at : from);
      memmove(&package[at], &package[from], 1u + random_below(most)); /* cut out, doubled, moved */
    }
    if (memcmp(package, good, sizeof package) != 0) {
      CHECK(push(package, 128) < 0);
      refused++;
    }
  }
  CHECK(seed_in_force() == 1 && dynamic.store.active == MLF_STORE_NONE);
  boot();
  CHECK(seed_in_force() == 1);
}

/* ---- power ---------------------------------------------------------------------------------- */

static uint32_t cuts, olds, news;

/* Push until something resets the device; the next boot must have the old or the new model. */
static int cut_once(const uint8_t *package, const uint8_t *base, uint8_t old_seed, uint8_t new_seed,
                    int is_good) {
  static volatile int32_t status;
  status = 1;
  boot();
  CHECK(seed_in_force() == old_seed);
  if (setjmp(reset) == 0) {
    status = base != NULL ? push_difference(package, base) : push(package, 128);
  }
  const int whole = status != 1;
  power_on();
  memset(arena, 0x5A, sizeof arena);
  memset(&dynamic, 0x5A, sizeof dynamic);
  memset(tables, 0x5A, sizeof tables);
  boot();
  const uint8_t seed = seed_in_force();
  CHECK(seed == old_seed || (is_good && seed == new_seed));
  CHECK(!whole || seed == (is_good ? new_seed : old_seed));
  CHECK(!whole || (status == MLF_BLOB_OK) == is_good);
  if (!whole) {
    cuts++;
    olds += seed == old_seed ? 1u : 0u;
    news += seed == new_seed ? 1u : 0u;
    /* and it can be updated */
    uint8_t next[TINY_PACKAGE];
    tiny_package(next, graph, 30, 30, 1000, 1);
    CHECK(push(next, 128) == MLF_BLOB_OK && seed_in_force() == 30);
  }
  return whole;
}

static void test_power_cuts(void) {
  static flash_t before;
  uint8_t package[TINY_PACKAGE];
  uint8_t base[TINY_PACKAGE];
  for (uint8_t pushed = 0; pushed < 3; pushed++) {
    blank();
    for (uint8_t i = 1; i <= pushed; i++) {
      tiny_package(package, graph, (uint8_t)(10u + i), (uint8_t)(10u + i), IMAGE_VERSION + i, 0);
      CHECK(push(package, 128) == MLF_BLOB_OK);
      memcpy(base, package, sizeof base);
    }
    const uint8_t old_seed = pushed == 0 ? 1 : (uint8_t)(10u + pushed);
    before = flash;
    for (int way = 0; way < (pushed != 0 ? 4 : 2); way++) { /* bad and good, whole and as a difference */
      const int is_good = way & 1;
      tiny_package(package, graph, 20, is_good ? 20 : 21, 50, 1);
      for (uint8_t how = 0; how < 3; how++) {
        for (uint32_t cut = 0;; cut++) {
          flash = before;
          power_on();
          torn = how;
          bytes_left = cut;
          if (cut_once(package, way < 2 ? NULL : base, old_seed, 20, is_good)) {
            break;
          }
        }
      }
    }
  }
}

/* A watchdog that bites at any step of the self-test. */
static uint32_t bites;

static void test_watchdog(void) {
  uint8_t package[TINY_PACKAGE];
  static volatile uint32_t step;
  tiny_package(package, graph, 20, 20, 50, 1);
  for (step = 0;; step++) {
    static volatile int32_t status;
    blank();
    status = 1;
    steps_left = step;
    if (setjmp(reset) == 0) {
      status = push(package, 128);
    }
    power_on();
    memset(&mlf_context, 0, sizeof mlf_context); /* as start-up does */
    boot();
    if (status != 1) {
      CHECK(status == MLF_BLOB_OK && seed_in_force() == 20);
      break;
    }
    CHECK(seed_in_force() == 1 && dynamic.store.active == MLF_STORE_NONE);
    bites++;
  }
  CHECK(bites == 4); /* two steps of two cases */
}

/* Any one bit of the slot in force that flips later: the model before it, never another. */
static uint32_t flips;

static void test_bit_errors(void) {
  uint8_t package[TINY_PACKAGE];
  blank();
  tiny_package(package, graph, 11, 11, 6, 0);
  CHECK(push(package, 128) == MLF_BLOB_OK);
  tiny_package(package, graph, 12, 12, 7, 0);
  CHECK(push(package, 128) == MLF_BLOB_OK);
  const uint32_t slot = dynamic.store.active * SLOT_BYTES;
  for (uint32_t bit = 0; bit < SLOT_BYTES * 8u; bit++) {
    uint8_t *byte = &flash.bytes[slot + bit / 8u];
    *byte = (uint8_t)(*byte ^ 1u << (bit % 8u));
    boot();
    const uint8_t seed = seed_in_force();
    CHECK(seed == 11 || seed == 12);
    flips += seed == 11 ? 1u : 0u;
    *byte = (uint8_t)(*byte ^ 1u << (bit % 8u));
  }
  CHECK(flips == 8u * (MLF_STORE_RECORD_BYTES + TINY_BODY + MLF_PACKAGE_HEAD_BYTES));
}

/* ---- tolerances ----------------------------------------------------------------------------- */

static int32_t one_case(mlf_tensor_t *output, const void *got, const void *wanted, uint32_t tolerance) {
  uint8_t cases[64] = {0};
  uint8_t value[16];
  uint16_t failed;
  mlf_model_t tested = {0};
  mlf_package_head_t head = {0};
  memcpy(value, got, output->size_bytes);
  static const mlf_step_t steps[1]; /* none of it is run */
  output->data = value;
  output->lanes = 1;
  tested.steps = steps;
  tested.outputs = output;
  tested.num_outputs = 1;
  head.num_cases = 1;
  head.cases_bytes = 4u + output->size_bytes;
  memcpy(cases, &tolerance, sizeof tolerance);
  memcpy(&cases[4], wanted, output->size_bytes);
  return mlf_package_run_cases(&tested, &head, cases, &failed);
}

static void test_tolerances(void) {
  static const int8_t a8[4] = {-128, 0, 5, 127};
  static const int8_t b8[4] = {-127, 1, 4, 126};
  static const int8_t c8[4] = {127, 0, 5, 127};
  static const float af[3] = {1.0f, -2.0f, 0.0f};
  static const float bf[3] = {1.25f, -2.0f, -0.25f};
  static const float nan[3] = {1.0f, __builtin_nanf(""), 0.0f};
  const float quarter = 0.25f;
  uint32_t bits;
  mlf_tensor_t tensor = {.size_bytes = 4, .type_code = MLF_INT, .bits = 8};
  CHECK(one_case(&tensor, a8, a8, 0) == MLF_BLOB_OK);
  CHECK(one_case(&tensor, a8, b8, 0) == MLF_E_PACKAGE_CASE);
  CHECK(one_case(&tensor, a8, b8, 1) == MLF_BLOB_OK);
  CHECK(one_case(&tensor, b8, a8, 1) == MLF_BLOB_OK);
  CHECK(one_case(&tensor, a8, c8, 1) == MLF_E_PACKAGE_CASE); /* no wrap around */
  CHECK(one_case(&tensor, a8, c8, 255) == MLF_BLOB_OK);
  tensor.type_code = MLF_UINT;
  CHECK(one_case(&tensor, a8, c8, 1) == MLF_BLOB_OK); /* 128 and 127 */
  tensor.type_code = MLF_INT;
  tensor.bits = 32;
  CHECK(one_case(&tensor, a8, c8, 0) == MLF_E_PACKAGE_CASE);
  CHECK(one_case(&tensor, a8, c8, 1) == MLF_BLOB_OK); /* the lowest byte is the last */
  CHECK(one_case(&tensor, a8, b8, 1) == MLF_E_PACKAGE_CASE);
  tensor.type_code = MLF_FLOAT;
  tensor.size_bytes = 12;
  memcpy(&bits, &quarter, sizeof bits);
  CHECK(one_case(&tensor, af, bf, bits) == MLF_BLOB_OK);
  CHECK(one_case(&tensor, af, bf, bits - 1u) == MLF_E_PACKAGE_CASE);
  CHECK(one_case(&tensor, nan, af, bits) == MLF_E_PACKAGE_CASE);
  CHECK(one_case(&tensor, af, nan, bits) == MLF_E_PACKAGE_CASE);
  CHECK(one_case(&tensor, nan, nan, bits) == MLF_BLOB_OK);
}

int main(void) {
  config.graph_blob_bytes = tiny_graph(graph);
  tiny_params(image_params, &graph[56], 1);
  kernels[0] = tiny_kernels[0];
  kernels[1] = tiny_kernels[1];
  kernels[0].kernel = combine;
  kernels[1].kernel = turn;
  test_good_package();
  test_heads();
  test_revocation();
  test_slots_of_others();
  test_order();
  test_copies();
  test_tolerances();
  test_mutations();
  test_power_cuts();
  test_watchdog();
  test_bit_errors();
  printf(
      "%lu checks, %u mutations refused, %u power cuts (%u old, %u new), %u watchdog resets, %u bit errors\n",
      check_count, refused, cuts, olds, news, bites, flips);
  return 0;
}
