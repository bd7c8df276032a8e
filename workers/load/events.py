"""Server-sent events out of a stream that TCP cuts anywhere."""

from __future__ import annotations


class EventReader:
    """Collects bytes and gives back the data of each event that is complete.

    Lines end in LF or CRLF; several `data:` lines of one event are joined by LF; comments and other fields are skipped.
    """

    __slots__ = ("_data", "_tail")

    def __init__(self) -> None:
        self._tail = b""
        self._data: list[bytes] = []

    def feed(self, received: bytes) -> list[bytes]:
        """The events completed by these bytes, oldest first."""
        lines = (self._tail + received).split(b"\n")
        self._tail = lines.pop()
        events = []
        for line in lines:
            if line[:5] == b"data:":
                self._data.append(line[5:].strip())
            elif self._data and line in {b"", b"\r"}:
                events.append(b"\n".join(self._data))
                self._data = []
        return events

    def close(self) -> list[bytes]:
        """The event that the server left without its closing blank line, if there is one."""
        return self.feed(b"\n\n")
