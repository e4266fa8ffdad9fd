"""Graphs with a label each: JSON lines, and drawn scenes, whose label is their number of figures."""

from collections.abc import Iterator
from itertools import chain

from pydantic import Field

from clew.core.errors import unknown
from clew.data.examples import LabelledGraph
from clew.data.files.given_files import expand_home
from clew.data.formats.graph_files import labelled_graphs
from clew.data.kinds.captioned import part_sizes
from clew.data.kinds.kind import Kind, PartFiles, Parts, cut_files
from clew.data.kinds.section import ExampleData
from clew.data.notes import Notes
from clew.data.synthetic.scene_regions import REGIONS, region_scenes


class LabelledGraphsData(ExampleData):
    """Where the graphs come from: drawn scenes, or your own JSON lines."""

    label: str = Field("label", min_length=1, description="the field of the graph's label")
    size: int = Field(3000, ge=1, description="drawn scenes: their number")


def read_labelled_graph_parts(data: LabelledGraphsData, seed: int, notes: Notes) -> Parts:
    data.check_given(
        'there is no training data; name your graphs with data.train, JSON lines such as {"nodes": ["C", "O"],'
        ' "edges": [[0, 1, "double"]], "label": "a"}'
    )
    if data.corpus is None:
        return cut_files(lambda files: read_labelled_graph_files(files, data, notes), data, seed, by_label=True)
    if data.corpus != REGIONS:
        raise unknown("corpus of graphs with labels", data.corpus, [REGIONS])
    return {
        part: [
            LabelledGraph(scene.graph._replace(tags=None), (str(scene.num_figures),), scene.scene.name)
            for scene in region_scenes(count, seed, part)
        ]
        for part, count in part_sizes(data).items()
    }


def read_labelled_graph_files(files: PartFiles, data: LabelledGraphsData, notes: Notes) -> Iterator[LabelledGraph]:
    return chain.from_iterable(labelled_graphs(expand_home(file), data.label, notes) for file in files)


LABELLED_GRAPHS = Kind(
    name="graphs with labels",
    section=LabelledGraphsData,
    read_parts=read_labelled_graph_parts,
    read_files=read_labelled_graph_files,
)
