"""The judge of one cluster: polls and commits in, verdicts out. Between `windows/` and `verdict/` and what polls bring."""

from lagwatch.judging.group_judgements import JudgedRows
from lagwatch.judging.judge import Judge
from lagwatch.judging.judged import GroupJudgement, Judged
from lagwatch.judging.policies import Override, Policies, Rules

__all__ = ["GroupJudgement", "Judge", "Judged", "JudgedRows", "Override", "Policies", "Rules"]
