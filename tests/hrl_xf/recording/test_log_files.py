"""Logs are found wherever they lie, belong to whom they say, and bad ones are named with the reason."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from echelon.hrl_xf.recording.log_files import BadLog, agent_type_of, find_logs, match_agent, match_agents, read_log
from tests.hrl_xf.log_examples import LOGS, PENGUIN_FIRST, put, text_of

FIELD = ["PenguinAgent"] * 3 + ["UltraSuperMiracleSoraFinalAgentZ", "PriceTrendStdAgent", "PonponAgent"]


def test_logs_are_found_in_collections_below_a_parent_and_in_the_folder_itself(tmp_path: Path) -> None:
    text = text_of(PENGUIN_FIRST)
    put(tmp_path / "a", "one", text)
    put(tmp_path / "deep" / "b", "two", text)
    (tmp_path / "agent_three.json").write_bytes(text)
    (tmp_path / "agent_four.json.gz").write_bytes(gzip.compress(text))
    for other in ("agent_stats.csv", "config.json", "agent.json", ".tmp-agent_x.json"):
        (tmp_path / other).write_text("x")
    put(tmp_path / ".hrl_cache", "hidden", text)
    (tmp_path / "loop").symlink_to(tmp_path)
    found = [file.path for file in find_logs(tmp_path)]
    assert found == [
        "a/tracker_logs/agent_one.json", "agent_four.json.gz", "agent_three.json", "deep/b/tracker_logs/agent_two.json",
    ]  # fmt: skip
    assert {agent_type_of(tmp_path, path) for path in found} == {"PenguinAgent"}


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere is not a folder"):
        find_logs(tmp_path / "nowhere")


@pytest.mark.parametrize(("name", "agent"), [("PenguinAgent", "PenguinAgent"), ("Pe", "PenguinAgent"), ("U", FIELD[3])])
def test_a_name_or_a_unique_beginning_matches(name: str, agent: str) -> None:
    assert match_agent(name, FIELD) == agent


def test_an_exact_name_is_preferred_to_longer_ones() -> None:
    assert match_agent("AS", ["AS", "AS0"]) == "AS"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("P", "could be PenguinAgent, PonponAgent, PriceTrendStdAgent"),
        ("pe", "is none"),
        ("", "is none"),
        ("x", "is none"),
    ],
)
def test_other_names_are_an_error_with_the_candidates(name: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        match_agent(name, FIELD)
    assert "PenguinAgent (3 logs)" in str(caught.value)


def test_the_owner_is_found_when_the_head_is_written_otherwise(tmp_path: Path) -> None:
    """Indented, in another order, or long before the name: then the whole text is read."""
    (tmp_path / "agent_x.json").write_text('{"time_series": {"a": [' + "1," * 5000 + '1]}, "agent_type": "AS0"}')
    assert agent_type_of(tmp_path, "agent_x.json") == "AS0"


whole = text_of(PENGUIN_FIRST)
packed = gzip.compress(whole)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("empty.json", b"", "empty"),
        ("blank.json", b" \n", "empty"),
        ("cut.json", whole[: len(whole) // 2], "truncated"),
        ("foreign.json", b'{"worlds": 3}', "format_version"),
        ("text.json", b"hello", "malformed"),
        ("binary.json", bytes(range(256)), "malformed|truncated|utf-8"),
        ("newer.json", whole.replace(b'"format_version":1', b'"format_version":9', 1), "format_version 9 is not 1"),
        (
            "field.json",
            whole.replace(b'"n_lines":10', b'"n_lines":"ten"', 1),
            r"Expected `int`, got `str`.*\$\.entries\[0",
        ),
        ("cut.json.gz", packed[: len(packed) // 2], "cut short after"),
        ("plain.json.gz", whole, "damaged .gz"),
        ("empty.json.gz", b"", "cut short|empty"),
        ("tail.json.gz", packed + b"xx", "after its end"),
    ],
)
def test_a_bad_log_is_named_with_the_reason(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadLog, match=reason) as caught:
        read_log(tmp_path, name)
    assert str(caught.value).startswith(f"{name}: ")


def test_equal_text_has_equal_digests_packed_or_not(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(whole)
    (tmp_path / "a.json.gz").write_bytes(packed)
    assert read_log(tmp_path, "a.json")[1] == read_log(tmp_path, "a.json.gz")[1]
    assert len({read_log(LOGS, str(f.path))[1] for f in find_logs(LOGS)}) == len(find_logs(LOGS))


def test_several_agents_are_named_with_commas() -> None:
    assert match_agents("Penguin, PonponAgent,PenguinAgent", FIELD) == ["PenguinAgent", "PonponAgent"]
    with pytest.raises(ValueError, match="is none of the recorded agents"):
        match_agents("PonponAgent,Nobody", FIELD)
