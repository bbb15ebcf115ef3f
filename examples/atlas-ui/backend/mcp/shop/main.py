"""A shop over HTTP whose cart belongs to its session: `python main.py PORT`."""

import sys
from typing import Any, Dict, List

from fastmcp import Context, FastMCP
from fastmcp.server.dependencies import get_http_headers

mcp = FastMCP(name="shop")
carts: Dict[str, List[str]] = {}


@mcp.tool
def add_to_cart(item: str, ctx: Context) -> Dict[str, Any]:
    """Puts an item into the cart of the session."""
    carts.setdefault(ctx.session_id, []).append(item)
    return {"results": {"cart": carts[ctx.session_id]}}


@mcp.tool
def view_cart(ctx: Context) -> Dict[str, Any]:
    """Shows the cart of the session."""
    return {"results": {"cart": carts.get(ctx.session_id, [])}}


@mcp.tool
def credential() -> Dict[str, Any]:
    """Tells the end of the credential that came with the request, by header."""
    headers = get_http_headers(include_all=True)
    ends = {name: headers[name][-4:] for name in ("authorization", "x-api-key", "x-shop-key") if name in headers}
    return {"results": ends}


if __name__ == "__main__":
    mcp.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False, log_level="warning")
