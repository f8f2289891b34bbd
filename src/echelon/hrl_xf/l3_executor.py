"""L3: the round's action, as distributions over residuals to L1's baseline (spec §7).

    op          logits of a head + a prior given by L1's own answer
    days ahead  masked by what is legal, a prior on the baseline's day
    quantity    given the day: baseline + Δq, −30..30 pieces
    price       given day and quantity: baseline + Δp, −20..20 of currency

All heads begin at zero, so an untrained L3 answers exactly as L1 does. The masks of `l3_situation` leave only legal
choices: the action that was drawn is the action that is played, and its log-probability is right.

Mode "direct" (scheme F) has no baseline and no prior: pieces from 1, prices from the bottom of the issue.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from echelon.hrl_xf.devices import on_device
from echelon.hrl_xf.l1_safety import ACCEPT, END, REJECT
from echelon.hrl_xf.l3_heads import P_SIZE, PIECES, PRIOR, PRIOR_SCALE, Q_SIZE, RATIOS, SHARES, Heads, L3Inputs
from echelon.hrl_xf.l3_history import HistoryCache, HistoryTrunk
from echelon.hrl_xf.l3_inference import PlayHeads
from echelon.hrl_xf.l3_situation import CONTEXT, Mode, Situation
from echelon.hrl_xf.layer_arrays import MadeOnce
from echelon.hrl_xf.layer_files import Layer, load_layer
from echelon.hrl_xf.thread_tables import DELTA_P, DELTA_Q
from echelon.onpolicy.distributions import MaskedCategorical, Parts, Product

View = Literal["all", "context", "last_token"]
"""What the network looks at; the second and third are controls."""


@dataclass(frozen=True)
class L3Actions:
    """What was chosen at N decisions."""

    op: Tensor  # (N,) ACCEPT, REJECT, END
    offer: Tensor  # (N, 3) quantity, unit price, days ahead; zeros unless REJECT
    parts: Parts
    """as stored for learning: op, day, dq, dp"""
    log_prob: Tensor  # (N,)
    op_log_probs: Tensor | None = None  # (N, 3) of ACCEPT, REJECT, END; None where nothing was weighed


class TemporalDecisionTransformer(Layer):
    """History trunk, context fused at the read-out, four heads.

    Validation stops improving at 46,000 to 112,000 parameters (`benchmarks/size_curve.py`, docs/results.md): 6,000 /
    14,000 / 46,000 / 112,000 / 284,000 gave a loss of 2.10 / 2.08 / 1.96 / 1.95 / 2.00.
    """

    unnamed: ClassVar[Mapping[str, Any]] = {"shares": False}

    def __init__(
        self,
        horizon: int = 40,
        mode: Mode = "residual",
        width: int = 48,
        heads: int = 4,
        layers: int = 2,
        hidden: int = 128,
        max_tokens: int = 48,
        view: View = "all",
        shares: bool = True,
    ) -> None:
        """`shares`: a quantity is also scored by how it compares with the thread's share of what may be traded."""
        super().__init__()
        if min(horizon, width, heads, layers, hidden, max_tokens) < 1 or width % heads:
            raise ValueError(f"sizes must be positive and {width=} a multiple of {heads=}")
        if mode not in ("residual", "direct") or view not in ("all", "context", "last_token"):
            raise ValueError(f"{mode=} must be residual or direct, {view=} all, context or last_token")
        self.options = {
            "horizon": horizon, "mode": mode, "width": width, "heads": heads, "layers": layers, "hidden": hidden,
            "max_tokens": max_tokens, "view": view, "shares": shares,
        }  # fmt: skip
        self.horizon, self.mode, self.view, self.shares = horizon, mode, view, shares
        self.trunk = HistoryTrunk(width, heads, layers, max_tokens)
        self.fuse = nn.Linear(width + CONTEXT, hidden)
        self.mix = nn.Linear(hidden, hidden)
        self.op, self.day, self.day_match = nn.Linear(hidden, 3), nn.Linear(hidden, horizon + 1), nn.Linear(hidden, 2)
        self.q_hidden, self.p_hidden = nn.Linear(hidden, hidden // 2), nn.Linear(hidden, hidden // 2)
        self.q_day, self.p_day = nn.Embedding(horizon + 1, hidden // 2), nn.Embedding(horizon + 1, hidden // 2)
        self.p_quantity = nn.Linear(1, hidden // 2)
        self.q_head = nn.Linear(hidden // 2, Q_SIZE + PIECES + 4 + shares * (1 + SHARES))
        self.p_head = nn.Linear(hidden // 2, P_SIZE + RATIOS + 2)
        prior = PRIOR if mode == "residual" else 0.0
        self.op_prior = nn.Parameter(prior / PRIOR_SCALE * torch.eye(3))  # row: L1's answer
        self.prior = nn.Parameter(torch.full((3,), prior / PRIOR_SCALE))  # the baseline's day, quantity, price
        for head in (self.op, self.day, self.day_match, self.q_head, self.p_head):
            nn.init.zeros_(head.weight)
            nn.init.zeros_(head.bias)
        for table in (self.q_day, self.p_day):
            nn.init.normal_(table.weight, std=0.1)

    def new_cache(self, threads: int) -> HistoryCache:
        """Room for the histories of so many threads, all empty."""
        return HistoryCache(self.trunk, threads)

    def states(self, tokens: Tensor, mask: Tensor, thread: Tensor, history: Tensor) -> Tensor:
        """The history's state at each decision.  # (B, L, 4), (B, L), (N,), (N,) -> (N, w)"""
        if self.view != "all":
            return self.trunk.begin.new_zeros(len(thread), self.trunk.width)
        found: Tensor = self.trunk(tokens, mask)[thread, history]
        return found

    def policy(self, state: Tensor, x: L3Inputs) -> Product:
        """The distribution over (op, day, dq, dp) at each decision."""
        return Heads(self, state, x).product()

    def forward(self, tokens: Tensor, mask: Tensor, thread: Tensor, history: Tensor, x: L3Inputs) -> Product:
        """One causal pass over B threads serves their N decisions."""
        return self.policy(self.states(tokens, mask, thread, history), x)

    def act(
        self, state: Tensor, situation: Situation, *, generator: torch.Generator | None = None, greedy: bool = True
    ) -> L3Actions:
        """Choose at N decisions: the most probable, or a draw. Wherever the layer is, the actions are on the CPU."""
        device = self.fuse.weight.device
        if device.type == "cpu":
            found = _PLAY_HEADS.of(self, self.fuse.weight).choose(state.detach().numpy(), situation, generator, greedy)
            op, day, dq, dp = (torch.from_numpy(a) for a in (found.op, found.day, found.dq, found.dp))
            parts = {"op": op, "day": day, "dq": dq, "dp": dp}
            log_prob, ops = torch.from_numpy(found.log_prob), torch.from_numpy(found.op_log_probs)
            return L3Actions(op, torch.from_numpy(found.offer), parts, log_prob, ops)
        return self._act_on(device, state, situation, generator, greedy)

    @torch.inference_mode()
    def _act_on(
        self,
        device: torch.device,
        state: Tensor,
        situation: Situation,
        generator: torch.Generator | None,
        greedy: bool,
    ) -> L3Actions:
        """The same by `policy`, for layers that are not on the CPU."""
        x = on_device(L3Inputs.of(situation, self.mode), device)
        state, parts = state.to(device), Parts()
        log_prob = torch.zeros(len(situation), device=device)
        ops: Tensor | None = None
        for name, part in self.policy(state, x).parts.items():  # each head once: `mode` and `log_prob` would be twice
            choices = part(parts) if callable(part) else part
            parts[name] = choices.mode() if greedy else choices.sample(generator)
            log_prob = log_prob + choices.log_prob(parts[name])
            if isinstance(choices, MaskedCategorical):  # the op: the others are gated by it
                ops = choices.log_probs.cpu()
        offer, parts = self.offers(parts, x).cpu(), {name: choice.cpu() for name, choice in parts.items()}
        return L3Actions(parts["op"], offer, parts, log_prob.cpu(), ops)

    def offers(self, parts: Parts, x: L3Inputs) -> Tensor:
        """The offers that stored choices stand for; zeros unless REJECT.  # (N, 3) quantity, unit price, days ahead"""
        offer = torch.stack([x.legal.first_q + parts["dq"], x.legal.first_p + parts["dp"], parts["day"]], -1)
        return offer.masked_fill((parts["op"] != REJECT)[:, None], 0)


_PLAY_HEADS: MadeOnce[TemporalDecisionTransformer, PlayHeads] = MadeOnce(PlayHeads)


class BaselineExecutor:
    """L1's own answers with the signature of L3: what an untrained L3 plays, without a network."""

    mode: Mode = "residual"

    def act(
        self,
        state: Tensor | None,
        situation: Situation,
        *,
        generator: torch.Generator | None = None,
        greedy: bool = True,
    ) -> L3Actions:
        """ACCEPT, the baseline, or END, as L1 says."""
        op, base = torch.as_tensor(situation.l1_op), torch.as_tensor(situation.offer_base)
        offer = base.masked_fill((op != REJECT)[:, None], 0)
        zeros = torch.zeros_like(op)
        parts = {"op": op, "day": offer[:, 2], "dq": zeros + DELTA_Q, "dp": zeros + DELTA_P}
        return L3Actions(op, offer, parts, torch.zeros(len(op)))


class HeuristicExecutor:
    """A round's action without learning: sell on any day to whoever buys, buy what the goal wants, cheapest first.

    Same signature as the network's `act`; the history's state is not looked at. Each decision is made from its own
    situation alone, so a network can learn it.

        seller: ACCEPT whatever is legal, on any day: prices differ by 10 %, an idle line earns nothing
        buyer:  ACCEPT what arrives within BUY_DAYS and, with the better offers of the other threads, fits the open goal
        else offer on the first open day: a seller all the day's room (the reservation spreads the threads over the
        days), a buyer α of the open goal. A seller asks for √(1 − time) of the range of prices: it holds out and comes
        down late; a buyer's price rises with time. END without a goal
    """

    mode: Mode = "direct"
    BUY_DAYS = 3

    def act(
        self,
        state: Tensor | None,
        situation: Situation,
        *,
        generator: torch.Generator | None = None,
        greedy: bool = True,
    ) -> L3Actions:
        """ACCEPT, an offer, or END where nothing is legal or wanted."""
        s, x = situation, L3Inputs.of(situation, "direct")
        n, seller, time = np.arange(len(s)), s.seller, s.relative_time.astype(np.float64)
        need, least = x.need.numpy(), x.legal.least.numpy()
        q, _, ahead = s.seen.T
        better = s.others[:, 1] * s.others[:, 2] / np.maximum(s.others[:, 0], 1)  # pieces of better offers, about
        fits = seller | ((better + q <= need) & (ahead <= self.BUY_DAYS))
        accept = x.legal.accept.numpy() & fits

        near = x.legal.day.numpy() & (seller[:, None] | (np.arange(s.open.shape[1]) <= self.BUY_DAYS))
        day = near.argmax(axis=1)
        low, high = s.issues[:, 4].astype(np.float64), s.issues[:, 5].astype(np.float64)
        price = np.floor(low + np.where(seller, np.sqrt(1.0 - time), time) * np.maximum(high - low, 0.0) + 1e-9)
        affordable = np.floor(np.minimum(x.legal.money.numpy(), 1e9) / np.maximum(price, 1.0))
        room = x.legal.most.numpy()[n, day]
        most = np.where(seller, room, np.minimum(room, affordable))
        quantity = np.where(seller, most, np.minimum(np.maximum(x.share.numpy(), least), most))
        possible = near[n, day] & (quantity >= least) & (seller | (need >= 1))
        op = np.where(accept, ACCEPT, np.where(possible, REJECT, END)).astype(np.int64)
        offer = np.where((op == REJECT)[:, None], np.stack([quantity, price, day], axis=-1), 0.0).astype(np.int64)
        chosen, sent = torch.as_tensor(op), torch.as_tensor(offer)
        parts = {
            "op": chosen,
            "day": sent[:, 2],
            "dq": sent[:, 0] - x.legal.first_q,
            "dp": sent[:, 1] - x.legal.first_p,
        }
        return L3Actions(chosen, sent, parts, torch.zeros(len(s)))


def load_l3(path: str | Path, device: torch.device | str = "cpu") -> TemporalDecisionTransformer:
    """The L3 in a file."""
    return load_layer(TemporalDecisionTransformer, path, device)
