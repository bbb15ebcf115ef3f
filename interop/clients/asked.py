"""What every Python client goes through when the gateway wants a person's word for a call.

Behind the gateway stands `led`, which writes each entry into a file (`ledger`): what was refused must not stand there.
A client that can be asked answers for its user; of one that cannot, the calls are answered on the command line.
"""

import json
import subprocess
from pathlib import Path
from typing import Any, Protocol

from tour import check, expect, text_of, through

TOOL = "led_write_entry"


class Client(Protocol):
    """What is needed of a client. Everything is plain JSON, as on the wire."""

    answer: dict[str, Any]
    questions: list[str]

    async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]: ...


def approvals(target: dict[str, Any], *words: str) -> dict[str, Any]:
    """`toolbooth approvals WORDS --json`."""
    command, *rest = target["approvals"]
    done = subprocess.run([command, "approvals", *words, *rest, "--json"], capture_output=True, text=True, timeout=30)
    return json.loads(done.stdout)


async def take(client: Client, target: dict[str, Any]) -> None:
    """Approves and declines, in every way there is."""

    def stands(text: str) -> int:
        ledger = Path(target["ledger"])
        lines = ledger.read_text().splitlines() if ledger.exists() else []
        return sum(line.startswith(f"{text} by ") for line in lines)

    async def write(what: str) -> tuple[str, dict[str, Any]]:
        text = f"{target['name']}-{what}".replace(" ", "-")
        return text, await client.call(TOOL, {"text": text})

    async def approved() -> None:
        client.answer = {"action": "accept", "content": {"decision": "approve"}}
        text, result = await write("approved")
        expect(text_of(result), f"wrote {text}")
        expect(stands(text), 1, "it ran")
        expect(len(client.questions), 1, "questions")
        expect(TOOL in client.questions[0] and text in client.questions[0], True, "the question names the call")

    async def rejected() -> None:
        client.answer = {"action": "accept", "content": {"decision": "reject", "reason": "not today"}}
        text, result = await write("rejected")
        expect(result.get("isError"), True, "isError")
        expect("rejected by" in text_of(result) and "not today" in text_of(result), True, text_of(result))
        expect(stands(text), 0, "it ran")

    async def declined() -> None:
        client.answer = {"action": "decline"}
        text, result = await write("declined")
        expect(result.get("isError"), True, "isError")
        expect("rejected by" in text_of(result), True, text_of(result))
        expect(stands(text), 0, "it ran")

    async def held(what: str) -> tuple[str, str]:
        client.answer = {"action": "cancel"}
        text, result = await write(what)
        expect(result.get("isError"), True, "isError")
        expect(stands(text), 0, "it ran")
        return text, result["_meta"]["toolbooth/held"]["id"]

    async def approved_elsewhere() -> None:
        text, call = await held("approved elsewhere")
        approvals(target, "approve", call)
        expect(approvals(target, "show", call)["state"], "done", "state")
        expect(stands(text), 1, "it ran")

    async def rejected_elsewhere() -> None:
        text, call = await held("rejected elsewhere")
        approvals(target, "reject", call, "--reason", "not today")
        expect(approvals(target, "show", call)["state"], "rejected", "state")
        expect(stands(text), 0, "it ran")

    if target["asked"]:
        await check("approves when asked", approved)
        await check("rejects when asked", rejected)
        await check("declines when asked", declined)
    else:
        await check("approved on the command line", approved_elsewhere)
        await check("rejected on the command line", rejected_elsewhere)
        await check("was asked nothing", no_question(client))
    through()


def no_question(client: Client):
    async def body() -> None:
        expect(client.questions, [], "questions")

    return body
