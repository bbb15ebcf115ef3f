"""A server without a library that never tells when its list changes: its tools are the lines of `changing.txt`."""

import json
import sys
from pathlib import Path

LIST = Path("changing.txt")

for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    method, params = request["method"], request.get("params") or {}
    answer = {"jsonrpc": "2.0", "id": request["id"]}
    if method == "initialize":
        info = {"name": "changing", "version": "1"}
        answer["result"] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    elif method == "tools/list":
        names = LIST.read_text().split()
        schema = {"type": "object", "properties": {}}
        answer["result"] = {"tools": [{"name": name, "description": f"Answers {name}.", "inputSchema": schema} for name in names]}
    elif method == "tools/call":
        answer["result"] = {"content": [{"type": "text", "text": params["name"]}]}
    elif method == "ping":
        answer["result"] = {}
    else:
        answer["error"] = {"code": -32601, "message": "method not found"}
    print(json.dumps(answer), flush=True)
