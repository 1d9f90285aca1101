"""Tells a model's refusal for length apart from every other error (H25), and how many tokens it speaks of.

It reads errors, bodies and answers that others made; it sends nothing, retries nothing and never raises.
"""

import html
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from longturn.errors import ContextWindowExceeded
from longturn.overflow.phrasings import (
    CLASSES,
    CODES,
    OTHER,
    OTHER_CODES,
    OTHER_STATUS,
    PHRASINGS,
    RATE,
    RATE_CODES,
    Phrasing,
    compiled,
)


@dataclass(frozen=True, slots=True)
class Overflow:
    """A request that was too long for the model's window.

    tokens: N, what the refusal says was sent: the input, or input and output limit where the refusal adds them up.
    limit: M, what the model takes.
    about_output: the input fits, the output limit (`max_tokens`) asked for does not: lower it, cut no history (H24).
    input, output: the input alone and the output limit asked for, where the refusal states them apart.
    phrasing: which provider's row of `phrasings` matched, or the code that did.
    message: the part of the refusal's text that says so, at most 300 characters.

    Numbers are tokens, None where nothing was stated.
    """

    tokens: int | None = None
    limit: int | None = None
    about_output: bool = False
    input: int | None = None
    output: int | None = None
    phrasing: str = ""
    message: str = ""


_READ = 20_000  # characters of a text that are searched
_PARSE = 4_000_000  # characters of a body that are read as JSON
_DEPTH = 8  # an error in a gateway's error in a gateway's error
_FEW = 20  # items of a list, at each end

_TEXT_KEYS = ("message", "Message", "msg", "status_msg", "error_msg", "error_message", "errorMessage")
_CODE_KEYS = ("code", "Code", "type", "__type", "status", "error_type", "reason")
_ERROR_KEYS = ("error", "Error", "errors", "detail", "details", "base_resp", "innererror", "metadata", "raw")
_ANSWER_KEYS = ("choices", "candidates", "content", "output", "role", "delta")
_ANSWER_TEXT = re.compile(r'"(?:choices|candidates|content|output|delta)"\s*:')


@dataclass(frozen=True, slots=True)
class _Complaint:
    text: str
    codes: frozenset[str] = frozenset()
    sent: int | None = None
    limit: int | None = None


def overflow(
    error_or_response: object,
    *,
    status: int | None = None,
    capacity: int | None = None,
    max_output: int | None = None,
) -> Overflow | None:
    """What an error or a response says about a request that was too long; None when it says something else (H25).

    error_or_response: an exception of any SDK (its causes, contexts and groups are followed, but not behind an error
        that carries a provider's own answer), an HTTP response with `status_code` and `text`, a body as dict, list,
        str or bytes, a server-sent event, or a finished answer as dict or SDK object. A str that is no JSON is read
        as the text of an error.
    status: the HTTP status, where the body comes without its response.
    capacity: the window in tokens; only with it can an answer that the window cut short, or a prompt that the server
        silently truncated to it, be told.
    max_output: the output limit that was asked for, in tokens.

    What an answer says is never searched: only errors, codes, finish reasons and usage are. Never raises.
    """
    if isinstance(error_or_response, BaseException):
        return next((found for error in _chain(error_or_response) if (found := _of_error(error))), None)
    known = status if status is not None else _status(error_or_response)
    body = _opened(error_or_response)
    if isinstance(body, str) and (known or 0) < 400 and _ANSWER_TEXT.search(body):
        return None
    return _of_body(body, known) or _of_answer(body, capacity, max_output)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what lies behind it. One with an HTTP status speaks for itself: a retry that failed for another
    reason still has the first refusal as its context."""
    waiting, seen = [error], set[int]()
    while waiting and len(seen) < 100:
        current = waiting.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        if isinstance(current, BaseExceptionGroup):
            waiting.extend(current.exceptions)
        behind = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
        if behind and _status(current) is None:
            waiting.append(behind)


def _of_error(error: BaseException) -> Overflow | None:
    if isinstance(error, ContextWindowExceeded):
        return Overflow(error.estimated_tokens, error.capacity, phrasing="longturn", message=str(error)[:300])
    bodies = (_get(error, "body"), _get(error, "details"), _opened(_get(error, "response")))
    structured = [body for body in bodies if isinstance(body, (Mapping, list, str, bytes)) and body]
    words = " ".join(_short(str(part)) for part in error.args if isinstance(part, (str, bytes)))
    named = any(CLASSES.search(kind.__name__) for kind in type(error).__mro__)
    return _of_body(structured or words, _status(error), frozenset(("contextwindowoverflow",) if named else ()))


def _of_body(body: object, status: int | None, codes: frozenset[str] = frozenset()) -> Overflow | None:
    if status in OTHER_STATUS:
        return None
    known = codes if status is None else codes | {str(status)}
    complaints = list(islice(_complaints(body, _DEPTH), 100)) or [_Complaint("")]
    return _best(_judged(c.text, c.codes | known, c.sent, c.limit) for c in complaints)


def _judged(raw: str, codes: frozenset[str], sent: int | None, limit: int | None) -> Overflow | None:
    text, says_it_all = _plain(raw), codes & CODES
    found = _best(_matched(row, text) for row in PHRASINGS)
    if found is None and says_it_all | (codes & {"413"}):
        found = Overflow(sent, limit, phrasing=min(says_it_all, default="413"), message=text[:300])
    if found is None or codes & OTHER_CODES:
        return None
    alone_too_long = found.tokens is not None and found.limit is not None and found.tokens > found.limit
    another = RATE.search(text) or codes & RATE_CODES or OTHER.search(text)
    return found if alone_too_long or says_it_all or not another else None


def _matched(row: Phrasing, text: str) -> Overflow | None:
    match = compiled(row.text).search(text)
    if match is None:
        return None
    stated = {name: int(re.sub(r"\D", "", number)) for name, number in match.groupdict().items() if number}
    output, limit = stated.get("output"), stated.get("limit")
    given = stated["input"] + stated.get("more", 0) if "input" in stated else None
    # An input that takes the whole window leaves no output limit to lower.
    full = given is not None and limit is not None and given >= limit
    return Overflow(
        tokens=stated.get("sent", given),
        limit=limit,
        about_output=bool(row.about_output or output) and not full,
        input=given,
        output=output,
        phrasing=row.provider,
        message=text[max(0, match.start() - 60) :][:300],
    )


def _best(found: Iterable[Overflow | None]) -> Overflow | None:
    """The first of those that state the most numbers."""
    return max(filter(None, found), key=_numbers, default=None)


def _numbers(found: Overflow) -> int:
    return sum(value is not None for value in (found.tokens, found.limit, found.input, found.output))


def _complaints(node: object, depth: int) -> Iterator[_Complaint]:
    """Every text in `node` that stands where errors stand, with the codes beside and around it."""
    if depth == 0 or node is None or isinstance(node, (bool, int, float)):
        return
    if isinstance(node, (list, tuple)):
        for item in _ends(node):
            yield from _complaints(item, depth - 1)
        return
    if isinstance(node, (str, bytes, bytearray)):
        opened = _opened(node)
        inner = _inner_json(opened) if isinstance(opened, str) else opened
        if isinstance(opened, str) and opened:
            yield _Complaint(opened)
        yield from _complaints(inner, depth - 1)
        return
    if any(_get(node, key) is not None for key in _ANSWER_KEYS):
        errors = [_get(place, key) for place in (node, *_ends(_get(node, "choices"))) for key in ("error", "base_resp")]
        for value in (*errors, _get(node, "response")):
            yield from _complaints(value, depth - 1)
        return
    yield from _of_error_node(node, depth)


def _of_error_node(node: object, depth: int) -> Iterator[_Complaint]:
    codes = frozenset(str(code).lower() for key in _CODE_KEYS if isinstance(code := _get(node, key), (str, int)))
    texts = [text for key in _TEXT_KEYS if isinstance(text := _get(node, key), str)]
    if texts or codes & CODES:
        sent, limit = _whole(_get(node, "n_prompt_tokens")), _whole(_get(node, "n_ctx"))  # llama.cpp
        yield _Complaint(" ".join(map(_short, texts)), codes, sent, limit)
    values = [_inner_json(text) for text in texts] + [_get(node, key) for key in (*_ERROR_KEYS, "response")]
    for value in values:
        for complaint in _complaints(value, depth - 1):
            yield _Complaint(complaint.text, complaint.codes | codes, complaint.sent, complaint.limit)


# Where a call's input and output are counted: OpenAI, Anthropic and Responses, Gemini, Ollama. The further names come
# on top: Anthropic counts cached input apart, Gemini thoughts.
_INPUT = ("prompt_tokens", "input_tokens", "promptTokenCount", "prompt_token_count", "prompt_eval_count")
_INPUT_MORE = ("cache_read_input_tokens", "cache_creation_input_tokens")
_OUTPUT = ("completion_tokens", "output_tokens", "candidatesTokenCount", "candidates_token_count", "eval_count")
_OUTPUT_MORE = ("thoughtsTokenCount", "thoughts_token_count")
_USAGES = ("usage", "usageMetadata", "usage_metadata")
_REASONS = ("stop_reason", "finish_reason", "finishReason", "done_reason", "reason")
_CUT_SHORT = frozenset(("length", "max_tokens", "max_output_tokens"))
_ALMOST_NOTHING = 64  # tokens of output
_NEAR = 0.9  # of the window


def _of_answer(body: object, capacity: int | None, max_output: int | None) -> Overflow | None:
    events = _ends(body) if isinstance(body, list) else [body]
    nodes = [node for event in events for node in (event, *(_get(event, k) for k in ("message", "delta", "response")))]
    choices = [choice for node in nodes for key in ("choices", "candidates") for choice in _ends(_get(node, key))]
    places = [*nodes, *choices, *(_get(node, "incomplete_details") for node in nodes)]
    reasons = {word.lower() for at in places for key in _REASONS if isinstance(word := _get(at, key), str)}
    usages = [_get(node, key) for node in nodes for key in _USAGES] + nodes
    sent, output = _counted(usages, _INPUT, _INPUT_MORE), _counted(usages, _OUTPUT, _OUTPUT_MORE) or 0
    if reasons & CODES:
        return Overflow(sent, capacity, phrasing=min(reasons & CODES))
    if sent is None or capacity is None:
        return None
    if sent == capacity:  # Ollama cuts the prompt to its window and answers
        return Overflow(sent, capacity, phrasing="truncated to the window")
    short = output <= _ALMOST_NOTHING and (max_output is None or output < max_output)
    if short and reasons & _CUT_SHORT and sent >= _NEAR * capacity:
        return Overflow(sent, capacity, phrasing="no room to answer")
    return None


def _counted(usages: list[object], names: tuple[str, ...], more: tuple[str, ...]) -> int | None:
    counts = [
        count + sum(_whole(_get(usage, name)) or 0 for name in more)
        for usage in usages
        for key in names
        if (count := _whole(_get(usage, key))) is not None
    ]
    return max(counts, default=None)


def _status(thing: object) -> int | None:
    if isinstance(thing, Mapping):  # a number in a body is a code, and read as one
        return None
    response = _get(thing, "response")
    names = ((thing, "status_code"), (thing, "code"), (thing, "status"), (response, "status_code"))
    botocore = (_get(response, "ResponseMetadata"), "HTTPStatusCode")
    codes = [code for place, name in (*names, botocore) if (code := _whole(_get(place, name))) is not None]
    return next((code for code in codes if 100 <= code <= 599), None)


def _opened(thing: object) -> object:
    """The body of a response; JSON or server-sent events out of a text; anything else as it is."""
    if not isinstance(thing, (str, bytes, bytearray)):
        is_response = not isinstance(thing, Mapping) and _whole(_get(thing, "status_code")) is not None
        text = _get(thing, "text") if is_response else None
        return _opened(text) if isinstance(text, str) else thing
    text = thing if isinstance(thing, str) else bytes(thing).decode("utf-8", "replace")
    body = text.strip() if len(text) <= _PARSE else _short(text)
    if body.startswith(("data:", "event:")):
        lines = _ends([line[5:] for line in body.splitlines() if line.startswith("data:")])
        return [event for line in lines if (event := _json(str(line))) is not None]
    parsed = _json(body) if body.startswith(("{", "[", '"')) else None
    return body if parsed is None else parsed


def _inner_json(text: str) -> object:
    """The JSON that a gateway put into its own sentence, or None."""
    start, end = text.find("{"), text.rfind("}")
    return _json(text[start : end + 1]) if 0 <= start < end else None


def _json(text: str) -> object:
    try:
        return json.loads(text) if len(text) <= _PARSE else None
    except (ValueError, RecursionError):
        return None


def _plain(text: str) -> str:
    """One line without escapes, entities and tags, short enough to search."""
    bare = re.sub(r"<[a-zA-Z/!][^<>]{0,200}>", " ", html.unescape(_short(text)))
    return re.sub(r"\\{1,8}[nrt]|\s+", " ", bare).replace("\\", "").strip()


def _short(text: str) -> str:
    """A long text's beginning and end."""
    return text if len(text) <= _READ else text[: _READ // 2] + " " + text[-_READ // 2 :]


def _get(thing: object, key: str) -> object:
    """A key of a mapping or an attribute of an object; None where there is none, or where it cannot be read (yet)."""
    if isinstance(thing, Mapping):
        return thing.get(key)
    if thing is None or isinstance(thing, (str, bytes, int, float, list, tuple)):
        return None
    try:
        return getattr(thing, key, None)
    except (RuntimeError, OSError, TypeError, ValueError, LookupError):  # a response whose stream was not read
        return None


def _ends(value: object) -> list[object]:
    if not isinstance(value, (list, tuple)):
        return []
    return [*value] if len(value) <= 2 * _FEW else [*value[:_FEW], *value[-_FEW:]]


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
