"""Fetches OAUTHBEARER tokens with the client credentials grant."""

from __future__ import annotations

import threading
import time

import requests

from lagwatch.errors import SourceError

_TIMEOUT_SECONDS = 5
_RENEW_BEFORE_SECONDS = 30
_MIN_LIFETIME_SECONDS = 60


class ClientCredentials:
    """Fetches a token from a token endpoint and caches it until shortly before it expires."""

    def __init__(self, token_url: str, client_id: str, client_secret: str, scope: str | None = None) -> None:
        self._token_url = token_url
        self._auth = (client_id, client_secret)
        self._form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
        self._lock = threading.Lock()
        self._token = ""
        self._renew_at = 0.0

    def __call__(self) -> str:
        """A valid token. Raises SourceError; blocks at most a few seconds."""
        with self._lock:
            if time.monotonic() >= self._renew_at:
                self._fetch()
            return self._token

    def _fetch(self) -> None:
        try:
            response = requests.post(self._token_url, data=self._form, auth=self._auth, timeout=_TIMEOUT_SECONDS)
            response.raise_for_status()
            body = response.json()
            self._token = str(body["access_token"])
            lifetime = max(float(body.get("expires_in", 0)), _MIN_LIFETIME_SECONDS)
        except requests.HTTPError as error:
            raise SourceError(f"token endpoint returned HTTP {error.response.status_code}") from None
        except requests.RequestException as error:
            raise SourceError(f"token endpoint not reached: {type(error).__name__}") from None
        except (KeyError, TypeError, ValueError):
            raise SourceError("token endpoint returned no access_token") from None
        self._renew_at = time.monotonic() + lifetime - _RENEW_BEFORE_SECONDS
