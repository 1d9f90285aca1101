"""What the Gemini API takes and what it refuses, as far as a list of contents shows it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from longturn.core.messages import Role
from longturn.dialects.base import Native
from longturn.dialects.native import as_object, plain, unreadable
from longturn.errors import TranscriptError

Body = dict[str, object]

ROLES: dict[object, Role] = {None: "user", "user": "user", "model": "assistant", "function": "user", "tool": "user"}
CALL = ("functionCall", "function_call")
RESPONSE = ("functionResponse", "function_response")
MEDIA = ("inlineData", "inline_data", "fileData", "file_data")
SIGNATURE = ("thoughtSignature", "thought_signature")
# Keys that say something about a part but are none of its data: a part of nothing else is refused as empty.
_ASIDE = frozenset({"thought", "videoMetadata", "video_metadata", "mediaResolution", "media_resolution", *SIGNATURE})
KNOWN = frozenset({"text", "executableCode", "executable_code", *CALL, *RESPONSE, *MEDIA, *SIGNATURE})


def fields(item: Native, position: int) -> tuple[Role, Sequence[Native]]:
    """The role and the native parts of a content. Raises TranscriptError naming the position (H29)."""
    if type(item) is dict:
        name, parts = item.get("role"), item.get("parts")
    elif isinstance(item, str):
        name, parts = "user", [{"text": item}]
    elif hasattr(item, "parts"):  # an SDK Content: its parts stay the SDK's own objects, bytes and all
        name, parts = getattr(item, "role", None), item.parts
    else:
        body = as_object(item, position)
        name, parts = body.get("role"), body.get("parts")
    role = ROLES.get(name) if name is None or isinstance(name, str) else None
    if role is None:
        raise unreadable(position, f"unknown role {name!r}: Gemini takes user, model, function and tool")
    if parts is None:
        return role, ()
    if not isinstance(parts, (list, tuple)):
        raise unreadable(position, f"parts is a {type(parts).__name__}: Gemini takes a list")
    return role, parts


def body_of(native: Native, position: int) -> Body:
    """One native part as a plain dict to read from. Raises TranscriptError when it is no object."""
    body = native if type(native) is dict else plain(native)
    if isinstance(body, dict):
        return body
    raise unreadable(position, f"a part is a {type(native).__name__}: Gemini takes objects")


def first_key(body: Mapping[str, object], keys: Sequence[str]) -> str | None:
    """The first of the spellings `keys` under which `body` holds something; None for none."""
    for key in keys:
        if body.get(key) is not None:
            return key
    return None


def fault_of(role: Role, body: Body) -> str | None:
    """Why the API would refuse this part in a content of this role; None when it would not."""
    if role == "user" and first_key(body, CALL) is not None:
        return "function call in a user's content"
    if role == "assistant" and first_key(body, RESPONSE) is not None:
        return "function response in a model's content"
    if first_key(body, SIGNATURE) is not None:  # the last part of a streamed answer may hold a signature and no text
        return None
    held = [key for key, value in body.items() if value is not None and key not in _ASIDE]
    return "empty part" if not held or (held == ["text"] and not body["text"]) else None


def inner(body: Body, key: str | None) -> Body:
    """The object under `key`; an empty one where there is none."""
    value = body.get(key) if key is not None else None
    return value if isinstance(value, dict) else {}


@dataclass(frozen=True, slots=True)
class _Content:
    role: Role
    calls: int
    responses: int
    faults: tuple[str, ...]


def problems(messages: Sequence[Native]) -> list[str]:
    """What the API would refuse, a sentence each with its position; only what the list itself shows."""
    try:
        contents = [_content(item, position) for position, item in enumerate(messages)]
    except TranscriptError as error:
        return [str(error)]
    return [*_first_problems(contents), *_problems(contents)]


def _content(item: Native, position: int) -> _Content:
    role, natives = fields(item, position)
    bodies = [body_of(native, position) for native in natives]
    calls = sum(first_key(body, CALL) is not None for body in bodies)
    responses = sum(first_key(body, RESPONSE) is not None for body in bodies)
    faults = [f".parts[{place}]: {fault}" for place, body in enumerate(bodies) if (fault := fault_of(role, body))]
    if not bodies:
        faults.append(": the content has no parts")
    mine = role == "assistant"
    return _Content(role, calls if mine else 0, 0 if mine else responses, tuple(faults))


def _first_problems(contents: Sequence[_Content]) -> Iterator[str]:
    if contents and contents[0].role != "user":
        yield "contents[0]: the first content must be a user's, not a model's"
    if contents and contents[0].responses:
        yield "contents[0]: the first content may not answer a function call"


def _problems(contents: Sequence[_Content]) -> Iterator[str]:
    asked = 0
    for place, content in enumerate(contents):
        yield from (f"contents[{place}]{fault}" for fault in content.faults)
        if content.responses != asked and place > 0:
            yield (
                f"contents[{place}]: {content.responses} function responses stand behind a content with "
                f"{asked} function calls: there must be one for each, and none elsewhere"
            )
        asked = content.calls
    if asked:
        yield f"contents[{len(contents) - 1}]: {asked} function calls are not answered"
