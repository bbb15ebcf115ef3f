"""Fine-tunes the table of word vectors on pairs of requests and tools.

    python train.py TEXTS.pkl START OUT

START and OUT are folders with table.i8 and scale.f32. The first table was distilled from a sentence encoder; this
step pulls requests towards the tools that answer them, and holds likenesses of all other texts near what they were.
"""

import itertools
import pathlib
import pickle
import random
import sys

import numpy as np
import torch
import torch.nn.functional as F

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BATCH, POOL, STEPS, RATE = 1024, 2048, 600, 1e-3
TEMPERATURE = 0.15  # smaller ones learn the training sets by heart
HOLD = 100.0  # how strongly the first table's likenesses are kept
DROPPED = 0.1  # share of pieces left out at random
UNLABELLED = 0.7  # share of pairs made from tools alone
SHARES = {"seal": 4, "toolbench": 2, "bfcl": 2, "apibench": 1, "alpaca": 0.5, "metatool": 1.2}
SEEDS = 3  # tables are averaged over these


def load(folder):
    scale = np.fromfile(folder / "scale.f32", "<f4")
    rows = np.fromfile(folder / "table.i8", np.int8).reshape(len(scale), -1)
    return torch.tensor(rows.astype(np.float32) * scale[:, None]).to(DEVICE)


def save(table, folder):
    folder.mkdir(parents=True, exist_ok=True)
    table = table.cpu().numpy()
    scale = np.maximum(np.abs(table).max(1) / 127, 1e-8)
    np.round(table / scale[:, None]).clip(-127, 127).astype(np.int8).tofile(folder / "table.i8")
    scale.astype("<f4").tofile(folder / "scale.f32")


def embed(table, texts):
    texts = [text or [0] for text in texts]
    starts = np.concatenate([[0], np.cumsum([len(text) for text in texts])[:-1]])
    rows = torch.tensor(np.concatenate(texts)).to(DEVICE)
    means = F.embedding_bag(rows, table, torch.tensor(starts).to(DEVICE), mode="mean")
    return F.normalize(means, dim=-1)


def thinned(text, chance):
    kept = [piece for piece in text if chance.random() > DROPPED]
    return kept if kept and len(text) > 3 else text


def endless(data, chance):
    """Pairs of what may be asked and what should be found, for ever."""
    names = [name for name in SHARES if name in data["pairs"]]
    shares = [SHARES[name] for name in names]
    while True:
        if chance.random() < UNLABELLED:
            server, name, told = chance.choice(data["unlabelled"])
            kind = chance.random()
            if kind < 0.45 and name:  # a name asks for its description
                asked = name if chance.random() < 0.6 else server + name
                text = server * (chance.random() < 0.5) + [piece for part in told for piece in part]
            elif len(told) > 1:  # a sentence asks for the rest
                left_out = chance.randrange(len(told))
                asked = told[left_out]
                rest = [piece for at, part in enumerate(told) if at != left_out for piece in part]
                text = server + name + rest
            else:  # a beginning asks for its end
                asked = told[0][: chance.randint(3, 20)] if told else name
                text = server + name + (told[0][10:] if told and len(told[0]) > 25 else [])
            asked, text = asked[:64], text[:256]
        else:
            asked, text = chance.choice(data["pairs"][chance.choices(names, shares)[0]])
            asked, text = asked[:96], text[:256]
        if asked and text:
            yield asked, text


def train(start, data, seed):
    chance, dice = random.Random(seed), np.random.default_rng(seed)
    # Every text once: a tool that many requests ask for is held no tighter than others.
    pool = {tuple(text[:256]) for pairs in data["pairs"].values() for pair in pairs for text in pair}
    for server, name, told in data["unlabelled"]:
        whole = server + name + [piece for part in told for piece in part]
        pool |= {tuple(text[:256]) for text in (server + name, whole, *told[:4])}
    pool = sorted(list(text) for text in pool if len(text) > 1)
    pairs, table = endless(data, chance), start.clone().requires_grad_(True)
    optimiser = torch.optim.Adam([table], lr=RATE)
    for step in range(STEPS):
        for group in optimiser.param_groups:
            group["lr"] = RATE * (1 - step / STEPS)
        batch = list(itertools.islice(pairs, BATCH))
        asked = embed(table, [thinned(query, chance) for query, _ in batch])
        found = embed(table, [thinned(text, chance) for _, text in batch])
        # The same tool twice in a batch is no wrong answer.
        marks = torch.tensor([hash(tuple(text)) for _, text in batch], device=DEVICE)
        twins = (marks[:, None] == marks[None, :]) & ~torch.eye(BATCH, dtype=torch.bool, device=DEVICE)
        scores = (asked @ found.T / TEMPERATURE).masked_fill(twins, -1e4)
        right = torch.arange(BATCH, device=DEVICE)
        loss = (F.cross_entropy(scores, right) + F.cross_entropy(scores.T, right)) / 2
        texts = [pool[at] for at in dice.choice(len(pool), POOL, replace=False)]
        with torch.no_grad():
            before = embed(start, texts)
        now = embed(table, texts)
        loss = loss + HOLD * ((now @ now.T - before @ before.T) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    print(f"seed {seed}: loss {loss.item():.4f}", flush=True)
    return table.detach()


def main():
    texts, start, out = (pathlib.Path(argument) for argument in sys.argv[1:4])
    data, start = pickle.loads(texts.read_bytes()), load(start)
    save(torch.stack([train(start, data, seed) for seed in range(SEEDS)]).mean(0), out)


if __name__ == "__main__":
    main()
