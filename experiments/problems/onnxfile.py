"""Evaluates a small ONNX file with NumPy alone: the few operations that YAHPO's surrogates are made of.

ONNX Runtime would need the like of this in every peer's environment; this needs nothing, and gives the same to the
rounding of float32 (a test compares them where it is installed).
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

TYPES = {1: np.float32, 6: np.int32, 7: np.int64}
"""ONNX's numbers of element types."""

Operation = Callable[..., Any]


@dataclass(frozen=True)
class Node:
    """One operation: names of what it reads and of what it writes, and its attributes."""

    operation: str
    reads: tuple[str, ...]
    writes: str
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class Graph:
    """Operations in the order in which they can be run, and the arrays that are known before."""

    nodes: tuple[Node, ...]
    constants: Mapping[str, Any]
    output: str

    @classmethod
    def read(cls, path: Path) -> "Graph":
        """The graph of an ONNX file."""
        graph = _first(path.read_bytes(), 7)
        nodes = tuple(_node(content) for field, content in _fields(graph) if field == 1)
        unknown = sorted({node.operation for node in nodes} - set(OPERATIONS) - {"Constant"})
        if unknown:
            raise ValueError(f"{path.name} has operations that are not known here: {', '.join(unknown)}")
        constants = dict(_tensor(content) for field, content in _fields(graph) if field == 5)
        constants |= {node.writes: node.attributes["value"] for node in nodes if node.operation == "Constant"}
        output = _first(_first(graph, 12), 1).decode()
        return cls(tuple(node for node in nodes if node.operation != "Constant"), constants, output)

    def __call__(self, **inputs: Any) -> Any:
        """The output of the graph for its inputs by name."""
        known = {**self.constants, **inputs}
        for node in self.nodes:
            known[node.writes] = OPERATIONS[node.operation](*[known[name] for name in node.reads], **node.attributes)
        return known[self.output]


def _varint(content: bytes, place: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = content[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place


def _fields(content: bytes) -> Iterator[tuple[int, Any]]:
    """Fields of a protocol-buffer message: whole numbers as such, all others as bytes."""
    place = 0
    while place < len(content):
        key, place = _varint(content, place)
        kind = key & 7
        if kind == 0:
            value, place = _varint(content, place)
            yield key >> 3, value
            continue
        if kind == 2:
            length, place = _varint(content, place)
        else:
            length = {1: 8, 5: 4}[kind]
        yield key >> 3, content[place : place + length]
        place += length


def _first(content: bytes, wanted: int) -> Any:
    return next(value for field, value in _fields(content) if field == wanted)


def _tensor(content: bytes) -> tuple[str, Any]:
    fields = list(_fields(content))
    shape = [value for field, value in fields if field == 1]
    values = dict(fields)
    array = np.frombuffer(values.get(9, b""), TYPES[values[2]]).reshape(shape)
    return values.get(8, b"").decode(), array


def _node(content: bytes) -> Node:
    fields = list(_fields(content))
    return Node(
        operation=next(value for field, value in fields if field == 4).decode(),
        reads=tuple(value.decode() for field, value in fields if field == 1),
        writes=next(value for field, value in fields if field == 2).decode(),
        attributes=dict(_attribute(value) for field, value in fields if field == 5),
    )


def _attribute(content: bytes) -> tuple[str, Any]:
    values = dict(_fields(content))
    name = values[1].decode()
    # By its type: a float, a whole number or a tensor.
    if values[20] == 1:
        return name, struct.unpack("<f", values[2])[0]
    return name, _tensor(values[5])[1] if values[20] == 4 else values[3]


def _gemm(a: Any, b: Any, c: Any, *, alpha: float = 1.0, beta: float = 1.0, transB: int = 0) -> Any:  # noqa: N803
    return np.float32(alpha) * (a @ (b.T if transB else b)) + np.float32(beta) * c


def _normalise(x: Any, weight: Any, bias: Any, mean: Any, variance: Any, *, epsilon: float, **_: Any) -> Any:
    return (x - mean) / np.sqrt(variance + np.float32(epsilon)) * weight + bias


def _divide(a: Any, b: Any) -> Any:
    return a // b if np.issubdtype(np.asarray(a).dtype, np.integer) else a / b


def _slice(x: Any, starts: Any, ends: Any, axes: Any) -> Any:
    index = [slice(None)] * x.ndim
    for start, end, axis in zip(starts, ends, axes, strict=True):
        index[axis] = slice(int(start), int(end))
    return x[tuple(index)]


OPERATIONS: dict[str, Operation] = {
    "Add": np.add,
    "BatchNormalization": _normalise,
    "Cast": lambda x, *, to: np.asarray(x, TYPES[to]),
    "Concat": lambda *parts, axis: np.concatenate(parts, axis=axis),
    "Div": _divide,
    "Exp": np.exp,
    "Gather": lambda x, index, *, axis=0: np.take(x, index, axis=axis),
    "Gemm": _gemm,
    "Log": np.log,
    "Mul": np.multiply,
    "Relu": lambda x: np.maximum(x, np.float32(0)),
    "Shape": lambda x: np.array(x.shape, np.int64),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Slice": _slice,
    "Sub": np.subtract,
    "Unsqueeze": lambda x, axes: np.expand_dims(x, tuple(int(axis) for axis in axes)),
}
