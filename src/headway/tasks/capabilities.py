"""What runs can do, one class a command: a pipeline inherits the ones it has, and `Run.require` asks for one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from headway.errors import ConfigError
from headway.tasks.base import ignore
from headway.tasks.json_calls import FILE, QUESTION, TEXT, integer, json_call, number

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from headway.data.chat_template import ChatTemplate
    from headway.data.chats import Conversation
    from headway.data.image_decoding import Pixels
    from headway.decoding.constraints import Constraints
    from headway.decoding.sampling import Sampling
    from headway.decoding.trace import Trace
    from headway.tasks.answers import AnswerPrediction, Asked, AskedQuestion
    from headway.tasks.captioning.attention_maps import AttentionMap
    from headway.tasks.captioning.pipeline import Caption
    from headway.tasks.classifier import Prediction
    from headway.tasks.detection.pipeline import DetectedObjects
    from headway.tasks.image_classification.patches import ImagePatches
    from headway.tasks.pose.pipeline import EstimatedPose
    from headway.tasks.report import Section
    from headway.tasks.tagging.pipeline import TagPrediction
    from headway.tasks.transcription.pipeline import Transcript
    from headway.tasks.translation.config import Decoding
    from headway.tasks.translation.translator import Translator

PictureKind = Literal["png", "svg"]
BEAM = integer(1, 64, "hypotheses of the search; by default the recipe's")


class Capability(ABC):
    """Something a run can be asked to do, by the name of its command."""

    verb: ClassVar[str]  # the name of its command


class Translates(Capability):
    """Text in, text out, by beam search."""

    verb = "translate"

    @abstractmethod
    def translator(
        self,
        decoding: Decoding,
        *,
        ensemble: Sequence[Translates] = (),
        note: Callable[[str], None] = ignore,
        on_trace: Callable[[Trace], None] | None = None,
    ) -> Translator:
        """What translates blocks of lines one after the other with these settings, as the mean of an ensemble."""

    @abstractmethod
    def constraints(
        self, *, prefix: str = "", must: Sequence[str] = (), ban: Sequence[str] = (), no_repeat: int = 0
    ) -> Constraints | None:
        """Constraints on the output, given as text. Raises ConfigError for text that the vocabulary cannot write."""


class Generates(Capability):
    """Continues a prompt."""

    verb = "generate"

    @abstractmethod
    def prompt(self, text: str) -> Tensor:
        """A prompt as tokens (1, T). Raises DataError for an empty one, or text the vocabulary lacks."""

    @abstractmethod
    def generate(
        self,
        prompt: str,
        sampling: Sampling,
        *,
        max_tokens: int = 200,
        stop: Sequence[str] = (),
        seed: int = 0,
        number: int = 0,
    ) -> Iterator[str]:
        """The continuation, in pieces as they are drawn; text `number` of a seed. Raises DataError for the prompt."""


class Chats(Capability):
    """Answers the messages of a conversation."""

    verb = "chat"

    @property
    @abstractmethod
    def template(self) -> ChatTemplate:
        """How a conversation becomes one text."""

    @abstractmethod
    def chat(
        self,
        messages: Conversation,
        sampling: Sampling,
        *,
        max_tokens: int = 200,
        seed: int = 0,
        note: Callable[[str], None] = ignore,
    ) -> Iterator[str]:
        """The answer to the last message, in pieces as they are drawn; `note` gets a line if messages are left out.

        Raises TooLongError for a message that is longer than the model reads, DataError for text the vocabulary lacks.
        """


class Scores(Capability):
    """Gives log-probabilities."""

    verb = "score"

    @abstractmethod
    def score(self, text: str, source: str | None = None) -> list[tuple[str, float]]:
        """Each token of a text with its log-probability in nats."""

    def score_line(self, line: str) -> list[tuple[str, float]]:
        """The same of a line as `headway score` reads it."""
        return self.score(line)

    @json_call(TEXT)
    def call_score(self, inputs: Sequence[str]) -> list[Any]:
        """The log-probability of each text in nats, and of its tokens; a translation is a line of `headway score`."""
        scored = [self.score_line(line) for line in inputs]
        return [
            {"total": sum(nats for _, nats in pairs), "tokens": [{"token": t, "log_prob": nats} for t, nats in pairs]}
            for pairs in scored
        ]


class Classifies(Capability):
    """Names the likeliest classes of an input: an image, a sound, a text, or the sets of a file; or says a number."""

    verb = "classify"
    reads: ClassVar[str] = "image"  # what an input is called in JSON: "image", "text" or "set"

    @abstractmethod
    def classify(self, inputs: Sequence[str | Path], *, top: int = 5) -> list[Prediction]:
        """The likeliest classes of each input, best first. Raises DataError naming a file that cannot be read.

        The default of `top` is the pipeline's own: where an input may have several classes, all of them.
        """

    @property
    def reads_pairs(self) -> bool:
        """Whether an input is a pair of texts, with a tab between them."""
        return False

    @property
    def cuts_patches(self) -> bool:
        """Whether `patches` works: the model reads an image as patches."""
        return False

    def patches(self, pixels: Pixels) -> ImagePatches:
        """The patches that the model reads an image (C, H, W) as. Raises ConfigError where it reads none."""
        raise ConfigError("the model does not read images as patches; only a vision transformer does")

    def word_changes(self, text: str) -> list[tuple[str, float]]:
        """Each word of a text with what it adds to the answer. Raises ConfigError where no text is classified."""
        raise ConfigError(f"--words is for classifiers of texts; this run classifies {self.reads}s")

    @json_call(lambda self: TEXT if self.reads == "text" else FILE, top=integer(1, 1000, "classes of each input"))
    def call_classify(self, inputs: Sequence[str | Path], **options: Any) -> list[Any]:
        """The likeliest classes, or the number, of each text (a pair has a tab between), image, sound or set."""
        return [each.to_json(self.reads) for each in self.classify(inputs, **options)]


class Tags(Capability):
    """Names a tag for each word of a text."""

    verb = "tag"

    @abstractmethod
    def tag(self, texts: Sequence[str | Sequence[str]]) -> list[TagPrediction]:
        """The likeliest tag of each word; a text is a string, or its words. Raises DataError for one without words."""

    @json_call(TEXT)
    def call_tag(self, inputs: Sequence[str]) -> list[Any]:
        """The likeliest tag of each word of each text, and the entities they make."""
        return [each.to_json() for each in self.tag(inputs)]


class Answers(Capability):
    """Answers questions by spans of a context, or by one of several choices."""

    verb = "answer"

    @abstractmethod
    def asked(self, line: str) -> AskedQuestion:
        """A question as it stands in a line, with tabs between its parts. Raises DataError for another line."""

    @abstractmethod
    def answer(self, asked: Sequence[Asked], *, top: int = 1, threshold: float | None = None) -> list[AnswerPrediction]:
        """The `top` best answers to each question: a context and a question, or an `AskedQuestion` with choices.

        No answer is given where its score is above that of the best span by more than `threshold`, by default the one
        tuned in training if some training questions had none. Raises DataError for an empty text, ConfigError for a
        threshold without use and for choices where none are chosen from, or the other way round.
        """

    @json_call(
        QUESTION,
        top=integer(1, 64, "answers to each question"),
        threshold=number(-1000, 1000, "no answer where its score is above the best span's by more"),
    )
    def call_answer(self, inputs: Sequence[Mapping[str, Any]], **options: Any) -> list[Any]:
        """The best answers to each question about its context, or the best of its choices."""
        from headway.tasks.answers import AskedQuestion

        asked = [
            AskedQuestion(each.get("context", ""), each.get("question", ""), tuple(each.get("choices", ())))
            for each in inputs
        ]
        return [each.to_json() for each in self.answer(asked, **options)]


class Captions(Capability):
    """Writes a sentence about an image."""

    verb = "caption"

    @abstractmethod
    def caption(self, images: Sequence[str | Path], *, beam: int | None = None) -> list[Caption]:
        """A caption for each image file. Raises DataError naming a file that cannot be read."""

    @json_call(FILE, searches=True, beam=BEAM)
    def call_caption(self, inputs: Sequence[Path], **options: Any) -> list[Any]:
        """A sentence about each image."""
        return [each.to_json() for each in self.caption(inputs, **options)]

    @abstractmethod
    def attention_maps(self, captions: Sequence[Caption]) -> list[AttentionMap]:
        """For each caption, how much each token attended to each place of its image. Raises ConfigError for a model
        without attention.
        """


class Transcribes(Capability):
    """Writes down what is said in a sound."""

    verb = "transcribe"

    @abstractmethod
    def transcribe(self, sounds: Sequence[str | Path], *, beam: int | None = None) -> list[Transcript]:
        """The text of each sound file. Raises DataError naming a file that cannot be read."""

    @json_call(FILE, searches=True, beam=BEAM)
    def call_transcribe(self, inputs: Sequence[Path], **options: Any) -> list[Any]:
        """What is said in each sound (WAV)."""
        return [each.to_json() for each in self.transcribe(inputs, **options)]


class EstimatesPose(Capability):
    """Finds the keypoints of the person in an image."""

    verb = "pose"

    @property
    @abstractmethod
    def keypoint_names(self) -> tuple[str, ...]:
        """The names of the keypoints, in their order."""

    @abstractmethod
    def pose(self, images: Sequence[str | Path]) -> list[EstimatedPose]:
        """The keypoints of the person in each image file. Raises DataError naming a file that cannot be read."""

    @json_call(FILE)
    def call_pose(self, inputs: Sequence[Path]) -> list[Any]:
        """The keypoints of the person in each image: x and y in pixels as the model reads it, and the heat there."""
        return [each.to_json(self.keypoint_names) for each in self.pose(inputs)]


class Detects(Capability):
    """Finds the objects in an image."""

    verb = "detect"

    @abstractmethod
    def detect(self, images: Sequence[str | Path], *, threshold: float = 0.5) -> list[DetectedObjects]:
        """The objects in each image file with a score of at least `threshold`, the surest first.

        Raises DataError naming a file that cannot be read, ConfigError for a threshold outside 0 to 1.
        """

    @json_call(FILE, threshold=number(0, 1, "the least score (default: 0.5)"))
    def call_detect(self, inputs: Sequence[Path], **options: Any) -> list[Any]:
        """The objects in each image, the surest first, their boxes as x, y, width and height in its pixels."""
        return [each.to_json() for each in self.detect(inputs, **options)]


class Embeds(Capability):
    """Gives a vector for each text."""

    verb = "embed"

    @abstractmethod
    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One vector a text (N, D)."""

    @json_call(TEXT)
    def call_embed(self, inputs: Sequence[str]) -> list[Any]:
        """A vector for each text."""
        vectors: list[Any] = self.embed(inputs).tolist()
        return vectors


class Plays(Capability):
    """Acts in an environment."""

    verb = "play"
    has_baseline: ClassVar[bool] = False  # whether what it plays is compared with a policy learned without a model

    @abstractmethod
    def play(self, *, episodes: int = 100, seed: int = 0) -> PlayResult:
        """Act in the real environment on fresh seeds."""


class PlayResult(ABC):
    """Episodes that were played, and what they earned."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Flat values for machines."""

    @abstractmethod
    def facts(self) -> Mapping[str, str]:
        """The same for people, by name."""

    def tables(self) -> Sequence[Section]:
        """What is shown below the facts."""
        return ()

    def render(self, suffix: str) -> bytes:
        """A film (".gif") or a strip (".png") of the first episode. Raises ConfigError if there is nothing to show."""
        raise ConfigError("--render is not supported by this run: it has no episode to show")

    def plot(self, kind: PictureKind, title: str) -> bytes:
        """Asked against achieved returns. Raises ConfigError if no returns were asked for."""
        raise ConfigError("--plot is not supported by this run: it is not asked for returns")

    @classmethod
    def over_runs(cls, played: Mapping[str, PlayResult]) -> PlayResult:
        """The results of several runs by name, all of this class, as one. Raises ConfigError if they cannot be."""
        raise ConfigError("several runs cannot be played together, allowed: one run")


CAPABILITIES: tuple[type[Capability], ...] = (
    Translates,
    Generates,
    Chats,
    Scores,
    Classifies,
    Tags,
    Answers,
    Captions,
    Transcribes,
    EstimatesPose,
    Detects,
    Embeds,
    Plays,
)
