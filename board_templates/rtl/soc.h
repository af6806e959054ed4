/* SPDX-License-Identifier: Apache-2.0 */
/*
 * soc.h - memories, console and clock around a verilated core. One source beside it binds each core to it.
 *
 * A core's source has a class with
 *   void start_at(uint32_t pc)  address of the first instruction
 *   void reset(bool active)     of the core's reset input
 *   void cycle(Soc &soc)        one cycle of the clock, with what the core asks of its buses
 *   bool retired(uint32_t *pc)  an instruction ended in that cycle: its address
 *   bool stopped()              it has ended for good, and takes no further instruction
 * and a main() that calls run<Core>(argc, argv). README.md beside it lists the arguments.
 */
#ifndef MLF_SOC_H
#define MLF_SOC_H

#include <elf.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

[[noreturn]] static void fail(const char *what, const char *about) {
  std::fprintf(stderr, "%s: %s\n", what, about);
  std::exit(2);
}

struct Memory {
  uint32_t origin;
  uint32_t size_bytes;
  uint32_t wait_states;
  bool is_writable;
  std::vector<uint32_t> words;

  bool holds(uint32_t address) const { return address - origin < size_bytes; }
  uint32_t &word(uint32_t address) { return words[(address - origin) >> 2]; }
};

/* A UART with the registers of the 16550 that the driver uses, its line on a socket without any delay. */
class Console {
 public:
  explicit Console(int fd) : fd_(fd) {}

  uint32_t read(uint32_t offset) {
    if (offset == 0u) {
      return next_ < filled_ ? input_[next_++] : 0u;
    }
    return offset == 4u ? status() << 8 : 0u; /* the word of modem control and line status */
  }

  void write(uint32_t offset, uint32_t data, uint32_t lanes) {
    if (offset != 0u) {
      return;
    }
    if (lanes & 8u) {
      is_divisor_ = (data >> 24 & 0x80u) != 0u;
    }
    if ((lanes & 1u) && !is_divisor_) {
      output_.push_back(static_cast<char>(data));
      asked_ = 0;
    }
  }

  void flush() {
    size_t sent = 0;
    while (sent < output_.size()) {
      const ssize_t count = ::send(fd_, output_.data() + sent, output_.size() - sent, MSG_NOSIGNAL);
      if (count < 0 && errno == EINTR) {
        continue;
      }
      if (count <= 0) {
        std::exit(0); /* nobody listens any longer */
      }
      sent += static_cast<size_t>(count);
    }
    output_.clear();
  }

 private:
  enum { TX_EMPTY = 0x60, RX_READY = 1, PATIENCE = 64, WAIT_MS = 20 };

  /* A core that asks again and again while nothing comes has nothing else to do: its clock rests meanwhile. */
  uint32_t status() {
    if (next_ == filled_) {
      asked_++;
      const bool idles = asked_ > PATIENCE;
      if (idles || asked_ == 1u) {
        receive(idles ? WAIT_MS : 0);
      }
    }
    return TX_EMPTY | (next_ < filled_ ? RX_READY : 0u);
  }

  void receive(int wait_ms) {
    flush();
    struct pollfd one = {fd_, POLLIN, 0};
    if (::poll(&one, 1, wait_ms) <= 0) {
      return;
    }
    const ssize_t count = ::recv(fd_, input_, sizeof input_, MSG_DONTWAIT);
    if (count == 0) {
      std::exit(0);
    }
    if (count > 0) {
      next_ = 0;
      filled_ = static_cast<size_t>(count);
      asked_ = 0;
    }
  }

  int fd_;
  std::string output_;
  uint8_t input_[4096];
  size_t next_ = 0;
  size_t filled_ = 0;
  uint64_t asked_ = 0;
  bool is_divisor_ = false;
};

class Soc {
 public:
  uint32_t uart = 0;
  uint32_t exit_register = 0;
  Console console;
  std::vector<Memory> memories;

  explicit Soc(int fd) : console(fd) {}

  bool ended() const { return is_ended_; }
  int status() const { return status_; }

  /* Word at an address; false: nothing is there. */
  bool read(uint32_t address, uint32_t *out_data) {
    *out_data = 0;
    if (Memory *memory = at(address)) {
      *out_data = memory->word(address);
      return true;
    }
    if (address - uart < 8u) {
      *out_data = console.read((address - uart) & ~3u);
      return true;
    }
    return address == exit_register;
  }

  /* Write the bytes of a word that `lanes` names; false: nothing is there, or it is read-only. */
  bool write(uint32_t address, uint32_t data, uint32_t lanes) {
    if (Memory *memory = at(address)) {
      if (!memory->is_writable) {
        return false;
      }
      const uint32_t mask =
          (lanes & 1u ? 0xFFu : 0u) | (lanes & 2u ? 0xFF00u : 0u) | (lanes & 4u ? 0xFF0000u : 0u) | (lanes & 8u ? 0xFF000000u : 0u);
      uint32_t &word = memory->word(address);
      word = (word & ~mask) | (data & mask);
      return true;
    }
    if (address - uart < 8u) {
      console.write((address - uart) & ~3u, data, lanes);
      return true;
    }
    if ((address & ~3u) == exit_register) {
      is_ended_ = true;
      status_ = static_cast<int>(data & 0xFFu);
      return true;
    }
    return false;
  }

  /* An access to an address where nothing answers, of which the core takes no notice: the run ends. */
  void lose(const char *what, uint32_t address) {
    std::fprintf(stderr, "%s 0x%08x, where nothing answers\n", what, address);
    is_lost_ = true;
  }

  bool lost() const { return is_lost_; }

  /* Cycles that a memory takes beyond the first. */
  uint32_t wait_states(uint32_t address) {
    const Memory *memory = at(address);
    return memory != nullptr ? memory->wait_states : 0u;
  }

  /* Fill the memories from the segments of an ELF file, by their load addresses. */
  uint32_t load(const char *path) {
    std::FILE *file = std::fopen(path, "rb");
    if (file == nullptr) {
      fail(path, std::strerror(errno));
    }
    std::vector<uint8_t> data;
    uint8_t piece[65536];
    for (size_t count; (count = std::fread(piece, 1, sizeof piece, file)) > 0;) {
      data.insert(data.end(), piece, piece + count);
    }
    std::fclose(file);
    Elf32_Ehdr head;
    if (data.size() < sizeof head) {
      fail(path, "it is no ELF file");
    }
    std::memcpy(&head, data.data(), sizeof head);
    if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS32) {
      fail(path, "it is no ELF file of 32 bits");
    }
    for (unsigned i = 0; i < head.e_phnum; i++) {
      Elf32_Phdr row;
      const uint64_t place = uint64_t{head.e_phoff} + uint64_t{i} * head.e_phentsize;
      if (place + sizeof row > data.size()) {
        fail(path, "it is cut off");
      }
      std::memcpy(&row, data.data() + place, sizeof row);
      if (row.p_type != PT_LOAD || row.p_filesz == 0u) {
        continue;
      }
      Memory *memory = at(row.p_paddr);
      if (memory == nullptr || row.p_filesz > memory->origin + memory->size_bytes - row.p_paddr) {
        fail(path, "a segment lies outside of the memories");
      }
      if (uint64_t{row.p_offset} + row.p_filesz > data.size()) {
        fail(path, "it is cut off");
      }
      uint8_t *to = reinterpret_cast<uint8_t *>(memory->words.data()) + (row.p_paddr - memory->origin);
      std::memcpy(to, data.data() + row.p_offset, row.p_filesz);
    }
    return head.e_entry;
  }

 private:
  Memory *at(uint32_t address) {
    for (Memory &memory : memories) {
      if (memory.holds(address)) {
        return &memory;
      }
    }
    return nullptr;
  }

  bool is_ended_ = false;
  bool is_lost_ = false;
  int status_ = 0;
};

/* One side of a bus whose answers take a number of cycles. */
class Waits {
 public:
  /* True in the cycle in which a request is answered that has stood for `wait_states` cycles. */
  bool answers(bool is_asked, uint32_t wait_states) {
    if (!is_asked || passed_ < wait_states) {
      passed_ = is_asked ? passed_ + 1u : 0u;
      return false;
    }
    passed_ = 0;
    return true;
  }

 private:
  uint32_t passed_ = 0;
};

/* Spans of the run that are counted: from reaching `begin` to reaching one of `ends`. */
class Windows {
 public:
  void add(const char *text) { /* NAME:BEGIN:END[:END...] */
    Window one;
    const char *colon = std::strchr(text, ':');
    if (colon == nullptr) {
      fail(text, "a window is NAME:BEGIN:END");
    }
    one.name.assign(text, colon);
    char *rest = const_cast<char *>(colon);
    one.begin = static_cast<uint32_t>(std::strtoul(rest + 1, &rest, 0));
    while (*rest == ':') {
      one.ends.push_back(static_cast<uint32_t>(std::strtoul(rest + 1, &rest, 0)));
    }
    windows_.push_back(one);
  }

  void open(const char *path) {
    out_ = std::fopen(path, "w");
    if (out_ == nullptr) {
      fail(path, std::strerror(errno));
    }
  }

  void retire(uint32_t pc, uint64_t cycle, uint64_t instructions) {
    for (Window &one : windows_) {
      if (one.is_open) {
        for (uint32_t end : one.ends) {
          if (pc == end) {
            close(one, cycle, instructions);
          }
        }
      } else if (pc == one.begin) {
        one.is_open = true;
        one.cycle = cycle;
        one.instructions = instructions;
      }
    }
  }

 private:
  struct Window {
    std::string name;
    uint32_t begin = 0;
    std::vector<uint32_t> ends;
    bool is_open = false;
    uint64_t cycle = 0;
    uint64_t instructions = 0;
    unsigned passes = 0;
  };

  void close(Window &one, uint64_t cycle, uint64_t instructions) {
    one.is_open = false;
    std::fprintf(out_, "{\"window\": \"%s\", \"index\": %u, \"instructions\": %" PRIu64 ", \"cycles\": %" PRIu64 "}\n",
                 one.name.c_str(), one.passes++, instructions - one.instructions, cycle - one.cycle);
    std::fflush(out_);
  }

  std::vector<Window> windows_;
  std::FILE *out_ = stderr;
};

enum { RESET_CYCLES = 10, FLUSH_CYCLES = 1 << 16 };

template <class Core>
int run(int argc, char **argv) {
  const char *elf = nullptr;
  int fd = 1;
  uint32_t wait_states = 0;
  uint32_t uart = 0;
  uint32_t exit_register = 0;
  std::vector<Memory> memories;
  Windows windows;
  for (int i = 1; i < argc; i++) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    const std::string key = argument.substr(0, equals);
    const char *value = equals == std::string::npos ? "" : argv[i] + equals + 1;
    if (key == "elf") {
      elf = value;
    } else if (key == "fd") {
      fd = std::atoi(value);
    } else if (key == "uart") {
      uart = static_cast<uint32_t>(std::strtoul(value, nullptr, 0));
    } else if (key == "exit") {
      exit_register = static_cast<uint32_t>(std::strtoul(value, nullptr, 0));
    } else if (key == "wait") {
      wait_states = static_cast<uint32_t>(std::strtoul(value, nullptr, 0));
    } else if (key == "flash" || key == "ram") {
      char *rest = nullptr;
      Memory one = {};
      one.origin = static_cast<uint32_t>(std::strtoul(value, &rest, 0));
      one.size_bytes = *rest == ':' ? static_cast<uint32_t>(std::strtoul(rest + 1, nullptr, 0)) : 0u;
      one.is_writable = key == "ram";
      one.words.resize(one.size_bytes / 4u);
      memories.push_back(one);
    } else if (key == "window") {
      windows.add(value);
    } else if (key == "out") {
      windows.open(value);
    } else {
      fail(argv[i], "it is no argument of this program");
    }
  }
  if (elf == nullptr) {
    fail("elf=PATH", "it is missing");
  }
  Soc soc(fd);
  for (Memory &one : memories) {
    one.wait_states = one.is_writable ? 0u : wait_states;
  }
  soc.memories = std::move(memories);
  soc.uart = uart;
  soc.exit_register = exit_register;
  Core core;
  core.start_at(soc.load(elf));
  uint64_t cycle = 0;
  uint64_t instructions = 0;
  uint32_t pc = 0;
  core.reset(true);
  while (!soc.ended()) {
    if (cycle == RESET_CYCLES) {
      core.reset(false);
    }
    core.cycle(soc);
    cycle++;
    if (core.retired(&pc)) {
      windows.retire(pc, cycle, instructions);
      instructions++;
    }
    if (cycle % FLUSH_CYCLES == 0u) {
      soc.console.flush();
    }
    if (core.stopped() || soc.lost()) {
      soc.console.flush();
      std::fprintf(stderr, "the core stopped behind the instruction at 0x%08x\n", pc);
      return 3;
    }
  }
  soc.console.flush();
  return soc.status();
}

#endif /* MLF_SOC_H */
