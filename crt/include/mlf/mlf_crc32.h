/* SPDX-License-Identifier: Apache-2.0 */
/* mlf_crc32.h - the CRC-32 of frames and blobs. */
#ifndef MLF_MLF_CRC32_H
#define MLF_MLF_CRC32_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* CRC-32 (IEEE 802.3, reflected) of `size` bytes; `crc` is 0, or the result for the
 * bytes before them. `data` may be NULL when `size` is 0. */
uint32_t mlf_crc32(uint32_t crc, const uint8_t *data, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* MLF_MLF_CRC32_H */
