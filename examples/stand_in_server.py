"""A policy behind an OpenAI-compatible address on this machine: it finishes sums, and slips now and then.

`ask_a_server.py` uses it where no address is given, so that the example runs without a model.
"""

import json
import random
import re
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


def finished(text, seed):
    """Adds up the last line that has something to add; wrongly once in ten times."""
    line = next(line for line in reversed(text.split("\n")) if "+" in line)
    slip = random.Random(f"{seed}/{text}").random() < 0.1
    return f"\n{sum(int(n) for n in re.findall('[0-9]+', line)) + slip}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.reply({"data": [{"id": "adder", "owned_by": "example"}]})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = finished(asked["prompt"], asked["seed"])
        usage = {"prompt_tokens": len(asked["prompt"].split()), "completion_tokens": len(text.split())}
        self.reply({"choices": [{"text": text, "finish_reason": "stop"}], "usage": usage})

    def reply(self, body):
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


@contextmanager
def running():
    """The server's address, while the block runs; nobody but this machine reaches it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()
