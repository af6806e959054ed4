/* SPDX-License-Identifier: Apache-2.0 */
/* The server: sessions, sequence numbers, the rate of the line, dispatch of requests. */
#include "mlf_rpc.h"

#include <string.h>

#include "mlf_rpc_internal.h"

#define LARGEST_REFUSAL (MLF_RPC_HEADER_SIZE + 5u)

/* At another rate than the first, the line returns to the first after this many consecutive drops; the
 * count starts at FIRST_CONSECUTIVE_DROPS until the first good request. */
#define MOST_CONSECUTIVE_DROPS 9u
#define FIRST_CONSECUTIVE_DROPS 6u

/* This many zero bytes in a row count as one drop: at a far higher rate than that of the host, zeros are all
 * that is received. */
#define MOST_ZEROS 8u

/* ---- dispatch ------------------------------------------------------------------------------- */

/* The reply still goes out at the old rate; answer() then changes it. */
static int32_t do_baud(mlf_rpc_t *rpc, uint32_t baud) {
  const mlf_rpc_config_t *config = rpc->config;
  if (baud != 0 && config->can_set_baud(config->ctx, baud) == 0) {
    return MLF_E_ARGUMENT;
  }
  rpc->next_baud = baud;
  rpc->change_baud = 1;
  return MLF_OK;
}

typedef struct {
  int32_t (*carry_out)(const mlf_rpc_request_t *request, mlf_rpc_out_t *out);
  uint8_t size; /* of the body behind the model's index */
  uint8_t more; /* 1: anything may follow */
} handler_t;

static const handler_t handlers[] = {
    {mlf_rpc_do_model, 0, 0}, {mlf_rpc_do_tensor, 2, 0}, {mlf_rpc_do_write, 5, 1},   {mlf_rpc_do_run, 4, 0},
    {mlf_rpc_do_read, 8, 0},  {mlf_rpc_do_stats, 0, 0},  {mlf_rpc_do_prepare, 1, 0},
};

#if MLF_OBSERVE
static const handler_t observers[] = {
    {mlf_rpc_do_step, 2, 0}, {mlf_rpc_do_advance, 4, 0}, {mlf_rpc_do_peek, 11, 0}};
#endif

/* NULL: there is no such request about a model. */
static const handler_t *handler_of(uint8_t opcode) {
  if (opcode >= MLF_RPC_MODEL && opcode <= MLF_RPC_PREPARE) {
    return &handlers[opcode - MLF_RPC_MODEL];
  }
#if MLF_OBSERVE
  if (opcode >= MLF_RPC_STEP && opcode <= MLF_RPC_PEEK) {
    return &observers[opcode - MLF_RPC_STEP];
  }
#endif
  return NULL;
}

static int32_t carry_out(mlf_rpc_t *rpc, uint8_t opcode, const uint8_t *body, size_t size,
                         mlf_rpc_out_t *out) {
  if (opcode == MLF_RPC_HELLO) {
    return size != 0 ? (int32_t)MLF_RPC_E_LENGTH : mlf_rpc_do_hello(rpc->config, out);
  }
  if (opcode == MLF_RPC_BAUD && rpc->config->set_baud != NULL) {
    return size != 4 ? (int32_t)MLF_RPC_E_LENGTH : do_baud(rpc, mlf_rpc_u32(body));
  }
  if (opcode == MLF_RPC_BUILD) {
    return size != 0 ? (int32_t)MLF_RPC_E_LENGTH : mlf_rpc_do_build(rpc->config, out);
  }
#if MLF_RPC_SECURE
  if (opcode == MLF_RPC_CHALLENGE) {
    return size != MLF_X25519_BYTES ? (int32_t)MLF_RPC_E_LENGTH : mlf_rpc_do_challenge(rpc, body, out);
  }
  if (opcode == MLF_RPC_OPEN) {
    return size != MLF_SECURE_KEY_ID_BYTES + MLF_SIGNATURE_BYTES ? (int32_t)MLF_RPC_E_LENGTH
                                                                 : mlf_rpc_do_open(rpc, body);
  }
#endif
  if (opcode >= MLF_RPC_EXTENSION && rpc->config->extension != NULL) {
    return rpc->config->extension(rpc->config->extension_ctx, opcode, body, size, out);
  }
  const handler_t *handler = handler_of(opcode);
  if (handler == NULL) {
    return MLF_RPC_E_OPCODE;
  }
  if (size < 1u + handler->size || (size > 1u + handler->size && handler->more == 0)) {
    return MLF_RPC_E_LENGTH;
  }
  if (body[0] >= rpc->config->num_models) {
    return MLF_RPC_E_MODEL;
  }
  mlf_rpc_request_t request;
  request.rpc = rpc;
  request.model = rpc->config->models[body[0]];
  request.written = mlf_rpc_notes_of(rpc->config, body[0]);
  request.note = &request.written[request.model->num_inputs];
  request.body = &body[1];
  request.size = size - 1u;
  return handler->carry_out(&request, out);
}

/* ---- replies and sessions ------------------------------------------------------------------- */

/* Put the request's own header of `size` bytes, and the status. */
static void put_header(mlf_rpc_out_t *out, const uint8_t *request, size_t size, int32_t status) {
  mlf_rpc_put_u8(out, MLF_RPC_VERSION);
  mlf_rpc_put_u8(out, request[1] | MLF_RPC_REPLY);
  mlf_rpc_put_bytes(out, &request[2], size - 2u);
  mlf_rpc_put_u8(out, (uint8_t)status);
}

/* Answer without carrying out anything, and without touching the last reply. A request of another version
 * may have no session: its refusal has none either. */
static void refuse(const mlf_rpc_t *rpc, const uint8_t *request, int32_t status) {
  uint8_t frame[MLF_FRAME_TX_SIZE(LARGEST_REFUSAL)];
  uint8_t payload[LARGEST_REFUSAL];
  mlf_rpc_out_t out = {payload, sizeof payload, 0};
  if (status == MLF_RPC_E_VERSION) { /* lowest and highest version */
    put_header(&out, request, MLF_RPC_PREFIX_SIZE, status);
    mlf_rpc_put_u8(&out, MLF_RPC_VERSION);
    mlf_rpc_put_u8(&out, MLF_RPC_VERSION);
  } else {
    put_header(&out, request, MLF_RPC_HEADER_SIZE, status);
  }
  if (status == MLF_RPC_E_SESSION) {
    mlf_rpc_put_u32(&out, rpc->session);
  }
  const size_t size = mlf_frame_encode(frame, sizeof frame, payload, sizeof payload - out.left);
  rpc->config->write(rpc->config->ctx, frame, size);
}

static void change_baud(mlf_rpc_t *rpc, uint32_t baud) {
  rpc->consecutive_drops = baud != 0 ? FIRST_CONSECUTIVE_DROPS : 0u;
  rpc->config->set_baud(rpc->config->ctx, baud);
}

static void answer(mlf_rpc_t *rpc, const uint8_t *request, size_t size) {
  uint8_t *payload = &rpc->tx_buffer[MLF_FRAME_TX_GAP(MLF_RPC_MAX_PAYLOAD)];
  mlf_rpc_out_t header = {payload, MLF_RPC_HEADER_SIZE + 1u, 0};
  mlf_rpc_out_t out = {&payload[MLF_RPC_HEADER_SIZE + 1u],
                       MLF_RPC_MAX_PAYLOAD - MLF_RPC_TAG_SIZE - (MLF_RPC_HEADER_SIZE + 1u), 0};
  int32_t status =
      carry_out(rpc, request[1], &request[MLF_RPC_HEADER_SIZE], size - MLF_RPC_HEADER_SIZE, &out);
  if (out.overflow != 0) {
    status = MLF_RPC_E_CAPACITY;
  }
  if (status == MLF_RPC_E_CAPACITY) {
    out.next = &payload[MLF_RPC_HEADER_SIZE + 1u];
  }
  put_header(&header, request, MLF_RPC_HEADER_SIZE, status);
#if MLF_RPC_SECURE
  if (mlf_secure_is_open(rpc->config->secure) != 0) {
    mlf_secure_tag(rpc->config->secure, payload, (size_t)(out.next - payload), out.next);
    out.next += MLF_RPC_TAG_SIZE;
  }
#endif
  rpc->reply_size =
      mlf_frame_encode(rpc->tx_buffer, sizeof rpc->tx_buffer, payload, (size_t)(out.next - payload));
  rpc->config->write(rpc->config->ctx, rpc->tx_buffer, rpc->reply_size);
  if (rpc->change_baud != 0) {
    rpc->change_baud = 0;
    change_baud(rpc, rpc->next_baud);
  }
}

/* A HELLO of another session: nothing of the one before may show through. */
static void start_session(mlf_rpc_t *rpc, uint32_t session) {
  rpc->session = session;
  rpc->reply_size = 0;
  rpc->stack_painted = 0;
#if MLF_RPC_SECURE
  mlf_secure_close(rpc->config->secure);
#endif
  if (rpc->config->state_words != 0) {
    (void)memset(rpc->config->state, 0, rpc->config->state_words * sizeof(uint32_t));
  }
}

/* A host that is not understood may be sending at the first rate. */
static void note_drop(mlf_rpc_t *rpc) {
  if (rpc->consecutive_drops != 0 && ++rpc->consecutive_drops > MOST_CONSECUTIVE_DROPS) {
    change_baud(rpc, 0);
  }
}

static void count_dropped(mlf_rpc_t *rpc) {
  rpc->dropped += rpc->dropped != UINT32_MAX ? 1u : 0u;
  note_drop(rpc);
}

static void count_zeros(mlf_rpc_t *rpc, uint8_t byte) {
  rpc->zeros = byte == 0 ? (uint8_t)(rpc->zeros + 1u) : 0u;
  if (rpc->zeros == MOST_ZEROS) {
    rpc->zeros = 0;
    note_drop(rpc);
  }
}

static void handle(mlf_rpc_t *rpc, const uint8_t *request, size_t size, uint32_t crc) {
  if (size < MLF_RPC_PREFIX_SIZE || (request[1] & MLF_RPC_REPLY) != 0 ||
      (request[0] == MLF_RPC_VERSION && size < MLF_RPC_HEADER_SIZE)) {
    count_dropped(rpc);
    return;
  }
  rpc->consecutive_drops = rpc->consecutive_drops != 0 ? 1u : 0u;
  if (request[0] != MLF_RPC_VERSION) {
    refuse(rpc, request, MLF_RPC_E_VERSION);
    return;
  }
  const uint32_t session = mlf_rpc_u32(&request[MLF_RPC_PREFIX_SIZE]);
  if (request[1] == MLF_RPC_HELLO && size == MLF_RPC_HEADER_SIZE && session != 0 && session != rpc->session) {
    start_session(rpc, session);
  }
  if (rpc->session == 0 || session != rpc->session) {
    refuse(rpc, request, MLF_RPC_E_SESSION);
    return;
  }
  const uint16_t sequence = mlf_rpc_u16(&request[2]);
  const uint16_t ahead = (uint16_t)(sequence - rpc->last_sequence);
  if (rpc->reply_size != 0 && (ahead == 0 || ahead >= 0x8000u)) {
    if (ahead == 0 && crc == rpc->last_crc) {
      rpc->config->write(rpc->config->ctx, rpc->tx_buffer, rpc->reply_size);
    } else {
      refuse(rpc, request, MLF_RPC_E_SEQUENCE);
    }
    return;
  }
#if MLF_RPC_SECURE
  if (!mlf_rpc_is_admitted(rpc, request, size, ahead, &size)) {
    refuse(rpc, request, MLF_RPC_E_LOCKED);
    return;
  }
#endif
  rpc->last_sequence = sequence;
  rpc->last_crc = crc;
  answer(rpc, request, size);
}

/* ---- public --------------------------------------------------------------------------------- */

mlf_status_t mlf_rpc_init_sized(mlf_rpc_t *rpc, size_t rpc_bytes, const mlf_rpc_config_t *config) {
  if (rpc == NULL || rpc_bytes != sizeof *rpc || config == NULL || config->write == NULL ||
      (config->can_set_baud == NULL) != (config->set_baud == NULL) ||
      (config->models == NULL && config->num_models != 0) ||
      (config->state == NULL && config->state_words != 0)) {
    return MLF_E_ARGUMENT;
  }
#if MLF_RPC_SECURE
  if (config->secure == NULL) {
    return MLF_E_ARGUMENT;
  }
#endif
  size_t left = config->state_words;
  for (uint32_t i = 0; i < config->num_models; i++) {
    if (config->models[i] == NULL || left < config->models[i]->num_inputs + 1u) {
      return MLF_E_ARGUMENT;
    }
    left -= config->models[i]->num_inputs + 1u;
  }
  (void)memset(rpc, 0, sizeof *rpc);
  rpc->config = config;
  mlf_frame_rx_init(&rpc->rx, rpc->rx_buffer, sizeof rpc->rx_buffer);
  return MLF_OK;
}

void mlf_rpc_feed(mlf_rpc_t *rpc, const uint8_t *data, size_t size) {
  for (size_t i = 0; i < size; i++) {
    switch (mlf_frame_rx_push(&rpc->rx, data[i])) {
      case MLF_FRAME_READY:
        handle(rpc, rpc->rx_buffer, rpc->rx.size, rpc->rx.crc);
        break;
      case MLF_FRAME_DROPPED:
        count_dropped(rpc);
        break;
      case MLF_FRAME_MORE:
      default:
        count_zeros(rpc, data[i]);
        break;
    }
  }
}
