"""Claude Code session logs (JSONL): rows linked by `parentUuid`, an answer spread over rows, subagents as sidechains.

The log holds neither the system prompt nor the tool definitions. Format as written by versions 2.0 and 2.1 (2026).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from longturn.core.meter import Usage
from longturn.dialects.logs import compaction
from longturn.dialects.logs.chat import left_out
from longturn.dialects.logs.conversation import Conversation
from longturn.dialects.logs.document import Document
from longturn.dialects.logs.fields import anthropic_usage, array, count, first_text, obj, seconds, some, text
from longturn.dialects.logs.tree import branches

Raw = dict[str, object]
_SPEAKERS = ("user", "assistant")


@dataclass(frozen=True, slots=True)
class _Row:
    where: str
    raw: Raw
    message: Raw

    @property
    def speaks(self) -> bool:
        # API errors are shown as answers but never sent to a model.
        known = self.raw.get("type") in _SPEAKERS and isinstance(self.message.get("content"), str | list)
        return known and self.raw.get("isApiErrorMessage") is not True

    @property
    def kind(self) -> str:
        """What sort of row it is, in Claude Code's words."""
        error = "API error" if self.raw.get("isApiErrorMessage") is True else None
        return first_text(error, self.raw.get("subtype"), self.raw.get("type"), "untyped")

    @property
    def answer(self) -> str:
        """The id of the answer that the row is a piece of; empty for a user's row."""
        if self.raw.get("type") != "assistant":
            return ""
        return first_text(self.message.get("id"), self.raw.get("requestId"), self.raw.get("uuid"), self.where)

    def ids(self, kind: str, key: str) -> list[str]:
        """The call ids in the row's blocks of that kind."""
        blocks = [obj(block) for block in array(self.message.get("content"))]
        return [text(block.get(key)) for block in blocks if block.get("type") == kind]


def recognise(document: Document) -> bool:
    """Whether one of the first rows links to a parent or names its session as Claude Code's rows do."""
    rows = [obj(row.value) for row in document.rows[:50]]
    return any("parentUuid" in row and ("sessionId" in row or "isSidechain" in row) for row in rows)


def read(document: Document, name: str) -> list[Conversation]:
    """The session's newest branch, its other branches, then each subagent that the file holds."""
    groups: dict[str, list[_Row]] = defaultdict(list)
    for row in document.rows:
        raw = obj(row.value)
        side = first_text(raw.get("agentId"), "sidechain") if raw.get("isSidechain") is True else ""
        groups[side].append(_Row(row.where, raw, obj(raw.get("message"))))
    main = groups.pop("", [])
    session = next(filter(None, (text(row.raw.get("sessionId")) for row in main)), name)
    found = list(_conversations(main, session))
    for side, rows in groups.items():
        found.extend(_conversations(rows, side))
    return found


def _conversations(rows: Sequence[_Row], name: str) -> list[Conversation]:
    notes: list[str] = []
    parents = _parents(rows, notes)
    silent = Counter(f"{row.kind} rows" for row in rows if not row.speaks and row.kind != "compact_boundary")
    notes.extend(left_out(silent))
    paths: list[list[_Row]] = []
    seen: set[str] = set()
    for path in branches(parents, [row.speaks for row in rows], _completed(rows)):
        chosen = [rows[position] for position in path]
        answers = {row.answer for row in chosen if row.speaks and row.answer}
        if paths and answers <= seen:
            places = some(row.where for row in chosen if row.speaks and not row.answer)
            notes.append(f"a branch without an answer of its own is left out ({places})")
        else:
            paths.append(chosen)
        seen |= answers
    return [
        _conversation(
            path, f"{name}#{number + 1}" if number else name, notes if not number else [_forked(path, paths[0])]
        )
        for number, path in enumerate(paths)
    ]


def _forked(path: Sequence[_Row], newest: Sequence[_Row]) -> str:
    shared = {row.where for row in newest}
    own = [row.where for row in path if row.speaks and row.where not in shared]
    return f"an older branch: its own rows are {some(own)}"


def _parents(rows: Sequence[_Row], notes: list[str]) -> list[int | None]:
    """The position of each row's parent.

    A compaction starts a new root and names the old one as its logical parent. A parent that is not in the file (logs
    get cut and joined) is taken to be the row before.
    """
    places = {text(row.raw.get("uuid")): position for position, row in enumerate(rows)}
    parents: list[int | None] = []
    missing: list[str] = []
    before: int | None = None
    for position, row in enumerate(rows):
        boundary = row.raw.get("subtype") == "compact_boundary"
        wanted = first_text(row.raw.get("parentUuid"), row.raw.get("logicalParentUuid") if boundary else None)
        parent = places.get(wanted) if wanted else None
        if parent is None and (wanted or boundary or (row.speaks and "uuid" not in row.raw)):
            parent = before
            missing.extend([row.where] if wanted and before is not None else [])
        parents.append(parent)
        if "uuid" in row.raw or row.speaks:
            before = position
    if missing:
        notes.append(
            f"{len(missing)} rows name a parent that is not there and were put behind the row before ({some(missing)})"
        )
    return parents


def _completed(rows: Sequence[_Row]) -> Callable[[list[int]], list[int]]:
    """What belongs to a way without lying on it: further pieces of its answers, and the results of parallel calls."""
    pieces: dict[str, list[int]] = defaultdict(list)
    results: dict[str, list[int]] = defaultdict(list)
    for position, row in enumerate(rows):
        if row.speaks and row.answer:
            pieces[row.answer].append(position)
        for call_id in row.ids("tool_result", "tool_use_id"):
            results[call_id].append(position)

    def complete(path: list[int]) -> list[int]:
        chosen = set(path)
        for answer in {rows[position].answer for position in path if rows[position].speaks}:
            chosen.update(pieces.get(answer, ()))
        given = {call_id for position in path for call_id in rows[position].ids("tool_result", "tool_use_id")}
        for position in sorted(chosen):
            for call_id in rows[position].ids("tool_use", "id"):
                if call_id not in given:
                    chosen.update(results.get(call_id, ())[:1])
        return sorted(chosen)

    return complete


def _conversation(rows: Sequence[_Row], name: str, notes: Sequence[str]) -> Conversation:
    grouped = _grouped(rows)
    blank: list[str] = []
    messages: list[object] = []
    usage: dict[int, Usage] = {}
    times: dict[int, float] = {}
    boundaries: list[int] = []

    def add(message: object, row: _Row) -> None:
        time = seconds(row.raw.get("timestamp"))
        times.update({len(messages): time} if time is not None else {})
        messages.append(message)

    for key, pieces in grouped.said.items():
        boundaries.extend([len(messages)] if key in grouped.starts else [])
        if not pieces[0].answer:
            summary = _summary(pieces[0])
            tokens = grouped.starts.get(key)
            time = pieces[0].raw.get("timestamp")
            standing = compaction.entry(summary, messages, time=time, source_tokens=tokens) if summary else None
            add(standing or pieces[0].message, pieces[0])
            continue
        blocks = _blocks(pieces, blank)
        # Each piece repeats the usage; the last one's is final (the first has the output of the stream's start).
        reported = [known for piece in pieces if (known := anthropic_usage(piece.message.get("usage")))]
        if blocks:
            usage.update({len(messages): reported[-1]} if reported else {})
            add({"role": "assistant", "content": blocks}, pieces[-1])
        if key in grouped.answered:
            add({"role": "user", "content": _results(grouped.answered[key])}, grouped.answered[key][-1])
    told = [*notes, f"{len(blank)} blank text blocks, which the provider refuses, are left out ({some(blank)})"]
    models = [
        model for row in rows if row.speaks and (model := text(row.message.get("model"))) not in ("", "<synthetic>")
    ]
    return Conversation(
        dialect="anthropic",
        messages=messages,
        name=name,
        model=models[-1] if models else None,
        usage=usage,
        times=times,
        boundaries=tuple(boundaries),
        notes=tuple(told if blank else notes),
    )


@dataclass(frozen=True, slots=True)
class _Grouped:
    """Rows by what they belong to.

    said: rows of each answer or user message; answered: answer -> rows with its results; starts: keys of `said` at
    which the history began anew -> the tokens that it had before, 0 where the log does not say.
    """

    said: dict[str, list[_Row]]
    answered: dict[str, list[_Row]]
    starts: dict[str, int]


def _grouped(rows: Sequence[_Row]) -> _Grouped:
    grouped = _Grouped({}, {}, {})
    callers: dict[str, str] = {}
    starting: int | None = None
    for row in rows:
        if row.kind == "compact_boundary" or row.raw.get("isCompactSummary") is True:
            starting = count(obj(row.raw.get("compactMetadata")).get("preTokens")) or starting or 0
        if not row.speaks:
            continue
        caller = next((callers[given] for given in row.ids("tool_result", "tool_use_id") if given in callers), "")
        if caller and not row.answer:
            grouped.answered.setdefault(caller, []).append(row)
            continue
        key = row.answer or row.where
        grouped.starts.update({key: starting} if starting is not None and key not in grouped.said else {})
        starting = None
        grouped.said.setdefault(key, []).append(row)
        callers.update(dict.fromkeys(row.ids("tool_use", "id"), key))
    return grouped


def _summary(row: _Row) -> str:
    """The summary that a compaction put in the place of the history; empty for any other row."""
    if row.raw.get("isCompactSummary") is not True:
        return ""
    content = row.message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else array(content)
    if any(obj(block).get("type") != "text" for block in blocks):
        return ""
    told = "\n".join(text(obj(block).get("text")) for block in blocks)
    return told if told.strip() else ""


def _blocks(pieces: Iterable[_Row], blank: list[str]) -> list[object]:
    blocks: list[object] = []
    called: set[str] = set()
    for piece in pieces:
        content = piece.message.get("content")
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else array(content):
            raw = obj(block)
            call_id = text(raw.get("id")) if raw.get("type") == "tool_use" else ""
            if raw.get("type") == "text" and not text(raw.get("text")).strip():
                blank.append(piece.where)
            elif call_id not in called:
                blocks.append(block)
            called.update([call_id] if call_id else [])
    return blocks


def _results(rows: Iterable[_Row]) -> list[object]:
    # Results of one answer's calls stand in one message, before anything else in it, as Claude Code sends them.
    blocks = [block for row in rows for block in array(row.message.get("content"))]
    return sorted(blocks, key=lambda block: obj(block).get("type") != "tool_result")
