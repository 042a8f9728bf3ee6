"""`HFReward`: a sequence classifier of transformers in this process, as a reward model: `Score` and `Attend`."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from apportion.asks import Attend, Attended, Place, Score
from apportion.data import Trajectory
from apportion.errors import ConfigError
from apportion.resources.base import BaseResource
from apportion.resources.context import context_ids, sampled, shown
from apportion.resources.forcing import text_before
from apportion.resources.hf_models import Weights, loaded, positions_of, room_of, torch_
from apportion.resources.last_answer import answer_begins
from apportion.resources.past import has_ids
from apportion.resources.protocol import Load, Refusal, Reply, Request, Trouble
from apportion.resources.reward_text import end_of, needs_speller, shown_text
from apportion.resources.sampling import Speller
from apportion.resources.scorers import Scorer


class HFReward(BaseResource):
    """A reward model in this process.

    The rollout is shown as the policy had it: context and actions in turn, without what came after the last action. As
    text it is tokenised by the reward model's tokenizer; as ids, where both models have the same one.

    Args:
        model: a sequence classifier of transformers, or the folder or hub name of one (weights as safetensors).
        tokenizer: its tokenizer, or where it lies; None = that of ``model`` if that is a name.
        policy_tokenizer: the policy's, for rollouts with ids without text or with absent tokens.
        shares_tokenizer: the policy's ids are the reward model's: they are shown as they are, and where the model reads
            from left to right with a head on every token, all beginnings of a rollout are scored in one pass.
        label: which of several labels is the good one; its probability is the score. None: the model has one number.
        batch: requests at a time. device: where a model loaded by name goes; None = a GPU if there is one.
        identity: of the model, where its weights are known by a better name than a digest of them.
    """

    name = "the reward model"
    kinds = frozenset({"score", "attend"})
    workers = 1

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        policy_tokenizer: Any = None,
        shares_tokenizer: bool = False,
        label: int | None = None,
        batch: int = 32,
        device: str | None = None,
        identity: str | None = None,
    ) -> None:
        named = isinstance(model, str) or hasattr(model, "__fspath__")
        self.model = loaded(model, "AutoModelForSequenceClassification", device)
        given = model if tokenizer is None and named else tokenizer
        self.speller = None if given is None else Speller(given)
        spells = policy_tokenizer if policy_tokenizer is not None else (given if shares_tokenizer else None)
        self.policy_speller = None if spells is None else Speller(spells)
        self.shares, self.label, self.batch, self.room = shares_tokenizer, label, batch, room_of(self.model)
        labels = int(self.model.config.num_labels)
        if (labels > 1 and (label is None or not 0 <= label < labels)) or (labels == 1 and label is not None):
            raise ConfigError(f"the reward model has {labels} labels and label is {label}; say which is the good one")
        self._weights, self._named, self._lock = Weights(self.model), identity, threading.Lock()

    @property
    def identity(self) -> str:  # type: ignore[override]
        """The weights as they are now, and how rollouts are shown."""
        return f"hf-reward:{self._named or self._weights.name()}:{self.label}:{self.shares}"

    def as_scorer(self) -> Scorer:
        """The model as the scorer of continuations: it reads the context and the answer as one text."""
        if self.speller is None:
            raise ConfigError("a scorer reads text; give HFReward its tokenizer")

        def score(rollout: Trajectory, answer: str) -> float | None:
            before = text_before(rollout, Place(0, answer_begins(rollout)), self.policy_speller)
            assert self.speller is not None
            outcome = self._scores([self.speller.prompt_ids(before + answer)])[0]
            return None if isinstance(outcome, Refusal) else outcome

        return Scorer(self.identity, score)

    def check(self, request: Request) -> str:
        """Why this cannot be shown to it."""
        ask, rollout = request.ask, request.trajectory
        assert isinstance(ask, Score | Attend)
        name = rollout.id or ask.traj
        masks = isinstance(ask, Score) and ask.absent and ask.filler == "mask_token"
        if masks and (self.speller is None or self.speller.tokenizer.mask_token_id is None):
            return "the reward model's tokenizer has no mask token; take the filler blank or delete"
        if self._by_ids(ask, rollout):
            return ""
        if self.speller is None:
            return "the rollouts are shown as text; give HFReward its tokenizer"
        if needs_speller(ask, rollout) and self.policy_speller is None:
            return f"rollout {name} is token ids of the policy; give HFReward(policy_tokenizer=…) to spell them"
        return ""

    def load(self, request: Request) -> Load:
        """Tokens that the model reads; nothing is generated."""
        if self.check(request):
            return Load(exact=False)
        return Load(len(self._shown(request)[0]))

    def answer(self, requests: Sequence[Request]) -> list[Reply | Trouble | Refusal]:
        """Scores in as few passes as their beginnings allow; attention rollout by rollout."""
        rows = [self._shown(request) for request in requests]
        out: list[Reply | Trouble | Refusal] = [Refusal("not asked")] * len(requests)
        scored = [k for k, request in enumerate(requests) if isinstance(request.ask, Score)]
        with self._lock:
            for k, score in zip(scored, self._scores([rows[k][0] for k in scored]), strict=True):
                out[k] = score if isinstance(score, Refusal) else Reply(score, len(rows[k][0]))
            for k, request in enumerate(requests):
                if isinstance(request.ask, Attend):
                    out[k] = self._attended(*rows[k])
        return out

    def _by_ids(self, ask: Score | Attend, rollout: Trajectory) -> bool:
        if not (self.shares and has_ids(rollout)):
            return False
        return isinstance(ask, Attend) or not (ask.agents or (ask.absent and ask.filler == "blank"))

    def _shown(self, request: Request) -> tuple[list[int], list[tuple[int, int]]]:
        """Ids that the model reads, and from where to where each span of an `Attend` stands among them."""
        ask, rollout = request.ask, request.trajectory
        assert isinstance(ask, Score | Attend)
        if self._by_ids(ask, rollout):
            return self._ids(ask, rollout)
        assert self.speller is not None  # check
        tokenizer = self.speller.tokenizer
        told = shown_text(ask, rollout, self.policy_speller, tokenizer.mask_token or "")
        if isinstance(ask, Score):
            return self.speller.prompt_ids(told.text), []
        read = tokenizer(told.text, return_offsets_mapping=True)
        begins = [(k, a, b) for k, (a, b) in enumerate(read["offset_mapping"]) if b > a]
        spans = []
        for lo, hi in told.places:
            inside = [k for k, a, b in begins if a < hi and b > lo]  # every token that shows a part of the span
            spans.append((inside[0], inside[-1] + 1) if inside and hi > lo else (0, 0))
        return list(read["input_ids"]), spans

    def _ids(self, ask: Score | Attend, rollout: Trajectory) -> tuple[list[int], list[tuple[int, int]]]:
        end = end_of(ask, rollout)
        if isinstance(ask, Score) and not ask.absent:
            return context_ids(rollout, end), []
        ids: list[int] = []
        begins: dict[int, int] = {}
        for s in shown(rollout, end.step):
            step = rollout.steps[s]
            ids += [int(x) for x in step.prompt_ids]  # type: ignore[union-attr]
            own = [int(x) for x in step.ids[: end.token if s == end.step else None]]  # type: ignore[index]
            begins[s] = len(ids)
            if isinstance(ask, Score):
                absent = {t for span in ask.absent if span.step == s for t in range(span.first, span.last)}
                mask = [self.speller.tokenizer.mask_token_id] if self.speller and ask.filler == "mask_token" else []
                own = [x for t, id_ in enumerate(own) for x in (mask if t in absent else [id_])]
            ids += own
        spans = ask.spans if isinstance(ask, Attend) else ()
        ends = {s: sampled(rollout.steps[s]) for s in begins}
        return ids, [
            (begins[x.step] + min(x.first, ends[x.step]), begins[x.step] + min(x.last, ends[x.step]))
            if x.step in begins
            else (0, 0)
            for x in spans
        ]

    def _scores(self, rows: list[list[int]]) -> list[float | Refusal]:
        """One score for each row. A row that begins another is read off it where the model scores every token."""
        out: list[float | Refusal] = [self._fits(row) or 0.0 for row in rows]
        runs: list[list[int]] = []  # positions of rows, the longest first
        for k in sorted(range(len(rows)), key=lambda k: -len(rows[k])):
            if isinstance(out[k], Refusal):
                continue
            whole = self._head() is not None
            host = next((run for run in runs if whole and rows[run[0]][: len(rows[k])] == rows[k]), None)
            if host is not None:
                host.append(k)
            else:
                runs.append([k])
        for first in range(0, len(runs), self.batch):
            part = runs[first : first + self.batch]
            wanted = [[len(rows[k]) - 1 for k in run] for run in part]
            for run, scores in zip(part, self._run([rows[run[0]] for run in part], wanted), strict=True):
                for k, score in zip(run, scores, strict=True):
                    out[k] = score
        return out

    def _run(self, rows: list[list[int]], wanted: list[list[int]]) -> list[list[float]]:
        """Scores at the wanted positions of each row; without a head on every token only at its end."""
        torch = torch_()
        device = next(self.model.parameters()).device
        longest, pad = max(map(len, rows)), self.model.config.pad_token_id or 0
        ids = torch.tensor([row + [pad] * (longest - len(row)) for row in rows], device=device)
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows], device=device)
        head = self._head()
        with torch.inference_mode():
            if head is None:
                logits = self.model(input_ids=ids, attention_mask=mask).logits
                return [[self._number(row)] for row in logits]
            base = getattr(self.model, self.model.base_model_prefix)
            hidden = base(input_ids=ids, attention_mask=mask, position_ids=positions_of(mask)).last_hidden_state
            return [[self._number(head(hidden[k, at])) for at in places] for k, places in enumerate(wanted)]

    def _attended(self, row: list[int], spans: list[tuple[int, int]]) -> Reply | Refusal:
        """Attention of the last token in the last layer, mean over heads, added up over each span."""
        if (refusal := self._fits(row)) is not None:
            return refusal
        torch = torch_()
        was = getattr(self.model.config, "_attn_implementation", None)
        with torch.inference_mode():
            if was != "eager" and hasattr(self.model, "set_attn_implementation"):
                self.model.set_attn_implementation("eager")  # the fused kernels tell no weights
            try:
                ids = torch.tensor([row], device=next(self.model.parameters()).device)
                told = self.model(input_ids=ids, attention_mask=torch.ones_like(ids), output_attentions=True)
            finally:
                if was not in (None, "eager") and hasattr(self.model, "set_attn_implementation"):
                    self.model.set_attn_implementation(was)
            if not told.attentions or told.attentions[-1] is None:
                return Refusal("the reward model tells no attention")
            weight = told.attentions[-1][0].double().mean(0)[-1].tolist()
        weights = tuple(float(sum(weight[lo:hi])) for lo, hi in spans)
        return Reply(Attended(self._number(told.logits[0]), weights), len(row))

    def _head(self) -> Any:
        """The head on every token of a model that reads from left to right; None where there is none."""
        head = getattr(self.model, "score", None)
        return head if isinstance(head, torch_().nn.Linear) and self._causal() else None

    def _causal(self) -> bool:
        return hasattr(self.model, "base_model_prefix") and hasattr(self.model, self.model.base_model_prefix)

    def _number(self, logits: Any) -> float:
        return float(logits[0]) if self.label is None else float(logits.double().softmax(-1)[self.label])

    def _fits(self, row: list[int]) -> Refusal | None:
        if not row:
            return Refusal("there is nothing to score")
        if self.room is not None and len(row) > self.room:
            return Refusal(f"{len(row)} tokens are more than the {self.room} that the reward model has places for")
        return None
