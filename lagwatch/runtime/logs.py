"""Formats log lines: text on a terminal, one JSON object per line otherwise."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

_QUIET = ("apscheduler", "urllib3")  # apscheduler would log every poll


def set_up_logging(level: str) -> None:
    """Send log lines to standard error. May be called again, as a reload does."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_TextFormatter() if sys.stderr.isatty() else _JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = f"{_time(record)} {record.levelname:<7} {record.getMessage()}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {"at": _time(record), "level": record.levelname, "logger": record.name, "message": record.getMessage()}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
