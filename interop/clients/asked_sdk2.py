"""The official Python SDK, 2.x, asked for approval: both eras."""

import asyncio
from typing import Any

import asked
import mcp_types as types
import tour
from mcp import Client as SdkClient
from mcp_types import version

MODES = {"legacy": "legacy", "modern": version.MODERN_PROTOCOL_VERSIONS[-1]}


class Client:
    def __init__(self, target: dict[str, Any]) -> None:
        self.answer: dict[str, Any] = {}
        self.questions: list[str] = []
        self.client = SdkClient(
            target["url"],
            mode=MODES[target["era"]],
            elicitation_callback=self.elicited if target["asked"] else None,
            client_info=types.Implementation(name="asked-sdk2", version="2"),
        )

    async def elicited(self, _context: Any, params: Any) -> types.ElicitResult:
        self.questions.append(params.message)
        return types.ElicitResult(**self.answer)

    async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        result = await self.client.call_tool(name, arguments)
        return result.model_dump(mode="json", by_alias=True, exclude_unset=True)


async def main() -> None:
    target = tour.target()
    client = Client(target)
    async with client.client:
        await asked.take(client, target)


asyncio.run(main())
