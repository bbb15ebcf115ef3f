"""Gathers the training texts of the pinned sources in one file of word pieces.

    python prepare.py SOURCES TEXTS.pkl.xz --leave-out SEARCH_EVAL

SOURCES holds a clone of each repository and the package files of sources.json. Tools whose description, or its first
sentence, equals that of a tool in SEARCH_EVAL are left out. The queries in that folder are not read.
"""

import argparse
import hashlib
import json
import lzma
import pathlib
import pickle
import re

import numpy as np

import phrasings
import sources
from pieces import Pieces, split_names

LONGEST_TEXT = 900  # characters of a description
LONGEST_SENTENCE = 64  # pieces
PARAMETERS = 12


def plain(text):
    return re.sub(r"\W+", " ", text.lower()).strip()


def sentences(text):
    return re.split(r"(?<=[.!?;])\s+|\n+", text[:LONGEST_TEXT])


def held_back(folder):
    """The plain descriptions of the tools used for measuring, whole and their first sentence."""
    held = set()
    for path in sorted(folder.glob("*.tools.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            text = json.loads(line).get("description") or ""
            held |= {plain(text), plain(sentences(text)[0])}
    return held - {""}


def fingerprint(texts):
    """A hash of all pieces, which does not depend on how they are stored."""
    digest = hashlib.sha256()

    def add(part):
        if isinstance(part, np.ndarray):
            digest.update(len(part).to_bytes(4, "little") + part.astype("<u2").tobytes())
        else:
            for one in part:
                add(one)

    for name in ("tools", "words", "openings", "closings"):
        add(texts[name])
    return digest.hexdigest()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sources", type=pathlib.Path)
    parser.add_argument("texts", type=pathlib.Path)
    parser.add_argument("--leave-out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    pieces, held = Pieces(), held_back(options.leave_out)

    def rows(text):
        return np.array(pieces.of(split_names(text)), np.uint16)

    tools, seen = [], set()
    for name, read in sources.TOOLS.items():
        kept = left_out = 0
        for tool in read(options.sources):
            text = re.sub(r"https?://\S+|[*#`]+", " ", tool.text)
            mark = plain(text)
            if plain(tool.text) in held or plain(sentences(tool.text)[0]) in held:
                left_out += 1
            elif len(mark) > 12 and (tool.name, mark[:80]) not in seen:
                seen.add((tool.name, mark[:80]))
                told = [part[:LONGEST_SENTENCE] for part in map(rows, sentences(text)) if len(part) > 1]
                parameters = [rows(parameter) for parameter in tool.parameters[:PARAMETERS]]
                tools.append((rows(tool.server), rows(tool.name), told, parameters))
                kept += 1
        print(f"{name}: {kept} tools, {left_out} left out")
    words = [
        (rows(names), rows(gloss)[:LONGEST_SENTENCE], [rows(example)[:LONGEST_SENTENCE] for example in examples])
        for names, gloss, examples in sources.wordnet(options.sources)
    ]
    print(f"wordnet: {len(words)} meanings")
    texts = {
        "tools": tools,
        "words": words,
        "openings": [rows(text) for text in phrasings.OPENINGS],
        "closings": [rows(text) for text in phrasings.CLOSINGS],
        "vocabulary": len(pieces.rows),
    }
    print("fingerprint", fingerprint(texts))
    options.texts.write_bytes(lzma.compress(pickle.dumps(texts, protocol=4)))


if __name__ == "__main__":
    main()
