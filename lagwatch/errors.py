"""The errors lagwatch raises, typed by what the caller should do about them."""

from __future__ import annotations

from collections.abc import Sequence


class LagwatchError(Exception):
    """Something lagwatch can explain in words; the command line prints it without a traceback."""


class ConfigError(LagwatchError):
    """A configuration that cannot be used, with every mistake in it."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class SourceError(LagwatchError):
    """A source (a cluster, a broker) could not be asked."""


class JournalError(LagwatchError):
    """The journal cannot be opened or read."""


class JournalInUseError(JournalError):
    """Another agent writes this journal."""


class SinkError(LagwatchError):
    """A sink did not take what it was given.

    `retriable`: the same may be taken later; wait `retry_after_seconds` where the sink says how long. Otherwise the rows
    themselves are at fault.
    """

    def __init__(self, reason: str, *, retriable: bool, retry_after_seconds: float | None = None) -> None:
        super().__init__(reason)
        self.retriable = retriable
        self.retry_after_seconds = retry_after_seconds
