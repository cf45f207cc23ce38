"""YAML text to plain values, each with its line and column, and without the surprises of YAML 1.1.

PyYAML reads `12:30` as 750, `0123` as 83, `no` as False, and lets the last of two equal keys win. Here only `true`,
`false`, `null`, plain integers and decimals are more than text, and a repeated key is a mistake.
No text of the file reaches a message except names of keys: the rest may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from lagwatch.config.interpolation import interpolate

Path = tuple[str | int, ...]

_MAX_NODES = 100_000  # aliases of aliases of aliases can make a small file expand without end


@dataclass(frozen=True, slots=True, order=True)
class FilePosition:
    """Where in the file, both counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: where, at which setting, and what is wrong."""

    place: FilePosition
    path: Path
    text: str


class Unknown:
    """Stands for a value that could not be had and was reported already, so that nobody reports it again."""


@dataclass(slots=True)
class Tree:
    """The values of a file, the places of values and keys by path, and what was wrong so far."""

    value: Any = None
    places: dict[Path, FilePosition] = field(default_factory=dict)
    key_places: dict[Path, FilePosition] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def place_of(self, path: Path) -> FilePosition:
        """The place of the value, or of the nearest one around it that is in the file."""
        while path not in self.places and path:
            path = path[:-1]
        return self.places.get(path, FilePosition(1, 1))


class _Loader(yaml.BaseLoader):
    """BaseLoader takes every scalar for text; the resolvers below add the few that are not."""


def _resolve(kind: str, pattern: str, first: str) -> None:
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(rf"(?:{pattern})\Z"), list(first))


# A scalar of no characters has the "first character" "", which list() cannot give: hence the second line.
_resolve("null", "~|null|Null|NULL", "~nN")
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"\Z"), [""])
_resolve("bool", "true|True|TRUE|false|False|FALSE", "tTfF")
_resolve("int", "[-+]?(?:0|[1-9][0-9]{0,17})", "-+0123456789")  # 0123 is text; so is what int64 cannot hold
_resolve("float", r"[-+]?(?:0|[1-9][0-9]{0,17})\.[0-9]{1,18}", "-+0123456789")
_resolve("merge", "<<", "<")

# What PyYAML says, by how it begins, and what we say. Its own words can quote the file, so none of them is passed on.
_SYNTAX = (
    ("found character '\\t'", "a tab cannot indent YAML: use spaces"),
    ("found character", "this character cannot begin a value: put the value in quotes"),
    ("mapping values are not allowed here", 'no ":" can stand here: check the indentation, or quote the value'),
    ("expected <block end>", "the indentation does not fit the lines above"),
    ("could not find expected ':'", 'this line has no "key: value" (is a ":" or a space after it missing?)'),
    ("found undefined alias", "there is no anchor of that name above (quote a value that begins with *)"),
    ("found duplicate anchor", "this anchor name is used twice"),
    ("found unexpected end of stream", "the quotes opened above are not closed"),
    ("found unknown escape character", "not an escape sequence of YAML: use single quotes, or write \\\\"),
    ("expected ',' or", "a comma or a closing bracket is missing"),
    ("but found another document", "a second document begins here: one file holds one"),
    ("expected the node content", "a value is missing here"),
    ("found undefined tag handle", "tags are not supported (quote a value that begins with !)"),
)


def read_tree(text: str, env: Mapping[str, str]) -> Tree:
    """Parse the text and fill in `${NAME}` from `env`. Never raises: mistakes are in the tree's `problems`."""
    tree = Tree()
    bad = yaml.reader.Reader.NON_PRINTABLE.search(text)
    if bad:
        line = text.count("\n", 0, bad.start()) + 1
        column = bad.start() - text.rfind("\n", 0, bad.start())
        tree.problems.append(
            Problem(FilePosition(line, column), (), f"U+{ord(bad[0]):04X} is a character YAML does not allow")
        )
        return tree
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        tree.problems.append(_syntax_problem(error))
    except (RecursionError, ValueError, OverflowError):  # the last two: too many digits in `%YAML` or `\U`
        tree.problems.append(
            Problem(FilePosition(1, 1), (), "not YAML that can be read: it nests too deeply or is damaged")
        )
    else:
        _Walk(tree, env).read_root(root)
    return tree


def _syntax_problem(error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    said = error.problem or ""
    text = next((ours for theirs, ours in _SYNTAX if said.startswith(theirs)), "not valid YAML here")
    return Problem(_place(mark) if mark else FilePosition(1, 1), (), text)


def _place(mark: Any) -> FilePosition:
    return FilePosition(mark.line + 1, mark.column + 1)


class _Walk:
    """Turns composed nodes into the tree's values."""

    def __init__(self, tree: Tree, env: Mapping[str, str]) -> None:
        self._tree = tree
        self._env = env
        self._open: set[int] = set()  # nodes we are inside of: an alias to one of them would never end
        self._left = _MAX_NODES

    def read_root(self, root: yaml.Node | None) -> None:
        try:
            self._tree.value = None if root is None else self._read(root, ())
        except RecursionError:
            self._tree.problems.append(Problem(FilePosition(1, 1), (), "nests too deeply"))

    def _problem(self, node: yaml.Node, path: Path, text: str) -> Any:
        self._tree.problems.append(Problem(_place(node.start_mark), path, text))
        return Unknown()

    def _may_go_on(self, node: yaml.Node, path: Path) -> bool:
        self._left -= 1
        if self._left == 0:
            self._problem(node, path, f"more than {_MAX_NODES:,} values in one file")
        return self._left > 0

    def _read(self, node: yaml.Node, path: Path) -> Any:
        self._tree.places[path] = _place(node.start_mark)
        if not self._may_go_on(node, path):
            return Unknown()
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
            return self._problem(node, path, "tags are not supported (quote a value that begins with !)")
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
        return self._problem(node, path, "tags are not supported (quote a value that begins with !)")

    def _read_mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        values = {}
        for key, (key_node, value_node) in self._pairs(node, path).items():
            self._tree.key_places[*path, key] = _place(key_node.start_mark)
            values[key] = self._read(value_node, (*path, key))
        return values

    def _pairs(self, node: yaml.MappingNode, path: Path) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        """The keys of a mapping with what `<<` brings; what it says itself wins."""
        pairs: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        merged: list[yaml.Node] = []
        for key_node, value_node in node.value:
            key = key_node.value
            if not isinstance(key_node, yaml.ScalarNode) or not isinstance(key, str):
                self._problem(key_node, path, "a key must be text")
            elif key_node.tag == "tag:yaml.org,2002:merge":
                merged += value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
            elif key in pairs:
                first = _place(pairs[key][0].start_mark)
                where = f"first at line {first.line}, column {first.column}"
                self._problem(key_node, path, f"{name_of(key)} is given twice, {where}")
            else:
                pairs[key] = (key_node, value_node)
        for source in merged:
            if not isinstance(source, yaml.MappingNode):
                self._problem(source, path, "<< takes a section, as an alias such as *defaults")
            elif id(source) in self._open:
                self._problem(source, path, "this anchor contains an alias to itself")
            elif self._may_go_on(source, path):
                self._open.add(id(source))
                pairs = self._pairs(source, path) | pairs
                self._open.discard(id(source))
        return pairs


def name_of(key: str) -> str:
    """The key in quotes if it looks like one; `{password:hunter2}` is, to YAML, one key with a secret in it."""
    return f'"{key}"' if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,39}", key) else "this key"
