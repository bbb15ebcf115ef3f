"""Compares a rebuilt table with the one in the repository.

    python check.py                          # the table in the repository has the bytes that table.sha256 names
    python check.py TEXTS.pkl.xz REBUILT     # a rebuilt table finds the same texts similar, within the tolerance

Training on a GPU adds numbers in an order that changes from run to run, so a rebuilt table has other bytes. What
search uses is the similarity of texts; this script compares that.
"""

import hashlib
import lzma
import pathlib
import pickle
import random
import sys

import numpy as np

from pieces import TABLE

TEXTS = 2000
# Two trainings with different seeds differed by 0.0045, with a correlation of 0.998.
LARGEST_MEAN_DIFFERENCE = 0.01
LEAST_CORRELATION = 0.995


def load(folder):
    scale = np.fromfile(folder / "scale.f32", "<f4")
    return np.fromfile(folder / "table.i8", np.int8).reshape(len(scale), -1) * scale[:, None]


def similarities(table, texts):
    vectors = np.stack([table[rows].mean(0) for rows in texts])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors @ vectors.T)[np.triu_indices(len(texts), 1)]


def check_bytes():
    right = True
    for line in (pathlib.Path(__file__).parent / "table.sha256").read_text().splitlines():
        wanted, name = line.split()
        found = hashlib.sha256((TABLE / name).read_bytes()).hexdigest()
        print(f"{name}: {'as recorded' if found == wanted else 'differs from table.sha256'}")
        right &= found == wanted
    return right


def check_rebuilt(texts, rebuilt):
    tools = pickle.loads(lzma.decompress(texts.read_bytes()))["tools"]
    chosen = random.Random(0).sample(tools, TEXTS)
    chosen = [np.concatenate([server, name, *told]) for server, name, told, _ in chosen]
    ours, theirs = similarities(load(TABLE), chosen), similarities(load(rebuilt), chosen)
    difference, correlation = np.abs(ours - theirs).mean(), np.corrcoef(ours, theirs)[0, 1]
    print(f"mean difference of similarities: {difference:.4f} (at most {LARGEST_MEAN_DIFFERENCE})")
    print(f"correlation of similarities: {correlation:.4f} (at least {LEAST_CORRELATION})")
    return difference <= LARGEST_MEAN_DIFFERENCE and correlation >= LEAST_CORRELATION


if __name__ == "__main__":
    paths = [pathlib.Path(argument) for argument in sys.argv[1:]]
    sys.exit(0 if (check_rebuilt(*paths) if paths else check_bytes()) else 1)
