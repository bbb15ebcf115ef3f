"""The checks of `examples/atlas-ui`: seeds 000 and 001.

Names that the specification leaves open, as these checks use them:

- A server's question over REST: `POST /tools/{name}/call` answers 202 `{"kind": "question", "call": ID,
  "question": {"message", "schema"}}`, and `POST /calls/{ID}/answer {"action", "content"?}` answers like the call
  itself: 200 with the result, or 202 with the next question. On the command line: `call TOOL --answer KEY=VALUE`.
- The record of calls: `GET /calls?limit=&before=` is `{"calls": [...]}`, newest first; `GET /calls/{id}` is one of
  them: `id, tool, server, user, outcome, at_ms, duration_ms, attempts: [{provider?, duration_ms, outcome}],
  artifacts: [{id, name, viewer, ...}], display?`. The answer of a call names its id as `call`.
- Several calls at once: `POST /calls/batch {"calls": [{"tool", "arguments"}]}` is `{"results": [...]}` in the same
  order, each `{"result", ...}` or `{"problem": {...}}`; at most 100. `call --batch FILE` takes the same list, or one
  object for each line, and prints the same with `--json`.
- A user's own key for a server: `PUT /servers/{name}/key {"key"}`, `GET` (`{"set": true, "set_at_ms"}`), `DELETE`;
  `servers key set|delete NAME`, `servers key list`, the key from standard input or a prompt. Without it the user sees `needs_auth`.
- `viewer` of a file: `html image pdf csv code svg markdown json`.
- Settings: `[prompts.NAME] {description, text, groups?}`; `[[hooks.pre_call]]` and `[[hooks.post_call]]`
  `{name, tools, command | url, timeout_ms, on_error = "deny" | "allow"}`. A hook reads `{event, call, user, server,
  tool, arguments, result?}` and prints `{"decision": "continue" | "modify" | "deny" | "annotate", reason?,
  arguments?, note?}`; exit code 2 refuses. A note is in `_meta["toolbooth/notes"]` of the result.
- Progress and `MCP_UPDATE` messages are events `tool.progress` and `tool.update` of the call's user; `call --json`
  prints its result only, and `call` without it prints them on standard error.
- A persona's `prompt` is the MCP prompt `persona_NAME`; `[prompts.NAME]` is the MCP prompt `NAME`.
"""

import atlas_ui_calls  # noqa: F401
import atlas_ui_dialogue  # noqa: F401
import atlas_ui_files  # noqa: F401
import atlas_ui_guide  # noqa: F401
import atlas_ui_team  # noqa: F401
from atlas_ui_stages import CHECKS

__all__ = ["CHECKS"]
