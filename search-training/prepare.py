"""Gathers training texts from checkouts of public data sets into one file.

    python prepare.py CHECKOUTS OUT.pkl [--leave-out SEARCH_EVAL]

CHECKOUTS holds one folder per repository, named as in the README. What is missing is skipped with a notice.
With --leave-out, queries and tools of that evaluation folder are kept out of the training texts.
"""

import argparse
import csv
import json
import pathlib
import pickle
import random
import re

from pieces import Pieces, document, split_names

Pairs = list  # of (query, document)


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def seal_tools(root) -> Pairs:
    data = root / "Seal-Tools/Seal-Tools_Dataset"
    tools = {
        tool["api_name"]: document("", tool["api_name"], tool["api_description"], tool.get("parameters", {}))
        for tool in lines(data / "tool.jsonl")
    }
    pairs = []
    for part in ("dev", "test_in_domain", "test_out_domain"):
        for case in lines(data / f"{part}.jsonl"):
            called = sorted({call["api"] for call in case["calling"]})
            pairs += [(case["query"], tools[name]) for name in called if name in tools]
    return pairs


def toolbench(root) -> Pairs:
    pairs = []
    for path in sorted((root / "StableToolBench/solvable_queries/test_instruction").glob("*.json")):
        for case in json.loads(path.read_text(encoding="utf-8")):
            relevant = {tuple(pair) for pair in case.get("relevant APIs", [])}
            for api in case["api_list"]:
                if (api["tool_name"], api["api_name"]) in relevant:
                    names = [p["name"] for p in api["required_parameters"] + api["optional_parameters"]]
                    text = api.get("api_description", "")[:500]
                    pairs.append((case["query"], document(api["tool_name"], api["api_name"], text, names)))
    return pairs


def bfcl(root) -> Pairs:
    data, pairs = root / "gorilla/berkeley-function-call-leaderboard/bfcl_eval/data", []
    for part in ("simple_python", "simple_java", "simple_javascript", "multiple", "parallel", "parallel_multiple"):
        answers = {
            answer["id"]: {name for truth in answer["ground_truth"] for name in truth}
            for answer in lines(data / f"possible_answer/BFCL_v4_{part}.json")
        }
        for case in lines(data / f"BFCL_v4_{part}.json"):
            query = case["question"][0][-1]["content"]
            for function in case["function"]:
                if function["name"] in answers.get(case["id"], ()):
                    names = function["parameters"].get("properties") or {}
                    pairs.append((query, document("", function["name"], function["description"], names)))
    return pairs


def apibench(root) -> Pairs:
    pairs = []
    for part in ("torchhub_train", "torchhub_eval", "tensorflow_eval", "huggingface_eval"):
        for case in lines(root / f"gorilla/data/apibench/{part}.json"):
            told, api = str(case.get("code", "")), case.get("api_data") or {}
            asked = re.search(r"Instruction'?:\s*(.*?)(?:, 'Output'|\\n###Output|\n###)", told)
            if asked and isinstance(api, dict):
                text = f"{api.get('domain', '')} {api.get('functionality', '')} {str(api.get('description', ''))[:300]}"
                pairs.append((asked.group(1)[:400], f"{api.get('api_name', '')} : {text}"))
    random.Random(1).shuffle(pairs)
    return pairs[:2500]


def tool_alpaca(root) -> Pairs:
    pairs = []
    for part in ("eval_simulated", "eval_real"):
        for api in json.loads((root / f"ToolAlpaca/data/{part}.json").read_text(encoding="utf-8")):
            functions = api.get("Function_Description") or {}
            for asked, answers in zip(api.get("Instructions") or [], api.get("Golden_Answers") or []):
                for answer in answers or []:
                    text = functions.get(answer.get("Action"))
                    if text:
                        pairs.append((asked, document(api["Name"], answer["Action"], text[:400], [])))
    return pairs


def metatool(root, held_back) -> Pairs:
    data = root / "MetaTool/dataset"
    texts = json.loads((data / "plugin_des.json").read_text(encoding="utf-8"))
    with open(data / "data/all_clean_data.csv", encoding="utf-8") as rows:
        return [
            (row["Query"], document("", row["Tool"], texts[row["Tool"]], []))
            for row in csv.DictReader(rows)
            if row["Tool"] in texts and row["Query"].strip() not in held_back
        ]


SOURCES = {
    "seal": seal_tools,
    "toolbench": toolbench,
    "bfcl": bfcl,
    "apibench": apibench,
    "alpaca": tool_alpaca,
    "metatool": metatool,
}


def unlabelled(root):
    """Tools as their servers describe them, without any query: (server, name, description)."""
    tools = []
    index = root / "toolsdk-mcp-registry/indexes/packages-list.json"
    if index.exists():
        for package, entry in json.loads(index.read_text(encoding="utf-8")).items():
            server = re.sub(r"@|mcp|server|/", " ", package)
            for name, tool in (entry.get("tools") or {}).items():
                tools.append((server, tool.get("name", name), tool.get("description") or ""))
    for path in sorted((root / "mcp-registry/servers").glob("*/tools.json")):
        for tool in json.loads(path.read_text(encoding="utf-8")):
            tools.append((path.parent.name, tool.get("name", ""), tool.get("description") or ""))
    for path in sorted((root / "gorilla/data/apizoo").glob("*.json")):
        try:
            entries = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            continue
        for api in entries if isinstance(entries, list) else []:
            if isinstance(api, dict) and api.get("functionality"):
                text = re.sub(r"\*\*Scopes.*", "", str(api["functionality"]), flags=re.S)[:500]
                tools.append(("", str(api.get("api_name", "")), text))
    seen = {}
    for server, name, text in tools:
        if len(text) > 12:
            seen.setdefault((name, text[:80]), (server, name, text))
    return list(seen.values())


def sentences(text):
    return re.split(r"(?<=[.!?;])\s+|\n+", text[:900])


def main():
    asked = argparse.ArgumentParser()
    asked.add_argument("checkouts", type=pathlib.Path)
    asked.add_argument("out", type=pathlib.Path)
    asked.add_argument("--leave-out", type=pathlib.Path)
    asked = asked.parse_args()
    held_queries, held_tools = set(), set()
    if asked.leave_out:
        for path in asked.leave_out.glob("*.queries.jsonl"):
            held_queries |= {case["query"].strip() for case in lines(path)}
        for path in asked.leave_out.glob("*.tools.jsonl"):
            held_tools |= {tool["name"] + (tool.get("description") or "")[:60] for tool in lines(path)}
    pieces, pairs = Pieces(), {}
    for name, gather in SOURCES.items():
        try:
            found = gather(asked.checkouts, held_queries) if name == "metatool" else gather(asked.checkouts)
        except FileNotFoundError as missing:
            print(f"{name}: skipped, {missing.filename} is not there")
            continue
        found = [(query, text) for query, text in found if query.strip() not in held_queries]
        pairs[name] = [(pieces.of(split_names(query)), pieces.of(text)) for query, text in found]
        print(f"{name}: {len(found)} pairs")
    tools = [tool for tool in unlabelled(asked.checkouts) if tool[1] + tool[2][:60] not in held_tools]
    print(f"unlabelled: {len(tools)} tools")
    told = [
        (
            pieces.of(split_names(server)),
            pieces.of(split_names(name)),
            [rows for rows in map(pieces.of, sentences(text)) if rows],
        )
        for server, name, text in tools
    ]
    asked.out.write_bytes(pickle.dumps({"pairs": pairs, "unlabelled": told}, protocol=4))


if __name__ == "__main__":
    main()
