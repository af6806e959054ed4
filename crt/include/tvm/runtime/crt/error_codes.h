/* SPDX-License-Identifier: Apache-2.0 */
/* Error codes that generated sources name; what matters to this runtime is zero or not zero. */
#ifndef TVM_RUNTIME_CRT_ERROR_CODES_H_
#define TVM_RUNTIME_CRT_ERROR_CODES_H_

typedef enum {
  kTvmErrorNoError = 0,
  kTvmErrorPlatformCheckFailure = 1,
  kTvmErrorPlatformNoMemory = 2,
  kTvmErrorFunctionCallNumArguments = 3,
  kTvmErrorFunctionCallWrongArgType = 4,
  kTvmErrorFunctionCallNotImplemented = 5,
  kTvmErrorFunctionCallInvalidArg = 6,
  kTvmErrorGeneratedInvalidStorageId = 7
} tvm_crt_error_t;

#endif /* TVM_RUNTIME_CRT_ERROR_CODES_H_ */
