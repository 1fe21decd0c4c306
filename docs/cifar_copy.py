"""What a copy of CIFAR-10 is worth: a known recipe on it, without anything of headway's.

    python docs/cifar_copy.py FOLDER [--again QUALITY] [--seed N]

FOLDER has train.parquet and test.parquet (columns img.bytes and label). The network of nine layers and its recipe are
D. Page's (How to Train Your ResNet, 2018): 24 epochs of 512 images, flips, crops and holes, which reach 94 % of test on
lossless images. With --again every image goes once more through JPEG at this quality, its blocks four pixels off those
of the first time.
"""

from __future__ import annotations

import argparse
import io
from multiprocessing import Pool

import numpy as np
import pyarrow.parquet as parquet
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

EPOCHS, RISE, BATCH, PEAK = 24, 5, 512, 0.4  # the learning rate goes up to its peak over RISE epochs, then down to 0
MEAN, STD = (125.31, 122.95, 113.87), (62.99, 62.09, 66.70)
SIDE, PAD, HOLE = 32, 4, 8
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def decoded(job: tuple[bytes, int | None]) -> np.ndarray:
    """Pixels (32, 32, 3), through JPEG again where a quality is given."""
    data, quality = job
    pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    if quality is None:
        return pixels
    held = io.BytesIO()
    wide = Image.fromarray(np.pad(pixels, ((PAD, PAD), (PAD, PAD), (0, 0)), mode="reflect"))
    wide.save(held, "JPEG", quality=quality, subsampling="4:2:0")
    return np.asarray(Image.open(held).convert("RGB"))[PAD:-PAD, PAD:-PAD]


def split(folder: str, name: str, quality: int | None) -> tuple[Tensor, Tensor]:
    """Normalised images (N, 3, 32, 32) and labels (N,)."""
    table = parquet.read_table(f"{folder}/{name}.parquet")
    with Pool() as pool:
        images = pool.map(decoded, [(row["bytes"], quality) for row in table.column("img").to_pylist()], chunksize=500)
    mean, std = (torch.tensor(each, device=DEVICE).view(1, 3, 1, 1) for each in (MEAN, STD))
    pixels = torch.from_numpy(np.stack(images)).to(DEVICE).permute(0, 3, 1, 2).float()
    return (pixels - mean) / std, torch.tensor(table.column("label").to_pylist(), device=DEVICE)


def layer(width: int, out: int) -> nn.Module:
    """Convolution, norm, ReLU."""
    return nn.Sequential(nn.Conv2d(width, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(inplace=True))


class Residual(nn.Module):
    """Two layers beside the identity."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(layer(width, width), layer(width, width))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x)


def network() -> nn.Module:
    """(B, 3, 32, 32) -> eight times the logits (B, 10)."""
    return nn.Sequential(
        layer(3, 64), layer(64, 128), nn.MaxPool2d(2), Residual(128), layer(128, 256), nn.MaxPool2d(2),
        layer(256, 512), nn.MaxPool2d(2), Residual(512), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(512, 10, bias=False),
    )  # fmt: skip


def augmented(padded: Tensor, rows: Tensor) -> Tensor:
    """Images cut out of those with a border, half of them turned, each with a hole (B, 3, 32, 32)."""
    count, at = len(rows), torch.arange(SIDE, device=DEVICE)
    down, right = torch.randint(0, 2 * PAD + 1, (2, count), device=DEVICE)
    turned = torch.rand(count, device=DEVICE) < 0.5
    columns = torch.where(turned[:, None], SIDE - 1 - at, at) + right[:, None]
    images = padded[rows[:, None, None], :, (at + down[:, None])[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
    top, left = (at - first[:, None] for first in torch.randint(0, SIDE - HOLE + 1, (2, count), device=DEVICE))
    hole = ((top >= 0) & (top < HOLE))[:, :, None] & ((left >= 0) & (left < HOLE))[:, None, :]
    return images.masked_fill(hole[:, None], 0).contiguous(memory_format=torch.channels_last)


def rate(epoch: float) -> float:
    """The learning rate after so many epochs."""
    return PEAK * (epoch / RISE if epoch < RISE else (EPOCHS - epoch) / (EPOCHS - RISE))


@torch.no_grad()
def accuracy(net: nn.Module, images: Tensor, labels: Tensor) -> float:
    """The share of test images whose class is right."""
    net.eval()
    with torch.autocast(DEVICE, torch.bfloat16):
        right = sum((net(x).argmax(1) == y).sum() for x, y in zip(images.split(2000), labels.split(2000), strict=True))
    return float(right) / len(images)


def main() -> None:
    """Train, and say after each epoch how much of test is right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--again", type=int, metavar="QUALITY")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.manual_seed(given.seed)
    images, labels = split(given.folder, "train", given.again)
    test = split(given.folder, "test", given.again)
    net = network().to(DEVICE).to(memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(net.parameters(), lr=PEAK, momentum=0.9, weight_decay=5e-4, nesterov=True)
    padded, steps = F.pad(images, (PAD,) * 4, mode="reflect"), len(images) // BATCH
    for epoch in range(EPOCHS):
        net.train()
        order = torch.randperm(len(images), device=DEVICE)[: steps * BATCH]
        for step, rows in enumerate(order.split(BATCH)):
            optimiser.param_groups[0]["lr"] = rate(epoch + step / steps)
            with torch.autocast(DEVICE, torch.bfloat16):
                loss = F.cross_entropy(0.125 * net(augmented(padded, rows)).float(), labels[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        print(f"epoch {epoch + 1}: loss {loss.item():.4f}, test {accuracy(net, *test):.4f}", flush=True)


if __name__ == "__main__":
    main()
