"""Compare the paragraphs that runs write about unseen scenes: `python -m benchmarks.paragraphs RUN [RUN ...]`.

A run may be of the task `paragraphs`, or of captioning, which writes a paragraph as one text; both read the same boxes.
Runs are evaluated on unseen scenes with the pairs of colour and shape from training, and on scenes of the test part,
half of which have a new pair.
"""

import argparse
from collections.abc import Sequence
from typing import Any

import clew
from clew.data.examples import Described
from clew.data.kinds.described import described_scene
from clew.data.synthetic.scenes import Part, scenes
from clew.metrics.captioning import corpus_values
from clew.metrics.measures import in_words
from clew.metrics.statistics import Statistics
from clew.tasks.captioning import Captioner
from clew.tasks.shared.paragraph_measures import paragraph_measures
from clew.tasks.uses.writing import DecodingConfig

SEED = 999
"""A seed that no recipe uses."""


def texts_of(task: Any, examples: Sequence[Described], config: DecodingConfig) -> list[str]:
    if isinstance(task, Captioner):
        return [
            best[0].text if best else "" for best in task.write_for([example.picture for example in examples], config)
        ]
    return [paragraph.text for paragraph in task.describe(examples, config)]


def measure(task: Any, part: Part, count: int, data: Any, config: DecodingConfig) -> dict[str, list[Statistics]]:
    """Compute the statistics of every paragraph, by kind of scene."""
    examples = [
        described_scene(scene, data.order) for scene in scenes(count, SEED, part, side=data.side, most=data.things)
    ]
    pictures = [example.picture for example in examples]
    statistics = paragraph_measures(
        pictures, [example.target for example in examples], texts_of(task, examples, config)
    )
    if part == "train":
        return {"unseen scenes of known pairs": statistics}
    is_novel = [number % 2 == 1 for number in range(count)]  # the order in which scenes are drawn
    return {
        "test part": statistics,
        "test part, known pairs": [each for each, novel in zip(statistics, is_novel, strict=True) if not novel],
        "test part, a new pair": [each for each, novel in zip(statistics, is_novel, strict=True) if novel],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("--count", type=int, default=1000, help="number of scenes of each part")
    parser.add_argument("--beams", type=int, default=1, help="beam size; 1 is greedy decoding")
    options = parser.parse_args()
    for folder in options.runs:
        run = clew.load(folder)
        config = run.config.decoding.model_copy(
            update={"method": "greedy" if options.beams == 1 else "beam", "beams": options.beams, "max_new": 100}
        )
        parts: tuple[Part, Part] = ("train", "test")
        for part in parts:
            for name, statistics in measure(run.task, part, options.count, run.config.data, config).items():
                print(f"{folder}, {len(statistics):,} of {name}: {in_words(corpus_values(statistics))}", flush=True)


if __name__ == "__main__":
    main()
