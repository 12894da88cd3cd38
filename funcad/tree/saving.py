"""Pytrees in files: `save` and `load`, as npz or JSON, by the ending of the path.

Idea: a file is a manifest (the structure, and of each leaf its path, kind and sha256) and the leaves. Nothing in it is code:
a foreign file can at worst be refused. It is written beside its place, brought to the disk, and then renamed, so that a path
holds the old state or the new one whole.

Trap: files of several processes are renamed one by one. What all hold alike (leaves whose axis is None, such as the count of
steps) is compared when they are read, so that pieces of two saves are refused rather than put together.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from funcad.tree.functions import leaves_with_path, unflatten
from funcad.tree.path_keys import keystr
from funcad.tree.treedef import flatten, flatten_axes

_DAMAGE = (ValueError, KeyError, TypeError, AttributeError, EOFError, OSError, NotImplementedError, zlib.error)  # as read
_FORMAT = "funcad.tree 1"
_NUMBERS = {bool: "bool", int: "int", float: "float", complex: "complex", str: "str"}
_READ: dict[str, Callable[[str], Any]] = {"bool": "True".__eq__, "int": int, "str": str}


def save(path: str | os.PathLike[str], pytree: Any, *, shard: tuple[int, int] | None = None, axes: Any = 0) -> None:
    """Write a tree of arrays, numbers and strings to a file.

    Parameters
    ----------
    path : str or path
        It ends in .npz or .json.
    pytree : any container, or a leaf
        Arrays, numbers and strings in lists, tuples, dicts, named tuples, registered classes.
    shard : pair of ints, optional
        `(i, n)`: this is process i of n, which writes the file `path.i-of-n` with its parts.
    axes : int, None or container of them
        With `shard`: along which axis each leaf is split; None where all processes hold it alike.

    Returns
    -------
    None

    Raises
    ------
    ValueError
        Another ending, or an impossible shard.
    TypeError
        A leaf is no array, number or string.

    Notes
    -----
    Without pickle; all bits are kept. The file appears whole or not at all, and carries checksums. Processes save
    without a word to each other: give each step a path of its own, and keep the last until the next is complete. JAX
    has no counterpart; `np.savez` keeps no structure.

    Examples
    --------
    >>> import tempfile, os, numpy as np, funcad
    >>> folder = tempfile.mkdtemp()
    >>> path = os.path.join(folder, 'state.npz')
    >>> funcad.tree.save(path, {'w': np.arange(3.0), 'step': 7})
    >>> funcad.tree.load(path)
    {'step': 7, 'w': array([0., 1., 2.])}
    >>> funcad.tree.save(path, {'w': np.arange(2.0)}, shard=(0, 2))
    >>> sorted(os.listdir(folder))
    ['state.npz', 'state.npz.0-of-2']

    See also
    --------
    load
    """
    ending = _ending(path)
    keyed = leaves_with_path(pytree)
    _, treedef = flatten(pytree)
    split = [None] * len(keyed)
    if shard is not None:
        _check_shard(shard)
        split = flatten_axes("axes", treedef, axes)
    arrays, entries = [], []
    for (keys, leaf), axis in zip(keyed, split):
        array, kind = _as_array(leaf, keystr(keys))
        if axis is not None:
            if kind != "array" or not -array.ndim <= axis < array.ndim:
                raise ValueError(
                    f"save: the leaf{keystr(keys)} has no axis {axis} to be split along.\nRemedy: axes=None for leaves that "
                    "all processes hold alike."
                )
            axis = int(axis) % array.ndim
        arrays.append(array)
        entries.append({"path": keystr(keys), "kind": kind, "axis": axis, "sha256": _digest(array)})
    place = None if shard is None else [int(i) for i in shard]
    manifest = {"format": _FORMAT, "structure": _structure(pytree), "leaves": entries, "shard": place}
    _write(_file_of(path, shard), _encoded(ending, json.dumps(manifest), arrays))


def load(path: str | os.PathLike[str], like: Any = None, *, shard: tuple[int, int] | None = None) -> Any:
    """The tree that `save` wrote, with equal bits.

    Parameters
    ----------
    path : str or path
        That of `save`, without the number of a process.
    like : any container, optional
        A tree of the same structure. It is needed where there are containers other than lists, tuples, dicts with
        string or int keys, and None: named tuples (states of optimisers) and objects are built as it has them.
    shard : pair of ints, optional
        `(i, n)`: the part of process i of n, whatever number of processes wrote the files, with `shard` too. Parts
        differ by at most one row; the first are the longer ones.

    Returns
    -------
    container, or a leaf
        Files of processes are put together, unless `shard` is given.

    Raises
    ------
    FileNotFoundError
        A file is missing.
    ValueError
        A file is damaged, cut short, of another format or of another save, or the structure is not that of `like`.

    Notes
    -----
    Nothing of the file is run as code. JAX has no counterpart.

    Examples
    --------
    >>> import tempfile, os, numpy as np, funcad
    >>> from funcad import optimize
    >>> path = os.path.join(tempfile.mkdtemp(), 'state.npz')
    >>> state = optimize.sgd(0.1, momentum=0.9).init(np.zeros(2))
    >>> funcad.tree.save(path, state)
    >>> type(funcad.tree.load(path, like=state)) is type(state)
    True
    >>> path = os.path.join(tempfile.mkdtemp(), 'parts.npz')
    >>> funcad.tree.save(path, np.arange(5.0), shard=(0, 1))
    >>> funcad.tree.load(path, shard=(0, 2)), funcad.tree.load(path, shard=(1, 2))
    (array([0., 1., 2.]), array([3., 4.]))

    See also
    --------
    save
    """
    ending = _ending(path)
    if shard is not None:
        _check_shard(shard)
    if os.path.exists(path):
        manifest, arrays = _read(os.fspath(path), ending)
        if shard is not None:
            raise ValueError(
                f"load: {os.fspath(path)} was saved whole, and does not say what to split.\nRemedy: load it without shard=."
            )
    else:
        manifest, arrays = _joined(path, ending)
    entries = manifest["leaves"]
    if shard is not None:
        arrays = [a if e["axis"] is None else _part(a, e["axis"], *shard) for a, e in zip(arrays, entries)]
    leaves = [_leaf(a, e["kind"]) for a, e in zip(arrays, entries)]
    if like is None:
        found = iter(leaves)
        return _rebuilt(manifest["structure"], found, os.fspath(path))
    paths = [keystr(keys) for keys, _ in leaves_with_path(like)]
    if paths != [e["path"] for e in entries]:
        here, there = set(paths), {e["path"] for e in entries}
        raise ValueError(
            f"load: the structure in {os.fspath(path)} is not that of `like`: only in the file {sorted(there - here)[:5]}, "
            f"only in `like` {sorted(here - there)[:5]}."
        )
    return unflatten(flatten(like)[1], leaves)


# ---------------------------------------------------------------- structure and leaves


def _structure(x: Any) -> Any:
    """What JSON can say of the structure: leaves are 0, containers that it has no word for are {"?": name}."""
    if x is None:
        return None
    kind = type(x)
    if kind in (list, tuple):
        return {kind.__name__: [_structure(c) for c in x]}
    if kind is dict and all(type(k) in (str, int) for k in x) and len({type(k) for k in x}) <= 1:
        return {"dict": [[k, _structure(x[k])] for k in sorted(x)]}
    leaves, _ = flatten(x)
    if len(leaves) == 1 and leaves[0] is x:
        return 0
    return {"?": kind.__qualname__}


def _rebuilt(structure: Any, leaves: Any, path: str) -> Any:
    if structure is None:
        return None
    if structure == 0:
        return next(leaves)
    ((kind, parts),) = structure.items()
    if kind == "?":
        raise ValueError(
            f"load: {path} holds a {parts}, which a file cannot make.\nRemedy: load(path, like=a tree of that structure)."
        )
    if kind == "dict":
        return {k: _rebuilt(part, leaves, path) for k, part in parts}
    built = [_rebuilt(part, leaves, path) for part in parts]
    return tuple(built) if kind == "tuple" else built


def _as_array(leaf: Any, path: str) -> tuple[np.ndarray, str]:
    if type(leaf) in _NUMBERS:
        if type(leaf) in (float, complex):
            return np.array(leaf), _NUMBERS[type(leaf)]
        return np.frombuffer(str(leaf).encode(), np.uint8), _NUMBERS[type(leaf)]
    if type(leaf) in (np.ndarray, np.memmap) or issubclass(type(leaf), np.generic):  # others, as masked ones, would lose a part
        array = np.asarray(leaf)
        if array.dtype.kind in "biufcSUmM" and array.dtype.num < 256:  # no records, nor float8 of another library
            return array, "scalar" if issubclass(type(leaf), np.generic) else "array"
    if hasattr(leaf, "aval"):
        raise TypeError(
            f"save: the leaf{path} is a traced {leaf.aval}, which has no value to keep.\n"
            "Remedy: funcad.debug.callback(lambda values: save(path, values), values); or save the results outside."
        )
    dtype = f" of dtype {leaf.dtype}" if hasattr(leaf, "dtype") else ""
    raise TypeError(
        f"save: the leaf{path} is a {type(leaf).__name__}{dtype}; files hold NumPy's arrays of numbers, Python's numbers and "
        "strings."
    )


def _leaf(array: np.ndarray, kind: str) -> Any:
    if kind == "array":
        return array
    if kind == "scalar":
        return array[()]
    if kind in ("float", "complex"):
        return array[()].item()
    return _READ[kind](array.tobytes().decode())


def _digest(array: np.ndarray) -> str:
    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    digest.update(array.tobytes())
    return digest.hexdigest()


# ---------------------------------------------------------------- files


def _ending(path: str | os.PathLike[str]) -> str:
    ending = Path(path).suffix
    if ending not in (".npz", ".json"):
        raise ValueError(f"a tree is saved as .npz or .json, and {os.fspath(path)} ends in neither.")
    return ending


def _check_shard(shard: tuple[int, int]) -> None:
    i, n = shard
    if not 0 <= i < n:
        raise ValueError(f"shard is (i, n) with 0 <= i < n, got {tuple(shard)}.")


def _file_of(path: str | os.PathLike[str], shard: Sequence[int] | None) -> str:
    return os.fspath(path) if shard is None else f"{os.fspath(path)}.{shard[0]}-of-{shard[1]}"


def _encoded(ending: str, manifest: str, arrays: list[np.ndarray]) -> bytes:
    seal = hashlib.sha256(manifest.encode()).hexdigest()
    if ending == ".npz":
        buffer = io.BytesIO()
        texts = [("manifest", manifest), ("sha256", seal)]
        files: dict[str, Any] = {name: np.frombuffer(text.encode(), np.uint8) for name, text in texts}
        files.update({f"leaf_{i}": a for i, a in enumerate(arrays)})
        np.savez(buffer, **files)
        return buffer.getvalue()
    written = [
        {"dtype": a.dtype.str, "shape": a.shape, "base64": base64.b64encode(a.tobytes()).decode()} for a in arrays
    ]
    return json.dumps({"manifest": manifest, "sha256": seal, "arrays": written}).encode()


def _write(path: str, data: bytes) -> None:
    folder = os.path.dirname(path) or "."
    number, beside = tempfile.mkstemp(prefix=os.path.basename(path) + ".", suffix=".part", dir=folder)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


def _read(path: str, ending: str) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Manifest and arrays of one file, with all checksums compared."""
    with open(path, "rb") as file:
        data = file.read()
    try:
        if ending == ".npz":
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                manifest, seal = (archive[k].tobytes().decode() for k in ("manifest", "sha256"))
                arrays = [archive[f"leaf_{i}"] for i in range(len(archive.files) - 2)]
        else:
            found = json.loads(data)
            manifest, seal = found["manifest"], found["sha256"]
            arrays = [
                np.frombuffer(base64.b64decode(a["base64"], validate=True), a["dtype"]).reshape(a["shape"]).copy()
                for a in found["arrays"]
            ]
        if hashlib.sha256(manifest.encode()).hexdigest() != seal:
            raise ValueError("its manifest is not what was written")
        content = json.loads(manifest)
        if content["format"] != _FORMAT:
            raise ValueError(f"its format is {content['format']!r}")
        if [_digest(a) for a in arrays] != [e["sha256"] for e in content["leaves"]]:
            raise ValueError("the leaves are not what was written")
    except (*_DAMAGE, zipfile.BadZipFile) as error:
        raise ValueError(
            f"load: {path} is no whole file of funcad.tree.save: {error}.\nRemedy: it is damaged, cut short or of another "
            "kind; take the state saved before."
        ) from error
    return content, arrays


def _joined(path: str | os.PathLike[str], ending: str) -> tuple[dict[str, Any], list[np.ndarray]]:
    """The files of all processes, put together along the axes that they name."""
    path = Path(path)
    beginning = path.name + "."
    names = [p.name[len(beginning) :] for p in path.parent.iterdir() if p.name.startswith(beginning)]
    counts = sorted({int(n.split("-of-")[1]) for n in names if _is_piece(n)})
    if not counts:
        raise FileNotFoundError(f"load: there is neither {path} nor a file of a process, {path}.0-of-n.")
    if len(counts) > 1:
        raise ValueError(
            f"load: {path} has files of {counts} processes.\nRemedy: delete the older save; give each its own path."
        )
    files = [_file_of(path, (i, counts[0])) for i in range(counts[0])]
    pieces = [_read(file, ending) for file in files]
    first = pieces[0][0]
    arrays = []
    for file, (manifest, _) in zip(files, pieces):
        same = manifest["structure"] == first["structure"] and len(manifest["leaves"]) == len(first["leaves"])
        for a, b in zip(manifest["leaves"], first["leaves"]) if same else ():
            ignored = () if a["axis"] is None else ("sha256",)
            same = same and all(a[k] == b[k] for k in a if k not in ignored)
        if not same or manifest["shard"] != [files.index(file), counts[0]]:
            raise ValueError(
                f"load: {file} is of another save than {files[0]}.\nRemedy: take a save that all processes completed."
            )
    for i, entry in enumerate(first["leaves"]):
        parts = [piece[i] for _, piece in pieces]
        if entry["axis"] is not None and len({p.dtype for p in parts}) > 1:
            raise ValueError(f"load: the dtypes of {entry['path']} differ between the files of {path}.")
        arrays.append(parts[0] if entry["axis"] is None else np.concatenate(parts, entry["axis"]))
    return first, arrays


def _is_piece(name: str) -> bool:
    i, of, n = name.partition("-of-")
    return bool(of) and i.isdecimal() and n.isdecimal()


def _part(array: np.ndarray, axis: int, i: int, n: int) -> np.ndarray:
    return np.array_split(array, n, axis)[i].copy()
