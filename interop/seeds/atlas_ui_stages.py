"""The gateways that the checks of `examples/atlas-ui` run on."""

import json
import secrets
from contextlib import contextmanager
from typing import Any, Iterator

import fakes
from booth import Booth
from checks import Checks

CHECKS = Checks("atlas-ui")
ANN, BOB, FAY, GIL, ROOT = (f"{name}@example.org" for name in ("ann", "bob", "fay", "gil", "root"))
SECRET = secrets.token_hex(32)
OVERRIDES = ("--env-file", ".env", "--config-overrides", "config/overrides")
VIEWERS = {
    "page.html": "html", "dot.svg": "svg", "paper.pdf": "pdf", "table.csv": "csv", "script.sh": "code",
    "notes.md": "markdown", "data.json": "json", "dot.png": "image",
}


def decision(request: dict[str, Any]) -> bytes:
    """The policy service of `team.toml`: refuses what a user claims to be."""
    call = json.loads(request["body"])
    if call["arguments"].get("claimed") == "root":
        return b'{"decision": "deny", "reason": "no user is root"}'
    return b'{"decision": "continue"}'


@CHECKS.stage("files")
@contextmanager
def files() -> Iterator[Booth]:
    with Booth("atlas-ui", sdk="sdk1") as booth:
        yield booth


@CHECKS.stage("plain")
@contextmanager
def plain_start() -> Iterator[Booth]:
    with Booth("atlas-ui", sdk="sdk1") as booth:
        yield booth.serve("--env-file", ".env")


@CHECKS.stage("named")
@contextmanager
def named() -> Iterator[Booth]:
    with Booth("atlas-ui", sdk="sdk1") as booth:
        names = ("--mcp-config", "mcp.json", "--llm-config", "llmconfig.yml", "--rag-sources-config", "rag-sources.json")
        yield booth.serve(*OVERRIDES, *names, trust=False)


class Solo(Booth):
    """One user, with the shop and two models."""

    first: fakes.Recorder
    second: fakes.Recorder


@CHECKS.stage("solo")
@contextmanager
def solo() -> Iterator[Solo]:
    with Solo("atlas-ui", sdk="sdk1", pristine=False) as booth, fakes.python_server(booth.path("backend/mcp/shop/main.py")) as shop:
        booth.first, booth.second = fakes.model("first"), fakes.model("second")
        booth.replace(".env", "=9105", f"={shop}")
        booth.replace(".env", "http://127.0.0.1:9106", booth.first.url)
        booth.replace(".env", "http://127.0.0.1:9107", booth.second.url)
        booth.write("sampling.toml", '[llm]\nallow = ["tool_planner"]\n')
        booth.env["HOST_SECRET"] = "host-secret-value"
        yield booth.serve(*OVERRIDES, "--config", "sampling.toml", trust=False)


@CHECKS.stage("models")
@contextmanager
def models() -> Iterator[Solo]:
    """The two models, without a running gateway."""
    with Solo("atlas-ui", sdk="sdk1") as booth:
        booth.first, booth.second = fakes.model("first"), fakes.model("second")
        booth.replace(".env", "http://127.0.0.1:9106", booth.first.url)
        booth.replace(".env", "http://127.0.0.1:9107", booth.second.url)
        booth.arguments = ["--env-file", ".env", "--llm-config", "config/overrides/llmconfig.yml"]
        yield booth


@CHECKS.stage("odd")
@contextmanager
def odd() -> Iterator[Booth]:
    with Booth("atlas-ui", sdk="sdk1") as booth:
        booth.write("odd-mcp.json", '{"odd_schema": {"command": ["python", "mcp/odd_schema/main.py"], "cwd": "backend"}}')
        yield booth.serve("--config", "odd-mcp.json", trust=False)


@CHECKS.stage("team")
@contextmanager
def team() -> Iterator[Booth]:
    with Booth("atlas-ui", sdk="sdk1", pristine=False) as booth, fakes.python_server(booth.path("backend/mcp/shop/main.py")) as shop:
        booth.replace(".env", "=9105", f"={shop}")
        booth.env["PROXY_SECRET"] = SECRET
        booth.headers = {"X-Proxy-Secret": SECRET, "X-User-Email": ANN}
        # Settings that are not built yet would keep the whole gateway from starting; `team-file` checks them.
        text = booth.path("team.toml").read_text()
        booth.write("team.toml", text[: text.index("# A prompt of our own")])
        yield booth.serve(*OVERRIDES, "--config", "team.toml", trust=False)


@CHECKS.stage("names")
@contextmanager
def names() -> Iterator[Booth]:
    """Two servers whose tools would have the same name; most users see one of them only."""
    with Booth("atlas-ui", sdk="sdk1") as booth:
        booth.env["PROXY_SECRET"] = SECRET
        booth.headers = {"X-Proxy-Secret": SECRET, "X-User-Email": ANN}
        text = booth.path("team.toml").read_text()
        booth.write("team.toml", text[: text.index("[personas.clerk]")])
        hidden = {"command": ["python", "mcp/odd_schema/main.py", "schema_good"], "cwd": "backend", "groups": ["finance"]}
        shown = {"command": ["python", "mcp/odd_schema/main.py"], "cwd": "backend", "deny_tools": ["bad"]}
        booth.write("two-mcp.json", json.dumps({"odd": hidden, "odd_schema": shown}))
        yield booth.serve("--config", "two-mcp.json", "--config", "team.toml", trust=False)


@CHECKS.stage("team-file")
@contextmanager
def team_file() -> Iterator[Booth]:
    with Booth("atlas-ui", sdk="sdk1", pristine=False) as booth:
        booth.decided = fakes.Recorder(lambda request: (200, {}, decision(request)))
        booth.env["HOOK_URL"] = booth.decided.url
        booth.env["PROXY_SECRET"] = SECRET
        booth.headers = {"X-Proxy-Secret": SECRET, "X-User-Email": ANN}
        yield booth.serve(*OVERRIDES, "--config", "team.toml", trust=False)
