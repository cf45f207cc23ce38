"""Loads a file into settings, or reports every error as `file:line:column: path: message`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from lagwatch.config.error_text import describe_error
from lagwatch.config.interpolation import quote
from lagwatch.config.settings import Settings
from lagwatch.config.yaml_tree import Path as KeyPath
from lagwatch.config.yaml_tree import Problem, Tree, read_tree
from lagwatch.errors import ConfigError


class UnreadableConfigError(ConfigError):
    """The file could not be read."""


def load_settings(path: Path | str, env: Mapping[str, str] = os.environ) -> Settings:
    """Read the file and the variables and secret files it refers to. Raises ConfigError with all problems."""
    name = str(path)
    content, unreadable = _read(Path(path))
    if unreadable:
        raise UnreadableConfigError([f"{name}: {unreadable}"])
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        text = f"{name}:{line}:{column}: not UTF-8 (save the file as UTF-8)"
    else:
        return parse_settings(text, name, env=env, folder=Path(path).parent)
    raise ConfigError([text])  # outside `except`: the decoding error contains the whole file


def _read(path: Path) -> tuple[bytes, str]:
    try:
        return path.read_bytes(), ""
    except FileNotFoundError:
        return b"", "no such file (`lagwatch config example > lagwatch.yml` creates one)"
    except IsADirectoryError:
        return b"", "is a directory, not a file"
    except PermissionError:
        return b"", "is not readable by this user"
    except OSError as error:
        return b"", f"cannot be read: {error.strerror}"
    except ValueError:
        return b"", "is not a file name"


def parse_settings(text: str, name: str, *, env: Mapping[str, str] | None = None, folder: Path = Path()) -> Settings:
    """Parse settings; `name` is the file name in messages, `folder` the start of relative paths.

    Reads only the files that the text refers to. Without `env` no variable is set. Raises only ConfigError.
    """
    tree = read_tree(text, env or {})
    settings: Settings | None = None
    if tree.value is None and not tree.problems:
        raise ConfigError([f"{name}: is empty (`lagwatch config example > lagwatch.yml` creates one)"])
    if tree.value is not None and not isinstance(tree.value, dict):
        if not tree.problems:
            tree.problems.append(
                Problem(tree.position_of(()), (), "must be a section of keys and values, such as clusters:")
            )
    elif tree.value is not None:
        try:
            settings = Settings.model_validate(tree.value, context={"folder": folder})
        except ValidationError as error:
            tree.problems += [found for details in error.errors() if (found := describe_error(details, tree))]
        tree.problems += _repeated_names(tree)
    if tree.problems or settings is None:
        raise ConfigError(_lines(name, tree.problems))  # outside `except`: the pydantic error contains the values
    return settings


def _repeated_names(tree: Tree) -> list[Problem]:
    """Clusters with the same name. Not checked in the model, which would report it only when all else is valid."""
    clusters = tree.value.get("clusters")
    first: dict[str, int] = {}
    problems = []
    for index, cluster in enumerate(clusters if isinstance(clusters, list) else []):
        name = cluster.get("name") if isinstance(cluster, dict) else None
        if not isinstance(name, str):
            continue
        if name in first:
            line = tree.position_of(("clusters", first[name], "name")).line
            text = f"{quote(name)} is also the name of clusters[{first[name]}] at line {line} (names must be unique)"
            problems.append(Problem(tree.position_of(("clusters", index, "name")), ("clusters", index, "name"), text))
        first.setdefault(str(name), index)
    return problems


def _lines(name: str, problems: list[Problem]) -> list[str]:
    ordered = sorted(problems, key=lambda problem: problem.position)
    lines = [
        f"{name}:{p.position.line}:{p.position.column}: {_path_text(p.path)}{': ' if p.path else ''}{p.text}"
        for p in ordered
    ]
    return list(dict.fromkeys(lines))


def _path_text(path: KeyPath) -> str:
    text = ""
    for key in path:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else key
    return text
