"""Asks a served model its question and judges answer and log: HTTP 200 alone proves nothing.

    ask.py SPEC.json     SPEC: unit, invocation, asked, url, model, question, max_tokens, expect,
                         finish_reason, log_must, log_must_not, key_file, timeout_s, record
Prints one JSON object; exit 0 when everything is as declared, and only then writes `record`.
"""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CAUSES = {
    "null": "the final channel never began: raise acceptance.max_tokens, or the build computes "
    "wrong first tokens (vllm#37030)",
    "wrong": "the model answers, but not this: wrong weights, wrong chat template or a broken "
    "kernel (llama.cpp without 121a, vLLM Marlin below 0.23 on SM121)",
    "log": "another backend runs than the recipe wants: look at the build's flags and the driver",
    "http": "the server does not answer as an OpenAI-compatible API: look at its journal",
}


def request(spec: dict[str, Any]) -> http.client.HTTPResponse:
    """Send the question as a streamed chat completion at temperature 0."""
    url = urllib.parse.urlsplit(spec["url"])
    link = http.client.HTTPConnection(url.hostname or "", url.port, timeout=spec["timeout_s"])
    headers = {"Content-Type": "application/json"}
    if spec["key_file"]:
        headers["Authorization"] = f"Bearer {Path(spec['key_file']).read_text().strip()}"
    body = {
        "model": spec["model"],
        "stream": True,
        "temperature": 0,
        "max_tokens": spec["max_tokens"],
        "messages": [{"role": "user", "content": spec["question"]}],
    }
    link.request("POST", "/v1/chat/completions", json.dumps(body), headers)
    answer = link.getresponse()
    if answer.status != 200:
        raise OSError(f"HTTP {answer.status}: {answer.read(300).decode(errors='replace')}")
    return answer


def events(answer: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    """The JSON objects of a server-sent event stream."""
    for raw in answer:
        line = raw.decode(errors="replace").strip()
        if line.startswith("data:") and line != "data: [DONE]":
            yield json.loads(line[5:])


def ask(spec: dict[str, Any]) -> dict[str, Any]:
    """The answer with its times: first token (of any channel) and whole answer, seconds."""
    began = time.monotonic()
    found: dict[str, Any] = {
        "content": None,
        "reasoning": "",
        "finish_reason": None,
        "ttft_s": None,
    }
    for event in events(request(spec)):
        for choice in event.get("choices", []):
            delta = choice.get("delta", {})
            text, thought = delta.get("content"), delta.get("reasoning_content")
            if (text or thought) and found["ttft_s"] is None:
                found["ttft_s"] = round(time.monotonic() - began, 3)
            if text:
                found["content"] = (found["content"] or "") + text
            found["reasoning"] += thought or ""
            found["finish_reason"] = choice.get("finish_reason") or found["finish_reason"]
    found["total_s"] = round(time.monotonic() - began, 3)
    return found


def journal(spec: dict[str, Any]) -> str:
    """What the service has logged since this start."""
    argv = ["journalctl", "--no-pager", "-o", "cat", f"_SYSTEMD_INVOCATION_ID={spec['invocation']}"]
    return subprocess.run(
        argv, capture_output=True, text=True, errors="replace", check=False
    ).stdout


def judge(spec: dict[str, Any], found: dict[str, Any], log: str) -> list[tuple[str, str]]:
    """(cause key, what is wrong) of everything that is not as declared."""
    wrong = []
    if not found["content"]:
        wrong.append(
            (
                "null",
                f"content is {found['content']!r} after {len(found['reasoning'])} "
                "characters of reasoning",
            )
        )
    elif spec["expect"] not in found["content"]:
        wrong.append(("wrong", f"content {found['content'][:200]!r} lacks {spec['expect']!r}"))
    if found["finish_reason"] != spec["finish_reason"]:
        wrong.append(
            (
                "null" if found["finish_reason"] == "length" else "wrong",
                f"finish_reason is {found['finish_reason']}, not {spec['finish_reason']}",
            )
        )
    for pattern in spec["log_must"]:
        if not re.search(pattern, log, re.M):
            wrong.append(("log", f"the journal since this start has no line like {pattern!r}"))
    for pattern in spec["log_must_not"]:
        if hit := re.search(pattern, log, re.M):
            line = log[log.rfind("\n", 0, hit.start()) + 1 :].splitlines()[0]
            wrong.append(("log", f"the journal says {line.strip()[:200]!r}"))
    return wrong


def ready_s(unit: str) -> float | None:
    """Seconds from the start of the unit's activation to its readiness."""
    keys = "InactiveExitTimestampMonotonic,ActiveEnterTimestampMonotonic"
    argv = ["systemctl", "show", "-p", keys, unit]
    shown = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    times = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
    began, ready = (int(times.get(key) or 0) for key in keys.split(","))
    return round((ready - began) / 1e6, 1) if ready > began > 0 else None


def main(argv: list[str]) -> int:
    """Ask, judge, and keep a record of success."""
    spec = json.loads(Path(argv[0]).read_text())
    try:
        found = ask(spec)
        wrong = judge(spec, found, journal(spec))
    except (OSError, http.client.HTTPException, ValueError) as error:
        found, wrong = {}, [("http", f"{type(error).__name__}: {error}")]
    found["ready_s"] = ready_s(spec["unit"])
    found["wrong"] = [f"{what}; likely cause: {CAUSES[key]}" for key, what in wrong]
    print(json.dumps(found))
    if wrong:
        return 1
    record = Path(spec["record"])
    record.parent.mkdir(parents=True, exist_ok=True)
    beside = record.with_suffix(".new")
    beside.write_text(json.dumps({key: spec[key] for key in ("invocation", "asked")}))
    beside.replace(record)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
