"""The invariances of LayerNorm, RMSNorm and BatchNorm, and what their values depend on."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from headway.nn.norms import BatchNorm, LayerNorm, RMSNorm, SequenceBatchNorm
from headway.ops import Lengths
from tests.nn.tiny import WIDTH, scramble, tiny_stack

LENGTHS = torch.tensor([5, 2, 3])
REAL = torch.arange(5) < LENGTHS.unsqueeze(-1)


def tokens(rows: int = 3, count: int = 5, width: int = WIDTH) -> Tensor:
    return 3 + 2 * torch.randn(rows, count, width, dtype=torch.float64)


def same(got: Tensor, want: Tensor, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


def batch_norm(momentum: float = 0.1) -> SequenceBatchNorm:
    norm = scramble(BatchNorm(momentum=momentum).build(WIDTH)).double()
    assert isinstance(norm, SequenceBatchNorm)
    return norm


# --- over features -------------------------------------------------------------------------------------------------


def test_layer_norm_forgets_shift_and_scale():
    norm, x = LayerNorm(eps=1e-30).build(WIDTH).double(), tokens()
    for factor, shift in ((0.01, 0.0), (7.0, -3.0), (1e4, 1e3)):
        same(norm(factor * x + shift), norm(x), 1e-8)
    same(norm(-x), -norm(x))  # a negative factor turns the sign


def test_layer_norm_gives_mean_zero_and_variance_one():
    out = LayerNorm(eps=1e-30).build(WIDTH).double()(tokens())
    same(out.mean(-1), torch.zeros(3, 5, dtype=torch.float64))
    same(out.var(-1, unbiased=False), torch.ones(3, 5, dtype=torch.float64))


def test_rms_norm_forgets_scale_and_keeps_shift():
    norm, x = RMSNorm(eps=1e-30).build(WIDTH).double(), tokens()
    same(norm(7 * x), norm(x))
    assert (norm(x + 1) - norm(x)).abs().max() > 0.1


def test_two_features_normalise_to_plus_and_minus_one():
    norm, x = LayerNorm(eps=1e-30).build(2).double(), tokens(width=2)
    larger = (x == x.max(-1, keepdim=True).values).double()
    same(norm(x), 2 * larger - 1)


@pytest.mark.parametrize("width", [2, 5, 64])
def test_no_normalised_feature_exceeds_the_root_of_the_width_less_one(width):
    norm, bound = LayerNorm(eps=1e-30).build(width).double(), math.sqrt(width - 1)
    assert norm(tokens(50, 5, width)).abs().max() <= bound + 1e-12
    peak = torch.zeros(1, 1, width, dtype=torch.float64)
    peak[..., 0] = 1
    same(norm(peak)[0, 0, 0], torch.tensor(bound, dtype=torch.float64))  # one feature alone reaches it


def test_a_constant_vector_normalises_to_the_bias_not_to_nan():
    norm = scramble(LayerNorm().build(WIDTH)).double()
    same(norm(torch.full((1, 1, WIDTH), 4.0, dtype=torch.float64))[0, 0], norm.bias)


@pytest.mark.parametrize("norm", [LayerNorm(), RMSNorm()])
def test_a_feature_norm_depends_on_neither_other_rows_nor_the_mask(norm):
    layer, x = scramble(norm.build(WIDTH)).double().train(), tokens()
    other = x.clone()
    other[1:] = tokens(2)
    assert torch.equal(layer(x)[0], layer(other)[0])
    assert torch.equal(layer(x, REAL), layer(x))


# --- over the batch ------------------------------------------------------------------------------------------------


def test_batch_norm_depends_on_other_rows_in_training_only():
    norm, x = batch_norm(), tokens()
    other = x.clone()
    other[1:] = 5 * tokens(2)
    norm.train()
    assert (norm(x)[0] - norm(other)[0]).abs().max() > 0.1
    norm.eval()
    assert torch.equal(norm(x)[0], norm(other)[0])


def test_batch_norm_leaves_padding_out_of_its_statistics():
    norm, x = batch_norm(), tokens()
    mean, var = norm.running_mean.clone(), norm.running_var.clone()
    expected = F.batch_norm(x[REAL], mean, var, norm.weight, norm.bias, True, 0.1, 1e-5)
    out = norm(x, REAL)
    same(out[REAL], expected)
    same(norm.running_mean, mean)
    same(norm.running_var, var)
    assert torch.equal(out[~REAL], torch.zeros_like(out[~REAL]))


def test_the_content_of_padding_does_not_change_a_batch_norm():
    norm, again = batch_norm(), batch_norm()
    again.load_state_dict(norm.state_dict())
    x = tokens().requires_grad_()
    noisy = torch.where(REAL.unsqueeze(-1), x.detach(), 1e6)
    out = norm(x, REAL)
    same(out[REAL], again(noisy, REAL)[REAL])
    same(norm.running_var, again.running_var)
    (grad,) = torch.autograd.grad(out.square().sum(), x)
    assert torch.equal(grad[~REAL], torch.zeros_like(grad[~REAL]))
    assert grad[REAL].abs().sum() > 0


def test_running_statistics_take_the_unbiased_variance():
    norm, x = batch_norm(momentum=0.25), tokens()
    norm(x, REAL)
    real = x[REAL]
    same(norm.running_mean, 0.25 * real.mean(0))
    same(norm.running_var, 0.75 + 0.25 * real.var(0, unbiased=True))


def test_evaluation_uses_the_running_statistics_and_leaves_them():
    norm, x = batch_norm(), tokens()
    norm(x)
    norm.eval()
    mean, var = norm.running_mean.clone(), norm.running_var.clone()
    out = norm(10 * x, REAL)
    same(out, (10 * x - mean) / (var + 1e-5).sqrt() * norm.weight + norm.bias)
    assert torch.equal(norm.running_mean, mean)
    assert torch.equal(norm.running_var, var)


def test_running_statistics_are_saved_with_the_weights():
    norm = batch_norm()
    norm(tokens())
    copy = BatchNorm().build(WIDTH).double()
    copy.load_state_dict(norm.state_dict())
    x = tokens()
    assert torch.equal(copy.eval()(x), norm.eval()(x))


@pytest.mark.parametrize("place", ["pre", "post"])
def test_a_stack_tells_its_batch_norms_what_is_padding(place):
    def run(noise: float) -> tuple[Tensor, Tensor]:
        torch.manual_seed(1)
        stack = tiny_stack(norm=BatchNorm(), place=place).train()
        x = torch.where(REAL.unsqueeze(-1), tokens(), noise)
        out = stack(x, mask=Lengths(LENGTHS), lengths_B=LENGTHS)
        return out[REAL], stack.blocks[0].attention_norm.running_mean

    for quiet, loud in zip(run(0.0), run(100.0), strict=True):
        same(quiet, loud)
