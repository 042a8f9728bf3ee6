"""Talking JSON with a server: one pool of connections, the key out of sight, and failures sorted by what to do.

may pass when asked again   `Trouble`        429 (waits as long as the server says), 408, 5xx, a broken connection,
                                             an answer that is cut off, a time-out; the last three may have cost
not this request            `Refusal`        400, 413, 422, …: the context is too long, a field is not taken
nothing will ever work      `ResourceError`  3xx, 401, 403, 404, 405: the key or the address is wrong
"""

from __future__ import annotations

import base64
import json
import os
import threading
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from apportion.errors import ConfigError, ResourceError, missing_extra
from apportion.resources.http_errors import kind_of, reason_in, wait_in, without
from apportion.resources.protocol import Refusal, Trouble

if TYPE_CHECKING:
    import httpx2

LARGEST_ANSWER = 256 * 2**20
"""Bytes of one answer at most; what is larger is no answer to anything that is asked here."""

LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Http:
    """A client of one server; safe to use from several threads.

    Args:
        url: address that the paths are added to, e.g. ``http://127.0.0.1:8000/v1``. A user's name and password in it
            are sent where there is no key, and are kept as the key is.
        option: what the user gave the address as, for messages.
        key_env: environment variable that holds the key; where it is not set, none is sent. The key is read when it is
            sent and is never part of a message, a `repr` or a cache.
        timeout: seconds to wait for an answer. connect: seconds to wait for a connection.
        connections: requests at a time.
    """

    def __init__(
        self,
        url: str,
        *,
        option: str = "the address",
        key_env: str | None = "OPENAI_API_KEY",
        timeout: float = 600.0,
        connect: float = 10.0,
        connections: int = 16,
    ) -> None:
        if timeout <= 0 or connect <= 0 or connections < 1:
            raise ConfigError(f"timeout={timeout}, connect={connect}, connections={connections}; give positive numbers")
        whole = urlsplit(_checked(url, option).rstrip("/"))
        self.url = urlunsplit(whole._replace(netloc=whole.netloc.rpartition("@")[2]))
        self._user, self._password = unquote(whole.username or ""), unquote(whole.password or "")
        self.option, self.key_env = option, key_env
        self._timeout, self._connect, self._connections = timeout, connect, connections
        self._client: httpx2.Client | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Http({self.url!r})"

    def get(self, path: str) -> dict[str, Any]:
        """Answer to a GET.

        Raises:
            Trouble, Refusal, ResourceError: as the module says.
        """
        return self._ask("GET", path, None)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Answer to a POST of JSON.

        Raises:
            Trouble, Refusal, ResourceError: as the module says.
        """
        return self._ask("POST", path, body)

    def reach(self, path: str = "/models") -> dict[str, Any]:
        """Answer to a GET that must work before anything is asked.

        Raises:
            ResourceError: nobody answers there, or somebody who cannot help.
        """
        try:
            return self.get(path)
        except Trouble as problem:
            raise ResourceError(f"{problem}; start it or correct {self.option}") from None
        except Refusal as problem:
            raise ResourceError(f"{problem}; it may be no OpenAI-compatible server, so check {self.option}") from None

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _ask(self, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        client, httpx, paid = self._opened(), httpx_module(), body is not None
        content = None if body is None else json.dumps(body, allow_nan=False).encode()
        try:
            status, headers, data = self._exchange(client, method, self.url + path, content)
        except httpx.InvalidURL as problem:
            why = self._clean(kind_of(problem))
            raise ResourceError(f"{self.url} is no address ({why}); correct {self.option}") from None
        except httpx.HTTPError as problem:
            raise self._broken(problem, paid) from None
        if not 200 <= status < 300:
            raise self._refused(status, headers, data, path)
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError):
            raise Trouble(f"{self.url} sent an answer that is cut off or no JSON", spent=paid) from None
        if not isinstance(answer, dict):
            raise Trouble(f"{self.url} sent JSON that is no object", spent=paid)
        return dict(without(answer, self._secrets()))

    def _exchange(
        self, client: httpx2.Client, method: str, url: str, content: bytes | None
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers in lower case and the whole body, which is read up to a limit."""
        headers = {"Authorization": shown} if (shown := self._shown()) else {}
        if content is not None:
            headers["Content-Type"] = "application/json"
        data = bytearray()
        until = time.monotonic() + self._timeout
        with client.stream(method, url, content=content, headers=headers) as response:
            for piece in response.iter_bytes():
                data += piece
                if len(data) > LARGEST_ANSWER:
                    raise Refusal(f"{self.url} sent an answer of more than {LARGEST_ANSWER >> 20} MiB")
                if time.monotonic() > until:  # each piece in time, and all of them without end
                    raise Trouble(f"{self.url} took longer than {self._timeout:g} s for an answer", spent=True)
            return response.status_code, {k.lower(): v for k, v in response.headers.items()}, bytes(data)

    def _broken(self, problem: Exception, paid: bool) -> Trouble:
        httpx = httpx_module()
        if isinstance(problem, httpx.ConnectError | httpx.ConnectTimeout):
            return Trouble(self._clean(f"nobody answers at {self.url} ({kind_of(problem)})"))
        if isinstance(problem, httpx.TimeoutException):
            return Trouble(f"{self.url} took longer than {self._timeout:g} s for an answer", spent=paid)
        return Trouble(self._clean(f"the connection to {self.url} broke ({kind_of(problem)})"), spent=paid)

    def _refused(self, status: int, headers: dict[str, str], data: bytes, path: str) -> Exception:
        said = reason_in(data, self._clean)
        told = f"{self.url} answered {status}" + (f" ({said})" if said else "")
        if status in (401, 403):
            how = f"set {self.key_env} to a key that it takes" if self.key_env else "it wants a key"
            return ResourceError(f"{told}; {how}")
        if status < 400 or status in (404, 405):
            return ResourceError(
                f"{told} to {path}; check {self.option}, which ends in /v1 as a rule, and the model's name"
            )
        if status in (408, 409, 425, 429) or status >= 500:
            return Trouble(told, wait=wait_in(headers), spent=status == 504)
        return Refusal(told)

    def _clean(self, text: str) -> str:
        """Without what nobody may see, should somebody repeat it."""
        return str(without(text, self._secrets()))

    def _shown(self) -> str:
        """What the server is shown, "" for nothing: the key, or else the name and password of the address."""
        if key := self._key():
            return f"Bearer {key}"
        return f"Basic {self._basic()}" if self._password else ""

    def _basic(self) -> str:
        return base64.b64encode(f"{self._user}:{self._password}".encode()).decode()

    def _secrets(self) -> tuple[str, ...]:
        """Every spelling of the key and the password, the longest first."""
        key, password = self._key(), self._password
        known = {key, password, quote(password, safe=""), self._basic() if password else ""} - {""}
        return tuple(sorted(known, key=len, reverse=True))

    def _key(self) -> str:
        key = os.environ.get(self.key_env, "").strip() if self.key_env else ""
        if not (key.isascii() and key.isprintable()):
            raise ResourceError(f"{self.key_env} holds characters that no key has; set it again")
        return key

    def _opened(self) -> httpx2.Client:
        with self._lock:
            if self._client is None:
                httpx = httpx_module()
                limits = httpx.Limits(max_connections=self._connections, max_keepalive_connections=self._connections)
                timeout = httpx.Timeout(self._timeout, connect=self._connect, pool=None)
                own = urlsplit(self.url).hostname in LOOPBACK  # no proxy between us and ourselves
                self._client = httpx.Client(
                    timeout=timeout,
                    limits=limits,
                    follow_redirects=False,
                    trust_env=not own,
                    verify=self.url.startswith("https:"),  # reading certificates takes longer than most requests
                )
            return self._client


def httpx_module() -> Any:
    """The package that talks to servers.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        import httpx2
    except ModuleNotFoundError:
        raise missing_extra("asking a server", "httpx2", "ask") from None
    return httpx2


def _checked(url: str, option: str) -> str:
    if not isinstance(url, str):
        raise ConfigError(f"{option} is a {type(url).__name__}; give an address like http://127.0.0.1:8000/v1")
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query and not parts.fragment
        good = good and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good:
        raise ConfigError(f"{option} is no address of a server; give one like http://127.0.0.1:8000/v1")
    return url
