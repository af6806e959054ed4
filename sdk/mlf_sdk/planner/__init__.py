# SPDX-License-Identifier: Apache-2.0
"""Memory planning: lifetimes, execution order, offsets, lower bound. Pure functions."""

from mlf_sdk.planner.plan import MemoryPlan, PlacedBuffer, PlanError, check_plan, plan_apart, plan_memory
from mlf_sdk.planner.problem import Access, PlanOverlap, PlanProblem, PlanStep, PlanTensor, PlanWorkspace

__all__ = [
    "Access",
    "MemoryPlan",
    "PlacedBuffer",
    "PlanError",
    "PlanOverlap",
    "PlanProblem",
    "PlanStep",
    "PlanTensor",
    "PlanWorkspace",
    "check_plan",
    "plan_apart",
    "plan_memory",
]
