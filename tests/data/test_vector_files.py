"""Files of vectors: what is read of them, and the one line for each thing that is wrong with one."""

from __future__ import annotations

import io
import random
import zipfile

import numpy as np
import pytest

from headway.data.npz_files import read_headers, read_npz
from headway.data.vector_files import Columns, classes_of, numbers_of, one_target, read_vectors
from headway.data.vectors import digest, load_vector_files
from headway.errors import DataError
from headway.limits import raised
from headway.reliability.binary_files import damage_npz

X = np.arange(24, dtype=np.float32).reshape(3, 4, 2)
TABLE = "id,x,y,label\na,1,2,red\nb,3,4,blue\na,5,6,red\n"


def npz(folder, name="sets.npz", **arrays):
    np.savez(folder / name, **arrays)
    return folder / name


def table(folder, text=TABLE, name="sets.csv"):
    (folder / name).write_text(text)
    return folder / name


def line(call, *arguments, **more):
    with pytest.raises(DataError) as caught:
        call(*arguments, **more)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_npz_has_sets_by_their_lengths(tmp_path):
    found = read_vectors(npz(tmp_path, x=X, lengths=np.array([4, 1, 2]), y=np.array([1, 0, 1])), Columns())
    assert found.features == ("1", "2")
    assert found.lengths.tolist() == [4, 1, 2]
    assert np.array_equal(found.rows, np.concatenate([X[0], X[1, :1], X[2, :2]]))
    assert classes_of(found.targets).tolist() == ["1", "0", "1"]
    assert not found.by_element


def test_padding_of_an_npz_may_be_anything(tmp_path):
    x = X.copy()
    x[1, 1:] = np.nan
    assert np.isfinite(
        read_vectors(npz(tmp_path, x=x, lengths=np.array([4, 1, 4]), y=np.zeros(3)), Columns()).rows
    ).all()


def test_targets_of_elements_lose_their_padding(tmp_path):
    y = np.array([[0, 1, 2, 3], [4, 9, 9, 9], [5, 6, 9, 9]])
    found = read_vectors(npz(tmp_path, x=X, lengths=np.array([4, 1, 2]), y=y), Columns())
    assert found.by_element
    assert found.targets.tolist() == [0, 1, 2, 3, 4, 5, 6]


def test_a_compressed_npz_and_one_by_columns_are_the_same(tmp_path):
    plain = read_vectors(npz(tmp_path, x=X, y=np.zeros(3)), Columns())
    np.savez_compressed(tmp_path / "small.npz", x=np.asfortranarray(X), y=np.zeros(3))
    assert np.array_equal(read_vectors(tmp_path / "small.npz", Columns()).rows, plain.rows)


def test_features_go_by_name(tmp_path):
    path = npz(tmp_path, x=X, y=np.zeros(3), features=np.array(["a", "b"]))
    swapped = read_vectors(path, Columns(features=("b", "a")))
    assert swapped.features == ("b", "a")
    assert np.array_equal(swapped.rows, X.reshape(-1, 2)[:, ::-1])
    assert "no feature 'c'; there are: a, b" in line(read_vectors, path, Columns(features=("a", "c")))


def test_a_table_has_an_element_in_each_row(tmp_path):
    found = one_target(read_vectors(table(tmp_path), Columns()))
    assert found.names == ("a", "b")
    assert found.features == ("x", "y")
    assert found.rows.tolist() == [[1, 2], [5, 6], [3, 4]]
    assert found.lengths.tolist() == [2, 1]
    assert found.targets.tolist() == ["red", "blue"]


def test_columns_of_a_table_can_be_chosen(tmp_path):
    path = table(tmp_path, "swarm\tturn\tnote\tx\ns1\tleft\tof me\t0.5\n", "sets.tsv")
    found = read_vectors(path, Columns(group="swarm", features=("x",), target="turn"))
    assert found.features == ("x",)
    assert found.targets.tolist() == ["left"]
    without = read_vectors(path, Columns(group="swarm", features=("x",), target="missing"), needs_target=False)
    assert without.targets is None


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"y": np.zeros(3)}, "no array x of vectors (sets, elements, features); there are: y"),
        ({"x": X, "y": np.zeros(3), "z": X}, "unknown array 'z', allowed: x, y, lengths, features"),
        ({"x": X[0]}, "x is float32 of shape (4, 2), expected numbers (sets, elements, features)"),
        ({"x": X.astype(str), "y": np.zeros(3)}, "expected numbers (sets, elements, features)"),
        ({"x": X}, "no array y, which has the target of each set"),
        ({"x": X, "y": np.zeros(4)}, "y has shape (4,), expected (3,) or (3, 4)"),
        ({"x": X, "y": np.array([0, np.nan, 1])}, "set 1 has target nan"),
        ({"x": X, "y": np.zeros(3), "lengths": np.array([4, 5, 1])}, "set 1 has length 5, allowed: 1 to 4"),
        ({"x": X, "y": np.zeros(3), "lengths": np.array([4, 0, 1])}, "set 1 has length 0, allowed: 1 to 4"),
        ({"x": X, "y": np.zeros(3), "lengths": np.array([4.0, 1, 1])}, "lengths is float64 of shape (3,)"),
        ({"x": np.where(X == 9, np.nan, X), "y": np.zeros(3)}, "set 1, element 0: feature '2' is nan"),
        ({"x": np.where(X == 9, 1e300, X.astype(float)), "y": np.zeros(3)}, "set 1, element 0: feature '2' is inf"),
        ({"x": X, "y": np.zeros(3), "features": np.array(["a", "a"])}, "expected 2 different names"),
        ({"x": X[:0], "y": np.zeros(0)}, "no sets, expected at least one"),
    ],
)
def test_an_npz_that_is_wrong_gets_one_line(tmp_path, arrays, said):
    assert said in line(read_vectors, npz(tmp_path, **arrays), Columns())


def test_rows_of_unequal_length_get_one_line(tmp_path):
    ragged = np.empty(2, object)
    ragged[:] = [[1.0, 2.0], [3.0]]
    said = line(read_vectors, npz(tmp_path, x=ragged, y=np.zeros(2)), Columns())
    assert "x: holds Python objects, as rows of unequal length become" in said
    assert "pad rows to one length" in said


@pytest.mark.parametrize(
    ("text", "columns", "said"),
    [
        ("", {}, "an empty table"),
        ("id,x,label\na,1,red\na,2\n", {}, "line 3 has 2 columns, expected 3"),
        ("id,x,label\na,nan,red\n", {}, "line 2: x is 'nan', expected a finite number"),
        ("id,x,label\na,inf,red\n", {}, "line 2: x is 'inf', expected a finite number"),
        ("id,x,label\na,1e99,red\n", {}, "line 2: x is '1e99', expected a finite number"),
        ("id,x,label\na,long,red\n", {}, "line 2: x is 'long', expected a number; --data.features COLUMN,COLUMN"),
        ("id,x,label\na,1,\n", {}, "line 2, set 'a': no target in column 'label'"),
        ("id,x,label\n ,1,red\n", {}, "line 2: no set named in column 'id'"),
        ("id,x\na,1\n", {}, "no column 'label'"),
        ("row,x,label\na,1,red\n", {}, "expected one such as set or id that names the set of each row"),
        ("id,x,label\na,1,red\n", {"group": "swarm"}, "no column 'swarm'"),
        ("id,x,label\na,1,red\n", {"features": ("x", "z")}, "no column 'z'"),
        ("id,x,label\na,1,red\n", {"features": ("x", "label")}, "expected none of id and label"),
        ("id,x,x,label\na,1,1,red\n", {}, "expected a different name for each column"),
        ("id,label\na,red\n", {}, "expected at least one of numbers beside id"),
        ("id,x,label\n", {}, "no sets, expected at least one"),
    ],
)
def test_a_table_that_is_wrong_gets_one_line(tmp_path, text, columns, said):
    assert said in line(read_vectors, table(tmp_path, text), Columns(**columns))


def test_a_set_with_two_targets_gets_one_line(tmp_path):
    found = read_vectors(table(tmp_path, TABLE.replace("6,red", "6,blue")), Columns())
    said = line(one_target, found)
    assert "set 'a' has the targets 'red' and 'blue', expected one target a set" in said
    assert "--task.predicts elements" in said


def test_a_target_that_is_no_number_gets_one_line(tmp_path):
    said = line(numbers_of, one_target(read_vectors(table(tmp_path), Columns())))
    assert (
        "set 'a' has the target 'red', expected a finite number; a class is predicted with --task.predicts class"
        in said
    )


def test_a_file_of_another_kind_gets_one_line(tmp_path):
    assert "expected .npz, .csv or .tsv" in line(read_vectors, tmp_path / "sets.txt", Columns())
    (tmp_path / "sets.npz").write_bytes(b"not a zip")
    assert "not a .npz file, or a damaged one" in line(read_vectors, tmp_path / "sets.npz", Columns())
    assert read_headers(tmp_path / "sets.npz") == {}


def test_a_header_that_lies_allocates_nothing(tmp_path):
    """A shape of petabytes in a file of bytes."""
    path, body = npz(tmp_path, x=X), io.BytesIO()
    np.lib.format.write_array(body, X)
    lie = body.getvalue().replace(b"(3, 4, 2), }" + b" " * 20, b"(3, 4, 2000000000000), }" + b" " * 8)
    assert len(lie) == len(body.getvalue())
    assert lie != body.getvalue()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", lie)
    assert "shape (3, 4, 2000000000000) needs" in line(read_npz, path, ("x",))


def test_a_file_that_decompresses_to_too_much_is_refused(tmp_path):
    np.savez_compressed(tmp_path / "bomb.npz", x=np.zeros((1, 50_000_000, 1), np.uint8), y=np.zeros(1))
    with raised({"file-bytes": 10_000_000}):
        assert "--limit file-bytes=N raises it" in line(read_npz, tmp_path / "bomb.npz", ("x", "y"))
    np.savez_compressed(tmp_path / "ratio.npz", x=np.zeros((1, 80_000_000, 1), np.uint8))
    assert "--limit compression-ratio=N raises it" in line(read_npz, tmp_path / "ratio.npz", ("x",))


def test_damage_gives_sets_or_one_line(tmp_path):
    path = npz(tmp_path, x=X, lengths=np.array([4, 1, 2]), y=np.array([1, 0, 1]))
    good, refused = path.read_bytes(), []
    for seed in range(600):  # some headers end within a bracket, for which numpy's parser has an error of its own
        path.write_bytes(damage_npz(good, random.Random(seed)))
        read_headers(path)
        try:
            assert np.isfinite(read_vectors(path, Columns()).rows).all()
        except DataError as error:
            refused.append(str(error))
    assert len(refused) > 200
    assert not any("\n" in said for said in refused)


def test_a_tenth_is_held_out_whatever_the_order_of_classes(tmp_path):
    x, y = np.random.default_rng(0).normal(size=(40, 3, 2)), np.repeat([0, 1], 20)
    data = load_vector_files(npz(tmp_path, x=x, y=y), Columns())
    assert {name: len(sets) for name, sets in data.splits.items()} == {"train": 36, "val": 4}
    assert data.drawn
    assert set(data.splits["train"].names) | set(data.splits["val"].names) == set(map(str, range(40)))
    assert set(data.splits["train"].targets.tolist()) == {0, 1}
    again = load_vector_files(tmp_path / "sets.npz", Columns())
    assert again.contents == data.contents
    whole = load_vector_files(tmp_path / "sets.npz", Columns(), whole=True)
    assert {name: len(sets) for name, sets in whole.splits.items()} == {"test": 40}


def test_a_folder_has_a_file_for_each_split(tmp_path):
    for name in ("train", "valid", "test"):
        table(tmp_path, TABLE, f"{name}.csv")
    table(tmp_path, "id,y,x,label\na,2,1,red\n", "valid.csv")
    data = load_vector_files(tmp_path, Columns())
    assert sorted(data.splits) == ["test", "train", "val"]
    assert data.splits["val"].rows.tolist() == [[1, 2]], "in the order of train's features"
    table(tmp_path, "id,y,z,label\na,2,1,red\n", "test.csv")
    assert "no feature 'x'; train has: x, y" in line(load_vector_files, tmp_path, Columns())
    (tmp_path / "train.csv").unlink()
    assert "no train.npz, train.csv or train.tsv" in line(load_vector_files, tmp_path, Columns())


def test_the_digest_knows_values_sizes_and_targets(tmp_path):
    base = {"x": X, "lengths": np.array([4, 1, 2]), "y": np.array([1, 0, 1])}
    others = ({"y": np.array([1, 1, 1])}, {"x": X + 1}, {"lengths": np.array([1, 4, 2])})
    found = [digest(read_vectors(npz(tmp_path, **{**base, **other}), Columns())) for other in ({}, {}, *others)]
    assert found[0] == found[1]
    assert len(set(found)) == 4


def test_text_beyond_unicode_is_refused_before_numpy_fails_on_it(tmp_path):
    """Found by `headway reliability` (a flipped bit in a name): a SystemError of numpy's."""
    for order in "<>":
        names = np.array(["a", "b"]).astype(f"{order}U1")
        broken = np.frombuffer(b"\x7f" * names.nbytes, names.dtype)
        said = line(read_vectors, npz(tmp_path, x=X, y=np.zeros(3), features=broken), Columns())
        assert "features: text with the code point 0x7f7f7f7f, largest allowed: 0x10ffff" in said
