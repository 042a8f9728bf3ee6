"""A report on this machine: the page and its data from a small server, for rollouts that are too many for a file.

Who may read it: programs of this machine that know the token in the address, and nobody else. The server listens on
127.0.0.1 only; every path begins with a random token; a request must name the server's own host and port, so that a
web site whose name was pointed at this machine (DNS rebinding) is refused; it answers GET and HEAD and nothing that
changes anything; what it sends may not be framed, sniffed, kept or read by pages of other origins.
"""

from __future__ import annotations

import gzip
import hmac
import secrets
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from apportion.report.html import served_page
from apportion.report.pages import packed, search

LOOPBACK = "127.0.0.1"
LONGEST_QUERY = 200
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class ReportServer(ThreadingHTTPServer):
    """Serves one report until it is closed; `address` is what to open.

    Args:
        index, pages: what `apportion.report.pages.build_pages` returned.
        port: 0 takes a free one.

    Raises:
        OSError: the port is taken.
    """

    daemon_threads = True
    allow_reuse_address = False

    def __init__(self, index: Mapping[str, Any], pages: Sequence[bytes], port: int = 0) -> None:
        super().__init__((LOOPBACK, port), _Handler)
        self.token = secrets.token_urlsafe(24)
        self.pages = list(pages)
        self.index = packed(index)
        self.html = gzip.compress(served_page(str(index["title"])).encode("utf-8"), mtime=0)

    @property
    def host(self) -> str:
        """The only value of the Host header that is answered."""
        return f"{LOOPBACK}:{self.server_address[1]}"

    @property
    def address(self) -> str:
        """The page's address, token included."""
        return f"http://{self.host}/{self.token}/"

    def answer(self, path: str, query: str) -> tuple[str, bytes] | None:
        """Type and gzip of what a path below the token names; None where there is nothing."""
        if path == "":
            return "text/html; charset=utf-8", self.html
        if path == "data/index":
            return "application/json", self.index
        if path == "data/search":
            wanted = parse_qs(query).get("q", [""])[0][:LONGEST_QUERY]
            return "application/json", packed(list(search(self.pages, wanted)) if wanted else [])
        folder, _, number = path.rpartition("/")
        if folder == "data/page" and number.isascii() and number.isdigit() and len(number) < 10:
            page = int(number)
            if page < len(self.pages):
                return "application/json", self.pages[page]
        return None


class _Handler(BaseHTTPRequestHandler):
    server: ReportServer
    protocol_version = "HTTP/1.1"
    server_version = "apportion"
    sys_version = ""
    timeout = 30

    def do_GET(self) -> None:
        self._respond(body=True)

    def do_HEAD(self) -> None:
        self._respond(body=False)

    def _respond(self, *, body: bool) -> None:
        if self.headers.get_all("Host", []) != [self.server.host]:
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "this server answers to its own address only", body)
            return
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            self._refuse(HTTPStatus.FORBIDDEN, "another site may not ask", body)
            return
        address = urlsplit(self.path)
        token, slash, rest = address.path.removeprefix("/").partition("/")
        known = slash and hmac.compare_digest(token.encode("utf-8", "replace"), self.server.token.encode("ascii"))
        found = self.server.answer(rest, address.query) if known else None
        if found is None:
            self._refuse(HTTPStatus.NOT_FOUND, "nothing here; open the address that apportion view printed", body)
            return
        kind, data = found
        self._send(HTTPStatus.OK, kind, data, {"Content-Encoding": "gzip"}, body)

    def _refuse(self, status: HTTPStatus, why: str, body: bool) -> None:
        self._send(status, "text/plain; charset=utf-8", (why + "\n").encode("utf-8"), {}, body)

    def _send(self, status: HTTPStatus, kind: str, data: bytes, more: Mapping[str, str], body: bool) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **HEADERS, **more}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Nothing: the address holds the token, and a terminal may be logged."""
