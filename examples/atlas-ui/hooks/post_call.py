"""Adds a note to the result of a call."""

import json
import sys

json.load(sys.stdin)
print(json.dumps({"decision": "annotate", "note": "seen by the house"}))
