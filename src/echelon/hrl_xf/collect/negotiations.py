"""negotiations.csv of a collection: a line for each negotiation that a tracked agent took part in, from the logs."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from echelon.hrl_xf.collect.world import WorldResult
from echelon.hrl_xf.recording.log_files import LOGS, read_log
from echelon.hrl_xf.state.schema import AgentLog, NegotiationFailureEntry, NegotiationSuccessEntry
from echelon.runtime.files import write_atomic

FILE = "negotiations.csv"
COLUMNS = (
    "world", "day", "id", "seller", "buyer", "ended_at", "failed", "timedout", "quantity", "delivery_time",
    "unit_price",
)  # fmt: skip
Row = tuple[str | int | None, ...]


def rows_of(log: AgentLog) -> Iterator[Row]:
    """The negotiations of a log in the order in which they ended; `ended_at` is the round."""
    for entry in log.entries:
        if isinstance(entry, NegotiationSuccessEntry):
            quantity, time, price = entry.data.agreement
            ending: Row = (0, 0, quantity, time, price)
        elif isinstance(entry, NegotiationFailureEntry):
            ending = (1, int(entry.data.timedout), None, None, None)
        else:
            continue
        seller, buyer = entry.data.partner, log.agent_id
        if entry.data.role == "seller":
            seller, buyer = buyer, seller
        yield (log.world_id, entry.day, entry.data.mechanism_id, seller, buyer, entry.data.round, *ending)


def write_negotiations(output_dir: Path, results: Sequence[WorldResult]) -> int:
    """Write the table; how many negotiations it has. One that both sides have recorded is one line."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    count = 0
    for result in results:
        known: dict[str | int | None, Row] = {}
        for name in result.log_files:
            for row in rows_of(read_log(output_dir / LOGS, name)[0]):
                known.setdefault(row[2], row)
        writer.writerows(known.values())
        count += len(known)
    write_atomic(output_dir / FILE, text.getvalue().encode())
    return count
