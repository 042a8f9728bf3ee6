"""Reading what an OpenAI-compatible server answered; it is untrusted, and so are its counts."""

from __future__ import annotations

from typing import Any

from apportion.resources.dialects import ids_of, logp_of
from apportion.resources.protocol import Refusal, Trouble
from apportion.resources.sampling import Prompt, Sampled

MISCOUNTED = "the server's token counts differ from ours, which were used"
UNCOUNTED = "the server did not count its tokens, so the most that they could be was taken"
SEVERAL = "more answers came than were asked for; the first was used"


def first_choice(told: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The first answer, and what to note.

    Raises:
        Trouble: there is none.
    """
    choices = told.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise Trouble("the server's answer holds no choice", spent=True)
    return choices[0], [SEVERAL] if len(choices) > 1 else []


def sampled_of(told: dict[str, Any], prompt: Prompt, most_prompt: int, most: int) -> Sampled:
    """What was sampled, with our own counts where ids are known.

    Args:
        told: the server's answer. prompt: what was asked.
        most_prompt, most: tokens of the prompt, and sampled tokens, at most.

    Raises:
        Trouble, Refusal: it cannot be used.
    """
    choice, notes = first_choice(told)
    message = choice.get("message")
    text = (
        choice.get("text") if prompt.messages is None else message.get("content") if isinstance(message, dict) else None
    )
    reason = choice.get("finish_reason")
    if reason not in ("stop", "length"):
        raise Refusal(f"the server ended an answer with finish_reason {str(reason)[:40]!r}", spent=True)
    if not isinstance(text, str):
        raise Trouble("the server's answer has no text", spent=True)
    ids, logp = ids_of(choice), logp_of(choice)
    if ids is not None and len(ids) > most + 1:
        raise Refusal(f"the server sampled {len(ids)} tokens where {most} were allowed", spent=True)
    usage = told.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    shown = None if prompt.ids is None else len(prompt.ids)
    prompt_tokens, odd = _count(usage.get("prompt_tokens"), shown, most_prompt, 0)
    generated, odder = _count(usage.get("completion_tokens"), None if ids is None else len(ids), most, 1)
    return Sampled(
        text,
        ids,
        logp if ids is not None and logp is not None and len(logp) == len(ids) else None,
        reason == "stop",
        prompt_tokens,
        generated,
        " and ".join(dict.fromkeys([*notes, *filter(None, (odd, odder))])),
    )


def _count(said: Any, own: int | None, most: int, slack: int) -> tuple[int, str]:
    """A count and what is odd about it; ``slack``: the end of text is counted by some and not by others."""
    good = type(said) is int and 0 <= said <= most + slack
    if own is not None:
        return own, MISCOUNTED if said is not None and not (good and abs(said - own) <= slack) else ""
    if good:
        return said, ""
    return most, UNCOUNTED if said is None else MISCOUNTED
