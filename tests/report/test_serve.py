"""The server: this machine only, the token or nothing, its own name or nothing, and what it gives is the report."""

import gzip
import http.client
import json
import threading
from urllib.parse import quote

import numpy as np
import pytest

from apportion.credit import Credit
from apportion.report import Report, build_pages, pages
from apportion.report.serve import ReportServer
from apportion.units import by_step
from tests.make import random_batch
from tests.report.browser import Browser, Page
from tests.report.examples import HOSTILE, hostile_credit, three_rollouts


@pytest.fixture
def serving():
    """Start a server for some credits; it ends with the test."""
    servers = []

    def start(credits):
        report = Report(credits)
        server = ReportServer(*build_pages(report, report.header()))
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def ask(server, path, method="GET", host=None, **headers):
    connection = http.client.HTTPConnection(*server.server_address, timeout=10)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name in [host] if isinstance(host, str) else host or [server.host]:
        connection.putheader("Host", name)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    if answer.headers.get("Content-Encoding") == "gzip" and body:
        body = gzip.decompress(body)
    return answer, body


def test_it_listens_on_this_machine_only(serving):
    server = serving(three_rollouts())
    assert server.server_address[0] == "127.0.0.1"
    assert server.address == f"http://127.0.0.1:{server.server_address[1]}/{server.token}/"
    assert len(server.token) >= 32
    assert serving(three_rollouts()).token != server.token


def test_it_gives_the_page_the_index_and_the_pages(serving):
    server = serving(three_rollouts())
    root = f"/{server.token}/"
    answer, body = ask(server, root)
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert b"connect-src 'self'" in body
    assert json.loads(ask(server, root + "data/index")[1]) == json.loads(gzip.decompress(server.index))
    assert json.loads(ask(server, root + "data/page/0")[1])["texts"]
    assert json.loads(ask(server, root + "data/search?q=ACT%20b1")[1]) == [1]
    assert json.loads(ask(server, root + "data/search")[1]) == []
    head, nothing = ask(server, root, "HEAD")
    assert (head.status, nothing) == (200, b"")
    for name, value in (("X-Frame-Options", "DENY"), ("Cache-Control", "no-store"), ("Referrer-Policy", "no-referrer")):
        assert answer.headers[name] == value
    assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize(
    "path",
    ["/", "/{short}/", "/{token}x/", "/{token}", "/x/data/index", "/x//{token}/data/index", "/%2e%2e/{token}/"]
    + [
        f"/{{token}}/{rest}"
        for rest in ("data/page/1", "data/page/-1", "data/page/x", "data/page/²", "data/page/0/0", "data")
    ]
    + [f"/{{token}}/{rest}" for rest in ("../../etc/passwd", "data/page/../index", "data/page/99999999999999999999")],
)
def test_everything_else_is_nothing(serving, path):
    server = serving(three_rollouts())
    wanted = quote(path.format(token=server.token, short=server.token[:-1]), safe="/%")
    answer, body = ask(server, wanted)
    assert answer.status == 404
    assert server.token.encode() not in body


@pytest.mark.parametrize("host", ["evil.test", "localhost:{port}", "127.0.0.1", "127.0.0.1:{port}.evil.test", ""])
def test_another_name_is_refused(serving, host):
    server = serving(three_rollouts())
    answer, body = ask(server, f"/{server.token}/data/index", host=host.format(port=server.server_address[1]))
    assert answer.status == 421
    assert b"room" not in body


def test_two_names_are_refused(serving):
    server = serving(three_rollouts())
    assert ask(server, f"/{server.token}/data/index", host=[server.host, "evil.test"])[0].status == 421


def test_another_site_may_not_ask(serving):
    server = serving(three_rollouts())
    for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)):
        assert ask(server, f"/{server.token}/", Sec_Fetch_Site=site)[0].status == status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_it_changes_nothing(serving, method):
    server = serving(three_rollouts())
    assert ask(server, f"/{server.token}/", method)[0].status == 501


def test_the_terminal_hears_nothing(serving, capfd):
    server = serving(three_rollouts())
    ask(server, f"/{server.token}/%1b[2J")
    ask(server, "/nowhere")
    out, err = capfd.readouterr()
    assert out == err == ""


@pytest.mark.slow
def test_a_browser_reads_a_page_when_somebody_looks(serving, tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "WEIGHT", 1)
    units = by_step(random_batch(2, ids=False, values=False))
    server = serving(Credit(np.ones(len(units)), units))
    browser = Browser(tmp_path)
    page = Page(browser)
    page.open(server.address + "#t=1")
    asked = [url.removeprefix(server.address) for url in page.requests if "data/" in url]
    assert asked[0] == "data/index"
    assert len(asked) == 2  # one page of several
    assert len(server.pages) > 2
    page.press("End", "j", "j", "j", "j", "j", "j")
    page.until("document.querySelectorAll('article').length")
    assert len([url for url in page.requests if "data/page" in url]) > 1
    page.choose("#filter", "größe")
    page.until("/ of /.test(document.getElementById('count').textContent)")
    assert any("data/search?q=gr%C3%B6%C3%9Fe" in url for url in page.requests)
    assert all(url.startswith(server.address) for url in page.requests)
    assert page.problems == []
    browser.close()


@pytest.mark.slow
def test_hostile_transcripts_are_text_here_too(serving, tmp_path):
    server = serving(hostile_credit())
    browser = Browser(tmp_path)
    page = Page(browser)
    page.open(server.address + "#t=1&s=1")
    assert page.count("img") == page.count("iframe") == 0
    assert HOSTILE[0] in page.texts(".action pre.text")
    assert page.value("document.title") != "pwned"
    browser.close()
