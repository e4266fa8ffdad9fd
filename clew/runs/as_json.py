"""What a run answers, as the objects that `--json` prints and the server sends: one function a verb, from an answer's number, what was
asked and the answer to its objects. Numbers count from 1."""

from dataclasses import asdict
from typing import Any

Objects = list[dict[str, Any]]


def generated(number: int, prompt: Any, samples: Any) -> Objects:
    """An object a continuation; these are not numbered, but have their prompt."""
    found = []
    for sample in samples:
        fields = {"prompt": sample.prompt, "text": sample.text, "tokens": sample.tokens, "log_prob": sample.log_prob}
        found.append({**fields, **({"score": sample.score} if sample.score is not None else {})})
    return found


def translated(number: int, source: Any, translations: Any) -> Objects:
    names = ("source", "text", "tokens", "log_prob", "score")
    ranked = enumerate(translations if isinstance(translations, list) else [translations], start=1)
    return [{"line": number, "rank": rank, **{name: getattr(each, name) for name in names}} for rank, each in ranked]


def parsed(number: int, sentence: Any, trees: Any) -> Objects:
    """A sentence without words has no tree."""
    ranked = trees if isinstance(trees, list) else [] if trees is None else [trees]
    if not ranked:
        return [{"line": number, "rank": 1, "sentence": sentence, "tree": None}]
    return [
        {"line": number, "rank": rank, "sentence": sentence, "tree": str(each), "log_prob": each.log_prob, "score": each.score}
        for rank, each in enumerate(ranked, start=1)
    ]


def tagged(number: int, text: Any, found: Any) -> Objects:
    return [{"line": number, **asdict(found)}]


def classified(number: int, text: Any, answer: Any) -> Objects:
    if answer is None:
        return [{"line": number, "text": "", "label": None}]
    fields: dict[str, Any] = {"line": number, "text": answer.text}
    if answer.second is not None:
        fields["second"] = answer.second
    if answer.number is not None:
        return [{**fields, "number": answer.number}]
    fields |= {"label": answer.label, "labels": answer.labels, "probabilities": answer.probabilities}
    if getattr(answer, "log_probs", None) is not None:
        fields |= {"log_probs": answer.log_probs, "left_out": answer.left_out}
    nodes = getattr(answer, "nodes", None)
    return [fields if nodes is None else {**fields, "nodes": nodes}]


def filled(number: int, text: Any, found: Any) -> Objects:
    if found is None:
        return [{"line": number, "text": "", "masks": []}]
    fields: dict[str, Any] = {"line": number, "text": found.text}
    if found.second is not None:
        fields |= {"second": found.second, "follows": found.follows}
    masks = [[{"token": guess.token, "probability": guess.probability, "text": guess.text} for guess in guesses] for guesses in found.masks]
    return [{**fields, "masks": masks, "filled": str(found)}]


def answered(number: int, question: Any, found: Any, n_best: int = 1) -> Objects:
    answer = {"answer": None, "start": None, "stop": None, "probability": found.probability}
    if found.answer is not None:
        answer = {"answer": found.text, "start": found.answer.start, "stop": found.answer.stop, "probability": found.probability}
    more = {} if found.no_answer is None else {"no_answer": found.no_answer}
    spans = {"n_best": [asdict(span) for span in found.n_best]} if n_best > 1 else {}
    return [{"id": found.id, "question": found.question, **answer, **more, **spans}]


def embedded(number: int, text: str, found: Any) -> Objects:
    """A vector, or with their places in the text those of its tokens."""
    if not hasattr(found, "offsets"):
        return [{"line": number, "text": text, "vector": found.tolist()}]
    pairs = zip(found.offsets.tolist(), found.vectors.tolist(), strict=True)
    tokens = [{"token": text[start:stop], "start": start, "stop": stop, "vector": vector} for (start, stop), vector in pairs]
    return [{"line": number, "text": text, "tokens": tokens}]
