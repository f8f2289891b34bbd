"""Blocks of attention: what a causal pass over all tokens shares with one over the first few."""

from __future__ import annotations

import pytest
import torch

from echelon.hmasd.networks.attention import DecoderBlock, EncoderBlock
from tests.rounding import assert_equal_but_for_rounding

pytestmark = pytest.mark.numeric


def test_a_decoder_block_gives_the_first_tokens_what_it_gives_them_alone() -> None:
    torch.manual_seed(0)
    block = DecoderBlock(16, 4)
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.normal_()
        x, encoded = torch.randn(3, 5, 16), torch.randn(3, 5, 16)
        whole = block(x, encoded)
        for i in range(1, 6):
            assert_equal_but_for_rounding(block(x[:, :i], encoded[:, :i]), whole[:, :i])


def test_an_encoder_block_lets_every_token_see_every_other() -> None:
    torch.manual_seed(0)
    block, x = EncoderBlock(16, 4), torch.randn(1, 5, 16)
    with torch.no_grad():
        for parameter in block.parameters():
            parameter.normal_()
        before = block(x)
        x[0, 4] += 1.0
        moved = (block(x) - before).abs().amax(-1)[0]
    assert (moved > 1e-5).all()
