"""Atlas UI: configuration files, the start of the gateway, and models."""

import json
from contextlib import contextmanager
from typing import Iterator

from atlas_ui_stages import CHECKS, OVERRIDES, Solo, prepare
from booth import Booth, plain_text
from checks import contains, equal, lacks, true


# Files


@contextmanager
def alone(feature: str) -> Iterator[Booth]:
    """A gateway that needs this feature: all others that are missing are worked around."""
    with Booth("atlas-ui", sdk="sdk1", prepare=lambda folder: prepare(folder, feature)) as booth:
        entries = json.loads(booth.path("config/overrides/mcp.json").read_text())
        kept = {name: entries[name] for name in ("MyExampleServer", "canvas_demo", "shop")}
        booth.write("config/overrides/mcp.json", json.dumps(kept))
        yield booth.serve(*OVERRIDES, trust=False)


@CHECKS.check("1: config import of a flat mcp.json keeps injection and says so", "files")
def import_keeps_injection(booth: Booth) -> None:
    dry = booth.cli("config", "import", "config/overrides/mcp.json").ok()
    contains(plain_text(dry.text), "inject", "the dry run")
    booth.cli("config", "import", "config/overrides/mcp.json", "--apply").ok()
    # Without the project's own files, whose entries take precedence over imported ones.
    shown = booth.cli("--no-project", "config", "show", "--json").ok().json()
    booth.forget()
    equal(shown["servers"]["username-override-demo"].get("inject"), True, "inject is")


@CHECKS.check("1: config import of the same entries under mcpServers says that username is not supplied", "files")
def import_names_missing_injection(booth: Booth) -> None:
    booth.write("wrapped.json", '{"mcpServers": ' + booth.path("config/overrides/mcp.json").read_text() + "}")
    contains(plain_text(booth.cli("config", "import", "wrapped.json").ok().text), "inject")


@CHECKS.check("4: config import keeps the folder that cwd means", "files")
def import_keeps_cwd(booth: Booth) -> None:
    booth.cli("config", "import", "config/overrides/mcp.json", "--apply").ok()
    # Without the project's own files, whose entries take precedence over imported ones.
    shown = booth.cli("--no-project", "config", "show", "--json").ok().json()
    booth.forget()
    equal(shown["servers"]["MyExampleServer"]["cwd"], str(booth.path("backend").resolve()), "cwd is")


@CHECKS.check("4: a cwd that exists nowhere is an error that names both folders", "files")
def cwd_nowhere(booth: Booth) -> None:
    booth.write("config/overrides/lost-mcp.json", '{"lost": {"command": ["python", "x.py"], "cwd": "elsewhere"}}')
    ran = booth.cli("config", "check", "--config", "config/overrides/lost-mcp.json")
    equal(ran.code, 1, "the exit code is")
    for folder in ("config/overrides/elsewhere", f"{booth.folder}/elsewhere"):
        contains(ran.text, folder)


@CHECKS.check("11: ${VAR} in a description is left as written", "files")
def prose_is_not_expanded(booth: Booth) -> None:
    path = "config/overrides/mcp.json"
    ran = booth.cli("config", "check", path)
    lacks(ran.text, "CURRENCY", "config check")


@CHECKS.check("11: type stdio beside a url means the url", "files")
def url_wins_over_old_type(booth: Booth) -> None:
    booth.write("url-mcp.json", '{"shop": {"url": "http://127.0.0.1:9/mcp", "type": "stdio"}}')
    booth.cli("config", "check", "url-mcp.json").ok()


@CHECKS.check("11: groups [] admits no user, with a warning", "files")
def empty_groups(booth: Booth) -> None:
    booth.write("closed-mcp.json", '{"closed": {"command": ["python", "x.py"], "groups": []}}')
    contains(booth.cli("config", "check", "closed-mcp.json").text, "groups")


@CHECKS.check("12: an unknown compliance level is warned about with its place", "files")
def unknown_level(booth: Booth) -> None:
    booth.replace("config/overrides/mcp.json", '"compliance_level": "Internal"', '"compliance_level": "Intrenal"')
    ran = booth.cli(*OVERRIDES, "config", "check")
    booth.replace("config/overrides/mcp.json", '"compliance_level": "Intrenal"', '"compliance_level": "Internal"')
    contains(ran.text, "Intrenal")
    contains(ran.text, "overrides/mcp.json:")
    contains(ran.text, "did you mean `Internal`")


@CHECKS.check("17: is_exclusive is named as not acted upon and harms nothing", "files")
def exclusive(booth: Booth) -> None:
    booth.write("exclusive-mcp.json", '{"one": {"command": ["python", "x.py"], "is_exclusive": true}}')
    ran = booth.cli("config", "check", "exclusive-mcp.json")
    contains(ran.text, "is_exclusive")
    equal(ran.code, 0, "the exit code is")


@CHECKS.check("17: RAG and extractor files are named in a clear notice", "files")
def unused_files(booth: Booth) -> None:
    ran = booth.cli("--config-overrides", "config/overrides", "--env-file", ".env", "config", "check")
    contains(ran.text, "rag-sources.json")
    contains(ran.text, "file-extractors.json")


@CHECKS.check("19: the summary counts every error, not the files that have one", "files")
def errors_are_counted(booth: Booth) -> None:
    entries = ", ".join(f'"s{n}": {{"command": ["python", "x.py"], "cwd": "gone"}}' for n in range(10))
    booth.write("ten-mcp.json", "{" + entries + "}")
    contains(booth.cli("config", "check", "ten-mcp.json").text, "10 errors")
    contains(booth.cli("--no-project", "--config", "ten-mcp.json", "tools", "list").text, "s9 (config_error)")


@CHECKS.check("000: a misspelt key is an error with a suggestion, and its siblings load", "files")
def misspelt(booth: Booth) -> None:
    booth.write("typo-mcp.json", '{"a": {"command": ["python", "x.py"], "grops": ["users"]}, "b": {"command": ["python", "x.py"]}}')
    ran = booth.cli("config", "check", "typo-mcp.json")
    equal(ran.code, 1, "the exit code is")
    contains(ran.text, "did you mean `groups`")
    lacks(ran.text, "server `b`")


@CHECKS.check("000: an env file that does not exist ends with exit code 2", "files")
def missing_env_file(booth: Booth) -> None:
    equal(booth.cli("serve", "--env-file", "nowhere.env").code, 2, "the exit code is")


# A plain start


@CHECKS.check("4: config/overrides/mcp.json of the folder is found without a flag", "plain")
def found_without_flag(booth: Booth) -> None:
    names = {server["name"] for server in booth.get("/servers")["servers"]}
    contains(names, "MyExampleServer")
    contains(names, "shipped", "the servers of config/defaults")


@CHECKS.check("4: found files need trust, and one answer covers all of them", "plain")
def trusted_once(booth: Booth) -> None:
    states = {server["name"]: server["state"] for server in booth.get("/servers")["servers"]}
    equal(states.get("MyExampleServer"), "connected", "the state is")


@CHECKS.check("4: cwd is found from the seed's layout", "plain")
def cwd_from_layout(booth: Booth) -> None:
    equal(booth.result("MyExampleServer_my_tool", {"parameter": "x"})["results"]["input_received"], "x")


@CHECKS.check("000: the command line of the seed starts", "named")
def seed_command_line(booth: Booth) -> None:
    contains({server["name"] for server in booth.get("/servers")["servers"]}, "tool_planner")


@CHECKS.check("000: --rag-sources-config is accepted with a notice", "named")
def rag_notice(booth: Booth) -> None:
    contains(plain_text(booth.printed()), "rag-sources")


@CHECKS.check("4: cwd works with the files named on the command line", "files")
def cwd_when_named(_: Booth) -> None:
    with alone("4: cwd works with the files named on the command line") as booth:
        equal(booth.result("MyExampleServer_my_tool", {"parameter": "x"})["results"]["input_received"], "x")


@CHECKS.check("17: a server with is_exclusive works", "files")
def exclusive_works(_: Booth) -> None:
    with alone("17: is_exclusive is named as not acted upon and harms nothing") as booth:
        equal(booth.server("canvas_demo")["state"], "connected", "the state is")


@CHECKS.check("11: a description with ${VAR} is shown as written", "files")
def prose_is_shown(_: Booth) -> None:
    with alone("11: ${VAR} in a description is left as written") as booth:
        contains(booth.server("MyExampleServer")["description"], "${CURRENCY}")


@CHECKS.check("11: a server with type stdio beside a url connects to the url", "files")
def url_connects(_: Booth) -> None:
    with alone("11: type stdio beside a url means the url") as booth:
        equal(booth.server("shop").get("transport"), "http", "the transport is")


# Odd schemas and models


@CHECKS.check("3: a tool whose schema is not an object is set aside with a reason", "odd")
def odd_schema(booth: Booth) -> None:
    tools = booth.tools()
    contains(tools, "odd_schema_good")
    lacks(tools, "odd_schema_bad")
    aside = booth.server("odd_schema")["set_aside"]
    true(any(item["name"] == "bad" and item["reason"] for item in aside), f"no reason: {aside}")
    contains(booth.cli("doctor").text, "odd_schema")


@CHECKS.check("3: official SDK clients can list everything, in both eras and in TypeScript", "odd")
def sdk_lists(booth: Booth) -> None:
    for era in ("legacy", "modern"):
        contains(booth.mcp_tools(era=era), "odd_schema_good")
    names = [tool["name"] for tool in booth.typescript([{"list": True}])[0]]
    contains(names, "odd_schema_good")


@CHECKS.check("6: a model_url that ends in /chat/completions is requested once", "models")
def model_url(booth: Solo) -> None:
    booth.first.requests.clear()
    contains(booth.cli("chat", "hello").ok().out, "first says hello")
    equal({request["path"] for request in booth.first.requests}, {"/v1/chat/completions"})


@CHECKS.check("6: extra_headers, max_tokens and the key of the model are sent", "models")
def model_settings(booth: Solo) -> None:
    booth.first.requests.clear()
    booth.cli("chat", "hello")
    request = booth.first.posted()[0]
    equal(request["headers"].get("authorization"), "Bearer first-model-key-0001")
    equal(request["headers"].get("http-referer"), "https://booth.example")
    equal(request["headers"].get("x-title"), "Toolbooth example")
    equal(request["json"].get("max_tokens"), 700, "max_tokens is")


@CHECKS.check("6: --model goes to that model's endpoint with its own key", "models")
def second_model(booth: Solo) -> None:
    booth.second.requests.clear()
    ran = booth.cli("chat", "--model", "second", "hello")
    contains(ran.out, "second says hello")
    request = booth.second.posted()[0]
    equal((request["json"]["model"], request["headers"]["authorization"]), ("second-2", "Bearer second-model-key-0002"))


@CHECKS.check("6: an unknown --model is an error that names the models", "models")
def unknown_model(booth: Solo) -> None:
    ran = booth.cli("chat", "--model", "third", "hello")
    true(ran.code != 0, "it was accepted")
    contains(ran.text, "small")
    contains(ran.text, "second")
