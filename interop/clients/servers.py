"""Real servers that nobody here wrote, through the gateway: what they list, and whether their answers are right.

Runs with FastMCP 3 (an older revision towards the gateway) and with FastMCP 4 (the newest).
"""

import asyncio
import datetime
import json
import logging
from typing import Any

import fastmcp
import tour
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from tour import check, expect, text_of

SECOND = int(fastmcp.__version__.split(".")[0]) >= 4

# Server, and some of its tools.
TOOLS = {
    "everything": ["echo", "get-sum", "get-structured-content", "get-tiny-image", "trigger-long-running-operation"],
    "files": ["read_text_file", "write_file", "list_directory", "search_files"],
    "memory": ["create_entities", "create_relations", "search_nodes", "read_graph"],
    "time": ["convert_time", "get_current_time"],
    "git": ["git_log", "git_status", "git_show"],
    "notes": ["write", "count", "title", "work", "stumble"],
}


def plain(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


def contains(text: str, *parts: str) -> None:
    for part in parts:
        if part not in text:
            raise AssertionError(f"no {part!r} in {text!r}")


class Visit:
    """One visit to all servers. `folder` is the one that the file server may use; `folder/repo` is a repository."""

    def __init__(self, client: Client, progress: list[float], folder: str) -> None:
        self.client = client
        self.progress = progress
        self.folder = folder

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        return plain(await self.client.call_tool_mcp(name, arguments))

    async def text(self, name: str, **arguments: Any) -> str:
        result = await self.call(name, **arguments)
        if result.get("isError"):
            raise AssertionError(f"it failed: {text_of(result)}")
        return text_of(result)

    async def lists(self) -> None:
        names = {tool.name for tool in await self.client.list_tools()}
        # A tool that already begins with the name of its server does not repeat it.
        wanted = {
            tool if tool.startswith(f"{server}_") else f"{server}_{tool}"
            for server, tools in TOOLS.items()
            for tool in tools
        }
        if missing := wanted - names:
            raise AssertionError(f"not listed: {sorted(missing)}")

    async def everything_tools(self) -> None:
        expect(await self.text("everything_echo", message="through"), "Echo: through")
        contains(await self.text("everything_get-sum", a=2, b=40), "42")
        weather = await self.call("everything_get-structured-content", location="Chicago")
        expect(sorted(weather["structuredContent"]), ["conditions", "humidity", "temperature"])
        picture = await self.call("everything_get-tiny-image")
        expect([block["type"] for block in picture["content"]], ["text", "image", "text"])
        note = await self.call("everything_get-annotated-message", messageType="error")
        expect(note["content"][0]["annotations"]["priority"], 1)

    async def everything_progress(self) -> None:
        self.progress.clear()
        await self.text("everything_trigger-long-running-operation", duration=0.4, steps=4)
        expect(self.progress, [1.0, 2.0, 3.0, 4.0], "progress was")

    async def everything_environment(self) -> None:
        environment = json.loads(await self.text("everything_get-env"))
        expect(environment.get("TOOLBOOTH_INTEROP_MARK") is not None, True, "our variable's presence is")
        if "SECRET_OF_THE_HOST" in environment:
            raise AssertionError("a variable of the host has reached the server")

    async def everything_questions(self) -> None:
        told = json.dumps(await self.call("everything_trigger-elicitation-request"))
        contains(told, "Name: Ada")
        contains(await self.text("everything_trigger-sampling-request", prompt="Sing", maxTokens=9), "A song.")
        contains(await self.text("everything_get-roots-list"), "file:///visit")

    async def everything_resources(self) -> None:
        uri = "demo://resource/static/document/features.md"
        listed = [str(resource.uri) for resource in await self.client.list_resources()]
        contains(" ".join(listed), uri)
        contains((await self.client.read_resource(uri))[0].text, "#")
        made = await self.client.read_resource("demo://resource/dynamic/text/7")
        contains(made[0].text, "7")
        templates = [plain(template)["uriTemplate"] for template in await self.client.list_resource_templates()]
        contains(" ".join(templates), "demo://resource/dynamic/text/{resourceId}")

    async def everything_prompts(self) -> None:
        names = [prompt.name for prompt in await self.client.list_prompts()]
        contains(" ".join(names), "everything_simple-prompt", "everything_args-prompt", "notes_summarise")
        got = plain(await self.client.get_prompt_mcp("everything_args-prompt", {"city": "Ulm"}))
        contains(got["messages"][0]["content"]["text"], "Ulm")
        reference = {"type": "ref/prompt", "name": "everything_completable-prompt"}
        completion = await self.complete(reference, {"name": "department", "value": "E"})
        expect(completion, ["Engineering"])

    async def complete(self, reference: dict[str, str], argument: dict[str, str]) -> list[str]:
        if SECOND:
            from mcp_types import PromptReference
        else:
            from mcp.types import PromptReference
        result = await self.client.session.complete(PromptReference(**reference), argument)
        return plain(result)["completion"]["values"]

    async def files(self) -> None:
        path = f"{self.folder}/written.txt"
        contains(await self.text("files_write_file", path=path, content="Grüße\n"), "written.txt")
        result = await self.call("files_read_text_file", path=path)
        expect(text_of(result), "Grüße\n")
        expect(result["structuredContent"], {"content": "Grüße\n"})
        with open(path, encoding="utf-8") as file:
            expect(file.read(), "Grüße\n", "the disk has")
        contains(await self.text("files_list_directory", path=self.folder), "[FILE] written.txt", "[DIR] repo")
        outside = await self.call("files_read_text_file", path="/etc/hostname")
        expect(outside.get("isError"), True, "reading outside is an error:")
        contains(text_of(outside), "outside allowed directories")

    async def memory(self) -> None:
        entity = {"name": "Ada", "entityType": "person", "observations": ["counts"]}
        await self.text("memory_create_entities", entities=[entity])
        found = await self.call("memory_search_nodes", query="Ada")
        expect(found["structuredContent"]["entities"], [entity])
        read = await self.client.read_resource("memory://knowledge-graph")
        contains(read[0].text, '"Ada"')

    async def time(self) -> None:
        arguments = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
        converted = json.loads(await self.text("time_convert_time", **arguments))
        expect(converted["time_difference"], "+9.0h")
        contains(converted["target"]["datetime"], "21:00:00+09:00")
        now = json.loads(await self.text("time_get_current_time", timezone="UTC"))
        told = datetime.datetime.fromisoformat(now["datetime"])
        if abs(datetime.datetime.now(datetime.timezone.utc) - told) > datetime.timedelta(minutes=1):
            raise AssertionError(f"the time is wrong: {now}")

    async def git(self) -> None:
        repo = f"{self.folder}/repo"
        contains(await self.text("git_log", repo_path=repo), "First words")
        contains(await self.text("git_status", repo_path=repo), "On branch main")
        # The long spelling is still accepted.
        outside = await self.call("git_git_status", repo_path="/")
        expect(outside.get("isError"), True, "a repository outside is an error:")

    async def notes(self) -> None:
        written = await self.call("notes_write", title="booth", text="A toll is due.")
        expect(written["structuredContent"], {"title": "booth", "text": "A toll is due."})
        expect((await self.client.read_resource("notes://booth"))[0].text, "A toll is due.")
        counted = await self.call("notes_count", words=["a", "b", "a"])
        expect(counted["structuredContent"], {"a": 2, "b": 1})
        stumbled = await self.call("notes_stumble")
        expect(stumbled.get("isError"), True)
        contains(text_of(stumbled), "stumbled, as always")
        prompt = plain(await self.client.get_prompt_mcp("notes_summarise", {"title": "booth"}))
        expect(prompt["messages"][0]["content"]["text"], "Summarise the note booth.")

    async def notes_progress(self) -> None:
        self.progress.clear()
        expect(await self.text("notes_work", steps=3), "3 steps")
        expect(self.progress, [1.0, 2.0, 3.0], "progress was")

    async def notes_question(self) -> None:
        expect(await self.text("notes_title"), "It is called Ada.")

    async def at_once(self) -> None:
        calls = [self.text("everything_echo", message=str(number)) for number in range(20)]
        expect(await asyncio.gather(*calls), [f"Echo: {number}" for number in range(20)])


async def main() -> None:
    logging.disable(logging.WARNING)
    target = tour.target()
    progress: list[float] = []

    async def reported(value: float, _total: float | None, _message: str | None) -> None:
        progress.append(value)

    async def elicited(_message: str, _type: Any, params: Any, _context: Any) -> ElicitResult:
        asked = plain(params)["requestedSchema"]["properties"]
        return ElicitResult(action="accept", content={"value" if "value" in asked else "name": "Ada"})

    async def sampled(_messages: list[Any], _params: Any, _context: Any) -> str:
        return "A song."

    async with Client(
        target["url"],
        progress_handler=reported,
        elicitation_handler=elicited,
        sampling_handler=sampled,
        roots=["file:///visit"],
    ) as client:
        visit = Visit(client, progress, target["folder"])
        await check("lists", visit.lists)
        await check("everything: tools", visit.everything_tools)
        await check("everything: progress", visit.everything_progress)
        await check("everything: environment", visit.everything_environment)
        await check("everything: questions", visit.everything_questions)
        await check("everything: resources", visit.everything_resources)
        await check("everything: prompts and completion", visit.everything_prompts)
        await check("everything: twenty calls at once", visit.at_once)
        await check("filesystem", visit.files)
        await check("memory", visit.memory)
        await check("time", visit.time)
        await check("git", visit.git)
        await check("notes (FastMCP 4)", visit.notes)
        await check("notes: progress", visit.notes_progress)
        await check("notes: question", visit.notes_question)
        tour.through()


asyncio.run(main())
