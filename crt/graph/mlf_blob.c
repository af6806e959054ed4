/* SPDX-License-Identifier: Apache-2.0 */
#include "mlf_blob.h"

uint32_t mlf_blob_crc32_hole(const uint8_t *data, size_t size, size_t hole) {
  static const uint8_t zeros[4] = {0, 0, 0, 0};
  const uint32_t before = mlf_crc32(0, data, hole);
  const size_t behind = hole + sizeof zeros;
  return mlf_crc32(mlf_crc32(before, zeros, sizeof zeros), &data[behind], size - behind);
}
