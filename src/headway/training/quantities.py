"""Times and sizes as people write them: 10m, 2 h 5 min, 31 MB."""

from __future__ import annotations

import re

from headway.errors import ConfigError, shown

SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
LONGEST = 366 * 86400  # seconds


def seconds_of(text: str) -> float:
    """A time such as 90s, 10m, 1.5h or 1h30m, in seconds. Raises ConfigError."""
    parts = re.findall(r"(\d+(?:\.\d+)?)(min|[smhd])", text[:40])
    if not parts or "".join(value + unit for value, unit in parts) != text:
        raise ConfigError(f"{shown(text)} is not a time; allowed: a number with s, m, h or d, such as 90s, 10m, 1h30m")
    total = sum(float(value) * SECONDS[unit] for value, unit in parts)
    if not 1 <= total <= LONGEST:
        raise ConfigError(f"{shown(text)}: a time of {total:.3g} s, allowed: 1s to 366d")
    return total


def duration(seconds: float) -> str:
    """A time for people, to two units: "4 h 40 min", "9 min 30 s", "0.8 s"."""
    if seconds < 10:
        return f"{seconds:.2g} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole < 600 and whole % 60 else "")
    if whole < 172_800:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def size(count: float) -> str:
    """Bytes for people: "31 MB"."""
    for unit, one in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= one:
            return f"{count / one:,.3g} {unit}" if count < 100 * one else f"{count / one:,.0f} {unit}"
    return f"{count:.0f} bytes"
