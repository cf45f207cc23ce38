"""`lagwatch check`: checks whether the agent can reach its clusters, log in, and read everything it needs."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from collectors.kafka_client.connection import KafkaConnection
from collectors.preflight.cluster import CheckTarget, check_cluster
from collectors.preflight.steps import ClusterCheck, Step
from lagwatch.assemble.connection import connection_options, name_filter
from lagwatch.cli.options import Json, seconds_in
from lagwatch.cli.output import FAILED, paint, print_json, print_lines, warn
from lagwatch.config import ClusterSettings, Settings, load_settings, parse_settings
from lagwatch.config.jmx import ClusterJmx
from lagwatch.errors import ConfigError
from lagwatch.text import counted, duration_text, one_line

EPILOG = "Example: lagwatch check lagwatch.yml --cluster east"
_COLOURS = {"ok": "green", "warning": "yellow", "failed": "red", "not tried": "bright_black"}
_CLUSTERS_AT_ONCE = 16


def check(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="the configuration, such as lagwatch.yml")] = None,
    bootstrap: Annotated[
        str | None, typer.Option(metavar="HOST:PORT,...", help="a cluster without TLS and login, instead of a file")
    ] = None,
    cluster: Annotated[str | None, typer.Option(metavar="NAME", help="only this cluster of the file")] = None,
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="timeout of each step")] = "5s",
    expires_within: Annotated[
        str, typer.Option(metavar="DURATION", help="warn of certificates that expire within this time")
    ] = "30d",
    as_json: Json = False,
) -> None:
    """Check the connection to each cluster, step by step, and every ACL.

    Checks names, ports, certificates, the login, the address each broker advertises, each request the agent sends with the
    ACL it needs, and the JMX port of every node that has one. Exit 0 without findings, 1 with findings, 2 when a cluster
    could not be queried.
    """
    seconds, soon = seconds_in(timeout, "--timeout"), seconds_in(expires_within, "--expires-within")
    settings, clusters = _clusters(file, bootstrap, cluster, as_json=as_json)
    with ThreadPoolExecutor(min(len(clusters), _CLUSTERS_AT_ONCE)) as pool:
        checks = [pool.submit(_check_one, one, settings, seconds, soon) for one in clusters]
        results = []
        for number, running in enumerate(checks):
            results.append(running.result())
            if not as_json:
                _print_check(results[-1], first=number == 0)
    code = max(result.exit_code for result in results)
    if as_json:
        print_json({"exit_code": code, "clusters": [_as_json(result) for result in results]})
    raise typer.Exit(code)


def _check_one(cluster: ClusterSettings, settings: Settings, seconds: float, expires_within: float) -> ClusterCheck:
    topics, groups = name_filter(cluster.topics), name_filter(cluster.groups)
    target = CheckTarget(cluster.name, connection_options(cluster), topics, groups, cluster.commits)
    found = check_cluster(target, seconds=seconds, expires_within=expires_within, now=time.time())
    if cluster.jmx is None:
        return found
    return replace(found, steps=(*found.steps, *_check_jmx(cluster, cluster.jmx, settings, seconds)))


def _check_jmx(cluster: ClusterSettings, jmx: ClusterJmx, settings: Settings, seconds: float) -> list[Step]:
    from collectors.preflight.jmx import check_jmx  # noqa: PLC0415 -- most clusters are checked without JMX
    from lagwatch.assemble.jmx import JmxAssembly, endpoints_of  # noqa: PLC0415

    jmx_assembly, kafka = JmxAssembly(settings), KafkaConnection(connection_options(cluster))
    try:
        stub_of = jmx_assembly.stub_of(jmx) if jmx.via == "rmi" else None
        return check_jmx(endpoints_of(jmx, kafka).find(seconds), jmx_assembly.connect(jmx), stub_of, seconds=seconds)
    finally:
        kafka.close()
        jmx_assembly.close()


def _clusters(
    file: Path | None, bootstrap: str | None, name: str | None, *, as_json: bool
) -> tuple[Settings, Sequence[ClusterSettings]]:
    """The settings and the clusters to check; exits with 2 when the configuration is invalid."""
    if (file is None) == (bootstrap is None):
        raise typer.BadParameter("give either a configuration file or --bootstrap", param_hint="FILE")
    try:
        if file is not None:
            settings = load_settings(file)
        else:
            text = json.dumps({"clusters": [{"name": "bootstrap", "bootstrap": bootstrap}]})
            settings = parse_settings(text, "--bootstrap")
        return settings, settings.clusters if name is None else [settings.cluster(name)]
    except ConfigError as error:
        problems = list(error.problems)
    except KeyError as error:
        problems = [str(error.args[0])]
    if as_json:
        print_json({"exit_code": FAILED, "problems": problems})
    for problem in problems:
        warn(problem)
    raise typer.Exit(FAILED)


def _as_json(result: ClusterCheck) -> dict[str, Any]:
    return asdict(result) | {"exit_code": result.exit_code}


def _print_check(result: ClusterCheck, *, first: bool) -> None:
    lines = [] if first else [""]
    lines.append(f"cluster {result.cluster}: {', '.join(result.bootstrap)}, {result.how}")
    lines += _table(result.steps)
    lines.append(f"cluster {result.cluster}: {_summary(result)}")
    print_lines(lines)


def _table(steps: Sequence[Step]) -> list[str]:
    """A line for each step, and below it the action to take; the same action is printed only once."""
    stopped = {step.message for step in steps if step.state == "not tried" and _not_tried(steps, step.message)[1:]}
    names = max(len(step.step) for step in steps)
    targets = max(len(step.target) for step in steps)
    lines: list[str] = []
    printed: set[str] = set()
    for step in steps:
        if step.state == "not tried" and step.message in stopped:
            continue
        state = paint(step.state.ljust(9), _COLOURS[step.state])
        where = f"{step.step.ljust(names)}  {step.target.ljust(targets)}  {_took(step).rjust(5)}"
        lines.append(f"  {state}  {where}  {one_line(step.message)}".rstrip())
        lines += [f"{' ' * 13}{line}" for line in _advice(step) if line not in printed]
        printed.update(_advice(step))
    for reason in sorted(stopped):
        state = paint("not tried", _COLOURS["not tried"])
        lines.append(f"  {state}  {', '.join(_not_tried(steps, reason))}: {reason}")
    return lines


def _not_tried(steps: Sequence[Step], reason: str) -> list[str]:
    return [step.step for step in steps if step.state == "not tried" and step.message == reason]


def _took(step: Step) -> str:
    if step.seconds is None:
        return ""
    return duration_text(step.seconds) if step.seconds >= 1 else f"{step.seconds * 1000:.0f}ms"


def _advice(step: Step) -> list[str]:
    if not step.action:
        return []
    needs = [f"needs {step.needs}"] if step.needs else []
    impact = [f"without it: {step.impact}"] if step.impact else []
    actions = [f"do: {one_line(line)}" for line in step.action.splitlines()]
    return ["; ".join(needs + impact)] * bool(needs + impact) + actions


def _summary(result: ClusterCheck) -> str:
    if not result.reached_brokers:
        return "could not be queried"
    found = sum(step.is_finding for step in result.steps)
    return counted(found, "finding") if found else "all fine"
