"""Heads on an encoder: classifiers of texts and tokens, answers and choices, as families made from others.

A folder of such an architecture holds the tensors of a family's encoder under a prefix, and a linear layer of its own.
`with_head` makes the family of one architecture from the family of the encoder, so that a table of heads is all there
is to write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from headway.errors import BadModelError
from headway.interop.config_json import FILE, ConfigFields
from headway.interop.families.bert import BERT
from headway.interop.families.gpt2 import GPT2
from headway.interop.families.longformer import LONGFORMER
from headway.interop.families.roberta import ROBERTA
from headway.interop.families.roformer import ROFORMER
from headway.interop.family import Family, GenerationTokens, Imported, Names, Shape, WeightMapping, map_weights
from headway.models import BertConfig, GptConfig, LongformerConfig
from headway.models.text_classifier import TextClassifierConfig
from headway.models.token_classifier import TokenClassifierConfig
from headway.tasks.base import Task
from headway.tasks.export_request import Head
from headway.tasks.multiple_choice.config import MultipleChoice
from headway.tasks.question_answering.config import QuestionAnswering
from headway.tasks.tagging.config import Tagging
from headway.tasks.text_classification.config import TextClassification

Kind = Literal["text", "tokens"] | Head  # a class of a text, a class of each token, an answer's span, a choice's score
Headed = TextClassifierConfig | TokenClassifierConfig
POOLED = ("text", "choice")  # kinds that read the pooled vector of an input
LENGTH = 512  # tokens that a task reads of a text, where the encoder's context allows it


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadLayout:
    """An architecture of transformers that has an encoder and a linear layer."""

    architecture: str
    kind: Kind
    prefix: str  # of the encoder's tensors in the file, where the encoder's own family has none
    layer: str  # the linear layer in the file
    renamed: Mapping[str, str] = field(default_factory=dict)  # beginnings of names: in the encoder's family -> here

    def in_file(self, name: str) -> str:
        """The name that a tensor of the encoder's family has in the file."""
        for plain, here in self.renamed.items():
            if name.startswith(plain):
                return here + name.removeprefix(plain)
        return self.prefix + name

    def in_family(self, name: str) -> str:
        """The name that a tensor of the file has in the encoder's family."""
        for plain, here in self.renamed.items():
            if name.startswith(here):
                return plain + name.removeprefix(here)
        return name

    def owns(self, name: str) -> bool:
        """Whether a tensor of the file is the linear layer's."""
        return name in (f"{self.layer}.weight", f"{self.layer}.bias")


def with_head(family: Family[Any], head: HeadLayout) -> Family[Headed]:
    """The family of an architecture, from that of its encoder."""

    def read(config: Mapping[str, Any], shapes: Mapping[str, Shape]) -> Imported:
        own = {head.in_family(name): shape for name, shape in shapes.items() if not head.owns(name)}
        found = family.read({**config, "architectures": None}, own)
        return _imported(head, ConfigFields(config), found, shapes)

    def write(model: Headed, tokens: GenerationTokens) -> dict[str, Any]:
        # As many names as classes, or transformers takes two for granted; an export puts those it knows in their place.
        names = {str(number): f"LABEL_{number}" for number in range(model.classes)}
        return {**family.write(_encoder(model), tokens), "architectures": [head.architecture], "id2label": names}

    def mappings(model: Headed) -> list[WeightMapping]:
        own = [
            replace(each, name=f"encoder.{each.name}", hf_names=tuple(map(head.in_file, each.hf_names)))
            for each in family.mappings(_encoder(model))
        ]
        names: Names = {"head": (head.layer,)}
        return own + map_weights(model, names, left_out=("encoder.",))

    def canonical(name: str, model: Headed) -> str:
        return name if head.owns(name) else head.in_file(family.canonical(head.in_family(name), _encoder(model)))

    def ignored(name: str) -> bool:
        plain = head.in_family(name).removeprefix(head.prefix)
        return family.ignored(plain) or (head.kind not in POOLED and plain.startswith("pooler."))

    def with_all_biases(model: Headed) -> Headed:
        return replace(model, encoder=family.with_all_biases(_encoder(model)))

    return Family(
        name=family.name,
        configs=(TextClassifierConfig,) if head.kind in POOLED else (TokenClassifierConfig,),
        architectures=(head.architecture,),
        exports=lambda model: family.matches(_encoder(model)),
        read=read,
        write=write,
        mappings=mappings,
        canonical=canonical,
        ignored=ignored,
        with_all_biases=with_all_biases,
        constants=lambda model: {head.in_file(name): x for name, x in family.constants(_encoder(model)).items()},
        left_out=lambda model: tuple(f"encoder.{name}" for name in family.left_out(_encoder(model))),
    )


def _encoder(model: Headed) -> Any:
    """The config of the encoder as its family knows it; a GPT that classifies has no output layer of its own."""
    encoder = model.encoder
    return replace(encoder, tied=True) if isinstance(encoder, GptConfig) else encoder


def _imported(head: HeadLayout, fields: ConfigFields, found: Imported, shapes: Mapping[str, Shape]) -> Imported:
    """The encoder that was read, with its head; the layer's shape says how many classes there are."""
    name = f"{head.layer}.weight"
    shape = shapes.get(name, ())
    if len(shape) != 2:
        raise BadModelError(f"{FILE}: {head.architecture} without a matrix {name}")
    encoder, classes = found.model, shape[0]
    assert isinstance(encoder, BertConfig | LongformerConfig | GptConfig)
    task, named = _task(head, fields, classes, min(encoder.context, LENGTH))
    model: Headed
    if head.kind in POOLED:
        first = 1 if isinstance(encoder, LongformerConfig) else 0  # its first token has global attention
        model = TextClassifierConfig(encoder=encoder, classes=classes, global_tokens=first)
    else:
        assert not isinstance(encoder, GptConfig)
        model = TokenClassifierConfig(encoder=replace(encoder, pooler=False), classes=classes)
    return replace(found, model=model, task=task, encoder=True, classes=classes if named else None)


def _task(head: HeadLayout, fields: ConfigFields, classes: int, length: int) -> tuple[Task, bool]:
    """The task, and whether its outputs are classes with names."""
    if head.kind == "tokens":
        return Tagging(length=length), True
    if head.kind == "span":
        if classes != 2:
            raise BadModelError(f"{FILE}: {head.layer} has {classes} outputs, expected 2: start and end")
        return QuestionAnswering(length=length), False
    if head.kind == "choice":
        if classes != 1:
            raise BadModelError(f"{FILE}: {head.layer} has {classes} outputs, expected 1: the score of a choice")
        return MultipleChoice(length=length), False
    problem = fields.value("problem_type", None)
    if problem == "regression" or (problem is None and classes == 1):
        return TextClassification(length=length, labels="number"), False
    labels: Literal["multi", "single"] = "multi" if problem == "multi_label_classification" else "single"
    return TextClassification(length=length, labels=labels), True


_CLASSIFIER, _QUESTION = "classifier", "qa_outputs"


def _bert_like(name: str, prefix: str) -> tuple[HeadLayout, ...]:
    """The heads that read each token, which all families have alike."""
    return (
        HeadLayout(architecture=f"{name}ForTokenClassification", kind="tokens", prefix=prefix, layer=_CLASSIFIER),
        HeadLayout(architecture=f"{name}ForQuestionAnswering", kind="span", prefix=prefix, layer=_QUESTION),
    )


def _choice(name: str, prefix: str) -> HeadLayout:
    """The score of a choice from the pooled vector; transformers reads (B, K, T), which is (B·K, T) here."""
    return HeadLayout(architecture=f"{name}ForMultipleChoice", kind="choice", prefix=prefix, layer=_CLASSIFIER)


def _dense_then_out(name: str, prefix: str) -> HeadLayout:
    """RoBERTa's classifier: its dense layer with tanh on the first token is what BERT calls a pooler."""
    return HeadLayout(
        architecture=f"{name}ForSequenceClassification",
        kind="text",
        prefix=prefix,
        layer=f"{_CLASSIFIER}.out_proj",
        renamed={"pooler.dense.": f"{_CLASSIFIER}.dense."},
    )


_HEADS: tuple[tuple[Family[Any], tuple[HeadLayout, ...]], ...] = (  # of several that match, the first is exported to
    (
        ROBERTA,
        (_dense_then_out("Roberta", "roberta."), *_bert_like("Roberta", "roberta."), _choice("Roberta", "roberta.")),
    ),
    (
        BERT,
        (
            HeadLayout(architecture="BertForSequenceClassification", kind="text", prefix="bert.", layer=_CLASSIFIER),
            *_bert_like("Bert", "bert."),
            _choice("Bert", "bert."),
        ),
    ),
    (ROFORMER, _bert_like("RoFormer", "roformer.")),
    # LongformerForQuestionAnswering gives the question global attention, which a classifier of tokens does not have.
    (LONGFORMER, (_dense_then_out("Longformer", "longformer."), _bert_like("Longformer", "longformer.")[0])),
    (
        GPT2,
        (HeadLayout(architecture="GPT2ForSequenceClassification", kind="text", prefix="", layer="score"),),
    ),
)
HEADED: dict[str, tuple[Kind, Family[Headed]]] = {
    head.architecture: (head.kind, with_head(family, head)) for family, heads in _HEADS for head in heads
}
