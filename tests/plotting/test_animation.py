"""A film shows the law of a process at growing times; what cannot be filmed is told."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from PIL import Image

import eqsolve


@pytest.fixture(scope="module")
def paths() -> eqsolve.Result:
    return eqsolve.solve("dln_infinite_data", t_max=20, w_star="Uniform(0, 1)")


def test_a_gif_has_the_frames_asked_for(paths: eqsolve.Result, tmp_path: Path) -> None:
    before = plt.get_fignums()
    paths.animate("w", tmp_path / "w.gif", frames=4)
    with Image.open(tmp_path / "w.gif") as image:
        assert image.n_frames == 4
    assert [item.name for item in tmp_path.iterdir()] == ["w.gif"]
    assert plt.get_fignums() == before


def test_frames_show_the_law(paths: eqsolve.Result) -> None:
    film = paths.animate("w", frames=5)
    shape, mean, clock = film._func(4)
    last = paths.law("w", 20.0)
    assert mean.get_xdata()[0] == pytest.approx(last.mean(), rel=1e-6)
    assert clock.get_text() == "t = 20"
    heights, edges, _ = shape.get_data()
    assert heights @ np.diff(edges) == pytest.approx(1.0)
    inside = edges[:-1] > 0.5
    assert (heights * np.diff(edges))[inside].sum() == pytest.approx(0.5, abs=0.05)  # w → w_star, uniform
    film._draw_was_started = True  # it is not to be shown
    plt.close("all")


def test_every_ensemble_of_paths_has_its_own_weights() -> None:
    found = eqsolve.solve(eqsolve.load("teacher_student_tanh").infinite_data(), t_max=0.2, rtol=1e-2)
    name = next(name for name in found.names if found.dataset[name].dims == ("path_2", "t"))
    film = found.animate(name, frames=2)
    heights, edges, _ = film._func(1)[0].get_data()
    assert heights @ np.diff(edges) == pytest.approx(1.0)
    film._draw_was_started = True
    axes = found.plot(name)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["95 %", "50 %", "mean"]
    plt.close("all")


def test_what_cannot_be_filmed(paths: eqsolve.Result, tmp_path: Path) -> None:
    with pytest.raises(eqsolve.UsageError, match=r"`E_test` is not a random process of the result \(there are: w\)"):
        paths.animate("E_test")
    with pytest.raises(eqsolve.UsageError, match=r"ending in \.gif"):
        paths.animate("w", tmp_path / "w.mp4")
    with pytest.raises(eqsolve.UsageError, match="the model has none"):
        eqsolve.solve("volterra_linear", t_max=1).animate("y")
    assert not list(tmp_path.iterdir())


def test_a_sweep_has_a_slider_of_time(tmp_path: Path) -> None:
    before = plt.get_fignums()
    swept = eqsolve.sweep("dln_infinite_data", alpha=[0.1, 0.3, 1], at=[0.5, 1, 2])
    slider = swept.slider("E_test", logy=True)
    assert slider.times == (0.5, 1.0, 2.0)
    assert len(set(slider.pictures)) == 3
    page = slider._repr_html_()
    assert page.count("<img ") == 3
    assert page.count(" hidden>") == 2
    assert "<figcaption>t = 0.5</figcaption>" in page
    assert plt.get_fignums() == before
    slider.save(tmp_path / "times.html")
    assert page in (tmp_path / "times.html").read_text(encoding="utf-8")
    with pytest.raises(eqsolve.UsageError, match="several times"):
        eqsolve.sweep("dln_infinite_data", alpha=[0.1, 0.3], at=1).slider()
    with pytest.raises(eqsolve.UsageError, match="leave out ax= and at="):
        swept.slider(at=1)
