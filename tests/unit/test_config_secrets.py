"""No secret reaches an output: not a message, not a repr, not `show`, whatever is wrong with the file."""

from __future__ import annotations

import json
import traceback
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lagwatch.cli.app import count_cluster
from lagwatch.cli.config_command import build_config_app
from lagwatch.config import load_settings
from lagwatch.errors import ConfigError

SECRET = "Hunter2Secret"

HEAD = "clusters:\n  - name: east\n    bootstrap: [kafka1:9092]\n    security:\n"
SASL = HEAD + "      protocol: SASL_SSL\n      sasl:\n        "
TLS = HEAD + "      protocol: SSL\n      tls:\n        cert_file: c\n        key_file: k\n        "
# Where each secret goes; {} is `key: value` of it.
FIELDS = {
    "password": SASL + "mechanism: PLAIN\n        username: u\n        {}\n",
    "token": SASL + "mechanism: OAUTHBEARER\n        {}\n",
    "client_secret": SASL
    + "mechanism: OAUTHBEARER\n        oauth:\n          token_url: http://h\n          client_id: i\n          {}\n",
    "key_password": TLS + "{}\n",
}
# Each a way to get it wrong; S is the secret, K the key.
MISTAKES = {
    "literal": "K: S",
    "quoted": "K: 'S'",
    "beside a variable": "K: S${EMPTY}",
    "escaped": "K: $${S}",
    "variable not closed": "K: ${S",
    "not a variable": "K: ${S-}",
    "empty variable": "K: ${EMPTY}",
    "list": "K: [S]",
    "section": "K: {S: S}",
    "section with a key of two words": "K: {S S}",
    "block text": "K: |\n            S",
    "alias": "K: *S",
    "tag": "K: !S x",
    "tag handle": "K: !S!x y",
    "anchor twice": "K: [&S a, &S b, *S]",
    "quotes not closed": "K: 'S",
    "escape": 'K: "\\xS"',
    "reserved": "K: @S",
    "percent": "K: %S",
    "colon": "K: S: x",
    "no space": "K:S",
    "wrong key": "Kk: S",
    "no colon": "K S",
    "key alone": "S:",
    "key alone in braces": "K: ${EMPTY}\n        x: {S}",
    "given twice": "K: ${OK}\n        K: S",
    "given twice as key": "S:S: 1\n        S:S: 2",
    "no such file": "K_file: missing\n        K: S",
    "url": "oauth: {token_url: 'https://u:S@h/', client_id: i}",
    "in a value of another kind": "kerberos: {service_name: ['${OK}']}",
    "control character": "K: S\x07",
    "variable as a path": "K_file: ${OK}",
    "variable as a duration": "K: ${OK}\n    deadline: ${OK}",
    "variable as a level": "K: ${OK}\nagent: {log_level: '${OK}'}",
    "user and password before a broker": "K: ${OK}\n  - {name: west, bootstrap: 'u:S@kafka:9092x'}",
    "variable as a name": "K: ${OK}\n  - {name: '${OK} ', bootstrap: 'a:1'}",
    "variable as brokers": "K: ${OK}\n  - {name: west, bootstrap: '${OK},${OK}:x'}",
    "variable as a pattern": "K: ${OK}\n  - {name: west, bootstrap: 'a:1', topics: {include: ['(?P<${OK}']}}",
    "variable as a name given twice": "K: ${OK}\n  - &o {name: '${OK}', bootstrap: 'a:1'}\n  - *o",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in "ck":
        (tmp_path / name).write_text("pem")
    monkeypatch.setenv("OK", SECRET)
    monkeypatch.setenv("EMPTY", "")
    return tmp_path


@pytest.mark.parametrize("key", FIELDS)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_secret_given_wrongly_is_not_repeated(key: str, mistake: str, folder: Path) -> None:
    line = MISTAKES[mistake].replace("K", key).replace("S", SECRET)
    path = folder / "lagwatch.yml"
    path.write_text(FIELDS[key].replace("{}", line))

    outputs = []
    try:
        load_settings(path)
    except ConfigError as error:
        outputs = [str(error), repr(error), "".join(traceback.format_exception(error)), repr(error.__context__)]
    for arguments in (["check"], ["check", "--json"], ["show"], ["show", "--json"]):
        result = CliRunner().invoke(build_config_app(count_cluster), [arguments[0], str(path), *arguments[1:]])
        assert result.exit_code == 1, (arguments, result.output)
        outputs.append(result.output)

    assert outputs[0]
    for output in outputs:
        assert SECRET not in output.replace(f"${{{SECRET}}}", "")


# token_file is a path like any other: it is read at each connection.
_WAYS = [(key, how) for key in FIELDS for how in ("variable", "file") if (key, how) != ("token", "file")]


@pytest.mark.parametrize(("key", "how"), _WAYS)
def test_a_secret_given_rightly_is_masked(key: str, how: str, folder: Path) -> None:
    (folder / "secret").write_text(SECRET + "\n")
    path = folder / "lagwatch.yml"
    path.write_text(FIELDS[key].replace("{}", f"{key}: ${{OK}}" if how == "variable" else f"{key}_file: secret"))

    settings = load_settings(path)
    runs = [
        CliRunner().invoke(build_config_app(count_cluster), arguments)
        for arguments in (["check", str(path)], ["show", str(path)], ["show", str(path), "--json"])
    ]

    assert [run.exit_code for run in runs] == [0, 0, 0]
    for output in (repr(settings), str(settings), settings.model_dump_json(), *(run.output for run in runs)):
        assert SECRET not in output
    assert ("********" in runs[1].stdout) == (how == "variable")
    json.loads(runs[2].stdout)


def test_unknown_parser_messages_are_not_passed_on(folder: Path) -> None:
    path = folder / "lagwatch.yml"
    path.write_text(f"%TAG !{SECRET}! a\n%TAG !{SECRET}! b\n---\nagent:\n")  # "duplicate tag handle '!...!'"
    with pytest.raises(ConfigError) as caught:
        load_settings(path)
    assert caught.value.problems == (f"{path}:2:1: invalid YAML",)


@pytest.mark.parametrize(
    ("url", "accepted"),
    [
        ("s3://key:{}@bucket/x", False),
        ("hdfs://user@name:8020/x", True),
        ("gs://anonymous@bucket/x", True),
        ("/a:b@c", True),
        ("file:///a", True),
    ],
)
def test_an_archive_takes_no_password_in_its_url(url: str, accepted: bool, folder: Path) -> None:
    path = folder / "lagwatch.yml"
    path.write_text(f'archive: {{url: {json.dumps(url.format(SECRET))}}}\nclusters: [{{name: a, bootstrap: "a:1"}}]\n')
    result = CliRunner().invoke(build_config_app(count_cluster), ["show", str(path)])
    assert (result.exit_code == 0) == accepted, result.output
    assert SECRET not in result.output


def test_secrets_can_be_read_explicitly(folder: Path) -> None:
    path = folder / "lagwatch.yml"
    path.write_text(FIELDS["client_secret"].replace("{}", "client_secret: ${OK}"))
    sasl = load_settings(path).clusters[0].security.sasl
    assert sasl is not None
    assert sasl.oauth is not None
    assert sasl.oauth.reveal_client_secret() == SECRET
    assert sasl.reveal_password() is None

    path.write_text(FIELDS["key_password"].replace("{}", "key_password: ${OK}"))
    tls = load_settings(path).clusters[0].security.tls
    assert tls is not None
    assert tls.reveal_key_password() == SECRET
