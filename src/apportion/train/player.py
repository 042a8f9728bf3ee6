"""The trained policy as somebody who can be asked to play on, see `apportion.resources.EnvResource`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from apportion.resources import Act, Past, Refusal, Scene, Trouble
from apportion.train.choice import Choices, Ids
from apportion.train.policy import Policy
from apportion.train.prompt import Dialogue
from apportion.train.sampler import CachedSampler, Request, Sampled, sampler_for


class TrainedPolicy:
    """A `Policy` that plays on from the middle of rollouts, under the prompts that it was rolled out with.

    What it knows of prompts that it has met is kept, so the weights must not change while it is in use: make one for
    each policy, also in a training loop.

    Args:
        policy: model, tokenizer and prompts.
        identity: of the weights, part of every cache key; None = a digest of them.
        most_tokens: tokens of one action at most; None = the policy's own limit, and 32 where it chooses among
            admissible actions.
        micro_tokens: tokens of one pass of the model.
    """

    completes = True

    def __init__(
        self, policy: Policy, *, identity: str | None = None, most_tokens: int | None = None, micro_tokens: int = 8192
    ) -> None:
        self.policy, self.micro_tokens = policy, micro_tokens
        self.most_tokens = most_tokens or (policy.max_action_tokens if policy.free_text else 32)
        weights = digest_of(policy) if identity is None else identity
        self.identity = f"trained:{weights}:{policy.temperature}:{policy.prompts.window}:{policy.free_text}"
        self._sampler = sampler_for(policy, micro_tokens=micro_tokens)
        self._dialogues: dict[int, Dialogue] = {}

    def act(self, scenes: Sequence[Scene]) -> list[Act | Trouble | Refusal]:
        """One action for each scene, all of them in one go."""
        fresh = any(scene.play not in self._dialogues for scene in scenes)
        if fresh:
            self._dialogues = {}
            if isinstance(self._sampler, CachedSampler):
                self._sampler = sampler_for(self.policy, micro_tokens=self.micro_tokens)
        out: dict[int, Act | Trouble | Refusal] = {}
        due: dict[int, tuple[Request, Ids, Ids, bool]] = {}
        for k, scene in enumerate(scenes):
            try:
                due[k] = self._request(scene, whole=fresh)
            except Refusal as problem:
                out[k] = problem
        if due:
            sampled = self._sampler.act([request for request, *_ in due.values()])
            for (k, (request, begun, context, new)), got in zip(due.items(), sampled, strict=True):
                out[k] = self._act(scenes[k], request, begun, context, new, got)
        return [out[k] for k in range(len(scenes))]

    def text_of(self, ids: Ids, actions: tuple[str, ...] | None) -> str:
        """The action of these tokens."""
        if actions is None or self.policy.free_text:
            return str(self.policy.tokenizer.decode(ids, skip_special_tokens=True)).strip()
        choices = self.policy.choices(actions)
        if ids not in choices.ids:
            raise Refusal(f"the tokens {list(ids)} are none of the admissible actions {', '.join(actions)}")
        return choices.action(ids)

    def _request(self, scene: Scene, *, whole: bool) -> tuple[Request, Ids, Ids, bool]:
        """What the sampler is asked, what was begun, and the context that is new before this action."""
        dialogue = self._dialogues.get(scene.play)
        before: Ids = ()
        if dialogue is None:
            dialogue = self._dialogues[scene.play] = Dialogue(self.policy.prompts)
            before = _replay(dialogue, scene.past, self.policy)
        new, fresh = dialogue.see(scene.observation)
        full = new if fresh else (*before, *new)
        if scene.prompt_ids is not None and scene.prompt_ids != (full if scene.fresh else new):
            raise Refusal(
                "the policy's prompt at this step is not the one that the rollout was sampled under; "
                "ask the policy, with the tokenizer and the prompt settings, that made it"
            )
        if isinstance(scene.begun, str):
            raise Refusal("this policy continues token ids; give the beginning of the action as ids")
        choices = None if scene.actions is None or self.policy.free_text else self.policy.choices(scene.actions)
        if choices is not None and scene.begun:
            choices = _Rest(choices, scene.begun)
        context = (*(full if whole else new), *scene.begun)
        asked = Request(scene.play, context, fresh or whole, choices, scene.random, len(scene.begun))
        return asked, scene.begun, new, fresh

    def _act(
        self, scene: Scene, request: Request, begun: Ids, context: Ids, fresh: bool, got: Sampled
    ) -> Act | Refusal:
        if len(got.ids) > self.most_tokens:
            return Refusal(f"an action has {len(got.ids)} tokens, more than most_tokens={self.most_tokens}; raise it")
        self._dialogues[scene.play].act((*begun, *got.ids))
        if request.choices is not None:
            action = request.choices.action(got.ids)
        else:
            action = self.text_of((*begun, *got.ids), None)
        written = self.text_of(got.ids, None) if begun else None
        return Act(action, written, got.ids, got.logp, context, fresh, len(got.ids))


class _Rest(Choices):
    """The admissible actions that begin with given tokens, as what may follow these."""

    def __init__(self, choices: Choices, begun: Ids) -> None:
        if not any(ids[: len(begun)] == begun for ids in choices.ids):
            raise Refusal(f"no admissible action begins with the tokens {list(begun)}")
        self._choices, self._begun = choices, begun

    def allowed(self, prefix: Ids) -> Ids:
        return self._choices.allowed((*self._begun, *prefix))

    def action(self, ids: Ids) -> str:
        return self._choices.action((*self._begun, *ids))


def _replay(dialogue: Dialogue, past: Sequence[Past], policy: Policy) -> Ids:
    """Show the past to a dialogue; returns the ids that stand before the next context where contexts grow."""
    out: list[int] = []
    for seen in past:
        context, fresh = dialogue.see(seen.observation)
        ids = policy.prompts.encode_action(seen.action) if seen.ids is None else seen.ids
        out = [*context, *ids] if fresh else [*out, *context, *ids]
        dialogue.act(ids)
    return tuple(out)


def digest_of(policy: Policy) -> str:
    """Digest of the weights of a policy: equal weights, equal answers."""
    return digest_of_weights(policy.model)


def digest_of_weights(model: Any) -> str:
    """Digest of all that ``state_dict`` holds, names and numbers."""
    digest = hashlib.blake2b(digest_size=12)
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(tensor.detach().cpu().float().numpy()).tobytes())
    return digest.hexdigest()
