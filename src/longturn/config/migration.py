"""Old settings written anew (S17): places in the text are replaced, and every other byte of the file stays as it is.

Comments, order, quoting and even the spacing are kept, which no dumping of a parsed file does. The outcome is read
again and compared with what was read before: a file in a form that was not thought of is refused, not damaged.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from longturn.config.checked import OLD_TRIGGER, snake
from longturn.config.document import Document, Node, Pair, is_nothing, line_of, own_pairs, pairs, parse, scalar, shown
from longturn.config.librechat import OWN_MODEL, Old, old_settings
from longturn.core.policy import Summarization
from longturn.errors import ConfigError

USUAL_SHARE = 0.8
"""The share that is written where nothing says which one the old trigger meant; LibreChat's own example has it."""


@dataclass(frozen=True, slots=True)
class Migration:
    """data: the file as it should be, the very same bytes where nothing is old. done: what was done, in words."""

    data: bytes
    done: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Edit:
    """A stretch of the text, in characters, and what stands there instead."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class _Step:
    """Edits that belong together, and what they did."""

    edits: Sequence[Edit]
    done: Sequence[str]


def migrate(data: bytes, name: str) -> Migration:
    """Write a file's old settings anew. Raises ConfigError for what cannot be read, or not be rewritten safely."""
    document = parse(data, name)
    old = old_settings(document)
    steps = [*_trigger(document), *_block(document, old), *(_removal(document, old))]
    if not steps:
        return Migration(data)
    text = document.text
    for edit in sorted((edit for step in steps for edit in step.edits), key=lambda edit: edit.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    _compare(document, old, text)
    mark = "\ufeff" if document.has_mark else ""
    return Migration((mark + text).encode(), tuple(done for step in steps for done in step.done))


def _compare(document: Document, old: Sequence[Old], text: str) -> None:
    """Raise ConfigError unless the new text says what the old one said but for what was to be changed."""
    try:
        after = parse(text, document.name)
        is_same = not old_settings(after) and _meaning(document, old) == _meaning(after, ())
    except ConfigError:
        is_same = False
    if not is_same:
        lines = ", ".join(str(each.line) for each in old) or "of the trigger"
        raise ConfigError(
            f"{document.name} is written in a way that is not rewritten safely: change it by hand (lines {lines}; "
            "`longturn config check` says what to write), or write its maps without aliases there"
        )


def _meaning(document: Document, without: Sequence[Old]) -> object:
    """What a file says, `summarization` aside, as something that can be compared; nodes that are shared count once."""
    left_out = {id(old.pair.at) for old in without}
    known: dict[int, int] = {}
    told: list[object] = []
    waiting = [pair for pair in document.sections() if pair.key != "summarization"]
    told += [pair.key for pair in waiting]
    nodes: list[Node] = [pair.value for pair in waiting]
    while nodes:
        node = nodes.pop()
        if id(node) in known:
            told.append(known[id(node)])
            continue
        known[id(node)] = len(known)
        if node.id == "scalar":
            told.append((node.tag, node.value))
        elif node.id == "sequence":
            told.append((node.tag, len(node.value)))
            nodes += node.value
        else:
            kept = [pair for pair in own_pairs(node) if id(pair.at) not in left_out]
            told.append((node.tag, len(kept)))
            nodes += [inner for pair in kept for inner in (pair.at, pair.value)]
    return told


# --- The trigger --------------------------------------------------------------------------------------------


def _trigger(document: Document) -> list[_Step]:
    """`type: token_count` becomes `token_ratio`, with the share that its value is where the file tells of what."""
    trigger = _at(document, "summarization", "trigger")
    if trigger is None or trigger.value.id != "mapping":
        return []
    keys = {pair.key: pair for pair in pairs(trigger.value)}
    kind, value = keys.get("type"), keys.get("value")
    if kind is None or kind.value.id != "scalar" or kind.value.value != OLD_TRIGGER:
        return []
    tokens = None if value is None else _number(value.value)
    most = _number(found.value) if (found := _at(document, "history", "max_context_tokens")) else None
    reserve = _number(found.value) if (found := _at(document, "summarization", "reserve_ratio")) else None
    kept = 1 - (Summarization().reserve_ratio if reserve is None else reserve)
    is_known = tokens is not None and most is not None and 0 < kept <= 1 and tokens > 0
    share = min(1.0, round(tokens / (most * kept), 3)) if is_known and tokens and most else USUAL_SHARE
    why = (
        f"{tokens:,} of the {most * kept:,.0f} that may be sent"
        if is_known and most
        else "no share can be told from its value, so this is the usual one: see whether it suits"
    )
    spelled = document.text[kind.value.start_mark.index : kind.value.end_mark.index]
    edits = [_replaced(kind.value, spelled.replace(OLD_TRIGGER, "token_ratio"))]
    if value is None:
        edits.append(_behind(document, kind, "value", share))
    else:
        edits.append(_replaced(value.value, f"{share:g}"))
    was = "without a value" if value is None else f"of {shown(value.value)}"
    said = f"line {line_of(kind.value)}: the trigger {OLD_TRIGGER} {was} is now token_ratio of {share:g} ({why})"
    return [_Step(edits, [said])]


def _replaced(node: Node, text: str) -> Edit:
    return Edit(node.start_mark.index, node.end_mark.index, text)


def _behind(document: Document, pair: Pair, key: str, value: object) -> Edit:
    """One more key behind a scalar one, in the style of its map."""
    end = pair.value.end_mark.index
    if pair.home.flow_style:
        quote = '"' if document.text[pair.at.start_mark.index] == '"' else ""
        return Edit(end, end, f", {quote}{key}{quote}: {json.dumps(value)}")
    return Edit(end, end, f"{_newline(document)}{' ' * pair.at.start_mark.column}{key}: {json.dumps(value)}")


# --- The settings of endpoints ------------------------------------------------------------------------------


def _block(document: Document, old: Sequence[Old]) -> list[_Step]:
    """The `summarization` that says what the endpoints said, and what of theirs is lost in it."""
    if not old:
        return []
    present = _at(document, "summarization")
    if present is not None and not is_nothing(present.value):
        said = "summarization is there already and stays as it is: the endpoints' settings had no effect beside it"
        return [_Step([], [f"line {line_of(present.at)}: {said}"])]
    chosen = {key: next((each for each in old if each.key == key and each.value is not None), None) for key in
              ("summarize", "summaryModel")}  # fmt: skip
    keys: dict[str, object] = {}
    if chosen["summarize"] or chosen["summaryModel"]:
        # Off was what an endpoint did that named a model and no switch; what is off stays off.
        keys["enabled"] = bool(chosen["summarize"] and chosen["summarize"].value)
    if (model := chosen["summaryModel"]) and model.value != OWN_MODEL:
        keys |= {"provider": model.endpoint, "model": model.value}
    if not keys:
        return []
    said = ", ".join(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in keys.items())
    clashes = [
        f"line {each.line}: {each.path} is {shown(each.pair.value)}, which differs from line {first.line}: "
        "the first wins"
        for each in old
        if (first := chosen[each.key]) and each.value is not None and _differs(each, first)
    ]
    return [_Step([_inserted(document, present, keys)], [f"summarization says now: {said}", *clashes])]


def _differs(one: Old, first: Old) -> bool:
    is_model = one.key == "summaryModel" and one.value != OWN_MODEL
    return one.value != first.value or (is_model and one.endpoint != first.endpoint)


def _inserted(document: Document, present: Pair | None, keys: Mapping[str, object]) -> Edit:
    """The block before `endpoints` and the comments above that, or under a `summarization:` that holds nothing."""
    newline = _newline(document)
    endpoints = next(pair.at for pair in document.sections() if pair.key == "endpoints")
    if document.root is not None and document.root.flow_style:
        at = endpoints.start_mark.index if present is None else present.at.start_mark.index
        end = at if present is None else present.value.end_mark.index
        block = f'"summarization": {json.dumps(keys, ensure_ascii=False)}'
        return Edit(at, end, block + (", " if present is None else ""))
    indent = " " * endpoints.start_mark.column
    lines = [f"{indent}  {key}: {json.dumps(value, ensure_ascii=False)}" for key, value in keys.items()]
    if present is not None:
        at = _behind_colon(document.text, present)
        end = present.value.end_mark.index if present.value.value else at  # the end of no text lies behind comments
        return Edit(at, end, newline + newline.join(lines))
    start = _line_start(document.text, endpoints.start_mark.index)
    while start and document.text[(above := _line_start(document.text, start - 1)) : start].lstrip().startswith("#"):
        start = above
    return Edit(start, start, newline.join([f"{indent}summarization:", *lines, "", ""]))


def _removal(document: Document, old: Sequence[Old]) -> list[_Step]:
    """Each old setting taken out of its map."""
    gone = {id(each.pair.at) for each in old}
    edits: list[Edit] = []
    homes = {id(each.pair.home): each.pair.home for each in old}
    for home in homes.values():
        edits += _emptied(document, own_pairs(home), gone, home)
    said = [f"line {each.line}: {each.path} ({shown(each.pair.value)}) is removed" for each in old]
    return [_Step(edits, said)] if old else []


def _emptied(document: Document, siblings: Sequence[Pair], gone: set[int], home: Node) -> list[Edit]:
    text = document.text
    if all(id(pair.at) in gone for pair in siblings):
        end = home.end_mark.index if home.flow_style else _end(siblings[-1], text)
        return [Edit(home.start_mark.index, end, "{}")]
    if home.flow_style:
        places = [place for place, pair in enumerate(siblings) if id(pair.at) in gone]
        return [_out_of_flow(text, siblings, place, gone) for place in places]
    edits: list[Edit] = []
    first = siblings[0]
    begins = _line_start(text, first.at.start_mark.index)
    if id(first.at) in gone and text[begins : first.at.start_mark.index].strip():
        # Behind a dash: the next key that stays moves up to it, and comments between them stand above it.
        until = next(place for place, pair in enumerate(siblings) if id(pair.at) not in gone)
        gaps = [text[_end(siblings[place], text) : siblings[place + 1].at.start_mark.index] for place in range(until)]
        comments = [line for gap in gaps for line in gap.splitlines(keepends=True)[1:] if line.lstrip().startswith("#")]
        edits = [
            Edit(begins, begins, "".join(comments)),
            Edit(first.at.start_mark.index, siblings[until].at.start_mark.index, ""),
        ]
        siblings = siblings[until:]
    for pair in siblings:
        if id(pair.at) in gone:
            start = _line_start(text, pair.at.start_mark.index)
            edits.append(Edit(start, _line_end(text, _end(pair, text)), ""))
    return edits


def _out_of_flow(text: str, siblings: Sequence[Pair], place: int, gone: set[int]) -> Edit:
    """Up to the next key; the last ones go with the comma before them."""
    pair = siblings[place]
    is_last = all(id(each.at) in gone for each in siblings[place:])
    if not is_last:
        return Edit(pair.at.start_mark.index, siblings[place + 1].at.start_mark.index, "")
    return Edit(text.rfind(",", 0, pair.at.start_mark.index), _end(pair, text), "")


def _end(pair: Pair, text: str) -> int:
    """Where a value ends; one that is nothing ends at its colon, and a block scalar before its last line break."""
    found = int(pair.value.end_mark.index)
    if found == pair.value.start_mark.index:  # a value of no text lies wherever the parser saw that there is none
        return _behind_colon(text, pair)
    if pair.value.id == "scalar" and pair.value.style in ("|", ">"):
        return len(text[:found].rstrip())
    return found


def _behind_colon(text: str, pair: Pair) -> int:
    """Behind the colon of a key, or behind a key that has none (`? key`)."""
    end = int(pair.at.end_mark.index)
    return max(end, text.find(":", end) + 1)


# --- Places -------------------------------------------------------------------------------------------------


def _at(document: Document, section: str, *keys: str) -> Pair | None:
    """The pair that a path names, in either spelling."""
    found = next((pair for pair in document.sections() if pair.key == section), None)
    for key in keys:
        inner = pairs(found.value) if found is not None and found.value.id == "mapping" else []
        found = next((pair for pair in inner if snake(pair.key) == key), None)
    return found


def _number(node: Node) -> float | None:
    try:
        found = scalar(node) if node.id == "scalar" else None
    except ValueError:
        return None
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    return found if is_number and 0 <= found < float("inf") else None  # type: ignore[operator,return-value]


def _newline(document: Document) -> str:
    return "\r\n" if "\r\n" in document.text else "\n"


def _line_start(text: str, index: int) -> int:
    return text.rfind("\n", 0, index) + 1


def _line_end(text: str, index: int) -> int:
    """Behind the line break of the line that `index` is in."""
    found = re.compile(r"\n|$").search(text, index)
    return found.end() if found else len(text)
