/* SPDX-License-Identifier: Apache-2.0 */
/* A small dynamic model for tests and fuzzing, with blobs written by C of their own: two kernels, one
 * workspace, an input and an output of 16 bytes, TINY_PARAMS bytes of parameters. */
#ifndef TINY_MODEL_H
#define TINY_MODEL_H

#include "mlf_dynamic.h"

#define TINY_PARAMS 80u
#define TINY_ARENA 64u
#define TINY_IO 16u
#define TINY_GRAPH 336u /* bytes of the graph blob, at most */
#define TINY_BLOB (MLF_PARAMS_HEADER_BYTES + TINY_PARAMS)
#define TINY_WORDS MLF_GRAPH_WORDS(4u, 5u, 1u, 2u, 2u)

/* Write the graph blob; returns its size. */
uint32_t tiny_graph(uint8_t *out);

/* Write a parameter blob of TINY_BLOB bytes whose data is made from `seed`. */
void tiny_params(uint8_t *out, const uint8_t *graph_id, uint8_t seed);

/* Set a blob's CRC (graph) or CRCs (parameters, as far as there are that many bytes) right. */
void tiny_graph_crc(uint8_t *blob, uint32_t size);
void tiny_params_crc(uint8_t *blob, uint32_t size);

/* What the image would have; kernels touch every byte of their arguments and workspaces. The output
 * depends on every byte of the input and of the parameters. */
extern const mlf_graph_kernel_t tiny_kernels[2];
extern const int32_t tiny_type_codes[3];

/* The output for an input of bytes `x` and parameters made from `seed`. */
void tiny_reference(uint8_t *out, uint8_t x, uint8_t seed);

#endif /* TINY_MODEL_H */
