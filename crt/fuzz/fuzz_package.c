/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes packages: their requests, what they hold, and what a slot holds. The first byte chooses:
 *   bit 0: the rest is the content of both slots (bit 1: hashes and signature of each are set right), then a
 * boot; else requests, each a byte that says which, and a byte with a size: 0 begin (a good size or that
 * byte), 1 write what came with the input, 2 write a piece of the next package, 3 commit, 4 the next package
 * is a good one, 5 change one byte of it and sign it again, 6 as 5, unsigned, 7 a request of any opcode; 2
 * with bit 3 copies the piece from what is in force, at its place, with bit 4 from where the input says. The
 * model always loads; only what is signed comes into force, and only newer versions.
 */
#include <stdlib.h>
#include <string.h>

#include "fake_crypto.h"
#include "mlf_package_rpc.h"
#include "mlf_store_ram.h"
#include "tiny_package.h"

#define SLOT 704u
#define MOST_REPLY 256u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t graph[TINY_GRAPH] __attribute__((aligned(16)));
static uint8_t image_params[TINY_BLOB] __attribute__((aligned(16)));
static uint8_t arena[TINY_ARENA] __attribute__((aligned(16)));
static uint64_t tables[TINY_WORDS];
static uint8_t slots[2u * SLOT] __attribute__((aligned(16)));
static mlf_model_t model;
static mlf_dynamic_t dynamic;
static mlf_package_t receiver;
static uint32_t state[MLF_RPC_STATE_WORDS(1u, 1u)];

static const mlf_package_trust_t trust = {tiny_keys, 5, 2};
static const mlf_store_seal_t seal = {mlf_package_accept, &trust, TINY_SEAL};
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
    .seal = &seal,
    .model = &model,
    .params_blob_bytes = TINY_BLOB,
};
static const mlf_package_config_t receiver_config = {&dynamic, &trust, NULL, NULL};
static mlf_dynamic_t *const dynamics[1] = {&dynamic};
static mlf_package_t *const receivers[1] = {&receiver};
static const mlf_params_rpc_t params_rpc = {dynamics, 1};
static const mlf_package_rpc_t rpc = {&params_rpc, receivers, state, sizeof state / sizeof state[0]};

static void require(int condition) {
  if (!condition) {
    abort();
  }
}

static void boot(void) {
  require(mlf_dynamic_boot(&dynamic, &config) == MLF_BLOB_OK);
  mlf_package_init(&receiver, &receiver_config);
  require(mlf_package_version(&dynamic, &trust) >= trust.image_version);
  require(mlf_run(&model) == MLF_OK);
}

static int32_t request(uint8_t opcode, const uint8_t *body, size_t size) {
  uint8_t reply[MOST_REPLY];
  mlf_rpc_out_t out = {reply, sizeof reply, 0};
  return mlf_package_rpc_handle((void *)(uintptr_t)&rpc, opcode, body, size, &out);
}

static int32_t write_piece(const uint8_t *data, uint32_t size) {
  uint8_t body[5u + TINY_PACKAGE] = {0};
  memcpy(&body[1], &receiver.received, 4);
  memcpy(&body[5], data, size);
  return request(MLF_RPC_PACKAGE_WRITE, body, 5u + size);
}

/* What is in force was signed, and is whole: told by the bytes of its slot alone. */
static void require_signed(void) {
  const uint8_t *blob = &slots[dynamic.store.active * SLOT + MLF_STORE_BLOB_AT];
  const uint8_t *head = &blob[TINY_BODY];
  uint8_t wanted[MLF_SIGNATURE_BYTES];
  const uint32_t key = memcmp(&head[288], tiny_keys[0], MLF_PACKAGE_KEY_ID_BYTES) == 0 ? 0 : 1;
  fake_sign(wanted, tiny_keys[key], head, MLF_PACKAGE_SIGNED_BYTES);
  require(memcmp(&head[MLF_PACKAGE_SIGNED_BYTES], wanted, sizeof wanted) == 0);
  (void)mlf_crypto_sha512(wanted, blob, TINY_BLOB);
  require(memcmp(&head[96], wanted, sizeof wanted) == 0);
  (void)mlf_crypto_sha512(wanted, &blob[TINY_BLOB], TINY_CASES);
  require(memcmp(&head[160], wanted, sizeof wanted) == 0);
}

static void send_requests(const uint8_t *data, size_t size) {
  static uint8_t package[TINY_PACKAGE];
  uint32_t version = 6;
  tiny_package(package, graph, 3, 3, version, 0);
  while (size >= 2) {
    const uint8_t what = data[0] & 7u;
    uint32_t count = data[1];
    uint8_t body[257] = {0};
    data += 2;
    size -= 2;
    if (what == 0) {
      const uint32_t total = count == 0 ? TINY_PACKAGE : count * 4u;
      memcpy(&body[1], &total, sizeof total);
      (void)request(MLF_RPC_PACKAGE_BEGIN, body, 5);
    } else if (what == 1 || what == 7) {
      count = count <= size ? count : (uint32_t)size;
      memcpy(&body[1], data, count);
      (void)(what == 1 ? write_piece(data, count) : request(data[-2], body, count));
      data += count;
      size -= count;
    } else if (what == 2) {
      const uint32_t at = receiver.received < TINY_PACKAGE ? receiver.received : 0;
      count = count < 255u && count < TINY_PACKAGE - at ? count : TINY_PACKAGE - at;
      count = at < MLF_PACKAGE_HEAD_BYTES && count > MLF_PACKAGE_HEAD_BYTES - at ? MLF_PACKAGE_HEAD_BYTES - at
                                                                                 : count;
      if ((data[-2] & 8u) == 0) {
        (void)write_piece(&package[at], count);
      } else {
        uint32_t copy[3] = {receiver.received, count, at - MLF_PACKAGE_HEAD_BYTES};
        if ((data[-2] & 16u) != 0 && size >= sizeof copy[2]) {
          memcpy(&copy[2], data, sizeof copy[2]);
          data += sizeof copy[2];
          size -= sizeof copy[2];
        }
        memcpy(&body[1], copy, sizeof copy);
        (void)request(MLF_RPC_PACKAGE_COPY, body, 1u + sizeof copy);
      }
    } else if (what == 3) {
      const uint32_t before = mlf_package_version(&dynamic, &trust);
      const int32_t status = request(MLF_RPC_PACKAGE_COMMIT, body, 1);
      require(status == MLF_BLOB_OK ? mlf_package_version(&dynamic, &trust) > before
                                    : mlf_package_version(&dynamic, &trust) == before);
      if (status == MLF_BLOB_OK) {
        require_signed();
      }
      require(mlf_run(&model) == MLF_OK);
    } else if (what == 4) {
      version++;
      tiny_package(package, graph, (uint8_t)count, (uint8_t)count, version, count & 1u);
    } else if (size >= 2) {
      const uint32_t at = ((uint32_t)data[0] << 8 | data[1]) % TINY_PACKAGE;
      package[at] = (uint8_t)count;
      data += 2;
      size -= 2;
      if (what == 5) {
        tiny_package_sign(package, at & 1u);
      }
    }
  }
}

static void fill_slots(const uint8_t *data, size_t size, int set_right) {
  memset(slots, 0xFF, sizeof slots);
  memcpy(slots, data, size < sizeof slots ? size : sizeof slots);
  for (uint32_t i = 0; set_right && i < 2; i++) {
    uint8_t *slot = &slots[i * SLOT];
    uint8_t package[TINY_PACKAGE];
    memcpy(package, &slot[MLF_STORE_BLOB_AT + TINY_BODY], MLF_PACKAGE_HEAD_BYTES);
    memcpy(&package[MLF_PACKAGE_HEAD_BYTES], &slot[MLF_STORE_BLOB_AT], TINY_BODY);
    tiny_params_crc(&package[MLF_PACKAGE_HEAD_BYTES], TINY_BLOB);
    tiny_package_sign(package, i);
    memcpy(&slot[MLF_STORE_BLOB_AT], &package[MLF_PACKAGE_HEAD_BYTES], TINY_BODY);
    memcpy(&slot[MLF_STORE_BLOB_AT + TINY_BODY], package, MLF_PACKAGE_HEAD_BYTES);
    memcpy(&slot[16], &slot[MLF_STORE_BLOB_AT + 20u], 4);
    const uint32_t crc = mlf_crc32(0, slot, 28);
    memcpy(&slot[28], &crc, sizeof crc);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (config.graph_blob_bytes == 0) {
    config.graph_blob_bytes = tiny_graph(graph);
    tiny_params(image_params, &graph[56], 1);
  }
  if (size < 1) {
    return 0;
  }
  memset(slots, 0xFF, sizeof slots);
  if ((data[0] & 1u) != 0) {
    fill_slots(&data[1], size - 1u, (data[0] & 2u) != 0);
    boot();
    return 0;
  }
  boot();
  send_requests(&data[1], size - 1u);
  boot();
  return 0;
}
