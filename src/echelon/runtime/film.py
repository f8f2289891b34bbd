"""Figures as pictures and frames, frames as a film: GIF, WebP and animated PNG by Pillow, MP4 by imageio-ffmpeg."""

from __future__ import annotations

import io
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from echelon.runtime.files import write_atomic

Frame = NDArray[np.uint8]  # (height, width, 3)

ANIMATED = (".gif", ".webp", ".png")
MP4 = ".mp4"
COLOURS = 64


def check_film(path: Path) -> None:
    """Raise if the film cannot be written; called before an episode is played for it."""
    if path.suffix not in (*ANIMATED, MP4):
        raise ValueError(f"{path} is not a film format; use a name that ends in {', '.join((*ANIMATED, MP4))}")
    if path.suffix == MP4 and find_spec("imageio_ffmpeg") is None:
        raise ValueError(f"{path} needs an encoder: pip install imageio-ffmpeg, or use a name that ends in .gif")


def write_film(path: Path, frames: Iterable[Frame], fps: int) -> int:
    """Write the frames, all of one size; returns how many there were."""
    check_film(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == MP4:
        return _write_mp4(path, frames, fps)
    film = [Image.fromarray(frame).quantize(COLOURS) for frame in frames]
    film[0].save(path, save_all=True, append_images=film[1:], duration=1000 // fps, loop=0)
    return len(film)


def _write_mp4(path: Path, frames: Iterable[Frame], fps: int) -> int:
    import imageio_ffmpeg

    film, count = None, 0
    for frame in frames:
        height, width = (side % 2 for side in frame.shape[:2])
        even = np.pad(frame, ((0, height), (0, width), (0, 0)), mode="edge")  # H.264 stores colour per 2 x 2 pixels
        if film is None:
            size = even.shape[1], even.shape[0]
            film = imageio_ffmpeg.write_frames(str(path), size, fps=fps, codec="libx264", macro_block_size=2)
            film.send(None)
        film.send(np.ascontiguousarray(even))
        count += 1
    if film is not None:
        film.close()
    return count


def pixels(figure: Figure) -> Frame:
    """A figure as a frame."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def write_picture(figure: Figure, path: Path) -> None:
    """SVG or PNG, by the file's name; the same figure gives the same bytes."""
    content = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "echelon"}):
        metadata = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(content, format=path.suffix[1:], dpi=110, metadata=metadata)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, content.getvalue())
