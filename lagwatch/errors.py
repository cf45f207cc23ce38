"""The exceptions lagwatch raises, by what the caller does about them."""

from __future__ import annotations

from collections.abc import Sequence


class LagwatchError(Exception):
    """An expected error with a message for the user; the command line prints it without a traceback."""


class ConfigError(LagwatchError):
    """An invalid configuration, with all its mistakes."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class SourceError(LagwatchError):
    """A source (a cluster, a broker) could not be queried."""


class JournalError(LagwatchError):
    """The journal cannot be opened or read."""


class JournalInUseError(JournalError):
    """Another agent has this journal open for writing."""


class SinkError(LagwatchError):
    """A sink did not accept a write.

    `retriable`: a retry may succeed, after `retry_after_seconds` where the sink says how long. Otherwise the rows are at
    fault.
    """

    def __init__(self, reason: str, *, retriable: bool, retry_after_seconds: float | None = None) -> None:
        super().__init__(reason)
        self.retriable = retriable
        self.retry_after_seconds = retry_after_seconds
