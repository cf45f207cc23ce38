"""Evaluates the consumer groups of a cluster: feeds polls and commits to `windows/` and applies the rules of `verdict/`."""

from lagwatch.evaluation.evaluator import Evaluator
from lagwatch.evaluation.groups import EvaluatedRows
from lagwatch.evaluation.policies import Override, Policies, PolicySettings
from lagwatch.evaluation.results import GroupEvaluation, PollEvaluation

__all__ = ["EvaluatedRows", "Evaluator", "GroupEvaluation", "Override", "Policies", "PolicySettings", "PollEvaluation"]
