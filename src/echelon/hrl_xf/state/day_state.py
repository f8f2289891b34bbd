"""What an agent knows at the start of a day, as plain records: play makes them, logs hold them (`schema`).

Quantities are pieces, prices are currency per piece, days are absolute unless a name says "ahead".
An offer has one order everywhere. As a tuple it is the outcome of the negotiation itself, (quantity, delivery day, unit
price), with an absolute day; as a row of an array it is (quantity, days ahead, unit price). Nothing else holds offers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

ANSWERS: tuple[Answer, ...] = ("ACCEPT", "REJECT", "END")
ACCEPT, REJECT, END = range(3)

Offer = tuple[int, int, int]  # (quantity, delivery day, unit price)
Bounds = tuple[int, int]  # (smallest, largest), both allowed
Role = Literal["buyer", "seller"]
Answer = Literal["ACCEPT", "REJECT", "END"]


class Issues(NamedTuple):
    """What may be offered on one side today."""

    quantity: Bounds
    time: Bounds
    price: Bounds


class SeenOffer(NamedTuple):
    """An offer a partner made, with the round it was made in."""

    time: int
    quantity: int
    price: int
    round: int
    rounds: int


@dataclass(frozen=True, slots=True)
class OffersSnapshot:
    """Offers partners made during *yesterday's* negotiations: all that a decision at dawn can know."""

    buy: list[SeenOffer]
    """in threads where the agent buys"""
    sell: list[SeenOffer]
    """in threads where the agent sells"""


@dataclass(frozen=True, slots=True)
class Commitments:
    """What is signed and not yet executed, by days ahead (index 0 is today).

    Today's exogenous contract is a commitment like any other and is included at index 0.
    """

    Q_in: list[int]
    Q_out: list[int]
    Payables: list[float]
    Receivables: list[float]

    def __post_init__(self) -> None:
        if not len(self.Q_in) == len(self.Q_out) == len(self.Payables) == len(self.Receivables):
            lengths = {len(self.Q_in), len(self.Q_out), len(self.Payables), len(self.Receivables)}
            raise ValueError(f"commitments must have one length, got {sorted(lengths)}")


@dataclass(frozen=True, slots=True)
class DayState:
    """Everything an agent knows at the start of a day, before any offer of that day exists."""

    current_step: int
    n_steps: int
    balance: float
    initial_balance: float
    score: float
    """balance over initial balance; stock counts nothing"""
    inventory_input: int
    inventory_output: int
    spot_price_in: float
    spot_price_out: float
    trading_prices: list[float]
    n_lines: int
    horizon: int
    """how many days ahead a delivery may be agreed"""
    production_cost: float
    commitments: Commitments
    level: int
    my_input_product: int
    my_output_product: int
    n_products: int
    n_suppliers: int
    n_consumers: int
    needed_supplies: int
    needed_sales: int
    exogenous_input_quantity: int
    exogenous_input_price: float
    """total price of today's exogenous input contract"""
    exogenous_output_quantity: int
    exogenous_output_price: float
    """total price of today's exogenous output contract"""
    shortfall_penalty: float
    storage_cost: float
    disposal_cost: float
    is_bankrupt: bool
    buy_issues: Issues | None
    """None where the agent cannot negotiate on that side"""
    sell_issues: Issues | None
    offers_snapshot: OffersSnapshot

    def __post_init__(self) -> None:
        if self.current_step < 0:
            raise ValueError(f"current_step={self.current_step} must be 0 or more")
