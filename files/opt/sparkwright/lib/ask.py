"""Asks a served model its questions and judges answers and log: HTTP 200 alone proves nothing.

    ask.py SPEC.json     SPEC: unit, invocation, asked, serves, url, health, model, question,
                         max_tokens, expect, finish_reason, system, system_expect, long_question,
                         log_must, log_must_not, notes, key_file, timeout_s, record
Prints one JSON object; exit 0 when everything is as declared, and only then writes `record`.
"""

from __future__ import annotations

import http.client
import json
import sys
from pathlib import Path
from typing import Any

import ask_judge
from ask_http import Message, chat, page
from ask_journal import backends, driver_errors, journal, ready_s
from ask_judge import Wrong
from ask_role import DROPPED, role

# The same draw at every start, whatever the server's own default.
SEED = 1


def ask(spec: dict[str, Any]) -> tuple[dict[str, Any], list[Wrong]]:
    """Everything that the spec asks, and what is wrong with the answers."""
    if spec["serves"] == "web":
        found = page(spec)
        wrong = list(ask_judge.start_page(spec, found))
        return {**found, "content": spec["expect"]}, wrong
    user = {"role": "user", "content": spec["question"]}
    found = chat(spec, [user], temperature=0, max_tokens=spec["max_tokens"])
    wrong = list(ask_judge.answer(spec, found))
    # A model that says nothing says nothing under a system message either.
    if found["content"] and spec["system"]:
        wrong += ask_system(spec, [{"role": "system", "content": spec["system"]}, user], found)
    if found["content"] and spec["long_question"]:
        wrong += ask_long(spec, found)
    return found, wrong


def ask_system(spec: dict[str, Any], messages: list[Message], found: dict[str, Any]) -> list[Wrong]:
    """Ask under a system message; `role` in what was found says where the model saw it."""
    options = {"temperature": 0, "max_tokens": spec["max_tokens"]}
    if spec["serves"] == "vllm":
        options["return_token_ids"] = True
    under = chat(spec, messages, **options)
    found["role"] = role(spec, messages, under["prompt"])
    wrong = list(ask_judge.system(spec, under))
    if found["role"] == DROPPED:
        wrong.append(("system", "the prompt does not hold the system message"))
    return wrong


def ask_long(spec: dict[str, Any], found: dict[str, Any]) -> list[Wrong]:
    """Ask for a long answer, with the sampling that server and model have for all users.

    At temperature 0, models that forbid it go round in circles on sound kernels (Qwen3.5's page).
    """
    message = {"role": "user", "content": spec["long_question"]}
    told = chat(spec, [message], seed=SEED, max_tokens=spec["max_tokens"])
    found["long"] = {"characters": len(told["content"] or ""), "total_s": told["total_s"]}
    return list(ask_judge.long(spec, told))


def main(argv: list[str]) -> int:
    """Ask, judge, and keep a record of success."""
    spec = json.loads(Path(argv[0]).read_text())
    found: dict[str, Any] = {}
    try:
        found, wrong = ask(spec)
        log = journal(spec)
        wrong += ask_judge.unsaid(spec, log)
    except (OSError, http.client.HTTPException, ValueError) as error:
        wrong = [("http", f"{type(error).__name__}: {error}")]
        log = journal(spec)
    wrong += ask_judge.said(spec, log)
    if spec["serves"] == "vllm":
        wrong += [("driver", f"the kernel says {line[:200]!r}") for line in driver_errors(spec)]
    found.pop("prompt", None)
    found["ready_s"] = ready_s(spec["unit"])
    found["wrong"] = [ask_judge.sentence(spec, item, backends(log)) for item in wrong]
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
