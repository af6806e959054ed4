/* SPDX-License-Identifier: Apache-2.0 */
/* Names of TVM's system-library registry. Registries are left out of the build (functions are called
 * directly); this header lets a file that mixes one with kernels compile. */
#ifndef TVM_RUNTIME_CRT_MODULE_H_
#define TVM_RUNTIME_CRT_MODULE_H_

#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/c_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TVMFuncRegistry {
  const char *names;
  TVMBackendPackedCFunc *funcs;
} TVMFuncRegistry;

typedef struct TVMModule {
  const TVMFuncRegistry *registry;
} TVMModule;

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_MODULE_H_ */
