"""Puts two tables together: a share of the one, the rest of the other.

    python blend.py FIRST TUNED SHARE_OF_TUNED OUT

What lies between a general table and one that was tuned finds more in collections that neither has seen.
"""

import pathlib
import sys

import numpy as np


def load(folder):
    scale = np.fromfile(folder / "scale.f32", "<f4")
    rows = np.fromfile(folder / "table.i8", np.int8).reshape(len(scale), -1)
    return rows.astype(np.float32) * scale[:, None]


def save(table, folder):
    folder.mkdir(parents=True, exist_ok=True)
    scale = np.maximum(np.abs(table).max(1) / 127, 1e-8)
    np.round(table / scale[:, None]).clip(-127, 127).astype(np.int8).tofile(folder / "table.i8")
    scale.astype("<f4").tofile(folder / "scale.f32")


def main():
    first, tuned, share, out = sys.argv[1:5]
    share = float(share)
    save((1 - share) * load(pathlib.Path(first)) + share * load(pathlib.Path(tuned)), pathlib.Path(out))


if __name__ == "__main__":
    main()
