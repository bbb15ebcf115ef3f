"""Atlas UI: several users behind a proxy, and hooks."""

from typing import Any

from atlas_ui_stages import ANN, BOB, CHECKS, FAY, GIL, ROOT
from booth import Booth, plain, plain_text, text_json
from checks import contains, equal, eventually, lacks, true


@CHECKS.check("5: the command line administers a gateway in header mode", "team")
def cli_administers(booth: Booth) -> None:
    contains(booth.cli("servers").ok().out, "MyExampleServer")
    booth.cli("reload").ok()


@CHECKS.check("5: a request without identity gets 401 with a hint that header mode can follow", "team")
def header_hint(booth: Booth) -> None:
    answer = booth.rest("GET", "/tools", headers={"X-User-Email": None, "X-Proxy-Secret": None})
    equal(answer.status, 401, "the status is")
    lacks(answer.text.lower(), "bearer")
    contains(answer.text, "X-User-Email")


@CHECKS.check("5: a token in header mode works, or its creation says that it would not", "team")
def token_in_header_mode(booth: Booth) -> None:
    ran = booth.cli("--json", "tokens", "create", "--user", BOB)
    if ran.code != 0:
        contains(ran.text, "header")
        return
    bearer = {"Authorization": f"Bearer {ran.json()['token']}", "X-User-Email": None, "X-Proxy-Secret": None}
    equal(booth.get("/me", headers=bearer)["user"], BOB)


@CHECKS.check("5: a wrong proxy secret is refused", "team")
def proxy_secret(booth: Booth) -> None:
    equal(booth.rest("GET", "/tools", headers={"X-Proxy-Secret": "wrong"}).status, 401, "the status is")


@CHECKS.check("10: in header mode a first call is not held unless the configuration asks for it", "team")
def not_held(booth: Booth) -> None:
    answer = booth.call("finance_my_tool", {"parameter": "x"}, user=FAY, wait=0)
    equal(answer.status, 200, f"{answer.text[:200]}: the status is")
    equal(text_json(answer.json()["result"])["results"]["by"], FAY)


@CHECKS.check("10: consent that an operator wrote is asked, and remembered as asked", "team")
def consent_remembered(booth: Booth) -> None:
    call = {"image_filename": "x"}
    held = booth.call("canvas_demo_image_name", call, user=BOB, wait=0).json(202)["held"]
    booth.rest("POST", f"/approvals/{held}/approve", {"remember": "always"}, user=BOB).json()
    eventually(lambda: booth.get(f"/approvals/{held}", user=BOB)["state"] == "done", "the call ran")
    equal(booth.call("canvas_demo_image_name", call, user=BOB, wait=0).status, 200, "the status of the next call is")


@CHECKS.check("10: consent for a session is remembered in that session only", "team")
def consent_for_session(booth: Booth) -> None:
    def call(session: str) -> Any:
        return booth.call("canvas_demo_frame", {"url": "https://example.org"}, user=BOB, wait=0, headers={"Toolbooth-Session": session})

    held = call("first").json(202)["held"]
    booth.rest("POST", f"/approvals/{held}/approve", {"remember": "session"}, user=BOB).json()
    eventually(lambda: booth.get(f"/approvals/{held}", user=BOB)["state"] == "done", "the call ran")
    equal(call("first").status, 200, "the status in the same session is")
    equal(call("second").status, 202, "the status in another session is")


@CHECKS.check("10: doctor and the greeting say what will be held and how to change it", "team")
def held_is_announced(booth: Booth) -> None:
    for text in (booth.printed(), booth.cli("doctor").text):
        contains(plain_text(text), "delete_user_record")
        contains(plain_text(text), "require_approval")


@CHECKS.check("001: groups: any match admits, others see nothing and cannot call", "team")
def groups(booth: Booth) -> None:
    contains(booth.tools(user=FAY), "finance_my_tool")
    lacks(booth.tools(user=BOB), "finance_my_tool")
    equal(booth.call("finance_my_tool", {"parameter": "x"}, user=BOB).status, 404, "the status is")


@CHECKS.check("000: _mcp_data holds exactly what this user may call", "team")
def mcp_data_by_user(booth: Booth) -> None:
    seen = {}
    for user in (FAY, BOB):
        answer = booth.call("username-override-demo_plan_with_tools", {"task": "t"}, user=user, wait=0)
        seen[user] = text_json(answer.json()["result"])["results"]["servers"]
    contains(seen[FAY], "finance")
    lacks(seen[BOB], "finance")


@CHECKS.check("2: users do not share a session of an HTTP server", "team")
def own_cart(booth: Booth) -> None:
    booth.call("shop_add_to_cart", {"item": "pear"}, user=ANN, wait=0).json()
    cart = booth.call("shop_view_cart", user=ANN, wait=0).json()
    equal(text_json(cart["result"])["results"]["cart"], ["pear"])
    other = booth.call("shop_view_cart", user=BOB, wait=0).json()
    equal(text_json(other["result"])["results"]["cart"], [], "another user's cart is")


@CHECKS.check("7: a server with auth_type is needs_auth until the user has given a key", "team")
def needs_auth(booth: Booth) -> None:
    equal(booth.server("private_shop", user=BOB)["state"], "needs_auth", "the state is")
    answer = booth.call("private_shop_credential", user=BOB, wait=0)
    contains(answer.text, "needs_auth" if "needs_auth" in answer.text else "key")
    contains(answer.text, "private_shop")


@CHECKS.check("7: a user's own key is used for that user alone, rotated and deleted", "team")
def own_key(booth: Booth) -> None:
    def used(user: str) -> Any:
        # The first key makes the gateway connect and list the tools.
        call = lambda: (answer := booth.call("private_shop_credential", user=user, wait=0)).status == 200 and answer  # noqa: E731
        return text_json(eventually(call, "the tool can be called").json()["result"])["results"]

    path = "/servers/private_shop/key"
    true(booth.rest("PUT", path, {"key": "ann-key-1111"}, user=ANN).status in (200, 204), "the key was not taken")
    equal(used(ANN), {"x-shop-key": "1111"})
    true(booth.rest("PUT", path, {"key": "ann-key-2222"}, user=ANN).status in (200, 204), "the key was not rotated")
    eventually(lambda: used(ANN) == {"x-shop-key": "2222"}, "the new key is used", 5)
    equal(booth.holds("ann-key-2222"), [], "files with the key in clear text:")
    shown = booth.rest("GET", path, user=ANN)
    equal(shown.json()["set"], True)
    lacks(shown.text, "2222")
    equal(booth.server("private_shop", user=BOB)["state"], "needs_auth", "the other user's state is")
    true(booth.rest("DELETE", path, user=ANN).status in (200, 204), "the key was not deleted")
    equal(booth.server("private_shop", user=ANN)["state"], "needs_auth", "the state after deletion is")


@CHECKS.check("7: servers key set takes the key from standard input and never shows it", "team")
def key_cli(booth: Booth) -> None:
    ran = booth.cli("servers", "key", "set", "private_shop", stdin="operator-key-3333\n").ok()
    lacks(ran.text, "3333")
    booth.cli("servers", "key", "remove", "private_shop").ok()


@CHECKS.check("8: in header mode the caller answers require_approval, and no approver is needed", "team")
def caller_confirms(booth: Booth) -> None:
    tool = "username-override-demo_delete_user_record"
    held = booth.call(tool, {"record": "1"}, user=BOB, wait=0).json(202)["held"]
    equal(booth.rest("POST", f"/approvals/{held}/approve", {}, user=ANN).status, 404, "another user's answer gets")
    booth.rest("POST", f"/approvals/{held}/approve", {}, user=BOB).json()
    eventually(lambda: booth.get(f"/approvals/{held}", user=BOB)["state"] == "done", "the call ran")


@CHECKS.check("12: lists, search, _mcp_data and calls agree about compliance levels", "team")
def compliance(booth: Booth) -> None:
    level = {"X-Toolbooth-Compliance": "HIPAA"}
    tools = booth.tools(user=FAY, headers=level)
    contains(tools, "finance_my_tool")
    lacks(tools, "tool_planner_plan_task")
    found = booth.rest("GET", "/tools/search?q=plan+a+task", user=FAY, headers=level).text
    lacks(found, "tool_planner_plan_task")
    answer = booth.call("tool_planner_plan_task", {"task": "t"}, user=FAY, headers=level, wait=0)
    true(answer.status in (403, 404), f"the status is {answer.status}")
    asked = booth.call("username-override-demo_plan_with_tools", {"task": "t"}, user=FAY, headers=level, wait=0).json()
    servers = text_json(asked["result"])["results"]["servers"]
    contains(servers, "finance")
    lacks(servers, "tool_planner")


@CHECKS.check("16: GET /calls shows a user's own calls, and all to an administrator", "team")
def calls_by_user(booth: Booth) -> None:
    booth.call("MyExampleServer_my_tool", {"parameter": "x"}, user=ANN, wait=0)
    equal({call["user"] for call in booth.get("/calls", user=ANN)["calls"]}, {ANN}, "the users are")
    contains({call["user"] for call in booth.get("/calls", user=ROOT)["calls"]}, ANN)
    record = booth.get("/calls?limit=1", user=ANN)["calls"][0]["id"]
    equal(booth.rest("GET", f"/calls/{record}", user=BOB).status, 404, "another user's record is")


@CHECKS.check("17: a persona's prompt is an MCP prompt", "team")
def persona_prompt(booth: Booth) -> None:
    async def read(client: Any) -> Any:
        names = [prompt.name for prompt in (await client.list_prompts()).prompts]
        contains(names, "persona_clerk")
        return plain(await client.get_prompt("persona_clerk", {}))

    prompt = booth.mcp(read, path="/mcp/p/clerk", user=ANN)
    contains(str(prompt), "You are a clerk.")


@CHECKS.check("18: doctor says what a process for each user costs, and how to share one", "team")
def doctor_share(booth: Booth) -> None:
    contains(plain_text(booth.cli("doctor").text), 'share = "all"')


@CHECKS.check("18: a stdio server has a process for each user; share: all has one for all", "team")
def shared_process(booth: Booth) -> None:
    def process(tool: str, user: str) -> int:
        answer = booth.call(tool, {"parameter": "x"}, user=user, wait=30).json()
        return text_json(answer["result"])["results"]["pid"]

    true(process("MyExampleServer_my_tool", ANN) != process("MyExampleServer_my_tool", BOB), "they share a process")
    for user in (FAY, GIL):
        held = booth.call("finance_my_tool", {"parameter": "x"}, user=user, wait=0)
        if held.status == 202:
            booth.rest("POST", f"/approvals/{held.json(202)['held']}/approve", {"remember": "always"}, user=user).json()
    equal(process("finance_my_tool", FAY), process("finance_my_tool", GIL), "the processes are")


@CHECKS.check("1: doctor points at tools that declare username on a server without injection", "team")
def doctor_username(booth: Booth) -> None:
    entry = '{"mcpServers": {"loose": {"command": "python", "args": ["mcp/username-override-demo/main.py"], "cwd": "backend"}}}'
    booth.write("loose-mcp.json", entry)
    ran = booth.cli("--config", "loose-mcp.json", "doctor")
    contains(ran.text, "loose")
    contains(ran.text, "username")


@CHECKS.check("1: lint points at tools that declare username on a server without injection", "team")
def lint_username(booth: Booth) -> None:
    entry = '{"mcpServers": {"loose": {"command": "python", "args": ["mcp/username-override-demo/main.py"], "cwd": "backend"}}}'
    booth.write("loose-mcp.json", entry)
    settings = ("--config", "loose-mcp.json", "--env-file", ".env", "--config", "team.toml")
    ran = booth.cli(*settings, "--no-project", "tools", "lint", named=False)
    contains(ran.text, "unsupplied-identity")


@CHECKS.check("19: a hidden server does not change the names that others see", "names")
def no_suffix(booth: Booth) -> None:
    equal(booth.tools(user=BOB), ["odd_schema_good"], "the names are")


@CHECKS.check("17: the settings of prompts and hooks are known", "team-file")
def known_settings(booth: Booth) -> None:
    lacks(booth.printed(), "unknown key")


@CHECKS.check("17: a prompt of our own is an MCP prompt", "team-file")
def own_prompt(booth: Booth) -> None:
    async def read(client: Any) -> Any:
        return plain(await client.get_prompt("weekly", {}))

    contains(str(booth.mcp(read)), "weekly report")


@CHECKS.check("17: a pre_call hook refuses, and the caller reads its reason", "team-file")
def hook_refuses(booth: Booth) -> None:
    answer = booth.call("MyExampleServer_my_tool", {"parameter": "forbidden"}, wait=0)
    equal(answer.status, 403, "the status is")
    contains(answer.text, "this word is not used here")


@CHECKS.check("17: a pre_call hook edits public arguments, and identity stays the caller's", "team-file")
def hook_edits(booth: Booth) -> None:
    results = booth.result("MyExampleServer_my_tool", {"parameter": "shout"}, wait=0)["results"]
    equal((results["input_received"], results["by"]), ("SHOUT", ANN))


@CHECKS.check("17: a hook may be an HTTP endpoint, which sees no supplied argument", "team-file")
def hook_over_http(booth: Booth) -> None:
    tool = "username-override-demo_demonstrate_override_attempt"
    answer = booth.call(tool, {"claimed": "root"}, wait=0)
    equal(answer.status, 403, "the status is")
    contains(answer.text, "no user is root")
    lacks(booth.decided.posted()[0]["json"]["arguments"], "username")
    equal(booth.call(tool, {"claimed": "ann"}, wait=0).status, 200, "the status of another call is")


@CHECKS.check("17: a hook that does not answer lets the call run, as its on_error says", "team-file")
def hook_fails_open(booth: Booth) -> None:
    equal(len(booth.decided.requests) > 0, True, "the hook was asked:")
    booth.decided.close()
    tool = "username-override-demo_demonstrate_override_attempt"
    equal(booth.call(tool, {"claimed": "root"}, wait=0).status, 200, "the status is")


@CHECKS.check("17: a pre_call hook that fails refuses, as its on_error says", "team-file")
def hook_fails_closed(booth: Booth) -> None:
    answer = booth.call("MyExampleServer_my_tool", {"parameter": "broken"}, wait=0)
    equal(answer.status, 403, "the status is")
    contains(answer.text, "house rules")


@CHECKS.check("17: a post_call hook annotates the result", "team-file")
def hook_annotates(booth: Booth) -> None:
    result = booth.call("MyExampleServer_my_tool", {"parameter": "x"}, wait=0).json()["result"]
    contains(str(result["_meta"]["toolbooth/notes"]), "seen by the house")
