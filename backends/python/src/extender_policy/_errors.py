"""The errors of a call and their status codes: the contract's error table."""

from __future__ import annotations

from grpc import StatusCode

from ._limits import STATUS_MESSAGE_BYTES


class CallError(Exception):
    """Why a call is not answered."""

    def __init__(self, code: StatusCode, text: str, detail: str = "") -> None:
        """`detail` is what only the author of the policy gets to see, in a test."""
        super().__init__(text)
        self.code = code
        self.text = text
        self.detail = cut(detail or text, STATUS_MESSAGE_BYTES)

    @property
    def message(self) -> str:
        """The text for a status."""
        return cut(self.text, STATUS_MESSAGE_BYTES)


def invalid(text: str) -> CallError:
    """The request is not one that a gateway sends."""
    return CallError(StatusCode.INVALID_ARGUMENT, text)


def missing(field: str) -> CallError:
    """A field that every request has."""
    return invalid(f"{field} is missing; every request has it")


def failed(text: str) -> CallError:
    """The policy's code has a mistake."""
    return CallError(StatusCode.INTERNAL, text)


def cut(text: str, most: int) -> str:
    """The beginning of the text in at most this many bytes of UTF-8. What UTF-8 cannot express is replaced."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= most:
        return encoded.decode()
    return encoded[:most].decode(errors="ignore")
