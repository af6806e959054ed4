// SPDX-License-Identifier: Apache-2.0
// ibex.sv - Ibex without debugger, scrambling and interrupts, and the primitives by the plain names that its
// build system would generate. A clock that is never gated takes the same cycles.
package prim_pkg;
  typedef enum integer { ImplGeneric } impl_e;
endpackage

module prim_buf #(parameter int Width = 1) (
  input logic [Width-1:0] in_i, output logic [Width-1:0] out_o);
  assign out_o = in_i;
endmodule

module prim_and2 #(parameter int Width = 1) (
  input logic [Width-1:0] in0_i, input logic [Width-1:0] in1_i, output logic [Width-1:0] out_o);
  assign out_o = in0_i & in1_i;
endmodule

module prim_flop #(parameter int Width = 1, parameter logic [Width-1:0] ResetValue = 0) (
  input logic clk_i, input logic rst_ni, input logic [Width-1:0] d_i, output logic [Width-1:0] q_o);
  always_ff @(posedge clk_i or negedge rst_ni)
    if (!rst_ni) q_o <= ResetValue;
    else q_o <= d_i;
endmodule

module prim_clock_gating #(parameter bit NoFpgaGate = 0, parameter bit FpgaBufGlobal = 1) (
  input logic clk_i, input logic en_i, input logic test_en_i, output logic clk_o);
  assign clk_o = clk_i;
endmodule

module mlf_ibex import ibex_pkg::*; #(
  parameter int M = 3, parameter bit BT = 1, parameter bit WB = 1
) (
  input logic clk_i, input logic rst_ni, input logic [31:0] boot_addr,
  output logic instr_req, input logic instr_gnt, output logic [31:0] instr_addr,
  input logic instr_rvalid, input logic [31:0] instr_rdata, input logic instr_err,
  output logic data_req, input logic data_gnt, output logic data_we, output logic [3:0] data_be,
  output logic [31:0] data_addr, output logic [31:0] data_wdata,
  input logic data_rvalid, input logic [31:0] data_rdata, input logic data_err,
  output logic rvfi_valid, output logic [31:0] rvfi_pc_rdata
);
  ibex_top #(.RV32M(rv32m_e'(M)), .BranchTargetALU(BT), .WritebackStage(WB), .PMPEnable(1'b1)) core (
    .clk_i, .rst_ni, .test_en_i(1'b0), .ram_cfg_i('0), .hart_id_i('0), .boot_addr_i(boot_addr),
    .instr_req_o(instr_req), .instr_gnt_i(instr_gnt), .instr_rvalid_i(instr_rvalid),
    .instr_addr_o(instr_addr), .instr_rdata_i(instr_rdata), .instr_rdata_intg_i('0), .instr_err_i(instr_err),
    .data_req_o(data_req), .data_gnt_i(data_gnt), .data_rvalid_i(data_rvalid), .data_we_o(data_we),
    .data_be_o(data_be), .data_addr_o(data_addr), .data_wdata_o(data_wdata), .data_wdata_intg_o(),
    .data_rdata_i(data_rdata), .data_rdata_intg_i('0), .data_err_i(data_err),
    .irq_software_i(1'b0), .irq_timer_i(1'b0), .irq_external_i(1'b0), .irq_fast_i('0), .irq_nm_i(1'b0),
    .scramble_key_valid_i(1'b0), .scramble_key_i('0), .scramble_nonce_i('0), .scramble_req_o(),
    .debug_req_i(1'b0), .crash_dump_o(), .double_fault_seen_o(), .rvfi_valid, .rvfi_pc_rdata,
    .fetch_enable_i(IbexMuBiOn), .alert_minor_o(), .alert_major_internal_o(), .alert_major_bus_o(),
    .core_sleep_o(), .scan_rst_ni(1'b1));
endmodule
