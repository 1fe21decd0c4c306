"""Counters, gauges and histograms in Prometheus' text format. Labels never hold what a user wrote."""

from __future__ import annotations

from collections import defaultdict

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)  # seconds
Labels = tuple[tuple[str, str], ...]

HELP = {
    "headway_requests_total": "Requests answered, by endpoint, model and status.",
    "headway_tokens_total": "Tokens read (prompt) and written.",
    "headway_cancelled_total": "Sequences ended early: the client left, or a stop string was found.",
    "headway_engine_starts_total": "Starts of an engine process.",
    "headway_engine_up": "Whether the engine of a model takes work.",
    "headway_rows": "Sequences being read or written.",
    "headway_waiting": "Sequences that wait.",
    "headway_reserved_tokens": "Tokens of the KV cache that are reserved.",
    "headway_request_seconds": "From a request to the end of its answer.",
    "headway_first_token_seconds": "From a request to its first token.",
    "headway_step_seconds": "A step of the engine.",
}


class Metrics:
    """All metrics of one server."""

    def __init__(self) -> None:
        self._values: dict[str, dict[Labels, float]] = defaultdict(dict)
        self._histograms: dict[str, dict[Labels, list[float]]] = defaultdict(dict)  # counts by bucket, then the sum

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        """Raise a counter."""
        key = tuple(sorted(labels.items()))
        self._values[name][key] = self._values[name].get(key, 0) + amount

    def set(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        self._values[name][tuple(sorted(labels.items()))] = value

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Count a duration."""
        held = self._histograms[name].setdefault(tuple(sorted(labels.items())), [0.0] * (len(BUCKETS) + 2))
        place = next((n for n, bound in enumerate(BUCKETS) if seconds <= bound), len(BUCKETS))
        held[place] += 1
        held[-1] += seconds

    def text(self) -> str:
        """All of them, as a scraper reads them."""
        lines: list[str] = []
        for name, values in sorted(self._values.items()):
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# HELP {name} {HELP[name]}", f"# TYPE {name} {kind}"]
            lines += [f"{name}{_shown(labels)} {value:g}" for labels, value in sorted(values.items())]
        for name, histograms in sorted(self._histograms.items()):
            lines += [f"# HELP {name} {HELP[name]}", f"# TYPE {name} histogram"]
            for labels, held in sorted(histograms.items()):
                count = 0.0
                for bound, more in zip((*map(str, BUCKETS), "+Inf"), held[:-1], strict=True):
                    count += more
                    lines.append(f"{name}_bucket{_shown((*labels, ('le', bound)))} {count:g}")
                lines += [f"{name}_sum{_shown(labels)} {held[-1]:g}", f"{name}_count{_shown(labels)} {count:g}"]
        return "\n".join(lines) + "\n"


def _shown(labels: Labels) -> str:
    def escaped(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in labels) + "}" if labels else ""
