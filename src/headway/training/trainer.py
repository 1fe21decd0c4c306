"""The training loop: independent of the kind of data, and resumable to the bit after every checkpoint."""

from __future__ import annotations

import contextlib
import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from headway.checked_json import JsonFields
from headway.counts import counted
from headway.data.batching import Cursor
from headway.errors import ConfigError, NonFiniteError, NoRunError
from headway.models.drawing import Drawing
from headway.nn.lora import merged_adapters
from headway.storage.commit import AppendLog, NoLog, commit_file, remove_stale_drafts
from headway.storage.finite import first_non_finite
from headway.storage.targets import expect_regular
from headway.storage.tensors import read_tensors, set_weights
from headway.tasks.sharing import computing_after, shared_by
from headway.tasks.training_task import Batch, Capturable, Phase, Phased, Stateful, TrainingTask, Validated
from headway.training.best import BestCheckpoint, best_in, criterion_of, resumed_best
from headway.training.callbacks import Callback
from headway.training.checkpoint_writer import CheckpointWriter, TrainingState
from headway.training.checkpoints import FACTS, TUNED, Checkpoints, tuned_settings
from headway.training.config import TrainConfig
from headway.training.cuda_graph import CudaGraphSteps, unsupported_reason
from headway.training.devices import compile_features, moved, pick_device, reading
from headway.training.gradient_sums import backpropagate_pairwise
from headway.training.log import LOG, log_bytes, log_line, parse_log, read_log, run_of_log
from headway.training.optimisers import MEANS, build_optimisers, is_fused_adam, skip_non_finite
from headway.training.parallel import compile_blocks, recompute_blocks, release, shard_model
from headway.training.parameters import choose_parameters, layer_shares
from headway.training.randomness import STEP, VALIDATION, VERSION, Randomness
from headway.training.ranks import ALONE, Alone, Ranks
from headway.training.shards import as_shard, fill, local, read_rows, whole
from headway.training.sharing import expect_shared_out
from headway.training.signals import Interrupted, StopRequest
from headway.training.stragglers import ComputeTimes


class Observer(Protocol):
    """Sees the model while it trains, and leaves it as it is."""

    def due(self, step: int) -> bool:
        """Whether it is to be called at a step without an evaluation."""

    def __call__(self, model: nn.Module, step: int, loss: float | None) -> None:
        """The model as it is evaluated, EMA and adapters included; `loss` is the validation's, if there was one."""


class Trainer:
    """Trains one model on one task into one run folder."""

    def __init__(
        self,
        model: nn.Module,
        task: TrainingTask,
        config: TrainConfig,
        run: Path,
        callback: Callback,
        ranks: Alone = ALONE,
        observer: Observer | None = None,
        drawing: Drawing | None = None,
    ) -> None:
        """`observer` is called by rank 0 with the model of each evaluation, and of steps of its own choice.

        `drawing` makes the values of a model on the "meta" device, of which each rank keeps its rows.
        """
        self.config, self.task, self.run, self.callback, self.ranks = config, task, run, callback, ranks
        self.observer = observer if ranks.first else None
        expect_shared_out(ranks, task, config, model)
        self.device = pick_device(config.device)
        choose_parameters(model, config)
        self.model = moved(model, self.device) if drawing is None else model
        self.sharded = config.shard != "none" and isinstance(ranks, Ranks)
        if config.recompute == "blocks":
            recompute_blocks(self.model)
        if self.sharded:
            shard_model(self.model, ranks, by_machine=config.shard == "node")
        if drawing is not None:
            fill(self.model, drawing.values(), self.device)
        shares = layer_shares(self.model, config.layer_decay) if config.layer_decay != 1.0 else None
        self.optimisers = build_optimisers(config.optimiser, self.model, shares)
        self.checkpoints = Checkpoints(run, callback.note)
        self.checkpoints.expect_writable()
        self.writer = CheckpointWriter(self.checkpoints, config, ranks, sharded=self.sharded)
        expect_regular(run / LOG)
        self.step, self.cursor = 0, Cursor()
        self.best, self.stale = BestCheckpoint(criterion=criterion_of(task)), 0
        self.tuned: dict[str, float] = {}  # what the last validation chose for the finished run, by name
        self.validation_noted = False  # whether a NaN validation loss was reported
        self.ema = {name: p.detach().clone() for name, p in self.model.named_parameters()} if config.ema else {}
        self.batches = task.order.after(self.cursor)
        self.ready: deque[tuple[list[Batch], Cursor]] = deque()  # batches of the next steps, and where they end
        self.graphed: CudaGraphSteps | None = None
        if config.compile:
            reason = unsupported_reason(task, config, self.optimisers, self.device, self.model)
            if isinstance(task, Capturable) and not reason and ranks is ALONE:
                self.graphed = CudaGraphSteps(
                    task, self.optimisers, self.device, gradients=self._gradients, apply=self._apply
                )
            replays = task.fixed_shapes and self.device.type == "cuda" and self.graphed is None
            if self.sharded:
                compile_blocks(self.model, fixed=task.fixed_shapes)
            else:
                compile_features(self.model, self.device, fixed=task.fixed_shapes, replays=replays)
        self.times = ComputeTimes(ranks, self.device)
        self.stop_request = StopRequest(callback.note)
        self.version = VERSION
        self.randomness = Randomness(config.seed, self.device, running=self.graphed is not None)

    # --- the loop --------------------------------------------------------------------------------------------------

    def train(self) -> None:
        """Train to the last step, evaluating and saving.

        Raises Interrupted, NonFiniteError, StorageError, RankError.
        """
        run = run_of_log(self.run / LOG)
        with self.stop_request.listening(), self._log() as log, self.writer.finished(self.callback.note):
            while self.step < self.config.steps and not self._out_of_patience():
                for entry in self.next_steps():
                    log.line(log_line(entry, run))
                    self.callback.step(entry)
                self.writer.expect_no_error()
                ends = self.step == self.config.steps
                if self.step % self.config.evaluate_every == 0 or ends:
                    self._expect_finite()
                    log.line(log_line(self._evaluate(), run))
                    ends = ends or self._out_of_patience() or self.best.step == self.step
                elif self.observer is not None and self.observer.due(self.step):
                    with self._averaged(), merged_adapters(self.model):
                        self.observer(self.model, self.step, None)
                # Checked after the evaluation, which may take long; a signal that comes later waits for the next step.
                saves = self.step % self.config.save_every == 0 or ends or self._signal is not None
                if saves:
                    log.sync()  # the log on disk is never behind a checkpoint
                    self.save()
                if saves and self._signal is not None:
                    self.writer.wait()
                    raise Interrupted(self._signal, self.step, self.checkpoints.run)

    @property
    def _signal(self) -> int | None:
        """The signal that ends training, which several ranks learn of in the same step."""
        return self.ranks.signal(self.stop_request.number)

    @contextlib.contextmanager
    def _log(self) -> Iterator[AppendLog | NoLog]:
        """The run's log to append to, once the folder is tidied up: both are for rank 0 alone."""
        with self.ranks.in_turn():
            if self.ranks.first:
                remove_stale_drafts(self.run)
                remove_stale_drafts(self.checkpoints.folder)
                self.checkpoints.set_aside_after(self.step)
                if self.step:  # a process that died after its last commit has done the rest of a save only in part
                    self.writer.finish(self.step, self.best)
                self._trim_log()
        with AppendLog(self.run / LOG) if self.ranks.first else NoLog() as log:
            yield log

    def next_steps(self) -> list[dict[str, Any]]:
        """Take the next step, or several as a CUDA graph -> a log entry for each."""
        return [self.advance()] if self.graphed is None else self._advance_graphed(self.graphed)

    def advance(self) -> dict[str, Any]:
        """One step of the optimiser over `accumulate` micro-batches."""
        started = time.perf_counter()
        self.model.train()
        phase = self.task.phase(self.model, self.step, self.device) if isinstance(self.task, Phased) else None
        self._make_batches(1)
        batches, cursor = self.ready.popleft()
        tokens = self.ranks.total(sum(batch.count for batch in batches), self.stop_request.number)
        loss, size = self._gradients(batches, self.step, tokens)
        rate = self._rate(self.step + 1) * (phase.rate if phase else 1.0)
        self._set_rate(rate)
        read = reading(loss, size)
        applied = self._applies_unseen
        if applied:
            skip_non_finite(self.optimisers, loss, size)
            self._apply()
        if self.device.type == "cuda" and not isinstance(self.task, Phased):
            self._make_batches(1)
        total, norm = read()
        self.step, self.cursor = self.step + 1, cursor
        if not (math.isfinite(total) and math.isfinite(norm)):
            self._not_finite(total, norm)
        elif not applied:
            self._apply()
        for optimiser in self.optimisers:
            optimiser.zero_grad(set_to_none=True)
        self.randomness.at(self.step, STEP)
        if slow := self.times.slowest(self.step):
            self.callback.note(slow)
        return self._entry(total, norm, rate, tokens, time.perf_counter() - started, phase)

    def update(self, batches: Sequence[Batch], tokens: int) -> tuple[Tensor, Tensor]:
        """The tensor operations of a step on these micro-batches of this rank -> its loss and gradient norm.

        No value is read, so that tensors may be fake: a step that is not finite is not noticed.
        """
        found = self._gradients(batches, self.step, tokens)
        self._apply()
        for optimiser in self.optimisers:
            optimiser.zero_grad(set_to_none=True)
        return found

    def _advance_graphed(self, graphed: CudaGraphSteps) -> list[dict[str, Any]]:
        """Take several steps, at most to the next evaluation or checkpoint, without synchronising."""
        config, started = self.config, time.perf_counter()
        ends = (config.steps, *(self.step - self.step % n + n for n in (config.evaluate_every, config.save_every)))
        wanted = graphed.steps_at_once
        # No more than there are batches for, after the first steps: making the others would keep the device waiting.
        count = min(wanted, len(self.ready) or wanted, min(ends) - self.step)
        self._make_batches(count)
        taken = [self.ready.popleft() for _ in range(count)]
        self.model.train()
        rates = [self._rate(self.step + n) for n in range(1, count + 1)]
        found = graphed.run(
            [batches for batches, _ in taken],
            self.step,
            rates,
            meanwhile=lambda: self._make_batches(min(len(self.ready) + 2, wanted)),
        )
        entries, seconds = [], (time.perf_counter() - started) / count
        graphed.took(seconds)
        for n, (total, norm) in enumerate(found):
            batches, cursor = taken[n]
            self.step, self.cursor = self.step + 1, cursor
            if not (math.isfinite(total) and math.isfinite(norm)):
                self._not_finite(total, norm)
            tokens = sum(batch.count for batch in batches)
            entries.append(self._entry(total, norm, self._rate(self.step), tokens, seconds))
        return entries

    def _make_batches(self, steps: int) -> None:
        """Make this rank's micro-batches of the next steps, on a GPU while it computes those before them."""
        while len(self.ready) < steps:
            drawn = [next(self.batches) for _ in range(self.config.accumulate)]
            batches = [self.task.batch(indices) for indices, _ in self.ranks.part(drawn)]
            self.ready.append((batches, drawn[-1][1]))

    def _read_from(self, cursor: Cursor) -> None:
        """Go on with the batches after a cursor."""
        self.batches = self.task.order.of(self.version).after(cursor)
        self.ready.clear()

    def _entry(
        self, loss: float, norm: float, rate: float, tokens: int, seconds: float, phase: Phase | None = None
    ) -> dict[str, Any]:
        return {
            "step": self.step, "loss": loss, "learning_rate": rate, "norm": norm, "tokens": tokens,
            "seconds": round(seconds, 4), **({"phase": phase.name} if phase else {}),
        }  # fmt: skip

    def _gradients(self, batches: Sequence[Batch], step: int, tokens: int | None = None) -> tuple[Tensor, Tensor]:
        """Backpropagate this rank's micro-batches -> loss and gradient norm of the step, as tensors.

        `tokens` has the targets of the whole step, if these are not all of it. A single process does not synchronise
        with its device.
        """
        self.model.train()
        count = sum(batch.count for batch in batches) if tokens is None else tokens
        losses: list[Tensor] = []

        def backward(number: int) -> None:
            self.randomness.at(step, self.ranks.rank * len(batches) + number)
            with self._autocast():
                moved = batches[number].to(self.device)
                terms = self.task.loss(self.model, moved, smoothing=self.config.label_smoothing, step=step)
                # One division by the count of the whole step: k micro-batches equal one large batch.
                loss = torch.stack([term.weight * term.total / count for term in terms.values()]).sum()
            loss.backward()
            losses.append(loss.detach().double())

        exact = self.version > 1 and self.config.exact_on(self.device.type)
        with computing_after(self.ranks.rank * len(batches)), self.times.measured():
            if exact:
                backpropagate_pairwise(list(self.model.parameters()), backward, len(batches))
            else:
                for number in range(len(batches)):
                    backward(number)
        if not self.sharded:  # FSDP has added its shards
            self.ranks.add(self.model.parameters(), exact=exact)
        return self.ranks.joined(torch.stack(losses)).sum(), self._clip()

    def _rate(self, step: int) -> float:
        return self.config.learning_rate * self.config.schedule.factor(step, self.config.steps)

    def _set_rate(self, rate: float) -> None:
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = rate * group["share"]

    def _apply(self) -> None:
        """Step the optimisers and update the EMA."""
        for optimiser in self.optimisers:
            optimiser.step()
        if self.ema:
            with torch.no_grad():
                for name, parameter in self.model.named_parameters():
                    self.ema[name].lerp_(parameter, 1 - self.config.ema)

    @property
    def _applies_unseen(self) -> bool:
        """Whether the optimisers leave out a step that is not finite by themselves: it need not be looked at before.

        So a GPU is given the update without waiting for the host. A running mean would not be left alone.
        """
        return self.device.type == "cuda" and not self.ema and all(map(is_fused_adam, self.optimisers))

    def _clip(self) -> Tensor:
        """The norm of the gradient, which is clipped to `config.clip`."""
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        norm = whole(torch.nn.utils.get_total_norm(gradients))
        if self.config.clip:
            # The local tensors of shards are scaled: the dispatch of DTensors takes the host much longer.
            torch._foreach_mul_([local(g) for g in gradients], torch.clamp(self.config.clip / (norm + 1e-6), max=1.0))
        return norm

    def _autocast(self) -> contextlib.AbstractContextManager[Any]:
        if self.config.precision == "fp32":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16)

    # --- NaN and infinite values -----------------------------------------------------------------------------------

    def _not_finite(self, loss: float, norm: float) -> None:
        """Handle a NaN or infinite step: stop, skip it, or roll back to the last checkpoint and skip the batch."""
        gradients = {name: local(p.grad) for name, p in self.model.named_parameters() if p.grad is not None}
        where, state = first_non_finite(gradients), self._first_non_finite()
        what = f"step {self.step}: loss {loss}, gradient norm {norm}"
        what += "" if where is None else f", first in the gradient of {where}"
        if state is None:
            self._handle(what, advice="set train.non_finite to skip or rollback to continue", skips=True)
        else:
            self._bad_state(f"{what}; {state} itself is NaN or infinite, which skipping a step cannot mend")

    def _expect_finite(self) -> None:
        """Raise NonFiniteError, or roll back, if a weight or a part of the optimiser's state is NaN or infinite."""
        bad = self._first_non_finite()
        if bad is not None:
            self._bad_state(f"step {self.step}: {bad} is NaN or infinite and was not saved")

    def _first_non_finite(self) -> str | None:
        """The first tensor of weights, EMA and optimiser state that is not finite, as a checkpoint names it."""
        ema = {f"ema.{name}": tensor for name, tensor in self.ema.items()}
        held = {**self.model.state_dict(), **ema, **self._optimiser_state()}
        found = first_non_finite({name: local(tensor) for name, tensor in held.items()})
        return found or ("a part of another rank" if self.ranks.any(found is not None) else None)

    def _bad_state(self, what: str) -> None:
        self._handle(what, advice="lower train.learning_rate, or set train.non_finite to rollback")

    def _handle(self, what: str, *, advice: str, skips: bool = False) -> None:
        """Do what `train.non_finite` says; `skips`: whether leaving the step out is enough."""
        if skips and self.config.non_finite == "skip":
            self.callback.note(f"{what}: skipped")
            return
        self.writer.wait()
        if self.config.non_finite != "rollback":
            raise NonFiniteError(f"{what}; {self._last_checkpoint()}; {advice}")
        step, cursor = self.step, self.cursor
        if not self.resume():
            raise NonFiniteError(f"{what}; no checkpoint to roll back to")
        self.callback.note(f"{what}: rolled back to step {self.step}")
        self.step, self.cursor = step, cursor  # restored weights, but past the bad batch
        self._read_from(cursor)

    def _last_checkpoint(self) -> str:
        step = self.checkpoints.newest_intact()
        return "there is no checkpoint yet" if step is None else f"the checkpoint of step {step} is intact"

    # --- evaluation ------------------------------------------------------------------------------------------------

    def _evaluate(self) -> dict[str, Any]:
        # Features compiled for training batches would be recompiled for each shape of an evaluation.
        eager = torch.compiler.set_stance("force_eager") if self.graphed else contextlib.nullcontext()
        sharers = shared_by(self.ranks if isinstance(self.ranks, Ranks) else None)
        with eager, sharers, self._averaged(), merged_adapters(self.model), self._own_randomness():
            self.model.eval()
            try:
                found = self.task.validate(self.model, self.device)
                samples = self.task.samples(self.model, self.device)
                if self.observer is not None:
                    self.observer(self.model, self.step, found.loss if isinstance(found, Validated) else found)
            except NonFiniteError as error:  # of decoding: the weights are finite, what they compute is not
                found, samples = math.nan, [str(error)]
            finally:
                if self.sharded:
                    release(self.model)
        value, self.tuned, beside = self._agreed(found if isinstance(found, Validated) else Validated(found, {}))
        entry = {"step": self.step, "val_loss": value, **beside}
        self.best = self.best.after(entry)
        self.stale = 0 if self.best.step == self.step else self.stale + 1
        if not math.isfinite(value) and not self.validation_noted:
            self.validation_noted = True
            self.callback.note(f"step {self.step}: validation loss {value}; such a checkpoint is never the best one")
        self.callback.evaluated(entry, samples)
        return entry

    def _agreed(self, found: Validated) -> tuple[float, dict[str, float], dict[str, float]]:
        """Loss, tuned settings and other figures as rank 0 has them: all ranks choose the same best checkpoint."""
        if self.ranks.size == 1:
            return found.loss, found.tuned, found.beside
        names = [*found.tuned, *found.beside]
        loss, *rest = self.ranks.told([found.loss, *found.tuned.values(), *found.beside.values()])
        pairs, split = list(zip(names, rest, strict=True)), len(found.tuned)
        return loss, dict(pairs[:split]), dict(pairs[split:])

    def _out_of_patience(self) -> bool:
        return bool(self.config.patience) and self.stale >= self.config.patience

    @contextlib.contextmanager
    def _averaged(self) -> Iterator[None]:
        """Swap in the EMA weights, if there are any."""
        if not self.ema:
            yield
            return
        own = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        _assign(self.model, self.ema)
        try:
            yield
        finally:
            _assign(self.model, own)

    @contextlib.contextmanager
    def _own_randomness(self) -> Iterator[None]:
        """Keep evaluation from advancing the generators that dropout uses."""
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            self.randomness.at(self.step, VALIDATION)
            yield

    # --- saving and resuming ---------------------------------------------------------------------------------------

    def save(self) -> None:
        """Commit a checkpoint of the full training state, or begin to: `writer` knows when it is on disk.

        Raises StorageError. A state that is not finite is not saved: NonFiniteError, or the state is rolled back.
        """
        self._expect_finite()
        self.writer.save(self._state)

    def _state(self) -> TrainingState:
        """What a checkpoint holds."""
        with self._averaged():
            model = {name: tensor.detach() for name, tensor in self.model.state_dict().items()}
            if self.ema or not self.config.save_async:  # which copies them itself
                model = {name: tensor.clone() for name, tensor in model.items()}
        tensors = {f"model.{name}": t.detach() for name, t in self.model.state_dict().items()} if self.ema else {}
        tensors |= {f"ema.{name}": tensor for name, tensor in self.ema.items()}
        tensors |= self._optimiser_state()
        if isinstance(self.task, Stateful):
            tensors |= {f"task.{name}": tensor for name, tensor in self.task.state().items()}
        if self.randomness.running:
            tensors |= self.randomness.state()
        facts = {
            "step": self.step, "epoch": self.cursor.epoch, "batch": self.cursor.batch,
            **self.best.to_json(), "stale": self.stale, **({TUNED: self.tuned} if self.tuned else {}),
            **({"version": self.version} if self.version > 1 else {}),
            **({"window": self.cursor.window} if self.cursor.window else {}),
        }  # fmt: skip
        return TrainingState(self.step, model, tensors, facts, self.best)

    def _optimiser_state(self) -> dict[str, Tensor]:
        """The state of the optimisers under the names that it has in a checkpoint."""
        return {
            f"optimiser.{n}.{key}.{name}": value
            for n, optimiser in enumerate(self.optimisers)
            for key, state in optimiser.state_dict()["state"].items()
            for name, value in state.items()
            if value is not None
        }

    def resume(self) -> bool:
        """Load the newest intact checkpoint that has the training state; False if there is no checkpoint.

        Writes nothing. Raises NoRunError if there are checkpoints and training can go on from none.
        """
        self.writer.wait()
        step = self.checkpoints.newest_intact(resumable=True)
        if step is None:
            if self.checkpoints.steps():
                raise NoRunError(f"{self.checkpoints.folder}: {self._not_resumable()}")
            self.ranks.expect_alike(0)
            return False
        model, tensors, facts = self.checkpoints.read(step, self._rows_of_rank if self.sharded else read_tensors)
        model, tensors = self._as_held(model), self._as_held(tensors)
        if self.ema:
            self.ema = {name: tensors[f"ema.{name}"].to(self.device) for name in self.ema}
            model = {name.removeprefix("model."): t for name, t in tensors.items() if name.startswith("model.")}
        set_weights(self.model, model, str(self.checkpoints.path(step)))
        for n, optimiser in enumerate(self.optimisers):
            held: dict[int, dict[str, Tensor]] = {}
            for name, tensor in tensors.items():
                kind, *path = name.split(".")
                if kind == "optimiser" and int(path[0]) == n:
                    held.setdefault(int(path[1]), {})[path[2]] = tensor
            optimiser.load_state_dict({"state": held, "param_groups": optimiser.state_dict()["param_groups"]})
        if isinstance(self.task, Stateful):
            kept = {name.removeprefix("task."): t for name, t in tensors.items() if name.startswith("task.")}
            self.task.restore({name: tensor.to(self.device) for name, tensor in kept.items()})
        known = JsonFields(facts, where=str(self.checkpoints.path(step) / FACTS))
        place = (known.integer("epoch"), known.integer("batch"), known.integer("window", 0))
        self.step, self.cursor = step, Cursor(*place)
        self.best = resumed_best(best_in(facts), criterion_of(self.task), read_log(self.run / LOG))
        self.stale = known.integer("stale")
        self.tuned = tuned_settings(facts, where=str(self.checkpoints.path(step) / FACTS))
        self._set_version(facts)
        self._read_from(self.cursor)
        self.randomness.restore(tensors, self.step)
        self.ranks.expect_alike(step)  # all have read it before rank 0 may remove it
        return True

    def _rows_of_rank(self, path: Path) -> dict[str, Tensor]:
        return read_rows(path, self._held())

    def _as_held(self, found: dict[str, Tensor]) -> dict[str, Tensor]:
        held = self._held() if self.sharded else {}
        return {name: as_shard(tensor, held[name]) if name in held else tensor for name, tensor in found.items()}

    def _held(self) -> dict[str, Tensor]:
        """The tensors of the model by all names under which a checkpoint has one that is cut like them."""
        named = self.model.state_dict()
        held = {f"{part}{name}": tensor for part in ("", "model.", "ema.") for name, tensor in named.items()}
        for n, optimiser in enumerate(self.optimisers):
            parameters = [each for group in optimiser.param_groups for each in group["params"]]
            for key, parameter in enumerate(parameters):
                held |= {f"optimiser.{n}.{key}.{name}": parameter for name in MEANS}
        return held

    def _set_version(self, facts: dict[str, Any]) -> None:
        """Go on as the version did that began the run. Raises NoRunError, ConfigError."""
        self.version = facts.get("version", 1)
        if self.version not in range(1, VERSION + 1):
            raise NoRunError(f"{self.run}: trained by a later version of headway, which continues it")
        if self.version == 1 and self.ranks.size > 1:
            raise ConfigError(
                f"{self.run} was begun by an older version, whose dropout is one stream that {self.ranks.size} ranks "
                "cannot share: continue it in one process, without --nproc"
            )
        self.randomness.running = self.version == 1 or self.graphed is not None

    def _not_resumable(self) -> str:
        """Why none of the checkpoints can be resumed, and what to do."""
        step = self.checkpoints.newest_intact()
        if step is None:
            return "no checkpoint is intact; remove the folder to start at step 0"
        return (
            f"the checkpoint of step {step} is intact and can be used, but not resumed: it has no optimiser state; "
            "train anew with --out for another folder (train.keep_optimiser keeps the state in all checkpoints)"
        )

    def _trim_log(self) -> None:
        """Remove log entries after the checkpoint: those steps will be repeated."""
        path = self.run / LOG
        entries, damaged = parse_log(path)
        run = run_of_log(path)
        if damaged:
            aside = path.with_name("log-damaged.jsonl")
            commit_file(aside, log_bytes(path))
            lines = counted(damaged, "damaged line")
            self.callback.note(f"{path} has {lines}, left out; {aside.name} keeps the file as it was")
        lost = self.step - len({entry["step"] for entry in entries if "loss" in entry and entry["step"] <= self.step})
        if lost > 0:
            self.callback.note(f"{path} lacks the entries of {lost} of the {counted(self.step, 'step')} trained so far")
        commit_file(path, "".join(log_line(entry, run) + "\n" for entry in entries if entry["step"] <= self.step))


def _assign(model: nn.Module, values: dict[str, Tensor]) -> None:
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(values[name])
