"""GPUs by name: memory, peak rates, and how much of the peak headway's training was measured to use.

Sizes are what the driver reports; rates are the vendors' data sheets, without sparsity. Only the H200 was measured.
"""

from __future__ import annotations

from dataclasses import dataclass

from headway.errors import ConfigError

MIB = 2**20
BETWEEN_MACHINES = 50e9  # bytes a second of one GPU to another machine: a network of 400 Gb/s each, an assumption
MARGIN = 0.1  # of a peak: what the estimate may be wrong by, and the allocator's waste


@dataclass(frozen=True, slots=True)
class Efficiency:
    """The share of a machine's peak rate that training uses, as a range, and where that is known from."""

    low: float
    high: float
    source: str


@dataclass(frozen=True, slots=True)
class Machine:
    """One kind of device, of which a training may have several."""

    name: str
    title: str
    memory: int  # bytes
    bandwidth: float  # bytes a second of its memory; 0: not known
    peak_16: float  # operations a second in bf16
    peak_32: float  # in fp32, without TF32
    link: float  # bytes a second to another GPU of the same computer, each way
    gpu: bool = True
    efficiency: Efficiency | None = None  # measured on this very machine; None: that of the table

    def peak(self, precision: str) -> float:
        """Operations a second in a precision of the config."""
        return self.peak_16 if precision == "bf16" else self.peak_32

    def used(self, precision: str, *, compiled: bool) -> Efficiency:
        """The share of the peak that training is expected to use."""
        if self.efficiency is not None:
            return self.efficiency
        found = COMPILED if compiled else EAGER
        if precision != "bf16":
            return Efficiency(found.low, found.high, f"assumed to be that of bf16 on an H200 ({found.source})")
        if self.name == "h200":
            return found
        return Efficiency(found.low, found.high, f"assumed to be that of an H200 ({found.source})")

    def fits(self, peak: int) -> bool:
        """Whether this many bytes of tensors, with a margin, fit its memory."""
        return (1 + MARGIN) * peak <= self.memory


# docs/results.md, H200, torch 2.11: GPT-2 124M 60.2 ms for 32,768 tokens, ViT-S/16 24.1 ms for 256 images, BERT-base
# 49.4 to 75.3 ms for 32,768 tokens. Operations by the convention of PaLM, as `estimate` counts them.
COMPILED = Efficiency(0.22, 0.48, "docs/results.md: BERT-base, ViT-S/16 and GPT-2, compiled, on an H200")
# 209,000 tokens/s of GPT-2 before its shapes were fixed and its loss had a kernel; below that, an assumption.
EAGER = Efficiency(0.08, 0.20, "not compiled: 0.18 was measured with GPT-2 and an earlier trainer on an H200")

MACHINES = {
    machine.name: machine
    for machine in (
        Machine("h200", "NVIDIA H200", 143_771 * MIB, 4.8e12, 989e12, 67e12, 450e9),
        Machine("h100", "NVIDIA H100 80GB SXM", 81_559 * MIB, 3.35e12, 989e12, 67e12, 450e9),
        Machine("a100-80", "NVIDIA A100 80GB SXM", 81_920 * MIB, 2.039e12, 312e12, 19.5e12, 300e9),
        Machine("a100-40", "NVIDIA A100 40GB SXM", 40_960 * MIB, 1.555e12, 312e12, 19.5e12, 300e9),
        Machine("l40s", "NVIDIA L40S", 46_068 * MIB, 0.864e12, 362e12, 91.6e12, 32e9),
        Machine("4090", "NVIDIA GeForce RTX 4090", 24_564 * MIB, 1.008e12, 165.2e12, 82.6e12, 32e9),
    )
}
MEASURED = ("cpu", "here")  # this machine, looked at when it is asked for (headway.estimate.here)
NAMES = (*MACHINES, *MEASURED)


def gpu_named(name: str) -> Machine:
    """The GPU of this name. Raises ConfigError naming those there are."""
    if name not in MACHINES:
        raise ConfigError(f"--machine {name}: not known; allowed: {', '.join(NAMES)}")
    return MACHINES[name]
