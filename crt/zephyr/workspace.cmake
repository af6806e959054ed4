# SPDX-License-Identifier: Apache-2.0
# What models need of the runtime: properties of its target, since all libraries of a build share one runtime.
target_compile_definitions(mlf PRIVATE
  MLF_WORKSPACE_SLOTS=$<BOOL:$<TARGET_PROPERTY:mlf,MLF_NEEDS_SLOTS>>
  MLF_WORKSPACE_STACK=$<BOOL:$<TARGET_PROPERTY:mlf,MLF_NEEDS_STACK>>)
