"""The judge of one cluster: polls and commits in, verdicts out. Between `windows/` and `verdict/` and what polls bring."""

from lagwatch.evaluation.evaluator import Evaluator
from lagwatch.evaluation.groups import EvaluatedRows
from lagwatch.evaluation.policies import Override, Policies, PolicySettings
from lagwatch.evaluation.results import GroupEvaluation, PollEvaluation

__all__ = ["EvaluatedRows", "Evaluator", "GroupEvaluation", "Override", "Policies", "PolicySettings", "PollEvaluation"]
