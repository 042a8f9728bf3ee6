"""The page's colours: credit and blame stay apart for every common form of colour blindness, and text can be read."""

import itertools
import re
from importlib import resources

import numpy as np
import pytest

VIEWER = resources.files("apportion.report") / "viewer"

# How dichromats see linear RGB (Viénot, Brettel and Mollon 1999 for the first two, a common linear fit for the third).
BLINDNESS = {
    "none": np.eye(3),
    "protan": np.array([[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]]),
    "deutan": np.array([[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]]),
    "tritan": np.array([[1.0, 0.14461, -0.14461], [0.0, 0.85924, 0.14076], [0.0, 0.85924, 0.14076]]),
    "achromat": np.tile([0.2126, 0.7152, 0.0722], (3, 1)),
}


def themes():
    css = (VIEWER / "base.css").read_text(encoding="utf-8")
    light, dark = (re.search(pattern, css, re.DOTALL)[1] for pattern in (r":root \{(.*?)\}", r'"dark"\] \{(.*?)\}'))
    return {
        name: dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))
        for name, block in (("light", light), ("dark", dark))
    }


def linear(colour):
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ np.clip(rgb, 0, 1)
    x, y, z = np.cbrt(np.maximum(xyz / [0.9505, 1.0, 1.089], 0.008856))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def apart(one, two, blindness):
    return float(np.linalg.norm(lab(BLINDNESS[blindness] @ linear(one)) - lab(BLINDNESS[blindness] @ linear(two))))


def contrast(one, two):
    low, high = sorted(float(np.array([0.2126, 0.7152, 0.0722]) @ linear(colour)) for colour in (one, two))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("blindness", ["none", "protan", "deutan", "tritan"])
def test_credit_blame_and_zero_stay_apart(theme, blindness):
    colours = themes()[theme]
    assert apart(colours["pos"], colours["neg"], blindness) > 40
    for sign in ("pos", "neg"):
        assert apart(colours[sign], colours["zero"], blindness) > 25


def test_red_and_green_would_not_do():
    assert apart("#c05a04", "#5f8a00", "deutan") < 25
    assert apart("#808080", "#818181", "none") < 2


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("blindness", ["none", "protan", "deutan", "tritan"])
def test_the_first_parts_stay_apart(theme, blindness):
    tones = [themes()[theme][f"tone-{k}"] for k in range(4)]
    assert min(apart(one, two, blindness) for one, two in itertools.combinations(tones, 2)) > 20


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("ink", ["text", "muted", "faint", "pos-text", "neg-text"])
@pytest.mark.parametrize("ground", ["bg", "panel", "sunken"])
def test_text_can_be_read(theme, ink, ground):
    assert contrast(themes()[theme][ink], themes()[theme][ground]) >= 4.5


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_on_full_colour_can_be_read(theme):
    colours = themes()[theme]
    assert min(contrast(colours["on"], colours[name]) for name in ("pos", "neg", "accent")) >= 4.4
