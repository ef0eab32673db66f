"""Malicious pickles, written instruction by instruction."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterator
from typing import Any

NAMES = (
    ("os", "system"), ("posix", "system"), ("subprocess", "Popen"), ("builtins", "eval"), ("builtins", "exec"),
    ("builtins", "getattr"), ("__builtin__", "apply"), ("importlib", "import_module"), ("ctypes", "memmove"),
    ("numpy", "load"), ("numpy", "frombuffer"), ("numpy", "memmap"), ("numpy.f2py.crackfortran", "myeval"),
    ("numpy.testing._private.utils", "runstring"), ("torch", "load"), ("torch.storage", "_load_from_bytes"),
    ("functools", "partial"), ("operator", "attrgetter"), ("pickle", "loads"), ("numpy", "ndarray.tofile"),
)  # fmt: skip
CODES = (
    "O",
    "O8",
    "|O",
    "V8",
    "S8",
    "U2",
    "M8[ns]",
    "m8",
    "c16",
    "b1",
    "f16",
    "i3",
    "u0",
    "i-1",
    "x",
    "",
    "u1,u1",
    "?",
)
CODECS = ("zlib", "rot13", "hex", "idna", "unicode_escape", "bz2", "utf8", "LATIN1")
MINUS = b"J\xff\xff\xff\xff"
HUGE = b"\x8a\x08" + struct.pack("<q", 2**62)
TOUCH = b"touch hacked"


def text(value: bytes) -> bytes:
    """Return the instruction that pushes Python 2 text."""
    return pickle.BINSTRING + struct.pack("<i", len(value)) + value


def word(value: str) -> bytes:
    """Return the instruction that pushes text."""
    return pickle.BINUNICODE + struct.pack("<I", len(value.encode())) + value.encode()


def dictionary(value: bytes, key: bytes = b"data") -> bytes:
    """Return a pickle of a dictionary with one value."""
    return b"\x80\x02}" + text(key) + value + b"s."


def dtype(code: bytes, state: bytes | None = None) -> bytes:
    """Return the instructions for a numpy type."""
    plain = b"(K\x03" + text(b"|") + b"NNN" + MINUS + MINUS + b"K\x00t"
    return b"cnumpy\ndtype\n(" + text(code) + b"K\x00K\x01tR" + (plain if state is None else state) + b"b"


def array(
    shape: bytes = b"(K\x04t",
    kind: bytes | None = None,
    content: bytes = b"abcd",
    *,
    version: bytes = b"K\x01",
    order: bytes = b"I00\n",
    made: bytes = b"cnumpy\nndarray\n(K\x00t",
) -> bytes:
    """Return the instructions for a numpy array; with the defaults it is a good one."""
    head = b"cnumpy.core.multiarray\n_reconstruct\n(" + made + text(b"b") + b"tR"
    return head + b"(" + version + shape + (dtype(b"u1") if kind is None else kind) + order + text(content) + b"tb"


def calls() -> Iterator[tuple[str, bytes]]:
    """Yield pickles that name functions, in every way that a pickle can."""
    for module, name in NAMES:
        plain = f"c{module}\n{name}\n".encode()
        stacked = word(module) + word(name) + b"\x93"
        for way, function in (("GLOBAL", plain), ("STACK_GLOBAL", stacked)):
            yield f"{way} {module}.{name}", dictionary(function + b"(" + text(TOUCH) + b"tR")
        yield f"INST {module}.{name}", b"(" + text(TOUCH) + f"i{module}\n{name}\n.".encode()
        yield f"NEWOBJ {module}.{name}", b"\x80\x02" + plain + b"(" + text(TOUCH) + b"t\x81."
        yield f"OBJ {module}.{name}", b"(" + plain + text(TOUCH) + b"o."
        yield f"BUILD on {module}.{name}", b"\x80\x02" + plain + b"}b."
    for codec in CODECS:
        yield f"codec {codec}", dictionary(b"c_codecs\nencode\n(" + word("x") + word(codec) + b"tR")
    for number, opcode in enumerate((b"\x82\x01", b"\x83\x01\x00", b"\x84\x01\x00\x00\x00", b"Pabc\n", b"K\x01Q")):
        yield f"extension or persistent id {number}", b"\x80\x02" + opcode + b"."


def arrays() -> Iterator[tuple[str, bytes]]:
    """Yield pickles of arrays that must not be made."""
    for code in CODES:
        yield f"type {code}", dictionary(array(b"(K\x01t", dtype(code.encode()), b"\x41" * 8))
    shapes = {
        "negative": b"(" + MINUS + b"t", "huge": b"(" + HUGE + b"t", "huge product": b"(" + HUGE + HUGE + b"t",
        "zero and huge": b"(K\x00" + HUGE + HUGE + b"t", "too large": b"(K\x05t", "too small": b"(K\x03t",
        "float": b"(G" + struct.pack(">d", 4.0) + b"t", "true": b"(\x88t", "nested": b"((K\x04tt", "list": b"](K\x04e",
        "none": b"N", "many": b"(" + b"K\x01" * 70 + b"t", "number": b"K\x04",
    }  # fmt: skip
    for name, shape in shapes.items():
        yield f"shape {name}", dictionary(array(shape))
    buffer = text(b"\x41" * 64)
    direct = b"cnumpy\nndarray\n("
    yield "object array over bytes", dictionary(direct + b"(K\x08t" + dtype(b"O8") + buffer + b"tR")
    yield "negative offset", dictionary(direct + b"(M\x00\x10t" + dtype(b"u1") + buffer + b"J\x00\xf0\xff\xfftR")
    yield "negative strides", dictionary(direct + b"(K\x08t" + dtype(b"u1") + buffer + b"K\x00(" + MINUS + b"ttR")
    yield "ndarray of huge shape", dictionary(direct + b"(" + HUGE + b"ttR")
    yield "bytes from nowhere", dictionary(array(content=b""))
    yield "another class", dictionary(array(made=b"cnumpy\ndtype\n(K\x00t"))
    yield "another shape at first", dictionary(array(made=b"cnumpy\nndarray\n(" + HUGE + b"t"))
    for version in (b"K\x00", b"K\x63", b"N", MINUS):
        yield f"version {version!r}", dictionary(array(version=version))
    yield "order text", dictionary(array(order=text(b"C")))
    yield "state twice", dictionary(array() + b"(K\x01(K\x04t" + dtype(b"u1") + b"I00\n" + text(b"abcd") + b"tb")
    fields = b"(K\x03" + text(b"|") + b"N(" + text(b"a") + b"t}" + text(b"a") + b"NsK\x08K\x08K\x00t"
    yield "fields", dictionary(array(kind=dtype(b"u1", fields)))
    yield "byte order", dictionary(array(kind=dtype(b"u1", b"(K\x03" + text(b"!") + b"NNN" + MINUS * 2 + b"K\x00t")))
    yield "itemsize of an object", dictionary(array(kind=dtype(b"u1", b"(K\x03" + text(b"|") + b"NNNK\x40K\x08K\x3ft")))
    yield "a list of arrays", dictionary(b"](" + array() + array() + b"e")
    yield "array without state", dictionary(array()[: array().index(b"(K\x01")])


def structures() -> Iterator[tuple[str, bytes]]:
    """Yield pickles whose structure is the attack: sharing, cycles, depth, sizes, broken instructions."""
    shared = b"](K\x00K\x01eq\x00" + b"".join(
        b"](" + (b"h" + bytes([level])) * 10 + b"eq" + bytes([level + 1]) for level in range(30)
    )
    yield "10^30 shared items", b"\x80\x02}q\xff" + text(b"labels") + shared + b"s."
    yield "a list in itself", dictionary(b"]q\x00h\x00a")
    yield "a dictionary in itself", b"\x80\x02}q\x00" + text(b"data") + b"h\x00s."
    yield "lists in each other", b"\x80\x02}" + text(b"data") + b"]" * 10**5 + b"a" * (10**5 - 1) + b"s."
    yield "tuples in each other", b"\x80\x02}" + text(b"data") + b")" + b"\x85" * 10**5 + b"s."
    yield "two million marks", b"\x80\x02" + b"(" * 2_000_000 + b"."
    yield "two million lists", b"\x80\x02" + b"]" * 2_000_000 + b"."
    yield "harmless: memo at 2^32", dictionary(b"]r\xff\xff\xff\xff")
    yield "harmless: memo by text", dictionary(b"]p" + b"9" * 4000 + b"\n")
    yield "memo that is not there", dictionary(b"j\xff\xff\xff\xff")
    yield "number of 5000 digits", dictionary(b"I" + b"9" * 5000 + b"\n")
    yield "long of 4000 digits", dictionary(b"L" + b"9" * 4000 + b"L\n")
    yield "long of a megabyte", dictionary(b"\x8b" + struct.pack("<i", 10**6) + b"\x7f" * 10**6)
    yield "long of negative size", dictionary(b"\x8b" + struct.pack("<i", -5))
    yield "bytes of 2^62", dictionary(b"\x8e" + struct.pack("<Q", 2**62) + b"x")
    yield "text of 2^63", dictionary(b"\x8d" + struct.pack("<Q", 2**63) + b"x")
    yield "harmless: frame of 2^62", b"\x80\x04\x95" + struct.pack("<Q", 2**62) + b"}."
    yield "harmless: protocol 255", b"\x80\xff}."
    yield "unhashable key", b"\x80\x02}]K\x01s."
    yield "odd items", b"\x80\x02}(K\x01u."
    yield "control characters in a name", b"c\x1b[2J\x07\n" + b"x" * 100_000 + b"\n."
    for opcode in sorted({pickle.__dict__[name] for name in dir(pickle) if name.isupper() and _is_opcode(name)}):
        yield f"{'harmless: ' if opcode == b'}' else ''}only {opcode!r}", opcode + b"."
    good = dictionary(array())
    for cut in range(0, len(good), 7):
        yield f"cut at {cut}", good[:cut]


def _is_opcode(name: str) -> bool:
    value: Any = pickle.__dict__[name]
    return isinstance(value, bytes) and len(value) == 1


def malicious() -> Iterator[tuple[str, bytes]]:
    """Yield all of them, named; those that do no harm when they are read say so."""
    yield from calls()
    yield from arrays()
    yield from structures()
