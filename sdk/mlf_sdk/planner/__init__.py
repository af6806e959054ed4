# SPDX-License-Identifier: Apache-2.0
"""Pure memory planning: lifetimes, order, offsets, lower bound."""

from mlf_sdk.planner.plan import MemoryPlan, Placed, PlanError, check_plan, plan_memory
from mlf_sdk.planner.problem import Access, PlanProblem, PlanStep, PlanTensor, PlanWorkspace

__all__ = [
    "Access",
    "MemoryPlan",
    "Placed",
    "PlanError",
    "PlanProblem",
    "PlanStep",
    "PlanTensor",
    "PlanWorkspace",
    "check_plan",
    "plan_memory",
]
