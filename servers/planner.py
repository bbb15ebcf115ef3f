# /// script
# dependencies = ["fastmcp"]
# ///
"""Asks a model for a plan, and believes none of it before it fits the tools that the caller may use."""

import base64
import json
import shlex
from typing import Annotated, Any

from fastmcp import Context, FastMCP
from pydantic import Field

mcp = FastMCP("planner")

RULES = (
    "You plan work that is done by calling tools. Answer with one JSON object and nothing else: "
    '{"steps": [{"tool": NAME, "arguments": OBJECT, "why": SENTENCE}]}.'
)


@mcp.tool
async def plan_task(
    task: Annotated[str, Field(description="What is to be done.", max_length=8000)],
    context: Context,
    _mcp_data: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Plans a task with the tools you may use, and writes the plan as a bash script. Runs nothing."""
    servers = (_mcp_data or {}).get("available_servers", [])
    tools = {tool["name"]: tool for server in servers for tool in server["tools"]}
    try:
        said = await context.sample(f"Tools:\n{json.dumps(tools)}\n\nTask: {task}", system_prompt=RULES, max_tokens=8000)
        steps = json.loads(said.text)["steps"]
    except Exception as error:
        return {"results": {"task": task, "plan": None, "available_tools": sorted(tools), "note": f"no plan: {error}"}}
    problems = [problem for step in steps for problem in objections(step, tools)]
    if problems:
        return {"results": {"task": task, "plan": None, "problems": problems}}
    script = base64.b64encode(bash(steps).encode()).decode()
    return {
        "results": {"task": task, "plan": {"steps": steps}},
        "artifacts": [{"name": "plan.sh", "mime": "application/x-sh", "b64": script, "viewer": "code"}],
        "display": {"open_canvas": True, "primary_file": "plan.sh"},
    }


def objections(step: dict[str, Any], tools: dict[str, Any]) -> list[str]:
    if step["tool"] not in tools:
        return [f"there is no tool `{step['tool']}`"]
    schema = tools[step["tool"]]["parameters"]
    given, known = step.get("arguments", {}), schema.get("properties", {})
    missing = [f"`{step['tool']}` needs `{name}`" for name in schema.get("required", []) if name not in given]
    return missing + [f"`{step['tool']}` takes no `{name}`" for name in given if name not in known]


def bash(steps: list[dict[str, Any]]) -> str:
    # Quoted, since a model wrote it.
    lines = [f"toolbooth call {shlex.quote(s['tool'])} --args {shlex.quote(json.dumps(s.get('arguments', {})))}" for s in steps]
    return "\n".join(["#!/usr/bin/env bash", "set -euo pipefail", *lines, ""])


if __name__ == "__main__":
    mcp.run()
