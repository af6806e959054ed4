/* SPDX-License-Identifier: Apache-2.0 */
/* vexriscv.cpp - VexRiscv with two Wishbone buses, whose memories answer in the cycle of the request. */
#include "VVexRiscv.h"
#include "VVexRiscv_VexRiscv.h"
#include "soc.h"

class Core {
 public:
  Core() {
    top_.timerInterrupt = 0;
    top_.softwareInterrupt = 0;
    top_.externalInterruptArray = 0;
    top_.clk = 0;
  }

  void start_at(uint32_t pc) { top_.externalResetVector = pc; }

  void reset(bool active) { top_.reset = active; }

  void cycle(Soc &soc) {
    top_.clk = 0;
    top_.eval();
    const bool fetches = top_.iBusWishbone_CYC && top_.iBusWishbone_STB;
    const bool accesses = top_.dBusWishbone_CYC && top_.dBusWishbone_STB;
    const uint32_t fetched = top_.iBusWishbone_ADR << 2;
    const uint32_t accessed = top_.dBusWishbone_ADR << 2;
    const bool is_fetched = code_.answers(fetches, fetches ? soc.wait_states(fetched) : 0u);
    const bool is_accessed = data_.answers(accesses, accesses ? soc.wait_states(accessed) : 0u);
    uint32_t word = 0;
    bool is_known = true;
    if (is_fetched) {
      is_known = soc.read(fetched, &word);
      top_.iBusWishbone_DAT_MISO = word;
    }
    top_.iBusWishbone_ACK = is_fetched; /* the core takes an error with the answer only */
    top_.iBusWishbone_ERR = is_fetched && !is_known;
    is_known = true;
    if (is_accessed && !top_.reset) {
      if (top_.dBusWishbone_WE) {
        is_known = soc.write(accessed, top_.dBusWishbone_DAT_MOSI, top_.dBusWishbone_SEL);
      } else {
        is_known = soc.read(accessed, &word);
        top_.dBusWishbone_DAT_MISO = word;
      }
    }
    if (!is_known) { /* the core's data bus has no input for it that counts */
      soc.lose(top_.dBusWishbone_WE ? "a store to" : "a load from", accessed);
    }
    top_.dBusWishbone_ACK = is_accessed;
    top_.eval();
    is_retired_ = top_.VexRiscv->lastStageIsFiring;
    pc_ = top_.VexRiscv->lastStagePc;
    top_.clk = 1;
    top_.eval();
  }

  bool retired(uint32_t *out_pc) const {
    *out_pc = is_retired_ ? pc_ : *out_pc;
    return is_retired_;
  }

  bool stopped() const { return false; }

 private:
  VVexRiscv top_;
  Waits code_;
  Waits data_;
  bool is_retired_ = false;
  uint32_t pc_ = 0;
};

int main(int argc, char **argv) { return run<Core>(argc, argv); }
