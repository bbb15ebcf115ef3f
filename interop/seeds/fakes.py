"""Small services on the loopback interface that the examples need: a language model, and HTTP servers in Python."""

import json
import subprocess
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Iterator

from booth import SETUP, free_port


class Recorder:
    """An HTTP service that records requests and answers by a function of the path and the body."""

    def __init__(self, answer: Any) -> None:
        self.requests: list[dict[str, Any]] = []
        self.is_closed = False
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.serve()

            def do_GET(self) -> None:
                self.serve()

            def do_DELETE(self) -> None:
                self.serve()

            def do_HEAD(self) -> None:
                self.serve()

            def serve(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length)
                if recorder.is_closed:
                    # A kept connection ends with the service.
                    self.close_connection = True
                    return
                request = {
                    "method": self.command, "path": self.path, "body": body,
                    "headers": {name.lower(): value for name, value in self.headers.items()},
                }
                recorder.requests.append(request)
                status, headers, content = answer(request)
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.is_closed = True
        self.server.shutdown()
        self.server.server_close()

    def posted(self) -> list[dict[str, Any]]:
        """The JSON bodies, with path and headers."""
        return [{**request, "json": json.loads(request["body"])} for request in self.requests if request["body"]]


def model(name: str) -> Recorder:
    """An OpenAI-compatible model that answers with its name, streaming on request.

    A message `use TOOL` makes it call that tool and then repeat what the tool returned.
    """

    def answer(request: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        if not request["path"].endswith("/v1/chat/completions") or request["path"].count("chat") != 1:
            return 404, {}, b'{"error": {"message": "no such path"}}'
        asked = json.loads(request["body"])
        text, wanted = f"{name} says hello", None
        last = asked["messages"][-1]
        if last["role"] == "tool":
            text = f"{name} heard: {last['content']}"
        elif str(last["content"]).startswith("use "):
            function = {"name": last["content"].removeprefix("use "), "arguments": "{}"}
            wanted = [{"index": 0, "id": "call-1", "type": "function", "function": function}]
        said = {"role": "assistant", "content": None, "tool_calls": wanted} if wanted else {"role": "assistant", "content": text}
        reason = "tool_calls" if wanted else "stop"
        if not asked.get("stream"):
            choice = {"index": 0, "message": said, "finish_reason": reason}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            return 200, {}, json.dumps({"id": "1", "object": "chat.completion", "model": asked["model"], "choices": [choice], "usage": usage}).encode()
        first = {"choices": [{"index": 0, "delta": said, "finish_reason": None}]}
        end = {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
        lines = "".join(f"data: {json.dumps(part)}\n\n" for part in (first, end)) + "data: [DONE]\n\n"
        return 200, {"Content-Type": "text/event-stream"}, lines.encode()

    return Recorder(answer)


@contextmanager
def python_server(script: Path, sdk: str = "sdk1") -> Iterator[int]:
    """A Python server over HTTP that takes a port as its argument."""
    import socket

    port = free_port()
    process = subprocess.Popen(
        [str(SETUP / "python" / sdk / "bin/python"), str(script), str(port)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 40
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if time.monotonic() > deadline or process.poll() is not None:
                    raise AssertionError(f"{script} did not start") from None
                time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait(10)
