"""Evaluations in the background of a training: own process, own worlds, copies of the weights; training never waits
for them."""

from __future__ import annotations

import logging
from concurrent.futures import Future

from torch import Tensor

from echelon.hmasd.agent import HMASDAgent
from echelon.hmasd.evaluation import Evaluation, evaluate_weights, random_play
from echelon.hmasd.options import TrainOptions
from echelon.runtime.execution.executors import NamedExecutor, make_executor
from echelon.runtime.metrics import MetricsWriter
from echelon.runtime.seeding import task_seed

log = logging.getLogger(__name__)

Weights = dict[str, Tensor]
RANDOM_EPISODES = 32
PATIENCE = 10
"""evaluations in a row below random play after which the log says so"""


class BackgroundEvaluation:
    """Evaluations of copies of the weights, one after the other."""

    def __init__(self, options: TrainOptions, metrics: MetricsWriter) -> None:
        self.options, self.metrics = options, metrics
        self._executor: NamedExecutor | None = None
        self._running: list[tuple[int, Future[Evaluation], Weights]] = []
        self._random: Future[Evaluation] | None = None
        self._below = 0

    @property
    def waiting(self) -> dict[int, Weights]:
        """Weights whose evaluation is not done, by step."""
        return {multiple: weights for multiple, _, weights in self._running}

    def start_random(self) -> None:
        """Measure what random play earns in the same worlds."""
        config = self.options.config
        seed = task_seed(config.seed, "evaluation", "random play")
        self._random = self._workers().start(
            "random play", None, random_play, config.to_json(), max(self.options.eval_episodes, RANDOM_EPISODES), seed
        )

    def start(self, agent: HMASDAgent, multiple: int, weights: Weights | None = None) -> None:
        """Evaluate the agent as it is now, or with these weights; logged at step `multiple` when it is there."""
        weights = agent.weights() if weights is None else weights
        future = self._workers().start(
            f"evaluation at {multiple}",
            None,
            evaluate_weights,
            agent.header(),
            {name: tensor.numpy() for name, tensor in weights.items()},
            self.options.eval_episodes,
            task_seed(self.options.config.seed, "evaluation", multiple),
            self.options.eval_greedy,
        )
        self._running.append((multiple, future, weights))

    def record(self, wait: bool = False) -> None:
        """Log the evaluations that are done; all of them, if asked to wait."""
        if self._random is not None and (wait or self._random.done()):
            result, self._random = self._random.result(), None
            self.random_return = float(result.returns.mean())
            self.metrics.record("Eval/RandomReward", self.random_return, 0)
            log.info("random play: %s", result)
        while self._running and (wait or self._running[0][1].done()):
            multiple, future, _ = self._running.pop(0)
            result = future.result()
            self.metrics.record_all(result.tags(), multiple)
            log.info("evaluation at %d: %s", multiple, result)
            self._compare(float(result.returns.mean()), multiple)

    random_return: float | None = None
    """Mean return of random play, once it is known."""

    def _compare(self, reward: float, multiple: int) -> None:
        """Warn after PATIENCE evaluations below random play: the options do not suit the environment."""
        self._below = self._below + 1 if self.random_return is not None and reward < self.random_return else 0
        if self._below and self._below % PATIENCE == 0:
            weights = "lower --lambda-team and --lambda-agent, or " if self.options.config.skilled else ""
            log.warning(
                "at %d steps the last %d evaluations are all below random play (%.4g): what is learnt is not the "
                "reward; %suse a tuned preset", multiple, self._below, self.random_return, weights,
            )  # fmt: skip

    def _workers(self) -> NamedExecutor:
        if self._executor is None:
            self._executor = make_executor(self.options.eval_executor)
        return self._executor

    def close(self) -> None:
        """Stop the worker."""
        if self._executor is not None:
            self._executor.shutdown()
