/* SPDX-License-Identifier: Apache-2.0 */
/* The body of a reply as it grows. */
#include <string.h>

#include "mlf_rpc_internal.h"

void mlf_rpc_put_bytes(mlf_rpc_out_t *out, const void *data, size_t size) {
  if (out->overflow != 0 || size > out->left) {
    out->overflow = 1;
    return;
  }
  (void)memcpy(out->next, data, size);
  out->next += size;
  out->left -= size;
}

void mlf_rpc_put_u8(mlf_rpc_out_t *out, uint8_t value) { mlf_rpc_put_bytes(out, &value, 1); }

void mlf_rpc_put_u16(mlf_rpc_out_t *out, uint16_t value) {
  const uint8_t bytes[2] = {(uint8_t)value, (uint8_t)(value >> 8)};
  mlf_rpc_put_bytes(out, bytes, sizeof bytes);
}

void mlf_rpc_put_u32(mlf_rpc_out_t *out, uint32_t value) {
  mlf_rpc_put_u16(out, (uint16_t)value);
  mlf_rpc_put_u16(out, (uint16_t)(value >> 16));
}

void mlf_rpc_put_u64(mlf_rpc_out_t *out, uint64_t value) {
  mlf_rpc_put_u32(out, (uint32_t)value);
  mlf_rpc_put_u32(out, (uint32_t)(value >> 32));
}

/* Flags and name: as much of the name as fits, cut between two characters. */
void mlf_rpc_put_name(mlf_rpc_out_t *out, uint8_t flags, const char *name) {
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
  mlf_rpc_put_u8(out, flags);
  mlf_rpc_put_u8(out, (uint8_t)size);
  mlf_rpc_put_bytes(out, text, size);
}
