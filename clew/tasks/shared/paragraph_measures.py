"""What is measured of paragraphs: what they share with their references, and of drawn scenes, whose truth is known,
what they speak of."""

from collections.abc import Sequence
from typing import Any

from clew.data.examples import Regions
from clew.data.synthetic.scene_texts import is_true, objects_mentioned
from clew.data.synthetic.scenes import Scene
from clew.metrics.captioning import measure_captions, paragraph_statistics
from clew.metrics.statistics import Statistics

OF_SCENES = ("all_once", "coverage", "mentioned_once", "true")
"""What is told of scenes, whose truth is known, the highest being best."""


def paragraph_measures(
    pictures: Sequence[Any],
    references: Sequence[str],
    texts: Sequence[str],
    measures: Sequence[str] = ("bleu", "repeated_trigrams"),
) -> list[Statistics]:
    """Of each text on a picture: what it shares with its reference, and where all pictures are scenes what it speaks
    of."""
    found = (
        measure_captions(texts, [[reference] for reference in references], measures).statistics
        if measures
        else [{} for _ in texts]
    )
    inside = [picture.picture if isinstance(picture, Regions) else picture for picture in pictures]
    scenes = [picture for picture in inside if isinstance(picture, Scene)]
    if len(scenes) < len(pictures):
        return found
    mentions = [objects_mentioned(text, scene) for text, scene in zip(texts, scenes, strict=True)]
    return [
        {**paragraph_statistics(each.counts, each.others, is_true(text, scene)), **mine}
        for each, text, scene, mine in zip(mentions, texts, scenes, found, strict=True)
    ]
