"""The log lines quoted when a node fails to start."""

from __future__ import annotations

import pytest

from lagwatch.demo.kafka_node import error_lines

INFO = "19:18:40.363 [main] INFO kafka.server.KafkaRaftServer - all is well"


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ([INFO, "a", "b", "c"], "a|b|c"),  # no error: the end
        ([INFO, "x [main] ERROR fatal", "cause", *[INFO] * 9], f"x [main] ERROR fatal|cause|{INFO}"),  # not the goodbye
        ([INFO, INFO, "java.rmi.server.ExportException: Port already in use: 1"], None),  # an error at the end: the end
        ([], ""),
    ],
)
def test_the_quoted_lines_contain_the_cause(log: list[str], expected: str | None) -> None:
    wanted = "|".join(log) if expected is None else expected

    assert error_lines("\n".join(log), count=3) == wanted.replace("|", "\n")
