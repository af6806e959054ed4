/* SPDX-License-Identifier: Apache-2.0 */
/* The GNU build id of the running program: a note among its program headers. */
#include <link.h>
#include <mlf/mlf_platform.h>
#include <string.h>

/* The program's ELF header, in memory; made by the linker. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

/* Where the program lies less where its headers say: other than 0 when it was linked to lie anywhere. */
static uintptr_t load_bias(const ElfW(Phdr) * headers, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (headers[i].p_type == PT_LOAD && headers[i].p_offset == 0) {
      return (uintptr_t)&__ehdr_start - (uintptr_t)headers[i].p_vaddr;
    }
  }
  return 0;
}

static size_t align4(size_t size) { return (size + 3u) & ~(size_t)3u; }

static size_t find_in(const uint8_t *at, size_t left, const uint8_t **out_id) {
  ElfW(Nhdr) note;

  while (left >= sizeof note) {
    memcpy(&note, at, sizeof note);
    const size_t name = align4(note.n_namesz);
    const size_t whole = sizeof note + name + align4(note.n_descsz);
    if (whole > left) {
      break;
    }
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(at + sizeof note, "GNU", 4) == 0) {
      *out_id = at + sizeof note + name;
      return note.n_descsz;
    }
    at += whole;
    left -= whole;
  }
  return 0;
}

size_t mlf_build_id(const uint8_t **out_id) {
  const uint8_t *const start = (const uint8_t *)&__ehdr_start;
  const ElfW(Phdr) *const headers = (const void *)(start + __ehdr_start.e_phoff);
  const uintptr_t bias = load_bias(headers, __ehdr_start.e_phnum);

  for (size_t i = 0; i < __ehdr_start.e_phnum; i++) {
    /* Notes with 8-byte alignment (GNU properties) have another padding. */
    if (headers[i].p_type == PT_NOTE && headers[i].p_align <= 4) {
      const uint8_t *const notes = (const uint8_t *)(bias + (uintptr_t)headers[i].p_vaddr);
      const size_t size = find_in(notes, (size_t)headers[i].p_memsz, out_id);
      if (size != 0) {
        return size;
      }
    }
  }
  return 0;
}
