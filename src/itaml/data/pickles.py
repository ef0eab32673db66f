"""Read the pickles that old data sets come in, without letting them run anything or forge memory.

A pickle is a program for a stack machine: it can name functions and have them called, and numpy's own functions trust
what they are given (an `object` array over chosen bytes is a set of forged pointers). So Python's unpickler is not used
at all. `_Machine` runs the few instructions that a data set needs and nothing else; arrays are described by the inert
records of `pickled`, and made by `numpy.frombuffer` after their type, shape and length have been checked.

| limit | value |
|---|---|
| instructions | `MAX_STEPS`; each makes at most one small object, so memory is bounded too |
| result | a dictionary from text to numbers, text, arrays and flat lists of numbers or text |
| arrays | integers and floats of 1 to 8 bytes, in at most `MAX_DIMENSIONS` dimensions, of as many bytes as they need |
| integers | 64 bits |
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from typing import Any

from itaml.data.pickled import RefusedError, as_text, build, called, named, plain, short
from itaml.errors import DataError

MAX_STEPS = 1_000_000  # the largest file of CIFAR needs 0.2 million

_MARK = object()
_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_INTEGERS = {"INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4"}
_TEXTS = {"UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"}
_OLD_BYTES = {"STRING", "BINSTRING", "SHORT_BINSTRING"}  # Python 2's text, which is read as bytes
_LITERALS = {"FLOAT", "BINFLOAT", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", *_TEXTS}
_PUTS, _GETS = {"PUT", "BINPUT", "LONG_BINPUT"}, {"GET", "BINGET", "LONG_BINGET"}
_EMPTY: dict[str, Callable[[], Any]] = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_TUPLE": tuple}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class _Machine:
    """A stack machine for the instructions of a pickle that holds containers, numbers, text and arrays."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, data: bytes) -> Any:
        """Run the pickle and return what it leaves."""
        for step, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if step >= MAX_STEPS:
                raise RefusedError(f"it has more than {MAX_STEPS} instructions")
            if opcode.name == "STOP":
                return self.pop()
            if not self.push_literal(opcode.name, argument):
                self.act(opcode.name, argument)
        raise RefusedError("it has no end")

    def push_literal(self, name: str, argument: Any) -> bool:
        """Push the value that an instruction carries, if it is of that kind."""
        if name in _INTEGERS:
            self.stack.append(_integer(argument))
        elif name in _LITERALS:
            self.stack.append(argument)
        elif name in _OLD_BYTES:
            self.stack.append(argument.encode("latin1"))
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            self.stack.append(_EMPTY[name]())
        else:
            return False
        return True

    def act(self, name: str, argument: Any) -> None:
        """Carry out an instruction that works on the stack."""
        if name in _PUTS:
            self.memo[argument] = self.top()
        elif name in _GETS:
            self.stack.append(self.memo[argument])
        elif name == "GLOBAL":
            self.stack.append(named(*argument.split(" ", 1)))
        elif name in _TUPLES:
            self.stack.append(tuple(reversed([self.pop() for _ in range(_TUPLES[name])])))
        elif name not in ("PROTO", "FRAME"):
            if name not in _ACTIONS:
                raise RefusedError(f"it has an instruction {name}, which no data set needs")
            _ACTIONS[name](self)

    def top(self) -> Any:
        if not self.stack or self.stack[-1] is _MARK:
            raise RefusedError("it takes a value where there is none")
        return self.stack[-1]

    def pop(self) -> Any:
        value = self.top()
        self.stack.pop()
        return value

    def pop_to_mark(self) -> list[Any]:
        items = []
        while self.stack and self.stack[-1] is not _MARK:
            items.append(self.stack.pop())
        if not self.stack:
            raise RefusedError("it takes values where there are none")
        self.stack.pop()
        return items[::-1]

    def mark(self) -> None:
        self.stack.append(_MARK)

    def memoize(self) -> None:
        self.memo[len(self.memo)] = self.top()

    def extend(self, items: list[Any]) -> None:
        _kind(self.top(), list).extend(items)

    def fill(self, items: list[Any]) -> None:
        target = _kind(self.top(), dict)
        if len(items) % 2:
            raise RefusedError("it has a key without a value")
        target.update({as_text(key): value for key, value in zip(items[::2], items[1::2], strict=True)})

    def make(self, kind: type, items: list[Any]) -> None:
        self.stack.append(kind() if kind is dict else kind(items))
        if kind is dict:
            self.fill(items)

    def reduce(self) -> None:
        arguments, function = _kind(self.pop(), tuple), self.pop()
        self.stack.append(called(function, arguments))

    def build(self) -> None:
        state = _kind(self.pop(), tuple)
        build(self.top(), state)

    def stack_global(self) -> None:
        name, module = self.pop(), self.pop()
        self.stack.append(named(as_text(module), as_text(name)))


_ACTIONS: dict[str, Callable[[_Machine], None]] = {
    "MARK": _Machine.mark,
    "MEMOIZE": _Machine.memoize,
    "APPEND": lambda machine: machine.extend([machine.pop()]),
    "APPENDS": lambda machine: machine.extend(machine.pop_to_mark()),
    "SETITEM": lambda machine: machine.fill([machine.pop(), machine.pop()][::-1]),
    "SETITEMS": lambda machine: machine.fill(machine.pop_to_mark()),
    "LIST": lambda machine: machine.make(list, machine.pop_to_mark()),
    "TUPLE": lambda machine: machine.make(tuple, machine.pop_to_mark()),
    "DICT": lambda machine: machine.make(dict, machine.pop_to_mark()),
    "REDUCE": _Machine.reduce,
    "BUILD": _Machine.build,
    "STACK_GLOBAL": _Machine.stack_global,
}


def read_pickle(data: bytes, *, source: str) -> dict[str, Any]:
    """Return the dictionary in a pickle of numbers, text, arrays and flat lists of them; `source` is named in errors.

    Text of Python 2 comes back as bytes. Arrays are read-only.

    Raises:
        DataError: the pickle is broken, is no dictionary, or asks for anything else.
    """
    try:
        content = _Machine().run(data)
        if not isinstance(content, dict):
            raise DataError(f"{source} should hold a dictionary, not a {type(content).__name__.strip('_').lower()}")
        return {key: plain(value) for key, value in content.items()}
    except RefusedError as error:
        raise DataError(f"{source} is not read: {error}; a data set holds arrays, lists and names only") from None
    except (ValueError, KeyError, TypeError, OverflowError) as error:  # what broken instructions raise in pickletools
        raise DataError(f"{source} is a broken pickle: {short(f'{type(error).__name__}: {error}')}") from error


def _integer(value: Any) -> int | bool:
    if not -(2**63) <= value < 2**63:
        raise RefusedError("it holds a number of more than 64 bits")
    return bool(value) if isinstance(value, bool) else int(value)


def _kind(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise RefusedError(f"it has no {kind.__name__} where one is needed")
    return value
