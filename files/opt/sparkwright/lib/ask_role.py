"""In which role the model saw the system message: read from the prompt, where a server shows it.

vLLM hands out the tokens of the prompt that it really used (`return_token_ids`, in every release
from 0.13 on) and turns tokens into text again (`/detokenize`); llama.cpp renders a chat on request
(`/apply-template`). Other servers show nothing, which is said and is no failure.
"""

from __future__ import annotations

import http.client
import json
import re
from typing import Any

from ask_http import Message, send

HIDDEN = "not shown by this build"
DROPPED = "none: the prompt does not hold it"
# A special token and the role behind it: harmony and ChatML (<|start|>developer), Llama 3
# (<|start_header_id|>system), Gemma (<start_of_turn>user).
HEADER = re.compile(r"<\|?\w+\|?>\s*(system|developer|user|assistant|tool|model)\b")


def role(spec: dict[str, Any], messages: list[Message], tokens: list[int] | None) -> str:
    """The role that holds the first message in the prompt; HIDDEN or DROPPED.

    + tokens: of the prompt, when the server gave them
    """
    try:
        prompt = _text(spec, messages, tokens)
    except (OSError, http.client.HTTPException, ValueError):
        return HIDDEN  # no such path, or an answer of another form
    return HIDDEN if prompt is None else found_in(prompt, messages[0]["content"])


def found_in(prompt: str, message: str) -> str:
    """The role under which a message stands in a prompt."""
    at = prompt.find(message)
    if at < 0:
        return DROPPED
    headers = HEADER.findall(prompt, 0, at)
    return headers[-1] if headers else f"unknown: the prompt begins {prompt[:40]!r}"


def _text(spec: dict[str, Any], messages: list[Message], tokens: list[int] | None) -> str | None:
    if tokens:
        body: dict[str, Any] = {"model": spec["model"], "tokens": tokens}
        answer = send(spec, "POST", "/detokenize", body)
    else:
        answer = send(spec, "POST", "/apply-template", {"messages": messages})
    prompt = json.loads(answer.read()).get("prompt")
    return prompt if isinstance(prompt, str) else None
