"""The catalogue's table: a row a task, and how its files may lie in a folder.

| rows                    | where from                                                           |
|-------------------------|----------------------------------------------------------------------|
| cola … wnli             | GLUE (Wang et al., 2018): table 1 of the paper, which leaves out WNLI |
| 20newsgroups … sms_spam | the seventeen further tasks: table 2 of the paper                    |
| clinc150 …              | more tasks, for long streams                                         |
| squad, squad_v2         | questions on a context; the paper has v1.1 (figure 5)                |

Splits of a form: `train`; `dev`, the official one; `test`, only where its labels are published;
`selection`, rows of the official train set that a folder keeps apart to select by; further ones
by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from adapterbank.tasks.task import Kind


@dataclass(frozen=True)
class Form:
    """One way to keep a task: where its splits are, and in which columns."""

    format: Literal["jsonl", "tsv", "squad", "hub"]
    folder: str
    """Below the data folder; on the hub the name and the configuration."""
    files: Mapping[str, str]
    """Split → file, a star for several that are read one after the other; on the hub its split."""
    texts: tuple[str, ...] = ()
    """The columns of the text, or of the two texts."""
    label: str = "label"
    columns: tuple[str, ...] = ()
    """Of files that have no header."""
    may_lack: tuple[str, ...] = ("selection",)
    """Splits that not every copy has."""
    passes_over: bool = False
    """Official files with a few unreadable rows: passed over, and named in the task's notes."""


@dataclass(frozen=True)
class Entry:
    """What is known of a task before its rows are."""

    name: str
    title: str
    forms: tuple[Form, ...]
    kind: Kind = "classification"
    metric: str = "accuracy"
    labels: tuple[str, ...] = ()
    """In the head's order; empty: those of train, sorted."""
    label_names: Mapping[str, str] = field(default_factory=dict)
    """What files may write → the label. If `labels` is empty, these give it."""
    positive: str = ""
    """The class whose F1 is meant."""
    hub: Form | None = None
    """The same task on the Hugging Face hub, if it is known to be there."""
    table: tuple[int, int] | None = None
    """Table of the paper, and the place in it, from 1."""
    answered: bool = False
    """Every question of a span task has an answer: one that lost it is left out of train."""
    note: str = ""

    def __post_init__(self) -> None:
        if not self.labels:
            object.__setattr__(self, "labels", tuple(self.label_names.values()))


SEEN_BY_MINILM = (
    "The embedded base, minilm, is said to have been trained on texts of this set: "
    "what it scores here is not what it would on a new task."
)
WEAK = "Small or noisy: a single run says little, so compare over several seeds."


def _lines(folder: str, *texts: str, **files: str) -> Form:
    """JSON lines: train, dev and what else is named."""
    every = {"train": "train.jsonl", "dev": "dev.jsonl"} | files
    return Form("jsonl", folder, every, texts or ("text",))


def _tsv(folder: str, *texts: str, label: str = "label") -> Form:
    """GLUE's own files."""
    return Form("tsv", folder, {"train": "train.tsv", "dev": "dev.tsv"}, texts, label)


def _hub(name: str, *texts: str, **splits: str) -> Form:
    every = {"train": "train", "dev": "validation"} | splits
    return Form("hub", name, every, texts)


def _numbered(*labels: str) -> dict[str, str]:
    return {str(number): label for number, label in enumerate(labels)}


def _further(name: str, title: str, place: int = 0, **facts: Any) -> Entry:
    """A task beside GLUE; with its place in the paper's table 2 if it is there."""
    form = _lines(f"extra/{name}", **{"test": "test.jsonl"} | facts.pop("files", {}))
    return Entry(name, title, (form,), table=(2, place) if place else None, **facts)


PAIR = ("text_a", "text_b")
KEPT_APART = "dev_from_train.jsonl"
ENTAILMENT = ("entailment", "not_entailment")

_TABLE = (
    Entry(
        "cola",
        "Corpus of Linguistic Acceptability",
        (
            _lines("glue/cola", selection=KEPT_APART),
            replace(_tsv("CoLA", "sentence"), columns=("source", "label", "star", "sentence")),
        ),
        metric="matthews",
        label_names=_numbered("unacceptable", "acceptable"),
        hub=_hub("nyu-mll/glue/cola", "sentence"),
        table=(1, 1),
    ),
    Entry(
        "sst2",
        "Stanford Sentiment Treebank, two classes",
        (_lines("glue/sst2", selection=KEPT_APART), _tsv("SST-2", "sentence")),
        label_names=_numbered("negative", "positive"),
        hub=_hub("nyu-mll/glue/sst2", "sentence"),
        table=(1, 2),
        note="Train holds sentences and phrases of them, so rows cut from train score higher than "
        "the official dev set. Shares 24 % of texts with SUBJ.",
    ),
    Entry(
        "mrpc",
        "Microsoft Research Paraphrase Corpus",
        (
            _lines("glue/mrpc", *PAIR, test="test.jsonl"),
            replace(
                _tsv("MRPC", "#1 String", "#2 String", label="Quality"),
                files={"train": "train.tsv", "dev": "dev.tsv", "test": "msr_paraphrase_test.txt"},
                may_lack=("selection", "test"),
            ),
            replace(
                _tsv("MRPC", "#1 String", "#2 String", label="Quality"),
                files={"train": "msr_paraphrase_train.txt", "test": "msr_paraphrase_test.txt"},
            ),
        ),
        metric="f1",
        label_names=_numbered("not_equivalent", "equivalent"),
        positive="equivalent",
        hub=replace(
            _hub("nyu-mll/glue/mrpc", "sentence1", "sentence2", test="test"), may_lack=("test",)
        ),
        table=(1, 3),
        note="Shares 26 % of texts with STS-B.",
    ),
    Entry(
        "stsb",
        "Semantic Textual Similarity Benchmark",
        (
            _lines("glue/stsb", *PAIR, test="test.jsonl"),
            _tsv("STS-B", "sentence1", "sentence2", label="score"),
        ),
        kind="regression",
        metric="spearman",
        hub=_hub("nyu-mll/glue/stsb", "sentence1", "sentence2"),
        table=(1, 4),
        note="Values from 0 to 5. Shares 26 % of texts with MRPC.",
    ),
    Entry(
        "qqp",
        "Quora Question Pairs",
        (
            _lines("glue/qqp", *PAIR, selection=KEPT_APART),
            replace(_tsv("QQP", "question1", "question2", label="is_duplicate"), passes_over=True),
        ),
        metric="f1",
        label_names=_numbered("not_duplicate", "duplicate"),
        positive="duplicate",
        hub=_hub("nyu-mll/glue/qqp", "question1", "question2"),
        table=(1, 5),
        note=SEEN_BY_MINILM,
    ),
    Entry(
        "mnli",
        "Multi-Genre Natural Language Inference",
        (
            _lines(
                "glue/mnli",
                *PAIR,
                selection=KEPT_APART,
                dev="dev_matched.jsonl",
                mismatched="dev_mismatched*.jsonl",
            ),
            replace(
                _tsv("MNLI", "sentence1", "sentence2", label="gold_label"),
                files={
                    "train": "train.tsv",
                    "dev": "dev_matched.tsv",
                    "mismatched": "dev_mismatched.tsv",
                },
            ),
        ),
        labels=("contradiction", "entailment", "neutral"),
        hub=_hub(
            "nyu-mll/glue/mnli",
            "premise",
            "hypothesis",
            dev="validation_matched",
            mismatched="validation_mismatched",
        ),
        table=(1, 6),
        note="Reported on the matched set; the other one is the split 'mismatched'. "
        + SEEN_BY_MINILM,
    ),
    Entry(
        "qnli",
        "Question-answering Natural Language Inference",
        (
            _lines("glue/qnli", *PAIR, selection=KEPT_APART),
            _tsv("QNLI", "question", "sentence"),
        ),
        labels=ENTAILMENT,
        positive="entailment",
        hub=_hub("nyu-mll/glue/qnli", "question", "sentence"),
        table=(1, 8),
        note="Its paragraphs are SQuAD's, on which the embedded base, minilm, is said to have "
        "been trained.",
    ),
    Entry(
        "rte",
        "Recognizing Textual Entailment",
        (
            _lines("glue/rte", *PAIR, selection=KEPT_APART),
            _tsv("RTE", "sentence1", "sentence2"),
        ),
        labels=ENTAILMENT,
        positive="entailment",
        hub=_hub("nyu-mll/glue/rte", "sentence1", "sentence2"),
        table=(1, 9),
    ),
    Entry(
        "wnli",
        "Winograd Natural Language Inference",
        (
            _lines("glue/wnli", *PAIR, selection=KEPT_APART),
            _tsv("WNLI", "sentence1", "sentence2"),
        ),
        label_names=_numbered("not_entailment", "entailment"),
        hub=_hub("nyu-mll/glue/wnli", "sentence1", "sentence2"),
        note="The paper leaves it out: its dev set is built against what train teaches.",
    ),
    _further("20newsgroups", "20 Newsgroups", 1, note="Long texts."),
    _further("airline", "Airline sentiment (CrowdFlower)", 2),
    _further("corporate_messaging", "Corporate messaging (CrowdFlower)", 3),
    _further("disasters", "Disasters on social media (CrowdFlower)", 4),
    _further("economic_news_relevance", "Economic news relevance (CrowdFlower)", 5),
    _further("emotion", "Emotion in text (CrowdFlower)", 6),
    _further("global_warming", "Global warming tweets (CrowdFlower)", 7),
    _further("political_audience", "Political messages: audience (CrowdFlower)", 8),
    _further(
        "political_bias",
        "Political messages: bias (CrowdFlower)",
        9,
        positive="partisan",
        note=WEAK,
    ),
    _further("political_message", "Political messages: purpose (CrowdFlower)", 10),
    _further("primary_emotions", "Primary emotions of statements (CrowdFlower)", 11, note=WEAK),
    _further(
        "progressive_opinion",
        "Progressive issues: opinion (CrowdFlower)",
        12,
        note=f"The same tweets as progressive_stance. {WEAK}",
    ),
    _further(
        "progressive_stance",
        "Progressive issues: stance (CrowdFlower)",
        13,
        note=f"The same tweets as progressive_opinion. {WEAK}",
    ),
    _further(
        "us_economic_performance", "US economic performance (CrowdFlower)", 14, positive="yes"
    ),
    _further("customer_complaints", "Customer complaints", 15),
    _further(
        "news_aggregator",
        "News aggregator",
        16,
        label_names={
            "b": "business",
            "e": "entertainment",
            "m": "health",
            "t": "science and technology",
        },
    ),
    _further("sms_spam", "SMS spam", 17, positive="spam"),
    _further(
        "clinc150",
        "CLINC150: intents of an assistant",
        files={"out_of_scope": "oos_test.jsonl"},
        note="The split 'out_of_scope' holds texts that belong to no class.",
    ),
    _further("snips", "SNIPS: intents of an assistant"),
    _further(
        "subj",
        "Subjective or objective",
        positive="subjective",
        note="Shares 24 % of texts with SST-2.",
    ),
    _further("agnews7600", "AG News, 7,600 articles"),
    _further(
        "tweeteval_emotion",
        "TweetEval: emotion",
        hub=_hub("cardiffnlp/tweet_eval/emotion", "text", test="test"),
    ),
    _further(
        "tweeteval_irony",
        "TweetEval: irony",
        labels=("non_irony", "irony"),
        hub=_hub("cardiffnlp/tweet_eval/irony", "text", test="test"),
    ),
    Entry(
        "squad",
        "SQuAD v1.1",
        (Form("squad", "squad/v1.1", {"train": "train*.json", "dev": "dev*.json"}),),
        kind="span",
        metric="f1",
        hub=_hub("rajpurkar/squad"),
        answered=True,
        note=SEEN_BY_MINILM,
    ),
    Entry(
        "squad_v2",
        "SQuAD v2.0, with unanswerable questions",
        (Form("squad", "squad/v2.0", {"train": "train*.json", "dev": "dev*.json"}),),
        kind="span",
        metric="f1",
        hub=_hub("rajpurkar/squad_v2"),
        note=SEEN_BY_MINILM,
    ),
)
ENTRIES = {entry.name: entry for entry in _TABLE}
