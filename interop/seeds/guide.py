"""Runs the commands of a guide in a copy of its example, and checks the marks of features that are not built.

A `console` block has lines `$ command`, each followed by lines that the command prints, in this order; `…` stands for any
text. `toolbooth serve …` starts the gateway that the following commands use. `<!-- gap: CHECK -->` marks a sentence that
depends on a check in `known-gaps.toml`.
"""

import re
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Iterator

from booth import BINARY, ROOT, Booth
from checks import Checks, known_gaps

FOLDER = ROOT / "docs/guide"


def add_checks(checks: Checks, page: str, make: Callable[[], Any]) -> None:
    """Adds one check for each command of a page, and one for its marks. `make` returns the copy to run them in."""
    text = (FOLDER / page).read_text()

    @checks.stage("guide")
    @contextmanager
    def guide() -> Iterator[Booth]:
        with make() as booth:
            programs = booth.top / "programs"
            programs.mkdir()
            (programs / "toolbooth").symlink_to(Path(BINARY).resolve())
            booth.env["PATH"] = f"{programs}:{booth.env['PATH']}"
            yield booth

    for command, expected in commands(text):
        checks.check(f"guide: {command}", "guide")(lambda booth, c=command, e=expected: follow(booth, c, e))

    @checks.check("guide: every mark of a gap names a known gap", "guide")
    def marks(_: Booth) -> None:
        gaps = known_gaps()
        built = [name for name in re.findall(r"<!-- gap: (.*?) -->", text) if name not in gaps]
        if built:
            raise AssertionError(f"{page}: remove the marks, or correct them: {built}")


def commands(text: str) -> list[tuple[str, list[str]]]:
    """The commands of all `console` blocks, with the lines that they print."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"^```console\n(.*?)^```", text, re.M | re.S):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif line and found:
                found[-1][1].append(line)
    return found


def follow(booth: Booth, command: str, expected: list[str]) -> None:
    words = command.split()
    if "serve" in words:
        booth.serve(*words[words.index("serve") + 1 :], trust=False)
        return
    ran = subprocess.run(
        ["bash", "-c", command], cwd=booth.folder, env=booth.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=35
    )
    printed = ran.stdout + ran.stderr
    if ran.returncode != 0:
        raise AssertionError(f"exit code {ran.returncode}: {printed}")
    rest = ran.stdout
    for part in (part for line in expected for part in line.split("…")):
        at = rest.find(part)
        if at < 0:
            raise AssertionError(f"{part!r} is not in: {printed}")
        rest = rest[at + len(part) :]
