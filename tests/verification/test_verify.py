"""`verify` finds nothing in honest models of every kind, and finds each planted bug in the row that names it."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace

import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch.nn.functional import batch_norm

import headway
from headway import ops
from headway._compile import compiler_missing
from headway.errors import AdviceWarning
from headway.interop.hf_reference import REFERENCE
from headway.models import BertPretrainingConfig, CaptionerVit, ModelOutputs, PoseConfig, Vit, build_model
from headway.nn import frame_convolutions, int8
from headway.nn.int8 import Int8Head, LayerChoice, outliers, quantise
from headway.nn.memory import Memory
from headway.nn.positions import AlibiBias, InputPositions, Rotary, RotaryPositions
from headway.nn.rnn_attention import Aligned
from headway.nn.stack import Stack
from headway.ops.kernels.base import Kernel
from headway.presets import PRESETS
from headway.runs.int8_copy import Int8Facts
from headway.runs.seal import seal_run
from headway.runs.verify import verification_subject
from headway.verification.checks import PRECISIONS
from headway.verification.formulas import alibi_slopes
from headway.verification.int8_layers import int8_layers
from headway.verification.verify import FACTOR, FLOOR, measure_baseline, verify
from tests.interop.runs import bugs, found_in, save, write_run
from tests.models import tiny

RECIPES = [
    name for name, preset in PRESETS.items() if preset.run is not None and preset.task not in ("world", "deciding")
]
GPT, TRANSLATOR, BERT = tiny.GPT, tiny.TRANSLATOR, BertPretrainingConfig(bert=tiny.BERT)
NOT_FOR_A_GPT = {"batch, left padding", "kernel banded", "stored reference", "rotary formula", "ALiBi slopes"}


# --- honest models -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RECIPES)
def test_every_preset_with_a_recipe_is_sound(name, tmp_path):
    findings = found_in(write_run(tmp_path / "run", PRESETS[name].recipe().model))
    wrong = {key: (x.difference, x.bound, x.note) for key, x in findings.items() if x.verdict == "bug"}
    assert not wrong
    images = PRESETS[name].task in ("classification", "pose", "detection")
    assert findings["batch"].verdict == findings["other rows"].verdict == "rounding"
    assert findings["batch, right padding"].verdict == ("not applicable" if images else "rounding")
    assert findings["precision int8"].verdict == findings["precision bf16"].verdict == "rounding"


@pytest.mark.parametrize(
    "name", ["gpt-t5", "gpt-shaw", "gpt-raw-index", "gpt-llama", "transformer-alibi", "seq2seq-context-all"]
)
def test_other_parts_are_sound_too(name, tmp_path):
    findings = found_in(write_run(tmp_path / "run", tiny.ALL[name]))
    assert not [key for key, finding in findings.items() if finding.verdict == "bug"]
    assert findings["cached batch reordered"].verdict == "rounding"


def test_what_does_not_apply_is_said_and_not_passed(tmp_path):
    findings = found_in(write_run(tmp_path / "run", GPT))
    for name in NOT_FOR_A_GPT:
        assert findings[name].verdict == "not applicable"
        assert findings[name].note
    assert findings["compiled"].verdict in ("skipped", "not applicable")
    masked = found_in(write_run(tmp_path / "masked", BERT))
    assert {masked[name].verdict for name in ("cache", "cached batch", "future")} == {"not applicable"}


def test_relative_positions_may_be_padded_on_the_left(tmp_path):
    findings = found_in(write_run(tmp_path / "run", replace(GPT, position=Rotary())))
    for name in ("batch, left padding", "position by distance", "rotary formula"):
        assert findings[name].verdict == "rounding", name


def test_the_bound_is_the_stated_one(tmp_path):
    subject = verification_subject(headway.load(write_run(tmp_path / "run", GPT), device="cpu"))
    level = measure_baseline(subject)
    assert 0 < level.distance < 1e-5
    assert level.bound == max(FACTOR * level.distance, FLOOR * max(1.0, level.largest))
    allowed = PRECISIONS["bf16"]
    assert allowed.bound(level.spread, 1.0) == allowed.rounding
    assert allowed.bound(level.spread, 0.0) == allowed.share * level.spread


def test_what_8_bits_do_to_an_ill_conditioned_model_is_not_a_bug(tmp_path):
    """Found by `headway reliability` on a run of six steps with a learning rate of 0.3."""
    findings = found_in(write_run(tmp_path / "run", GPT, stir=1.5))
    found, honest = findings["precision int8"], PRECISIONS["int8"].share
    subject = verification_subject(headway.load(tmp_path / "run", device="cpu"))
    assert found.difference > honest * measure_baseline(subject).spread
    assert found.verdict == "rounding"
    assert not subject.model.head._forward_pre_hooks


def test_inputs_are_of_unequal_length_from_one_token_to_the_last_place(tmp_path):
    found = headway.load(write_run(tmp_path / "run", GPT), device="cpu")
    examples = verification_subject(found).examples
    assert [each.given for each in examples] == [1, 6, 11, 12]
    assert max(len(each.tokens) for each in examples) == 24  # the table of positions ends there
    assert all(len(each.tokens) - each.given == 12 for each in examples)
    again = verification_subject(found, ["a man is sleeping"]).examples
    assert again[0].given == 4
    assert len({len(each.tokens) for each in again}) > 1  # padding is looked at with a single line, too


# --- planted bugs that part two paths ------------------------------------------------------------------------------


def test_a_position_off_by_one_behind_a_cache(tmp_path, monkeypatch):
    right = InputPositions.forward

    def wrong(self, x, positions, furthest, lengths):
        return right(self, x, positions + (positions > 0) * (furthest > x.shape[1]), furthest, lengths)

    folder = write_run(tmp_path / "run", GPT)
    monkeypatch.setattr(InputPositions, "forward", wrong)
    caught = bugs(folder)
    assert {"cache", "cache in chunks", "cached batch"} <= caught
    assert "batch, right padding" not in caught


def test_an_angle_off_by_one_behind_a_cache(tmp_path, monkeypatch):
    right = RotaryPositions.forward

    def wrong(self, positions, offset):
        return right(self, positions + (1 if isinstance(offset, torch.Tensor) or offset else 0), offset)

    folder = write_run(tmp_path / "run", replace(GPT, position=Rotary()))
    monkeypatch.setattr(RotaryPositions, "forward", wrong)
    assert {"cache", "cached batch"} <= bugs(folder)


def test_a_causal_mask_that_begins_top_left_behind_a_cache(tmp_path, monkeypatch):
    folder = write_run(tmp_path / "run", GPT)
    monkeypatch.setattr(ops.Causal, "at", lambda self, offset: self)
    caught = bugs(folder)
    assert {"cache", "cache in chunks", "cached batch", "kernel auto, cached batch"} <= caught
    assert not {"batch, right padding", "future", "precision bf16"} & caught


@pytest.mark.parametrize(("module", "model"), [("bert", BERT), ("encoder_decoder", TRANSLATOR)])
def test_a_missing_padding_mask(tmp_path, monkeypatch, module, model):
    folder = write_run(tmp_path / "run", model)
    monkeypatch.setattr(f"headway.models.{module}.Lengths", lambda lengths: None)
    assert {"batch, right padding", "padding content", "kernel sdpa"} <= bugs(folder)


def test_a_source_that_does_not_move_with_its_row(tmp_path, monkeypatch):
    folder = write_run(tmp_path / "run", TRANSLATOR)
    monkeypatch.setattr(Memory, "select", lambda self, rows: self)
    assert bugs(folder) == {"cached batch reordered", "company"}


def test_a_kernel_of_its_own_mind(tmp_path, monkeypatch):
    folder = write_run(tmp_path / "run", GPT)
    right = ops.KERNELS["sdpa"]
    monkeypatch.setitem(ops.KERNELS, "sdpa", Kernel(lambda call: 0.99 * right.run(call), right.unsupported_reason))
    caught = bugs(folder)
    assert {"kernel sdpa", "kernel sdpa, cached batch"} <= caught
    assert "kernel few" not in caught


def test_a_path_that_raises_is_a_bug_and_not_the_end(tmp_path, monkeypatch):
    folder = write_run(tmp_path / "run", GPT)

    def fails(self, state, rows):
        raise IndexError("row 7")

    monkeypatch.setattr("headway.models.gpt.Gpt.select", fails)
    findings = found_in(folder)
    assert findings["cached batch"].note == "IndexError: row 7"
    assert findings["cache"].verdict == "rounding"


def test_logits_that_are_no_numbers_are_a_bug(tmp_path, monkeypatch):
    folder = write_run(tmp_path / "run", GPT)
    right = ops.KERNELS["few"]
    broken = Kernel(lambda call: right.run(call) * float("nan"), right.unsupported_reason)
    monkeypatch.setitem(ops.KERNELS, "few", broken)
    assert found_in(folder)["kernel few"].verdict == "bug"


# --- images --------------------------------------------------------------------------------------------------------


def test_an_image_run_is_looked_at_with_noise_and_a_few_of_its_own(tmp_path):
    subject = verification_subject(headway.load(write_run(tmp_path / "run", tiny.VIT, spec="shapes"), device="cpu"))
    assert [tuple(each.image.shape) for each in subject.examples] == [(3, 16, 16)] * 6
    assert subject.inputs.notes == ()
    own = [each.image for each in subject.examples[:2]]
    assert all(-1 <= float(image.min()) < float(image.max()) <= 1 for image in own)  # normalised pixels
    write_run(tmp_path / "gone", tiny.VIT)
    gone = verification_subject(headway.load(tmp_path / "gone", device="cpu")).inputs
    assert len(gone.examples) == 4
    assert "no images of the run's own data" in gone.notes[0]


def test_what_does_not_apply_to_images_is_said(tmp_path):
    findings = found_in(write_run(tmp_path / "run", tiny.VIT))
    for name in ("cache", "cached batch", "batch, right padding", "batch, left padding", "padding content", "future"):
        assert findings[name].verdict == "not applicable", name
    for name in ("batch", "other rows", "kernel auto", "kernel sdpa", "precision bf16", "precision int8"):
        assert findings[name].verdict == "rounding", name
    assert findings["exported and reloaded"].verdict == "rounding"
    shifted = found_in(write_run(tmp_path / "shifted", tiny.VISION["vit-small"]))["exported and reloaded"]
    assert (shifted.verdict, "Shifted" in shifted.note or "shifted" in shifted.note) == ("not applicable", True)


def test_images_that_see_each_other(tmp_path, monkeypatch):
    folder = write_run(tmp_path / "run", tiny.VIT)
    right = Vit.summary
    monkeypatch.setattr(Vit, "summary", lambda self, x: right(self, x) + 0.01 * x.mean((0, 1)) * (len(x) - 1))
    assert {"batch", "other rows"} <= bugs(folder)


def test_a_batch_norm_with_the_batch_s_own_statistics(tmp_path, monkeypatch):
    folder = write_run(tmp_path / "run", tiny.VISION["convnet"])
    assert not bugs(folder)
    monkeypatch.setattr(
        "torch.nn.BatchNorm2d.forward", lambda self, x: batch_norm(x, None, None, self.weight, self.bias, training=True)
    )
    assert {"batch", "other rows"} <= bugs(folder)


def test_heat_maps_have_no_best_class(tmp_path):
    folder = write_run(tmp_path / "run", PoseConfig())
    images = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        maps = headway.load(folder, device="cpu").model(images).contiguous()
    save_file({"images": images, "logits": maps}, folder / REFERENCE)
    seal_run(folder)
    findings = found_in(folder)
    assert findings["stored reference"].verdict == "rounding"
    for name in ("batch", "other rows", "kernel auto", "kernel sdpa", "precision bf16", "precision int8"):
        assert (findings[name].verdict, findings[name].token) == ("rounding", None), name
    for name in ("cache", "batch, right padding", "exported and reloaded"):
        assert findings[name].verdict == "not applicable", name


# --- captions ------------------------------------------------------------------------------------------------------

CAPTIONER_RNN, CAPTIONER_VIT = (tiny.CAPTIONING[name] for name in ("captioner-rnn-lstm", "captioner-vit"))


@pytest.mark.parametrize("name", tiny.CAPTIONING)
def test_every_captioner_is_sound(name, tmp_path):
    findings = found_in(write_run(tmp_path / "run", tiny.CAPTIONING[name]))
    assert not {key: x.note for key, x in findings.items() if x.verdict == "bug"}
    cached = ("cache", "cache in chunks", "cached batch", "cached batch reordered")
    for check in (*cached, "batch, right padding", "future", "padding content", "precision bf16", "precision int8"):
        assert findings[check].verdict == "rounding", check
    kernels = {findings[f"kernel sdpa{path}"].verdict for path in ("", ", cached batch")}
    assert kernels == ({"rounding"} if "vit" in name else {"not applicable"})
    assert findings["exported and reloaded"].verdict == "not applicable"
    assert "has no equivalent in Hugging Face's transformers" in findings["exported and reloaded"].note


def test_a_captioner_is_shown_images_with_captions_of_unequal_length(tmp_path, capsys):
    found = headway.load(write_run(tmp_path / "run", CAPTIONER_VIT, spec="shapes"), device="cpu")
    examples = verification_subject(found).examples
    assert capsys.readouterr().err == ""
    assert [tuple(each.image.shape) for each in examples] == [(3, 16, 16)] * 6  # two of its own, four of noise
    assert [each.given for each in examples] == [1, 6, 11, 12, 1, 6]
    assert {len(each.tokens) - each.given for each in examples} == {12}
    assert {int(each.tokens[0]) for each in examples} == {found.tokenizer.start}
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "captions.txt").write_text("".join(f"{n}.png\ta dog\n" for n in range(3)))
    for n in range(3):
        Image.effect_noise((30, 20), 50).save(folder / f"{n}.png")
    own = verification_subject(headway.load(write_run(tmp_path / "own", CAPTIONER_VIT, spec=str(folder)), device="cpu"))
    assert len(own.examples) == 6
    assert capsys.readouterr().err == ""
    given = verification_subject(found, [str(folder / "0.png"), str(folder / "1.png")]).examples
    assert [each.given for each in given] == [1, 6, 11, 12]
    assert torch.equal(given[0].image, given[2].image)
    assert not torch.equal(given[0].image, given[1].image)


@pytest.mark.parametrize(
    ("model", "part", "also"), [(CAPTIONER_RNN, Aligned, set()), (CAPTIONER_VIT, Memory, {"company"})]
)
def test_an_image_that_does_not_move_with_its_row(tmp_path, monkeypatch, model, part, also):
    folder = write_run(tmp_path / "run", model)
    assert not bugs(folder)
    monkeypatch.setattr(part, "select", lambda self, rows: self)
    assert bugs(folder) == {"cached batch reordered", *also}


def test_a_captioner_that_looks_at_the_next_row_s_image(tmp_path, monkeypatch):
    folder = write_run(tmp_path / "run", CAPTIONER_VIT)
    right = CaptionerVit.encode
    monkeypatch.setattr(CaptionerVit, "encode", lambda self, images: right(self, images.roll(1, 0)))
    assert {"batch", "batch, right padding", "cached batch", "other rows"} <= bugs(folder)


@pytest.mark.parametrize("model", [tiny.SPEECH_CTC, tiny.SPEECH_TRANSFORMER])
def test_a_transcriber_whose_convolutions_read_the_padding(tmp_path, monkeypatch, model):
    folder = write_run(tmp_path / "run", model)
    assert bugs(folder) == set()
    monkeypatch.setattr(frame_convolutions, "_cut", lambda x, lengths: x)
    assert {"batch, right padding", "padding content"} <= bugs(folder)


def test_a_captioner_s_stored_reference(tmp_path):
    folder = write_run(tmp_path / "run", CAPTIONER_VIT)
    found = headway.load(folder, device="cpu")
    generator = torch.Generator().manual_seed(3)
    images = torch.randn(2, 3, 16, 16, generator=generator)
    tokens = torch.randint(found.model.vocab, (2, 9), generator=generator)
    with torch.no_grad():
        save_file({"images": images, "tokens": tokens, "logits": found.model(images, tokens)}, folder / REFERENCE)
    seal_run(folder)
    assert found_in(folder)["stored reference"].verdict == "rounding"
    weights = found.model.state_dict()
    weights["encoder.positions"] = weights["encoder.positions"].flip(0)
    save(folder, weights)
    assert bugs(folder) == {"stored reference"}


# --- planted bugs that all paths share -----------------------------------------------------------------------------


def test_a_model_that_looks_ahead(tmp_path, monkeypatch):
    folder = write_run(tmp_path / "run", GPT)
    monkeypatch.setattr("headway.models.gpt.Gpt._masks", lambda self, offset, segments_BT=None: None)
    assert "future" in bugs(folder)


def test_alibi_slopes_in_another_order(tmp_path, monkeypatch):
    slopes = ops.alibi_slopes(4)
    folder = write_run(tmp_path / "run", replace(GPT, position=AlibiBias()))
    assert "ALiBi slopes" not in bugs(folder)
    monkeypatch.setattr("headway.ops.alibi_slopes", lambda heads: slopes.flip(0))
    assert bugs(folder) == {"ALiBi slopes"}


@pytest.mark.parametrize("heads", [1, 2, 3, 6, 8, 12, 16])
def test_the_slopes_of_any_number_of_heads_are_held_to_a_formula_of_their_own(heads):
    stack = Stack(replace(GPT, width=4 * heads, heads=heads, position=AlibiBias()).stack)
    assert alibi_slopes(stack) < 1e-7


def test_rotary_pairs_of_another_layout(tmp_path, monkeypatch):
    right = ops.rotate
    folder = write_run(tmp_path / "run", replace(GPT, position=Rotary(layout="halves")))
    monkeypatch.setattr("headway.ops.rotate", lambda x, cos, sin, layout: right(x, cos, sin, "interleaved"))
    assert bugs(folder) == {"rotary formula"}


def test_a_position_that_is_not_a_distance(tmp_path, monkeypatch):
    right = ops.rotate
    folder = write_run(tmp_path / "run", replace(GPT, position=Rotary()))
    monkeypatch.setattr("headway.ops.rotate", lambda x, cos, sin, layout: right(x, cos, sin.abs(), layout))
    assert {"position by distance", "rotary formula", "batch, left padding"} <= bugs(folder)


def test_a_tied_matrix_quantised_with_the_embedding_s_scale(tmp_path, monkeypatch):
    right = Int8Head.__init__
    folder = write_run(tmp_path / "run", TRANSLATOR)

    def wrong(self, weight, bias, parts=()):
        right(self, weight * weight.shape[1] ** 0.5, bias, parts)

    monkeypatch.setattr(Int8Head, "__init__", wrong)
    assert bugs(folder) == {"precision int8", "int8 layers"}


def test_a_tied_matrix_quantised_with_scales_of_other_rows(tmp_path, monkeypatch):
    right = Int8Head.forward
    folder = write_run(tmp_path / "run", GPT)

    def wrong(self, x, embedding=None):
        return right(self, x) * (self.scale.roll(1) / self.scale)

    monkeypatch.setattr(Int8Head, "forward", wrong)
    found = found_in(folder)
    assert found["precision int8"].verdict == found["int8 layers"].verdict == "bug"
    assert found["int8 layers"].note == "largest in head"


def test_a_wrong_8_bit_layer_that_the_choice_goes_around(tmp_path, monkeypatch):
    """Scales of other rows in the plain output layer alone: where it is chosen in float32, outputs do not show it."""
    folder, right = write_run(tmp_path / "run", GPT), Int8Head.forward
    facts = Int8Facts(rise=0.0, methods={"head": "fp32"})

    def around(parts, task):
        model = copy.deepcopy(parts.model)
        quantise(model, {"head": LayerChoice("fp32")})
        return model, facts

    monkeypatch.setattr("headway.runs.int8_choice.quantised", around)
    assert not bugs(folder)
    monkeypatch.setattr(Int8Head, "forward", lambda self, x, _=None: right(self, x) * (self.scale.roll(1) / self.scale))
    found = found_in(folder)
    assert found["precision int8"].verdict == "rounding"
    assert found["int8 layers"].verdict == "bug"


@pytest.mark.parametrize("method", ["rows", "smooth", "two-part"])
def test_a_chosen_layer_that_is_packed_with_the_scales_of_other_rows(method, monkeypatch):
    model = build_model(GPT, seed=1).eval()
    with torch.no_grad():
        model.stack.blocks[1].feedforward.down.weight[::2] *= 1.03  # rows differ by little
    name, right = "stack.blocks.1.feedforward.down", outliers.OutlierInt8Linear.pack
    peaks = torch.rand(model.get_submodule(name).in_features, generator=torch.Generator().manual_seed(2))

    def error():
        chosen = copy.deepcopy(model)
        quantise(chosen, {name: LayerChoice(method, peaks)})
        with torch.no_grad():
            return int8_layers(model, chosen)

    assert error()[0] < 0.6  # half a step of a weight, by rounding
    monkeypatch.setattr(
        outliers.OutlierInt8Linear, "pack", lambda self: int8.pack_weight(self.weight, self.scale.roll(1), None)
    )
    assert error() > (10.0, name)
    monkeypatch.setattr(outliers.OutlierInt8Linear, "pack", right)
    assert error()[0] < 0.6


# --- planted bugs that only another program's logits show ----------------------------------------------------------


def keep_reference(folder):
    """What an importer does: tokens, and the logits that the right weights give for them."""
    found = headway.load(folder, device="cpu")
    tokens = torch.randint(found.model.vocab, (2, 9), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        save_file({"tokens": tokens, "logits": found.model(tokens)}, folder / REFERENCE)
    seal_run(folder)
    return found.model.state_dict()


def swapped_q_and_k(weights):
    for name in [name for name in weights if ".qkv." in name]:
        q, k, v = weights[name].chunk(3)
        weights[name] = torch.cat([k, q, v])


def transposed_conv1d(weights):
    name = "stack.blocks.0.attention.out.weight"
    weights[name] = weights[name].mT


@pytest.mark.parametrize("plant", [swapped_q_and_k, transposed_conv1d])
def test_weights_imported_wrongly(tmp_path, plant):
    folder = write_run(tmp_path / "run", GPT)
    weights = keep_reference(folder)
    assert found_in(folder)["stored reference"].verdict == "rounding"
    plant(weights)
    save(folder, weights)
    finding = found_in(folder)["stored reference"]
    assert bugs(folder) == {"stored reference"}
    assert finding.difference > finding.bound


def test_rotary_weights_imported_with_the_other_layout(tmp_path):
    folder = write_run(tmp_path / "run", replace(GPT, position=Rotary(layout="halves")))
    keep_reference(folder)
    config = folder / "config.yaml"
    config.write_text(config.read_text().replace("halves", "interleaved"))
    seal_run(folder)
    assert bugs(folder) == {"stored reference"}


def test_an_export_that_reads_back_otherwise(tmp_path):
    subject = verification_subject(headway.load(write_run(tmp_path / "run", GPT), device="cpu"))
    level = measure_baseline(subject)

    def too_large(inputs):
        return ModelOutputs(tokens=1.01 * subject.model.run(inputs).tokens)

    for model, verdict in ((subject.model.run, "rounding"), (too_large, "bug")):
        changed = replace(subject, round_trip=lambda model=model: model)
        findings = {finding.check.name: finding for finding in verify(changed, level)}
        assert findings["exported and reloaded"].verdict == verdict


def test_a_kernel_that_steps_aside_is_not_passed(tmp_path, monkeypatch):
    """What ran was another kernel, so that nothing was learnt about this one."""
    folder = write_run(tmp_path / "run", GPT)
    right = ops.KERNELS["few"]

    def aside(call):
        warnings.warn("few steps aside for sdpa", AdviceWarning, stacklevel=1)
        return right.run(call)

    monkeypatch.setitem(ops.KERNELS, "few", Kernel(aside, right.unsupported_reason))
    finding = found_in(folder)["kernel few"]
    assert (finding.verdict, finding.note) == ("not applicable", "few steps aside for sdpa")


@pytest.mark.slow
@pytest.mark.skipif(compiler_missing("cpu") is not None, reason="no compiler")
def test_what_torch_compiles_agrees(tmp_path):
    """Slow: torch.compile takes about a minute."""
    subject = verification_subject(headway.load(write_run(tmp_path / "run", GPT), device="cpu"), compiled=True)
    findings = {finding.check.name: finding for finding in verify(subject, measure_baseline(subject))}
    for name in ("compiled", "kernel flex", "kernel flex, cached batch"):
        assert findings[name].verdict == "rounding"
