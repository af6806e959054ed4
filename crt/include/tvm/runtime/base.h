/* SPDX-License-Identifier: Apache-2.0 */
/* Generated sources of TVM 0.21 on include it; what they use of it is in c_runtime_api.h. */
#ifndef TVM_RUNTIME_BASE_H_
#define TVM_RUNTIME_BASE_H_

#include <tvm/runtime/c_runtime_api.h>

#endif /* TVM_RUNTIME_BASE_H_ */
