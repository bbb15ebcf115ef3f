"""The checks of `examples/atlas`: seed 004.

Names that the specification leaves open, as these checks use them:

- The owner of an entry is `persona` (a name, or null for shared) in `/tools`, `/tools/{name}` and `/registry`.
- `GET /registry?persona=NAME` (repeatable, with `-shared`) filters tools, skills, jobs and tasks as `GET /tools` does.
- `safety_level` is `low`, `medium`, `high` or `critical`.
- A warning of `manifest check` about a key that nothing acts on has the code `manifest.unused-key`.
- The lists in `tools.mcp` filter the tools of servers; a manifest tool with providers is not one of them.
"""

import json
import shutil
import threading
from contextlib import contextmanager
from typing import Iterator

import fakes
import guide
from booth import Booth, plain_text, text_json, text_of
from checks import Checks, contains, equal, eventually, known_gaps, lacks, true

CHECKS = Checks("atlas")
MANIFEST = "modules/Tools/tool_maps/functions.json"
VIRTUAL = ("web_search", "browser_lookup", "first_of_two", "atlas_notes", "atlas_loud", "scribe_note")


class Hall(Booth):
    """An ATLAS installation, with its search services and a model."""

    model: fakes.Recorder

    def workable(self, except_for: str = "") -> "Hall":
        """Works around missing features that would hide all others, except for one, while their checks are known gaps."""
        gaps = set(known_gaps()) - {f"atlas {except_for}"}
        if "atlas 4: a provider's name is free: its kind comes from its config" in gaps:
            for name in ("google_cse", "serpapi"):
                self.replace(MANIFEST, f'"name": "{name}"', '"name": "http"')
        if "atlas 8: args may be one string" in gaps:
            self.replace("toolbooth.yaml", "args: \"servers/browser.py --name 'browser server'\"", 'args: ["servers/browser.py"]')
        if "atlas 1: the lists of tools.mcp do not remove manifest tools" in gaps:
            extra = "".join(f"      - {name}\n" for name in VIRTUAL)
            self.replace("toolbooth.yaml", "      - note_write\n", f"      - note_write\n{extra}")
        if "atlas 6: Personas/X/Toolbox is read" in gaps:
            for persona in ("Atlas", "Scribe"):
                folder = self.path(f"modules/Personas/{persona}")
                shutil.move(folder / "Toolbox", folder / "tools")
        if "atlas 6: a JSON Schema beside the manifests is not read as one" in gaps:
            self.path("modules/Tools/tool_maps/schema.json").unlink()
        return self

    def trust(self) -> None:
        # Manifests take a second answer, which is a known gap.
        for _ in range(2):
            self.cli("trust", "--yes", named=False)


@contextmanager
def services(booth: Hall) -> Iterator[None]:
    booth.model = fakes.model("model")
    booth.env["LLM_URL"] = f"{booth.model.url}/v1"
    with fakes.python_server(booth.path("servers/search_api.py")) as port:
        booth.env["SEARCH_URL"] = f"http://127.0.0.1:{port}"
        yield


@CHECKS.stage("files")
@contextmanager
def files() -> Iterator[Hall]:
    with Hall("atlas") as booth:
        yield booth


@CHECKS.stage("plain")
@contextmanager
def plain_start() -> Iterator[Hall]:
    with Hall("atlas") as booth, services(booth):
        # One answer, as an interactive start asks it.
        yield booth.serve()


@CHECKS.stage("work")
@contextmanager
def work() -> Iterator[Hall]:
    with Hall("atlas") as booth, services(booth):
        booth.workable().trust()
        yield booth.serve(trust=False)


@contextmanager
def alone(feature: str) -> Iterator[Hall]:
    """A gateway that needs this feature: all others that are missing are worked around."""
    with Hall("atlas") as booth, services(booth):
        booth.workable(feature).trust()
        yield booth.serve(trust=False)


@CHECKS.stage("providers")
@contextmanager
def providers() -> Iterator[Hall]:
    with alone("4: a provider's name is free: its kind comes from its config") as booth:
        yield booth


class Team(Hall):
    tokens: dict[str, dict[str, str]]


@CHECKS.stage("team")
@contextmanager
def team() -> Iterator[Team]:
    with Team("atlas") as booth, services(booth):
        booth.workable()
        text = booth.path("toolbooth.yaml").read_text()
        booth.write("toolbooth.yaml", text + '\nauth:\n  mode: token\ngroups:\n  admin: [root]\n')
        booth.trust()
        booth.tokens = {}
        for user in ("ann", "bob", "root"):
            token = booth.cli("--json", "tokens", "create", "--user", user).ok().json()["token"]
            booth.tokens[user] = {"Authorization": f"Bearer {token}"}
        booth.headers = booth.tokens["root"]
        yield booth.serve(trust=False)


# Files


@CHECKS.check("004: both examples of the seed pass manifest check", "files")
def seed_examples(booth: Hall) -> None:
    entries = json.loads(booth.path(MANIFEST).read_text())
    for name in ("google_search", "browser_lookup"):
        entry = next(entry for entry in entries if entry["name"] == name)
        booth.write(f"{name}.json", json.dumps(entry, indent=2))
        booth.cli("manifest", "check", f"{name}.json").ok()


@CHECKS.check("004: every violation is listed with file, line and pointer, and siblings load", "files")
def violations(booth: Hall) -> None:
    bad = [{"name": "a", "side_effects": "logging"}, {"name": "b", "default_timeout": -1}, {"name": "good"}]
    booth.write("bad.json", json.dumps(bad, indent=2))
    ran = booth.cli("manifest", "check", "bad.json")
    equal(ran.code, 1, "the exit code is")
    for text in ("/0/side_effects", "/1/default_timeout", "bad.json:"):
        contains(ran.text, text)
    lacks(ran.text, "`good`")


@CHECKS.check("10: keys that nothing acts on are named: requires_flags, network_allowlist, filesystem_root", "files")
def unused_keys(booth: Hall) -> None:
    ran = booth.cli("manifest", "check", MANIFEST)
    for key in ("requires_flags", "network_allowlist", "filesystem_root", "quota_hints"):
        contains(ran.text, key)


@CHECKS.check("11: of two entries for one tool the later loses, and manifest check says so", "files")
def rivals(booth: Hall) -> None:
    ran = booth.cli("manifest", "check", MANIFEST)
    contains(ran.text, "second_of_two")
    contains(ran.text, "first_of_two")


@CHECKS.check("9: safety_level critical is known", "files")
def critical_known(booth: Hall) -> None:
    lacks(booth.cli("manifest", "check", MANIFEST).text, "critical")


@CHECKS.check("4: a provider's name is free: its kind comes from its config", "files")
def provider_names(booth: Hall) -> None:
    ran = booth.cli("manifest", "check", MANIFEST)
    lacks(ran.text, "google_cse")
    lacks(ran.text, "serpapi")


@CHECKS.check("8: args may be one string", "files")
def args_string(booth: Hall) -> None:
    lacks(booth.cli("config", "check").text, "`args`")


@CHECKS.check("14: config check exits 1 for an untrusted file with an error", "files")
def untrusted_broken(booth: Hall) -> None:
    with Hall("atlas") as other:
        other.replace("toolbooth.yaml", "side_effects: database", "side_efects: database")
        ran = other.cli("config", "check")
        equal(ran.code, 1, "the exit code is")
        contains(ran.text, "side_efects")


@CHECKS.check("14: an untrusted manifest with an error is reported by config check", "files")
def untrusted_manifest(booth: Hall) -> None:
    with Hall("atlas") as other:
        other.workable()
        other.replace(MANIFEST, '"side_effects": "none"', '"side_effects": "nothing"')
        ran = other.cli("config", "check")
        equal(ran.code, 1, "the exit code is")
        contains(ran.text, "nothing")


@CHECKS.check("12: trust takes one answer for the file and the manifests it names", "files")
def one_trust(booth: Hall) -> None:
    with Hall("atlas") as other:
        other.cli("trust", "--yes").ok()
        second = other.cli("trust", "--yes")
        lacks(second.text, "functions.json", "a second `trust`")


# A plain start


@CHECKS.check("004: the folder works as it is: every tool that it promises is listed", "plain")
def as_it_is(booth: Hall) -> None:
    tools = booth.tools("persona=Atlas")
    for name in ("google_search", "web_search", "browser_lookup", "first_of_two", "erase_page", "erase_everything", "write_page", "atlas_notes"):
        contains(tools, name)


@CHECKS.check("12: after one answer the manifests are in force", "plain")
def manifests_in_force(booth: Hall) -> None:
    lacks(booth.cli("manifest", "list").ok().text, "needs trust")
    contains(booth.cli("manifest", "list").ok().text, "browser_lookup")


@CHECKS.check("8: args as one string is split as a shell would", "files")
def shell_words(_: Hall) -> None:
    with alone("8: args may be one string") as booth:
        found = booth.result("mcp.browser-server.browser.find", {"text": "x"})
        equal(found["arguments"], ["--name", "browser server"])


@CHECKS.check("1: the lists of tools.mcp do not remove manifest tools", "files")
def lists_and_manifests(_: Hall) -> None:
    with alone("1: the lists of tools.mcp do not remove manifest tools") as booth:
        tools = booth.tools()
        contains(tools, "web_search")
        contains(tools, "browser_lookup")


@CHECKS.check("6: Personas/X/Toolbox is read", "files")
def toolbox(_: Hall) -> None:
    with alone("6: Personas/X/Toolbox is read") as booth:
        contains(booth.tools("persona=Atlas"), "atlas_notes")


@CHECKS.check("6: a JSON Schema beside the manifests is not read as one", "files")
def schema_skipped(_: Hall) -> None:
    with alone("6: a JSON Schema beside the manifests is not read as one") as booth:
        lacks(booth.cli("manifest", "list").ok().text, "schema.json")
        lacks(booth.cli("doctor").text, "schema.json")


@CHECKS.check("6: a file in manifests.tools is read", "files")
def manifest_file(booth: Hall) -> None:
    with Hall("atlas") as other:
        other.workable()
        other.replace("toolbooth.yaml", '["modules/Tools/tool_maps/"]', f'["{MANIFEST}"]')
        other.trust()
        contains(other.cli("manifest", "list").ok().text, "google_search")


@CHECKS.check("004: skills, jobs and tasks are in the registry, and a bad one harms only itself", "plain")
def skills(booth: Hall) -> None:
    registry = booth.get("/registry")
    equal([skill["name"] for skill in registry["skills"]], ["ResearchBrief"], "the skills are")
    equal([job["name"] for job in registry["jobs"]], ["DailyBriefing"], "the jobs are")
    equal([task["name"] for task in registry["tasks"]], ["CollectSources"], "the tasks are")


@CHECKS.check("004: GET /skills by persona", "plain")
def skills_by_persona(booth: Hall) -> None:
    answer = booth.get("/skills?persona=Atlas")
    equal((answer["count"], answer["skills"][0]["name"]), (1, "ResearchBrief"))
    equal(answer["skills"][0]["capability_tags"], ["research"])


@CHECKS.check("004: a job shows derived capabilities, its personas and health.job", "plain")
def job_view(booth: Hall) -> None:
    job = booth.get("/jobs?persona=Atlas")["jobs"][0]
    equal((job["name"], job["personas"]), ("DailyBriefing", ["Atlas"]))
    contains(job["capability_requirements"], "web_search")
    contains(job["health"], "job")
    equal(booth.get("/jobs?persona=Scribe")["jobs"], [], "another persona's jobs are")


# The catalog


@CHECKS.check("1: global and per-server lists: a denied tool is in no list, search or call", "work")
def denied(booth: Hall) -> None:
    tools = booth.tools("view=full")
    contains(tools, "browser-server_browser_open" if "browser-server_browser_open" in tools else "first_of_two")
    for name in ("browser.forbidden", "unlisted", "browser.close", "note_secret"):
        true(not any(name.replace(".", "_") in tool for tool in tools), f"{name} is listed")
        server = "notes-server" if name == "note_secret" else "browser-server"
        equal(booth.call(f"mcp.{server}.{name}").status, 404, f"{name}: the status is")
    lacks(booth.rest("GET", "/tools/search?q=forbidden").text, "browser.forbidden")


@CHECKS.check("004: a discovered tool has the promised defaults", "work")
def defaults(booth: Hall) -> None:
    tool = booth.get("/tools/mcp.changing-server.steady")
    seen = {key: tool.get(key) for key in ("side_effects", "default_timeout", "allow_parallel", "requires_consent", "idempotency_key")}
    equal(seen, {"side_effects": "network", "default_timeout": 30, "allow_parallel": False, "requires_consent": True, "idempotency_key": False})


@CHECKS.check("004: a server's settings override the defaults", "work")
def server_defaults(booth: Hall) -> None:
    tool = booth.get("/tools/mcp.browser-server.browser.find")
    equal((tool["side_effects"], tool["default_timeout"], tool["allow_parallel"]), ("read_external_service", 20, True))
    equal(tool["version"], "2.1.0")


@CHECKS.check("8: auth_scopes are united without duplicates", "work")
def scopes(booth: Hall) -> None:
    equal(booth.get("/tools/mcp.browser-server.browser.find")["auth_scopes"], ["pages.read", "pages.find"], "the server's scopes are")
    equal(booth.get("/tools/web_search")["auth_scopes"], ["search.read"], "the tool's scopes are")


@CHECKS.check("004: capability tags are normalised", "work")
def capabilities(booth: Hall) -> None:
    equal(booth.get("/tools/web_search")["capabilities"], ["news", "web_search"])
    contains(booth.tools("capability=Web+Search"), "web_search")


@CHECKS.check("5: an entry without providers binds to the server's tool of its name", "work")
def bound_by_name(booth: Hall) -> None:
    equal(booth.result("google_search", {"query": "x"})["results"]["by"], "browser-server")
    tool = booth.get("/tools/google_search")
    equal((tool["version"], tool["side_effects"]), ("1.0.0", "none"))
    contains(tool["description"], "pages about a subject")


@CHECKS.check("004: credentials are shown as set or not set, never with their value", "work")
def credentials(booth: Hall) -> None:
    answer = booth.rest("GET", "/tools/web_search")
    shown = {entry["name"]: entry["configured"] for entry in answer.json()["auth"]["credentials"]}
    equal(shown, {"GOOGLE_API_KEY": False, "GOOGLE_CSE_ID": False, "SERPAPI_KEY": True})
    lacks(answer.text, "serp-key-0001")


@CHECKS.check("3: without Google's keys the search falls back to the provider whose key is set", "work")
def credential_fallback(booth: Hall) -> None:
    equal(booth.result("web_search", {"query": "x"})["results"]["by"], "serp")


@CHECKS.check("3: with Google's keys in the env file the first provider serves, without a restart", "work")
def credential_appears(booth: Hall) -> None:
    before = booth.path("atlas.env").read_text()
    booth.write("atlas.env", before + "GOOGLE_API_KEY=g-key-0001\nGOOGLE_CSE_ID=cse-1\n")
    try:
        eventually(lambda: booth.result("web_search", {"query": "x"})["results"]["by"] == "cse", "google_cse serves", 8)
    finally:
        booth.write("atlas.env", before)


@CHECKS.check("004: a manifest tool goes to its first provider, and the answer names it", "work")
def first_provider(booth: Hall) -> None:
    answer = booth.call("browser_lookup", {"text": "x"}).json()
    equal(text_json(answer["result"])["found"], "x")
    contains(answer["provider"], "browser-server")
    tool = booth.get("/tools/browser_lookup")
    equal((tool["default_timeout"], tool["requires_consent"], tool["allow_parallel"]), (45, True, False))


@CHECKS.check("004: allow_parallel false runs one call at a time", "work")
def one_at_a_time(booth: Hall) -> None:
    together: list[int] = []

    def call() -> None:
        together.append(booth.result("browser_lookup", {"text": "x"})["together"])

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    equal(together, [1, 1, 1], "calls at the same time:")


@CHECKS.check("004: health: success rate, last provider, router state", "work")
def health(booth: Hall) -> None:
    booth.call("browser_lookup", {"text": "x"}).json()
    shown = booth.get("/tools/browser_lookup")["health"]
    equal(shown["success_rate"], 1.0, "the success rate is")
    contains(str(shown["last_success_provider"]), "browser-server")
    first = booth.get("/tools/browser_lookup")["providers"][0]
    equal((first["healthy"], first["router"]["state"]), (True, "closed"))


@CHECKS.check("004: min_success_rate, version and provider filters; a bad version is 400", "work")
def filters(booth: Hall) -> None:
    contains(booth.tools("version=%3E%3D1.2"), "web_search")
    lacks(booth.tools("version=%3E%3D1.2"), "browser_lookup")
    contains(booth.tools("provider=openai"), "browser_lookup")
    contains(booth.tools("min_success_rate=0.8"), "browser_lookup")
    equal(booth.rest("GET", "/tools?version=%3E%3Ex").status, 400, "the status is")


@CHECKS.check("4: provider=google_cse finds the tool by its provider's name", "providers")
def provider_filter(booth: Hall) -> None:
    contains(booth.tools("provider=google_cse"), "web_search")


@CHECKS.check("4: providers with names of their own serve, and the answer names the one that did", "providers")
def named_provider_serves(booth: Hall) -> None:
    answer = booth.call("web_search", {"query": "x"}).json()
    equal(text_json(answer["result"])["results"]["by"], "serp")
    contains(answer["provider"], "serpapi")


@CHECKS.check("004: when the server is down the model answers in the same call", "work")
def failover(booth: Hall) -> None:
    booth.cli("servers", "disconnect", "browser-server").ok()
    booth.path("servers/browser.py").rename(booth.path("servers/away.py"))
    try:
        answer = booth.call("browser_lookup", {"text": "x"}).json()
        contains(text_of(answer["result"]), "model says hello")
        equal(answer["provider"], "openai")
    finally:
        booth.path("servers/away.py").rename(booth.path("servers/browser.py"))
        booth.cli("servers", "connect", "browser-server")
        eventually(lambda: booth.server("browser-server")["state"] == "connected", "the server is back", 30)


@CHECKS.check("13: persona=Atlas&persona=-shared is what Atlas owns, its overlay included", "work")
def persona_own(booth: Hall) -> None:
    own = booth.tools("persona=Atlas&persona=-shared")
    contains(own, "atlas_notes")
    contains(own, "browser_lookup")
    lacks(own, "web_search")


@CHECKS.check("8: personas compare without case", "work")
def persona_case(booth: Hall) -> None:
    equal(booth.tools("persona=atlas&persona=-shared"), booth.tools("persona=Atlas&persona=-shared"))
    contains(booth.tools("persona=ATLAS"), "atlas_notes")


@CHECKS.check("8: each entry names the persona that owns it", "work")
def owner(booth: Hall) -> None:
    tools = {tool["name"]: tool for tool in booth.get("/tools?persona=Atlas&limit=1000")["tools"]}
    equal(tools["atlas_notes"]["persona"], "Atlas", "the owner is")
    true(tools["web_search"].get("persona") in (None, "shared"), f"the owner of a shared tool is {tools['web_search']}")


@CHECKS.check("13: a persona's overlay is in force for that persona only", "work")
def overlay(booth: Hall) -> None:
    atlas = booth.get("/tools/browser_lookup", headers={"X-Toolbooth-Persona": "Atlas"})
    equal(atlas["version"], "1.1.0", "the version for Atlas is")
    contains(atlas["description"], "Atlas likes")
    equal(booth.get("/tools/browser_lookup").get("version"), None, "the shared version is")


@CHECKS.check("004: a server's persona scopes its tools", "work")
def server_persona(booth: Hall) -> None:
    scribe = booth.mcp_tools(path="/mcp/p/Scribe")
    contains(str(list(scribe)), "scribe_note")
    atlas = booth.mcp_tools(path="/mcp/p/Atlas")
    lacks(str(list(atlas)), "note_write")
    lacks(str(list(atlas)), "scribe_note")


@CHECKS.check("004: the TypeScript SDK lists and calls a persona's tools", "work")
def typescript(booth: Hall) -> None:
    listed, called = booth.typescript([{"list": True}, {"call": "scribe_note", "arguments": {"text": "x"}}], path="/mcp/p/Scribe")
    contains([tool["name"] for tool in listed], "scribe_note")
    equal(text_of(called), "noted: x")


@CHECKS.check("8: GET /registry?persona= filters like /tools", "work")
def registry(booth: Hall) -> None:
    names = [tool["name"] for tool in booth.get("/registry?persona=Atlas&persona=-shared")["tools"]]
    contains(names, "atlas_notes")
    lacks(names, "web_search")
    equal(set(booth.get("/registry")) >= {"revision", "tools", "skills", "jobs", "tasks", "personas", "servers"}, True, "all parts are there:")


@CHECKS.check("7: a tool that a server without listChanged removed is gone after the interval", "work")
def rediscovery(booth: Hall) -> None:
    contains(booth.tools(), "changing-server_passing")
    booth.write("changing.txt", "steady\nfresh\n")
    eventually(lambda: "changing-server_fresh" in booth.tools(), "the new tool is listed", 12)
    lacks(booth.tools(), "changing-server_passing")


@CHECKS.check("7: registry refresh discovers again at once", "work")
def forced_refresh(booth: Hall) -> None:
    booth.write("changing.txt", "steady\nforced\n")
    equal(booth.rest("POST", "/registry/refresh?force=true", {}).status, 200, "the status is")
    contains(booth.tools(), "changing-server_forced")


@CHECKS.check("004: an edited manifest is in force without a restart, with a new revision", "work")
def manifest_edit(booth: Hall) -> None:
    before = booth.get("/registry")["revision"]
    booth.replace(MANIFEST, "Search the web with the provider", "Ask the web with the provider")
    booth.trust()
    booth.cli("reload")
    eventually(lambda: "Ask the web" in booth.get("/tools/web_search")["description"], "the new description", 8)
    true(booth.get("/registry")["revision"] > before, "the revision did not change")


@CHECKS.check("11: doctor reports the entry that lost", "work")
def doctor_rival(booth: Hall) -> None:
    text = plain_text(booth.cli("doctor").text)
    contains(text, "second_of_two")
    contains(text, "first_of_two")


# Consent


@CHECKS.check("2: an approved manifest tool runs", "team")
def approved_runs(booth: Team) -> None:
    ann = booth.tokens["ann"]
    held = booth.call("browser_lookup", {"text": "x"}, headers=ann, wait=0).json(202)["held"]
    booth.rest("POST", f"/approvals/{held}/approve", {"remember": "always"}, headers=ann).json()
    shown = eventually(lambda: (found := booth.get(f"/approvals/{held}", headers=ann))["state"] != "approved" and found, "a result", 15)
    equal(shown["state"], "done", f"{shown}: the state is")
    equal(booth.call("browser_lookup", {"text": "y"}, headers=ann, wait=0).status, 200, "the status of the next call is")


@CHECKS.check("9: the default consent of a discovered tool is not asked again", "team")
def default_consent(booth: Team) -> None:
    answer = booth.call("mcp.changing-server.steady", headers=booth.tokens["ann"], wait=0)
    equal(answer.status, 200, f"{answer.text[:150]}: the status is")


@CHECKS.check("9: safety_level high asks the caller", "team")
def high(booth: Team) -> None:
    ann = booth.tokens["ann"]
    held = booth.call("erase_page", {"page": "p"}, headers=ann, wait=0).json(202)["held"]
    booth.rest("POST", f"/approvals/{held}/approve", {}, headers=ann).json()
    shown = eventually(lambda: (found := booth.get(f"/approvals/{held}", headers=ann))["state"] != "approved" and found, "a result", 15)
    equal(shown["state"], "done", f"{shown}: the state is")


@CHECKS.check("9: safety_level critical asks an approver other than the caller", "team")
def critical(booth: Team) -> None:
    ann, root = booth.tokens["ann"], booth.tokens["root"]
    held = booth.call("erase_everything", headers=ann, wait=0).json(202)["held"]
    equal(booth.rest("POST", f"/approvals/{held}/approve", {}, headers=ann).status, 403, "the caller's own answer gets")
    booth.rest("POST", f"/approvals/{held}/approve", {}, headers=root).json()
    shown = eventually(lambda: (found := booth.get(f"/approvals/{held}", headers=ann))["state"] != "approved" and found, "a result", 15)
    equal(shown["state"], "done", f"{shown}: the state is")


@CHECKS.check("8: persona_allowlist compares without case", "team")
def allowlist(booth: Team) -> None:
    ann = {**booth.tokens["ann"], "X-Toolbooth-Persona": "Atlas"}
    contains([tool["name"] for tool in booth.get("/tools?limit=1000", headers=ann)["tools"]], "atlas_loud")


@CHECKS.check("004: discovery shows a caller only what that caller may call", "team")
def authorised_discovery(booth: Team) -> None:
    equal(booth.rest("GET", "/tools", headers={"Authorization": None}).status, 401, "the status without a token is")
    names = [tool["name"] for tool in booth.get("/tools?limit=1000", headers=booth.tokens["bob"])["tools"]]
    lacks(names, "scribe_note")


@contextmanager
def guide_copy() -> Iterator[Hall]:
    with Hall("atlas") as booth, services(booth):
        yield booth


guide.add_checks(CHECKS, "from-atlas.md", guide_copy)
