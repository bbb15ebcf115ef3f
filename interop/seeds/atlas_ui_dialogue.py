"""Atlas UI: questions, progress, approvals, batches and the record of calls."""

import json
import re
from typing import Any

from atlas_ui_stages import CHECKS, Solo
from booth import plain, text_json, text_of
from checks import contains, equal, eventually, lacks, true


@CHECKS.check("14: elicitation over MCP: accept and decline, in both eras", "solo")
def elicit_mcp(booth: Solo) -> None:
    for era in ("legacy", "modern"):
        yes = {"action": "accept", "content": {"value": 7}}
        equal(text_of(booth.mcp_call("questions_demo_pick_a_number", era=era, answer=yes)), "You picked 7")
        equal(text_of(booth.mcp_call("questions_demo_pick_a_number", era=era, answer={"action": "decline"})), "No number: decline")


@CHECKS.check("14: elicitation with the TypeScript SDK", "solo")
def elicit_typescript(booth: Solo) -> None:
    answer = {"action": "accept", "content": {"name": "Bo", "age": 5}}
    steps = [{"call": "questions_demo_register_guest"}]
    equal(text_of(booth.typescript(steps, answer=answer)[0]), "Bo is 5")


@CHECKS.check("14: elicitation over REST: 202 with the question, answered by POST", "solo")
def elicit_rest(booth: Solo) -> None:
    asked = booth.call("questions_demo_register_guest").json(202)
    equal((asked["kind"], asked["question"]["message"]), ("question", "Who comes?"))
    equal(set(asked["question"]["schema"]["properties"]), {"name", "age"})
    answer = {"action": "accept", "content": {"name": "Bo", "age": 5}}
    done = booth.rest("POST", f"/calls/{asked['call']}/answer", answer).json()
    equal(text_of(done["result"]), "Bo is 5")


@CHECKS.check("14: a question over REST can be declined, and a wrong answer is refused with its place", "solo")
def elicit_rest_refused(booth: Solo) -> None:
    asked = booth.call("questions_demo_register_guest").json(202)
    bad = booth.rest("POST", f"/calls/{asked['call']}/answer", {"action": "accept", "content": {"name": "Bo", "age": "x"}})
    equal(bad.status, 400, "the status of a wrong answer is")
    contains(bad.text, "/age")
    done = booth.rest("POST", f"/calls/{asked['call']}/answer", {"action": "decline"}).json()
    equal(text_of(done["result"]), "No guest: decline")


@CHECKS.check("14: elicitation on the command line with --answer", "solo")
def elicit_cli(booth: Solo) -> None:
    ran = booth.cli("call", "questions_demo_register_guest", "--answer", "name=Bo", "--answer", "age=5").ok()
    contains(ran.out, "Bo is 5")


@CHECKS.check("14: without --answer and without a terminal the call exits 4 with the question", "solo")
def elicit_cli_held(booth: Solo) -> None:
    ran = booth.cli("call", "questions_demo_register_guest")
    equal(ran.code, 4, "the exit code is")
    contains(ran.text, "Who comes?")


@CHECKS.check("14: elicitation on a terminal: the question is asked inline", "solo")
def elicit_terminal(booth: Solo) -> None:
    shown = booth.terminal("call", "questions_demo_pick_a_number", after="Pick a number", typed="7\r")
    contains(shown, "You picked 7")


@CHECKS.check("14: elicitation in a chat: the model calls the tool, the user answers", "solo")
def elicit_chat(booth: Solo) -> None:
    words = ("chat", "--tools", "questions_demo_pick_a_number", "use questions_demo_pick_a_number")
    shown = booth.terminal(*words, after="Pick a number", typed="7\r")
    contains(shown, "first heard: You picked 7")


@CHECKS.check("14: elicitation in a piped shell: the next line is the answer", "solo")
def elicit_shell(booth: Solo) -> None:
    ran = booth.cli("shell", stdin="/call questions_demo_pick_a_number\n7\n")
    contains(ran.out, "You picked 7")


@CHECKS.check("15: progress and updates are events of their call", "solo")
def update_events(booth: Solo) -> None:
    booth.call("canvas_demo_updates").json()
    booth.call("questions_demo_count", {"steps": 3}).json()
    steps = [event for event in booth.events("tool.progress") if event.get("tool") == "count"]
    equal([event["data"]["progress"] for event in steps], [1, 2, 3], "the progress is")
    kinds = [event["data"]["type"] for event in booth.events("tool.update")]
    equal(kinds, ["canvas_update", "system_message", "artifacts"], "the updates are")


@CHECKS.check("15: progress is shown on the command line", "solo")
def progress_cli(booth: Solo) -> None:
    ran = booth.cli("call", "questions_demo_count", "steps=3").ok()
    contains(ran.err, "step 2")
    contains(ran.out, "3 steps")


@CHECKS.check("16: files of an update are named as soon as they come", "solo")
def update_files(booth: Solo) -> None:
    result = booth.call("canvas_demo_updates").json()["result"]
    contains([file["name"] for file in result["_meta"]["toolbooth/artifacts"]], "part.txt")
    named = [event["data"].get("artifacts") for event in booth.events("tool.update") if event["data"]["type"] == "artifacts"]
    contains(str(named), "part.txt")


@CHECKS.check("16: GET /calls records tool, outcome, timings, attempts, artifacts and display hints", "solo")
def call_record(booth: Solo) -> None:
    booth.call("MyExampleServer_create_html_report", {"title": "kept"}).json()
    newest = booth.get("/calls?limit=1")["calls"][0]
    equal((newest["tool"], newest["server"], newest["outcome"]), ("create_html_report", "MyExampleServer", "done"))
    true(newest["duration_ms"] > 0 and newest["at_ms"] > 0, f"no timings: {newest}")
    equal(len(newest["attempts"]), 1, "the number of attempts is")
    equal([(file["name"], file["viewer"]) for file in newest["artifacts"]], [("report.html", "html")])
    equal(newest["display"]["primary_file"], "report.html")
    equal(booth.get(f"/calls/{newest['id']}")["id"], newest["id"])


@CHECKS.check("16: the answer of a call names its record", "solo")
def call_id(booth: Solo) -> None:
    answer = booth.call("MyExampleServer_my_tool", {"parameter": "x"}).json()
    equal(booth.get(f"/calls/{answer['call']}")["tool"], "my_tool")


@CHECKS.check("16: the record of calls survives a restart", "solo")
def call_record_durable(booth: Solo) -> None:
    answer = booth.call("MyExampleServer_my_tool", {"parameter": "x"}).json()
    booth.stop()
    booth.serve(*booth.arguments, trust=False)
    equal(booth.get(f"/calls/{answer['call']}")["tool"], "my_tool")


@CHECKS.check("17: canvas_canvas shows content as a file on the canvas", "solo")
def canvas_tool(booth: Solo) -> None:
    result = booth.call("canvas_canvas", {"content": "# Hello"}).json()["result"]
    equal(result["_meta"]["toolbooth/display"]["open_canvas"], True)
    equal(len(result["_meta"]["toolbooth/artifacts"]), 1, "the number of files is")


@CHECKS.check("17: batch calls over REST keep the order and isolate failures", "solo")
def batch_rest(booth: Solo) -> None:
    calls = [{"tool": "MyExampleServer_my_tool", "arguments": {"parameter": str(n)}} for n in range(3)]
    calls.insert(1, {"tool": "no_such_tool", "arguments": {}})
    results = booth.rest("POST", "/calls/batch", {"calls": calls}).json()["results"]
    equal(results[1]["problem"]["code"], "call.unknown-tool")
    seen = [text_json(results[at]["result"])["results"]["input_received"] for at in (0, 2, 3)]
    equal(seen, ["0", "1", "2"])


@CHECKS.check("17: a batch is bounded", "solo")
def batch_bound(booth: Solo) -> None:
    calls = [{"tool": "MyExampleServer_my_tool", "arguments": {"parameter": "x"}}] * 101
    answer = booth.rest("POST", "/calls/batch", {"calls": calls})
    equal(answer.status, 400, "the status of 101 calls is")
    contains(answer.text, "100")


@CHECKS.check("17: batch calls on the command line", "solo")
def batch_cli(booth: Solo) -> None:
    lines = [f'{{"tool": "MyExampleServer_my_tool", "arguments": {{"parameter": "{n}"}}}}' for n in range(3)]
    booth.write("calls.jsonl", "\n".join(lines))
    results = booth.cli("--json", "call", "--batch", "calls.jsonl").ok().json()["results"]
    seen = [text_json(entry["result"])["results"]["input_received"] for entry in results]
    equal(seen, ["0", "1", "2"])


@CHECKS.check("8: require_approval asks the caller every time, and --yes does not answer", "solo")
def approval_by_caller(booth: Solo) -> None:
    tool = "username-override-demo_delete_user_record"
    equal(booth.cli("call", tool, "record=1", "--yes").code, 4, "the exit code is")
    yes = {"action": "accept", "content": {"decision": "approve"}}
    for _ in range(2):
        async def ask(client: Any) -> Any:
            result = plain(await client.call_tool(tool, {"record": "1"}))
            return result, list(client.asked)

        result, asked = booth.mcp(ask, answer=yes)
        equal(len(asked), 1, "the number of questions is")
        equal(text_json(result)["results"]["deleted"], "1")


@CHECKS.check("8: an approval may edit arguments, and a supplied argument in it is supplied again", "solo")
def approval_edit(booth: Solo) -> None:
    tool = "username-override-demo_delete_user_record"
    held = booth.call(tool, {"record": "1"}, wait=0).json(202)["held"]
    edit = {"arguments": {"record": "2", "username": "mallory"}}
    booth.rest("POST", f"/approvals/{held}/approve", edit).json()
    shown = eventually(lambda: (found := booth.get(f"/approvals/{held}"))["state"] == "done" and found, "the call ran")
    true(re.search(r"deleted\W+2\b", json.dumps(shown)), f"the edited argument was not used: {shown}")
    lacks(str(shown), "mallory")
