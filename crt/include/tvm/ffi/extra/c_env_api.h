/* SPDX-License-Identifier: Apache-2.0 */
/* Generated sources include it; kernels that need nothing but their arguments use nothing of it. */
#ifndef TVM_FFI_EXTRA_C_ENV_API_H_
#define TVM_FFI_EXTRA_C_ENV_API_H_

#include <tvm/ffi/c_api.h>

#endif /* TVM_FFI_EXTRA_C_ENV_API_H_ */
