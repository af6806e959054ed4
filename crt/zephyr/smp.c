/* SPDX-License-Identifier: Apache-2.0 */
/*
 * smp.c - the byte pipe through MCUmgr's SMP server, over whatever transport it has: a command of a group of
 * its own takes bytes for the RPC server, and returns those that it has sent. The server runs in its own
 * thread. Specified in crt/PROTOCOL.md, section "SMP".
 */
#include "mlf_zephyr.h"

#include <zephyr/mgmt/mcumgr/mgmt/handlers.h>
#include <zephyr/mgmt/mcumgr/mgmt/mgmt.h>
#include <zephyr/mgmt/mcumgr/smp/smp.h>

#include <mgmt/mcumgr/util/zcbor_bulk.h>
#include <zcbor_common.h>
#include <zcbor_decode.h>
#include <zcbor_encode.h>

#define GROUP_ID 19788u /* "ML": of users' groups, from 64 on */
#define OVERHEAD 24u    /* bytes of a response beside the data, at most: names, sizes, ends of maps */

#if defined(CONFIG_MCUMGR_TRANSPORT_UART)
#define TEXT_UART DT_CHOSEN(zephyr_uart_mcumgr)
#elif defined(CONFIG_MCUMGR_TRANSPORT_SHELL)
#define TEXT_UART DT_CHOSEN(zephyr_shell_uart)
#endif

RING_BUF_DECLARE(received, CONFIG_MLF_UART_RX_BUFFER_SIZE);
RING_BUF_DECLARE(replies, CONFIG_MLF_SMP_TX_BUFFER_SIZE);
static K_SEM_DEFINE(arrived, 0, 1); /* there is something in `received` */
static K_SEM_DEFINE(taken, 0, 1);   /* there is room in `replies` */
static K_SEM_DEFINE(changed, 0, 1); /* the server waits, or `replies` is full */
static volatile bool is_waiting;

/* The server has nothing to do, or can't go on. */
static bool is_settled(void) {
  return ring_buf_space_get(&replies) == 0u || (is_waiting && ring_buf_is_empty(&received));
}

/* Wait until the server has answered; a run may take longer than a host waits for a response. */
static void settle(void) {
  const int64_t end_ms = k_uptime_get() + CONFIG_MLF_SMP_WAIT_MS;
  int64_t left_ms = CONFIG_MLF_SMP_WAIT_MS;

  while (!is_settled() && left_ms > 0) {
    (void)k_sem_take(&changed, K_MSEC(left_ms));
    left_ms = end_ms - k_uptime_get();
  }
}

static int exchange(struct smp_streamer *ctxt) {
  zcbor_state_t *const out = ctxt->writer->zs;
  struct zcbor_string data = {0};
  struct zcbor_map_decode_key_val request[] = {
      ZCBOR_MAP_DECODE_KEY_DECODER("d", zcbor_bstr_decode, &data),
  };
  size_t decoded, room;
  uint32_t got, size;
  uint8_t *reply;

  if (zcbor_map_decode_bulk(ctxt->reader->zs, request, ARRAY_SIZE(request), &decoded) != 0) {
    return MGMT_ERR_EINVAL;
  }
  got = ring_buf_put(&received, data.value, (uint32_t)data.len);
  if (got != 0u) {
    k_sem_give(&arrived);
  }
  settle();

  room = (size_t)(out->payload_end - out->payload);
  room = room > OVERHEAD ? room - OVERHEAD : 0u;
  size = ring_buf_get_claim(&replies, &reply, (uint32_t)room);
  if (!zcbor_tstr_put_lit(out, "n") || !zcbor_uint32_put(out, got) || !zcbor_tstr_put_lit(out, "d") ||
      !zcbor_bstr_encode_ptr(out, (const char *)reply, size)) {
    (void)ring_buf_get_finish(&replies, 0);
    return MGMT_ERR_EMSGSIZE;
  }
  (void)ring_buf_get_finish(&replies, size);
  k_sem_give(&taken);
  return MGMT_ERR_EOK;
}

static const struct mgmt_handler handlers[] = {{.mh_read = NULL, .mh_write = exchange}};
static struct mgmt_group group = {
    .mg_handlers = handlers,
    .mg_handlers_count = ARRAY_SIZE(handlers),
    .mg_group_id = GROUP_ID,
};

static void register_group(void) { mgmt_register_group(&group); }

MCUMGR_HANDLER_DEFINE(mlf, register_group);

void mlf_uart_init(void) {}

size_t mlf_uart_window(void) { return CONFIG_MLF_UART_RX_BUFFER_SIZE; }

size_t mlf_uart_read(uint8_t *out_data, size_t capacity) {
  const uint32_t got = ring_buf_get(&received, out_data, (uint32_t)capacity);

  if (got == 0u) {
    is_waiting = true;
    k_sem_give(&changed);
    (void)k_sem_take(&arrived, K_FOREVER);
    is_waiting = false;
  }
  return got;
}

/* The report of a fault can't wait for a request: it goes out as text, which clients of SMP pass over. */
static void write_text(const uint8_t *data, size_t size) {
#ifdef TEXT_UART
  for (size_t i = 0; i < size; i++) {
    uart_poll_out(DEVICE_DT_GET(TEXT_UART), data[i]);
  }
#else
  (void)data;
  (void)size;
#endif
}

void mlf_uart_write(const uint8_t *data, size_t size) {
  if (k_is_in_isr()) {
    write_text(data, size);
    return;
  }
  while (size != 0u) {
    const uint32_t put = ring_buf_put(&replies, data, (uint32_t)size);

    data += put;
    size -= put;
    if (size != 0u) {
      k_sem_give(&changed);
      (void)k_sem_take(&taken, K_FOREVER);
    }
  }
}

int mlf_uart_can_set_baud(uint32_t baud) {
  (void)baud;
  return 0;
}

void mlf_uart_set_baud(uint32_t baud) { (void)baud; }
