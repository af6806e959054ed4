/* SPDX-License-Identifier: Apache-2.0 */
/* For generated model files and entry adapters. Not for applications. */
#ifndef MLF_MLF_ADAPTER_H
#define MLF_MLF_ADAPTER_H

#include <mlf/mlf.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A const object as TVM's ABI takes it. DLTensor.data, TVMValue.v_handle and the arguments of kernels are plain
 * `void *`, though compiled kernels never write to parameters, shapes, type codes or argument arrays. This is
 * the one place where const is dropped; everything else that lies in flash is const. Constant expression. */
#define MLF_ABI_POINTER(object) ((void *)(uintptr_t)(object))

/* Guard bytes on each side of the objects of a model without a memory plan (--plan none): `bytes`, or 0 where the
 * address sanitizer puts red zones around every object. */
#if defined(__SANITIZE_ADDRESS__)
#define MLF_GUARD(bytes) 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MLF_GUARD(bytes) 0
#endif
#endif
#ifndef MLF_GUARD
#define MLF_GUARD(bytes) (bytes)
#endif

/* Every request of an ahead-of-time entry is rounded up to this many bytes. */
#define MLF_STACK_ALIGN 16u

/* Give the step that runs now one last-in-first-out workspace of `size_bytes` at `base`
 * (both multiples of MLF_STACK_ALIGN) in place of its slots. */
void mlf_stack_begin(uint8_t *base, uint32_t size_bytes);

#ifdef __cplusplus
}
#endif

#endif /* MLF_MLF_ADAPTER_H */
