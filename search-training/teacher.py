"""Encodes texts with all-MiniLM-L6-v2, the teacher: mean of the last layer, length one."""

import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from transformers import BertConfig, BertModel

START, END = 101, 102  # [CLS] and [SEP] of the vocabulary
LONGEST = 128  # pieces
BATCH_PIECES = 300_000


def load(folder, device):
    """Loads the weights from all safetensors files of a folder."""
    folder = pathlib.Path(folder)
    model = BertModel(BertConfig.from_json_file(str(folder / "config.json")), add_pooling_layer=False)
    weights = {}
    for file in sorted(folder.glob("*.safetensors")):
        weights |= load_file(str(file))
    weights = {name: value.float() for name, value in weights.items() if not name.startswith("pooler.")}
    missing, _ = model.load_state_dict(weights, strict=False)
    missing = [name for name in missing if "position_ids" not in name and "token_type_ids" not in name]
    if missing:
        raise SystemExit(f"the teacher lacks {missing}")
    return model.eval().to(device)


@torch.no_grad()
def encode(model, rows, lengths, device):
    """Encodes texts given as a matrix of pieces and their lengths; returns half-precision vectors on the device."""
    order = np.argsort(lengths, kind="stable")
    vectors = torch.empty(len(lengths), model.config.hidden_size, dtype=torch.float16, device=device)
    at = 0
    while at < len(order):
        width = min(LONGEST, int(lengths[order[min(at + 8_000, len(order) - 1)]]))
        some = order[at : at + max(1, BATCH_PIECES // (width + 2))]
        width = min(LONGEST, int(lengths[some].max()))
        size = torch.from_numpy(np.minimum(lengths[some], width).astype(np.int64)).to(device)
        ids = torch.zeros(len(some), width + 2, dtype=torch.long, device=device)
        ids[:, 0] = START
        ids[:, 1 : width + 1] = torch.from_numpy(rows[some][:, :width].astype(np.int64)).to(device)
        ids[torch.arange(len(some), device=device), size + 1] = END
        mask = torch.arange(width + 2, device=device)[None, :] < (size + 2)[:, None]
        ids = ids * mask
        with torch.autocast(device_type=torch.device(device).type, dtype=torch.float16, enabled=device == "cuda"):
            hidden = model(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        mean = (hidden.float() * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
        vectors[torch.from_numpy(some).to(device)] = F.normalize(mean, dim=-1).half()
        at += len(some)
    return vectors
