/* SPDX-License-Identifier: Apache-2.0 */
/* ibex.cpp - Ibex with a port for code and one for data, whose memories answer in the cycle behind the request. */
#include "Vmlf_ibex.h"
#include "soc.h"

/* A memory that takes the next request when it answers the last one. */
class Port {
 public:
  /* True: a request can be taken in this cycle. */
  bool is_free() const { return !is_busy_ || left_ == 0u; }

  /* Take what is asked, in a cycle with is_free(). */
  void take(bool is_asked, uint32_t wait_states, bool is_known, uint32_t data) {
    is_busy_ = is_asked;
    left_ = wait_states;
    is_known_ = is_known;
    data_ = data;
  }

  void pass() { left_--; }

  bool answers() const { return is_busy_ && left_ == 0u; }
  bool is_error() const { return !is_known_; }
  uint32_t data() const { return data_; }

 private:
  bool is_busy_ = false;
  uint32_t left_ = 0;
  bool is_known_ = true;
  uint32_t data_ = 0;
};

class Core {
 public:
  enum { RESET_OFFSET = 0x80, TABLE_ALIGNMENT = 0x100 }; /* the first instruction lies in the table of vectors */

  Core() { top_.clk_i = 0; }

  void start_at(uint32_t pc) {
    if ((pc - RESET_OFFSET) % TABLE_ALIGNMENT != 0u) {
      fail("the entry of the image", "Ibex starts 0x80 behind a multiple of 0x100");
    }
    top_.boot_addr = pc - RESET_OFFSET;
  }

  void reset(bool active) { top_.rst_ni = !active; }

  void cycle(Soc &soc) {
    top_.clk_i = 0;
    top_.instr_gnt = code_.is_free();
    top_.data_gnt = data_.is_free();
    top_.eval();
    const bool fetches = top_.instr_req && top_.instr_gnt && top_.rst_ni;
    const bool accesses = top_.data_req && top_.data_gnt && top_.rst_ni;
    const uint32_t fetched = top_.instr_addr;
    const uint32_t accessed = top_.data_addr;
    uint32_t word = 0;
    bool is_known = true;
    if (code_.is_free()) {
      is_known = !fetches || soc.read(fetched, &word);
      code_.take(fetches, fetches ? soc.wait_states(fetched) : 0u, is_known, word);
    } else {
      code_.pass();
    }
    if (data_.is_free()) {
      is_known = true;
      word = 0;
      if (accesses && top_.data_we) {
        is_known = soc.write(accessed, top_.data_wdata, top_.data_be);
      } else if (accesses) {
        is_known = soc.read(accessed, &word);
      }
      data_.take(accesses, accesses ? soc.wait_states(accessed) : 0u, is_known, word);
    } else {
      data_.pass();
    }
    top_.clk_i = 1;
    top_.eval();
    top_.instr_rvalid = code_.answers();
    top_.instr_rdata = code_.data();
    top_.instr_err = code_.answers() && code_.is_error();
    top_.data_rvalid = data_.answers();
    top_.data_rdata = data_.data();
    top_.data_err = data_.answers() && data_.is_error();
  }

  bool retired(uint32_t *out_pc) const {
    if (top_.rvfi_valid) {
      *out_pc = top_.rvfi_pc_rdata;
    }
    return top_.rvfi_valid;
  }

  bool stopped() const { return false; }

 private:
  mutable Vmlf_ibex top_;
  Port code_;
  Port data_;
};

int main(int argc, char **argv) { return run<Core>(argc, argv); }
