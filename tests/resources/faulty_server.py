"""An OpenAI-compatible server on loopback that says what a test wants and breaks when a test wants.

What it answers follows from the prompt and the seed alone, so a client that lost nothing gets the same numbers whatever
happened on the way.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WORDS = ("so", "then", "we", "add", "two", "and", "get")
END = 1
FIRST_ID = 10
"""Ids from here on stand for the words, then for the numbers from 0 on."""


def spelled(ids):
    """Text of ids."""
    return "".join(
        "" if i == END else f" {WORDS[i - FIRST_ID]}" if FIRST_ID <= i < FIRST_ID + len(WORDS) else f" {i - 17}"
        for i in ids
    )


def continuation(prompt, seed, most):
    """Ids that a policy which ends with a number writes; the longer the prompt, the likelier the number is 1."""
    rng = random.Random(hashlib.blake2b(json.dumps([prompt, seed]).encode(), digest_size=8).hexdigest())
    body = [FIRST_ID + rng.randrange(len(WORDS)) for _ in range(rng.randrange(4))]
    good = rng.random() < min(0.9, len(prompt) / 20)
    return ([*body, 17 + int(good), END])[:most]


class FaultyServer:
    """Started by ``with``; ``fault`` is asked before each completion and says what goes wrong with it.

    Args:
        fault: ``fault(number, body)`` gives None (nothing goes wrong), or one of "429", "429+1", "500", "503", "400",
            "401", "404", "stall", "hang up", "cut", "cut off", "no json", "counts", "twice", "filter", "empty", "die".
        owner: of its model, by which clients know the dialect. delay: seconds for an answer.

    Attributes:
        asked: how often each prompt and seed was asked. told: how often its answer went out whole.
        seen: headers and bodies, in order.
    """

    def __init__(self, fault=None, *, owner="vllm", model="tiny", room=512, delay=0.0, port=0, ids=True, usage=True):
        self.fault, self.owner, self.model, self.room, self.delay = (
            fault or (lambda n, b: None),
            owner,
            model,
            room,
            delay,
        )
        self.port, self.ids, self.usage = port, ids, usage
        self.asked, self.told, self.seen = Counter(), Counter(), []
        self.busy = self.most_busy = 0
        self.lock = threading.Lock()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self):
        self.server = _Listener(("127.0.0.1", self.port), type("Handler", (_Handler,), {"owner_": self}))
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *problem):
        self.stop()

    def stop(self):
        """Nobody answers any more; open connections are cut."""
        self.server.shutdown()
        self.server.server_close()
        self.server.cut()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, *args):
        self.open = set()
        super().__init__(*args)

    def process_request(self, request, address):
        self.open.add(request)
        super().process_request(request, address)

    def cut(self):
        for connection in list(self.open):
            with contextlib.suppress(OSError):
                connection.shutdown(2)
                connection.close()

    def handle_error(self, request, address):
        pass


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner_: FaultyServer

    def log_message(self, *words):
        pass

    def do_GET(self):
        me = self.owner_
        self.send(200, {"data": [{"id": me.model, "owned_by": me.owner, "max_model_len": me.room}]})

    def do_POST(self):
        me = self.owner_
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("detokenize"):
            field = "content" if me.owner == "llamacpp" else "prompt"
            return self.send(200, {field: spelled(body["tokens"])})
        prompt = body.get("prompt", body.get("messages"))
        key = json.dumps([prompt, body.get("seed")])
        with me.lock:
            number = sum(me.asked.values())
            me.asked[key] += 1
            me.seen.append((dict(self.headers), body, self.path))
            me.busy += 1
            me.most_busy = max(me.most_busy, me.busy)
        try:
            time.sleep(me.delay)
            self.complete(me.fault(number, body), body, prompt, key)
        finally:
            with me.lock:
                me.busy -= 1

    def complete(self, fault, body, prompt, key):
        me = self.owner_
        if fault in ("400", "401", "404", "429", "500", "503"):
            secret = self.headers.get("Authorization", "")
            return self.send(int(fault), {"error": {"message": f"code {fault}, you sent {secret}"}})
        if fault == "429+1":
            return self.send(429, {"error": {"message": "slow down"}}, {"Retry-After": "0.3"})
        if fault == "stall":
            time.sleep(3)
        if fault in ("hang up", "die"):
            if fault == "die":
                threading.Thread(target=me.stop, daemon=True).start()
            self.close_connection = True
            return self.connection.shutdown(2)
        if "prompt_logprobs" in body:
            rows = [None] + [{str(i): {"logprob": -0.1 * i}} for i in prompt[1:]]
            choice = {"index": 0, "text": " x", "finish_reason": "length", "prompt_logprobs": rows}
            return self.send(
                200, {"choices": [choice], "usage": {"prompt_tokens": len(prompt), "completion_tokens": 1}}
            )
        ids = continuation(prompt, body.get("seed"), body["max_tokens"])
        text = spelled(ids)
        choice = {"index": 0, "finish_reason": "stop" if END in ids else "length"}
        choice |= {"message": {"content": text}} if "messages" in body else {"text": text}
        if me.ids and me.owner == "vllm":
            choice |= {"token_ids": ids, "logprobs": {"token_logprobs": [-0.5] * len(ids)}}
        if me.ids and me.owner == "llamacpp":
            choice["logprobs"] = {"content": [{"id": i, "logprob": -0.5} for i in ids]}
        choices = [choice]
        counts = {"prompt_tokens": len(prompt), "completion_tokens": len(ids)}
        if fault == "counts":
            counts = {"prompt_tokens": 10**9, "completion_tokens": -3}
        if fault == "twice":
            choices = [choice, {**choice, "text": " 1 1 1", "token_ids": [18, 18]}]
        if fault == "filter":
            choice["finish_reason"] = "content_filter"
        if fault == "empty":
            choices = []
        told = {"choices": choices} | ({"usage": counts} if me.usage else {})
        data = json.dumps(told).encode()
        if fault == "cut":
            return self.raw(data[: len(data) // 2], len(data) // 2)
        if fault == "cut off":
            return self.raw(data[: len(data) // 2], len(data))
        if fault == "no json":
            return self.raw(b"<html>busy</html>", None)
        self.raw(data, None)
        with me.lock:
            me.told[key] += fault not in ("empty", "filter")

    def send(self, status, answer, headers=None):
        self.raw(json.dumps(answer).encode(), None, status, headers)

    def raw(self, data, length, status=200, headers=None):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data) if length is None else length))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()
        if length is not None and length > len(data):
            self.close_connection = True
