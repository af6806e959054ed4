/* SPDX-License-Identifier: Apache-2.0 */
/* The GNU build id of an image whose linker script marks its note: linker.ld on bare metal, notes.ld on
 * Zephyr. */
#include "mlf/mlf_platform.h"

/* The section .note.gnu.build-id, which holds one note; both NULL where the linker script does not mark it. */
extern const uint8_t __mlf_build_id_start[] __attribute__((weak));
extern const uint8_t __mlf_build_id_end[] __attribute__((weak));

/* Sizes of name and description, the type, and the name "GNU" with its end: 4 bytes each. */
#define NOTE_HEAD_BYTES 16u

size_t mlf_build_id(const uint8_t **out_id) {
  const size_t size = (size_t)((uintptr_t)__mlf_build_id_end - (uintptr_t)__mlf_build_id_start);
  if (size <= NOTE_HEAD_BYTES) {
    return 0;
  }
  *out_id = __mlf_build_id_start + NOTE_HEAD_BYTES;
  return size - NOTE_HEAD_BYTES;
}
