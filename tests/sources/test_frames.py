"""Frames of sound against their definition, their processing before a body reads them, and their augmentation in
training."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from clew.core.batches import rows_of
from clew.core.errors import UserError
from clew.data.sounds.sound_files import Sound
from clew.models import MODELS
from clew.sources.frames import Framed, Frames, Normalisation, deltas, fit_normalisation, normalised, stacked
from clew.sources.log_mel import LogMel, log_mel, mel_filters
from clew.sources.sounds import LogMelReader
from clew.sources.spec_augment import SpecAugment
from tests.references import log_mel as reference
from tests.references.agreement import randn


@pytest.mark.parametrize(
    ("rate", "length", "num_mels", "window_ms", "hop_ms", "low", "high"),
    [
        (1000, 130, 4, 25, 10, 20.0, None),
        (1000, 90, 5, 32, 8, 0.0, 400.0),
        (1000, 7, 3, 25, 10, 50.0, None),  # shorter than a window
        (800, 77, 12, 30, 10, 20.0, None),  # bands narrower than the window's own spectrum
        (1000, 66, 4, 33, 10, 20.0, None),  # an odd window
    ],
)
def test_log_mel_equals_its_definition(
    rate: int, length: int, num_mels: int, window_ms: float, hop_ms: float, low: float, high: float | None
) -> None:
    samples = randn(length, seed=length)
    frames = log_mel(samples, rate, num_mels=num_mels, window_ms=window_ms, hop_ms=hop_ms, low=low, high=high)
    bands = LogMel(rate, num_mels, window_ms, hop_ms, low, high)
    window, hop = round(rate * window_ms / 1000), round(rate * hop_ms / 1000)
    expected = reference.log_mel(samples.numpy(), rate, num_mels, window, hop, bands.fft_size, low, high or rate / 2)
    np.testing.assert_allclose(frames.numpy(), expected, rtol=1e-9, atol=1e-9)
    assert len(frames) == bands.num_frames(length)
    single = log_mel(samples.float(), rate, num_mels=num_mels, window_ms=window_ms, hop_ms=hop_ms, low=low, high=high)
    torch.testing.assert_close(single, frames.float(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("count", [1, 3, 5])
def test_cepstra_are_the_cosine_transform_of_the_bands(count: int) -> None:
    samples = randn(66, seed=2)
    bands = LogMel(1000, 5)
    expected = reference.cepstra(reference.log_mel(samples.numpy(), 1000, 5, 25, 10, bands.fft_size, 20, 500), count)
    np.testing.assert_allclose(
        log_mel(samples, 1000, num_mels=5, cepstra=count).numpy(), expected, rtol=1e-9, atol=1e-9
    )


def test_there_are_at_most_as_many_cepstra_as_bands() -> None:
    with pytest.raises(UserError, match=r"cepstra \(6\) must be from 0 to num_mels \(5\)"):
        LogMel(1000, 5, cepstra=6)


def test_a_sound_without_samples_is_rejected() -> None:
    with pytest.raises(UserError, match=r"samples=tensor\(\[\]\), rate=1000\): the sound is empty; leave it out"):
        LogMelReader(rate=1000).measured(Sound(torch.zeros(0), 1000))


@pytest.mark.parametrize("option", ["frequency_masks", "vocal_tract", "convolve"])
def test_options_for_bands_are_rejected_with_cepstra(option: str) -> None:
    with pytest.raises(
        UserError, match=f"task.input.{option} is for bands, and with cepstra \\(4\\) a frame has none; set it to 0"
    ):
        LogMelReader(
            rate=1000,
            num_mels=5,
            cepstra=4,
            **{option: {"frequency_masks": 1, "vocal_tract": 0.1, "convolve": 8}[option]},
        )


@pytest.mark.parametrize("range_db", [0.0, 10.0])
def test_log_mel_has_a_gradient(range_db: float) -> None:
    samples = randn(60).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x: log_mel(x, 1000, num_mels=3, window_ms=16, hop_ms=12, range_db=range_db), samples
    )


def test_values_below_the_range_are_clipped() -> None:
    samples = randn(200) * torch.linspace(0.001, 1, 200)
    frames = log_mel(samples, 1000, num_mels=4, range_db=20)
    expected = reference.log_mel(samples.numpy(), 1000, 4, 25, 10, LogMel(1000, 4).fft_size, 20, 500, range_db=20)
    np.testing.assert_allclose(frames.numpy(), expected, rtol=1e-9, atol=1e-9)
    assert (frames == frames.min()).sum() > 8
    torch.testing.assert_close(frames.min(), frames.max() - 2 * np.log(10))


def test_loudness_does_not_change_normalised_frames() -> None:
    samples = torch.cat([torch.zeros(100), 0.01 * randn(300), torch.zeros(100)])
    source = Frames(LogMel(1000, 4, range_db=40))
    torch.testing.assert_close(source.read(30 * samples), source.read(samples))


def test_a_tone_is_loudest_in_the_band_around_it_and_silence_is_the_floor() -> None:
    seconds = torch.arange(8000) / 8000
    for tone in (300.0, 1000.0, 2500.0):
        frames = log_mel(torch.sin(2 * torch.pi * tone * seconds), 8000, num_mels=40)
        bands = LogMel(8000, 40)
        tops = mel_filters(bands).argmax(1) * 8000 / bands.fft_size
        assert (frames.argmax(1) == (tops - tone).abs().argmin()).all()
    assert log_mel(torch.zeros(8000), 8000) == pytest.approx(np.log(1e-7))


@given(st.sampled_from([8000, 11025, 16000, 44100]), st.integers(1, 128), st.sampled_from([0.0, 20.0, 125.0]))
def test_every_band_covers_some_frequencies(rate: int, num_mels: int, low: float) -> None:
    filters = mel_filters(LogMel(rate, num_mels, low=low))
    assert (filters.amax(1) > 0).all() and float(filters.max()) <= 1


def test_dither_uses_torchs_generator_and_keeps_silence_above_the_floor() -> None:
    torch.manual_seed(3)
    first, second = (log_mel(torch.zeros(800), 8000, num_mels=10, dither=1e-2) for _ in range(2))
    torch.manual_seed(3)
    repeated = log_mel(torch.zeros(800), 8000, num_mels=10, dither=1e-2)
    assert torch.equal(first, repeated) and not torch.equal(first, second)
    assert (first > np.log(1e-7) + 1).all()


def test_frames_minus_their_mean_keep_their_differences() -> None:
    frames = torch.randn(9, 3, dtype=torch.float64) * 4 + 7
    centred = Frames(3, "mean").read(frames)
    torch.testing.assert_close(centred.mean(0), torch.zeros(3, dtype=torch.float64), atol=1e-12, rtol=0)
    torch.testing.assert_close(centred[1:] - centred[:-1], frames[1:] - frames[:-1])


def test_normalised_frames_have_mean_0_and_variance_1_alone_or_over_all() -> None:
    frames = 3 * randn(50, 4) + torch.arange(4)
    actual = normalised(frames)
    torch.testing.assert_close(actual.mean(0), torch.zeros(4).double(), atol=1e-9, rtol=0)
    torch.testing.assert_close(actual.std(0, correction=0), torch.ones(4).double(), atol=1e-4, rtol=0)
    assert not normalised(torch.full((3, 2), 7.0)).any(), "constant features become 0"
    stored = fit_normalisation([frames[:20], frames[20:23], frames[23:]])
    torch.testing.assert_close(stored(frames), actual, rtol=1e-6, atol=1e-6)
    with pytest.raises(UserError, match="there are no frames to take a mean of; give at least one example"):
        fit_normalisation([])


@pytest.mark.parametrize("length", [1, 2, 3, 9])
def test_deltas_equal_their_definition(length: int) -> None:
    frames = randn(length, 3, seed=length)
    np.testing.assert_allclose(deltas(frames).numpy(), reference.deltas(frames.numpy()), rtol=1e-12, atol=1e-12)
    ramp = torch.arange(9.0)[:, None]
    assert deltas(ramp)[2:-2].flatten().tolist() == [1.0] * 5, "a line changes by its slope"


def test_stacked_frames_are_concatenated_and_the_last_is_repeated() -> None:
    frames = torch.arange(7.0)[:, None]
    assert stacked(frames, 3, 3).tolist() == [[0, 1, 2], [3, 4, 5], [6, 6, 6]]
    assert stacked(frames, 3, 2).tolist() == [[0, 1, 2], [2, 3, 4], [4, 5, 6], [6, 6, 6]]
    assert stacked(frames, 1, 2).flatten().tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize(
    "options", [{}, {"stack": 3}, {"stack": 2, "skip": 1, "deltas": 2}, {"deltas": 1, "normalisation": "none"}]
)
def test_an_example_is_the_same_alone_and_in_a_batch_as_samples_and_as_frames(options: dict[str, Any]) -> None:
    bands = LogMel(1000, 5)
    source = Frames(bands, **options)
    sounds = [randn(length, seed=length) for length in (400, 130, 25, 3)]
    inputs, mask = source.collate(sounds)
    assert mask is not None and mask.sum(1).tolist() == inputs.lengths.tolist() == [
        source.num_positions(len(sound)) for sound in sounds
    ]
    from_frames, _ = source.collate([bands(sound) for sound in sounds])
    assert torch.equal(from_frames.tokens, inputs.tokens) and inputs.tokens.shape[2] == source.width
    for number, sound in enumerate(sounds):
        alone, whole = source.collate([sound])
        assert whole is None and torch.equal(alone.tokens[0], inputs.tokens[number][mask[number]])


def test_given_frames_are_read_unchanged() -> None:
    columns = [randn(9, 4), randn(5, 4, seed=1)]
    inputs, mask = Frames(4, "none").collate(columns)
    assert mask is not None and torch.equal(inputs.tokens[1, :5], columns[1])
    assert Frames(4, stack=2).num_positions(9) == 5


def body(source: Frames, family: str = "recurrent") -> Any:
    options: dict[str, Any] = {"cell": "lstm", "dim": 8, "bidirectional": True}
    return MODELS[family].build(MODELS[family].config(**options), source)


@pytest.mark.parametrize("convolve", [0, 3])
def test_a_body_reads_frames_and_ignores_padding(convolve: int) -> None:
    source = Frames(LogMel(1000, 5), stack=2, augmentation=SpecAugment(), convolve=convolve)
    module = body(source).double().eval()
    sounds = [randn(length, seed=length) for length in (400, 130, 60)]
    inputs, mask = source.collate(sounds)
    assert mask is not None
    spoilt = inputs._replace(tokens=torch.where(mask[..., None], inputs.tokens, 1e3))
    together, _ = module(spoilt, mask)
    for number, sound in enumerate(sounds):
        alone, _ = module(source.collate([sound])[0])
        torch.testing.assert_close(alone[0], together[number][mask[number]], rtol=1e-9, atol=1e-9)


def test_a_body_reads_augmented_frames_only_in_training_and_by_seed() -> None:
    source = Frames(LogMel(1000, 5), augmentation=SpecAugment(time_masks=2, longest=9, widest=3))
    module = body(source)
    inputs, mask = source.collate([randn(400).float(), randn(130).float()])
    torch.manual_seed(1)
    vectors = module.train().embedding.read(inputs)
    torch.manual_seed(1)
    augmented = source.augment(inputs).tokens
    assert torch.equal(vectors, augmented @ module.embedding.map.weight.mT + module.embedding.map.bias)
    assert not torch.equal(augmented, inputs.tokens)
    assert torch.equal(module.eval().embedding.read(inputs), module.embedding.read(inputs.tokens))
    assert torch.equal(rows_of(inputs, slice(1, 2)).lengths, inputs.lengths[1:]), (
        "a batch is cut by rows, lengths with it"
    )


@given(
    st.integers(0, 3),
    st.integers(0, 12),
    st.floats(0, 1),
    st.integers(0, 3),
    st.integers(0, 6),
    st.integers(0, 4),
    st.integers(0, 999),
)
def test_masks_stay_within_each_row_and_keep_its_length(
    time_masks: int, longest: int, share: float, frequency_masks: int, widest: int, warp: int, seed: int
) -> None:
    augment = SpecAugment(time_masks, longest, share, frequency_masks, widest, warp)
    torch.manual_seed(seed)
    lengths = torch.tensor([14, 9, 3, 1])
    frames = randn(4, 14, 10, seed=seed)  # two copies of five bands
    real = torch.arange(14) < lengths[:, None]
    augmented = augment(frames, lengths, 5)
    assert augmented.shape == frames.shape and augmented.isfinite().all()
    assert torch.equal(augmented[~real], frames[~real])
    if warp:
        return
    changed = (augmented != frames) & real[..., None]
    for row, length in enumerate(lengths.tolist()):
        mean = frames[row, :length].mean(0).expand(length, -1)
        torch.testing.assert_close(augmented[row, :length][changed[row, :length]], mean[changed[row, :length]])
        whole_bands = changed[row, :length].all(0)
        assert torch.equal(whole_bands[:5], whole_bands[5:]), "a band is masked in every copy"
        in_time = changed[row, :length].all(1)
        if length > 1 and not whole_bands.all():
            assert int(in_time.sum()) <= time_masks * min(longest, share * length)
            assert int(whole_bands[:5].sum()) <= frequency_masks * widest


def test_masks_are_sampled_uniformly_as_in_the_paper() -> None:
    """Widths are U{0 .. 4}; a mask of width t starts at each of 10 - t + 1 positions with equal probability."""
    torch.manual_seed(0)
    rows = 40_000
    frames = torch.arange(10.0)[None, :, None].expand(rows, -1, -1) + 100
    masked = SpecAugment(time_masks=1, longest=4, frequency_masks=0)(frames, torch.full((rows,), 10), 1)
    hidden = (masked == frames.mean(1, keepdim=True))[..., 0]
    widths = torch.bincount(hidden.sum(1), minlength=5) / rows
    torch.testing.assert_close(widths, torch.full((5,), 0.2), atol=0.01, rtol=0)
    starts = hidden[hidden.sum(1) == 2].int().argmax(1)
    torch.testing.assert_close(
        torch.bincount(starts, minlength=9) / len(starts), torch.full((9,), 1 / 9), atol=0.015, rtol=0
    )


def test_warping_moves_frames_in_order_and_keeps_both_ends() -> None:
    torch.manual_seed(0)
    lengths = torch.tensor([20] * 50 + [13] * 50 + [7] * 5)
    frames = torch.arange(20.0)[None, :, None].expand(105, -1, -1)
    warped = SpecAugment(0, 0, 1.0, 0, 0, warp=4)(frames, lengths, 1)[..., 0]
    for row, length in zip(warped, lengths.tolist(), strict=True):
        assert (
            (row[:length].diff() > 0).all()
            and float(row[0]) == 0
            and float(row[length - 1]) == pytest.approx(length - 1)
        )
        assert torch.equal(row[length:], frames[0, length:, 0])
        assert float((row[:length] - frames[0, :length, 0]).abs().max()) <= 4
    assert (warped[:100, :13] != frames[:100, :13, 0]).any(1).float().mean() > 0.9
    assert torch.equal(warped[100:], frames[100:, :, 0]), "too short to be warped"


def test_invalid_sounds_and_frames_are_rejected() -> None:
    refusals: list[tuple[str, Any]] = [
        (
            r"an example has the shape \[3, 4\]; frames are \(length, 5\), or samples \(length,\), at least one",
            torch.zeros(3, 4),
        ),
        (r"an example has the shape \[0, 5\]; frames are \(length, 5\)", torch.zeros(0, 5)),
        (r"samples are floats \(length,\), not torch.float32 of the shape \[0\]; give one channel", torch.zeros(0)),
        (r"samples are floats \(length,\), not torch.int16 of the shape \[9\]", torch.zeros(9, dtype=torch.int16)),
    ]
    source = Frames(LogMel(1000, 5))
    for sentence, example in refusals:
        with pytest.raises(UserError, match=sentence):
            source.collate([example])
    with pytest.raises(
        UserError, match=r"samples are floats \(length,\), not torch.float32 of the shape \[2, 9\]; give one channel"
    ):
        log_mel(torch.zeros(2, 9), 1000)
    with pytest.raises(UserError, match=r"an example has the shape \[9\]; frames are \(length, 4\), at least one"):
        Frames(4).collate([torch.zeros(9)])


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: LogMel(0), r"rate \(0\) and num_mels \(80\) must be at least 1"),
        (
            lambda: LogMel(8000, high=5000.0),
            r"high \(5000 Hz\), which must be above it and at most half the rate \(4000 Hz\)",
        ),
        (lambda: LogMel(8000, low=300.0, high=200.0), r"low \(300 Hz\) to high \(200 Hz\)"),
        (
            lambda: LogMel(100, 4, hop_ms=1.0),
            r"window_ms \(25\) and hop_ms \(1\) are 2 and 0 samples at a rate of 100"
            "; a window needs 2 and a hop 1",
        ),
        (
            lambda: LogMel(8000, 100_000),
            "100,000 bands are narrower than a spectrum of 65,536 points; lower num_mels or raise low",
        ),
        (lambda: Frames(4, stack=0), r"stack \(0\) and skip \(0\) must be at least 1, and deltas \(0\) at least 0"),
        (lambda: Frames(4, normalisation="uterance"), "unknown normalisation 'uterance'; did you mean 'utterance'"),
        (lambda: Frames(4, Normalisation((0.0,), (1.0,))), "the normalisation has 1 features, but frames have 4"),
        (
            lambda: SpecAugment(share=1.5),
            r"masks and their widths must be 0 or more \(0\), and share \(1.5\) from 0 to 1",
        ),
        (lambda: body(Frames(4)).embedding.weight, "this embedding reads vectors and has no table of tokens"),
        (lambda: Frames(4).embedding(8, word_dropout=0.1), r"model.word_dropout \(0.1\) drops words of a table"),
    ],
)
def test_invalid_settings_are_rejected(build: Any, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        build()


def test_lengths_are_those_of_the_frames() -> None:
    inputs: Framed = Frames(2).collate([randn(3, 2), randn(2, 2)])[0]
    assert isinstance(inputs.tokens, Tensor) and inputs.lengths.tolist() == [3, 2]
