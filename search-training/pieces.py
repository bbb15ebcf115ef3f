"""Text as the search engine reads it: split names, and WordPieces of the uncased BERT vocabulary."""

import pathlib
import re
import unicodedata

TABLE = pathlib.Path(__file__).parent.parent / "crates/search/src/table"
CJK = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]+")


def vocabulary():
    with open(TABLE / "vocab.txt", encoding="utf-8") as lines:
        return {line.rstrip("\n"): row for row, line in enumerate(lines)}


def split_names(text):
    """`getUserById_v2` and `get-user-by-id` read as the words they are made of."""
    text = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text or "")
    text = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1 \2", text)
    text = re.sub(r"([A-Za-z])(\d)", r"\1 \2", text)
    text = re.sub(r"(\d)([A-Za-z])", r"\1 \2", text)
    return text.replace("_", " ").replace("-", " ")


class Pieces:
    """Turns text into rows of the table."""

    def __init__(self):
        self.rows = vocabulary()
        self.known = {}

    def word(self, word):
        if word not in self.known:
            self.known[word] = self._split(word)
        return self.known[word]

    def _split(self, word):
        found, start = [], 0
        if len(word) > 100:
            return []
        while start < len(word):
            prefix = "##" if start else ""
            ends = (end for end in range(len(word), start, -1) if prefix + word[start:end] in self.rows)
            end = next(ends, None)
            if end is None:
                return []
            found.append(self.rows[prefix + word[start:end]])
            start = end
        return found

    def of(self, text):
        text = unicodedata.normalize("NFD", text.lower())
        text = "".join(c for c in text if unicodedata.category(c) != "Mn")
        text = CJK.sub(lambda run: " " + " ".join(run.group(0)) + " ", text)
        return [row for word in re.findall(r"[^\W_]+|[^\w\s]|_", text) for row in self.word(word)]
