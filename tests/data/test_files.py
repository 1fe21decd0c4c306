from __future__ import annotations

import gzip
import os
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headway.data import files
from headway.data.files import in_lines, inside, read_bytes, read_chunks, read_lines
from headway.errors import DataError
from headway.limits import raised

BOM = b"\xef\xbb\xbf"
anywhere = settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
awkward = st.text(st.sampled_from("aé\u2028\x0b\x85\r\n\ufeff😀 "), max_size=40)


def write(path, content):
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.fixture(params=["text", "text.gz"])
def path(request, tmp_path):
    return tmp_path / request.param


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (BOM, []),
        (b"\n", [""]),
        (b"a\nb\n", ["a", "b"]),
        (b"a\nb", ["a", "b"]),
        (b"a\n\nb\n\n", ["a", "", "b", ""]),
        (BOM + b"a\r\nb\r\n", ["a", "b"]),
        (b"a\rb\r\r\nc\r", ["a\rb\r", "c\r"]),
        ("a\u2028b\x0bc\x85d\x0ce\x1cf\n".encode(), ["a\u2028b\x0bc\x85d\x0ce\x1cf"]),
        ("a\ufeffb\n\ufeffc".encode(), ["a\ufeffb", "\ufeffc"]),
    ],
)
def test_lines_end_at_newlines_and_nowhere_else(path, content, lines):
    assert list(read_lines(write(path, content))) == lines


@anywhere
@given(text=awkward, size=st.integers(1, 7))
def test_where_the_file_is_cut_into_blocks_does_not_matter(tmp_path, text, size):
    file = write(tmp_path / "text", text.encode())
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "CHUNK", size)
        assert "".join(read_chunks(file)) == plain
        assert "".join(in_lines(read_chunks(file))) == plain
        lines = plain.split("\n")
        assert list(read_lines(file)) == (lines if lines[-1] else lines[:-1])


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"ok\nab\xffc\n", "line 2, byte 3: invalid UTF-8 (0xFF); if it is another encoding, convert the file"),
        (b"\xff", "line 1, byte 1: invalid UTF-8 (0xFF)"),
        (b"ok\n\xc3", "line 2, byte 1: invalid UTF-8 (0xC3)"),
        (BOM + b"a\xed\xa0\x80", "line 1, byte 5: invalid UTF-8 (0xED)"),
        (b"ok\nok\na\0b\n", "line 3, byte 2: a NUL byte (0x00); pass --errors replace to continue"),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 1 << 20])
def test_bad_bytes_are_named_by_file_line_and_byte(path, content, place, size, monkeypatch):
    monkeypatch.setattr(files, "CHUNK", size)
    with pytest.raises(DataError) as caught:
        list(read_lines(write(path, content)))
    assert str(caught.value).startswith(f"{path}: {place}")
    replaced = "\n".join(read_lines(path, errors="replace"))
    assert "\ufffd" in replaced
    assert "\0" not in replaced


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
@pytest.mark.parametrize("errors", ["strict", "replace"])
def test_utf_16_is_named_and_never_replaced(path, encoding, errors):
    """A text that Notepad or Excel saved as Unicode was read as U+FFFD and NUL with `--errors replace`."""
    content = "\ufeff" * (encoding == "utf-16-be") + "text,label\ncaf\u00e9,good\n"
    with pytest.raises(DataError, match="UTF-16 text, as Windows programs write it, expected UTF-8; save it as UTF-8"):
        list(read_chunks(write(path, content.encode(encoding)), errors=errors))


def test_a_line_of_a_million_characters(path):
    line = "é" * 10**6
    assert list(read_lines(write(path, f"a\n{line}\nb".encode()))) == ["a", line, "b"]


def test_a_line_without_end_stops_before_it_fills_the_memory(tmp_path):
    bomb = write(tmp_path / "bomb.gz", b"ok\n" + b"a" * (8 << 20))
    message = r"bomb\.gz: line 2, at least: .* characters, allowed: up to 3,145,728 \(--limit line=N raises it\)"
    with raised({"line": 3 << 20}), pytest.raises(DataError, match=message):
        list(read_lines(bomb))
    assert sum(map(len, read_chunks(bomb))) == (8 << 20) + 3


def test_a_gzip_that_becomes_far_more_than_it_is_stops(tmp_path, monkeypatch):
    """D6: what a compressed file becomes was not limited."""
    monkeypatch.setattr(files, "ANY_RATIO", 4 << 20)
    bomb = tmp_path / "bomb.gz"
    bomb.write_bytes(gzip.compress(bytes(1 << 20), 9) * 10)
    message = r"bomb\.gz: decompressed: .* times its size, allowed: up to 100 \(--limit compression-ratio=N raises it\)"
    with pytest.raises(DataError, match=message):
        sum(map(len, read_chunks(bomb, errors="replace")))
    with raised({"compression-ratio": 2000}):
        assert sum(map(len, read_chunks(bomb, errors="replace"))) == 10 << 20
        with raised({"decompressed-bytes": 7 << 20}), pytest.raises(DataError, match="--limit decompressed-bytes=N"):
            sum(map(len, read_chunks(bomb, errors="replace")))


def test_a_file_that_is_read_as_a_whole_has_a_limit(path):
    write(path, b"a" * 3000)
    assert len(read_bytes(path)) == 3000
    with (
        raised({"file-bytes": 2000}),
        pytest.raises(DataError, match=r"3,000 bytes, allowed: up to 2,000 .*file-bytes"),
    ):
        read_bytes(path)


def test_a_long_line_and_many_empty_ones_are_streamed(tmp_path):
    """Memory does not grow with the length of a line that is read in chunks, nor with the number of lines."""
    (tmp_path / "long.txt").write_bytes(b"a" * (40 << 20))
    (tmp_path / "empty.txt").write_bytes(b"\n" * (2 << 20))
    tracemalloc.start()
    try:
        assert sum(len(chunk) for chunk in in_lines(read_chunks(tmp_path / "long.txt"))) == 40 << 20
        assert sum(1 for _ in read_lines(tmp_path / "empty.txt")) == 2 << 20
        assert tracemalloc.get_traced_memory()[1] < 35 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("a.png", True), ("sub/a.png", True), ("missing.png", True), ("inner", True), ("Ünï ¢ödé.png", True),
        ("/etc/passwd", False), ("../a.png", False), ("sub/../a.png", False), ("..", False), (".", False), ("", False),
        ("out", False), ("outside/b.png", False), ("loop", True), ("a\0", False), ("a" * 300, False),
        ("sub/" * 2000 + "a", False),
    ],
)  # fmt: skip
def test_a_name_from_a_file_stays_in_the_folder(tmp_path, name, allowed):
    root = tmp_path / "data"
    (root / "sub").mkdir(parents=True)
    (root / "a.png").write_bytes(b"")
    (root / "sub" / "a.png").write_bytes(b"")
    (root / "inner").symlink_to("sub/a.png")
    (root / "out").symlink_to(tmp_path)
    (root / "outside").symlink_to("/etc")
    (root / "loop").symlink_to("loop")
    if allowed:
        assert inside(root, name, "x.json: images[3]") == root / name
    else:
        with pytest.raises(DataError, match=r"^x\.json: images\[3\]: .*(leads out of|cannot be a file name)") as caught:
            inside(root, name, "x.json: images[3]")
        assert str(caught.value).isprintable()


def test_chunks_end_with_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "CHUNK", 16)
    file = write(tmp_path / "text", b"one two\nthree\n" * 20 + b"x" * 40 + b"\nend")
    chunks = list(in_lines(read_chunks(file)))
    assert all(len(chunk) <= 32 for chunk in chunks)
    assert [chunk[-1] for chunk in chunks[:15]] == ["\n"] * 15


def no_file(folder):
    return folder / "missing", "missing: no such file"


def a_folder(folder):
    return folder, "a folder, expected a file"


def a_pipe(folder):
    os.mkfifo(folder / "pipe")
    return folder / "pipe", "pipe: not a regular file"


def not_a_gzip(folder):
    return write(folder / "plain", b"hello").rename(folder / "plain.gz"), "damaged gzip"


def truncated_gzip(folder):
    whole = gzip.compress(os.urandom(5000))
    (folder / "half.gz").write_bytes(whole[: len(whole) // 2])
    return folder / "half.gz", "half.gz: a truncated or damaged gzip"


def flipped_gzip(folder):
    whole = bytearray(gzip.compress(b"hello world\n" * 500))
    whole[20] ^= 255
    (folder / "bits.gz").write_bytes(whole)
    return folder / "bits.gz", "damaged gzip"


def impossible_name(folder):
    return folder / "a\0b", "cannot be read"


def long_name(folder):
    return folder / ("a" * 5000), "cannot be read"


@pytest.mark.parametrize(
    "make",
    [no_file, a_folder, a_pipe, not_a_gzip, truncated_gzip, flipped_gzip, impossible_name, long_name],
)
def test_what_cannot_be_read_gets_one_line(tmp_path, make):
    path, message = make(tmp_path)
    with pytest.raises(DataError) as caught:
        list(read_lines(path, errors="replace"))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@anywhere
@given(content=st.binary(max_size=200), zipped=st.booleans())
def test_any_bytes_are_read_or_refused_in_one_line(tmp_path, content, zipped):
    path = tmp_path / ("data.gz" if zipped else "data")
    path.write_bytes(content)
    for errors in ("strict", "replace"):
        said = path.name
        try:
            lines = list(read_lines(path, errors=errors))
            assert not any("\n" in line or "\0" in line for line in lines)
        except DataError as error:
            said = str(error)
        assert path.name in said
        assert "\n" not in said
