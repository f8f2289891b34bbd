"""Films: every format holds the frames it was given, and an unknown format is refused before anything is played."""

from __future__ import annotations

from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image

from echelon.cli import main
from echelon.runtime import film
from echelon.runtime.film import Frame, write_film


def colours(count: int) -> list[Frame]:
    """Frames of an odd size, one plain colour each."""
    return [np.full((33, 47, 3), (60 * i, 200 - 40 * i, 90), np.uint8) for i in range(count)]


@pytest.mark.parametrize("suffix", film.ANIMATED)
def test_an_animation_has_all_frames(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"new/film{suffix}"
    assert write_film(path, colours(4), fps=5) == 4
    with Image.open(path) as read:
        assert (read.n_frames, read.size) == (4, (47, 33))  # type: ignore[attr-defined]  # animated formats have it


def test_an_mp4_has_all_frames_in_their_colours(tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    assert write_film(path, iter(colours(4)), fps=5) == 4
    reader = imageio_ffmpeg.read_frames(str(path))
    about = next(reader)
    assert (about["fps"], about["size"]) == (5, (48, 34))
    shown = [np.frombuffer(frame, np.uint8).reshape(34, 48, 3) for frame in reader]
    assert len(shown) == 4
    for frame, wanted in zip(shown, colours(4), strict=True):
        assert np.abs(frame.astype(int) - wanted[0, 0].astype(int)).max() <= 12, "compressed, but the colour is there"


def test_what_is_no_film_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def render(name: str) -> str:
        command = ["hmasd", "render", "--model-path", str(tmp_path), "--output", str(tmp_path / name)]
        assert main(command) != 0
        return capsys.readouterr().err

    assert "use a name that ends in .gif, .webp, .png, .mp4" in render("film.avi")
    monkeypatch.setattr(film, "find_spec", lambda _: None)  # as where the extra was not installed
    assert "needs an encoder: pip install imageio-ffmpeg" in render("film.mp4")
