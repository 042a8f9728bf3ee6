"""Judges from what a user types, and from models that others of our resources sample from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from apportion.errors import ConfigError
from apportion.resources.judge_callable import JudgeCallable
from apportion.resources.judge_price import Completion, Messages, counter_of
from apportion.resources.judge_server import JudgeServer
from apportion.resources.judge_template import load_template
from apportion.resources.protocol import Refusal, Trouble
from apportion.resources.sampling import Prompt, Speller

if TYPE_CHECKING:
    from apportion.resources.sampling import Sampler


def judge_from_options(
    url: str,
    *,
    model: str | None,
    template: str | None = None,
    temperature: float | None = 0.7,
    thinking: int = 0,
    workers: int = 8,
    timeout: float = 600.0,
    key_env: str | None = "OPENAI_API_KEY",
    tokenizer: Any = None,
    judge_tokenizer: Any = None,
    option: str = "--judge",
) -> JudgeServer:
    """The judge that a command was given: ``--judge URL --model NAME [--judge-template PATH] …``.

    For the command line: put the result into an `Asker` beside the other resources. A ``--judge-template`` goes two
    ways: here, where one with a probability becomes the template of `Value` asks and any other is only checked, so that
    a broken file is found before anything is read; and to the method, as its parameter ``template``
    (`template_for_methods` says whether).

    Args:
        url: of ``--judge``. model: of ``--model``; there is no default, because it is part of every cache key.
        template: of ``--judge-template``: a name of the library's templates or the path of a .toml file.
        temperature, thinking, workers, timeout, key_env: as `JudgeServer`. The key itself is only ever read from the
            environment.
        tokenizer: of the policy, for rollouts that have token ids and no text: a folder, a hub name, or a tokenizer.
        judge_tokenizer: of the judge, likewise: prompts are counted by it, and its control tokens are shown harmlessly.
        option: what the address is called in messages.

    Raises:
        ConfigError: an address that is none, no model, a template that cannot be read.
    """
    if not model:
        raise ConfigError(f"{option}: no model was named; give --model, as the server lists it under /models")
    own: dict[str, Any] = {}
    if template is not None and load_template(template).scale.kind == "probability":
        own["value_template"] = template
    if tokenizer is not None:
        own["decode"] = decoder_of(tokenizer)
    if judge_tokenizer is not None:
        speller = Speller(judge_tokenizer)
        own |= {"count": counter_of(speller), "special": tuple(speller.tokenizer.all_special_tokens)}
    return JudgeServer(
        url,
        model=model,
        temperature=temperature,
        thinking=thinking,
        workers=workers,
        timeout=timeout,
        key_env=key_env,
        option=option,
        **own,
    )


def template_for_methods(template: str) -> bool:
    """Whether a template is for verdicts on units (a method's parameter ``template``), not for `Value` asks."""
    return load_template(template).scale.kind != "probability"


def decoder_of(tokenizer: Any) -> Callable[[list[int]], str]:
    """Token ids to text by a tokenizer of transformers: the object, a folder or a hub name."""
    return Speller(tokenizer).text


def judge_of(sampler: Sampler, *, identity: str, special: Sequence[str] | None = None, **options: Any) -> JudgeCallable:
    """A judge by a model that is sampled from in this process, e.g. `HFPolicy` around a chat model.

    Args:
        sampler: of chat messages. identity: of the model and its sampling.
        special: the model's control tokens; None = those of the sampler's tokenizer, where it has one.
        options: as `JudgeResource`; ``count`` is by the sampler's tokenizer, where it has one.
    """
    speller = getattr(sampler, "speller", None)
    if speller is not None:
        options.setdefault("count", counter_of(speller))
        special = tuple(speller.tokenizer.all_special_tokens) if special is None else special

    def complete(messages: Messages, seed: int, max_tokens: int) -> Completion:
        chat = tuple((message["role"], message["content"]) for message in messages)
        (done,) = sampler.sample([Prompt(messages=chat, max_tokens=max_tokens, seed=seed)])
        if isinstance(done, Trouble | Refusal):
            raise done
        return Completion(done.text, done.prompt_tokens, done.generated_tokens)

    return JudgeCallable(complete, identity=identity, special=special or (), **options)
