"""`funcad.tree.save` and `load`: equal bits, files that are whole or refused, pieces of several processes."""

import os

import numpy as np
import pytest

from funcad import debug, grad, optimize, tree

ENDINGS = ["npz", "json"]
STATE = {
    "w": np.array([[0.1, -0.0], [np.nan, np.inf]]),
    "none": None,
    "empty": np.zeros((0, 3), np.float32),
    "parts": [np.array(3, np.int8), (True, 10**30, 0.1, -0.0, float("inf"), -float("nan"), 1j, "a\n", "", False)],
    "strided": np.arange(12.0).reshape(3, 4)[::2, ::-1],
    "scalar": np.float32(0.1),
    "others": [np.arange(6.0, dtype=">f4").reshape(2, 3, order="F"), np.array(["é", "b"]), np.array("2020-01-01", "M8[s]")],
}


def same(a, b):
    assert tree.structure(a) == tree.structure(b)
    for x, y in zip(tree.leaves(a), tree.leaves(b)):
        assert type(x) is type(y)
        if type(x) is int:
            assert x == y
            continue
        x, y = np.asarray(x), np.asarray(y)
        assert x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


@pytest.mark.parametrize("ending", ENDINGS)
def test_bits_types_and_structure_come_back(tmp_path, ending):
    path = tmp_path / f"state.{ending}"
    tree.save(path, STATE)
    same(tree.load(path), STATE)
    same(tree.load(path, like=STATE), STATE)
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_restart_continues_with_equal_bits(tmp_path, ending):
    optimizer = optimize.adam(0.1)
    slope = grad(lambda w: ((w["a"] * 3 - 1) ** 2).sum() + (w["b"] ** 4).sum())

    def steps(w, state, n):
        for _ in range(n):
            updates, state = optimizer.update(slope(w), state, w)
            w = optimize.apply_updates(w, updates)
        return w, state

    w = {"a": np.linspace(0.0, 1.0, 5), "b": np.array([0.3, 0.7])}
    halfway = steps(w, optimizer.init(w), 5)
    path = tmp_path / f"state.{ending}"
    tree.save(path, halfway)
    same(steps(*tree.load(path, like=(w, optimizer.init(w))), 5), steps(*halfway, 5))
    with pytest.raises(ValueError, match="like="):
        tree.load(path)


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_damaged_or_truncated_file_is_refused(tmp_path, ending):
    path = tmp_path / f"state.{ending}"
    tree.save(path, {"w": np.arange(4.0), "n": 3})
    data = path.read_bytes()
    for n in (0, 1, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:n])
        with pytest.raises(ValueError, match="no whole file"):
            tree.load(path)
    at = data.index(np.arange(4.0).tobytes()) if ending == "npz" else data.rindex(b'"base64": "') + 12
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    with pytest.raises(ValueError, match="no whole file"):
        tree.load(path)
    path.write_bytes(data)
    same(tree.load(path), {"w": np.arange(4.0), "n": 3})


def test_a_file_with_a_pickle_is_refused(tmp_path):
    path = tmp_path / "state.npz"
    np.savez(path, manifest=np.array([print], object), sha256=np.zeros(1, np.uint8))
    with pytest.raises(ValueError, match="no whole file"):
        tree.load(path)


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "state.npz"
    tree.save(path, {"n": 1})

    def full(number):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        tree.save(path, {"n": 2})
    assert tree.load(path) == {"n": 1} and os.listdir(tmp_path) == ["state.npz"]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("readers", [1, 2, 3, 4])
def test_pieces_are_read_on_another_number_of_processes(tmp_path, ending, readers):
    path, axes = tmp_path / f"state.{ending}", {"x": 0, "y": 1, "step": None}
    whole = {"x": np.arange(14.0).reshape(7, 2), "y": np.arange(10).reshape(2, 5), "step": 4}
    for i in range(3):
        part = {k: np.array_split(whole[k], 3, axes[k])[i] for k in "xy"}
        tree.save(path, {**part, "step": 4}, shard=(i, 3), axes=axes)
    same(tree.load(path), whole)
    parts = [tree.load(path, shard=(i, readers)) for i in range(readers)]
    same({k: np.concatenate([p[k] for p in parts], axes[k]) for k in "xy"}, {k: whole[k] for k in "xy"})
    assert [p["step"] for p in parts] == [4] * readers


def test_pieces_of_two_saves_are_not_put_together(tmp_path):
    path, axes = tmp_path / "state.npz", {"x": 0, "step": None}
    for i, step in ((0, 1), (1, 2)):
        tree.save(path, {"x": np.arange(3.0), "step": step}, shard=(i, 2), axes=axes)
    with pytest.raises(ValueError, match="another save"):
        tree.load(path)
    os.remove(f"{path}.1-of-2")
    with pytest.raises(FileNotFoundError, match="1-of-2"):
        tree.load(path)
    tree.save(path, {"x": np.arange(3.0), "step": 1}, shard=(0, 1), axes=axes)
    with pytest.raises(ValueError, match=r"\[1, 2\] processes"):
        tree.load(path)


def test_what_cannot_be_saved_raises(tmp_path):
    with pytest.raises(ValueError, match="npz or .json"):
        tree.save(tmp_path / "x.pkl", 1)
    with pytest.raises(TypeError, match="object"):
        tree.save(tmp_path / "x.npz", {"a": np.array([None])})
    with pytest.raises(TypeError, match="MaskedArray"):
        tree.save(tmp_path / "x.npz", np.ma.masked_array([1.0, 2.0], [True, False]))
    with pytest.raises(ValueError, match="no axis"):
        tree.save(tmp_path / "x.npz", {"a": 1.0}, shard=(0, 2))
    with pytest.raises(ValueError, match="only in the file"):
        tree.save(tmp_path / "x.npz", {"a": 1.0})
        tree.load(tmp_path / "x.npz", like={"b": 1.0})
    with pytest.raises(FileNotFoundError):
        tree.load(tmp_path / "nothing.npz")
    assert os.listdir(tmp_path) == ["x.npz"]


def test_a_traced_leaf_is_saved_by_a_callback(tmp_path):
    save = lambda values: tree.save(tmp_path / "x.npz", values)
    with pytest.raises(TypeError, match=r"the leaf\['a'\] is a traced float64 array of shape \(3,\)(?s:.*)debug.callback"):
        grad(lambda x: (save({"a": x}), x.sum())[1])(np.ones(3))
    grad(lambda x: (debug.callback(save, {"a": x}), x.sum())[1])(np.ones(3))
    np.testing.assert_array_equal(tree.load(tmp_path / "x.npz", {"a": 0})["a"], np.ones(3))
