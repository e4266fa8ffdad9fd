"""Paragraphs: a few scenes are memorised and described by the command; a paragraph is the same alone and in a
batch."""

import json
from base64 import b64encode
from pathlib import Path

import pytest
import torch
from PIL import Image

import clew
from clew.cli.main import main
from clew.core.errors import UserError
from clew.core.modes import evaluating
from clew.data.examples import Described, Regions
from clew.data.kinds.described import described_scene
from clew.data.synthetic.scene_texts import objects_mentioned
from clew.data.synthetic.scenes import scenes
from clew.drawing.views import Overlays
from clew.laws.cases import Sizes
from clew.laws.tasks import BATCH_LAWS, EXAMPLE_LAWS, build_task_case, collated
from clew.metrics.captioning import corpus_values
from clew.recipes.running import run_recipe
from clew.serving.inspector import Inspector, LookRequest, UploadRequest
from clew.serving.service import Service
from clew.serving.worker import Worker
from clew.tasks.captioning import CAPTIONING
from clew.tasks.offers import ModelInput
from clew.tasks.paragraphs import PARAGRAPHS, sentences_of, with_phrases
from clew.tasks.shared.paragraph_measures import paragraph_measures
from clew.tasks.uses.writing import DecodingConfig
from tests.references import paragraphs as references
from tests.references.agreement import randomise
from tests.serving.test_service import ask

SETTINGS = [
    "task.dim=32",
    "task.embedding_dim=16",
    "model.dim=32",
    "model.num_heads=2",
    "task.phrases=true",
    "device=cpu",
]


@pytest.fixture(scope="module")
def examples() -> list[Described]:
    return [described_scene(scene, "across") for scene in scenes(4, 3, "train", side=32, fewest=2, most=3)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, examples: list[Described]) -> Path:
    folder = tmp_path_factory.mktemp("paragraphs")
    lines = []
    for number, example in enumerate(examples):
        assert isinstance(example.picture, Regions)
        Image.fromarray(example.picture.pixels("rgb")).save(folder / f"{number}.png")
        boxes = [list(box) for box in example.picture.boxes]
        lines.append(
            {"image": f"{number}.png", "sentences": example.sentences, "boxes": boxes, "phrases": example.phrases}
        )
    for name in ("train.jsonl", "valid.jsonl"):
        (folder / name).write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    data = [
        "data.corpus=null",
        f"data.train={folder}/train.jsonl",
        f"data.valid={folder}/valid.jsonl",
        "task.best=loss",
    ]
    steps = ["training.steps=80", "training.batch_size=4", "training.learning_rate=0.015", "training.evaluate_every=80"]
    run_recipe("scenes-paragraphs", [*SETTINGS, *data, *steps], out=folder / "run")
    requests = [{name: line[name] for name in ("image", "boxes", "phrases")} for line in lines]
    (folder / "asked.jsonl").write_text("\n".join(map(json.dumps, requests)) + "\n", encoding="utf-8")
    return folder


def test_four_paragraphs_are_memorised_and_written_by_the_command(run, examples, capsys):
    assert main(["caption", str(run / "run"), "--file", str(run / "asked.jsonl"), "--json"]) == 0
    captions = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["sentences"] for each in captions] == [list(example.sentences) for example in examples]
    assert main(["caption", str(run / "run"), "--file", str(run / "asked.jsonl"), "--beams", "3"]) == 0
    assert [line.split("\t")[1] for line in capsys.readouterr().out.splitlines()] == [
        example.target for example in examples
    ]


def test_a_server_accepts_pictures_with_boxes(run, examples):
    worker = Worker()
    service = Service([clew.load(run / "run", device="cpu")], worker, wait=0.0)
    requests = [json.loads(line) for line in (run / "asked.jsonl").read_text(encoding="utf-8").splitlines()]
    rows = [
        {"picture": {"data": b64encode((run / each["image"]).read_bytes()).decode(), "name": each["image"]}, **each}
        for each in requests
    ]
    rows = [{name: value for name, value in row.items() if name != "image"} for row in rows]
    response = ask(service, "/caption", {"texts": rows})
    assert [each["sentences"] for each in response.json()["answers"]] == [
        list(example.sentences) for example in examples
    ]
    assert [each["picture"] for each in response.json()["answers"]] == [each["image"] for each in requests]
    outside = ask(service, "/caption", {**rows[0], "boxes": [[0, 0, 99, 9]], "phrases": ["a"]})
    assert outside.status_code == 400 and "the box [0, 0, 99, 9] leaves the picture" in outside.json()["error"]
    assert worker.close(10.0)


def test_a_paragraphs_probability_covers_its_words_and_its_end(run, examples):
    task = clew.load(run / "run").task
    with evaluating([task]):
        for example, description in zip(examples, task.describe(examples), strict=True):
            assert description.text == example.target
            terms, _ = task(task.collate(task.encode([example])))
            expected = -float(terms["loss"].sum + terms["stop"].sum)
            assert description.log_prob == pytest.approx(expected, abs=1e-4)


def test_a_picture_without_boxes_is_rejected_by_a_model_of_regions(run, capsys):
    assert main(["caption", str(run / "run"), str(run / "0.png")]) == 2
    error = capsys.readouterr().err
    assert "this model reads the regions of a picture, but it has no boxes; give them as" in error
    task = clew.load(run / "run").task
    picture = Regions(scenes(1, 1, "train", side=32)[0], ((0, 0, 40, 8),))
    with pytest.raises(
        UserError,
        match=r"the box \[0, 0, 40, 8\] leaves the picture, which is 32 pixels wide and 32 high;"
        r" give \[left, top, right, bottom\] inside it",
    ):
        task.describe([Described(picture, (), ("a thing",))])
    with pytest.raises(
        UserError,
        match="needs a phrase for each region, and there are 0 phrases and 1 boxes, read by task.input=regions",
    ):
        task.describe([Described(picture, ())])


def boxes_and_phrases(example: Described) -> list[str]:
    return [f"boxes={json.dumps([list(box) for box in example.picture.boxes])}", f"phrases={','.join(example.phrases)}"]


def test_attention_of_words_and_plans_equals_the_equations(run, examples):
    task = randomise(clew.load(run / "run", device="cpu").task)
    example = examples[1]
    inputs = ModelInput(str(run / "1.png"), example.target, boxes=example.picture.boxes, phrases=example.phrases)
    looks = task.looks(inputs)
    assert [each.text for each in looks] == list(example.sentences)
    batch = task.collate(task.encode([example]))
    with evaluating([task]):
        regions = task.body(batch.inputs, batch.mask)[0][0].numpy()
        sentence_vectors = torch.cat(
            [torch.zeros(1, task.config.dim), task.read_sentences(batch.targets[0], batch.real[0])[:-1]]
        ).numpy()
    planner, writer = (
        {name: value.detach().numpy() for name, value in part.named_parameters()}
        for part in (task.planner, task.writer)
    )
    topics = references.planned(planner, sentence_vectors[None], [regions])[0, :, :-1]
    for number, each in enumerate(looks):
        assert each.words == [*example.sentences[number].split(), "<eos>"]
        words = task.embedding(batch.tokens[0, number, : len(each.words)]).detach().numpy()
        expected = references.word_weights(writer, words, topics[number], regions)
        torch.testing.assert_close(each.weights, torch.tensor(expected))
        topic = references.topic_weights(planner, sentence_vectors, regions)[number]
        torch.testing.assert_close(each.topic, torch.tensor(topic))


def test_the_attention_of_each_word_is_drawn_over_the_regions(run, examples, tmp_path, capsys):
    arguments = ["look", "caption", str(run / "run"), str(run / "2.png"), *boxes_and_phrases(examples[2])]
    assert main([*arguments, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["caption"] == examples[2].target and facts["regions"] == len(examples[2].phrases)
    assert [each["words"][:-1] for each in facts["sentences"]] == [
        sentence.split() for sentence in examples[2].sentences
    ]
    for sentence in facts["sentences"]:
        assert [sum(row) for row in [*sentence["weights"], sentence["topic"]]] == pytest.approx(
            [1.0] * (len(sentence["words"]) + 1), abs=1e-4
        )
    assert main([*arguments, "--out", f"{tmp_path}/look.svg"]) == 0
    drawing = (tmp_path / "look.svg").read_text(encoding="utf-8")
    assert drawing.count('class="region mark"') == len(facts["sentences"]) * facts["regions"]
    assert drawing.count("<mask") == sum(len(each["words"]) + 1 for each in facts["sentences"])


@pytest.mark.parametrize(
    ("boxes", "sentence"),
    [
        ([], "this model reads the regions of a picture; give their boxes, such as boxes=[[0,0,24,24],[8,24,40,48]]"),
        (["boxes=[[0,0"], "expected lists in brackets, such as [[0,0,24,24],[8,24,40,48]], found '[[0,0'"),
        (["boxes=[[4,0,2,8]]"], "a box must have left < right and top < bottom, and no number below 0"),
        (
            ["boxes=[[0,0,99,8]]", "phrases=a"],
            "the box [0, 0, 99, 8] leaves the picture, which is 32 pixels wide and 32 high",
        ),
        (["boxes=[[0,0,9,8]]"], "needs a phrase for each region, and there are 0 phrases and 1 boxes"),
        (["boxes=[[0,0,9,8]]", "phrases=a", "layer=2"], "no layer 2 of the decoder attends to the source"),
    ],
)
def test_invalid_boxes_are_rejected(boxes, sentence, run, capsys):
    assert main(["look", "caption", str(run / "run"), str(run / "0.png"), *boxes]) == 2
    assert sentence in capsys.readouterr().err


def test_the_page_shows_attention_over_a_picture_with_boxes(run, examples):
    inspector = Inspector([clew.load(run / "run", device="cpu")])
    data = b64encode((run / "3.png").read_bytes()).decode()
    file = inspector.upload(UploadRequest(runs=("run",), data=data, name="mine.png"))["file"]
    boxes, phrases = (each.partition("=")[2] for each in boxes_and_phrases(examples[3]))
    shown = inspector.look(
        "caption", LookRequest(runs=("run",), options={"text": file, "boxes": boxes, "phrases": phrases.split(",")})
    )
    assert shown["about"].startswith(f"{examples[3].target!r} for mine.png")
    with pytest.raises(UserError, match="mine.png: this model reads the regions of a picture; give their boxes"):
        inspector.look("caption", LookRequest(runs=("run",), options={"text": file}))


def test_the_sample_of_the_page_has_boxes(run):
    inspector = Inspector([clew.load(run / "run", device="cpu")])
    sample = inspector.describe()["runs"][0]["sample"]
    file = inspector.files.find(sample)[0]
    scene = next(iter(scenes(1, 3, "valid", fewest=2)))
    assert sorted(file.boxes) == sorted(scene.boxes()) and [box[0] for box in file.boxes] == sorted(
        box[0] for box in file.boxes
    )
    options = {"text": sample, "phrases": ["a thing"] * len(file.boxes)}
    assert 'class="region mark"' in inspector.look("caption", LookRequest(runs=("run",), options=options))["html"]


def test_sentences_over_a_grid_attend_to_its_rows_and_columns(run, tmp_path):
    data = [
        "data.corpus=null",
        f"data.train={run}/train.jsonl",
        f"data.valid={run}/valid.jsonl",
        "task.best=loss",
        "task.phrases=false",
    ]
    steps = [
        "training.steps=2",
        "training.batch_size=4",
        "training.evaluate_every=2",
        "task.input=patches",
        "task.input.side=32",
    ]
    run_recipe("scenes-paragraphs", [*SETTINGS, *data, *steps], out=tmp_path / "run")
    loaded = clew.load(tmp_path / "run")
    view = clew.look(loaded, "caption", text=str(run / "0.png"), target="a circle . a cross .")
    assert view.facts["grid"] == [4, 4] and [each["text"] for each in view.facts["sentences"]] == [
        "a circle .",
        "a cross .",
    ]
    overlay, table = view.parts[2:]
    assert (
        isinstance(overlay, Overlays)
        and overlay.names == ["(topic)", "a", "cross", ".", "<eos>"]
        and overlay.title == "a cross ."
    )
    for name, weights, row in zip(overlay.names, overlay.maps, table.rows, strict=True):
        assert (name, weights[row[1] - 1, row[2] - 1]) == (row[0], weights.max())
    with pytest.raises(
        UserError,
        match=r"boxes are for models that read regions, but this model reads whole pictures \(patches\);"
        r" leave boxes out",
    ):
        clew.look(loaded, "caption", text=str(run / "0.png"), boxes=[[0, 0, 8, 8]])


def test_predict_reads_the_same_table_as_caption(run, examples, capsys):
    assert main(["predict", str(run / "run"), str(run / "asked.jsonl")]) == 0
    assert [line.split("\t")[1] for line in capsys.readouterr().out.splitlines()] == [
        example.target for example in examples
    ]


def test_a_given_paragraph_is_split_into_sentences():
    assert sentences_of(" A dog runs. Is it 3.5 m long?  Yes ! ") == ["A dog runs.", "Is it 3.5 m long?", "Yes !"]
    assert sentences_of(" ") == []


def test_paragraphs_have_no_n_best_and_no_coverage_penalty(run, capsys):
    assert main(["caption", str(run / "run"), "--file", str(run / "asked.jsonl"), "--n-best", "2"]) == 2
    assert "--n-best (2) must be 1: each sentence of a paragraph is generated after" in capsys.readouterr().err
    with pytest.raises(
        UserError, match=r"coverage_penalty \(0.2\) must be 0: a sentence need not look at the whole picture"
    ):
        clew.load(run / "run").task.check_decoding(DecodingConfig(method="beam", coverage_penalty=0.2))


@pytest.mark.parametrize("law", [*BATCH_LAWS, *EXAMPLE_LAWS])
def test_the_laws_of_tasks_hold(law):
    {**BATCH_LAWS, **EXAMPLE_LAWS}[law](lambda sizes: build_task_case(PARAGRAPHS, sizes), Sizes(2, 3, 2, 4))


def test_beam_search_gives_the_same_paragraph_alone_and_in_a_batch():
    tried = build_task_case(PARAGRAPHS, Sizes(3, 3, 2, 4))
    config = DecodingConfig(method="beam", beams=3, max_new=8)
    with evaluating([tried.task]):
        together = tried.task.write(tried.batch, config)
        alone = [tried.task.write(collated(tried.task, [each]), config)[0] for each in tried.encoded]
    assert [sentences for sentences, _ in together] == [sentences for sentences, _ in alone]
    torch.testing.assert_close(torch.tensor([p for _, p in together]), torch.tensor([p for _, p in alone]))


def test_a_captioner_of_regions_writes_a_phrase_for_every_box(examples):
    captioner = randomise(build_task_case(CAPTIONING, Sizes(2, 3, 2, 8)).task)  # so that pictures differ
    config = DecodingConfig(method="greedy", max_new=5)
    captioned = with_phrases(examples, captioner, config)
    for example, described in zip(examples, captioned, strict=True):
        alone = [captioner.write_for([crop], config)[0][0].text for crop in example.picture.crops()]
        assert list(described.phrases) == alone and described._replace(phrases=example.phrases) == example
    assert len({phrase for described in captioned for phrase in described.phrases}) > 1


def test_measures_of_paragraphs_equal_loops_over_them():
    truth = scenes(40, 5, "valid", side=32)
    targets = [described_scene(scene).target for scene in truth]
    texts = [text if number % 3 else targets[number - 1] + " " + text for number, text in enumerate(targets)]
    texts = [text.replace("small", "large") if number % 5 == 0 else text for number, text in enumerate(texts)]
    values = corpus_values(paragraph_measures(truth, targets, texts))
    counts = [objects_mentioned(text, scene) for text, scene in zip(texts, truth, strict=True)]
    once = [references.all_once(list(each.counts), each.num_invented) for each in counts]
    assert values["all_once"] == pytest.approx(100 * sum(once) / 40) and 0 < sum(once) < 40
    assert values["coverage"] == pytest.approx(references.coverage([list(each.counts) for each in counts]))
    words = [
        [text.replace(" .", "") for text in some] for some in (texts, targets)
    ]  # caption measures ignore punctuation
    assert values["repeated_trigrams"] == pytest.approx(references.repeated_trigrams(words[0]))
    assert values["bleu_4"] == pytest.approx(references.bleu_4(*words))


def test_a_scenes_own_paragraph_mentions_everything_once_and_is_true():
    truth = scenes(50, 2, "test", side=32)
    for order in ("drawn", "across"):
        texts = [described_scene(scene, order).target for scene in truth]
        values = corpus_values(paragraph_measures(truth, texts, texts))
        assert values["all_once"] == values["coverage"] == values["true"] == 100 and values["invented"] == 0
    assert "all_once" not in paragraph_measures(["a.png"], ["a thing"], ["a thing"])[0]
