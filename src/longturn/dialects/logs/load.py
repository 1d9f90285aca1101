"""The readers in the order they are asked, and the one door: a file's bytes in, its conversations out."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from longturn.dialects.logs import (
    claude_code,
    codex,
    gemini_cli,
    inspect_ai,
    langchain,
    librechat,
    openhands,
    pi,
    requests,
    swe_agent,
)
from longturn.dialects.logs.conversation import Conversation
from longturn.dialects.logs.document import Document, parse
from longturn.errors import TranscriptError


@dataclass(frozen=True, slots=True)
class Reader:
    """One log format: `recognise` looks at a parsed file, `read` gives its conversations."""

    name: str
    recognise: Callable[[Document], bool]
    read: Callable[[Document, str], list[Conversation]]


READERS = (
    Reader("Claude Code session", claude_code.recognise, claude_code.read),
    Reader("Codex rollout", codex.recognise, codex.read),
    Reader("pi session", pi.recognise, pi.read),
    Reader("Gemini CLI chat", gemini_cli.recognise_cli, gemini_cli.read_cli),
    Reader("ADK session", gemini_cli.recognise_adk, gemini_cli.read_adk),
    Reader("SWE-agent trajectory", swe_agent.recognise, swe_agent.read),
    Reader("mini-swe-agent trajectory", swe_agent.recognise_mini, swe_agent.read_mini),
    Reader("OpenHands run", openhands.recognise, openhands.read),
    Reader("inspect_ai log", inspect_ai.recognise, inspect_ai.read),
    Reader("LibreChat export", librechat.recognise, librechat.read),
    Reader("LangChain dump", langchain.recognise, langchain.read),
)


def load(data: bytes, name: str = "") -> list[Conversation]:
    """The conversations in a request body, a bare message list in any dialect or an agent's session log (see READERS).

    The format is told from the content; `name` only names conversations that have no name of their own. What could not
    be read is in the notes of each conversation. Raises TranscriptError, naming line or position, for what is empty,
    broken before its last line, nested too deeply, or none of these formats.
    """
    document = parse(data)
    try:
        reader = next((reader for reader in READERS if reader.recognise(document)), None)
        conversations = reader.read(document, name) if reader else requests.read(document, name)
    except RecursionError:
        raise TranscriptError("the file is nested too deeply to be read: flatten it") from None
    if reader and not any([found.messages for found in conversations]):
        raise TranscriptError(f"the {reader.name} holds no messages ({len(document.rows)} rows)")
    return list(_noted(conversations, document.notes))


def _noted(conversations: list[Conversation], notes: tuple[str, ...]) -> Iterator[Conversation]:
    for found in conversations:
        yield replace(found, notes=(*notes, *found.notes)) if notes else found
