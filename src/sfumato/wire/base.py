"""What every record that travels has: JSON, parsing and a JSON schema, all of which follow from its declaration."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias

import msgspec
from msgspec import Meta, Struct

from sfumato.accounting.charges import AMOUNT, read_amount

if TYPE_CHECKING:
    from sfumato.show import TextTable

Cell: TypeAlias = Annotated[Any, Meta(extra_json_schema={"type": ["string", "number", "boolean", "null"]})]
"""A value of a row: text, a number, true or false, or null; days and moments are text in JSON."""


class Record(Struct, frozen=True):
    """A value that may leave, with one serial form: that of the HTTP interface."""

    def to_dict(self) -> dict[str, Any]:
        """The serial form as plain dictionaries and lists."""
        plain: dict[str, Any] = msgspec.to_builtins(self, enc_hook=_encode)
        return plain

    def to_json(self) -> bytes:
        """The serial form as JSON."""
        return _ENCODER.encode(self)

    @classmethod
    def from_dict(cls, serial: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`. A serial form that does not fit is a ValueError."""
        _decoder(cls)
        return msgspec.convert(serial, cls, dec_hook=_decode)

    @classmethod
    def from_json(cls, text: bytes | str) -> Self:
        """The inverse of `to_json`."""
        record: Self = _decoder(cls).decode(text)
        return record

    @classmethod
    def from_attributes(cls, value: object) -> Self:
        """The record of a value that has the same attributes."""
        _decoder(cls)
        return msgspec.convert(value, cls, dec_hook=_decode, from_attributes=True)


class DrawnRecord(Record, frozen=True):
    """A record that draws itself as a table: in a notebook, and where it is printed."""

    def grid(self) -> TextTable:
        """The record as a table of text."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return self.grid().html()

    def __str__(self) -> str:
        return self.grid().text()


def to_json(value: Any) -> bytes:
    """JSON of records, or of plain values with records in them."""
    return _ENCODER.encode(value)


def schemas(records: Iterable[type[Struct]]) -> dict[str, Any]:
    """The JSON schemas of records, and of all that they hold, by name. References go to OpenAPI's components."""
    _, components = msgspec.json.schema_components(
        records, schema_hook=_schema, ref_template="#/components/schemas/{name}"
    )
    whole = {each.__name__: each for each in _subclasses(Record) if not each.__struct_config__.omit_defaults}
    for name, schema in components.items():
        schema.pop("title", None)
        schema["description"] = inspect.cleandoc(schema.get("description", "")).partition("\n\n")[0].replace("\n", " ")
        if schema.get("type") == "object":
            schema["additionalProperties"] = False
        for field in schema.get("properties", {}).values():
            field.pop("default", None)  # it says how Python fills a field in, not what travels
        if name in whole:
            always = [each for each in msgspec.structs.fields(whole[name]) if each.default is not msgspec.UNSET]
            schema["required"] = [each.encode_name for each in always]
    return components


def _subclasses(record: type[Record]) -> Iterator[type[Record]]:
    for each in record.__subclasses__():
        yield each
        yield from _subclasses(each)


def _encode(value: object) -> Any:
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(f"{type(value).__name__} does not travel")


def _decode(kind: type, value: Any) -> Any:
    if kind is Fraction:
        return value if isinstance(value, Fraction) else read_amount("amount", value)
    raise NotImplementedError(f"{kind.__name__} does not travel")


def _schema(kind: type) -> dict[str, Any]:
    if kind is Fraction:
        return {"type": "string", "pattern": f"^{AMOUNT}$", "description": "An exact number."}
    raise NotImplementedError(f"{kind.__name__} does not travel")


_ENCODER = msgspec.json.Encoder(enc_hook=_encode)


_FIRST_USE = threading.Lock()


@cache
def _decoder(cls: type[Any]) -> msgspec.json.Decoder[Any]:
    """The decoder of a record. It has to be made before anything is converted to the record.

    msgspec collects the fields of a class at its first use, and a second thread that uses a class meanwhile ends the
    process (SIGSEGV). So classes are used for the first time here, by one thread at a time.
    """
    with _FIRST_USE:
        return msgspec.json.Decoder(cls, dec_hook=_decode)
