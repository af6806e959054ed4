/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlf_rpc.h - the RPC server: lets a host write inputs, run models and read outputs over any byte
 * stream. Specified in crt/PROTOCOL.md.
 *
 *     static uint32_t state[MLF_RPC_STATE_WORDS(DIGITS_NUM_INPUTS, 1)];
 *     static mlf_rpc_t rpc;
 *     if (mlf_rpc_init(&rpc, &config) != MLF_OK) { ... }
 *     for (;;) {
 *       mlf_rpc_feed(&rpc, buffer, uart_read(buffer, sizeof buffer));
 *     }
 *
 * A request is carried out inside mlf_rpc_feed(): call it from the main loop or from one thread, never from
 * an interrupt. No heap; all memory is in mlf_rpc_t and in what the configuration names. A host names models
 * and tensors by index: it can neither read nor write anything outside of them.
 *
 * An image whose application does not call this module does not contain it (`mlf-sdk generate --app
 * standalone`).
 */
#ifndef MLF_RPC_H
#define MLF_RPC_H

#include <stddef.h>
#include <stdint.h>

#include "mlf/mlf.h"
#include "mlf_frame.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- compile-time options ------------------------------------------------------------------- */

/* Largest payload (header and body) of a request or a reply, in bytes, 64 to 16384. The server's
 * RAM is about twice this. */
#ifndef MLF_RPC_MAX_PAYLOAD
#define MLF_RPC_MAX_PAYLOAD 512
#endif

#if MLF_RPC_MAX_PAYLOAD < 64 || MLF_RPC_MAX_PAYLOAD > 16384
#error "MLF_RPC_MAX_PAYLOAD must be 64 to 16384 bytes"
#endif

/* Bytes below the current stack pointer that PREPARE leaves unpainted, 0 to 4096. */
#ifndef MLF_RPC_STACK_MARGIN
#define MLF_RPC_STACK_MARGIN 64
#endif

#if MLF_RPC_STACK_MARGIN < 0 || MLF_RPC_STACK_MARGIN > 4096
#error "MLF_RPC_STACK_MARGIN must be 0 to 4096 bytes"
#endif

/* 1: config->more_arenas counts, and the reply to STATS ends with the marks of those arenas. 0 (default): every
 * model has one arena. */
#ifndef MLF_RPC_ARENAS
#define MLF_RPC_ARENAS 0
#endif

#if MLF_RPC_ARENAS != 0 && MLF_RPC_ARENAS != 1
#error "MLF_RPC_ARENAS must be 0 or 1"
#endif

/* 1: requests other than HELLO, BUILD, CHALLENGE and OPEN need a secured session (crt/secure), and
 * config->secure is required. 0 (default): the server is open to whoever has the line. */
#ifndef MLF_RPC_SECURE
#define MLF_RPC_SECURE 0
#endif

#if MLF_RPC_SECURE != 0 && MLF_RPC_SECURE != 1
#error "MLF_RPC_SECURE must be 0 or 1"
#endif

#if MLF_RPC_SECURE
#if MLF_RPC_MAX_PAYLOAD < 128
#error "MLF_RPC_MAX_PAYLOAD must be at least 128 bytes with MLF_RPC_SECURE"
#endif
#if MLF_OBSERVE
#error "MLF_OBSERVE is for development: it must be 0 with MLF_RPC_SECURE"
#endif
#include "mlf_secure.h"
#endif

/* ---- numbers on the wire -------------------------------------------------------------------- */

#define MLF_RPC_VERSION 2u     /* the protocol version that this server speaks */
#define MLF_RPC_PREFIX_SIZE 4u /* u8 version, u8 opcode, u16 sequence number: the same in all versions */
#define MLF_RPC_HEADER_SIZE 8u /* the prefix, u32 session */
#define MLF_RPC_REPLY 0x80u    /* set in the opcode of a reply */

/* The first opcode that config->extension carries out. */
#define MLF_RPC_EXTENSION 0x40u

typedef enum {
  MLF_RPC_HELLO = 1,    /* start a session; describe the device */
  MLF_RPC_MODEL = 2,    /* describe a model */
  MLF_RPC_TENSOR = 3,   /* describe an input or an output */
  MLF_RPC_WRITE = 4,    /* write a piece of an input */
  MLF_RPC_RUN = 5,      /* run a model */
  MLF_RPC_READ = 6,     /* read a piece of an input or an output */
  MLF_RPC_STATS = 7,    /* read the measured figures */
  MLF_RPC_PREPARE = 8,  /* paint arena and stack, reset the figures */
  MLF_RPC_BAUD = 9,     /* change the rate of the line */
  MLF_RPC_BUILD = 10,   /* read the build id of the image */
  MLF_RPC_CHALLENGE = 11, /* get what is to be signed (MLF_RPC_SECURE) */
  MLF_RPC_OPEN = 12,    /* open a secured session (MLF_RPC_SECURE) */
  MLF_RPC_STEP = 16,    /* describe a step (MLF_OBSERVE) */
  MLF_RPC_ADVANCE = 17, /* run the next steps (MLF_OBSERVE) */
  MLF_RPC_PEEK = 18     /* read a piece of an argument of a step (MLF_OBSERVE) */
} mlf_rpc_opcode_t;

typedef enum { MLF_RPC_INPUT = 0, MLF_RPC_OUTPUT = 1 } mlf_rpc_direction_t;

/* Status of a reply, as an i8: 0 and those of mlf_status_t, or one of these. */
typedef enum {
  MLF_RPC_E_VERSION = -32,  /* the request's protocol version is not spoken here */
  MLF_RPC_E_OPCODE = -33,   /* no such request */
  MLF_RPC_E_LENGTH = -34,   /* the body has the wrong length for its opcode */
  MLF_RPC_E_SESSION = -35,  /* not the current session: a reset, or the HELLO of another host */
  MLF_RPC_E_SEQUENCE = -36, /* an old sequence number, or the last one on another request */
  MLF_RPC_E_MODEL = -37,    /* no model of this index */
  MLF_RPC_E_TENSOR = -38,   /* no such direction, or no tensor of this index */
  MLF_RPC_E_RANGE = -39,    /* offset and length are not inside the tensor */
  MLF_RPC_E_GAP = -40,      /* a WRITE that would leave a hole; the reply says where to go on */
  MLF_RPC_E_CAPACITY = -41, /* the reply does not fit the largest payload */
  MLF_RPC_E_STEP = -42,     /* no step of this index */
  MLF_RPC_E_LOCKED = -43,   /* no secured session is open, or the code of the request is wrong */
  MLF_RPC_E_SIGNATURE = -44, /* not the signature of a trusted key */
  MLF_RPC_E_WAIT = -45,     /* too many attempts; the reply says how long to wait */
  MLF_RPC_E_ENTROPY = -46   /* the source of random numbers failed */
} mlf_rpc_status_t;

/* Bits of the capabilities in the reply to HELLO. */
typedef enum {
  MLF_RPC_CAN_TRACE = 1,  /* workspace figures are recorded (MLF_TRACE) */
  MLF_RPC_CAN_STACK = 2,  /* the stack is painted and measured */
  MLF_RPC_CAN_TICKS = 4,  /* there is a counter */
  MLF_RPC_CAN_BAUD = 8,   /* the rate of the line can be changed */
  MLF_RPC_CAN_BUILD = 16, /* the build id is known */
  MLF_RPC_CAN_STEP = 32,  /* models can be run step by step (MLF_OBSERVE) */
  MLF_RPC_CAN_SECURE = 64 /* it needs a secured session (MLF_RPC_SECURE) */
} mlf_rpc_capability_t;

/* Flags in the replies to MODEL and TENSOR. */
typedef enum {
  MLF_RPC_NAME_CUT = 1,   /* MODEL, TENSOR: the name was too long and is only its beginning */
  MLF_RPC_INPUTS_KEPT = 2, /* MODEL: a run leaves the inputs intact */
  MLF_RPC_STREAMED = 4     /* TENSOR: an input whose rows are computed as they are written */
} mlf_rpc_flag_t;

/* ---- replies -------------------------------------------------------------------------------- */

/* The body of a reply as it is written: `next` is the next free byte. A put that does not fit writes nothing
 * and sets `overflow`, which stays set; the server then answers MLF_RPC_E_CAPACITY without a body. Only for
 * the duration of a request: by the server itself, or by config->extension. */
typedef struct {
  uint8_t *next;
  size_t left; /* bytes */
  uint8_t overflow;
} mlf_rpc_out_t;

/* Append `size` bytes, or a number in little-endian order. `data` must not be NULL. */
void mlf_rpc_put_bytes(mlf_rpc_out_t *out, const void *data, size_t size);
void mlf_rpc_put_u8(mlf_rpc_out_t *out, uint8_t value);
void mlf_rpc_put_u16(mlf_rpc_out_t *out, uint16_t value);
void mlf_rpc_put_u32(mlf_rpc_out_t *out, uint32_t value);
void mlf_rpc_put_u64(mlf_rpc_out_t *out, uint64_t value);

/* ---- configuration -------------------------------------------------------------------------- */

/* Words of server state for models with `total_inputs` inputs between them (constant expression). */
#define MLF_RPC_STATE_WORDS(total_inputs, num_models) ((total_inputs) + (num_models))

#if MLF_RPC_ARENAS
/* An arena in another memory than model->arena. */
typedef struct {
  uint8_t *address;
  uint32_t size_bytes;
} mlf_rpc_arena_t;

typedef struct {
  const mlf_rpc_arena_t *arenas; /* NULL only with count == 0 */
  uint8_t count;
} mlf_rpc_arenas_t;
#endif

/* Fill in what applies and leave the rest 0. Every callback is called from mlf_rpc_feed() only. */
typedef struct {
  /* The models, by the index that the host uses. NULL only with num_models == 0. */
  const mlf_model_t *const *models;
  uint8_t num_models;

  /* What is written and valid, for the server: MLF_RPC_STATE_WORDS() words of the caller. */
  uint32_t *state;
  size_t state_words;

  /* Handed to every callback but `extension`; may be NULL. */
  void *ctx;

  /* Send `size` bytes (one whole frame a call); return when all of them are taken. Required. */
  void (*write)(void *ctx, const uint8_t *data, size_t size);

  /* Bytes that the receiver buffers while the server is busy: a host sends no more than these ahead.
   * 0: none, so that each request waits for its reply. 65535: no limit, because the line holds the host
   * back (a pipe, TCP, USB). */
  uint16_t window_bytes;

  /* Rate of the line; both or neither. NULL: it is fixed.
   * can_set_baud returns non-zero when the line can run at `baud` bits a second.
   * set_baud sends out everything that was written, then runs the line at `baud`, or at the rate of the
   * start when `baud` is 0. Bytes that arrive damaged must still be fed to the server. */
  int (*can_set_baud)(void *ctx, uint32_t baud);
  void (*set_baud)(void *ctx, uint32_t baud);

  /* Carry out a request with an opcode from MLF_RPC_EXTENSION on: append the body of the reply to `out` and
   * return the status, an i8. A request that is repeated does not reach it twice. NULL: there are no such
   * requests. `extension_ctx` is handed to it. */
  int32_t (*extension)(void *extension_ctx, uint8_t opcode, const uint8_t *body, size_t size,
                       mlf_rpc_out_t *out);
  void *extension_ctx;

  /* A counter that only goes up, in units of 1/ticks_hz seconds (or instructions, or cycles). NULL: there is
   * none, and RUN reports 0 ticks. */
  mlf_ticks_t ticks;
  uint32_t ticks_hz; /* frequency of the counter in Hz; 0: unknown or no counter */

  /* The stack that the server and the kernels run on: its lowest address, and the address just above its
   * highest byte; stack_pointer returns where it stands now. NULL (any): the stack is neither painted nor
   * measured. */
  uint8_t *stack_low;
  uint8_t *stack_top;
  uint8_t *(*stack_pointer)(void *ctx);

  /* Differs from boot to boot as well as the device can; 0: it can't. */
  uint32_t boot_nonce;
  /* Set `out_id` to the build id of this image and return its size in bytes, 0 when it is not known
   * (mlf_build_id() of mlf_platform.h). NULL: the same as 0. */
  size_t (*build_id)(void *ctx, const uint8_t **out_id);
#if MLF_RPC_ARENAS
  const mlf_rpc_arenas_t *more_arenas; /* an element a model: painted and measured as well; NULL: there are none */
#endif
#if MLF_RPC_SECURE
  mlf_secure_t *secure; /* started by mlf_secure_init() */
#endif
  const char *sdk_version; /* version of the SDK that generated the project, UTF-8; NULL: unknown */
} mlf_rpc_config_t;

/* ---- the server ----------------------------------------------------------------------------- */

/* One server; its fields are private. */
typedef struct {
  const mlf_rpc_config_t *config;
  mlf_frame_rx_t rx;
  size_t reply_size;  /* size of the last reply in tx; 0: none */
  uint64_t row_ticks; /* of the rows of the input that is being streamed */
  uint32_t session;   /* the host's number of this session; 0: none since the start */
  uint32_t last_crc;  /* of the last request that was carried out */
  uint32_t dropped;   /* received data that is no request, saturating */
  uint32_t next_baud; /* to change to when the reply is out */
  uint16_t last_sequence;
  uint16_t guard;            /* 1 + the number of the first guard that was written since PREPARE; 0: none was */
  uint8_t change_baud;       /* 1: next_baud counts */
  uint8_t consecutive_drops; /* at another rate: 1 + drops in a row; 0: at the first rate */
  uint8_t zeros;             /* zero bytes in a row that ended nothing */
  uint8_t stack_pattern;
  uint8_t stack_painted;
  uint8_t rx_buffer[MLF_FRAME_RX_SIZE(MLF_RPC_MAX_PAYLOAD)];
  uint8_t tx_buffer[MLF_FRAME_TX_SIZE(MLF_RPC_MAX_PAYLOAD)];
} mlf_rpc_t;

/* Start a server. `config` and everything that it names must outlive `rpc`.
 * Returns MLF_OK, or MLF_E_ARGUMENT when `rpc`, `config`, write, models or state is missing, state_words is
 * too small, MLF_RPC_SECURE without `secure`, or only one of can_set_baud and set_baud is given: `rpc` is then not written. */
static inline MLF_WARN_UNUSED mlf_status_t mlf_rpc_init(mlf_rpc_t *rpc, const mlf_rpc_config_t *config);

/* As mlf_rpc_init(), for a server of `rpc_bytes` bytes: MLF_E_ARGUMENT also when that is not the size for
 * which the server was compiled (another MLF_RPC_MAX_PAYLOAD). */
MLF_WARN_UNUSED mlf_status_t mlf_rpc_init_sized(mlf_rpc_t *rpc, size_t rpc_bytes,
                                                const mlf_rpc_config_t *config);

static inline mlf_status_t mlf_rpc_init(mlf_rpc_t *rpc, const mlf_rpc_config_t *config) {
  return mlf_rpc_init_sized(rpc, sizeof *rpc, config);
}

/* Feed received bytes, in pieces of any size; carries out and answers each complete request. `rpc` must have
 * been started, `data` must not be NULL unless `size` is 0. Not reentrant. */
void mlf_rpc_feed(mlf_rpc_t *rpc, const uint8_t *data, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* MLF_RPC_H */
