"""Two search services: `/cse` and `/serp`, each answers who it is. `python search_api.py PORT`"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlparse


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        url = urlparse(self.path)
        if not self.headers["X-Key"]:
            self.send_error(403)
            return
        asked = parse_qs(url.query).get("q", [""])[0]
        body = json.dumps({"results": {"first": f"a page about {asked}", "by": url.path.strip("/")}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
