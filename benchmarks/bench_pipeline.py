"""How fast logs become batches: parse on one core and on two, memory, size on disk, start cold and warm.

    python benchmarks/bench_pipeline.py --data-dir tournament_history/hrl_data_…_std [--agent PenguinAgent] [--logs 600]

Without --data-dir the small logs of the tests are copied often enough. Each run is a process of its own.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parent.parent / "tests" / "data" / "logs" / "long" / "tracker_logs"


def measure(data_dir: str, agent: str, workers: int, cache: str) -> dict[str, float]:
    """In a process of its own: import, open (building what is missing), first batches."""
    began, began_cpu = time.perf_counter(), time.process_time()
    import numpy as np

    from echelon.hrl_xf.data_pipeline import load_tournament_data
    from echelon.hrl_xf.dataset.datasets import l4_of

    imported = time.perf_counter()
    macro, micro = load_tournament_data(data_dir, agent, workers, cache_dir=cache, quiet=True)
    loaded, cpu = time.perf_counter(), time.process_time()
    macro.batch(np.arange(min(512, len(macro))))
    micro.batch(np.arange(min(512, len(micro))))
    first = time.perf_counter()
    sets = l4_of(macro.data)
    rng = np.random.default_rng(0)
    return {
        "seconds to import": imported - began,
        "seconds to load": loaded - imported,
        "cpu seconds": cpu - began_cpu + resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime,
        "seconds to first batch": first - began,
        "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "peak MB of a worker": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
        "logs": len(macro.data.records),
        "days": len(macro),
        "decisions": len(micro),
        "macro samples/s": rate(macro, 512, rng),
        "micro samples/s": rate(micro, 512, rng),
        "l4 sets/s": rate(sets, 256, rng) if len(sets) else 0.0,
        "json bytes": sum(record.file.size for record in macro.data.records),
        "shard bytes": sum((macro.data.folder / name).stat().st_size for name in macro.data.shards),
    }


def rate(dataset: Any, size: int, rng: Any) -> float:
    """Samples per second in random batches, by the processor's time."""
    began = time.process_time()
    for _ in range(20):
        dataset.batch(rng.integers(0, len(dataset), size))
    return float(20 * size / (time.process_time() - began))


def apart(data_dir: Path, agent: str, workers: int, cache: Path) -> dict[str, float]:
    code = (
        "import sys, json; sys.path.insert(0, sys.argv[1]); import bench_pipeline as b\n"
        "print(json.dumps(b.measure(*sys.argv[2:4], int(sys.argv[4]), sys.argv[5])))"
    )
    arguments = [str(Path(__file__).parent), str(data_dir), agent, str(workers), str(cache)]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def many_logs(source: Path | None, agent: str, count: int, folder: Path) -> Path:
    """`count` logs of the agent as plain JSON: those of a collection, or the small ones, over and over."""
    from echelon.hrl_xf.recording.log_files import agent_type_of, find_logs, match_agent, read_bytes

    target, source = folder / "logs", FIXTURES if source is None else source
    target.mkdir()
    owner = {file.path: agent_type_of(source, file.path) for file in find_logs(source)}
    chosen = [path for path, name in owner.items() if name == match_agent(agent, owner.values())]
    for i in range(count):
        (target / f"agent_{i:06d}.json").write_bytes(read_bytes(source, chosen[i % len(chosen)]))
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--agent", default="PenguinAgent")
    parser.add_argument("--logs", type=int, default=0, help="copy logs until there are so many (0: as they are)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        data = options.data_dir
        if data is None or options.logs:
            data = many_logs(options.data_dir, options.agent, options.logs or 200, folder)
        one = apart(data, options.agent, 1, folder / "one")
        two = apart(data, options.agent, 2, folder / "two")
        warm = apart(data, options.agent, 1, folder / "one")
    logs, days = one["logs"], one["days"]
    print(f"{logs:.0f} logs, {days:.0f} agent-days, {one['decisions']:.0f} decisions, {one['json bytes'] / 1e6:.0f} MB")
    for name, run in (("one core", one), ("two cores", two)):
        seconds, cpu = run["seconds to load"], run["cpu seconds"]
        print(
            f"{name:10s} {logs / seconds:6.0f} logs/s  {days / seconds:7.0f} agent-days/s  "
            f"({logs / cpu:.0f} logs per second of processor time)"
        )
    print(f"peak memory {one['peak MB']:.0f} MB on one core; {two['peak MB of a worker']:.0f} MB a worker on two")
    cold, again, imports = one["seconds to first batch"], warm["seconds to first batch"], warm["seconds to import"]
    print(f"first batch after {cold:.2f} s cold, {again:.2f} s warm (of it {imports:.2f} s imports)")
    print(f"shards are {100 * one['shard bytes'] / one['json bytes']:.1f} % of the logs")
    print("batches: " + ", ".join(f"{warm[k]:.0f} {k}" for k in ("macro samples/s", "micro samples/s", "l4 sets/s")))


if __name__ == "__main__":
    main()
