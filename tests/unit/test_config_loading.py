"""Errors in a configuration file: all at once, each with its position, never a traceback."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lagwatch.config import UnreadableConfigError, load_settings, parse_settings
from lagwatch.errors import ConfigError

_UNCLOSED = "missing ), unterminated subpattern at character 1"  # Python's words
GOOD = "clusters:\n  - name: east\n    bootstrap: [kafka1:9092]\n"


def problems(text: str, **env: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_settings(text, "f.yml", env=env)
    return list(caught.value.problems)


def of_cluster(lines: str) -> str:
    """A good file whose cluster has these lines too; the first of them is line 4 and begins at column 5."""
    return GOOD + "".join(f"    {line}\n" for line in lines.splitlines())


def test_all_errors_are_reported_at_once_in_the_order_of_the_file() -> None:
    text = """\
agent: {log_level: INFO}
journal:
  max_size: 2GB
  histry: 24h
clusters:
  - name: east
    bootstrap: kafka1, kafka2:9092
    security:
      protocol: SASL_SSL
    intervals:
      kafka: ten
  - bootstrap: [a:1]
    topics: {include: ["(a"]}
"""
    assert problems(text) == [
        'f.yml:1:20: agent.log_level: "INFO" is not one of debug, info, warning or error',
        'f.yml:3:13: journal.max_size: "2GB" is not a size (try 2GiB)',
        'f.yml:4:3: journal: unknown key "histry" (did you mean history?)',
        'f.yml:7:16: clusters[0].bootstrap[0]: "kafka1" has no port (write host:port, such as kafka1:9092)',
        "f.yml:9:7: clusters[0].security.sasl: is missing: protocol SASL_SSL needs it",
        'f.yml:11:14: clusters[0].intervals.kafka: "ten" is not a duration (try 30s or 5m)',
        "f.yml:12:5: clusters[1].name: is missing (name of the cluster in metrics, rules and commands)",
        'f.yml:13:24: clusters[1].topics.include[0]: "(a" is not a regular expression: ' + _UNCLOSED,
    ]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("deadline: 10", "4:15: clusters[0].deadline: 10 is a duration without a unit (try 10s)"),
        ("deadline: 12:30", '4:15: clusters[0].deadline: "12:30" is not a duration (try 30s or 5m)'),
        ("deadline: 0123", '4:15: clusters[0].deadline: "0123" is a duration without a unit (try 0123s)'),
        ("deadline: 5 s", '4:15: clusters[0].deadline: "5 s" is not a duration (try 30s or 5m)'),
        ("deadline: 10s", 'clusters[0].deadline: "10s" must be below intervals.kafka (10s)'),
        ("intervals: {kafka: 2s}", 'clusters[0].deadline: "5s" must be below intervals.kafka (2s)'),
        ("intervals: {kafka: 0s}", 'clusters[0].intervals.kafka: "0s" is out of range (from 1s to 1d)'),
        ("intervals: 10s", "clusters[0].intervals: must be a section of keys and values"),
        ("receive_max: 100", "clusters[0].receive_max: 100 is not a size (try 512MiB or 2GiB)"),
        ("topics: {include: orders}", "clusters[0].topics.include: must be a list, such as [a, b]"),
        ("topics: {include: []}", "clusters[0].topics.include: needs at least one entry"),
        ("topics: {exclude: [no, 5]}", 'clusters[0].topics.exclude[1]: 5 is not text: put it in quotes, "5"'),
        ("topics: {include: ['a{9999999999999}']}", "is not a regular expression: too large"),
        ("bootstrap_servers: x", '4:5: clusters[0]: unknown key "bootstrap_servers" (did you mean bootstrap?)'),
        ("username: x", '4:5: clusters[0]: unknown key "username" (it belongs to clusters.security.sasl)'),
        ("zzz: x", '4:5: clusters[0]: unknown key "zzz" (accepted: name, bootstrap, security,'),
        ("security: {protocol: ssl}", '"ssl" is not one of PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL'),
        ("security: {tls: {}}", "clusters[0].security.tls: protocol PLAINTEXT does not use tls"),
        ("security: {sasl: {mechanism: GSSAPI}}", "sasl: protocol PLAINTEXT does not use sasl"),
        ("security: {protocol: SSL, tls: {check_hostname: no}}", 'check_hostname: "no" is not true or false'),
        ("security: {protocol: SSL, tls: {ca_file: nope.pem}}", 'tls.ca_file: "nope.pem" is not a file'),
        ("security: {protocol: SSL, tls: {ca_file: ~/ca.pem}}", "~ is not expanded"),
        ("security: {protocol: SSL, tls: {key_password: '${A}'}}", "key_password is set without key_file"),
        ("name: west", '4:5: clusters[0]: "name" is a duplicate key, first at line 2, column 5'),
        ("deadline: ${NOPE}", "4:15: clusters[0].deadline: environment variable NOPE is not set"),
        ("deadline: ${NOPE:-5s}", "4:15: clusters[0].deadline: ${ must be followed by a variable name and }"),
        ("deadline: ${A}", '4:15: clusters[0].deadline: "${A}" is not a duration'),
        ("deadline: !!int 5", "4:15: clusters[0].deadline: 5 is a duration without a unit"),
        ("deadline: !x 5", "4:15: clusters[0].deadline: tags are not supported"),
        ("deadline: !!binary aGk=", "4:15: clusters[0].deadline: tags are not supported"),
        ("[a]: 5", "4:5: clusters[0]: a key must be text"),
        ("topics: &t {include: [*t]}", "this anchor contains an alias to itself"),
        ("topics: &t {<<: *t}", "this anchor contains an alias to itself"),
        ("topics: {<<: 5}", "<< needs a section"),
    ],
)
def test_an_error_says_what_is_accepted(lines: str, expected: str) -> None:
    found = problems(of_cluster(lines), A="some-value")
    assert len(found) == 1, found
    assert expected in found[0]
    assert found[0].startswith("f.yml:")
    assert "some-value" not in found[0]


@pytest.mark.parametrize(
    ("address", "accepted"),
    [
        ("kafka1:9092", True),
        ("10.0.0.1:1", True),
        ("kafka_1.example-host.com:65535", True),
        ("'[::1]:9092'", True),
        ("'[fe80::1%eth0]:9092'", True),
        ("kafka1", False),
        ("kafka1:0", False),
        ("kafka1:65536", False),
        ("kafka1:9092/x", False),
        ("PLAINTEXT://kafka1:9092", False),
        ("'[::1]'", False),
        ("'[nope]:9092'", False),
        ("'::1:9092'", False),
        ("':9092'", False),
        ("kafka1:٩٠", False),
    ],
)
def test_a_broker_is_host_and_port(address: str, accepted: bool) -> None:
    text = f"clusters: [{{name: a, bootstrap: [{address}]}}]"
    if accepted:
        assert parse_settings(text, "f").clusters[0].bootstrap == (address.strip("'"),)
    else:
        assert "clusters[0].bootstrap[0]" in problems(text)[0]


_SASL = "security: {{protocol: SASL_SSL, sasl: {{mechanism: {}}}}}"


@pytest.mark.parametrize(
    ("sasl", "expected"),
    [
        ("PLAIN, password: '${A}'", ["username: is missing: PLAIN needs it"]),
        ("PLAIN, username: u", ["password: is missing: PLAIN needs password_file or password"]),
        ("SCRAM-SHA-256", ["username: is missing", "password: is missing"]),
        ("SCRAM-SHA-512, username: u, password: '${A}', token: '${A}'", ["SCRAM-SHA-512 does not use token"]),
        ("OAUTHBEARER", ["OAUTHBEARER needs exactly one of oauth, token_file and token; none set"]),
        (
            "OAUTHBEARER, token: '${A}', token_file: pyproject.toml",
            ["exactly one of oauth, token_file and token; 2 set"],
        ),
        ("OAUTHBEARER, oauth: {token_url: 'http://h', client_id: i}", ["client_secret: is missing"]),
        ("OAUTHBEARER, oauth: {token_url: 'ftp://h', client_id: i, client_secret: '${A}'}", ["is not a URL"]),
        ("GSSAPI, username: u", ["GSSAPI does not use username (it uses kerberos)"]),
        ("SCRAM, username: u", ['"SCRAM" is not one of PLAIN, SCRAM-SHA-256']),
        ("PLAIN, username: 5, password: '${A}'", ['5 is not text: put it in quotes, "5"']),
    ],
)
def test_a_mechanism_says_what_it_needs(sasl: str, expected: list[str]) -> None:
    found = problems(of_cluster(_SASL.format(sasl)), A="v")
    assert len(found) == len(expected), found
    for line, text in zip(found, expected, strict=True):
        assert text in line


# Each line four times the one above it: a few hundred characters that expand to millions of values.
_LAUGHS = "a: &a [1]\n" + "".join(f"{c}: &{c} [*{p}, *{p}, *{p}, *{p}]\n" for p, c in pairwise("abcdefghijkl"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "f.yml: is empty"),
        ("# nothing\n", "f.yml: is empty"),
        ("null", "f.yml: is empty"),
        ("clusters", "f.yml:1:1: must be a section of keys and values"),
        ("- a", "f.yml:1:1: must be a section of keys and values"),
        ("agent:", "f.yml:1:1: clusters: is missing"),
        ("clusters: []", "f.yml:1:11: clusters: needs at least one entry"),
        ("clusters: [null]", "clusters[0]: must be a section"),
        ("agent:\n\tname: a", "f.yml:2:1: a tab cannot indent YAML: use spaces"),
        ("agent: a: b", 'f.yml:1:9: unexpected ":"'),
        ("agent: {name: a", "f.yml:1:16: a comma or a closing bracket is missing"),
        ("agent: 'a", "f.yml:1:10: the quotes opened above are not closed"),
        ("agent: *a", "f.yml:1:8: no anchor of that name above"),
        ("agent: 1\n---\nagent: 2", "f.yml:2:1: a second document starts here"),
        ("agent: @a", "f.yml:1:8: a value cannot start with this character"),
        ('agent: "\\q"', "f.yml:1:10: unknown escape sequence"),
        ("agent:\n  a: 1\n b: 2", "f.yml:3:2: the indentation does not match the lines above"),
        ("a: 1\nb\nc: 2", 'this line is not "key: value"'),
        ("a: 1\nb: x\x00", "f.yml:2:5: U+0000 is not allowed in YAML"),
        ("[" * 5000, "not readable as YAML: nested too deeply"),
        (_LAUGHS, "more than 100,000 values"),
    ],
)
def test_invalid_yaml_is_reported_with_its_position(text: str, expected: str) -> None:
    assert any(expected in line for line in problems(text)), problems(text)


def test_repeated_cluster_names_are_reported_with_other_errors() -> None:
    found = problems("clusters:\n- {name: a, bootstrap: x}\n- {name: a, bootstrap: [k:1]}\n")
    assert 'clusters[0].bootstrap[0]: "x" has no port' in found[0]
    assert found[1] == (
        'f.yml:3:10: clusters[1].name: "a" is also the name of clusters[0] at line 2 (names must be unique)'
    )


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda _: None, "no such file"),
        (lambda path: path.mkdir(), "is a directory"),
        (lambda path: path.symlink_to(path), "cannot be read: Too many levels of symbolic links"),
    ],
)
def test_a_file_that_cannot_be_read_is_its_own_error(make: object, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "lagwatch.yml"
    assert callable(make)
    make(path)
    with pytest.raises(UnreadableConfigError, match=expected) as caught:
        load_settings(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_a_file_that_is_not_utf8_is_reported_with_its_position(tmp_path: Path) -> None:
    path = tmp_path / "lagwatch.yml"
    path.write_bytes(b"agent:\n  name: caf\xe9\n")
    with pytest.raises(ConfigError, match=r"lagwatch\.yml:2:12: not UTF-8"):
        load_settings(path)


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "lagwatch.yml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert load_settings(path).clusters[0].name == "east"


_WORDS = st.sampled_from(
    [
        *("clusters", "name", "bootstrap", "security", "tls", ":", ": ", "\n", "\n  ", "- ", "{", "}", "[", "]", "&a "),
        *("*a", "<<", "'", '"', "!", "!!int ", "${", "$${", "x:1", "~", "%YAML 1.2", "---", "\t", "|", ">", "#", "\\U"),
        "0" * 5000,
    ]
)


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.text(), st.lists(_WORDS, max_size=30).map("".join)))
@example("%YAML 1." + "9" * 5000 + "\n---\na")
@example('a: "\\UFFFFFFFF"')
@example("? ? a")
@example("clusters: " + "9" * 5000)
@example("clusters: !!float x")
def test_no_text_raises_anything_but_a_config_error(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_settings(text, "f.yml", env={"a": "b"})
