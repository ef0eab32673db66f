"""Read multipart forms as they arrive: numbers and sizes of parts are limited before the rest is received."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Protocol

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from itaml.serve.api_errors import ApiError

HEADER_BYTES = 8192  # of all headers of a part
FIELD_BYTES = 1024  # of a text field
NAME_CHARACTERS = 255  # of a file name that is kept, for messages alone

Writer = Callable[[bytes], None]


class FormHandler(Protocol):
    """What receives the parts of a form."""

    def file(self, field: str, name: str) -> Writer:
        """Begin a file; return what takes its bytes."""

    def text(self, field: str, value: str) -> None:
        """Take a text field."""


def boundary_of(content_type: str) -> bytes | None:
    """Return the boundary of a multipart form, None if the content is of another type.

    Raises:
        ApiError: it is a multipart form without a boundary.
    """
    kind, options = parse_options_header(content_type)
    if kind != b"multipart/form-data":
        return None
    if not options.get(b"boundary"):
        raise ApiError(400, "the multipart form has no boundary")
    return options[b"boundary"]


async def read_form(stream: AsyncIterator[bytes], boundary: bytes, handler: FormHandler, *, parts: int) -> None:
    """Hand the parts of a form to a handler while they arrive.

    Args:
        stream: the body.
        boundary: between parts.
        handler: what receives them.
        parts: most parts of the form.

    Raises:
        ApiError: the form is broken, or has too many parts.
    """
    form = _Form(handler, parts)
    try:
        parser = MultipartParser(
            boundary,
            {
                "on_part_begin": form.begin,
                "on_header_field": form.header_field,
                "on_header_value": form.header_value,
                "on_header_end": form.header_end,
                "on_headers_finished": form.headers_finished,
                "on_part_data": form.data,
                "on_part_end": form.end,
                "on_end": form.finish,
            },
        )
        async for chunk in stream:
            parser.write(chunk)
        parser.finalize()
    except FormParserError as error:
        raise ApiError(400, f"the multipart form is broken: {' '.join(str(error).split())}") from error
    if not form.finished:
        raise ApiError(400, "the multipart form is broken: it has no end")


@dataclass(eq=False)
class _Form:
    handler: FormHandler
    most: int
    count: int = 0
    finished: bool = False
    size: int = 0  # of the headers of this part, then of its text
    name: bytearray = field(default_factory=bytearray)
    value: bytearray = field(default_factory=bytearray)
    disposition: str = ""
    field_name: str = ""
    writer: Writer | None = None
    content: bytearray = field(default_factory=bytearray)

    def begin(self) -> None:
        self.count += 1
        if self.count > self.most:
            raise ApiError(413, f"the form has more than the limit of {self.most} parts")
        self.size, self.disposition, self.writer = 0, "", None
        for buffer in (self.name, self.value, self.content):
            buffer.clear()

    def header_field(self, data: bytes, start: int, end: int) -> None:
        self._count_header(end - start)
        self.name += data[start:end]

    def header_value(self, data: bytes, start: int, end: int) -> None:
        self._count_header(end - start)
        self.value += data[start:end]

    def header_end(self) -> None:
        if self.name.lower() == b"content-disposition":
            self.disposition = self.value.decode("latin-1")
        self.name.clear()
        self.value.clear()

    def headers_finished(self) -> None:
        kind, options = parse_options_header(self.disposition)
        if kind != b"form-data" or b"name" not in options:
            raise ApiError(400, "a part of the multipart form has no name")
        self.field_name, self.size = _text(options[b"name"]), 0
        if b"filename" in options:
            self.writer = self.handler.file(self.field_name, _text(options[b"filename"])[-NAME_CHARACTERS:])

    def data(self, data: bytes, start: int, end: int) -> None:
        if self.writer is not None:
            self.writer(data[start:end])
            return
        self.size += end - start
        if self.size > FIELD_BYTES:
            raise ApiError(422, f"the field {self.field_name!r:.60} has more than {FIELD_BYTES} bytes")
        self.content += data[start:end]

    def end(self) -> None:
        if self.writer is None:
            try:
                self.handler.text(self.field_name, self.content.decode())
            except UnicodeDecodeError:
                raise ApiError(400, f"the field {self.field_name!r:.60} is not UTF-8 text") from None

    def finish(self) -> None:
        self.finished = True

    def _count_header(self, size: int) -> None:
        self.size += size
        if self.size > HEADER_BYTES:
            raise ApiError(413, f"the headers of a part have more than {HEADER_BYTES} bytes")


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace").replace("\0", "")
