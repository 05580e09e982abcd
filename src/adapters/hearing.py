"""What FlashInfer says in its log: there it counts, and names what does not fit."""

import logging
import re

_COUNT = re.compile(r"\[Autotuner\]: (Loaded|Saved) (\d+) configs")
_MISMATCH = re.compile(r"(\w+): saved=.* vs current=")
_MISS = "No tuned config covers"


class Ear(logging.Handler):
    """Hears the messages of one logger, from the last `forget` on."""

    def __init__(self, logger: logging.Logger) -> None:
        super().__init__()
        self.messages: list[str] = []
        logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())

    def forget(self) -> None:
        self.messages.clear()

    def count(self, what: str) -> int | None:
        """How many configs it says that it has "Loaded" or "Saved"; None where it does not."""
        for message in reversed(self.messages):
            found = _COUNT.search(message)
            if found and found[1] == what:
                return int(found[2])
        return None

    @property
    def misses(self) -> int:
        """How many requests it reports as not covered."""
        return sum(_MISS in message for message in self.messages)

    @property
    def mismatch(self) -> tuple[str, str] | None:
        """The first metadata field that it names as different, and the sentence that does so."""
        for message in self.messages:
            found = _MISMATCH.search(message.split("different environment (")[-1])
            if "different environment" in message:
                return (f"_metadata.{found[1]}" if found else "_metadata", message)
        return None
