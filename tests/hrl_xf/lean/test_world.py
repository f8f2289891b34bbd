"""The lean world plays the stock world's game: same seeds, same contracts, same sights for the agents, no files."""

from __future__ import annotations

import copy
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from negmas.sao import SAOState
from scml.oneshot.sysagents import DefaultOneShotAdapter
from scml.std.agents import RandomStdAgent, SyncRandomStdAgent
from scml.std.world import STD_DEFAULT_PARAMS, SCML2024StdWorld
from scml.utils import anac2024_config_generator_std, anac2024_std_world_generator, anac_assigner_std

from echelon.hrl_xf.lean.interface import draw_as_ufun
from echelon.hrl_xf.lean.mechanism import copy_state
from echelon.hrl_xf.lean.negotiator import is_plain
from echelon.hrl_xf.lean.world import LeanStdWorld, OrderedSet, lean_std_world_generator
from tests.hrl_xf.lean.cases import (
    EXPERTS,
    Failing,
    Hooked,
    Moody,
    StockWorld,
    Unruly,
    WatchingPlain,
    WatchingSync,
    config,
    outcome,
    play,
)

PENGUIN = EXPERTS["PenguinAgent"]
FORGIVING = {
    "ignore_agent_exceptions": True,
    "ignore_negotiation_exceptions": True,
    "ignore_simulation_exceptions": True,
    "ignore_contract_execution_exceptions": True,
}


def assert_same_play(cfg: dict[str, Any], seed: int = 5) -> tuple[Any, Any]:
    """Play both worlds and compare; returns the stock one and the lean one."""
    lean = play(LeanStdWorld, cfg, seed)
    ours = outcome(lean)
    stock = play(StockWorld, cfg, seed)
    theirs = outcome(stock)
    for name, value in theirs.items():
        assert ours[name] == value, name
    return stock, lean


def agents_of(world: Any, cls: type) -> list[Any]:
    agents = [adapter.adapted_object for adapter in world.agents.values()]
    return [agent for agent in agents if type(agent) is cls]


def test_penguins_sign_the_same_contracts() -> None:
    stock, lean = assert_same_play(config([PENGUIN], days=10, levels=3, per_level=4))
    assert len(stock.saved_contracts) > 50
    assert all(lean._plain[id] for id in lean.non_system_agent_ids)


def test_a_mixed_field_on_four_levels_signs_the_same_contracts() -> None:
    field = [PENGUIN, RandomStdAgent, SyncRandomStdAgent, EXPERTS["AS0"], EXPERTS["XenoSotaAgent"], EXPERTS["DogAgent"]]
    stock, _ = assert_same_play(config(field, days=8, levels=4, per_level=4))
    assert sum(stock.negs_succeeded.values()) > 20
    assert sum(stock.negs_timedout.values()) > 0


def test_bankruptcy_on_two_levels_is_the_same() -> None:
    stock, lean = assert_same_play(config([RandomStdAgent, SyncRandomStdAgent], days=20, levels=2, per_level=4))
    assert any(stock.is_bankrupt.values())
    nullified = [c.nullified_at for contracts in lean.agent_contracts.values() for c in contracts]
    assert max(nullified) >= 0
    assert nullified == [c.nullified_at for contracts in stock.agent_contracts.values() for c in contracts]


def test_agents_see_the_same() -> None:
    _, lean = assert_same_play(config([WatchingSync, WatchingPlain, PENGUIN], days=4, levels=3, per_level=3))
    watchers = agents_of(lean, WatchingSync) + agents_of(lean, WatchingPlain)
    assert all(is_plain(watcher) for watcher in watchers)
    events = {entry[0] for watcher in watchers for entry in watcher.seen}
    expected = "before_step first counter propose respond success failure history step"
    assert events == set(expected.split())


def test_hooks_are_called_as_in_the_stock_world() -> None:
    _, lean = assert_same_play(config([Hooked, WatchingSync, PENGUIN], days=4, levels=2, per_level=3))
    hooked = agents_of(lean, Hooked)
    assert not any(is_plain(agent) for agent in hooked)
    assert {"round", "proposal", "preferences"} <= {entry[0] for agent in hooked for entry in agent.seen}


@pytest.mark.parametrize("seed", [5, 6, 7])
def test_unruly_agents_do_the_same_harm(seed: int) -> None:
    field = [Unruly, Moody, PENGUIN, RandomStdAgent]
    _, lean = assert_same_play(config(field, days=8, levels=2, per_level=4, seed=seed, **FORGIVING), seed)
    assert all(lean._plain[id] for id in lean.non_system_agent_ids)


def test_an_exception_goes_up_where_the_stock_world_lets_it() -> None:
    cfg = config([Failing, PENGUIN], days=5, levels=2, per_level=4)
    ends = []
    for cls in (StockWorld, LeanStdWorld):
        with pytest.raises(LookupError, match="third day"):
            play(cls, cfg)
        ends.append(random.getstate())
    assert ends[0] == ends[1]


def test_the_stock_world_is_untouched() -> None:
    cfg = config([PENGUIN, SyncRandomStdAgent], days=5, levels=2, per_level=4)
    before = outcome(play(StockWorld, cfg))
    play(LeanStdWorld, cfg)
    assert outcome(play(StockWorld, cfg)) == before


PLAY_APART = """
import hashlib, random, sys
junk = [object() for _ in range({junk})]
from tests.hrl_xf.lean.cases import EXPERTS, RandomStdAgent, SyncRandomStdAgent, config, outcome, play
from pathlib import Path
from echelon.hrl_xf.lean.world import LeanStdWorld
junk += [bytes(random.randrange(1, 999)) for _ in range({junk})]
files = lambda: sorted(str(path) for path in Path({home!r}).rglob("*"))
before = files()
cfg = config([EXPERTS["PenguinAgent"], RandomStdAgent, SyncRandomStdAgent], days=5, levels=2, per_level=4)
world = play(LeanStdWorld, cfg | {{"log_folder": {home!r} + "/logs"}})
ids = [contract["id"] + str(contract["negotiation_id"]) for contract in world.saved_contracts]
print(len(ids), hashlib.sha256(repr((ids, outcome(world))).encode()).hexdigest())
print(files() == before, world.log_folder)
"""


def run_apart(script: str, home: Path) -> list[str]:
    """The lines a script prints in a process of its own."""
    env = {"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": "0", "HOME": str(home)}
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(command, env=env, cwd=home, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()


def test_processes_agree_and_no_file_is_written(tmp_path: Path) -> None:
    results = []
    for junk in (0, 100_003):
        script = PLAY_APART.format(junk=junk, home=str(tmp_path))
        digest, untouched = run_apart(script, tmp_path)[-2:]
        assert untouched == f"True {tmp_path}/logs"
        results.append(digest)
    assert results[0] == results[1]
    assert int(results[0].split()[0]) > 20


PLAY_ROSTER = """
import hashlib, random, sys
from tests.hrl_xf.lean.cases import EXPERTS, RandomStdAgent, StockWorld, SyncRandomStdAgent, config, outcome, play
from echelon.hrl_xf.lean.world import LeanStdWorld
pool = [EXPERTS[name] for name in sorted(EXPERTS)] + [RandomStdAgent, SyncRandomStdAgent]
rng = random.Random({seed})
levels, per_level = rng.choice([2, 3, 4]), rng.choice([4, 5, 6])
field = [rng.choice(pool) for _ in range(levels * per_level)]
world = play({cls}, config(field, days=20, levels=levels, per_level=per_level, seed={seed}, **{forgiving}))
print(len(world.saved_contracts), hashlib.sha256(repr(outcome(world)).encode()).hexdigest())
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 106))
def test_any_field_of_the_roster_plays_the_same(seed: int, tmp_path: Path) -> None:
    """In processes of their own: there are agents that learn from one world of a process to the next."""
    stock, lean = (
        run_apart(PLAY_ROSTER.format(seed=seed, cls=cls, forgiving=FORGIVING), tmp_path)[-1]
        for cls in ("StockWorld", "LeanStdWorld")
    )
    assert stock == lean


def test_times_are_counted_for_each_agent() -> None:
    world = play(LeanStdWorld, config([PENGUIN], days=3, levels=2, per_level=3))
    assert all(world.times[id] > 0 for id in world.non_system_agent_ids)


def assigned_config(tmp_path: Path) -> dict[str, Any]:
    """An assigned config as create_tournament hands it to the world generator."""
    random.seed(3)
    np.random.seed(3)
    competitors = [RandomStdAgent, PENGUIN]
    configs = anac2024_config_generator_std(
        n_competitors=2, n_agents_per_competitor=1, n_steps=5, min_factories_per_level=4
    )
    config_set = anac_assigner_std(configs, max_n_worlds=None, competitors=competitors, params=[{}, {}])[0]
    assigned: dict[str, Any] = config_set[0]
    assigned["world_params"] |= {"name": "a world", "log_folder": str(tmp_path / "logs")}
    return assigned


def test_the_generator_makes_the_stock_generators_world(tmp_path: Path) -> None:
    assigned = assigned_config(tmp_path)
    given, defaults = copy.deepcopy(assigned), copy.deepcopy(STD_DEFAULT_PARAMS)
    random.seed(4)
    np.random.seed(4)
    lean = lean_std_world_generator(**assigned)
    after = random.getstate(), np.random.get_state(legacy=False)["state"]["key"].tolist()
    assert repr(assigned) == repr(given)
    assert defaults == STD_DEFAULT_PARAMS
    assert not any(tmp_path.iterdir())
    assert lean.log_folder == str(tmp_path / "logs")

    random.seed(4)
    np.random.seed(4)
    try:
        stock = anac2024_std_world_generator(**copy.deepcopy(assigned))
    finally:  # it leaves its world's parameters behind
        STD_DEFAULT_PARAMS.clear()
        STD_DEFAULT_PARAMS.update(defaults)
    assert (random.getstate(), np.random.get_state(legacy=False)["state"]["key"].tolist()) == after
    assert type(stock) is SCML2024StdWorld
    same = "name n_steps profiles agent_types agent_params agent_suppliers initial_balances ignore_agent_exception"
    for name in same.split():
        assert getattr(lean, name) == getattr(stock, name), name
    assert repr(lean.info) == repr(stock.info)
    assert list(lean.agents) == list(stock.agents)
    exogenous = [
        [(day, c.agreement, c.partners) for day, contracts in world.exogenous_contracts.items() for c in contracts]
        for world in (lean, stock)
    ]
    assert exogenous[0] == exogenous[1]
    lean.run()
    assert lean.current_step == lean.n_steps
    assert sum(lean.negs_registered.values()) > 0


def test_skipping_a_ufun_draws_what_making_it_draws() -> None:
    random.seed(9)
    np.random.seed(9)
    world = LeanStdWorld(**config([RandomStdAgent], days=6, levels=3, per_level=3))
    levels = set()
    for _ in range(world.n_steps - 1):
        assert world.step()
        for id in world.non_system_agent_ids:
            adapter = world.agents[id]
            before = random.getstate()
            DefaultOneShotAdapter.make_ufun(adapter, True)
            after = random.getstate()
            random.setstate(before)
            draw_as_ufun(adapter.awi)
            assert random.getstate() == after
            levels.add(adapter.awi.level)
    assert levels == {0, 1, 2}


def test_copied_state_is_a_shallow_copy() -> None:
    state = SAOState(running=True, step=3, relative_time=0.25, current_offer=(1, 2, 3), new_offers=[("a", (1, 2, 3))])
    copied = copy_state(state)
    assert copied == copy.copy(state)
    assert copied is not state
    assert copied.new_offers is state.new_offers
    state.step = 4
    assert copied.step == 3


def test_ordered_set_keeps_the_order_of_arrival() -> None:
    items = OrderedSet()
    for item in ("c", "a", "b", "a"):
        items.add(item)
    assert list(items) == ["c", "a", "b"]
    items.remove("a")
    assert list(items) == ["c", "b"]
    with pytest.raises(KeyError):
        items.remove("a")
