"""Answers on disk, by content: what was paid for once is not asked again, in this run or another.

An SQLite file. One row is one sample, committed as it arrives, with a checksum: a damaged row counts as absent and is
asked again, a damaged file is put aside. Two processes may share a file; of two answers to one request the first
stays, and both use it. When the disk is full, answers are kept in memory and saved as soon as there is room.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apportion.errors import ConfigError
from apportion.resources.codec import Malformed, decode, encode
from apportion.resources.protocol import Reply

SCHEMA = 1
APPLICATION = 0x41505054  # "APPT"
WAIT_S = 30.0
"""Seconds to wait for another process that is writing."""


@dataclass(frozen=True, slots=True)
class Speed:
    """Measured throughput of a resource: wall seconds for so many requests and tokens."""

    requests: int
    prompt_tokens: int
    generated_tokens: int
    seconds: float


class Cache:
    """Answers by key, on disk.

    Args:
        path: the file, made where it is absent (readable for its owner only); None keeps answers in memory.

    Attributes:
        damaged: rows that were found damaged and count as absent. unsaved: answers that the disk did not take.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = None if path is None else Path(path)
        self.damaged = 0
        self._kept: dict[str, tuple[str, Reply]] = {}
        self._problem = ""
        self._db = _open(self.path)

    @property
    def unsaved(self) -> int:
        return len(self._kept)

    @property
    def problem(self) -> str:
        """Why answers could not be saved; "" while they can."""
        return self._problem if self._kept else ""

    def get(self, kind: str, key: str) -> Reply | None:
        """The stored sample, or None where there is none that is whole."""
        if key in self._kept:
            return self._kept[key][1]
        try:
            row = self._db.execute(
                "SELECT kind, body, prompt_tokens, generated_tokens, digest FROM answers WHERE key = ?", (key,)
            ).fetchone()
        except sqlite3.DatabaseError:  # a damaged page
            self.damaged += 1
            return None
        if row is None:
            return None
        reply = _read(kind, key, row)
        self.damaged += reply is None
        return reply

    def put(self, kind: str, key: str, reply: Reply) -> Reply:
        """Store a sample; returns the one that is stored, which is another's where that came first."""
        self.save()
        try:
            return self._write(kind, key, reply)
        except sqlite3.Error as problem:  # the disk is full, the folder is gone, …
            self._problem = str(problem)
            self._kept[key] = (kind, reply)
            return reply

    def save(self) -> None:
        """Try again to write what the disk did not take."""
        for key, (kind, reply) in list(self._kept.items()):
            try:
                self._write(kind, key, reply)
            except sqlite3.Error as problem:
                self._problem = str(problem)
                return
            del self._kept[key]

    def note_speed(self, identity: str, speed: Speed) -> None:
        """Remember a measured throughput, for the next estimate."""
        with contextlib.suppress(sqlite3.Error), self._db:
            self._db.execute(
                "INSERT OR REPLACE INTO speeds VALUES (?, ?, ?, ?, ?)",
                (identity, speed.requests, speed.prompt_tokens, speed.generated_tokens, speed.seconds),
            )

    def speed(self, identity: str | None = None) -> Speed | None:
        """The last measured throughput of a resource; without an identity the latest of any."""
        where, args = ("WHERE identity = ?", (identity,)) if identity is not None else ("", ())
        with contextlib.suppress(sqlite3.Error):  # an estimate without a time is still one
            row = self._db.execute(
                f"SELECT requests, prompt_tokens, generated_tokens, seconds FROM speeds {where} ORDER BY rowid DESC",
                args,
            ).fetchone()
            return None if row is None else Speed(*row)
        return None

    def close(self) -> None:
        """Save what can be saved and let go of the file."""
        self.save()
        self._db.close()

    def __len__(self) -> int:
        return int(self._db.execute("SELECT count(*) FROM answers").fetchone()[0]) + len(self._kept)

    def _write(self, kind: str, key: str, reply: Reply) -> Reply:
        body = encode(kind, reply.value)
        row = (key, kind, body, reply.prompt_tokens, reply.generated_tokens)
        with self._db:
            new = self._db.execute(
                "INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT(key) DO NOTHING", (*row, _digest(*row))
            ).rowcount
        if not new:
            first = self.get(kind, key) if key not in self._kept else None
            if first is not None:
                return first
            with self._db:
                self._db.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?)", (*row, _digest(*row)))
        return Reply(decode(kind, body), reply.prompt_tokens, reply.generated_tokens)


def _digest(key: str, kind: str, body: str, prompt_tokens: int, generated_tokens: int) -> str:
    text = "\0".join((key, kind, body, str(prompt_tokens), str(generated_tokens)))
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _read(kind: str, key: str, row: tuple[Any, ...]) -> Reply | None:
    stored, body, prompt_tokens, generated_tokens, digest = row
    try:
        if stored != kind or _digest(key, stored, body, prompt_tokens, generated_tokens) != digest:
            return None
        return Reply(decode(kind, body), int(prompt_tokens), int(generated_tokens))
    except (Malformed, TypeError, ValueError):
        return None


def _open(path: Path | None) -> sqlite3.Connection:
    if path is None:
        return _prepared(sqlite3.connect(":memory:", check_same_thread=False))
    if not path.parent.is_dir():
        raise ConfigError(f"{path}: the folder {path.parent.name!r} does not exist; create it first")
    if path.exists() and not path.is_file():
        raise ConfigError(f"{path} is not a regular file; give the name of a cache file")
    if path.exists() and _head(path) not in (b"", b"SQLite format 3"):
        # somebody's other file must not be moved out of their way
        raise ConfigError(f"{path} is not a cache of apportion's; give another name, or remove it")
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        return _opened_beside_others(path)
    except sqlite3.DatabaseError as problem:
        if isinstance(problem, sqlite3.OperationalError):
            raise ConfigError(
                f"{path} cannot be used as a cache: {problem}; check its folder's rights and space"
            ) from None
        aside = _aside(path)
        warnings.warn(
            f"the cache {path} is damaged ({problem}); it was put aside as {aside.name} and a new one is begun",
            stacklevel=3,
        )
        return _open(path)


def _opened_beside_others(path: Path) -> sqlite3.Connection:
    """Open a file that another process may be making: the change to a write-ahead log does not wait by itself."""
    until = time.monotonic() + WAIT_S
    while True:
        try:
            return _prepared(sqlite3.connect(path, timeout=WAIT_S, check_same_thread=False))
        except sqlite3.OperationalError as problem:
            # the primary code: a busy log has extended ones
            busy = (problem.sqlite_errorcode & 0xFF) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            if not busy or time.monotonic() > until:
                raise
        time.sleep(0.01)


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(15)


def _prepared(db: sqlite3.Connection) -> sqlite3.Connection:
    try:
        with db:
            db.execute("BEGIN IMMEDIATE")  # another process may be making the same file
            application = db.execute("PRAGMA application_id").fetchone()[0]
            version = db.execute("PRAGMA user_version").fetchone()[0]
            tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if tables and application != APPLICATION:
                raise ConfigError("the file is a database of something else; give another name for the cache")
            if tables and version > SCHEMA:
                raise ConfigError(
                    f"the cache has schema {version} of a newer apportion, and this one reads up to {SCHEMA}; update "
                    "apportion, or give another name"
                )
            if tables and version != SCHEMA:
                raise ConfigError(f"the cache has schema {version}, this apportion reads {SCHEMA}; give another name")
            db.execute(f"PRAGMA application_id = {APPLICATION}")
            db.execute(f"PRAGMA user_version = {SCHEMA}")
            db.execute(
                "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL, "
                "prompt_tokens INTEGER NOT NULL, generated_tokens INTEGER NOT NULL, digest TEXT NOT NULL)"
            )
            db.execute(
                "CREATE TABLE IF NOT EXISTS speeds (identity TEXT PRIMARY KEY, requests INTEGER NOT NULL, "
                "prompt_tokens INTEGER NOT NULL, generated_tokens INTEGER NOT NULL, seconds REAL NOT NULL)"
            )
            db.execute("SELECT count(*) FROM answers").fetchone()  # touches the pages
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")  # survives a kill of the process; a power cut may cost the last rows
    except BaseException:
        db.close()
        raise
    return db


def _aside(path: Path) -> Path:
    k = 1
    while (aside := path.with_name(f"{path.name}.damaged-{k}")).exists():
        k += 1
    os.replace(path, aside)
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    return aside
