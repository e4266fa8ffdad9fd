"""Regions of figures: geometry, edges and labels agree, and a region's own word does not determine its label."""

from collections import defaultdict

import pytest

from clew.data.kinds.dependency_graphs import DEPENDENCY_GRAPHS, DependencyGraphsData
from clew.data.synthetic.scene_regions import FIGURES, LOOSE, region_scene, region_scenes
from clew.data.synthetic.scenes import SHAPES

SCENES = list(region_scenes(200, 1, "train"))
PARTS = {figure.names: figure for figure in FIGURES}


def neighbours(scene):
    """For each region, the regions that touch it, lie inside it or surround it, from pairwise comparison of boxes."""
    things = scene.scene.things
    boxes = [(t.x - t.radius, t.y - t.radius, t.x + t.radius, t.y + t.radius) for t in things]
    touching = [[] for _ in things]
    for one, a in enumerate(boxes):
        for other, b in enumerate(boxes):
            if one == other:
                continue
            across, down = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
            if (across >= 0 and down > 0) or (across > 0 and down >= 0):
                touching[one].append(other)
    return touching


def test_a_region_has_a_neighbour_exactly_if_it_is_part_of_a_figure():
    for scene in SCENES:
        for label, beside in zip(scene.labels, neighbours(scene), strict=True):
            assert len(beside) == (0 if label == LOOSE else 1)


def test_edges_name_the_spatial_relations_of_figure_parts():
    figures = set()
    for scene in SCENES:
        relations = {(source, target): type for source, target, type in scene.graph.edges}
        assert len(relations) == len(scene.labels) * (len(scene.labels) - 1)
        for region, (label, beside) in enumerate(zip(scene.labels, neighbours(scene), strict=True)):
            for other in range(len(scene.labels)):
                if other != region and other not in beside:
                    assert relations[region, other] in ("left of", "right of", "above", "below")
            if label != LOOSE and (label, scene.labels[beside[0]]) in PARTS:
                figure = PARTS[label, scene.labels[beside[0]]]
                assert (scene.scene.things[region].shape, scene.scene.things[beside[0]].shape) == (
                    figure.first,
                    figure.second,
                )
                expected = "inside" if figure.place == "inside" else f"{figure.place}, touching"
                assert relations[region, beside[0]] == expected
                figures.add(figure)
    assert figures == set(FIGURES)


def test_each_shape_word_occurs_with_several_labels():
    labels = defaultdict(set)
    for scene in SCENES:
        for word, label in zip(scene.graph.words, scene.labels, strict=True):
            labels[word.split("_")[1]].add(label)
    assert set(labels) == set(SHAPES) and min(map(len, labels.values())) >= 3


def test_a_scene_is_reproducible_and_counts_its_figures():
    assert SCENES[7] == region_scene("scene-regions train 1 8")
    for scene in SCENES:
        assert 2 * scene.num_figures == sum(label != LOOSE for label in scene.labels)
        assert scene.scene.pixels().shape == (96, 96, 3)


def test_the_corpus_is_split_into_separately_drawn_parts():
    parts = DEPENDENCY_GRAPHS.read(DependencyGraphsData(corpus="scene-regions", size=50, test_fraction=0.2), 1)
    assert {part: len(examples) for part, examples in parts.items()} == {"train": 35, "valid": 5, "test": 10}
    assert parts["train"][0] == region_scene("scene-regions train 1 1").graph


@pytest.mark.parametrize("seed", [1, 2])
def test_another_seed_draws_other_scenes(seed):
    assert next(region_scenes(1, seed, "valid")) != SCENES[0]
