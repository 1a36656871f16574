"""Drives one OpenAI-compatible endpoint and writes down when every token came. Standard library.

Runs as `python3 -c <this text>`, so it needs no file where it runs: the laptop, a machine of the
fleet, or any other. The spec comes on stdin, for it may hold an API key; see `main` for both sides.
Threads with http.client: it serves 64 streams (a few thousand lines a second) with room to spare,
and is on every machine, so that figures from different places come from the same client.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

TOKENS = ("llamacpp:tokens_predicted_total", "vllm:generation_tokens_total")
ACTIVE = ("llamacpp:requests_processing", "llamacpp:requests_deferred",
          "vllm:num_requests_running", "vllm:num_requests_waiting")  # fmt: skip
WORDS = ["river", "stone", "market", "paper", "window", "garden", "engine", "winter", "letter"]
SHOWN = ("content", "reasoning_content", "reasoning", "tool_calls")
STANDARD = {"stream": True, "temperature": 0}
# What makes answers equally long and counts their tokens; a server that refuses it does without.
EXTRA = {"stream_options": {"include_usage": True}, "ignore_eos": True}


class Refused(Exception):
    """The endpoint is not there, or does not answer as an OpenAI-compatible server does."""


class Endpoint:
    """One server."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
        self.kind = kinds[spec["scheme"]]
        self.headers = {"Content-Type": "application/json"}
        if spec["key"]:
            self.headers["Authorization"] = f"Bearer {spec['key']}"
        self.extra: dict[str, Any] = dict(EXTRA)

    def get(self, path: str) -> str:
        """A page; empty when there is none."""
        link = self.kind(self.spec["host"], self.spec["port"], timeout=10)
        try:
            link.request("GET", path, None, self.headers)
            answer = link.getresponse()
            text = answer.read(2**22).decode(errors="replace")
            return text if answer.status == 200 else ""
        except (OSError, http.client.HTTPException):
            return ""
        finally:
            link.close()

    def stream(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """One streamed answer: seconds on this process' clock, and tokens as the server counts.

        `pieces` are lines that brought something; a server may put several tokens into one.
        """
        body = {"model": self.spec["model"], **STANDARD, **self.extra, **body}
        row: dict[str, Any] = {"start": 0.0, "first": None, "last": None, "pieces": 0,
                               "tokens": None, "error": None}  # fmt: skip
        link = self.kind(self.spec["host"], self.spec["port"], timeout=self.spec["timeout_s"])
        try:
            link.connect()
            row["start"] = time.monotonic()
            link.request("POST", path, json.dumps(body), self.headers)
            answer = link.getresponse()
            if answer.status == 200:
                read(answer, row)
            else:
                said = answer.read(4096).decode(errors="replace")
                row["error"] = f"HTTP {answer.status}: {' '.join(said.split())[:300]}"
        except (OSError, http.client.HTTPException, ValueError) as error:
            row["error"] = f"{type(error).__name__}: {error}"
        finally:
            link.close()
        if row["first"] is None and not row["error"]:
            row["error"] = "the answer holds no token"
        return row


def read(answer: http.client.HTTPResponse, row: dict[str, Any]) -> None:
    """Read server-sent events until the end."""
    rest = b""
    while part := answer.read1(2**16):
        now = time.monotonic()
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            if line.startswith(b"data:") and line[5:].strip() != b"[DONE]":
                event(json.loads(line[5:]), row, now)


def event(said: dict[str, Any], row: dict[str, Any], now: float) -> None:
    """One event of a chat or of a plain completion."""
    if said.get("error"):
        row["error"] = str(said["error"])[:300]
    row["tokens"] = (said.get("usage") or {}).get("completion_tokens", row["tokens"])
    for choice in said.get("choices") or []:
        delta = choice.get("delta") or {}
        # A chat begins with a line that only names the role, both end with one of the reason; an
        # empty text before is a token that is no character yet.
        empty = "text" in choice and not choice.get("finish_reason")
        if empty or choice.get("text") or any(delta.get(word) for word in SHOWN):
            row["first"] = row["first"] or now
            row["last"], row["pieces"] = now, row["pieces"] + 1


def activity(end: Endpoint) -> dict[str, Any]:
    """Requests of anybody that are under way, and tokens so far; None where nothing says so."""
    pattern = r"^([a-z]+:[a-z_]+)(?:\{[^}]*\})? ([0-9.eE+-]+)$"
    found = re.findall(pattern, end.get("/metrics"), re.M)
    active = [float(value) for name, value in found if name in ACTIVE]
    tokens = [float(value) for name, value in found if name in TOKENS]
    if not active and (text := end.get("/slots")):
        active = [float(bool(slot.get("is_processing"))) for slot in json.loads(text)]
    return {"active": sum(active) if active else None, "tokens": sum(tokens) if tokens else None}


def warm(end: Endpoint) -> None:
    """Reach the server, and find out what it takes. Raises Refused."""
    body = {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 8}
    row = end.stream(end.spec["chat"], body)
    if (row["error"] or "").startswith(("HTTP 400", "HTTP 422")):
        del end.extra["ignore_eos"]
        row = end.stream(end.spec["chat"], body)
    if row["error"]:
        raise Refused(row["error"])


def depth(end: Endpoint, tokens: int, chance: random.Random) -> list[dict[str, Any]]:
    """A prompt of so many random tokens, then tokens one by one; `repeat` times."""
    rows: list[dict[str, Any]] = []
    low, high = end.spec["vocabulary"]
    while len(rows) < end.spec["repeat"] and not any(row["error"] for row in rows):
        prompt = [chance.randrange(low, high) for _ in range(tokens)]
        rows.append(end.stream(end.spec["plain"], {"prompt": prompt, "max_tokens": end.spec["tg"]}))
        print(f"{tokens} deep: {rows[-1]['error'] or 'answered'}", file=sys.stderr, flush=True)
    return rows


def crowd(end: Endpoint, users: int, chance: random.Random) -> list[dict[str, Any]]:
    """So many users at once, each asking one question after the other."""
    rows: list[dict[str, Any]] = []
    ready, each = threading.Barrier(users), -(-4 // users)

    def user(seed: float) -> None:
        words = random.Random(seed)  # noqa: S311 - prompts, not secrets
        ready.wait()
        for _ in range(each):
            text = " ".join(words.choices(WORDS, k=end.spec["words"]))
            asked = [{"role": "user", "content": f"Tell a long story about: {text}"}]
            body = {"messages": asked, "max_tokens": end.spec["max_tokens"]}
            rows.append(end.stream(end.spec["chat"], body))

    with ThreadPoolExecutor(users) as pool:
        list(pool.map(user, [chance.random() for _ in range(users)]))
    bad = sum(bool(row["error"]) for row in rows)
    print(f"{users} user(s): {len(rows)} answers, {bad} failed", file=sys.stderr, flush=True)
    return rows


def measure(end: Endpoint) -> dict[str, Any]:
    """Everything that the spec asks for. Raises Refused."""
    spec, chance, before = end.spec, random.Random(), activity(end)  # noqa: S311 - as above
    if before["active"] and not spec["anyway"]:
        return {"refused": "active", **before}
    warm(end)
    if before["active"] is None and not spec["anyway"]:
        return {"refused": "unknown"}
    before = activity(end)
    depths = [{"tokens": many, "rows": depth(end, many, chance)} for many in spec["depths"]]
    users = [{"users": many, "rows": crowd(end, many, chance)} for many in spec["users"]]
    return {"depths": depths, "users": users, "before": before, "after": activity(end),
            "clients": os.cpu_count(), "ignores_eos": "ignore_eos" in end.extra}  # fmt: skip


def main() -> int:
    """
    SPEC on stdin: scheme, host, port, chat, plain (paths), model, key, timeout_s, anyway,
    vocabulary (range of token numbers), depths, repeat, tg, users, words, max_tokens.

    Prints {"refused": why}, or what `measure` returns.
    """
    try:
        said = measure(Endpoint(json.load(sys.stdin)))
    except Refused as error:
        said = {"refused": str(error)}
    print(json.dumps(said))
    return 0


if __name__ == "__main__":
    sys.exit(main())
