/* SPDX-License-Identifier: Apache-2.0 */
/* The part of tvm-ffi's environment that generated code names, written for this runtime. */
#ifndef TVM_FFI_EXTRA_C_ENV_API_H_
#define TVM_FFI_EXTRA_C_ENV_API_H_

#include <tvm/ffi/c_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Does nothing: kernels are called by their symbols. */
int TVMFFIEnvModRegisterSystemLibSymbol(const char *name, void *symbol);

#ifdef __cplusplus
}
#endif

#endif /* TVM_FFI_EXTRA_C_ENV_API_H_ */
