/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mlf_count.c - a TCG plugin that counts executed guest instructions by address range, exactly.
 *
 * Every instruction adds 1 to the counter of its range; which counter that is, is decided once, when
 * QEMU translates the code. Windows are opened and closed by reaching an address; a window that
 * closes is written as one line of JSON: how much each counter has grown. See README.md beside this
 * file for the arguments and the format.
 *
 * Builds with any C99 compiler and needs no header of QEMU: what it uses of the plugin API is
 * declared below. One binary serves API version 1 (QEMU up to 8.2) and versions 2 to 6 (from QEMU 9.0
 * on), where counters belong to a CPU: functions that only one of them has are weak.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define WEAK __attribute__((weak))

/* ---- the plugin API, as far as it is used ----------------------------------------------------- */

typedef uint64_t qemu_plugin_id_t;
/* The beginning of it; the same in all versions. */
typedef struct {
  const char *target_name;
  struct {
    int min;
    int cur;
  } version;
} qemu_info_t;

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_scoreboard;

typedef struct {
  struct qemu_plugin_scoreboard *score;
  size_t offset;
} qemu_plugin_u64;

/* Version 7 (QEMU 11.1) gives the callbacks other arguments. */
enum { NEWEST_VERSION = 6 };
enum { NO_REGISTERS = 0 };
enum { INLINE_ADD_U64 = 0 };

typedef void (*exec_cb_t)(unsigned int vcpu, void *data);

extern void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
                                                  void (*cb)(qemu_plugin_id_t, struct qemu_plugin_tb *));
extern void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*cb)(qemu_plugin_id_t, void *),
                                           void *data);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
extern uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
extern void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, exec_cb_t cb, int flags,
                                                   void *data);

/* Version 1 only. */
extern void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn, int op, void *counter,
                                                       uint64_t value) WEAK;

/* From version 2 on. */
extern struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t element_size) WEAK;
extern uint64_t qemu_plugin_u64_sum(qemu_plugin_u64 entry) WEAK;
extern void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(struct qemu_plugin_insn *insn, int op,
                                                                qemu_plugin_u64 entry, uint64_t value) WEAK;

EXPORT int qemu_plugin_version = 1;
EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv);

static bool counts_per_cpu(void) {
  return qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu != NULL && qemu_plugin_scoreboard_new != NULL &&
         qemu_plugin_u64_sum != NULL;
}

/* QEMU reads the version after it has loaded the library: the emulator that loads it decides. */
__attribute__((constructor)) static void choose_version(void) {
  if (counts_per_cpu()) {
    qemu_plugin_version = 2;
  }
}

/* ---- state ------------------------------------------------------------------------------------ */

typedef struct {
  uint64_t start; /* first address */
  uint64_t end;   /* address above the last one */
  const char *name;
} range_t;

typedef struct {
  const char *name;
  uint64_t *opened; /* the counters when it was opened */
  uint64_t index;   /* windows of this name that were closed or given up before */
  bool has_begin;
  bool has_end;
  bool open;
} window_t;

typedef struct {
  uint64_t address;
  size_t window;
  bool begins;
} mark_t;

/* A growing array. */
typedef struct {
  void *data;
  size_t count;
  size_t capacity;
} array_t;

static array_t ranges;  /* range_t; sorted by address before the first translation */
static array_t windows; /* window_t */
static array_t marks;   /* mark_t */

static uint64_t *counters; /* of each range, then of all other addresses; version 1 adds right here */
static struct qemu_plugin_scoreboard *scoreboard; /* from version 2 on: the same, for each CPU */
static FILE *out;

#define RANGES ((const range_t *)ranges.data)
#define WINDOWS ((window_t *)windows.data)
#define MARKS ((const mark_t *)marks.data)
#define NUM_COUNTERS (ranges.count + 1u)

static bool complain(const char *what, const char *text) {
  fprintf(stderr, "mlf_count: %s: %s\n", what, text);
  return false;
}

static void *grow(array_t *array, size_t size) {
  if (array->count == array->capacity) {
    const size_t capacity = array->capacity != 0u ? 2u * array->capacity : 16u;
    void *const data = realloc(array->data, capacity * size);
    if (data == NULL) {
      fputs("mlf_count: out of memory\n", stderr);
      abort();
    }
    array->data = data;
    array->capacity = capacity;
  }
  return memset((char *)array->data + size * array->count++, 0, size);
}

static char *copy(const char *text, size_t length) {
  char *const result = calloc(length + 1u, 1u);
  if (result == NULL) {
    fputs("mlf_count: out of memory\n", stderr);
    abort();
  }
  memcpy(result, text, length);
  return result;
}

/* ---- counting --------------------------------------------------------------------------------- */

static qemu_plugin_u64 cell(size_t counter) {
  const qemu_plugin_u64 entry = {scoreboard, counter * sizeof(uint64_t)};
  return entry;
}

static uint64_t read_counter(size_t counter) {
  return scoreboard != NULL ? qemu_plugin_u64_sum(cell(counter)) : counters[counter];
}

static void count_one(struct qemu_plugin_insn *insn, size_t counter) {
  if (scoreboard != NULL) {
    qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, INLINE_ADD_U64, cell(counter), 1);
  } else {
    qemu_plugin_register_vcpu_insn_exec_inline(insn, INLINE_ADD_U64, &counters[counter], 1);
  }
}

/* The counter of an address: the index of its range, or the last counter. */
static size_t counter_of(uint64_t address) {
  size_t low = 0;
  size_t high = ranges.count;

  while (low < high) {
    const size_t middle = low + (high - low) / 2u;
    if (address < RANGES[middle].start) {
      high = middle;
    } else if (address >= RANGES[middle].end) {
      low = middle + 1u;
    } else {
      return middle;
    }
  }
  return ranges.count;
}

/* ---- windows ---------------------------------------------------------------------------------- */

static void on_begin(unsigned int vcpu, void *data) {
  window_t *const window = &WINDOWS[(uintptr_t)data];
  size_t i;

  (void)vcpu;
  if (window->open) {
    fprintf(out, "{\"window\":\"%s\",\"index\":%" PRIu64 ",\"given_up\":true}\n", window->name,
            window->index++);
  }
  for (i = 0; i < NUM_COUNTERS; ++i) {
    window->opened[i] = read_counter(i);
  }
  window->open = true;
}

static void on_end(unsigned int vcpu, void *data) {
  window_t *const window = &WINDOWS[(uintptr_t)data];
  const char *separator = "";
  uint64_t total = 0;
  uint64_t grown;
  size_t i;

  (void)vcpu;
  if (!window->open) {
    return;
  }
  window->open = false;
  fprintf(out, "{\"window\":\"%s\",\"index\":%" PRIu64 ",\"counts\":{", window->name, window->index++);
  for (i = 0; i < ranges.count; ++i) {
    grown = read_counter(i) - window->opened[i];
    total += grown;
    if (grown != 0u) {
      fprintf(out, "%s\"%s\":%" PRIu64, separator, RANGES[i].name, grown);
      separator = ",";
    }
  }
  grown = read_counter(ranges.count) - window->opened[ranges.count];
  fprintf(out, "},\"outside\":%" PRIu64 ",\"total\":%" PRIu64 "}\n", grown, total + grown);
  fflush(out);
}

/* The callbacks stand before the addition: the instruction at a mark is not yet counted. */
static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
  const size_t count = qemu_plugin_tb_n_insns(tb);
  size_t i;
  size_t m;

  (void)id;
  for (i = 0; i < count; ++i) {
    struct qemu_plugin_insn *const insn = qemu_plugin_tb_get_insn(tb, i);
    const uint64_t address = qemu_plugin_insn_vaddr(insn);
    for (m = 0; m < marks.count; ++m) {
      if (MARKS[m].address == address) {
        qemu_plugin_register_vcpu_insn_exec_cb(insn, MARKS[m].begins ? on_begin : on_end, NO_REGISTERS,
                                               (void *)(uintptr_t)MARKS[m].window);
      }
    }
    count_one(insn, counter_of(address));
  }
}

static void write_end(qemu_plugin_id_t id, void *data) {
  const char *separator = "";
  uint64_t total = 0;
  size_t i;

  (void)id;
  (void)data;
  for (i = 0; i < NUM_COUNTERS; ++i) {
    total += read_counter(i);
  }
  fprintf(out, "{\"end\":true,\"total\":%" PRIu64 ",\"open\":[", total);
  for (i = 0; i < windows.count; ++i) {
    if (WINDOWS[i].open) {
      fprintf(out, "%s\"%s\"", separator, WINDOWS[i].name);
      separator = ",";
    }
  }
  fputs("]}\n", out);
  fclose(out);
}

/* ---- arguments -------------------------------------------------------------------------------- */

/* Names go into JSON as they are. */
static bool is_name(const char *text, size_t length) {
  size_t i;

  for (i = 0; i < length; ++i) {
    if (text[i] <= ' ' || text[i] > '~' || text[i] == '"' || text[i] == '\\' || text[i] == ':') {
      return false;
    }
  }
  return length != 0u;
}

/* A number up to the end of the text or up to `stop`; 0x for hexadecimal. NULL: it is none. */
static const char *parse_address(const char *text, char stop, uint64_t *out_address) {
  char *end = NULL;

  if (*text < '0' || *text > '9') {
    return NULL;
  }
  *out_address = strtoull(text, &end, 0);
  return *end == stop ? end : NULL;
}

/* "<name>:<start>:<end>" */
static bool add_range(const char *text) {
  const char *const colon = strchr(text, ':');
  const char *at;
  range_t range;

  if (colon == NULL || !is_name(text, (size_t)(colon - text))) {
    return complain("a range is <name>:<start>:<end>", text);
  }
  at = parse_address(colon + 1, ':', &range.start);
  if (at == NULL || parse_address(at + 1, '\0', &range.end) == NULL || range.start >= range.end) {
    return complain("a range is <name>:<start>:<end>", text);
  }
  range.name = copy(text, (size_t)(colon - text));
  *(range_t *)grow(&ranges, sizeof range) = range;
  return true;
}

/* One range in a line. */
static bool read_ranges(const char *path) {
  char line[1024];
  bool good = true;
  FILE *const file = fopen(path, "r");

  if (file == NULL) {
    return complain("it can't be read", path);
  }
  while (good && fgets(line, sizeof line, file) != NULL) {
    line[strcspn(line, "\r\n")] = '\0';
    good = line[0] == '\0' || add_range(line);
  }
  fclose(file);
  return good;
}

static size_t find_window(const char *name, size_t length) {
  window_t *window;
  size_t i;

  for (i = 0; i < windows.count; ++i) {
    if (strlen(WINDOWS[i].name) == length && memcmp(WINDOWS[i].name, name, length) == 0) {
      return i;
    }
  }
  window = grow(&windows, sizeof *window);
  window->name = copy(name, length);
  return windows.count - 1u;
}

/* "<address>" of the window "run", or "<window>:<address>" */
static bool add_mark(const char *text, bool begins) {
  const char *const colon = strchr(text, ':');
  const char *const name = colon != NULL ? text : "run";
  const size_t length = colon != NULL ? (size_t)(colon - text) : strlen("run");
  window_t *window;
  mark_t mark;

  mark.begins = begins;
  if (!is_name(name, length) ||
      parse_address(colon != NULL ? colon + 1 : text, '\0', &mark.address) == NULL) {
    return complain("a mark is <address> or <window>:<address>", text);
  }
  mark.window = find_window(name, length);
  window = &WINDOWS[mark.window];
  if (begins && window->has_begin) {
    return complain("a window has one begin", text);
  }
  window->has_begin = window->has_begin || begins;
  window->has_end = window->has_end || !begins;
  *(mark_t *)grow(&marks, sizeof mark) = mark;
  return true;
}

static const char *value_of(const char *argument, const char *key) {
  const size_t length = strlen(key);
  return strncmp(argument, key, length) == 0 && argument[length] == '=' ? &argument[length + 1u] : NULL;
}

static bool take_argument(const char *argument, const char **out_path) {
  const char *value;

  if ((value = value_of(argument, "range")) != NULL) {
    return add_range(value);
  }
  if ((value = value_of(argument, "ranges")) != NULL) {
    return read_ranges(value);
  }
  if ((value = value_of(argument, "begin")) != NULL) {
    return add_mark(value, true);
  }
  if ((value = value_of(argument, "end")) != NULL) {
    return add_mark(value, false);
  }
  if ((value = value_of(argument, "out")) != NULL) {
    *out_path = value;
    return true;
  }
  return complain("unknown argument", argument);
}

static int by_start(const void *a, const void *b) {
  const uint64_t first = ((const range_t *)a)->start;
  const uint64_t second = ((const range_t *)b)->start;
  return first < second ? -1 : first > second;
}

static bool prepare(void) {
  size_t i;

  if (ranges.count != 0u) {
    qsort(ranges.data, ranges.count, sizeof(range_t), by_start);
  }
  for (i = 1; i < ranges.count; ++i) {
    if (RANGES[i].start < RANGES[i - 1u].end) {
      return complain("this range overlaps another one", RANGES[i].name);
    }
  }
  for (i = 0; i < windows.count; ++i) {
    if (!WINDOWS[i].has_begin || !WINDOWS[i].has_end) {
      return complain("a window needs a begin and an end", WINDOWS[i].name);
    }
    WINDOWS[i].opened = calloc(NUM_COUNTERS, sizeof(uint64_t));
  }
  if (counts_per_cpu()) {
    scoreboard = qemu_plugin_scoreboard_new(NUM_COUNTERS * sizeof(uint64_t));
  } else if (qemu_plugin_register_vcpu_insn_exec_inline != NULL) {
    counters = calloc(NUM_COUNTERS, sizeof(uint64_t));
  }
  return scoreboard != NULL || counters != NULL || complain("QEMU has no inline addition", "plugin API");
}

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv) {
  const char *path = NULL;
  int i;

  if (info->version.cur > NEWEST_VERSION) {
    complain("QEMU is newer than this plugin", "plugin API");
    return -1;
  }
  for (i = 0; i < argc; ++i) {
    if (!take_argument(argv[i], &path)) {
      return -1;
    }
  }
  if (path == NULL) {
    complain("an argument is missing", "out=<file>");
    return -1;
  }
  if (!prepare()) {
    return -1;
  }
  out = fopen(path, "w");
  if (out == NULL) {
    complain("it can't be written", path);
    return -1;
  }
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
  qemu_plugin_register_atexit_cb(id, write_end, NULL);
  return 0;
}
