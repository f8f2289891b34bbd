"""Training samples per second, data loading included, and the share of time the loader takes; answers in play.

The data are the small real logs of the tests, repeated until an epoch is long enough to time. Run:
`python benchmarks/bench_training.py [--data-dir DIR --agent-name NAME] [--threads 1 2]`. The first batch size of each
layer is the command's default.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "2")

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from echelon.hrl_xf.dataset.datasets import MicroDataset, Rows, l4_of, macro_of, micro_of
from echelon.hrl_xf.dataset.tournament import open_tournament
from echelon.hrl_xf.learning.fit import fit
from echelon.hrl_xf.learning.losses import l2_loss, l3_loss, l4_loss
from echelon.hrl_xf.learning.sources import L2Source, L3Source, L4Source, situation_of
from echelon.hrl_xf.learning.task import FitSettings, FitTask, Source
from echelon.hrl_xf.networks.files import Layer
from echelon.hrl_xf.networks.l2_manager import HorizonManagerPPO
from echelon.hrl_xf.networks.l3_executor import TemporalDecisionTransformer
from echelon.hrl_xf.networks.l4_coordinator import GlobalCoordinator
from echelon.hrl_xf.options.train import TrainConfig

SMALL = Path(__file__).parent.parent / "tests" / "data" / "logs"
ENOUGH = 20_000


def repeated(rows: Rows[Any]) -> Any:
    """The same rows again and again."""
    times = max(1, ENOUGH // max(len(rows), 1))
    return rows.pick(np.tile(np.arange(len(rows)), times))


def train_rate(name: str, layer: Layer, source: Source, loss: Any, batch_size: int) -> None:
    """Epochs of a fit as the command makes them: the best of three by the clock, and all by processor time.

    On a machine with other work only the second says what the code costs (with one core; more wait for each other).
    """
    settings = FitSettings(epochs=3, batch_size=batch_size, lr=1e-3, average=0.0, save_every=10, checkpoint_seconds=1e9)
    with tempfile.TemporaryDirectory() as folder:
        begun = time.process_time()
        reports = list(fit(FitTask(name, layer, source, None, loss, "bench"), settings, Path(folder)))
        work = time.process_time() - begun
    best = max(reports, key=lambda r: r.samples_per_second)
    parameters = sum(p.numel() for p in layer.parameters())
    loading = sum(r.loader_share * r.seconds for r in reports) / sum(r.seconds for r in reports)
    print(
        f"  {name}  {parameters:7,} parameters  batches of {batch_size:5,}  {best.samples_per_second:9,.0f} samples/s  "
        f"{len(reports) * len(source) / work:9,.0f} a processor second  "
        f"loader {loading:.1%}"
    )


def answer_time(rows: MicroDataset, threads: int = 12, rounds: int = 200) -> None:
    """One answer for all threads: each told one more offer, then one forward."""
    layer = TemporalDecisionTransformer().eval()
    batch = rows.batch(np.arange(min(len(rows), threads)))
    situation = situation_of(batch, np.full(len(batch.thread), 0.1, np.float32))
    n = len(situation)
    token = np.tile(np.array([5.0, 0.5, 2.0, 0.0], np.float32), (n, 1, 1))  # one more offer in each thread
    at, one, seconds = np.arange(n), np.ones(n, np.int64), []
    cache = layer.new_cache(n)
    for i in range(rounds):
        if i % 20 == 0:
            cache.restart()
        begun = time.perf_counter()
        cache.tell(at, token, one)
        layer.act(cache.states(at), situation)
        seconds.append(time.perf_counter() - begun)
    milliseconds = [1e3 * s for s in seconds[20:]]
    p99 = float(np.quantile(milliseconds, 0.99))
    print(f"  L3 answers {n} threads in {statistics.median(milliseconds):.2f} ms (median), {p99:.2f} ms (p99)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=SMALL)
    parser.add_argument("--cache-dir", type=Path)
    parser.add_argument("--agent-name", default="PenguinAgent")
    parser.add_argument("--threads", type=int, nargs="+", default=[1], help="two, only where nothing else runs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cache = options.cache_dir or folder
        data = open_tournament(options.data_dir, options.agent_name, 1, cache_dir=cache, quiet=True)
        l2, l4 = L2Source(repeated(macro_of(data))), L4Source(repeated(l4_of(data)))
        micro = micro_of(data)  # never repeated: a thread stands in a source once
        l3 = L3Source(micro)
        train_rate("L2-first", HorizonManagerPPO(), l2, l2_loss(), 2048)  # pays for what torch loads at first use
        for threads in options.threads:
            torch.set_num_threads(threads)
            print(f"{threads} core{'s' if threads > 1 else ''}:")
            for size in (TrainConfig.l2_batch_size, 128, 512, 2048):
                train_rate("L2", HorizonManagerPPO(), l2, l2_loss(), size)
            train_rate("L2-wide", HorizonManagerPPO(channels=(32, 64), hidden=128), l2, l2_loss(), 512)
            for size in (TrainConfig.l3_batch_size, 2048):
                train_rate("L3", TemporalDecisionTransformer(), l3, l3_loss, size)
            train_rate("L4", GlobalCoordinator(), l4, l4_loss, TrainConfig.l4_batch_size)
        torch.set_num_threads(1)
        answer_time(micro)


if __name__ == "__main__":
    main()
