"""The names under which a round is logged; docs/metrics.md explains each."""

from __future__ import annotations

import numpy as np

from echelon.hmasd.learning.episodes import Episodes
from echelon.hmasd.learning.learner import UpdateStats
from echelon.hmasd.learning.rollout import COORDINATOR, DISCOVERER
from echelon.hmasd.networks.sizes import Sizes
from echelon.onpolicy.batch import RolloutBatch
from echelon.onpolicy.loop import Round
from echelon.onpolicy.ppo import PPOStats


def round_tags(done: Round[UpdateStats], episodes: Episodes, sizes: Sizes) -> dict[str, float]:
    """Everything one finished round is logged with."""
    low = done.rollout[DISCOVERER]
    seconds = done.collect_seconds + done.update_seconds
    each = low.valid.sum(0)  # samples of each world
    tags = {
        "Sync/PolicyVersion": done.version + 1,
        "Sync/BatchSize": done.steps,
        "Sync/CollectionTime": done.collect_seconds,
        "Sync/UpdateTime": done.update_seconds,
        "Buffer/SamplesCollected": low.decisions,
        "Buffer/low_level_buffer_size": int(low.acts.sum()),
        "Buffer/env_contribution_min": int(each.min()),
        "Buffer/env_contribution_mean": float(each.mean()),
        "Buffer/env_contribution_max": int(each.max()),
        "Throughput/env_steps_per_s": done.steps / seconds,
        "Training/Step_Reward": float(low.reward[low.acts].mean()),
        **level_tags("Discoverer", done.stats.discoverer),
        "Entropy/Discoverer/Action": done.stats.discoverer.entropy,
        "ValueEstimates/Discoverer_Mean": done.stats.discoverer.mean_value,
        "ValueEstimates/Discoverer_Target_Mean": done.stats.discoverer.mean_target,
    }
    if len(episodes.returns):
        tags["Training/Episode_Reward"] = float(episodes.returns.mean())
        tags["Training/Episode_Length"] = float(episodes.lengths.mean())
        if episodes.success is not None:
            tags["Training/Success_Rate"] = float(episodes.success.mean())
        tags |= {f"Training/Info/{name}": mean for name, mean in episodes.means().items()}
    if COORDINATOR in done.rollout:
        tags |= coordinator_tags(done.stats, done.rollout[COORDINATOR])
        tags |= skill_tags(low, sizes)
    return tags


def level_tags(level: str, stats: PPOStats) -> dict[str, float]:
    """Losses and PPO's own figures of one level."""
    return {
        f"Losses/{level}/Total": stats.loss,
        f"Losses/{level}/Policy": stats.policy_loss,
        f"Losses/{level}/Value": stats.value_loss,
        f"PPO/{level}/approx_kl": stats.approx_kl,
        f"PPO/{level}/clip_fraction": stats.clip_fraction,
        f"PPO/{level}/explained_variance": stats.explained_variance,
        f"PPO/{level}/grad_norm": stats.grad_norm,
        f"PPO/{level}/ratio_error": stats.ratio_error,
    }


def coordinator_tags(stats: UpdateStats, high: RolloutBatch) -> dict[str, float]:
    """The high level and the discriminators."""
    coordinator, learnt, rewards = stats.coordinator, stats.discriminators, stats.rewards
    assert coordinator is not None  # with a coordinator there are all three
    assert learnt is not None
    assert rewards is not None
    whole = rewards.environment + rewards.team + rewards.individual
    return {
        "Buffer/high_level_buffer_size": high.decisions,
        **level_tags("Coordinator", coordinator),
        "Entropy/Coordinator/TeamSkill_Z": coordinator.unit_entropy[0],
        "Entropy/Coordinator/AgentSkill_z_Average": float(np.mean(coordinator.unit_entropy[1:])),
        "ValueEstimates/Coordinator_Mean": coordinator.mean_value,
        "ValueEstimates/Coordinator_Target_Mean": coordinator.mean_target,
        "Losses/Discriminator/Total": learnt.loss,
        "Discriminator/TeamAccuracy": learnt.team_accuracy,
        "Discriminator/IndividualAccuracy": learnt.individual_accuracy,
        "Rewards/HighLevel/K_Step_Accumulated_Mean": float(high.reward[:, :, 0][high.valid].mean()),
        "Rewards/Intrinsic/LowLevel_Average": whole,
        "Rewards/Intrinsic/Components/Environmental_Portion_Average": rewards.environment,
        "Rewards/Intrinsic/Components/TeamDiscriminator_Portion_Average": rewards.team,
        "Rewards/Intrinsic/Components/IndividualDiscriminator_Portion_Average": rewards.individual,
        "Skills/Segment_Length_Mean": float(high.span[high.valid].mean()),
    }


def skill_tags(low: RolloutBatch, sizes: Sizes) -> dict[str, float]:
    """How much each skill was used, as shares of steps."""
    skills = low.observation["skills"]  # (T, B, n + 1)
    team = np.bincount(skills[:, :, 0][low.valid], minlength=sizes.team_skills)
    agents = np.bincount(skills[:, :, 1:][low.acts], minlength=sizes.agent_skills)
    shares = {f"Skills/TeamSkill_{i}_Share": x for i, x in enumerate((team / max(team.sum(), 1)).tolist())}
    return shares | {f"Skills/AgentSkill_{i}_Share": x for i, x in enumerate((agents / max(agents.sum(), 1)).tolist())}
