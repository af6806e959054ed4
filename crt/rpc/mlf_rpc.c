/* SPDX-License-Identifier: Apache-2.0 */
#include "mlf_rpc.h"

#include <string.h>

/* What the server knows of a model, in config->state: one word an input (how many bytes from its
 * beginning on are written), then one word of these flags and, above them, the pattern. */
#define NOTE_OUTPUTS 1u /* the outputs are those of a complete run */
#define NOTE_PAINTED 2u /* the arena was painted with the pattern */
#define NOTE_PATTERN_SHIFT 8u

#define LARGEST_REFUSAL (MLF_RPC_HEADER_SIZE + 3u)

/* At another rate than the first: so many drops in a row, and it is given up. Before the first good
 * request fewer are enough. */
#define MOST_STRIKES 9u
#define FIRST_STRIKES 6u

/* ---- bytes ---------------------------------------------------------------------------------- */

/* The body of a reply as it grows; once something does not fit, it stays `overflow`. */
typedef struct {
  uint8_t *next;
  size_t left;
  uint8_t overflow;
} out_t;

static void put_bytes(out_t *out, const void *data, size_t size) {
  if (out->overflow != 0 || size > out->left) {
    out->overflow = 1;
    return;
  }
  memcpy(out->next, data, size);
  out->next += size;
  out->left -= size;
}

static void put_u8(out_t *out, uint8_t value) { put_bytes(out, &value, 1); }

static void put_u16(out_t *out, uint16_t value) {
  const uint8_t bytes[2] = {(uint8_t)value, (uint8_t)(value >> 8)};
  put_bytes(out, bytes, sizeof bytes);
}

static void put_u32(out_t *out, uint32_t value) {
  put_u16(out, (uint16_t)value);
  put_u16(out, (uint16_t)(value >> 16));
}

/* Flags and name: as much of the name as fits, cut between two characters. */
static void put_name(out_t *out, uint8_t flags, const char *name) {
  const char *text = name != NULL ? name : "";
  if (out->left < 2) {
    out->overflow = 1;
    return;
  }
  const size_t limit = out->left - 2 < 255 ? out->left - 2 : 255;
  size_t size = 0;
  while (size < limit && text[size] != '\0') {
    size++;
  }
  if (text[size] != '\0') {
    size_t back = 0;
    while (back < 3 && back < size && ((uint8_t)text[size - back] & 0xC0u) == 0x80u) {
      back++;
    }
    size -= back;
    flags = (uint8_t)(flags | MLF_RPC_NAME_CUT);
  }
  put_u8(out, flags);
  put_u8(out, (uint8_t)size);
  put_bytes(out, text, size);
}

static uint16_t get_u16(const uint8_t *data) { return (uint16_t)(data[0] | data[1] << 8); }

static uint32_t get_u32(const uint8_t *data) {
  return (uint32_t)get_u16(data) | (uint32_t)get_u16(&data[2]) << 16;
}

/* ---- notes on the models -------------------------------------------------------------------- */

typedef struct {
  mlf_rpc_t *rpc;
  const mlf_model_t *model;
  uint32_t *written; /* an element an input */
  uint32_t *note;
  const uint8_t *body; /* behind the model's index */
  size_t size;
} request_t;

static uint32_t *notes_of(const mlf_rpc_config_t *config, uint32_t index) {
  uint32_t *words = config->state;
  for (uint32_t i = 0; i < index; i++) {
    words += config->models[i]->num_inputs + 1u;
  }
  return words;
}

static int share_memory(const mlf_model_t *a, const mlf_model_t *b) {
  const uintptr_t at = (uintptr_t)a->arena;
  const uintptr_t bt = (uintptr_t)b->arena;
  return at <= bt ? bt - at < a->arena_bytes : at - bt < b->arena_bytes;
}

/* The arena is about to change: models that share it lose what they had there. */
static void forget_neighbours(const request_t *request) {
  const mlf_rpc_config_t *config = request->rpc->config;
  for (uint32_t i = 0; i < config->num_models; i++) {
    const mlf_model_t *other = config->models[i];
    if (other != request->model && share_memory(request->model, other)) {
      memset(notes_of(config, i), 0, (other->num_inputs + 1u) * sizeof(uint32_t));
    }
  }
}

static void forget_inputs(const request_t *request) {
  memset(request->written, 0, request->model->num_inputs * sizeof(uint32_t));
}

static int all_written(const request_t *request) {
  for (uint32_t i = 0; i < request->model->num_inputs; i++) {
    if (request->written[i] != request->model->inputs[i].size_bytes) {
      return 0;
    }
  }
  return 1;
}

static const mlf_tensor_t *tensor_of(const request_t *request, uint8_t direction, uint8_t index) {
  switch (direction) {
    case MLF_RPC_INPUT:
      return mlf_input(request->model, index);
    case MLF_RPC_OUTPUT:
      return mlf_output(request->model, index);
    default:
      return NULL;
  }
}

static int inside(const mlf_tensor_t *tensor, uint32_t offset, size_t size) {
  return offset <= tensor->size_bytes && size <= tensor->size_bytes - offset;
}

/* ---- measuring ------------------------------------------------------------------------------ */

static size_t stack_size(const mlf_rpc_config_t *config) {
  if (config->stack_low == NULL || config->stack_top == NULL || config->stack_pointer == NULL) {
    return 0;
  }
  const uintptr_t low = (uintptr_t)config->stack_low;
  const uintptr_t top = (uintptr_t)config->stack_top;
  return low < top ? top - low : 0;
}

/* Paints from the lowest address up to a little below the stack pointer. Writes byte by byte
 * through volatile, so that no call takes stack where it paints. */
static void paint_stack(mlf_rpc_t *rpc, uint8_t pattern) {
  const size_t size = stack_size(rpc->config);
  volatile uint8_t *low = rpc->config->stack_low;
  if (size == 0) {
    return;
  }
  const uintptr_t pointer = (uintptr_t)rpc->config->stack_pointer();
  if (pointer < (uintptr_t)low || pointer - (uintptr_t)low > size) {
    return;
  }
  const size_t unused = pointer - (uintptr_t)low;
  for (size_t i = MLF_RPC_STACK_MARGIN; i < unused; i++) {
    low[i - MLF_RPC_STACK_MARGIN] = pattern;
  }
  rpc->stack_pattern = pattern;
  rpc->stack_painted = 1;
}

static uint32_t stack_high_water(const mlf_rpc_t *rpc) {
  const size_t size = stack_size(rpc->config);
  const volatile uint8_t *low = rpc->config->stack_low;
  size_t unused = 0;
  while (unused < size && low[unused] == rpc->stack_pattern) {
    unused++;
  }
  return (uint32_t)(size - unused);
}

static uint32_t arena_high_water(const request_t *request) {
  const uint8_t pattern = (uint8_t)(*request->note >> NOTE_PATTERN_SHIFT);
  uint32_t size = request->model->arena_bytes;
  while (size != 0 && request->model->arena[size - 1u] == pattern) {
    size--;
  }
  return size;
}

static uint64_t ticks_now(const mlf_rpc_config_t *config) {
  return config->ticks != NULL ? config->ticks() : 0;
}

/* ---- requests: each returns a status and puts the rest of its reply's body in `out` ---------- */

static int32_t do_hello(const mlf_rpc_t *rpc, out_t *out) {
  const mlf_rpc_config_t *config = rpc->config;
  uint32_t capabilities = MLF_TRACE != 0 ? (uint32_t)MLF_RPC_CAN_TRACE : 0u;
  capabilities |= stack_size(config) != 0 ? (uint32_t)MLF_RPC_CAN_STACK : 0u;
  capabilities |= config->ticks != NULL ? (uint32_t)MLF_RPC_CAN_TICKS : 0u;
  capabilities |= config->baud != NULL ? (uint32_t)MLF_RPC_CAN_BAUD : 0u;
  put_u8(out, MLF_RPC_VERSION);
  put_u16(out, MLF_RPC_MAX_PAYLOAD);
  put_u8(out, config->num_models);
  put_u16(out, (uint16_t)capabilities);
  put_u16(out, config->window_bytes);
  put_u32(out, config->boot_nonce);
  put_u32(out, config->ticks != NULL ? config->ticks_hz : 0u);
  put_u32(out, rpc->session);
  put_name(out, 0, config->sdk_version);
  return MLF_OK;
}

static int32_t do_model(const request_t *request, out_t *out) {
  const mlf_model_t *model = request->model;
  put_bytes(out, model->archive_sha256, sizeof model->archive_sha256);
  put_u32(out, model->arena_bytes);
  put_u32(out, model->params_bytes);
  put_u16(out, model->num_steps);
  put_u8(out, model->num_inputs);
  put_u8(out, model->num_outputs);
  put_name(out, model->inputs_kept != 0 ? MLF_RPC_INPUTS_KEPT : 0, model->name);
  return MLF_OK;
}

static int32_t do_tensor(const request_t *request, out_t *out) {
  const mlf_tensor_t *tensor = tensor_of(request, request->body[0], request->body[1]);
  if (tensor == NULL) {
    return MLF_RPC_E_TENSOR;
  }
  put_u32(out, tensor->size_bytes);
  put_u8(out, tensor->type_code);
  put_u8(out, tensor->bits);
  put_u8(out, tensor->lanes);
  put_u8(out, tensor->ndim);
  for (uint32_t i = 0; i < tensor->ndim; i++) {
    if (tensor->shape[i] < 0 || tensor->shape[i] > (int64_t)UINT32_MAX) {
      return MLF_RPC_E_CAPACITY;
    }
    put_u32(out, (uint32_t)tensor->shape[i]);
  }
  put_name(out, 0, tensor->name);
  return MLF_OK;
}

static int32_t do_write(const request_t *request, out_t *out) {
  const uint8_t index = request->body[0];
  const uint32_t offset = get_u32(&request->body[1]);
  const size_t size = request->size - 5u;
  const mlf_tensor_t *tensor = mlf_input(request->model, index);
  if (tensor == NULL) {
    return MLF_RPC_E_TENSOR;
  }
  if (!inside(tensor, offset, size)) {
    return MLF_RPC_E_RANGE;
  }
  uint32_t *written = &request->written[index];
  if (offset > *written) {
    put_u32(out, *written);
    return MLF_RPC_E_GAP;
  }
  if (size != 0) {
    forget_neighbours(request);
    if (request->model->inputs_kept == 0) {
      *request->note &= ~NOTE_OUTPUTS;
    }
    memcpy((uint8_t *)tensor->data + offset, &request->body[5], size);
  }
  if (offset + (uint32_t)size > *written) {
    *written = offset + (uint32_t)size;
  }
  put_u32(out, *written);
  return MLF_OK;
}

static int32_t do_run(const request_t *request, out_t *out) {
  const mlf_model_t *model = request->model;
  const uint32_t count = get_u32(request->body);
  if (count == 0 || (count > 1 && model->inputs_kept == 0)) {
    return MLF_E_ARGUMENT;
  }
  if (!all_written(request)) {
    return MLF_E_STATE;
  }
  forget_neighbours(request);
  *request->note &= ~NOTE_OUTPUTS;
  if (model->inputs_kept == 0) {
    forget_inputs(request);
  }
  mlf_status_t status = MLF_OK;
  uint32_t done = 0;
  const uint64_t start = ticks_now(request->rpc->config);
  while (done < count) {
    status = mlf_run(model);
    if (status != MLF_OK) {
      break;
    }
    done++;
  }
  const uint64_t ticks = ticks_now(request->rpc->config) - start;
  if (status == MLF_OK) {
    *request->note |= NOTE_OUTPUTS;
  }
  put_u32(out, status == MLF_OK ? UINT32_MAX : (uint32_t)mlf_current_step(model));
  put_u32(out, done);
  put_u32(out, (uint32_t)ticks);
  put_u32(out, (uint32_t)(ticks >> 32));
  return status;
}

static int32_t do_read(const request_t *request, out_t *out) {
  const uint8_t direction = request->body[0];
  const uint8_t index = request->body[1];
  const uint32_t offset = get_u32(&request->body[2]);
  const uint16_t size = get_u16(&request->body[6]);
  const mlf_tensor_t *tensor = tensor_of(request, direction, index);
  if (tensor == NULL) {
    return MLF_RPC_E_TENSOR;
  }
  if (!inside(tensor, offset, size)) {
    return MLF_RPC_E_RANGE;
  }
  if (direction == MLF_RPC_OUTPUT ? (*request->note & NOTE_OUTPUTS) == 0
                                  : request->written[index] != tensor->size_bytes) {
    return MLF_E_STATE;
  }
  if (size != 0) {
    put_bytes(out, (const uint8_t *)tensor->data + offset, size);
  }
  return MLF_OK;
}

static int32_t do_stats(const request_t *request, out_t *out) {
  const mlf_rpc_t *rpc = request->rpc;
  const int arena_painted = (*request->note & NOTE_PAINTED) != 0;
  uint32_t trace[3] = {0, 0, 0}; /* high water, requests, refused */
#if MLF_TRACE
  const uintptr_t arena = (uintptr_t)request->model->arena;
  const uintptr_t high = (uintptr_t)mlf_trace.high_water;
  if (high >= arena && high - arena <= request->model->arena_bytes) {
    trace[0] = (uint32_t)(high - arena);
  }
  trace[1] = mlf_trace.requests;
  trace[2] = mlf_trace.refused_bytes;
#endif
  put_u8(out, (uint8_t)((arena_painted ? 1u : 0u) | (rpc->stack_painted != 0 ? 2u : 0u)));
  put_u32(out, arena_painted ? arena_high_water(request) : 0);
  put_u32(out, trace[0]);
  put_u32(out, trace[1]);
  put_u32(out, trace[2]);
  put_u32(out, (uint32_t)stack_size(rpc->config));
  put_u32(out, rpc->stack_painted != 0 ? stack_high_water(rpc) : 0);
  put_u32(out, rpc->dropped);
  return MLF_OK;
}

static int32_t do_prepare(const request_t *request, out_t *out) {
  const uint8_t pattern = request->body[0];
  (void)out;
  forget_neighbours(request);
  forget_inputs(request);
  if (request->model->arena_bytes != 0) {
    memset(request->model->arena, pattern, request->model->arena_bytes);
  }
  *request->note = NOTE_PAINTED | (uint32_t)pattern << NOTE_PATTERN_SHIFT;
  paint_stack(request->rpc, pattern);
#if MLF_TRACE
  mlf_trace_reset();
#endif
  return MLF_OK;
}

/* The reply still goes out at the old rate; answer() then changes it. */
static int32_t do_baud(mlf_rpc_t *rpc, uint32_t baud) {
  const mlf_rpc_config_t *config = rpc->config;
  if (baud != 0 && config->baud(config->baud_ctx, baud, 0) == 0) {
    return MLF_E_ARGUMENT;
  }
  rpc->next_baud = baud;
  rpc->change_baud = 1;
  return MLF_OK;
}

static void change_baud(mlf_rpc_t *rpc, uint32_t baud) {
  rpc->strikes = baud != 0 ? FIRST_STRIKES : 0u;
  (void)rpc->config->baud(rpc->config->baud_ctx, baud, 1);
}

static int32_t do_extension(const mlf_rpc_config_t *config, uint8_t opcode, const uint8_t *body, size_t size,
                            out_t *out) {
  size_t replied = 0;
  const int32_t status =
      config->extension(config->extension_ctx, opcode, body, size, out->next, out->left, &replied);
  if (replied > out->left) {
    out->overflow = 1;
    return MLF_RPC_E_CAPACITY;
  }
  out->next += replied;
  out->left -= replied;
  return status;
}

/* ---- dispatch ------------------------------------------------------------------------------- */

typedef struct {
  int32_t (*carry_out)(const request_t *request, out_t *out);
  uint8_t size; /* of the body behind the model's index */
  uint8_t more; /* 1: anything may follow */
} handler_t;

static const handler_t handlers[] = {
    {do_model, 0, 0}, {do_tensor, 2, 0}, {do_write, 5, 1},   {do_run, 4, 0},
    {do_read, 8, 0},  {do_stats, 0, 0},  {do_prepare, 1, 0},
};

static int32_t carry_out(mlf_rpc_t *rpc, uint8_t opcode, const uint8_t *body, size_t size, out_t *out) {
  if (opcode == MLF_RPC_HELLO) {
    if (size != 4) {
      return MLF_RPC_E_LENGTH;
    }
    return get_u32(body) == 0 ? (int32_t)MLF_E_ARGUMENT : do_hello(rpc, out);
  }
  if (opcode == MLF_RPC_BAUD && rpc->config->baud != NULL) {
    return size != 4 ? (int32_t)MLF_RPC_E_LENGTH : do_baud(rpc, get_u32(body));
  }
  if (opcode >= MLF_RPC_EXTENSION && rpc->config->extension != NULL) {
    return do_extension(rpc->config, opcode, body, size, out);
  }
  if (opcode < MLF_RPC_MODEL || opcode > MLF_RPC_PREPARE) {
    return MLF_RPC_E_OPCODE;
  }
  const handler_t *handler = &handlers[opcode - MLF_RPC_MODEL];
  if (size < 1u + handler->size || (size > 1u + handler->size && handler->more == 0)) {
    return MLF_RPC_E_LENGTH;
  }
  if (body[0] >= rpc->config->num_models) {
    return MLF_RPC_E_MODEL;
  }
  request_t request;
  request.rpc = rpc;
  request.model = rpc->config->models[body[0]];
  request.written = notes_of(rpc->config, body[0]);
  request.note = &request.written[request.model->num_inputs];
  request.body = &body[1];
  request.size = size - 1u;
  return handler->carry_out(&request, out);
}

static void put_header(out_t *out, const uint8_t *request, int32_t status) {
  put_u8(out, MLF_RPC_VERSION);
  put_u8(out, request[1] | MLF_RPC_REPLY);
  put_bytes(out, &request[2], 2);
  put_u8(out, (uint8_t)status);
}

/* Answer without carrying out anything, and without touching the last reply. */
static void refuse(const mlf_rpc_t *rpc, const uint8_t *request, int32_t status) {
  uint8_t frame[MLF_FRAME_TX_SIZE(LARGEST_REFUSAL)];
  uint8_t payload[LARGEST_REFUSAL];
  out_t out = {payload, sizeof payload, 0};
  put_header(&out, request, status);
  if (status == MLF_RPC_E_VERSION) { /* lowest and highest version */
    put_u8(&out, MLF_RPC_VERSION);
    put_u8(&out, MLF_RPC_VERSION);
  }
  const size_t size = mlf_frame_encode(frame, sizeof frame, payload, sizeof payload - out.left);
  rpc->config->write(rpc->config->write_ctx, frame, size);
}

static void answer(mlf_rpc_t *rpc, const uint8_t *request, size_t size) {
  uint8_t *payload = &rpc->tx_buffer[MLF_FRAME_TX_GAP(MLF_RPC_MAX_PAYLOAD)];
  out_t header = {payload, MLF_RPC_HEADER_SIZE + 1u, 0};
  out_t out = {&payload[MLF_RPC_HEADER_SIZE + 1u], MLF_RPC_MAX_PAYLOAD - (MLF_RPC_HEADER_SIZE + 1u), 0};
  int32_t status =
      carry_out(rpc, request[1], &request[MLF_RPC_HEADER_SIZE], size - MLF_RPC_HEADER_SIZE, &out);
  if (out.overflow != 0) {
    status = MLF_RPC_E_CAPACITY;
  }
  if (status == MLF_RPC_E_CAPACITY) {
    out.next = &payload[MLF_RPC_HEADER_SIZE + 1u];
  }
  put_header(&header, request, status);
  rpc->reply_size =
      mlf_frame_encode(rpc->tx_buffer, sizeof rpc->tx_buffer, payload, (size_t)(out.next - payload));
  rpc->config->write(rpc->config->write_ctx, rpc->tx_buffer, rpc->reply_size);
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
  if (rpc->config->state_words != 0) {
    memset(rpc->config->state, 0, rpc->config->state_words * sizeof(uint32_t));
  }
}

/* A host that is not understood may be one that talks at the first rate. */
static void count_dropped(mlf_rpc_t *rpc) {
  rpc->dropped += rpc->dropped != UINT32_MAX ? 1u : 0u;
  if (rpc->strikes != 0 && ++rpc->strikes > MOST_STRIKES) {
    change_baud(rpc, 0);
  }
}

static void handle(mlf_rpc_t *rpc, const uint8_t *request, size_t size, uint32_t crc) {
  if (size < MLF_RPC_HEADER_SIZE || (request[1] & MLF_RPC_REPLY) != 0) {
    count_dropped(rpc);
    return;
  }
  rpc->strikes = rpc->strikes != 0 ? 1u : 0u;
  if (request[0] != MLF_RPC_VERSION) {
    refuse(rpc, request, MLF_RPC_E_VERSION);
    return;
  }
  if (request[1] == MLF_RPC_HELLO && size == MLF_RPC_HEADER_SIZE + 4u) {
    const uint32_t session = get_u32(&request[MLF_RPC_HEADER_SIZE]);
    if (session != 0 && session != rpc->session) {
      start_session(rpc, session);
    }
  }
  if (rpc->session == 0) {
    refuse(rpc, request, MLF_RPC_E_SESSION);
    return;
  }
  const uint16_t sequence = get_u16(&request[2]);
  const uint16_t ahead = (uint16_t)(sequence - rpc->last_sequence);
  if (rpc->reply_size != 0 && (ahead == 0 || ahead >= 0x8000u)) {
    if (ahead == 0 && crc == rpc->last_crc) {
      rpc->config->write(rpc->config->write_ctx, rpc->tx_buffer, rpc->reply_size);
    } else {
      refuse(rpc, request, MLF_RPC_E_SEQUENCE);
    }
    return;
  }
  rpc->last_sequence = sequence;
  rpc->last_crc = crc;
  answer(rpc, request, size);
}

/* ---- public --------------------------------------------------------------------------------- */

mlf_status_t mlf_rpc_init(mlf_rpc_t *rpc, const mlf_rpc_config_t *config) {
  if (rpc == NULL || config == NULL || config->write == NULL ||
      (config->models == NULL && config->num_models != 0) ||
      (config->state == NULL && config->state_words != 0)) {
    return MLF_E_ARGUMENT;
  }
  size_t left = config->state_words;
  for (uint32_t i = 0; i < config->num_models; i++) {
    if (config->models[i] == NULL || left < config->models[i]->num_inputs + 1u) {
      return MLF_E_ARGUMENT;
    }
    left -= config->models[i]->num_inputs + 1u;
  }
  memset(rpc, 0, sizeof *rpc);
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
        break;
    }
  }
}
