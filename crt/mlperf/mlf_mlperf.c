/* SPDX-License-Identifier: Apache-2.0 */
/* mlf_mlperf.c - commands and answers. */
#include "mlf_mlperf.h"

#include <mlf/mlf_platform.h>
#include <string.h>

#define END '%'
#define PRINTED_A_LINE 8u
#define MAX_COUNT 0x7FFFFFFF

/* Rest of a command: words that blanks separate. */
typedef struct {
  const char *at;
} words_t;

static void error(const char *what) {
  mlf_mlperf_text("e-[");
  mlf_mlperf_text(what);
  mlf_mlperf_text("]\r\n");
}

/* A line `m-`, name, number. */
static void say(const char *name, uint64_t value) {
  mlf_mlperf_text(name);
  mlf_mlperf_number(value);
  mlf_mlperf_text("\r\n");
}

/* The next word and its length, 0 at the end. */
static size_t next_word(words_t *words, const char **out_word) {
  size_t length = 0;

  while (*words->at == ' ') {
    words->at++;
  }
  *out_word = words->at;
  while (words->at[length] != '\0' && words->at[length] != ' ') {
    length++;
  }
  words->at += length;
  return length;
}

static int equals(const char *word, size_t length, const char *wanted) {
  return strlen(wanted) == length && memcmp(word, wanted, length) == 0;
}

/* Read a decimal number with an optional sign, saturated; 0 for anything else, which no command takes.
 * Returns 0 at the end of the command. */
static int next_number(words_t *words, int32_t *out_value) {
  const char *word;
  const size_t length = next_word(words, &word);
  const int is_negative = length != 0u && word[0] == '-';
  int32_t value = 0;
  size_t i;

  for (i = (size_t)is_negative; i < length; ++i) {
    if (word[i] < '0' || word[i] > '9') {
      value = 0;
      break;
    }
    const int32_t digit = word[i] - '0';
    value = value > (MAX_COUNT - digit) / 10 ? MAX_COUNT : value * 10 + digit;
  }
  *out_value = is_negative ? -value : value;
  return length != 0u;
}

static int hex_digit(char digit) {
  if (digit >= '0' && digit <= '9') {
    return digit - '0';
  }
  if (digit >= 'a' && digit <= 'f') {
    return digit - 'a' + 10;
  }
  return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

static void stamp(uint64_t ticks) {
  mlf_mlperf_text("m-lap-us-");
  mlf_mlperf_time(ticks);
  mlf_mlperf_text("\r\n");
}

/* ---- db ---- */

static void begin_load(mlf_mlperf_t *server, words_t *words) {
  const mlf_mlperf_config_t *config = server->config;
  int32_t count;

  server->expected_bytes = 0;
  server->loaded_bytes = 0;
  (void)next_number(words, &count);
  if (count <= 0) {
    error("Command 'db load' requires a number of bytes > 0");
  } else if ((uint32_t)count > config->buffer_bytes) {
    error("More bytes than the input has");
  } else {
    server->expected_bytes = (uint32_t)count;
    mlf_mlperf_text("m-[Expecting ");
    mlf_mlperf_number((uint32_t)count);
    mlf_mlperf_text(" bytes]\r\n");
  }
}

static int are_digits(const char *word, size_t length) {
  size_t i;

  for (i = 0; i < length && hex_digit(word[i]) >= 0; ++i) {
  }
  return i == length;
}

/* A line with an error stores nothing. Digits behind the last expected byte are disregarded. */
static void load_digits(mlf_mlperf_t *server, const char *word, size_t length) {
  const mlf_mlperf_config_t *config = server->config;
  size_t i;

  if (server->expected_bytes == 0u) {
    error("Bytes without 'db load'");
  } else if (server->loaded_bytes == server->expected_bytes) {
    error("The load is complete");
  } else if (length == 0u || length % 2u != 0u) {
    error("Insufficient number of hex digits");
  } else if (!are_digits(word, length)) {
    error("Invalid hex digit");
  } else {
    for (i = 0; i < length && server->loaded_bytes < server->expected_bytes; i += 2u) {
      config->buffer[server->loaded_bytes] = (uint8_t)(hex_digit(word[i]) * 16 + hex_digit(word[i + 1u]));
      server->loaded_bytes++;
    }
    if (server->loaded_bytes == server->expected_bytes) {
      mlf_mlperf_text("m-load-done\r\n");
    }
  }
}

static void print_buffer(const mlf_mlperf_t *server) {
  static const char digits[] = "0123456789abcdef";
  const mlf_mlperf_config_t *config = server->config;
  uint32_t i;

  for (i = 0; i < server->loaded_bytes; ++i) {
    const uint8_t byte = config->buffer[i];
    const char pair[3] = {digits[byte >> 4], digits[byte & 15u], '\0'};
    mlf_mlperf_text(i % PRINTED_A_LINE == 0u ? "m-buffer-" : "-");
    mlf_mlperf_text(pair);
    if ((i + 1u) % PRINTED_A_LINE == 0u || i + 1u == server->loaded_bytes) {
      mlf_mlperf_text("\r\n");
    }
  }
}

static void buffer_command(mlf_mlperf_t *server, words_t *words) {
  const char *word;
  const size_t length = next_word(words, &word);

  if (length == 0u) {
    error("Command 'db' requires a subcommand");
  } else if (equals(word, length, "load")) {
    begin_load(server, words);
  } else if (equals(word, length, "print")) {
    print_buffer(server);
  } else {
    const char *more;
    /* Two lines whose '%' was lost: "0102db" are digits too. */
    load_digits(server, word, next_word(words, &more) == 0u ? length : 0u);
  }
}

/* ---- infer ---- */

static void results(const mlf_mlperf_t *server) {
  const mlf_mlperf_config_t *config = server->config;

  if (!server->has_results) {
    error("There are no results");
    return;
  }
  mlf_mlperf_text("m-results-[");
  config->results(config);
  mlf_mlperf_text("]\r\n");
}

static int run(const mlf_mlperf_config_t *config, int32_t count) {
  while (count > 0) {
    if (mlf_run(config->model) != MLF_OK) {
      error("Inference failed");
      return 0;
    }
    count--;
  }
  return 1;
}

/* Both stamps are printed after the runs: nothing else lies between them. */
static void infer(mlf_mlperf_t *server, int32_t count, int32_t warmups) {
  const mlf_mlperf_config_t *config = server->config;
  uint64_t start;
  uint64_t end;

  server->has_results = 0;
  config->load(config);
  say("m-warmup-start-", (uint32_t)warmups);
  if (!run(config, warmups)) {
    return;
  }
  mlf_mlperf_text("m-warmup-done\r\n");
  say("m-infer-start-", (uint32_t)count);
  start = mlf_ticks();
  if (!run(config, count)) {
    return;
  }
  end = mlf_ticks();
  stamp(start);
  stamp(end);
  mlf_mlperf_text("m-infer-done\r\n");
  server->has_results = 1;
  results(server);
}

static void infer_command(mlf_mlperf_t *server, words_t *words) {
  const mlf_mlperf_config_t *config = server->config;
  int32_t count = 1;
  int32_t warmups = 10;

  if (next_number(words, &count) && count <= 0) {
    error("Inference iterations must be >0");
    return;
  }
  count = count != 0 ? count : 1;
  if (!next_number(words, &warmups)) {
    warmups = 10;
  }
  if (warmups < 0) {
    error("Inference warmup must be >=0");
  } else if (server->loaded_bytes != config->buffer_bytes) {
    error(server->expected_bytes == 0u ? "No input is loaded" : "The input is not completely loaded");
  } else {
    infer(server, count, warmups);
  }
}

/* ---- commands ---- */

static void profile(const mlf_mlperf_config_t *config) {
  mlf_mlperf_text("m-profile-[");
  mlf_mlperf_text(config->profile);
  mlf_mlperf_text("]\r\nm-model-[");
  mlf_mlperf_text(config->id);
  mlf_mlperf_text("]\r\n");
}

static void help(void) {
  mlf_mlperf_text("name profile help timestamp results\r\ndb load N|HEX|print\r\ninfer N=1 W=10\r\n");
}

static void carry_out(mlf_mlperf_t *server) {
  const mlf_mlperf_config_t *config = server->config;
  words_t words = {server->command};
  const char *word;
  const size_t length = next_word(&words, &word);

  if (equals(word, length, "db")) {
    buffer_command(server, &words);
  } else if (equals(word, length, "infer")) {
    infer_command(server, &words);
  } else if (equals(word, length, "name")) {
    mlf_mlperf_text("m-name-dut-[");
    mlf_mlperf_text(config->vendor);
    mlf_mlperf_text("]\r\n");
  } else if (equals(word, length, "profile")) {
    profile(config);
  } else if (equals(word, length, "help")) {
    help();
  } else if (equals(word, length, "timestamp")) {
    stamp(mlf_ticks());
  } else if (equals(word, length, "results")) {
    results(server);
  } else {
    error("Unknown command"); /* not repeated: it could hold m-ready */
  }
}

void mlf_mlperf_init(mlf_mlperf_t *server, const mlf_mlperf_config_t *config) {
  (void)memset(server, 0, sizeof *server);
  server->config = config;
}

static void end_command(mlf_mlperf_t *server) {
  if (server->length > MLF_MLPERF_MAX_COMMAND) {
    error("Command is too long");
  } else {
    server->command[server->length] = '\0';
    carry_out(server);
  }
  server->length = 0;
  mlf_mlperf_text("m-ready\r\n");
}

void mlf_mlperf_feed(mlf_mlperf_t *server, const uint8_t *data, size_t size) {
  size_t i;

  for (i = 0; i < size; ++i) {
    const char byte = (char)data[i];
    if (byte == END) {
      end_command(server);
    } else if (server->length < MLF_MLPERF_MAX_COMMAND && byte != '\r' && byte != '\n') {
      server->command[server->length] = byte;
      server->length++;
    } else if (byte != '\r' && byte != '\n') {
      server->length = MLF_MLPERF_MAX_COMMAND + 1u;
    }
  }
}
