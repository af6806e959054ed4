/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE
#include "mlf_store_file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include "mlf_store_ram.h"

/* The context is the file's descriptor, as a pointer. */
static int32_t file_program(void *ctx, uint32_t offset, const uint8_t *data, uint32_t size) {
  const int file = (int)(intptr_t)ctx;
  return pwrite(file, data, size, (off_t)offset) == (ssize_t)size ? 0 : -1;
}

static int32_t file_erase(void *ctx, uint32_t offset, uint32_t size) {
  uint8_t erased[MLF_STORE_RAM_ERASE_BYTES];
  if (size != sizeof erased) {
    return -1;
  }
  (void)memset(erased, (int)MLF_STORE_RAM_ERASED, sizeof erased);
  return file_program(ctx, offset, erased, size);
}

int32_t mlf_store_file_open(mlf_store_driver_t *out_driver, const char *path, uint32_t slot_bytes) {
  const size_t size = 2u * (size_t)slot_bytes;
  const int file = path != NULL ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
  if (path != NULL && (file < 0 || ftruncate(file, (off_t)size) != 0)) {
    return -1;
  }
  const int flags = path != NULL ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void *map = mmap(NULL, size, path != NULL ? PROT_READ : PROT_READ | PROT_WRITE, flags, file, 0);
  if (map == MAP_FAILED) {
    return -1;
  }
  out_driver->map = map;
  out_driver->slot_bytes = slot_bytes;
  out_driver->erase_bytes = MLF_STORE_RAM_ERASE_BYTES;
  out_driver->program_bytes = MLF_STORE_RAM_PROGRAM_BYTES;
  out_driver->erased = (uint8_t)MLF_STORE_RAM_ERASED;
  out_driver->erase = path != NULL ? file_erase : mlf_store_ram_erase;
  out_driver->program = path != NULL ? file_program : mlf_store_ram_program;
  out_driver->ctx = path != NULL ? (void *)(intptr_t)file : map;
  return 0;
}
