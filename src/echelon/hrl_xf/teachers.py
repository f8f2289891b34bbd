"""From whom the layers learn: from the agent of the logs, or from our rules asked about the same moments.

A log tells what was answered after reservation: where the expert was held back it looks as if it had wished less, and a
network that learnt it is held back once more in play. The rules can be asked for the wish itself. They look at nothing
but a layer's own inputs, so any agent's logs will do: each is only a set of moments.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from echelon.hrl_xf.day_batch import Ints
from echelon.hrl_xf.l2_manager import HeuristicManager
from echelon.hrl_xf.l3_executor import HeuristicExecutor
from echelon.hrl_xf.l3_situation import Situation
from echelon.hrl_xf.samples import MacroDataset, MicroBatch
from echelon.hrl_xf.tournament_data import Teacher


def goals_to_learn(days: MacroDataset, at: Ints, logged: NDArray[np.float32]) -> NDArray[np.float32]:
    """What L2 is to say of these days: the goals `logged`, or the rules'.  # (N, 16)"""
    if days.data.teacher == "logs":
        return logged
    return HeuristicManager(days.data.horizon).goals_of_days(days.data.tables.days(days.rows[at]))


def answers_to_learn(teacher: Teacher, batch: MicroBatch, situation: Situation) -> tuple[Tensor, Tensor]:
    """What L3 is to answer: op (N,), and quantity, unit price, days ahead (N, 3; means nothing unless REJECT)."""
    if teacher == "rules":
        wished = HeuristicExecutor().act(None, situation)
        return wished.op, wished.offer
    sent = batch.offer_base[:, :2] + np.stack([batch.delta_q, batch.delta_p], axis=-1)
    return torch.as_tensor(batch.op), torch.as_tensor(np.concatenate([sent, batch.time_label[:, None]], axis=1))
