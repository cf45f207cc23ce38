"""OAuth tokens by client credentials: fetched once, renewed in time, errors without the secret."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests
import responses

from collectors.kafka_client.oauth import ClientCredentials
from lagwatch.errors import SourceError

URL = "https://login.example.com/token"
SECRET = "s3cr3t-of-the-client"


@pytest.fixture
def endpoint() -> Iterator[responses.RequestsMock]:
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        yield mock


def test_a_token_is_requested_by_the_grant_and_cached(endpoint: responses.RequestsMock) -> None:
    form = {"grant_type": "client_credentials", "scope": "kafka"}
    endpoint.post(
        URL,
        json={"access_token": "t1", "expires_in": 3600},
        match=[responses.matchers.urlencoded_params_matcher(form)],
    )
    token = ClientCredentials(URL, "lagwatch", SECRET, "kafka")
    assert [token(), token()] == ["t1", "t1"]
    assert len(endpoint.calls) == 1
    assert endpoint.calls[0].request.headers["Authorization"].startswith("Basic ")


def test_a_token_is_renewed_before_it_expires(
    endpoint: responses.RequestsMock, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("collectors.kafka_client.oauth.time.monotonic", lambda: now[0])
    endpoint.post(URL, json={"access_token": "t1", "expires_in": 100})
    endpoint.post(URL, json={"access_token": "t2", "expires_in": 100})
    token = ClientCredentials(URL, "lagwatch", SECRET)
    first = token()
    now[0] += 71
    assert (first, token()) == ("t1", "t2")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"status": 401, "json": {"error": "invalid_client"}}, "token endpoint returned HTTP 401"),
        ({"status": 200, "json": {"token": "x"}}, "returned no access_token"),
        ({"status": 200, "body": "<html>"}, "returned no access_token|not reached"),
        ({"body": requests.ConnectionError(f"refused {SECRET}")}, "token endpoint not reached: ConnectionError"),
    ],
)
def test_a_refusal_is_reported_without_the_secret(
    endpoint: responses.RequestsMock, answer: dict[str, object], words: str
) -> None:
    endpoint.post(URL, **answer)
    with pytest.raises(SourceError, match=words) as caught:
        ClientCredentials(URL, "lagwatch", SECRET)()
    assert SECRET not in str(caught.value)
