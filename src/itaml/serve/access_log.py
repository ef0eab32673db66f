"""Logs of the service: one JSON object per line, for requests and for everything else."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

FIELDS = "itaml_fields"  # attribute of a record with more values
access = logging.getLogger("itaml.serve.access")


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        values: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            **getattr(record, FIELDS, {}),
        }
        if record.getMessage():
            values["message"] = record.getMessage()
        if record.exc_info:
            values["exception"] = self.formatException(record.exc_info)
        return json.dumps(values, ensure_ascii=True)


def log_request(**fields: Any) -> None:
    """Log a request that was answered."""
    access.info("", extra={FIELDS: fields})


def set_up_logging() -> None:
    """Write all logs of this process to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in ("itaml", "uvicorn"):
        logging.getLogger(name).setLevel(logging.INFO)
