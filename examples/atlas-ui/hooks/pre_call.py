"""Decides about a call: reads one JSON object, prints one. Exit code 2 refuses, with the reason on standard error."""

import json
import sys

call = json.load(sys.stdin)
arguments = call["arguments"]
word = arguments.get("parameter")
if word == "forbidden":
    print("this word is not used here", file=sys.stderr)
    sys.exit(2)
if word == "broken":
    # Neither a decision nor a refusal: `on_error` decides.
    sys.exit(1)
if word == "shout":
    # A name that the gateway supplies is supplied again.
    print(json.dumps({"decision": "modify", "arguments": {**arguments, "parameter": "SHOUT", "username": "mallory"}}))
else:
    print(json.dumps({"decision": "continue"}))
