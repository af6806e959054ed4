/* SPDX-License-Identifier: Apache-2.0 */
/* mlf_entropy() on a hosted machine: the random numbers of its kernel. */
#include <fcntl.h>
#include <mlf/mlf_platform.h>
#include <unistd.h>

int mlf_entropy(uint8_t *out, size_t size) {
  const int file = open("/dev/urandom", O_RDONLY);

  while (file >= 0 && size > 0) {
    const ssize_t got = read(file, out, size);
    if (got <= 0) {
      break;
    }
    out += got;
    size -= (size_t)got;
  }
  if (file >= 0) {
    (void)close(file);
  }
  return size == 0 ? 0 : -1;
}
