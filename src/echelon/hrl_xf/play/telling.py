"""One day of the agent as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.markup import escape

from echelon.hrl_xf.play.story import DayStory, ThreadStory
from echelon.hrl_xf.state.day_state import Offer


def tell(day: DayStory, verbose: bool = False) -> Iterator[str]:
    """One day as lines."""
    dawn, dusk = day.dawn, day.dusk
    assert dusk is not None
    yield ""
    yield (
        f"[bold]day {dawn.current_step}[/] of {dawn.n_steps}: balance {dawn.balance:,.0f} ({dawn.score:.0%} of the "
        f"start), stock {dawn.inventory_input} material, {dawn.inventory_output} products, prices "
        f"{dawn.spot_price_in:.1f} in, {dawn.spot_price_out:.1f} out"
    )
    given = [f"{'supplied' if role == 'buyer' else 'ordered'} {_written(offer)}" for role, offer in day.exogenous]
    if given:
        yield f"  given    {', '.join(given)}"
    yield f"  wants    {_wants(day)}"
    for thread in sorted(day.threads.values(), key=lambda t: (t.role, t.partner)):
        yield from _negotiation(day, thread, verbose)
    yield (
        f"  evening  {dusk.executed_input} came in, {dusk.executed_output} went out, "
        f"{dusk.productivity:.0%} of the lines in use; profit {dusk.profit:+,.0f}{_penalties(day)}"
    )


def _written(offer: Offer) -> str:
    quantity, time, price = offer
    return f"{quantity} x {price} @ {time}"


def _wants(day: DayStory) -> str:
    """The goal over all buckets, and what L1 allows."""
    parts = []
    for side, (verb, may) in enumerate((("buy", day.may_buy), ("sell", day.may_sell))):
        quantity, price = day.goal[:, side, 0], day.goal[:, side, 1]
        total = float(quantity.sum())
        issues = day.dawn.buy_issues if verb == "buy" else day.dawn.sell_issues
        if issues is not None:
            mean = float((quantity * price).sum()) / total if total > 0 else 0.0
            goal = f"{verb} {total:.0f} at {mean:.1f}" if total >= 0.5 else f"{verb} nothing"
            parts.append(f"{goal} (safe: {may})")
    return ", ".join(parts)


def _negotiation(day: DayStory, thread: ThreadStory, verbose: bool) -> Iterator[str]:
    verb, side = ("buys ", "from") if thread.role == "buyer" else ("sells", "to  ")
    name = escape(thread.partner)
    if verbose:
        for mine, offer in thread.said:
            yield f"           {'we said   ' if mine else 'we heard  '}{side} {name}: {_written(offer)}"
    if thread.deal is not None:
        quantity, time, price = thread.deal
        versus = price / max(day.spot(thread.role), 1e-9) - 1.0
        good = versus <= 0 if thread.role == "buyer" else versus >= 0
        result = (
            f"[{'green' if good else 'yellow'}]signed {quantity} x {price} @ {time}[/] ({versus:+.0%} of spot, "
            f"{thread.end})"
        )
    else:
        result = f"[dim]no deal ({thread.end})[/]"
    yield f"  {verb}    {side} {name:<10} heard {_span(thread.heard):<32} said {_span(thread.offered):<32} {result}"


def _span(offers: Sequence[Offer]) -> str:
    """The first and the last offer, and how many there were."""
    if not offers:
        return "nothing"
    if len(offers) == 1:
        return _written(offers[0])
    return f"{_written(offers[0])} … {_written(offers[-1])} ({len(offers)})"


def _penalties(day: DayStory) -> str:
    assert day.dusk is not None
    dusk = day.dusk
    costs = (
        (dusk.shortfall_penalty, f"a shortfall of {dusk.shortfall_quantity}"),
        (dusk.storage_cost, "storage"),
        (dusk.disposal_cost, "disposal"),
    )
    paid = [f"{cost:,.1f} for {name}" for cost, name in costs if cost >= 0.05]
    return f" [red](paid {', '.join(paid)})[/]" if paid else ""
