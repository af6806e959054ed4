/* SPDX-License-Identifier: Apache-2.0 */
/* picorv32.cpp - PicoRV32 with a memory that answers in the cycle of the request. */
#include "Vpicorv32.h"
#include "soc.h"

class Core {
 public:
  Core() {
    top_.clk = 0;
    top_.irq = 0;
    top_.pcpi_wr = 0;
    top_.pcpi_wait = 0;
    top_.pcpi_ready = 0;
  }

  void start_at(uint32_t pc) {
    if (pc != MLF_RESET_VECTOR) {
      fail("the entry of the image", "this model was built for another reset vector");
    }
  }

  void reset(bool active) { top_.resetn = !active; }

  void cycle(Soc &soc) {
    top_.clk = 0;
    top_.eval();
    const bool is_asked = top_.mem_valid && top_.resetn;
    const uint32_t address = top_.mem_addr;
    const bool is_ready = bus_.answers(is_asked, is_asked ? soc.wait_states(address) : 0u);
    if (is_ready) {
      uint32_t word = 0;
      const bool is_known = top_.mem_wstrb != 0 ? soc.write(address, top_.mem_wdata, top_.mem_wstrb)
                                                : soc.read(address, &word);
      top_.mem_rdata = word;
      if (!is_known) { /* the core has no input for an error of the bus */
        soc.lose(top_.mem_wstrb != 0 ? "a store to" : "a load from", address);
      }
    }
    top_.mem_ready = is_ready;
    top_.eval();
    top_.clk = 1;
    top_.eval();
  }

  bool retired(uint32_t *out_pc) const {
    if (top_.rvfi_valid) {
      *out_pc = top_.rvfi_pc_rdata;
    }
    return top_.rvfi_valid;
  }

  bool stopped() const { return top_.trap && top_.resetn; }

 private:
  mutable Vpicorv32 top_;
  Waits bus_;
};

int main(int argc, char **argv) { return run<Core>(argc, argv); }
