"""Each operation beside Pillow's on the same picture; the rest by what it must leave alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps

from headway.data.augment import Augmentation, augmented, constants, draw, erased, shares, shifted
from headway.data.autoaugment import CODES, OPERATIONS, POLICY, RANGES, AutoAugment, amount, operate, policy_tables
from headway.data.synthetic.shapes import scenes
from headway.errors import ConfigError

KNOWN = constants((0.5, 0.5, 0.5), (0.5, 0.5, 0.5), torch.device("cpu"))
FILL = (128, 128, 128)


@pytest.fixture(scope="module")
def pictures():
    drawn = torch.from_numpy(scenes(6, size=32, seed=5).pixels)
    ramp = torch.arange(32 * 32).view(1, 1, 32, 32).expand(1, 3, 32, 32) % 97 + 40  # few levels, a part of the range
    return torch.cat([drawn, ramp.byte(), torch.full((1, 3, 32, 32), 7, dtype=torch.uint8)])


def affine(image, *matrix):
    return image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.NEAREST, fillcolor=FILL)


PILLOW = {
    "shear-x": lambda image, by: affine(image, 1, by, 0, 0, 1, 0),
    "shear-y": lambda image, by: affine(image, 1, 0, 0, by, 1, 0),
    "translate-x": lambda image, by: affine(image, 1, 0, by * image.width, 0, 1, 0),
    "translate-y": lambda image, by: affine(image, 1, 0, 0, 0, 1, by * image.height),
    "rotate": lambda image, by: image.rotate(by, fillcolor=FILL),
    "brightness": lambda image, by: ImageEnhance.Brightness(image).enhance(1 + by),
    "contrast": lambda image, by: ImageEnhance.Contrast(image).enhance(1 + by),
    "color": lambda image, by: ImageEnhance.Color(image).enhance(1 + by),
    "sharpness": lambda image, by: ImageEnhance.Sharpness(image).enhance(1 + by),
    "posterize": lambda image, by: ImageOps.posterize(image, int(by)),
    "solarize": lambda image, by: ImageOps.solarize(image, by),
    "invert": lambda image, by: ImageOps.invert(image),
    "autocontrast": lambda image, by: ImageOps.autocontrast(image),
    "equalize": lambda image, by: ImageOps.equalize(image),
}
MOVING = ("shear-x", "shear-y", "translate-x", "translate-y", "rotate")


def by_pillow(name, pictures, by):
    done = [PILLOW[name](Image.fromarray(each.permute(1, 2, 0).numpy()), by) for each in pictures]
    return torch.from_numpy(np.stack([np.asarray(each) for each in done])).permute(0, 3, 1, 2)


@pytest.mark.parametrize("name", PILLOW)
@pytest.mark.parametrize("level", [1, 4, 9])
@pytest.mark.parametrize("sign", [1, -1])
def test_an_operation_is_pillow_s(pictures, name, level, sign):
    by = amount(name, level) * (sign if name not in ("posterize", "solarize") else 1)
    code = torch.full((len(pictures),), CODES[name])
    made = operate(pictures, code, torch.full((len(pictures),), by), fill=128.0)
    expected = by_pillow(name, pictures, by)
    if name in MOVING:  # a pixel whose origin lies on the border between two may come from either
        assert (made != expected).float().mean() < 0.01
    else:
        assert (made.int() - expected.int()).abs().max() <= 1
        assert (made != expected).float().mean() < 0.02


def test_each_image_has_its_own_operation(pictures):
    names = ["none", "invert", "rotate", "equalize", "color", "posterize", "autocontrast", "shear-x"]
    by = torch.tensor([amount(name, 5) for name in names])
    codes = torch.tensor([CODES[name] for name in names])
    together = operate(pictures, codes, by, fill=128.0)
    assert torch.equal(together[0], pictures[0])
    for n in range(len(names)):
        alone = operate(pictures[n : n + 1], codes[n : n + 1], by[n : n + 1], fill=128.0)
        assert torch.equal(together[n : n + 1], alone)


def test_the_policy_is_the_paper_s_table():
    assert len(POLICY) == 25
    assert set(RANGES) < set(OPERATIONS)
    for row in POLICY:
        for name, chance, level in (row[:3], row[3:]):
            assert name in OPERATIONS
            assert 0 <= chance <= 1
            assert 0 <= level <= 9
    assert amount("posterize", 7) == 5
    assert amount("solarize", 9) == 0


def test_the_policy_gives_levels_and_changes_most_images(pictures):
    many = pictures[:6].repeat(50, 1, 1, 1)
    made = AutoAugment()(many, torch.rand(5, len(many)), policy_tables(many.device))
    assert made.dtype == torch.uint8
    changed = (made != many).flatten(1).any(1).float().mean()
    assert 0.6 < changed < 0.97


def test_flip_and_crop_move_whole_pixels(pictures):
    images = pictures.float()
    none, centre = torch.ones(8), torch.full((2, 8), 0.5)
    assert torch.equal(shifted(images, none, centre, pad=4, flip=True), images)
    assert torch.equal(shifted(images, 0 * none, centre, pad=4, flip=True), images.flip(3))
    assert torch.equal(shifted(images, 0 * none, centre, pad=0, flip=False), images)
    corner = shifted(images, none, torch.zeros(2, 8), pad=4, flip=True)
    assert torch.equal(corner[:, :, 4:, 4:], images[:, :, :-4, :-4])
    assert corner[:, :, :4].abs().max() == 0


def test_erasing_takes_a_rectangle_of_the_size_it_says(pictures):
    draws = torch.rand(5, 4000)
    where = erased(torch.zeros(4000, 3, 32, 32), draws, 0.25)[:, 0].float()
    hit = where.flatten(1).any(1)
    assert 0.22 < hit.float().mean() < 0.28
    area = where[hit].mean((1, 2))
    assert 0.01 < area.min() < area.max() < 0.45
    rows, columns = where[hit].amax(2).sum(1), where[hit].amax(1).sum(1)
    torch.testing.assert_close(rows * columns / 1024, area)  # a full rectangle


def test_what_is_erased_is_as_tall_as_zhong_et_al_have_it():
    draws = torch.stack([torch.zeros(3), torch.full((3,), 0.25), torch.tensor([0.0, 0.5, 1.0]), *torch.zeros(2, 3)])
    where = erased(torch.zeros(3, 3, 320, 320), draws, 1.0)[:, 0].float()
    tall, wide = where.amax(2).sum(1), where.amax(1).sum(1)
    torch.testing.assert_close(tall / wide, torch.tensor([0.3, (0.3 + 1 / 0.3) / 2, 1 / 0.3]), atol=0.05, rtol=0)


def test_the_policy_sees_what_was_cut_out(pictures):
    draws = torch.rand(19, 8, generator=torch.Generator().manual_seed(2))
    made = augmented(Augmentation(policy=AutoAugment()), pictures, draws, KNOWN).images
    cut = shifted(pictures, draws[5], draws[6:8], pad=4, flip=True)
    torch.testing.assert_close(made, KNOWN.normalised(AutoAugment()(cut, draws[:5], KNOWN.tables)))


def test_mixing_shares_add_up(pictures):
    images = pictures.float()
    for which, draws in (("cut", [0.1, 0.1, 0.6, 0.5, 0.5]), ("mix", [0.1, 0.9, 0.6, 0.5, 0.5])):
        own = shares(images, torch.tensor(draws), 0.5)
        assert own.shape == (8, 1, 32, 32)
        assert float(own.mean()) == pytest.approx(0.6, abs=0.04)
        assert own.unique().tolist() == ([0.0, 1.0] if which == "cut" else [pytest.approx(0.6)])
    assert shares(images, torch.tensor([0.6, 0.1, 0.6, 0.5, 0.5]), 0.5).min() == 1


def test_a_seed_decides_everything_and_leaves_the_default_stream_alone(pictures):
    config = Augmentation(policy=AutoAugment(), erase=0.25, mix=1.0)
    before = torch.get_rng_state()
    made = [augmented(config, pictures, draw(8, torch.Generator().manual_seed(seed)), KNOWN) for seed in (3, 3, 4)]
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(made[0].images, made[1].images)
    assert not torch.equal(made[0].images, made[2].images)
    assert made[0].images.dtype == torch.float32
    assert sorted(made[0].partner.tolist()) == list(range(8))
    assert 0 <= made[0].share.min() <= made[0].share.max() <= 1


def test_without_anything_images_are_only_normalised(pictures):
    made = augmented(Augmentation(flip=False, crop=0), pictures, torch.rand(19, 8), KNOWN)
    torch.testing.assert_close(made.images, pictures.float() / 127.5 - 1)
    assert made.share.min() == 1
    torch.testing.assert_close(KNOWN.normalised(pictures), made.images)


def test_chances_outside_0_to_1_are_refused():
    with pytest.raises(ConfigError, match=r"augment.mix=1.5, allowed: 0 to 1"):
        Augmentation(mix=1.5)


@pytest.mark.parametrize("fill", [-1.0, 255.5, float("nan")])
def test_a_fill_that_is_no_level_is_refused(fill):
    with pytest.raises(ConfigError, match=r"augment.policy.fill=.*, allowed: 0 to 255"):
        AutoAugment(fill=fill)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_same_and_waits_for_nothing(pictures):
    device = torch.device("cuda")
    config = Augmentation(policy=AutoAugment(), erase=0.25, mix=1.0)
    draws = torch.rand(19, 8)
    known = constants((0.5, 0.5, 0.5), (0.5, 0.5, 0.5), device)
    there, given = pictures.to(device), draws.to(device)
    torch.cuda.set_sync_debug_mode("error")
    try:
        made = augmented(config, there, given, known)
        draw(8, torch.Generator(device).manual_seed(1))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    expected = augmented(config, pictures, draws, KNOWN)
    assert ((made.images.cpu() - expected.images).abs() > 0.01).float().mean() < 0.01
    assert torch.equal(made.partner.cpu(), expected.partner)
