/* SPDX-License-Identifier: Apache-2.0 */
/* The tensor ABI that compiled kernels use (DLPack 0.2 - 0.6 layout), written for this runtime. */
#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DLPACK_VERSION 60

typedef enum { kDLCPU = 1 } DLDeviceType;

typedef struct {
  int32_t device_type; /* DLDeviceType; an enum may be shorter, and kernels in machine code read four bytes */
  int device_id;
} DLDevice;

typedef enum { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLOpaqueHandle = 3, kDLBfloat = 4 } DLDataTypeCode;

typedef struct {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} DLDataType;

typedef struct {
  void *data;
  DLDevice device;
  int ndim;
  DLDataType dtype;
  int64_t *shape;
  int64_t *strides; /* NULL: compact, row-major */
  uint64_t byte_offset;
} DLTensor;

#ifdef __cplusplus
}
#endif

#endif /* DLPACK_DLPACK_H_ */
