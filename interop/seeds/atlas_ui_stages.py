"""The gateways that the checks of `examples/atlas-ui` run on."""

import json
import secrets
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator

import fakes
from booth import Booth
from checks import Checks, known_gaps

CHECKS = Checks("atlas-ui")
ANN, BOB, FAY, GIL, ROOT = (f"{name}@example.org" for name in ("ann", "bob", "fay", "gil", "root"))
SECRET = secrets.token_hex(32)
OVERRIDES = ("--env-file", ".env", "--config-overrides", "config/overrides")
VIEWERS = {
    "page.html": "html", "dot.svg": "svg", "paper.pdf": "pdf", "table.csv": "csv", "script.sh": "code",
    "notes.md": "markdown", "data.json": "json", "dot.png": "image",
}


def prepare(folder: Path, except_for: str = "") -> None:
    """Changes the copy for the walk through its features.

    A missing feature that would hide all others is worked around while its check is a known gap, except for one. So the
    walk runs in the folder as it is, once these gaps are closed.
    """
    gaps = set(known_gaps()) - {f"atlas-ui {except_for}"}
    overrides = folder / "config/overrides"
    if "atlas-ui 4: cwd works with the files named on the command line" in gaps:
        (overrides / "backend").symlink_to("../../backend")
    file = overrides / "mcp.json"
    entries = json.loads(file.read_text())
    for name, entry in entries.items():
        if "atlas-ui 17: is_exclusive is named as not acted upon and harms nothing" in gaps:
            entry.pop("is_exclusive", None)
        if "atlas-ui 11: ${VAR} in a description is left as written" in gaps:
            entry["description"] = entry["description"].replace("${CURRENCY}", "EUR")
        # Otherwise the first call of every tool waits in header mode; the check of this gap uses `finance`.
        if name != "finance" and "atlas-ui 10: in header mode a first call is not held unless the configuration asks for it" in gaps:
            entry["requires_consent"] = False
    if "atlas-ui 11: type stdio beside a url means the url" in gaps:
        entries["shop"]["type"] = "http"
    if "atlas-ui 3: official SDK clients can list everything, in both eras and in TypeScript" in gaps:
        del entries["odd_schema"]
    # Settings that Atlas UI does not have.
    entries["canvas_demo"]["requires_consent"] = True
    entries["finance"]["share"] = "all"
    file.write_text(json.dumps(entries, indent=2))
    models = overrides / "llmconfig.yml"
    if "atlas-ui 6: a model_url that ends in /chat/completions is requested once" in gaps:
        models.write_text(models.read_text().replace("/v1/chat/completions", "/v1"))


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
    with Solo("atlas-ui", sdk="sdk1", prepare=prepare) as booth, fakes.python_server(booth.path("backend/mcp/shop/main.py")) as shop:
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
    with Booth("atlas-ui", sdk="sdk1", prepare=prepare) as booth, fakes.python_server(booth.path("backend/mcp/shop/main.py")) as shop:
        booth.replace(".env", "=9105", f"={shop}")
        booth.env["PROXY_SECRET"] = SECRET
        booth.headers = {"X-Proxy-Secret": SECRET, "X-User-Email": ANN}
        # Without hooks, which `team-file` checks.
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
        # The hidden server is the first to list the name.
        shown = {"command": ["bash", "-c", "sleep 1; exec python mcp/odd_schema/main.py"], "cwd": "backend", "deny_tools": ["bad"]}
        booth.write("two-mcp.json", json.dumps({"odd": hidden, "odd_schema": shown}))
        yield booth.serve("--config", "two-mcp.json", "--config", "team.toml", trust=False)


@CHECKS.stage("team-file")
@contextmanager
def team_file() -> Iterator[Booth]:
    with Booth("atlas-ui", sdk="sdk1", prepare=prepare) as booth:
        booth.decided = fakes.Recorder(lambda request: (200, {}, decision(request)))
        booth.env["HOOK_URL"] = booth.decided.url
        booth.env["PROXY_SECRET"] = SECRET
        booth.headers = {"X-Proxy-Secret": SECRET, "X-User-Email": ANN}
        yield booth.serve(*OVERRIDES, "--config", "team.toml", trust=False)
