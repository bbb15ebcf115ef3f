"""The checks of `examples/attocode`: seed 002.

Names that the specification leaves open, as these checks use them:

- `GET /tools/search` without `q` and `regex` is the tool called `search`, if there is one.
- The meta tool `mcp_context_stats {}` returns what `GET /stats` returns for its client.
- A caller's deadline: `call --timeout 1s`, `"timeout_ms"` in the body of `POST /tools/{name}/call`, and
  `_meta["toolbooth/timeout_ms"]` of `tools/call`. A deadline above `limits.max_call_seconds` is refused.
- `tool.retry` events have `data {attempt, delay_ms}` and the fault as `code`.
- `requestTimeout` (milliseconds) at the top level is the `timeout` of servers that set none.
- A limit of a search outside 1..50 is clamped everywhere; an unknown server is `server.unknown` everywhere.
"""

import json
import subprocess
import time
from contextlib import contextmanager
from typing import Any, Iterator

import guide
from booth import NODE, NODE_MODULES, Booth, free_port, plain, plain_text, text_json, text_of
from checks import Checks, contains, equal, eventually, lacks, true

CHECKS = Checks("attocode")
META = {"mcp_tool_search", "mcp_tool_list", "mcp_tool_describe", "mcp_tool_call"}


class Project(Booth):
    def __init__(self) -> None:
        super().__init__("attocode")
        self.path("node_modules").symlink_to(NODE_MODULES)
        self.env["FILES_TOKEN"] = "files-token-value"


@contextmanager
def limited(booth: Booth) -> Iterator[None]:
    """The server over HTTP that answers 429."""
    port = free_port()
    booth.env["LIMITED_PORT"] = str(port)
    process = subprocess.Popen([str(NODE), str(booth.path("servers/limited.cjs")), str(port)], stdin=subprocess.DEVNULL)
    try:
        time.sleep(0.3)
        yield
    finally:
        process.terminate()
        process.wait(10)


@CHECKS.stage("project")
@contextmanager
def project() -> Iterator[Project]:
    with Project() as booth, limited(booth):
        booth.env["HOST_SECRET"] = "host-secret-value"
        yield booth.serve()


@CHECKS.stage("options")
@contextmanager
def options() -> Iterator[Project]:
    with Project() as booth:
        yield booth.serve("--config", "options.mcp.json", "--no-project", trust=False)


@CHECKS.stage("files")
@contextmanager
def files() -> Iterator[Project]:
    with Project() as booth:
        yield booth


@CHECKS.stage("unset")
@contextmanager
def unset() -> Iterator[Project]:
    with Project() as booth:
        del booth.env["FILES_TOKEN"]
        yield booth.serve()


@CHECKS.stage("empty")
@contextmanager
def empty() -> Iterator[Project]:
    with Project() as booth:
        booth.write(".mcp.json", '{"servers": {}}')
        yield booth.serve()


@CHECKS.stage("layers")
@contextmanager
def layers() -> Iterator[Project]:
    with Project() as booth:
        user = booth.home / ".config/toolbooth"
        user.mkdir(parents=True)
        text = booth.path("global.mcp.json").read_text().replace("servers/filesystem.cjs", str(booth.path("servers/filesystem.cjs")))
        (user / "mcp.json").write_text(text.replace('"allowed"', f'"{booth.path("allowed")}"'))
        yield booth.serve()


# Configuration


@CHECKS.check("002: the servers of .mcp.json connect without a flag", "project")
def connected(booth: Project) -> None:
    states = {server["name"]: server["state"] for server in booth.get("/servers")["servers"]}
    equal(states, dict.fromkeys(("playwright", "filesystem", "workbench", "limited"), "connected"), "the states are")


@CHECKS.check("002: args, env with ${VAR} and a default, and cwd reach the process", "project")
def process_settings(booth: Project) -> None:
    seen = booth.result("filesystem_get_environment")
    equal((seen["label"], seen["folder"]), ("project", str(booth.folder.resolve())))
    equal(seen["root"], str(booth.path("allowed").resolve()))
    contains(seen["names"], "TOKEN")


@CHECKS.check("10: a child gets a clean environment", "project")
def clean_environment(booth: Project) -> None:
    lacks(booth.result("filesystem_get_environment")["names"], "HOST_SECRET")


@CHECKS.check("10: a guide describes the environment setting", "files")
def environment_in_guide(booth: Project) -> None:
    from booth import ROOT

    pages = [page.read_text() for page in (ROOT / "docs/guide").glob("*.md")]
    true(any("environment = [" in page or '"environment"' in page for page in pages), "no page sets `environment`")


@CHECKS.check("10: doctor suggests the environment setting where a server ends at its start", "files")
def doctor_environment(booth: Project) -> None:
    booth.env["NEEDED_TOKEN"] = "here"
    script = "if (!process.env.NEEDED_TOKEN) { console.error('NEEDED_TOKEN is not set'); process.exit(1); }"
    booth.write("needs.json", json.dumps({"servers": {"needs": {"command": "node", "args": ["-e", script]}}}))
    ran = booth.cli("--no-project", "--config", "needs.json", "doctor")
    contains(ran.text, "NEEDED_TOKEN")
    contains(ran.text, "environment")


@CHECKS.check("002: a variable that is not set is that server's error alone, and names itself", "unset")
def unset_variable(booth: Project) -> None:
    server = booth.server("filesystem")
    equal(server["state"], "config_error", "the state is")
    contains(server["reason"], "FILES_TOKEN")
    equal(booth.server("playwright")["state"], "connected", "the other server is")


@CHECKS.check("002: layers: the project's entry replaces the user's whole, others are united", "layers")
def layered(booth: Project) -> None:
    seen = booth.result("filesystem_get_environment")
    equal(seen["label"], "project")
    lacks(seen["names"], "ONLY_IN_GLOBAL")
    equal(booth.result("personal_get_environment")["label"], "personal")


@CHECKS.check("002: config check says which entry replaces which", "layers")
def replacement_told(booth: Project) -> None:
    ran = booth.cli("config", "check")
    contains(ran.text, "config.replaced")
    contains(ran.text, ".config/toolbooth/mcp.json")


@CHECKS.check("002: layers named in order: later files win", "files")
def named_layers(booth: Project) -> None:
    ran = booth.cli("--no-project", "--config", "global.mcp.json", "--config", ".mcp.json", "--json", "config", "show").ok()
    servers = ran.json()["servers"]
    equal(set(servers), {"playwright", "filesystem", "workbench", "limited", "personal"})
    equal(servers["filesystem"]["args"], ["servers/filesystem.cjs", "allowed"])


@CHECKS.check("9: an empty servers map starts no demo servers", "empty")
def no_demo(booth: Project) -> None:
    equal(booth.get("/servers")["servers"], [], "the servers are")


# Options by their own names


@CHECKS.check("1: autoConnect false at the top level connects nothing", "options")
def auto_connect(booth: Project) -> None:
    equal(booth.server("playwright")["state"], "disconnected", "the state is")


@CHECKS.check("1: a server's own autoConnect wins over the top level", "options")
def own_auto_connect(booth: Project) -> None:
    equal(booth.server("workbench")["state"], "connected", "the state is")


@CHECKS.check("002: a server with lazyLoad is listed from the cache and starts at its first call", "files")
def lazy_server(_: Project) -> None:
    with Project() as other:
        entry = {"command": "node", "args": ["servers/filesystem.cjs", "allowed"], "lazyLoad": True}
        other.write("lazy.json", json.dumps({"servers": {"filesystem": entry}}))
        # The first start has no cache yet.
        for _start in range(2):
            other.stop()
            other.serve("--config", "lazy.json", "--no-project", trust=False)
        equal(other.server("filesystem")["state"], "disconnected", "the state before is")
        contains(other.tools(), "filesystem_list_directory")
        contains(other.call("filesystem_list_directory").text, "hello.txt")
        equal(other.server("filesystem")["state"], "connected", "the state after is")


@CHECKS.check("3: mcp__server__tool and mcp_server_tool work in deny lists", "files")
def names_in_lists(booth: Project) -> None:
    entry = {"command": "node", "args": ["servers/workbench.cjs"]}
    denied = ["mcp__workbench__git_push", "mcp_workbench_git_status", "mcp.workbench.lint"]
    booth.write("deny.json", json.dumps({"servers": {"workbench": entry}, "deny_tools": denied}))
    listed = booth.cli("--no-project", "--config", "deny.json", "tools", "list").ok().out
    contains(listed, "workbench_peek")
    for name in ("git_push", "git_status", "workbench_lint"):
        lacks(listed, name)


@CHECKS.check("1: no option of Attocode is an unknown key", "files")
def known_options(booth: Project) -> None:
    ran = booth.cli("config", "check", "options.mcp.json")
    for name in ("autoConnect", "requestTimeout", "lazyLoading", "summaryDescriptionLimit", "maxToolsPerSearch", "alwaysLoadTools"):
        lacks(ran.text, f"`{name}`")
    equal(ran.code, 0, "the exit code is")


@CHECKS.check("1: /mcp connect connects a server that waits", "options")
def connect_by_hand(booth: Project) -> None:
    ran = booth.cli("shell", stdin="/mcp connect playwright\n/mcp\n")
    equal(booth.server("playwright")["state"], "connected", "the state is")
    contains(ran.out, "playwright")


@CHECKS.check("2: alwaysLoadTools pins by Attocode's name under the default naming", "options")
def pinned(booth: Project) -> None:
    booth.cli("servers", "connect", "playwright")
    names = set(booth.mcp_tools())
    contains(names, "playwright_browser_snapshot")


@CHECKS.check("002: lazyLoading lists the meta tools and the pins only", "options")
def lazy_list(booth: Project) -> None:
    booth.cli("servers", "connect", "playwright")
    names = set(booth.mcp_tools())
    true(META <= names, f"meta tools are missing: {names}")
    lacks(names, "playwright_browser_click")


@CHECKS.check("2: a pin that matches nothing is warned about", "options")
def idle_pin(booth: Project) -> None:
    options_ = json.loads(booth.path("options.mcp.json").read_text())
    options_["alwaysLoadTools"] = ["mcp_playwright_no_such_tool"]
    booth.write("pin.mcp.json", json.dumps(options_))
    ran = booth.cli("--no-project", "--config", "pin.mcp.json", "doctor", named=False)
    contains(ran.text, "no_such_tool")


@CHECKS.check("002: a found tool is loaded: it joins the list, with an event", "options")
def dynamic_load(booth: Project) -> None:
    booth.cli("servers", "connect", "playwright")

    async def search(client: Any) -> Any:
        await client.call_tool("mcp_tool_search", {"query": "browser click"})
        return [tool.name for tool in (await client.list_tools()).tools]

    contains(booth.mcp(search), "playwright_browser_click")
    loaded = [event for event in booth.events("tool.dynamicLoad")]
    contains(str(loaded), "browser_click")


@CHECKS.check("002: maxToolsPerSearch bounds a search without a limit", "options")
def search_bound(booth: Project) -> None:
    found = booth.get("/tools/search?q=browser")
    equal(len(found["hits"]), 3, "the number of hits is")


@CHECKS.check("002: a permitted tool can be called whether listed or not", "options")
def call_unlisted(booth: Project) -> None:
    equal(text_of(booth.mcp_call("workbench_lint")), "clean")


@CHECKS.check("002: the TypeScript SDK gets the same list, searches and calls", "options")
def typescript(booth: Project) -> None:
    steps = [{"list": True}, {"call": "mcp_tool_search", "arguments": {"query": "check the style"}}, {"call": "workbench_lint"}]
    listed, found, called = booth.typescript(steps)
    true(META <= {tool["name"] for tool in listed}, f"meta tools are missing: {listed}")
    contains(text_of(found), "workbench_lint")
    equal(text_of(called), "clean")


@CHECKS.check("1: requestTimeout is the deadline of calls, in milliseconds", "options")
def request_timeout(booth: Project) -> None:
    begun = time.monotonic()
    answer = booth.call("workbench_slow", {"milliseconds": 6000})
    true(time.monotonic() - begun < 4, "it took longer than 4 s")
    equal(answer.status, 504, "the status is")


# Names and search


@CHECKS.check("3: every form of a name calls the tool", "project")
def name_forms(booth: Project) -> None:
    for name in ("workbench_lint", "mcp_workbench_lint", "mcp__workbench__lint", "workbench__lint", "mcp.workbench.lint", "lint"):
        equal(text_of(booth.mcp_call(name)), "clean", name)
        equal(text_of(booth.call(name).json()["result"]), "clean", name)


@CHECKS.check("3: mcp_tool_search with regex: true takes the query as the pattern", "project")
def regex_true(booth: Project) -> None:
    result = booth.mcp_call("mcp_tool_search", {"query": "browser_(click|hover)", "regex": True})
    text = text_of(result)
    contains(text, "playwright_browser_click")
    contains(text, "playwright_browser_hover")
    lacks(text, "browser_navigate")


@CHECKS.check("3: mcp_tool_search with a limit, as in the seed", "project")
def search_limit(booth: Project) -> None:
    text = text_of(booth.mcp_call("mcp_tool_search", {"query": "screenshot", "limit": 3}))
    contains(text, "playwright_screenshot")


@CHECKS.check("3: a regex as text is the pattern too, and an invalid one is an error with its place", "project")
def regex_text(booth: Project) -> None:
    contains(text_of(booth.mcp_call("mcp_tool_search", {"query": "x", "regex": "browser_(click|hover)"})), "browser_hover")
    bad = booth.mcp_call("mcp_tool_search", {"query": "[bad", "regex": True})
    equal(bad.get("isError"), True)
    contains(text_of(bad), "character 1")


@CHECKS.check("7: an invalid regex exits with 2 on the command line", "project")
def regex_exit(booth: Project) -> None:
    ran = booth.cli("tools", "search", "--regex", "[bad")
    equal(ran.code, 2, f"{ran.text}: the exit code is")


@CHECKS.check("002: words after the hundredth character of a description are found", "project")
def full_text(booth: Project) -> None:
    contains(text_of(booth.mcp_call("mcp_tool_search", {"query": "xylophone"})), "browser_console_messages")


@CHECKS.check("3: mcp_context_stats answers like GET /stats", "project")
def context_stats(booth: Project) -> None:
    result = booth.mcp_call("mcp_context_stats")
    true(not result.get("isError"), f"it failed: {text_of(result)}")
    stats = text_json(result)
    contains(str(stats), "summar")
    equal(set(stats) <= set(booth.get("/stats")), True, f"the fields {set(stats)} are those of /stats")


@CHECKS.check("002: mcp_tool_list lists one server", "project")
def tool_list(booth: Project) -> None:
    text = text_of(booth.mcp_call("mcp_tool_list", {"server": "filesystem"}))
    contains(text, "filesystem_read_file")
    lacks(text, "playwright")


@CHECKS.check("7: a limit over 50 is the same on MCP, REST and the command line", "project")
def same_limit(booth: Project) -> None:
    over = booth.mcp_call("mcp_tool_search", {"query": "browser", "limit": 999})
    true(not over.get("isError"), f"MCP refused it: {text_of(over)}")
    equal(booth.rest("GET", "/tools/search?q=browser&limit=999").status, 200, "REST answers")
    equal(booth.cli("tools", "search", "browser", "--limit", "999").code, 0, "the exit code is")


@CHECKS.check("7: a limit of 0 is the same on MCP, REST and the command line", "project")
def same_zero(booth: Project) -> None:
    over = booth.mcp_call("mcp_tool_search", {"query": "browser", "limit": 0})
    by_mcp = not over.get("isError")
    by_rest = booth.rest("GET", "/tools/search?q=browser&limit=0").status == 200
    by_cli = booth.cli("tools", "search", "browser", "--limit", "0").code == 0
    equal((by_mcp, by_rest, by_cli), (True, True, True), "accepted by MCP, REST and the command line:")


@CHECKS.check("7: view=summary cuts descriptions at 100 characters", "project")
def summary_length(booth: Project) -> None:
    for tool in booth.get("/tools?view=summary&limit=1000")["tools"]:
        description = tool.get("description") or ""
        true(len(description) <= 100, f"{len(description)} characters: {description}")


@CHECKS.check("7: an unknown server is the same error over MCP, REST and on the command line", "project")
def unknown_server(booth: Project) -> None:
    by_mcp = booth.mcp_call("mcp_tool_list", {"server": "nowhere"})
    equal(by_mcp.get("isError"), True, "isError over MCP is")
    contains(text_of(by_mcp), "nowhere")
    answer = booth.rest("GET", "/tools?server=nowhere")
    equal(answer.status, 404, "REST answers")
    contains(answer.text, "nowhere")
    true(booth.cli("tools", "list", "--server", "nowhere").code != 0, "the command line accepts it")


@CHECKS.check("8: a tool called search is reached by REST and the command line", "project")
def tool_called_search(booth: Project) -> None:
    equal(text_of(booth.rest("POST", "/tools/search/call", {"arguments": {"text": "x"}}).json()["result"]), "found: x")
    contains(booth.cli("call", "search", "text=x").ok().out, "found: x")
    contains(booth.cli("tools", "show", "search").ok().out, "notes of the project")
    answer = booth.rest("GET", "/tools/search")
    contains(answer.text, "notes of the project")


@CHECKS.check("8: a tool called lint is reached by REST", "project")
def tool_called_lint(booth: Project) -> None:
    contains(booth.cli("tools", "show", "lint").ok().out, "Check the style")
    equal(text_of(booth.rest("POST", "/tools/lint/call", {}).json()["result"]), "clean")


# Validation and statistics


@CHECKS.check("002: lint scores by the seed's table, and a tool without a description fails", "project")
def lint(booth: Project) -> None:
    ran = booth.cli("--json", "tools", "lint")
    equal(ran.code, 1, "the exit code is")
    tools = ran.json()
    tools = tools["tools"] if isinstance(tools, dict) else tools
    scores = {tool["name"]: tool["score"] for tool in tools}
    # No description -40, two properties without description -10, nothing required -10.
    equal(scores["workbench_nameless"], 40)
    equal(scores["playwright_browser_click"], 100)
    true(scores["workbench_badName"] < 100, f"the score of a bad name is {scores['workbench_badName']}")


@CHECKS.check("002: stats tell full, summary and saved tokens", "project")
def stats(booth: Project) -> None:
    shown = booth.cli("tools", "stats").ok().out.lower()
    for word in ("full", "summar", "saved" if "saved" in shown else "save"):
        contains(shown, word)


@CHECKS.check("002: the shell has /mcp, tools, search, stats, connect and disconnect", "project")
def shell(booth: Project) -> None:
    lines = "/mcp\n/mcp tools\n/mcp search browser click\n/mcp stats\n/mcp disconnect playwright\n/mcp connect playwright\n"
    ran = booth.cli("shell", stdin=lines)
    for text in ("workbench", "connected", "playwright_browser_click", "badName"):
        contains(ran.out, text)
    lacks(plain_text(ran.text), "unknown command")


@CHECKS.check("9: a disconnected server stays disconnected until it is connected", "project")
def disconnect_lasts(booth: Project) -> None:
    booth.cli("servers", "disconnect", "playwright").ok()
    try:
        answer = booth.call("playwright_screenshot")
        true(answer.status != 200 or "isError" in answer.text, "a call connected it again")
        contains(answer.text, "disconnect")
        equal(booth.server("playwright")["state"], "disconnected", "the state is")
    finally:
        booth.cli("servers", "connect", "playwright")


# Events and errors


@CHECKS.check("002: the eight events of the seed", "project")
def events(booth: Project) -> None:
    booth.mcp_call("mcp_tool_search", {"query": "browser click"})
    booth.call("workbench_lint").json()
    booth.cli("servers", "disconnect", "playwright").ok()
    booth.cli("servers", "connect", "playwright").ok()
    wanted = {"server.connecting", "server.connected", "server.disconnected", "tool.call", "tool.result", "tool.search"}
    eventually(lambda: wanted <= {event["type"] for event in booth.events()}, f"the events {wanted}")
    connected_ = [event for event in booth.events("server.connected") if event["server"] == "playwright"]
    equal(connected_[-1]["data"]["tools"], 6, "the tool count is")


@CHECKS.check("002: a tool's error is an error, and is not retried whatever it says", "project")
def tool_error(booth: Project) -> None:
    answer = booth.call("workbench_fails").json()
    equal(answer["result"]["isError"], True)
    equal(answer.get("attempts", 1), 1, "the number of attempts is")
    equal(booth.cli("call", "workbench_fails").code, 1, "the exit code is")


@CHECKS.check("5: a read whose server ends is retried, with an event for each retry", "project")
def read_retried(booth: Project) -> None:
    answer = booth.call("workbench_fragile_read").json()
    equal(text_of(answer["result"]), "fragile_read worked at call 2")
    true(answer["attempts"] >= 2, f"the number of attempts is {answer['attempts']}")
    retries = [event for event in booth.events("tool.retry") if event.get("tool") == "fragile_read"]
    equal(len(retries), answer["attempts"] - 1, "the number of events is")


@CHECKS.check("5: a call waits for a server that is about to reconnect", "project")
def reconnect_awaited(booth: Project) -> None:
    booth.path(".fragile_write").unlink(missing_ok=True)
    booth.call("workbench_fragile_write")
    answer = booth.call("workbench_peek")
    equal(answer.status, 200, f"{answer.text[:200]}: the status is")


@CHECKS.check("5: a write whose server ends is not repeated, and becomes a dead letter", "project")
def write_not_retried(booth: Project) -> None:
    eventually(lambda: booth.server("workbench")["state"] == "connected", "the server is connected again", 20)
    booth.path(".fragile_write").unlink(missing_ok=True)
    answer = booth.call("workbench_fragile_write")
    equal(answer.status, 502, f"{answer.text[:200]}: the status is")
    equal(booth.path(".fragile_write").read_text(), "1", "the number of calls is")
    letters = booth.cli("--json", "dead-letters", "list").ok().text
    contains(letters, "fragile_write")
    eventually(lambda: booth.server("workbench")["state"] == "connected", "the server is connected again", 20)


@CHECKS.check("5: Retry-After of a server over HTTP is honoured", "project")
def retry_after(booth: Project) -> None:
    begun = time.monotonic()
    answer = booth.call("limited_get_quota").json()
    took = time.monotonic() - begun
    contains(text_of(answer["result"]), "after 2 requests")
    true(took >= 0.95, f"it waited for {took:.2f} s only")
    contains(str(booth.events("tool.retry")), "get_quota")


# Deadlines


@CHECKS.check("4: a caller's timeout on the command line", "project")
def timeout_cli(booth: Project) -> None:
    begun = time.monotonic()
    ran = booth.cli("call", "workbench_slow", "milliseconds=8000", "--timeout", "1s")
    true(time.monotonic() - begun < 5, "it took longer than 5 s")
    equal(ran.code, 1, "the exit code is")
    contains(ran.text, "call.timeout")


@CHECKS.check("4: a caller's timeout over REST", "project")
def timeout_rest(booth: Project) -> None:
    answer = booth.call("workbench_slow", {"milliseconds": 8000}, timeout_ms=500)
    equal(answer.status, 504, "the status is")
    contains(answer.text, "call.timeout")


@CHECKS.check("4: a caller's timeout over MCP", "project")
def timeout_mcp(booth: Project) -> None:
    async def slow(client: Any) -> Any:
        return plain(await client.call_tool("workbench_slow", {"milliseconds": 8000}, meta={"toolbooth/timeout_ms": 500}))

    begun = time.monotonic()
    result = booth.mcp(slow)
    true(time.monotonic() - begun < 5, "it took longer than 5 s")
    equal(result.get("isError"), True)


@CHECKS.check("9: after a timeout the cancellation gives the timeout as its reason", "files")
def cancel_reason(_: Project) -> None:
    with Project() as other:
        mark = other.path(".cancelled")
        entry = {"command": "node", "args": ["servers/workbench.cjs"], "timeout": 1}
        other.write("short.json", json.dumps({"servers": {"short": entry}}))
        other.serve("--config", "short.json", "--no-project", trust=False)
        other.call("short_slow", {"milliseconds": 8000})
        reason = eventually(lambda: mark.exists() and mark.read_text(), "a reason", 5)
    contains(reason.lower(), "time")
    lacks(reason.lower(), "caller")


# Plan mode


@CHECKS.check("6: plan mode lets reads pass: snapshot, status, readOnlyHint", "project")
def plan_reads(booth: Project) -> None:
    booth.cli("plan", "on").ok()
    try:
        for tool in ("playwright_browser_snapshot", "workbench_git_status", "workbench_peek", "filesystem_list_directory"):
            answer = booth.call(tool)
            equal(answer.status, 200, f"{tool}: the status is")
    finally:
        booth.cli("plan", "off")


@CHECKS.check("6: plan mode queues writes in order and runs them after approval", "project")
def plan_writes(booth: Project) -> None:
    booth.cli("plan", "on").ok()
    try:
        for number, tool in enumerate(("create", "update", "delete"), 1):
            held = booth.call(f"workbench_{tool}_issue", {"text": "x"}).json(202)
            contains(held["message"], f"step {number} of plan")
        equal(booth.call("workbench_git_push").status, 202, "the status of git_push is")
        contains(booth.cli("plan", "show").ok().out, "delete_issue")
        equal(booth.cli("plan", "approve", "1-2").ok().text.count("done"), 2, "the number of steps that ran is")
        steps = booth.cli("plan", "show").ok().out.splitlines()
        pending = [line for line in steps if "delete_issue" in line]
        true(pending and "done" not in pending[0], f"the third step does not wait: {steps}")
    finally:
        booth.cli("plan", "off")


@CHECKS.check("9: --remember session without a session says that nothing is remembered", "files")
def remember_session(_: Project) -> None:
    with Project() as other:
        entry = {"command": "node", "args": ["servers/workbench.cjs"]}
        other.write("ask.json", json.dumps({"servers": {"asked": entry}, "approval": {"default": "always"}}))
        other.serve("--config", "ask.json", "--no-project", trust=False)
        held = other.call("asked_lint", wait=0).json(202)["held"]
        ran = other.cli("approvals", "approve", held, "--remember", "session")
        contains(ran.text, "session")
        true("not remembered" in ran.text or ran.code != 0, f"nothing said: {ran.text}")


guide.add_checks(CHECKS, "from-attocode.md", Project)
