"""Metrics of paragraphs: how they match their references, and for generated scenes, whose contents are known, what
they mention."""

from collections.abc import Sequence
from typing import Any

from clew.data.examples import Regions
from clew.data.synthetic.scene_texts import is_true, objects_mentioned
from clew.data.synthetic.scenes import Scene
from clew.metrics.captioning import measure_captions, paragraph_statistics
from clew.metrics.statistics import Statistics

OF_SCENES = ("all_once", "coverage", "mentioned_once", "true")
"""Metrics of scenes, whose contents are known; higher is better."""


def paragraph_measures(
    pictures: Sequence[Any],
    references: Sequence[str],
    texts: Sequence[str],
    measures: Sequence[str] = ("bleu", "repeated_trigrams"),
) -> list[Statistics]:
    """Return the statistics of each text: how it matches its reference, and if all pictures are scenes, what it
    mentions."""
    caption_statistics = (
        measure_captions(texts, [[reference] for reference in references], measures).statistics
        if measures
        else [{} for _ in texts]
    )
    plain_pictures = [picture.picture if isinstance(picture, Regions) else picture for picture in pictures]
    scenes = [picture for picture in plain_pictures if isinstance(picture, Scene)]
    if len(scenes) < len(pictures):
        return caption_statistics
    mentions = [objects_mentioned(text, scene) for text, scene in zip(texts, scenes, strict=True)]
    return [
        {**paragraph_statistics(mention.counts, mention.num_invented, is_true(text, scene)), **statistics}
        for mention, text, scene, statistics in zip(mentions, texts, scenes, caption_statistics, strict=True)
    ]
