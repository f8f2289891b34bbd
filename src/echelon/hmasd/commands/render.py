"""`echelon hmasd render`: one episode as a film, each agent in the colour of its skill."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from echelon.envs.foreign.world import EnvSetupError
from echelon.envs.make import is_built_in
from echelon.hmasd.agent import HMASDAgent
from echelon.hmasd.evaluation import use_env_options
from echelon.hmasd.options import RenderOptions
from echelon.hmasd.skill_picture import draw_skills, watch_skills
from echelon.hmasd.worlds import make_worlds
from echelon.runtime.film import check_film, write_film, write_picture
from echelon.runtime.seeding import task_seed

log = logging.getLogger(__name__)

COLOURS = ("#ffe600", "#e377c2", "#00d5e0", "#8c4a2f", "#7cdd18", "#111111", "#d000b8", "#8a8a00", "#004d40", "#fffbb0")
"""Of skills; none is near a colour that a built-in environment draws roles or things in."""


def frames(agent: HMASDAgent, seed: int, greedy: bool, max_steps: int, every: int) -> Iterator[NDArray[np.uint8]]:
    """Pictures of one episode, (height, width, 3) each, with the skills in force written below."""
    with make_worlds(agent.config, 1, task_seed(seed, "film", "world")) as env:
        seen = env.reset()
        agent.reset(1, task_seed(seed, "film", "choices"), greedy)
        for step in range(max_steps):
            actions = agent.act_on(seen)
            if step % every == 0:
                skills = agent.skills[0]
                colours = [COLOURS[z % len(COLOURS)] for z in skills[1:]] if agent.sizes.skilled else None
                yield _captioned(env.render(0, colours), _caption(agent) if agent.sizes.skilled else "no skills")
            now = env.step(actions)
            if now.done[0]:
                return
            seen = now


def prepare_to_film(agent: HMASDAgent, env_options: Sequence[str]) -> None:
    """Let the agent play in worlds with these options, which draw themselves: third-party ones must be asked to."""
    asked = any(option.startswith("render_mode=") for option in (*agent.config.env_options, *env_options))
    if not is_built_in(agent.config.env) and not asked:
        with suppress(EnvSetupError):  # a factory without that option may still be able to draw
            use_env_options(agent, (*env_options, "render_mode=rgb_array"))
            return
    if env_options:
        use_env_options(agent, env_options)


def _caption(agent: HMASDAgent) -> str:
    team, *own = agent.skills[0].tolist()
    return f"team skill {team}, agents' skills {' '.join(map(str, own))}"


def _captioned(picture: NDArray[np.uint8], text: str) -> NDArray[np.uint8]:
    """The picture with a line of text below."""
    strip = Image.new("RGB", (picture.shape[1], 26), "white")
    ImageDraw.Draw(strip).text((8, 4), text, fill="black", font=ImageFont.load_default(14))
    return np.concatenate([picture[:, :, :3], np.asarray(strip)])


def run(options: RenderOptions) -> int:
    """The command."""
    if options.every < 1 or options.max_steps < 1 or options.fps < 1:
        raise ValueError(f"every={options.every}, max_steps={options.max_steps}, fps={options.fps} must be at least 1")
    check_film(options.output)
    if options.skills is not None and options.skills.suffix not in (".png", ".svg"):
        raise ValueError(f"{options.skills} must end in .png or .svg")
    torch.set_num_threads(1)
    agent = HMASDAgent.load(options.model_path)
    prepare_to_film(agent, options.env_options)
    episode = frames(agent, options.seed, options.greedy, options.max_steps, options.every)
    log.info("%s: %d frames", options.output, write_film(options.output, episode, options.fps))
    if options.skills is not None:
        write_picture(draw_skills(agent, watch_skills(agent, options.seed)), options.skills)
        log.info("%s: what each skill does", options.skills)
    return 0
