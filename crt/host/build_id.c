/* SPDX-License-Identifier: Apache-2.0 */
/* The GNU build id of the running program: a note among its program headers. */
#include <link.h>
#include <mlf/mlf_platform.h>
#include <string.h>

/* The program's ELF header and what follows it, in memory; the linker gives the symbol. */
extern const uint8_t __ehdr_start[] __attribute__((visibility("hidden")));

static ElfW(Phdr) header_at(const ElfW(Ehdr) * elf, size_t index) {
  ElfW(Phdr) header;

  memcpy(&header, &__ehdr_start[elf->e_phoff + index * sizeof header], sizeof header);
  return header;
}

/* Where the program lies less where its headers say: other than 0 when it was linked to lie anywhere. */
static uintptr_t load_bias(const ElfW(Ehdr) * elf) {
  for (size_t i = 0; i < elf->e_phnum; i++) {
    const ElfW(Phdr) header = header_at(elf, i);
    if (header.p_type == PT_LOAD && header.p_offset == 0) {
      return (uintptr_t)__ehdr_start - (uintptr_t)header.p_vaddr;
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
  ElfW(Ehdr) elf;

  memcpy(&elf, __ehdr_start, sizeof elf);
  const uintptr_t bias = load_bias(&elf);
  for (size_t i = 0; i < elf.e_phnum; i++) {
    const ElfW(Phdr) header = header_at(&elf, i);
    /* Notes with 8-byte alignment (GNU properties) have another padding. */
    if (header.p_type == PT_NOTE && header.p_align <= 4) {
      const uint8_t *const notes = (const uint8_t *)(bias + (uintptr_t)header.p_vaddr);
      const size_t size = find_in(notes, (size_t)header.p_memsz, out_id);
      if (size != 0) {
        return size;
      }
    }
  }
  return 0;
}
