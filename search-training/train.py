"""Distils the table of word vectors from the teacher.

    python train.py TEXTS.pkl.xz TEACHER OUT [--first-seed N]

TEACHER is the folder of all-MiniLM-L6-v2 (config.json and safetensors files), OUT receives table.i8 and scale.f32.
The similarities of all texts follow the teacher's. Short texts also learn to find the text of their own tool.
"""

import argparse
import collections
import lzma
import pathlib
import pickle
import random
import time

import numpy as np
import torch
import torch.nn.functional as F

import teacher

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WIDTH = 256
LONGEST = teacher.LONGEST
TEXTS, PAIRS = 3072, 2048  # per step
WORD_PAIRS = 512  # of PAIRS, the number of pairs of words and glosses
STEPS, RATE = 2500, 3e-3
DROPPED = 0.1  # share of pieces left out at random
SAME = 0.9  # two texts that the teacher finds more similar than this are not told apart
SEEDS = 2  # per objective

# Each objective trains tables of its own; the mean of all tables finds more than each of them.
# `hold`: weight of the teacher's similarities. `find`: how a short text learns to find the text of its tool.
Objective = collections.namedtuple("Objective", "find hold temperature")
OBJECTIVES = [
    Objective("own tool", hold=200.0, temperature=0.15),  # its own tool is the only right answer
    Objective("as the teacher", hold=100.0, temperature=0.07),  # right answers are weighted as the teacher ranks them
]
TEACHER_TEMPERATURE = 0.05


class Pool:
    """All training texts, and the pairs of a short text and a longer one that belong together."""

    def __init__(self):
        self.texts, self.known, self.pairs, self.word_pairs = [], {}, [], []

    def add(self, *parts):
        rows = np.concatenate([np.empty(0, np.uint16), *parts])[:LONGEST]
        if not len(rows):
            return None
        key = rows.tobytes()
        if key not in self.known:
            self.known[key] = len(self.texts)
            self.texts.append(rows)
        return self.known[key]

    def pair(self, pairs, short, long):
        if short is not None and long is not None and short != long:
            pairs.append((short, long))

    def packed(self):
        lengths = np.array([len(rows) for rows in self.texts])
        rows = np.zeros((len(lengths), LONGEST), np.uint16)
        for at, text in enumerate(self.texts):
            rows[at, : len(text)] = text
        return rows, lengths


def request(part, data, chance):
    """A sentence of a description as a person might ask for it."""
    opening = chance.choice(data["openings"])
    closing = chance.choice(data["closings"]) if chance.random() < 0.4 else part[:0]
    return opening, part[: chance.randint(4, 24)], closing


def gather(data, chance):
    pool = Pool()
    for row in range(data["vocabulary"]):
        pool.add(np.array([row], np.uint16))
    for server, name, told, parameters in data["tools"]:
        pool.add(server, name, *told, *parameters)
        pool.add(server, name)
        nameless = pool.add(server, *told, *parameters)
        pool.pair(pool.pairs, pool.add(name), nameless)
        for at, part in enumerate(told[:3]):
            rest = pool.add(server, name, *told[:at], *told[at + 1 :], *parameters)
            pool.pair(pool.pairs, pool.add(part), rest)
            if at < 2:
                pool.pair(pool.pairs, pool.add(*request(part, data, chance)), rest)
        pool.pair(pool.pairs, pool.add(*request(name, data, chance)), nameless)
    for names, gloss, examples in data["words"]:
        words = pool.add(names)
        meaning = pool.add(gloss)
        pool.pair(pool.word_pairs, words, meaning)
        for example in examples[:2]:
            pool.pair(pool.word_pairs, pool.add(example), pool.add(names, gloss))
    return pool


class Student:
    def __init__(self, table, rows, lengths):
        self.table, self.rows, self.lengths = table, rows, lengths

    def embed(self, some):
        width = int(self.lengths[some].max())
        rows = self.rows[some, :width].long()
        weight = (torch.arange(width, device=DEVICE)[None, :] < self.lengths[some][:, None]).float()
        kept = weight * (torch.rand_like(weight) >= DROPPED)
        weight = torch.where(kept.sum(1, keepdim=True) > 0, kept, weight)
        return F.normalize(F.embedding_bag(rows, self.table, per_sample_weights=weight, mode="sum"), dim=-1)


def first_table(model, vocabulary):
    """One vector per piece: the teacher's for the piece alone, reduced to the main components."""
    rows = np.arange(vocabulary, dtype=np.uint16)[:, None]
    vectors = teacher.encode(model, rows, np.ones(vocabulary, np.int64), DEVICE).float()
    vectors = vectors - vectors.mean(0)
    _, _, axes = torch.linalg.svd(vectors, full_matrices=False)
    # Pieces are sorted by frequency: frequent ones say less.
    rank = torch.arange(vocabulary, device=DEVICE).float()
    return vectors @ axes[:WIDTH].T * torch.log1p(rank + 10)[:, None] / 10


def ranking_loss(objective, now, wanted):
    """How badly the short texts of a batch find their long texts, and the other way round."""
    scores = now[:PAIRS] @ now[PAIRS:].T / objective.temperature
    if objective.find == "own tool":
        twins = (wanted[PAIRS:] @ wanted[PAIRS:].T > SAME) & ~torch.eye(PAIRS, dtype=torch.bool, device=DEVICE)
        scores = scores.masked_fill(twins, -1e4)
        truth = back = torch.arange(PAIRS, device=DEVICE)
    else:
        likeness = wanted[:PAIRS] @ wanted[PAIRS:].T / TEACHER_TEMPERATURE
        truth, back = F.softmax(likeness, dim=-1), F.softmax(likeness.T, dim=-1)
    return (F.cross_entropy(scores, truth) + F.cross_entropy(scores.T, back)) / 2


def train(start, pool, packed, vectors, objective, seed):
    torch.manual_seed(seed)
    rows, lengths = packed
    table = start.clone().requires_grad_(True)
    student = Student(table, rows, lengths)
    optimiser = torch.optim.Adam([table], lr=RATE)
    pairs = torch.tensor(pool.pairs, device=DEVICE)
    word_pairs = torch.tensor(pool.word_pairs, device=DEVICE)
    for step in range(STEPS):
        for group in optimiser.param_groups:
            group["lr"] = RATE * min(1, (step + 1) / 100) * (1 - step / STEPS)
        some = torch.randint(len(lengths), (TEXTS,), device=DEVICE)
        chosen = pairs[torch.randint(len(pairs), (PAIRS - WORD_PAIRS,), device=DEVICE)]
        chosen = torch.cat([chosen, word_pairs[torch.randint(len(word_pairs), (WORD_PAIRS,), device=DEVICE)]])
        every = torch.cat([chosen[:, 0], chosen[:, 1], some])
        now, wanted = student.embed(every), vectors[every].float()
        loss = objective.hold * ((now @ now.T - wanted @ wanted.T) ** 2).mean()
        loss = loss + ranking_loss(objective, now[: 2 * PAIRS], wanted[: 2 * PAIRS])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step % 500 == 0 or step == STEPS - 1:
            print(f"{objective.find}, seed {seed}, step {step}: loss {loss.item():.4f}", flush=True)
    return table.detach()


def save(table, folder):
    folder.mkdir(parents=True, exist_ok=True)
    table = table.cpu().numpy()
    scale = np.maximum(np.abs(table).max(1) / 127, 1e-8).astype("<f4")
    np.round(table / scale[:, None]).clip(-127, 127).astype(np.int8).tofile(folder / "table.i8")
    scale.tofile(folder / "scale.f32")


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("texts", type=pathlib.Path)
    parser.add_argument("teacher", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--first-seed", type=int, default=0)
    return parser.parse_args()


def ready(options):
    """Reads the texts and encodes them with the teacher."""
    began = time.time()
    data = pickle.loads(lzma.decompress(options.texts.read_bytes()))
    pool = gather(data, random.Random(0))
    packed = pool.packed()
    print(f"{len(pool.texts)} texts, {len(pool.pairs)} pairs of tools, {len(pool.word_pairs)} of words", flush=True)
    model = teacher.load(options.teacher, DEVICE)
    vectors = teacher.encode(model, *packed, DEVICE)
    start = first_table(model, data["vocabulary"])
    packed = tuple(torch.from_numpy(part.astype(np.int32)).to(DEVICE) for part in packed)
    print(f"encoded after {time.time() - began:.0f} s", flush=True)
    return start, pool, packed, vectors


def main():
    options = arguments()
    inputs = ready(options)
    seeds = range(options.first_seed, options.first_seed + SEEDS)
    tables = [train(*inputs, objective, seed) for objective in OBJECTIVES for seed in seeds]
    save(torch.stack(tables).mean(0), options.out)


if __name__ == "__main__":
    main()
