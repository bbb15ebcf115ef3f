"""Plans with the tools that the caller may use, and asks a model to write a script."""

import base64
from typing import Any, Dict, Optional

from fastmcp import Context, FastMCP

mcp = FastMCP(name="tool_planner")


@mcp.tool
def plan_task(task: str, _mcp_data: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
    """Lists the tools with which a task can be planned."""
    servers = (_mcp_data or {}).get("available_servers", [])
    names = [tool["name"] for server in servers for tool in server["tools"]]
    return {"results": {"task": task, "available_tools": names, "tool_count": len(names), "servers": servers}}


@mcp.tool
async def write_script(task: str, ctx: Context, _mcp_data: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
    """Asks a model to write a script for a task, and returns it as a file."""
    servers = (_mcp_data or {}).get("available_servers", [])
    reference = "\n".join(f"{tool['name']}: {tool['description']}" for server in servers for tool in server["tools"])
    try:
        script = (await ctx.sample(f"Write a script for: {task}\n{reference}", max_tokens=400)).text
    except Exception as error:  # A client without a model.
        script = f"# no model: {error}\n"
    file = {"name": "plan.sh", "mime": "application/x-sh", "b64": base64.b64encode(script.encode()).decode()}
    return {"results": {"script": script}, "artifacts": [file], "display": {"open_canvas": True, "primary_file": "plan.sh"}}


if __name__ == "__main__":
    mcp.run(show_banner=False)
