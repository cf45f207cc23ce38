"""Everything about a running agent that its settings decide, as plain values that can be compared."""

from __future__ import annotations

import logging
import re
import types
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from lagwatch.runtime.agent import Agent
from tests.harness.scripted_agents import intervals

_PLAIN = (bool, int, float, str, bytes, timedelta, Path, Enum, type, types.NoneType, types.BuiltinFunctionType)
_OURS = ("lagwatch.", "collectors.", "tests.")


def fingerprint(agent: Agent) -> dict[str, Any]:
    """Jobs with their collectors and connections, evaluators, JMX, sinks, journal, and the agent itself."""
    clusters = {}
    for name, state in agent._states.items():
        pipeline = state.pipeline
        evaluator = pipeline.evaluator
        clusters[name] = {
            "policies": (evaluator.policies._all, evaluator.policies._overrides),
            "slots": (evaluator.store.slots, evaluator._slot_ms, evaluator.poll_ms, pipeline.write_times.poll_ms),
            "reads topic": evaluator.reads_topic,
        }
    found = {
        "jobs": intervals(agent),
        "collectors": {name: runner.job.collector for name, runner in agent._runners.items()},
        "clusters": clusters,
        "jmx": agent._assembled.jmx,
        "sinks": [(shipper.sink, shipper._rate) for shipper in agent._shipping._shippers],
        "journal": (agent._journal.path, agent._journal._trimming._history_ms, agent._journal._trimming._every_ms),
        "name": agent._self_metrics().rows["agent"][0].as_py(),
        "log level": logging.getLogger().level,
    }
    return {name: _plain(value, ()) for name, value in found.items()}


def _plain(value: Any, inside: tuple[int, ...]) -> Any:
    """A value as text and containers of text; of objects of ours all attributes, of functions what they enclose."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if id(value) in inside:
        return "..."
    inside = (*inside, id(value))
    if isinstance(value, Mapping):
        return {str(_plain(key, inside)): _plain(one, inside) for key, one in value.items()}
    if isinstance(value, AbstractSet):
        return sorted(str(_plain(one, inside)) for one in value)
    if isinstance(value, list | tuple):
        return [_plain(one, inside) for one in value]
    return _plain_object(value, inside)


def _plain_object(value: Any, inside: tuple[int, ...]) -> Any:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, re.Pattern):
        return (value.pattern, value.flags)
    if isinstance(value, types.MethodType):
        return [value.__name__, _plain(value.__self__, inside)]
    if isinstance(value, types.FunctionType):
        return [value.__qualname__, *(_plain(cell.cell_contents, inside) for cell in value.__closure__ or ())]
    if not type(value).__module__.startswith(_OURS):
        return type(value).__name__  # locks, threads, sockets
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()) if name[:2] != "__"]
    names = sorted({*getattr(value, "__dict__", {}), *slots})
    return {"type": type(value).__name__, **{name: _plain(getattr(value, name, None), inside) for name in names}}
