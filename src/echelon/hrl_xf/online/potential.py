"""What a factory will earn from what is signed already, if it signs nothing more.

The game's own counting (spec §4), day by day ahead, with stock I, arrivals A, promised sales S and L lines:

    made   = min(I + A, L, S)
    earned = receivables · made / S − payables − cost · made − penalty · (S − made) − storage · (I + A − made)
    I      = I + max(0, A − made)

Its change at a deal is what the deal itself earns or costs; what the deal makes impossible or possible later is left to
the critic, which learns the rest. With γ = 1 such a term in the value changes no optimum. Where a day ships less than
it promised, its receivables count in proportion; `learning.day_books` has the books of one day contract by contract.
"""

from __future__ import annotations

import numpy as np

from echelon.hrl_xf.state.day_batch import DayBatch
from echelon.runtime.arrays import Floats


def signed_profit(days: DayBatch, costs: Floats) -> Floats:
    """Profit of what is signed, over the initial balance.  # (N,)

    `costs` (N, 3): shortfall penalty, storage, disposal, per unit of trading price. Days beyond the planning horizon
    only store what is left.
    """
    shortfall, storage, disposal = np.asarray(costs, np.float64).T
    penalty, keep = shortfall * days.spot_price_out, (storage + disposal) * days.spot_price_in
    left = days.n_steps - days.current_step
    stock, total = days.inventory_input.copy(), np.zeros(len(days))
    for k in range(days.H + 1):
        counts = k < left
        arrivals, promised = days.Q_in[:, k], days.Q_out[:, k]
        material = stock + arrivals
        made = np.minimum(np.minimum(material, days.n_lines), promised)
        paid = np.divide(days.Receivables[:, k] * made, promised, out=np.zeros(len(days)), where=promised > 0)
        earned = paid - days.Payables[:, k] - days.production_cost * made
        earned -= penalty * (promised - made) + keep * (material - made)
        total += np.where(counts, earned, 0.0)
        stock = np.where(counts, stock + np.maximum(0.0, arrivals - made), stock)
    total -= np.maximum(left - (days.H + 1), 0.0) * keep * stock
    profit: Floats = total / np.maximum(days.initial_balance, 1e-6)
    return profit
