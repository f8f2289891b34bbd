"""One suite over every environment: our own, and third-party ones behind the same protocol."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from echelon.envs.make import make_vector_env
from echelon.envs.vector import BoxActions, DiscreteActions, EnvSpec, Observed, VectorEnv, VectorStep
from echelon.runtime.arrays import Array

OWN: dict[str, tuple[str, dict[str, Any]]] = {
    "uav1": ("uav1", {"max_steps": 9}),
    "uav1-dim": ("uav1", {"max_steps": 9, "min_sinr": -6.0, "channel": "urban", "user_distribution": "hotspot"}),
    "uav1-3gpp": (
        "uav1",
        {"max_steps": 9, "channel": "3gpp-36777", "sensing_range": 300.0, "user_distribution": "cluster"},
    ),
    "uav2": ("uav2", {"max_steps": 9}),
    "uav2-relay": ("uav2-relay", {"max_steps": 9, "num_ground": 4, "max_hops": 5}),
    "alice_and_bob": ("alice_and_bob", {"max_steps": 9}),
    "overcooked": ("overcooked:cramped_room", {"max_steps": 9, "shaping": 1.0, "shaping_steps": 15}),
    "overcooked-random": ("overcooked:counter_circuit", {"max_steps": 9, "random_starts": True, "old_dynamics": True}),
    "simple_spread": ("simple_spread", {"max_steps": 9}),
    "simple_spread-four": ("simple_spread", {"max_steps": 9, "agents": 4, "local_ratio": 0.2}),
    "simple_speaker_listener": ("simple_speaker_listener", {"max_steps": 9}),
    "alice_and_bob-ends": ("alice_and_bob", {"max_steps": 40, "terminate_on_success": True}),
}
KAZ = "pettingzoo.butterfly.knights_archers_zombies_v11:parallel_env"
THIRD_PARTY: dict[str, tuple[str, dict[str, Any]]] = {
    "spread": ("mpe2.simple_spread_v3:parallel_env", {"max_cycles": 9}),
    "spread-continuous": ("mpe2.simple_spread_v3:parallel_env", {"max_cycles": 9, "continuous_actions": True}),
    "speaker_listener": ("mpe2.simple_speaker_listener_v4:parallel_env", {"max_cycles": 9}),
    "zombies": (KAZ, {"spawn_delay": 1, "max_zombies": 30, "max_cycles": 115}),
    "own-alice_and_bob": ("echelon.envs.alice_and_bob:parallel_env", {"max_steps": 9}),
}
ALL = {**OWN, **THIRD_PARTY}
STEPS = dict.fromkeys(ALL, 21) | {"zombies": 122, "alice_and_bob-ends": 45}


def make(case: str, num_envs: int, seed: Any = 3, workers: int = 0) -> VectorEnv:
    name, kwargs = ALL[case]
    return make_vector_env(name, num_envs, seed, workers=workers, **kwargs)


def choose(spec: EnvSpec, seeds: list[int], t: int) -> Array:
    """Random actions that depend on the world's seed and the time only, so that a batch and its singles act alike."""
    rows: list[Array] = []
    for seed in seeds:
        rng = np.random.default_rng([seed, t])
        if isinstance(spec.actions, DiscreteActions):
            rows.append(rng.integers(0, spec.actions.counts))
        else:
            rows.append(rng.uniform(spec.actions.low_array, spec.actions.high_array))
    return np.array(rows, dtype=spec.action_dtype)


def arrays_of(seen: Observed) -> dict[str, Array]:
    out = {k: v for k, v in seen.__dict__.items() if isinstance(v, np.ndarray)}
    return out | ({f"info {k}": v for k, v in seen.info.items()} if isinstance(seen, VectorStep) else {})


def play(env: VectorEnv, seeds: list[int], steps: range) -> Iterator[VectorStep]:
    for t in steps:
        yield env.step(choose(env.spec, seeds, t))


def assert_same(a: Observed, b: Observed, what: str) -> None:
    x, y = arrays_of(a), arrays_of(b)
    assert x.keys() == y.keys()
    for name in x:
        np.testing.assert_array_equal(x[name], y[name], err_msg=f"{name}: {what}")


@pytest.mark.parametrize("case", ALL)
def test_shapes_types_and_ranges(case: str) -> None:
    env = make(case, 3)
    spec, n = env.spec, env.spec.num_agents
    seen: Observed = env.reset()
    bounded = case.startswith(("uav", "alice", "overcooked"))
    low = 0.0 if case.startswith("uav") else -1.0
    for t in range(6):
        expected: dict[str, tuple[tuple[int, ...], type]] = {
            "observation": ((3, n, spec.obs_dim), np.float32),
            "state": ((3, spec.state_dim), np.float32),
            "alive": ((3, n), np.bool_),
        }
        if isinstance(seen, VectorStep):
            expected |= {
                "reward": ((3,), np.float32),
                "agent_reward": ((3, n), np.float32),
                "terminated": ((3,), np.bool_),
                "truncated": ((3,), np.bool_),
                "dropped": ((3,), np.bool_),
                "final_observation": ((3, n, spec.obs_dim), np.float32),
                "final_state": ((3, spec.state_dim), np.float32),
                "final_alive": ((3, n), np.bool_),
                "info episode_return": ((3,), np.float64),
                "info episode_length": ((3,), np.int64),
            }
        arrays = arrays_of(seen)
        for name, (shape, kind) in expected.items():
            assert (arrays[name].shape, arrays[name].dtype) == (shape, np.dtype(kind)), name
        if seen.action_mask is not None:
            assert isinstance(spec.actions, DiscreteActions)
            assert seen.action_mask.shape == (3, n, spec.actions.width)
            assert seen.action_mask.any(axis=2).all()
        for i, width in enumerate(spec.obs_dims):
            assert not seen.observation[:, i, width:].any()
        if bounded:
            for values in (seen.observation, seen.state):
                assert values.min() >= low
                assert values.max() <= 1.0
        assert np.isfinite(seen.observation).all()
        assert np.isfinite(seen.state).all()
        seen = env.step(choose(spec, [1, 2, 3], t))
    env.close()


@pytest.mark.parametrize("case", ALL)
def test_a_batch_equals_its_single_worlds(case: str) -> None:
    seeds = [5, 77, 5, 1234]
    batch, singles = make(case, 4, seeds), [make(case, 1, [s]) for s in seeds]
    first = batch.reset()
    parts = [arrays_of(e.reset()) for e in singles]
    for name, array in arrays_of(first).items():
        np.testing.assert_array_equal(array, np.concatenate([p[name] for p in parts]), err_msg=name)
    ended = 0
    for t, step in enumerate(play(batch, seeds, range(STEPS[case]))):
        ended += int(step.done.sum())
        parts = [arrays_of(e.step(choose(e.spec, [s], t))) for e, s in zip(singles, seeds, strict=True)]
        for name, array in arrays_of(step).items():
            np.testing.assert_array_equal(array, np.concatenate([p[name] for p in parts]), err_msg=f"{name} at {t}")
        for name, array in arrays_of(step).items():  # worlds 0 and 2 have one seed and act alike
            np.testing.assert_array_equal(array[0], array[2], err_msg=f"{name} at {t}")
    assert ended >= 4, "the comparison must run over resets"


@pytest.mark.parametrize("case", ALL)
def test_the_same_seed_gives_the_same_episodes_and_another_does_not(case: str) -> None:
    env, other = make(case, 2, 8), make(case, 2, 9)
    runs = []
    for seed in (8, 8):
        env.reset(seed)
        runs.append(list(play(env, [1, 2], range(STEPS[case]))))
    for t, (a, b) in enumerate(zip(*runs, strict=True)):
        assert_same(a, b, f"step {t}")
    other.reset()
    differs = [
        (a.observation != b.observation).any()
        for a, b in zip(runs[0], play(other, [1, 2], range(STEPS[case])), strict=True)
    ]
    assert any(differs) is (case != "overcooked"), "only a kitchen with fixed starts has no randomness"


@pytest.mark.parametrize("case", ALL)
def test_resume_equals_not_stopping(case: str) -> None:
    seeds, cut, steps = [1, 2, 3], STEPS[case] * 2 // 3, STEPS[case] + 1
    through = make(case, 3)
    through.reset()
    list(play(through, seeds, range(cut)))
    saved = through.state_dict()
    kept = {k: v.copy() for k, v in saved.items()}
    rest = list(play(through, seeds, range(cut, steps)))
    assert all(isinstance(v, np.ndarray) and v.dtype.kind in "fiub" for v in saved.values())
    for name in saved:  # what was saved does not change while the environment continues
        np.testing.assert_array_equal(saved[name], kept[name])
    resumed = make(case, 3, seed=999)
    seen = resumed.load_state_dict(saved)
    now = make(case, 3).load_state_dict(saved)
    assert_same(seen, now, "what is seen on loading")
    for t, (a, b) in enumerate(zip(rest, play(resumed, seeds, range(cut, steps)), strict=True)):
        assert_same(a, b, f"step {t} after resuming")


@pytest.mark.parametrize("case", ALL)
def test_final_and_first_observations_at_a_reset(case: str) -> None:
    env = make(case, 3)
    env.reset()
    checked = 0
    for step in play(env, [4, 5, 6], range(STEPS[case])):
        goes_on = ~step.done
        for final, now in ((step.final_observation, step.observation), (step.final_state, step.state)):
            np.testing.assert_array_equal(final[goes_on], now[goes_on])
            if step.done.any():
                assert (final[step.done] != now[step.done]).any(), "a new episode must start somewhere else"
        assert not (step.terminated & step.truncated).any()
        assert (step.info["episode_length"][step.done] > 0).all()
        assert not step.final_alive[step.terminated].any()
        if case != "zombies":
            assert step.final_alive[step.truncated].all()
        assert step.alive.any(axis=1).all(), "somebody must act next"
        checked += int(step.done.sum())
    assert checked >= 3


@pytest.mark.parametrize("case", ALL)
def test_what_is_returned_is_the_callers(case: str) -> None:
    mine, reference = make(case, 2), make(case, 2)
    for array in arrays_of(mine.reset()).values():
        array[...] = True
    reference.reset()
    for t in range(4):
        actions = choose(mine.spec, [1, 2], t)
        step, expected = mine.step(actions), reference.step(actions)
        assert_same(step, expected, f"step {t}")
        for array in arrays_of(step).values():
            array[...] = True
        actions[...] = 0


@pytest.mark.parametrize("case", ALL)
def test_wrong_actions_are_errors(case: str) -> None:
    env = make(case, 2)
    with pytest.raises(RuntimeError, match="call reset"):
        env.step(choose(env.spec, [1, 2], 0))
    env.reset()
    actions = choose(env.spec, [1, 2], 0)
    with pytest.raises(ValueError, match="shape"):
        env.step(actions[:1])
    if isinstance(env.spec.actions, BoxActions):
        actions[1, 0] = np.nan
        with pytest.raises(ValueError, match="world 1 is NaN"):
            env.step(actions)
    else:
        actions[1, 0] = env.spec.actions.counts[0]
        with pytest.raises(ValueError, match="it has actions 0"):
            env.step(actions)


@pytest.mark.parametrize("case", ALL)
def test_a_saved_state_of_something_else_is_refused(case: str) -> None:
    env, larger = make(case, 2), make(case, 3)
    with pytest.raises(RuntimeError, match="call reset"):
        env.state_dict()
    env.reset()
    larger.reset()
    saved = env.state_dict()
    with pytest.raises(ValueError, match="saved"):
        larger.load_state_dict(saved)
    with pytest.raises(ValueError, match="format_version"):
        env.load_state_dict(saved | {"format_version": np.array(99)})
    other = make("alice_and_bob" if case != "alice_and_bob" and "ends" not in case else "uav1", 2)
    other.reset()
    with pytest.raises(ValueError, match="saved state"):
        env.load_state_dict(other.state_dict())


def test_zombies_kill() -> None:
    env = make("zombies", 2)
    env.reset()
    before, last_words, silent = np.ones((2, 4), dtype=bool), 0, 0
    for step in play(env, [1, 2], range(110)):
        last_words += int(step.observation[before & ~step.alive].any())
        assert not step.observation[~before & ~step.alive].any(), "the dead see nothing"
        silent += int((~before & ~step.alive).sum())
        before = step.alive
    assert last_words > 0
    assert silent > 0


@pytest.mark.parametrize("case", ["spread", "speaker_listener", "zombies"])
def test_workers_give_what_serial_gives(case: str) -> None:
    serial = make(case, 3)
    serial.reset()
    with make(case, 3, workers=2) as workers:
        workers.reset()
        for t, a in enumerate(play(serial, [1, 2, 3], range(25))):
            assert_same(a, workers.step(choose(serial.spec, [1, 2, 3], t)), f"step {t}")


def test_our_room_behind_the_adapter_equals_our_arrays() -> None:
    """Two ways to the same world, for one episode (later ones draw their seeds differently)."""
    adapted, arrays = make("own-alice_and_bob", 3, [7, 8, 9]), make("alice_and_bob", 3, [7, 8, 9])
    np.testing.assert_array_equal(adapted.reset().observation, arrays.reset().observation)
    for a, b in zip(*(play(e, [7, 8, 9], range(9)) for e in (adapted, arrays)), strict=True):
        np.testing.assert_array_equal(a.final_observation, b.final_observation)
        np.testing.assert_array_equal(a.final_state, b.final_state)
        np.testing.assert_array_equal(a.truncated, b.truncated)
