"""Questions over HTTP: a streamed chat completion, one JSON object, one page. No judgement."""

from __future__ import annotations

import http.client
import json
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Message = Mapping[str, str]


def send(
    spec: dict[str, Any], method: str, path: str, body: object = None
) -> http.client.HTTPResponse:
    """The answer to one request. Raises OSError when its status is not 200.

    + body: sent as JSON; None sends nothing
    """
    url = urllib.parse.urlsplit(spec["url"])
    link = http.client.HTTPConnection(url.hostname or "", url.port, timeout=spec["timeout_s"])
    headers = {} if body is None else {"Content-Type": "application/json"}
    if spec["key_file"]:
        headers["Authorization"] = f"Bearer {Path(spec['key_file']).read_text().strip()}"
    link.request(method, path, None if body is None else json.dumps(body), headers)
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


def chat(spec: dict[str, Any], messages: list[Message], **options: object) -> dict[str, Any]:
    """One streamed answer with its times: first token (of any channel) and whole answer, seconds.

    + options: more fields of the request
    """
    began = time.monotonic()
    found: dict[str, Any] = {
        "content": None,
        "reasoning": "",
        "finish_reason": None,
        "ttft_s": None,
        "prompt": None,
    }
    body = {"model": spec["model"], "stream": True, **options, "messages": messages}
    for event in events(send(spec, "POST", "/v1/chat/completions", body)):
        found["prompt"] = event.get("prompt_token_ids") or found["prompt"]
        for choice in event.get("choices", []):
            take(found, choice, began)
    found["total_s"] = round(time.monotonic() - began, 3)
    return found


def take(found: dict[str, Any], choice: dict[str, Any], began: float) -> None:
    """Add one piece of a stream to what was found."""
    delta = choice.get("delta", {})
    # llama.cpp says reasoning_content; vLLM says reasoning, and up to 0.13 both with one text.
    text, thought = delta.get("content"), delta.get("reasoning_content") or delta.get("reasoning")
    if (text or thought) and found["ttft_s"] is None:
        found["ttft_s"] = round(time.monotonic() - began, 3)
    if text:
        found["content"] = (found["content"] or "") + text
    found["reasoning"] += thought or ""
    found["finish_reason"] = choice.get("finish_reason") or found["finish_reason"]


def page(spec: dict[str, Any]) -> dict[str, Any]:
    """The start page's text and the time it took, after its health path has answered."""
    began = time.monotonic()
    send(spec, "GET", spec["health"]).read()
    # 1 MiB: a start page is a few KiB; this only bounds what a wrong server can make us read.
    text = send(spec, "GET", "/").read(1 << 20).decode(errors="replace")
    spent = round(time.monotonic() - began, 3)
    return {"content": text, "ttft_s": spent, "total_s": spent}
