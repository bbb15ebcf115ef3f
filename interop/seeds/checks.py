"""Runs the checks of one example, and compares their outcome with the list of known gaps.

A check is a function with a name that states the promise, and, where there is one, the line of the parity page that it
belongs to. A check that is listed in `known-gaps.toml` must fail: as soon as it passes, the run fails until its line is
removed from the list. A check that is not listed must pass. A line that names no check is an error.

The output is one JSON line for each check, as `xtask/src/interop/script.rs` reads it; a gap is a line of plain text.
"""

import json
import threading
import time
import tomllib
import traceback
from pathlib import Path
from typing import Any, Callable

GAPS = Path(__file__).with_name("known-gaps.toml")
# The longest time that one check may take.
LIMIT_S = 40.0


class Check:
    def __init__(self, name: str, stage: str, body: Callable[..., None]) -> None:
        self.name, self.stage, self.body = name, stage, body


class Checks:
    """The checks of one example, in order. A stage is a running gateway that several checks share."""

    def __init__(self, example: str) -> None:
        self.example = example
        self.stages: dict[str, Callable[[], Any]] = {}
        self.checks: list[Check] = []

    def stage(self, name: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
        """Declares a stage: a function that returns a context manager."""

        def add(body: Callable[[], Any]) -> Callable[[], Any]:
            self.stages[name] = body
            return body

        return add

    def check(self, name: str, stage: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Declares a check `EXAMPLE name` that runs on a stage."""

        def add(body: Callable[..., None]) -> Callable[..., None]:
            full = f"{self.example} {name}"
            if any(check.name == full for check in self.checks):
                raise ValueError(f"two checks are called {full!r}")
            self.checks.append(Check(full, stage, body))
            return body

        return add

    def run(self, wanted: str | None = None) -> bool:
        """Runs the checks whose name contains `wanted`; returns whether all is as listed."""
        gaps = known_gaps()
        known = {check.name for check in self.checks}
        outcome = Outcome(gaps)
        for name in gaps:
            if name.startswith(f"{self.example} ") and name not in known:
                outcome.fail(name, 0, "known-gaps.toml lists a check that does not exist")
        for stage, enter in self.stages.items():
            chosen = [check for check in self.checks if check.stage == stage]
            chosen = [check for check in chosen if wanted is None or wanted in check.name]
            if not chosen:
                continue
            try:
                with enter() as on_stage:
                    for check in chosen:
                        outcome.add(check, *attempt(check, on_stage))
            except Exception as error:  # A stage that cannot be set up fails all of its checks.
                traceback.print_exc()
                for check in chosen:
                    if check.name not in outcome.seen:
                        outcome.add(check, 0, f"the stage `{stage}` failed: {error}")
        return outcome.conclude(self.example)


class Outcome:
    def __init__(self, gaps: dict[str, str]) -> None:
        self.gaps, self.seen = gaps, set()
        self.passed, self.failed, self.open = 0, 0, 0

    def add(self, check: Check, took_ms: int, failure: str | None) -> None:
        self.seen.add(check.name)
        reason = self.gaps.get(check.name)
        if reason is None and failure is None:
            self.passed += 1
            print(json.dumps({"check": check.name, "ms": took_ms}), flush=True)
        elif reason is None:
            self.fail(check.name, took_ms, failure or "")
        elif failure is None:
            self.fail(check.name, took_ms, "passes now: remove it from interop/seeds/known-gaps.toml")
        else:
            self.open += 1
            print(f"gap {check.name} ({took_ms} ms): {reason}\n    {one_line(failure)}", flush=True)

    def fail(self, name: str, took_ms: int, failure: str) -> None:
        self.failed += 1
        print(json.dumps({"check": name, "failed": one_line(failure), "ms": took_ms}), flush=True)

    def conclude(self, example: str) -> bool:
        print(f"{example}: {self.passed} passed, {self.open} known gaps, {self.failed} failed", flush=True)
        print(json.dumps({"through": True}), flush=True)
        return self.failed == 0


def attempt(check: Check, on_stage: Any) -> tuple[int, str | None]:
    """Runs one check under the time limit; returns how long it took and why it failed."""
    failure: list[str | None] = [f"no end within {LIMIT_S:.0f} s"]

    def body() -> None:
        try:
            check.body(on_stage)
            failure[0] = None
        except AssertionError as error:
            failure[0] = str(error) or traceback.format_exc(limit=-1)
        except Exception as error:  # Whatever a library raises is the finding.
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            failure[0] = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"

    begun = time.monotonic()
    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    return round((time.monotonic() - begun) * 1000), failure[0]


def known_gaps() -> dict[str, str]:
    """The known gaps: from the name of a check to the reason. The tables of the file are areas of the code."""
    with GAPS.open("rb") as file:
        areas = tomllib.load(file)
    return {name: f"[{area}] {reason}" for area, names in areas.items() for name, reason in names.items()}


def one_line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 600 else f"{text[:600]}…"


def equal(actual: Any, expected: Any, what: str = "got") -> None:
    if actual != expected:
        raise AssertionError(f"{what} {actual!r} instead of {expected!r}")


def contains(whole: Any, part: Any, what: str = "") -> None:
    if part not in whole:
        raise AssertionError(f"{what or 'it'} does not contain {part!r}: {whole!r}")


def lacks(whole: Any, part: Any, what: str = "") -> None:
    if part in whole:
        raise AssertionError(f"{what or 'it'} contains {part!r}: {whole!r}")


def true(condition: Any, what: str) -> None:
    if not condition:
        raise AssertionError(what)


def eventually(probe: Callable[[], Any], what: str, within_s: float = 10.0) -> Any:
    """Waits until `probe` returns something true, and returns it."""
    deadline = time.monotonic() + within_s
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s:.0f} s: {what}")
        time.sleep(0.1)
