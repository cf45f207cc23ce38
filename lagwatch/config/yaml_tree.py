"""Parses YAML into plain values, each with its line and column, without the surprises of YAML 1.1.

PyYAML reads `12:30` as 750, `0123` as 83, `no` as False, and lets the last of two equal keys win. Here everything but
`true`, `false`, `null`, plain integers and decimals is text, and a duplicate key is an error.
Messages quote only the names of keys: other text of the file may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from lagwatch.config.interpolation import interpolate

Path = tuple[str | int, ...]

_MAX_NODES = 100_000  # nested aliases can make a small file expand exponentially


@dataclass(frozen=True, slots=True, order=True)
class FilePosition:
    """A position in the file; line and column start at 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Problem:
    """One error: its position, the path of the setting and the message."""

    position: FilePosition
    path: Path
    text: str


class Unreadable:
    """Placeholder for a value whose error is already reported, so that it is not reported again."""


@dataclass(slots=True)
class Tree:
    """The values of a file, the positions of values and keys by path, and the errors so far."""

    value: Any = None
    positions: dict[Path, FilePosition] = field(default_factory=dict)
    key_positions: dict[Path, FilePosition] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def position_of(self, path: Path) -> FilePosition:
        """The position of the value, or of the nearest enclosing one in the file."""
        while path not in self.positions and path:
            path = path[:-1]
        return self.positions.get(path, FilePosition(1, 1))


class _Loader(yaml.BaseLoader):
    """BaseLoader reads every scalar as text; the resolvers below add the exceptions."""


def _resolve(kind: str, pattern: str, first: str) -> None:
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(rf"(?:{pattern})\Z"), list(first))


# The "first character" of an empty scalar is "", which list() cannot produce: hence the second line.
_resolve("null", "~|null|Null|NULL", "~nN")
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"\Z"), [""])
_resolve("bool", "true|True|TRUE|false|False|FALSE", "tTfF")
_resolve("int", "[-+]?(?:0|[1-9][0-9]{0,17})", "-+0123456789")  # 0123 is text, and so is a number too large for int64
_resolve("float", r"[-+]?(?:0|[1-9][0-9]{0,17})\.[0-9]{1,18}", "-+0123456789")
_resolve("merge", "<<", "<")

# Prefixes of PyYAML messages and our replacements. PyYAML messages can quote the file, so they are not passed on.
_SYNTAX = (
    ("found character '\\t'", "a tab cannot indent YAML: use spaces"),
    ("found character", "a value cannot start with this character: quote the value"),
    ("mapping values are not allowed here", 'unexpected ":": check the indentation, or quote the value'),
    ("expected <block end>", "the indentation does not match the lines above"),
    ("could not find expected ':'", 'this line is not "key: value": add the ":" or the space after it'),
    ("found undefined alias", "no anchor of that name above (quote a value that starts with *)"),
    ("found duplicate anchor", "this anchor name is used twice"),
    ("found unexpected end of stream", "the quotes opened above are not closed"),
    ("found unknown escape character", "unknown escape sequence: use single quotes, or write \\\\"),
    ("expected ',' or", "a comma or a closing bracket is missing"),
    ("but found another document", "a second document starts here: a file must have one document"),
    ("expected the node content", "a value is missing here"),
    ("found undefined tag handle", "tags are not supported (quote a value that starts with !)"),
)


def read_tree(text: str, env: Mapping[str, str]) -> Tree:
    """Parse the text and replace `${NAME}` from `env`. Never raises: errors are in the tree's `problems`."""
    tree = Tree()
    bad = yaml.reader.Reader.NON_PRINTABLE.search(text)
    if bad:
        line = text.count("\n", 0, bad.start()) + 1
        column = bad.start() - text.rfind("\n", 0, bad.start())
        tree.problems.append(Problem(FilePosition(line, column), (), f"U+{ord(bad[0]):04X} is not allowed in YAML"))
        return tree
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        tree.problems.append(_syntax_problem(error))
    except (RecursionError, ValueError, OverflowError):  # the last two: too many digits in `%YAML` or `\U`
        tree.problems.append(Problem(FilePosition(1, 1), (), "not readable as YAML: nested too deeply or damaged"))
    else:
        _Walk(tree, env).read_root(root)
    return tree


def _syntax_problem(error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    message = error.problem or ""
    text = next((ours for theirs, ours in _SYNTAX if message.startswith(theirs)), "invalid YAML")
    return Problem(_position(mark) if mark else FilePosition(1, 1), (), text)


def _position(mark: Any) -> FilePosition:
    return FilePosition(mark.line + 1, mark.column + 1)


class _Walk:
    """Converts composed nodes into the values of a tree."""

    def __init__(self, tree: Tree, env: Mapping[str, str]) -> None:
        self._tree = tree
        self._env = env
        self._open: set[int] = set()  # the enclosing nodes: an alias to one of them is a cycle
        self._left = _MAX_NODES

    def read_root(self, root: yaml.Node | None) -> None:
        try:
            self._tree.value = None if root is None else self._read(root, ())
        except RecursionError:
            self._tree.problems.append(Problem(FilePosition(1, 1), (), "nested too deeply"))

    def _problem(self, node: yaml.Node, path: Path, text: str) -> Any:
        self._tree.problems.append(Problem(_position(node.start_mark), path, text))
        return Unreadable()

    def _within_limit(self, node: yaml.Node, path: Path) -> bool:
        self._left -= 1
        if self._left == 0:
            self._problem(node, path, f"more than {_MAX_NODES:,} values in one file")
        return self._left > 0

    def _read(self, node: yaml.Node, path: Path) -> Any:
        self._tree.positions[path] = _position(node.start_mark)
        if not self._within_limit(node, path):
            return Unreadable()
        if id(node) in self._open:
            return self._problem(node, path, "this anchor contains an alias to itself")
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
                return self._read_mapping(node, path)
            if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
                return [self._read(item, (*path, index)) for index, item in enumerate(node.value)]
            if isinstance(node, yaml.ScalarNode):
                return self._read_scalar(node, path)
            return self._problem(node, path, "tags are not supported (quote a value that starts with !)")
        finally:
            self._open.discard(id(node))

    def _read_scalar(self, node: yaml.ScalarNode, path: Path) -> Any:
        text = str(node.value)
        plain = node.style is None
        match node.tag.removeprefix("tag:yaml.org,2002:"):
            case "merge":
                return text
            case "str":
                try:
                    return interpolate(text, self._env)
                except ValueError as error:
                    return self._problem(node, path, str(error))
            case "null" if plain:
                return None
            case "bool" if plain and text.lower() in {"true", "false"}:
                return text.lower() == "true"
            case "int" if plain and re.fullmatch("[-+]?[0-9]{1,18}", text):
                return int(text)
            case "float" if plain and re.fullmatch(r"[-+]?[0-9]{1,18}\.[0-9]{1,18}", text):
                return float(text)
        return self._problem(node, path, "tags are not supported (quote a value that starts with !)")

    def _read_mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        values = {}
        for key, (key_node, value_node) in self._pairs(node, path).items():
            self._tree.key_positions[*path, key] = _position(key_node.start_mark)
            values[key] = self._read(value_node, (*path, key))
        return values

    def _pairs(self, node: yaml.MappingNode, path: Path) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        """The keys of a mapping, merged with those of `<<`; its own keys win."""
        pairs: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        merged: list[yaml.Node] = []
        for key_node, value_node in node.value:
            key = key_node.value
            if not isinstance(key_node, yaml.ScalarNode) or not isinstance(key, str):
                self._problem(key_node, path, "a key must be text")
            elif key_node.tag == "tag:yaml.org,2002:merge":
                merged += value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
            elif key in pairs:
                first = _position(pairs[key][0].start_mark)
                where = f"first at line {first.line}, column {first.column}"
                self._problem(key_node, path, f"{quote_key(key)} is a duplicate key, {where}")
            else:
                pairs[key] = (key_node, value_node)
        for source in merged:
            if not isinstance(source, yaml.MappingNode):
                self._problem(source, path, "<< needs a section, as an alias such as *defaults")
            elif id(source) in self._open:
                self._problem(source, path, "this anchor contains an alias to itself")
            elif self._within_limit(source, path):
                self._open.add(id(source))
                pairs = self._pairs(source, path) | pairs
                self._open.discard(id(source))
        return pairs


def quote_key(key: str) -> str:
    """The key in quotes if it looks like one: `{password:hunter2}` is a single key in YAML, with a secret in it."""
    return f'"{key}"' if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,39}", key) else "this key"
