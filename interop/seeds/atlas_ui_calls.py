"""Atlas UI: servers, arguments, results and files of one user."""

from atlas_ui_stages import CHECKS, VIEWERS, Solo
from booth import Booth, text_json
from checks import contains, equal, lacks, true


@CHECKS.check("001: the example server answers, and its result is what it returned", "solo")
def example_answers(booth: Solo) -> None:
    result = booth.result("MyExampleServer_my_tool", {"parameter": "x"})
    equal(result["results"]["input_received"], "x")


@CHECKS.check("001: every server of the file that can run is connected", "solo")
def all_connected(booth: Solo) -> None:
    states = {server["name"]: server["state"] for server in booth.get("/servers")["servers"]}
    for name in ("MyExampleServer", "tool_planner", "username-override-demo", "canvas_demo", "questions_demo"):
        equal(states.get(name), "connected", f"{name} is")
    equal(states.get("gone", "disabled"), "disabled", "a disabled server is")


@CHECKS.check("11: a url without a scheme is http", "solo")
def no_scheme(booth: Solo) -> None:
    equal(booth.result("shop_view_cart"), {"results": {"cart": []}})


@CHECKS.check("001: auth_token is sent as a bearer token", "solo")
def shared_token(booth: Solo) -> None:
    equal(booth.result("shop_credential")["results"], {"authorization": "0001"})


@CHECKS.check("001: username is always the caller, whatever is sent", "solo")
def username(booth: Solo) -> None:
    caller = booth.get("/me")["user"]
    for sent in ({}, {"username": "mallory"}):
        equal(booth.result("username-override-demo_get_user_info", sent)["results"]["username"], caller)
    equal(booth.result("username-override-demo_new_user_info", {})["results"]["username"], caller)


@CHECKS.check("001: injected arguments are in no list", "solo")
def injected_hidden(booth: Solo) -> None:
    for tool in booth.mcp_tools().values():
        for name in ("username", "_atlas_user", "_mcp_data", "original_filename", "file_url"):
            lacks(tool["inputSchema"].get("properties", {}), name, tool["name"])


@CHECKS.check("000: _mcp_data has the promised structure and overwrites what was sent", "solo")
def mcp_data(booth: Solo) -> None:
    results = booth.result("tool_planner_plan_task", {"task": "t", "_mcp_data": {"available_servers": []}})["results"]
    contains(results["available_tools"], "MyExampleServer_my_tool")
    for server in results["servers"]:
        equal(set(server), {"server_name", "description", "tools"}, "the fields of a server are")
        for tool in server["tools"]:
            equal(set(tool), {"name", "description", "parameters"}, "the fields of a tool are")
            equal(tool["parameters"]["type"], "object")
            for hidden in ("username", "_mcp_data", "_atlas_user"):
                lacks(tool["parameters"].get("properties", {}), hidden)
    names = [server["server_name"] for server in results["servers"]]
    lacks(names, "canvas")
    lacks(str(results["servers"]), "127.0.0.1", "_mcp_data")
    lacks(str(results["servers"]), "python", "_mcp_data")


@CHECKS.check("000: the planner writes a script with the model through sampling", "solo")
def sampling(booth: Solo) -> None:
    result = booth.call("tool_planner_write_script", {"task": "t"}).json()["result"]
    equal(text_json(result)["results"]["script"], "first says hello")


@CHECKS.check("001: env values with ${VAR} reach the server, and the host's other variables do not", "solo")
def child_environment(booth: Solo) -> None:
    results = booth.result("username-override-demo_get_user_info")["results"]
    equal((results["records"], results["mode"]), ("records.txt", "demo"))
    asked = {"names": ["HOST_SECRET", "LLM_KEY", "PATH"]}
    seen = booth.result("username-override-demo_environment", asked)["results"]
    equal(seen, {"HOST_SECRET": False, "LLM_KEY": False, "PATH": True})


@CHECKS.check("001: the v2 contract: results to the model, files kept, display hints in _meta", "solo")
def v2_contract(booth: Solo) -> None:
    result = booth.call("MyExampleServer_create_html_report", {"title": "T"}).json()["result"]
    shown = text_json(result)
    equal(shown["results"], {"summary": "Report written: T"})
    equal(shown["returned_file_names"], ["report.html"])
    lacks(str(result["content"]), "b64")
    display = result["_meta"]["toolbooth/display"]
    equal((display["open_canvas"], display["primary_file"]), (True, "report.html"))
    equal([file["name"] for file in result["_meta"]["toolbooth/artifacts"]], ["report.html"])


@CHECKS.check("16: every artifact has a viewer, in the result and in /files", "solo")
def viewers(booth: Solo) -> None:
    result = booth.call("canvas_demo_every_viewer").json()["result"]
    chosen = {file["name"]: file.get("viewer") for file in result["_meta"]["toolbooth/artifacts"]}
    equal(chosen, VIEWERS, "the viewers are")
    kept = {file["name"]: file.get("viewer") for file in booth.get("/files?limit=100")["files"]}
    equal({name: kept.get(name) for name in VIEWERS}, VIEWERS, "the viewers in /files are")


@CHECKS.check("16: an image block is kept and opens the canvas", "solo")
def picture(booth: Solo) -> None:
    result = booth.call("canvas_demo_picture").json()["result"]
    equal(result["content"][0]["type"], "image")
    file = result["_meta"]["toolbooth/artifacts"][0]
    equal(file.get("viewer"), "image", "the viewer is")
    equal(result["_meta"]["toolbooth/display"]["open_canvas"], True)
    equal(result["_meta"]["toolbooth/display"]["primary_file"], file["name"])


@CHECKS.check("16: a refused frame keeps the rest of the hint and says why", "solo")
def refused_frame(booth: Solo) -> None:
    answer = booth.call("canvas_demo_frame", {"url": "javascript:alert(1)"}).json()
    display = answer["result"]["_meta"]["toolbooth/display"]
    equal((display["open_canvas"], display["title"]), (True, "Frame"))
    lacks(display, "url")
    warned = str(answer.get("warnings")) + str(answer["result"]["_meta"].get("toolbooth/warnings"))
    contains(warned, "https")


@CHECKS.check("16: html artifacts can be framed by the console", "solo")
def html_frame(booth: Solo) -> None:
    result = booth.call("MyExampleServer_create_html_report", {"title": "T"}).json()["result"]
    file = result["_meta"]["toolbooth/artifacts"][0]
    answer = booth.rest("GET", f"/files/{file['id']}/frame")
    equal(answer.status, 200, "the status of the frame is")
    contains(answer.headers["content-security-policy"], "sandbox")
    lacks(answer.headers["content-security-policy"], "allow-same-origin")
    contains(answer.headers["content-type"], "text/html")


@CHECKS.check("9: a file of the session becomes a URL that ends in its name", "solo")
def file_url(booth: Solo) -> None:
    booth.upload("poem.txt", b"roses")
    results = booth.result("canvas_demo_read_file", {"filename": "poem.txt"})["results"]
    equal((results["bytes"], results["original"], results["same"]), (5, "poem.txt", True))
    true(results["path"].endswith("/poem.txt"), f"the path is {results['path']}")
    contains(results["type"], "text/plain")


@CHECKS.check("9: a list of names: known ones become URLs, others stay, the order is kept", "solo")
def file_urls(booth: Solo) -> None:
    booth.upload("poem.txt", b"roses")
    results = booth.result("canvas_demo_read_files", {"file_names": ["poem.txt", "nowhere.txt"]})["results"]
    equal((results["are_urls"], results["original"]), ([True, False], ["poem.txt", "nowhere.txt"]))


@CHECKS.check("9: an empty name, a URL and an output name pass through with a warning", "solo")
def pass_through(booth: Solo) -> None:
    for name in ("", "https://files.example/a.txt", "not-there.txt"):
        answer = booth.call("canvas_demo_read_file", {"filename": name}).json()
        equal(text_json(answer["result"])["results"]["path"], name, "the path is")
    contains(str(answer.get("warnings")), "not-there.txt", "the warnings")
    answer = booth.call("canvas_demo_save_as", {"filename": "out.txt", "content": "x"}).json()
    equal(text_json(answer["result"])["results"]["saved"], "out.txt")


@CHECKS.check("9: files.unknown = error refuses a name that is not a file", "solo")
def unknown_file_refused(booth: Solo) -> None:
    booth.write("sampling.toml", '[llm]\nallow = ["tool_planner"]\n[files]\nunknown = "error"\n')
    booth.cli("reload").ok()
    try:
        answer = booth.call("canvas_demo_read_file", {"filename": "not-there.txt"})
        true(answer.status == 400 or "isError" in answer.text, f"it was answered with {answer.status}: {answer.text}")
    finally:
        booth.write("sampling.toml", '[llm]\nallow = ["tool_planner"]\n')
        booth.cli("reload").ok()


@CHECKS.check("17: settings of [files] take effect on a reload", "solo")
def files_reload(booth: Solo) -> None:
    booth.write("sampling.toml", '[llm]\nallow = ["tool_planner"]\n[files]\nmax_upload_bytes = 10\n')
    printed = booth.cli("reload").ok().text
    try:
        lacks(printed, "restart")
        answer = booth.rest("POST", "/files?name=long.txt", raw=b"x" * 100)
        equal(answer.status, 413, "the status of a longer upload is")
    finally:
        booth.write("sampling.toml", '[llm]\nallow = ["tool_planner"]\n')
        booth.cli("reload")


@CHECKS.check("001: other argument names are not rewritten", "solo")
def other_names(booth: Solo) -> None:
    booth.upload("poem.txt", b"roses")
    results = booth.result("canvas_demo_image_name", {"image_filename": "poem.txt"})["results"]
    equal(results, {"image_filename": "poem.txt"})


@CHECKS.check("13: author, short_description, help_email and compliance_level are shown", "solo")
def shown_fields(booth: Solo) -> None:
    server = booth.server("MyExampleServer")
    equal(server.get("author"), "Example team")
    equal(server.get("short_description"), "Simple tools")
    equal(server.get("help_email"), "help@example.org")
    equal(booth.server("tool_planner").get("compliance_level"), "Internal", "the level is")
    shown = booth.cli("servers", "show", "MyExampleServer").ok().out
    contains(shown, "help@example.org")


@CHECKS.check("12: an alias of a level is shown as the level", "solo")
def level_alias(booth: Solo) -> None:
    equal(booth.server("finance").get("compliance_level"), "SOC2", "the level is")


@CHECKS.check("5: doctor does not say that all is well with a server in error", "solo")
def doctor_tells(booth: Solo) -> None:
    booth.write("broken-mcp.json", '{"broken": {"command": ["python", "-c", "raise SystemExit(3)"]}}')
    ran = booth.cli("--config", "broken-mcp.json", "doctor")
    lacks(ran.text, "All is well")
    contains(ran.text, "broken")
    equal(ran.code, 1, "the exit code is")


@CHECKS.check("19: an argument that is refused is not called dropped", "solo")
def wording_dropped(booth: Solo) -> None:
    answer = booth.call("MyExampleServer_my_tool", {"parametr": "x"})
    equal(answer.status, 400, "the status is")
    lacks(answer.text, "dropped")
