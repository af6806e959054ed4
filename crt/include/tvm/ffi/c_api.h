/* SPDX-License-Identifier: Apache-2.0 */
/* The part of tvm-ffi's C ABI (TVM 0.21 on) that generated sources name, written for this runtime. */
#ifndef TVM_FFI_C_API_H_
#define TVM_FFI_C_API_H_

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef TVM_FFI_DLL
#define TVM_FFI_DLL
#endif

/* Type indices of values that need no reference count. */
typedef enum {
  kTVMFFINone = 0,
  kTVMFFIInt = 1,
  kTVMFFIBool = 2,
  kTVMFFIFloat = 3,
  kTVMFFIOpaquePtr = 4,
  kTVMFFIDataType = 5,
  kTVMFFIDevice = 6,
  kTVMFFIDLTensorPtr = 7,
  kTVMFFIRawStr = 8
} TVMFFITypeIndex;

/* A tagged value: an argument or a result of a kernel. */
typedef struct {
  int32_t type_index;
  uint32_t zero_padding;
  __extension__ union { /* C11 */
    int64_t v_int64;
    double v_float64;
    void *v_ptr;
    const char *v_c_str;
    DLDataType v_dtype;
    DLDevice v_device;
  };
} TVMFFIAny;

/* An argument does not fit the kernel: `kind` of the error and the parts of its message. */
void TVMFFIErrorSetRaisedFromCStrParts(const char *kind, const char **message_parts, int32_t num_parts);
void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message);

#ifdef __cplusplus
}
#endif

#endif /* TVM_FFI_C_API_H_ */
