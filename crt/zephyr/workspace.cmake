# SPDX-License-Identifier: Apache-2.0
# What models need of the runtime: properties of its target, since all libraries of a build share one runtime.
target_compile_definitions(mlf PRIVATE
  MLF_WORKSPACE_SLOTS=$<BOOL:$<TARGET_PROPERTY:mlf,MLF_NEEDS_SLOTS>>
  MLF_WORKSPACE_STACK=$<BOOL:$<TARGET_PROPERTY:mlf,MLF_NEEDS_STACK>>
  MLF_STREAMS=$<BOOL:$<TARGET_PROPERTY:mlf,MLF_NEEDS_STREAMS>>)

# How models are run: from tables, or by the function that a compiled model has. With MLF_OBSERVE all have tables,
# and an application with tables of its own says nothing.
set(mlf_observes $<BOOL:${CONFIG_MLF_OBSERVE}>)
set(mlf_sequences $<AND:$<BOOL:$<TARGET_PROPERTY:mlf,MLF_NEEDS_SEQUENCES>>,$<NOT:${mlf_observes}>>)
target_compile_definitions(mlf PRIVATE
  MLF_SEQUENCES=${mlf_sequences}
  MLF_STEP_TABLES=$<OR:$<BOOL:$<TARGET_PROPERTY:mlf,MLF_NEEDS_TABLES>>,$<NOT:${mlf_sequences}>>)
