"""`fit` and `fit_request`: one call each, for a message list and for a whole request body in any dialect."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from longturn import catalog
from longturn.arguments import named_policy
from longturn.core.checkpoint import is_entry
from longturn.core.policy import Budget, Policy
from longturn.dialects.base import Dialect, Native
from longturn.fitter import Fitter
from longturn.request import leave_to_server, read_request
from longturn.shaped import Window


def fit(
    messages: Sequence[Native],
    *,
    model: str | None = None,
    budget: Budget | int | None = None,
    capacity: int | None = None,
    max_output: int | None = None,
    policy: Policy | str | None = None,
    system: object = None,
    tools: object = None,
    dialect: Dialect | str | None = None,
) -> Window:
    """Shape a message list so that it fits, in any dialect; the list and its messages are never changed.

    model: chooses the estimate, the window and the thinking rule: "claude-sonnet-4-5", "openai:gpt-5".
    budget: what may be sent, in tokens, or a `Budget`; 0 switches proactive trimming off. Without one the policy's
        keys decide: out of the box 0.75 of a known window, 32,000 where it is unknown.
    capacity: the model's window in tokens, where it is not to be looked up by name.
    max_output: the request's output limit in tokens, which must fit the window beside the input (B10). Without one,
        what the model writes at most is kept free, at most a quarter of the window, and nothing where it is unknown.
    policy: a `Policy` or the name of a preset, "default" or "seed".
    system, tools: what else is sent, counted as the provider would (H18, H23).
    dialect: "openai_chat", "openai_responses", "anthropic" or "gemini"; judged from the list when not given (B29).

    Raises ContextWindowExceeded when nothing that may be left out makes it fit, TranscriptError for a list that cannot
    be read, ConfigError for arguments that cannot be used.
    """
    fitter = Fitter(
        model=model,
        budget=budget,
        capacity=capacity,
        max_output=max_output,
        policy=policy,
        system=system,
        tools=tools,
        dialect=dialect,
    )
    return fitter.fit(messages)


def fit_request(
    body: Mapping[str, object],
    *,
    model: str | None = None,
    budget: Budget | int | None = None,
    capacity: int | None = None,
    max_output: int | None = None,
    policy: Policy | str | None = None,
    system: object = None,
    tools: object = None,
    dialect: Dialect | str | None = None,
) -> Window:
    """Shape a whole request body in any dialect; `.body` is what to send, the very same object when nothing changed.

    The model, the output limit, the system prompt and the tools are taken from the body where they are not given. Work
    that the request asks the provider to do (Anthropic `context_management`, OpenAI compaction, `truncation: "auto"`)
    is left to it, and a body whose conversation the provider holds (`previous_response_id`) is left alone. Arguments
    and errors are those of `fit`.
    """
    request = read_request(body, dialect, catalog.provider_of(model))
    chosen = named_policy(policy)
    window = fit(
        request.messages,
        model=model or request.model,
        budget=0 if request.is_tail else budget,
        capacity=capacity,
        max_output=request.max_output if max_output is None else max_output,
        policy=replace(chosen, rungs=leave_to_server(chosen, request.served)) if request.served else chosen,
        system=request.system if system is None else system,
        tools=request.tools if tools is None else tools,
        dialect=request.dialect,
    )
    if request.is_tail:
        told = [item for item in request.messages if not is_entry(item)]
        is_whole = len(told) == len(request.messages)
        return replace(window, messages=told, events=(), body=body if is_whole else request.with_messages(told))
    return replace(window, body=request.with_messages(window.messages) if window.changed else body)
