/* SPDX-License-Identifier: Apache-2.0 */
/* A device for the tests of the RPC server: fake models, a line that keeps what was sent, and requests. */
#ifndef RPC_DEVICE_H
#define RPC_DEVICE_H

#include "fake_models.h"
#include "mlf_rpc.h"

#define MAX_PAYLOAD ((size_t)MLF_RPC_MAX_PAYLOAD)
#define HEADER ((size_t)MLF_RPC_HEADER_SIZE)
#define SESSION 0x11223344u
#define STATE_WORDS MLF_RPC_STATE_WORDS(FAKE_TOTAL_INPUTS, FAKE_NUM_MODELS)

typedef struct {
  int count; /* replies; the rest is that of the last one */
  uint8_t version;
  uint8_t opcode;
  uint16_t sequence;
  uint32_t session;
  int8_t status;
  const uint8_t *body; /* behind the status */
  size_t size;
} reply_t;

extern uint8_t sent[1 << 20]; /* all that the server wrote */
extern size_t sent_size;
extern uint8_t stack[256];
extern size_t stack_at;
extern mlf_rpc_t *rpc; /* on the heap, and its state: the sanitizer sees each byte too far */
extern mlf_rpc_config_t config;
extern uint16_t sequence;
extern uint32_t session; /* of the next request */
extern uint32_t baud_now;
extern int baud_changes;
extern const uint8_t build_id[10];
extern uint32_t *state;

void take(void *ctx, const uint8_t *data, size_t size);
int can_set_baud(void *ctx, uint32_t baud);
void set_baud(void *ctx, uint32_t baud);
uint64_t ticks(void *ctx);
size_t no_build_id(void *ctx, const uint8_t **out_id);
uint8_t *stack_pointer(void *ctx);
/* A server, whose session is not begun. */
void start(void);
uint32_t u32(const uint8_t *data);
/* What the server sent since the last call: each piece must be a good frame of one payload. */
reply_t replies(void);
reply_t send_payload(const uint8_t *payload, size_t size);
size_t make(uint8_t *payload, uint8_t opcode, const uint8_t *body, size_t size);
/* Sends a request with the next sequence number; there must be exactly one reply, and its own. */
reply_t request(uint8_t opcode, const uint8_t *body, size_t size);
reply_t hello(uint32_t number);
/* A server with a session. */
void begin(void);
void write_twins(uint8_t y0);
reply_t stats(uint8_t model);
/* The same with a line whose rate can be set. */
void start_rated(void);
/* Frees the server; the number of checks. */
unsigned long end_device(void);

/* The arguments behind the opcode are the body's bytes. */
#define REQUEST(opcode, ...) \
  request(opcode, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))
#define STATUS(opcode, ...) (REQUEST(opcode, __VA_ARGS__).status)

#endif /* RPC_DEVICE_H */
