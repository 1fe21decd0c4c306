"""`python -m tools.phrases`: write the generated phrases into the package."""

from __future__ import annotations

from tools.phrases.table import PATH, compressed, table


def main() -> None:
    """Generate, compress and write the table; print its size."""
    text = table()
    PATH.write_bytes(compressed(text))
    print(f"{PATH}: {text.count(chr(10)) - 1} pairs, {PATH.stat().st_size} bytes")


if __name__ == "__main__":
    main()
