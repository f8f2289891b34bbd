"""Presets hold the tables' values and come with --env."""

from __future__ import annotations

from dataclasses import replace

import pytest

from echelon.envs.make import is_built_in, make_vector_env
from echelon.hmasd.config import HMASDConfig
from echelon.hmasd.presets import PRESETS, preset, train_defaults


def test_the_paper_preset_is_the_papers_table() -> None:
    c = PRESETS["alice_and_bob-paper"].config
    assert (c.lr, c.k, c.team_skills, c.agent_skills) == (5e-4, 50, 2, 4)
    assert (c.lambda_h, c.lambda_l, c.lambda_e, c.lambda_team, c.lambda_agent) == (0.1, 0.01, 0.0, 0.1, 0.2)
    assert (c.epochs, c.clip, c.minibatches, c.value_coef, c.gamma, c.gae_lambda) == (15, 0.2, 1, 1.0, 0.99, 0.95)
    assert (c.envs, c.hidden, c.recurrent) == (32, 64, True)
    assert not c.critic_sees_skills
    assert not c.skill_baseline
    assert (c.advantage_std_floor, c.discoverer_std_floor) == (1e-5, 1e-5)


def test_the_paper_preset_of_overcooked_is_the_papers_table() -> None:
    c = PRESETS["overcooked-paper"].config
    assert (c.env, c.environment_options()) == ("overcooked:cramped_room", {})
    assert (c.lr, c.k, c.team_skills, c.agent_skills) == (1e-4, 25, 3, 3)
    assert (c.lambda_h, c.lambda_l, c.lambda_e, c.lambda_team, c.lambda_agent) == (0.01, 0.01, 100.0, 1.0, 0.5)
    assert (c.envs, c.samples_per_update, c.hidden, c.recurrent) == (32, 32 * 400, 64, True)
    assert not c.skill_baseline
    assert not c.relative_intrinsic


def test_the_tuned_preset_is_the_one_the_results_were_made_with() -> None:
    c = PRESETS["alice_and_bob"].config
    assert (c.agent_skills, c.lambda_e, c.kl_stop) == (8, 50.0, 0.03)
    assert (c.lambda_h, c.lambda_l, c.lambda_team, c.lambda_agent) == (0.02, 0.01, 0.004, 0.02)
    assert (c.advantage_std_floor, c.discoverer_std_floor) == (0.1, 1.0)
    assert (c.envs, c.samples_per_update, c.total_steps) == (128, 12_800, 1_500_000)
    assert c.critic_sees_skills
    assert c.skill_baseline
    assert not c.recurrent


@pytest.mark.parametrize("name", ["uav1", "uav2", "uav2-relay"])
def test_the_default_is_the_users_skills_with_intrinsic_rewards_in_proportion(name: str) -> None:
    given, default = (PRESETS[preset].config for preset in (f"{name}-as-given", name))
    assert default.env == given.env
    for field in ("k", "team_skills", "agent_skills", "lambda_e", "hidden"):
        assert getattr(default, field) == getattr(given, field)
    assert default.skill_baseline
    assert default.relative_intrinsic
    assert default.environment_options() == {"max_steps": 100}  # the observation as specified


@pytest.mark.parametrize("name", ["uav1-as-given", "uav2-as-given", "uav2-relay-as-given"])
def test_the_uav_presets_are_the_users_configuration(name: str) -> None:
    options = PRESETS[name]
    c = options.config
    assert (c.lr, c.k, c.team_skills, c.agent_skills) == (1e-4, 10, 3, 3)
    assert (c.lambda_h, c.lambda_l, c.lambda_e, c.lambda_team, c.lambda_agent) == (0.001, 0.01, 1.0, 0.1, 0.5)
    assert (c.encoder_layers, c.decoder_layers, c.heads, c.max_grad_norm) == (3, 3, 8, 0.5)
    assert not c.skill_baseline
    assert not c.relative_intrinsic
    assert (c.total_steps, c.envs, c.samples_per_update) == (4_000_000, 32, 1024)
    assert (options.eval_every, options.eval_episodes) == (160_000, 4)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_every_preset_names_an_environment_that_exists(name: str) -> None:
    c = PRESETS[name].config
    extra = {} if is_built_in(c.env) else {"workers": 0}
    with make_vector_env(c.env, 1, 0, **extra, **c.environment_options()) as env:
        assert env.reset().observation.shape[0] == 1


def test_defaults_follow_the_arguments() -> None:
    assert train_defaults(["--env", "alice_and_bob"]).config.agent_skills == 8
    assert train_defaults(["--env=alice_and_bob", "--preset", "alice_and_bob-paper"]).config.agent_skills == 4
    assert train_defaults(["--env", "some.module:factory"]).config.env == "some.module:factory"
    assert train_defaults(["--preset", "uav2-relay-as-given"]).config.env == "uav2-relay"
    assert train_defaults([]).preset == "uav1"
    assert train_defaults(["--env", "overcooked:cramped_room"]).preset == "overcooked"
    ring = train_defaults(["--env", "overcooked:coordination_ring"])
    assert ring.config.env == "overcooked:coordination_ring"
    assert ring.config.environment_options() == PRESETS["overcooked"].config.environment_options()
    assert ring.directory != PRESETS["overcooked"].directory
    assert train_defaults(["--env", "simple_spread"]).preset == "spread"
    theirs = train_defaults(["--env", "mpe2.simple_spread_v3:parallel_env"])
    assert theirs.config == replace(PRESETS["spread"].config, env="mpe2.simple_spread_v3:parallel_env")
    assert train_defaults(["--env", "mpe2.simple_tag_v3:parallel_env"]).config.k == HMASDConfig().k


def test_a_wrong_preset_is_one_clear_message() -> None:
    with pytest.raises(ValueError, match=r"preset 'alice' is unknown; use .*Did you mean alice_and_bob\?"):
        preset("alice")


def test_other_algorithms_have_the_values_of_their_papers_in_the_worlds_of_the_preset() -> None:
    tuned = PRESETS["alice_and_bob"].config
    options = train_defaults(["--env", "alice_and_bob", "--algorithm", "mat"])
    mat = options.config
    assert (mat.algorithm, mat.lr, mat.clip, mat.epochs, mat.max_grad_norm) == ("mat", 5e-4, 0.05, 10, 10.0)
    assert (mat.encoder_layers, mat.decoder_layers, mat.heads, mat.hidden) == (1, 1, 1, 64)
    assert (mat.kl_stop, mat.discoverer_std_floor) == (None, 1e-5)
    assert (mat.envs, mat.samples_per_update, mat.total_steps) == (tuned.envs, tuned.samples_per_update, 1_500_000)
    assert options.eval_episodes == 100
    for env in ("mpe2.simple_spread_v3:parallel_env", "simple_spread", "speaker_listener"):
        particles = train_defaults([f"--env={env}", "--algorithm=mappo"]).config
        assert (particles.envs, particles.samples_per_update, particles.lr) == (128, 3200, 7e-4)


def test_a_preset_by_name_is_what_it_says_whoever_learns() -> None:
    assert train_defaults(["--preset", "uav2", "--algorithm", "mappo"]) == preset("uav2")
    assert train_defaults(["--env", "alice_and_bob", "--algorithm", "hmasd"]) == preset("alice_and_bob")
    assert train_defaults(["--env", "alice_and_bob", "--algorithm", "wrong"]) == preset("alice_and_bob")
