"""A chat model behind a server on the loopback, for tests of judges: answers by rule and keeps what it was asked."""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def code_of(body):
    """The code that a reply to this request must repeat."""
    return re.search(r'"code", which must be "([0-9a-f]{8})"', body["messages"][0]["content"])[1]


def verdict(body):
    """The first step is good, the second bad."""
    return json.dumps({"code": code_of(body), "verdicts": [{"unit": 1, "label": "good"}, {"unit": 2, "label": "bad"}]})


class Server:
    """Answers chat completions by rule; ``rule(body)`` gives a status and JSON, or a reply's text."""

    def __init__(self):
        self.bodies, self.keys, self.models = [], [], ["judge-7b"]
        self.rule = verdict
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.reply(200, {"data": [{"id": name} for name in outer.models]})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.bodies.append((self.path, body))
                outer.keys.append(self.headers.get("Authorization"))
                said = outer.rule(body)
                if isinstance(said, str):
                    usage = {"prompt_tokens": 321, "completion_tokens": 12}
                    said = 200, {"choices": [{"message": {"content": said}}], "usage": usage}
                self.reply(*said)

            def reply(self, status, body):
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()
