"""A summarizer without a model: it picks out what the user ruled and stated; the later word replaces the earlier.

It shows what a checkpoint holds when the one who writes it does as the prompt says; `benchmarks.survival` measures it.
English only, by patterns: it copies statements whole and makes no new sentence. A tool's text is data and says nothing
here (B33); questions, acknowledgements, pasted logs and code are left out.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import longturn
from longturn.summaries import Said, SummaryRequest

SHARE = 0.2
"""Up to this share of what was said a checkpoint takes decisions, what is done and details, where no limit is set."""

FRAME = 4
"""What a message takes beside its role and its text, in characters, at the least."""

HEADINGS = {
    "goal": "## Goal",
    "safety": "## Constraints & Preferences",
    "constraint": "## Constraints & Preferences",
    "preference": "## Constraints & Preferences",
    "done": "## Progress\n### Done",
    "decision": "## Key Decisions",
    "next": "## Next Steps",
    "fact": "## Critical Context",
    "detail": "## Critical Context",
}
"""By kind of statement, in the order of the prompt's sections."""

PRIORITY = ("safety", "constraint", "preference", "goal", "fact", "decision", "next", "done", "detail")
"""What is kept first where there is not room for all."""
RULINGS = PRIORITY[:3]
KEPT = PRIORITY[:5]
"""These go into a checkpoint whatever their share; the rest only up to `SHARE`."""

LABELS = {
    "safety": r"safety(?: rule)?",
    "constraint": r"(?:hard )?constraint|rule|requirement|important|policy",
    "preference": r"(?:user )?preference",
    "goal": r"goal(?: state)?|task|objective|status",
    "fact": r"fact",
    "decision": r"decision|decided",
    "next": r"next steps?|to-?do|reminder",
    "": r"(?:quick |small )?update|note|fyi|correction|change|ps",
}
"""What a user writes before a colon to say what follows; the empty kind says nothing and is left out."""

_SECRETS = r"secret|password|credential|api keys?|private|vault|\bpin\b|access[- ]code|personal data"
_DISCLOSE = r"disclos|reveal|leak|expos|shar(?:e|ed|ing)\b|publish"
_FORBID = r"\b(?:never|(?<!\bI )(?:do not|don't)|must not|mustn't|may not|under no circumstances)\b"
_ANSWERS = r"answers?|repl(?:y|ies)|responses?|style|tone|examples?|units?|measurements?"
MARKS = (
    ("safety", rf"{_FORBID}.*(?:{_DISCLOSE}|{_SECRETS}|untrusted|\bharm)"),
    ("safety", rf"(?:{_DISCLOSE}|{_SECRETS}).*\b(?:never|must not)\b|\bharm\b.*\b(?:stop|refuse|escalate)\b"),
    ("preference", r"\b(?:prefers?|preferred|(?:I'd|I would) (?:rather|like|love)|I (?:want|like|hate)|user wants?)\b"),
    ("preference", rf"^(?:please |always |from now on,? )*(?:make|keep|give|write|use|answer)\b.*\b(?:{_ANSWERS})\b"),
    ("preference", r"^(?:answers?|repl(?:y|ies)|responses?)\b"),
    (
        "constraint",
        rf"{_FORBID}|\b(?:always|must (?!have\b)|forbidden|not allowed|at all times|from now on|nobody else)\b",
    ),
    ("constraint", r"^(?:for [^,]+, |please )?(?:only|no|keep|use|report|show|put|limit|avoid|stick to|run|write) \w"),
    ("constraint", r"\b(?:ceiling|budget|cap|limit|at most|no more than)\b.*(?:\$|\bdollars|\d)"),
    ("next", r"^(?:then |later |afterwards |we should |we (?:still )?(?:need|have) to )"),
    ("goal", r"\b(?:next (?:step|up)|current task|(?:working|current) branch|rebased|awaiting|open question)\b"),
    ("goal", r"^(?:please |can you )?(?:fix|add|implement|build|migrate|refactor|port|finish|investigate|make) \w"),
    ("goal", r"\b(?:switched|moved|working|development)\b.*\bbranch\b"),
    ("decision", r"\b(?:we|I|let's) (?:decided|chose|agreed|settled|go with|will go with|picked)\b"),
)
"""What an unlabelled sentence is, by its words: the first that matches."""

DONE = re.compile(
    r"^(?:I(?:'ve| have)? |We(?:'ve| have)? )?(?:implemented|fixed|added|created|removed|renamed|finished|migrated)\b",
    re.I,
)
"""What the agent reports as done; nothing else that it says is taken up."""
STATES = re.compile(
    r"\b(?:is|are|was|has|have|owns?|belongs?|calls?|called|calling|named|lives|runs|renamed|moved|changed|pinned|lands)\b"
)
"""A sentence that says how something is."""

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_ONES = r"(?:one|two|three|four|five|six|seven|eight|nine|ten|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)"
_CITY = r"(?:Africa|America|Asia|Australia|Europe|Pacific|Zone)/\w+"
VALUES = {
    "URL": r"(?i:https?://\S+[\w/])",
    "MONEY": rf"(?i:[$€£] ?\d[\d,.]*\d|[$€£]\d|\b(?:{_ONES}[ -])?(?:{_ONES}|\d[\d,]*)(?: hundred| thousand)?"
    r" (?:dollars|euros|pounds)\b)",
    "DATE": rf"(?i:\b\d{{4}}-\d\d-\d\d\b|\b{_MONTH} \d{{1,2}}\b|\b\d{{1,2}} {_MONTH}\b|\b\d\d-\d\d\b)",
    "CLOCK": rf"\b(?:UTC|GMT|CET|[PCEM][SD]?T|{_CITY})\b|\b(?:Pacific|Central|Eastern|Mountain|local) [Tt]ime\b",
    "BRANCH": r"\b[a-z]+/[a-z][\w.-]*\b",
    "REGION": r"\b[a-z]{2}-(?:north|south|east|west|central)[a-z]*-\d\b",
    "HASH": r"\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}\b",
    "CODE": r"\b[A-Za-z]{2,}-\d{2,}\b",
    "PART": r"\b\d+(?:-\d+)? of \d+\b",
    "RELEASE": r"\b[A-Z][A-Za-z]+ \d+(?:\.\d+)*\b|\b\d+\.\d+(?:\.\d+)*\b",
    "IDENTIFIER": r"\b\w+(?:_\w+)+\b|\b[\w/-]+\.(?:py|toml|json|yaml|yml|md|rs|go|ts|js|sh|cfg|txt)\b",
    "PERSON": r"\b[A-Z][a-z]+ [A-Z][a-z]+\b",
    "TONE": r"(?i:\b(?:terse|brief|concise|short|detailed|verbose|playful|warm|light|formal|casual|dry)\b)",
    "UNITS": r"(?i:\b(?:metric|imperial)\b)",
    "COUNT": r"\b\d[\d,]* [a-z]{3,}(?: per [a-z]+)?\b",
    "NEXT": r"(?i:^(?:after this, )?(?:the )?next (?:steps?|up)\b)",
    "NAME": r"(?<=[a-z,:] )[A-Z][A-Za-z]+\b",
}
"""Kinds of value. A later statement replaces an earlier one only where it has every kind that the earlier one has."""
_VALUE = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in VALUES.items()))
FACTS = {"URL", "MONEY", "DATE", "CLOCK", "BRANCH", "REGION", "HASH", "CODE", "PERSON"}
DETAILS = {"IDENTIFIER", "RELEASE", "COUNT"}
"""Kinds of value that make a sentence a fact, and those that make it a detail where it says how something is."""
ONE_AT_A_TIME = {"CLOCK", "BRANCH", "TONE", "NEXT"}
"""Kinds of which a session has one that holds: no word about whose it is needed."""

SYNONYMS = {
    "MONEY": "budget spend expense cost price cap ceiling dollar exceed",
    "DATE": "deadline date due schedule timing ship",
    "CLOCK": "time timestamp clock timezone",
    "BRANCH": "branch rebase",
    "called": "codename name label call designate refer",
    "duty": "oncall pager support escalation incident duty",
    "answer": "answer reply response style tone",
    "disclose": "disclose reveal share leak expose",
    "trip": "trip travel",
    "documentation": "documentation docs handbook",
}
"""Words that tell the same subject; in capitals those that a kind of value names as well."""
_ENVIRONMENT = re.compile(r"\b(?:production|prod|staging|sandbox|local)\b", re.I)
"""What is said of one environment is never about another, nor about all."""
_NOISE = """
a about active after again all always an and any are as at back base based be because been before being belong
below by can circumstances current day do does done each else ever every explicit first fix for from get give go
had handl has hav have her his hold host i if in internally is it its just keep land let like longer make may me
more mov must need new next no nobody not now of off old on only onto or our out over own owner pass per plan
please prefer previous put quick rather remain report rotat rule run same say set show so stay still than that
the their them then there these they this those to today tomorrow total under until up updat us use user want
was we week were when which who will with without work would year yet you your
"""
NOISE = frozenset(_NOISE.split())
"""Words that tell no subject."""
_ENDINGS = "ations ation ions ion ings ing ments ment als al ers er ed es ly s e"
ENDINGS = tuple(_ENDINGS.split())

_SPLIT = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'`(])")
_LABEL = re.compile("|".join(f"(?P<k{n}>{words})" for n, words in enumerate(LABELS.values())), re.I)
_LEAD = re.compile(
    r"^(?:ok(?:ay)?|also|and|so|but|btw|by the way|from now on|please|please note that|note that)\b[,:]?\s+", re.I
)
_TRAIL = re.compile(r",? (?:from now on|please|now)(?=[.!]?$)|[;,] the (?:old|previous|former) [^.;]+(?=[.!]?$)", re.I)
_PASTED = re.compile(
    r"""^\s*(?:
        \d+:\s | \[?\d{4}-\d\d-\d\d[T ]\d | \[?\d\d:\d\d:\d\d
        | \[?(?:INFO|WARN(?:ING)?|ERROR|DEBUG|TRACE|FATAL|CRITICAL)\b
        | Traceback | File\ " | at\ [\w.$]+\( | [\w.]*(?:Error|Exception):
        | [>$#|+{}\[\]<] | [-=*_]{3,} | \w+(?:\.\w+)+: | "\w+": | \w+=\S+\s
    )""",
    re.X,
)
"""A line of a log, a trace, a shell, a diff or data: what a user pasted, not what a user said."""
_PROHIBITS = re.compile(r"^(?:never|do not|don't|no|under no circumstances)\b", re.I)
NAMES = {"NAME", "IDENTIFIER"}
"""What is forbidden of one thing says nothing of another: with no value but names, prohibitions stand side by side."""
_WRAPPED = re.compile(r"(?<=[a-z,;])\n(?=[a-z(])")
_FENCE = re.compile(r"^\s*(?:```|~~~)")
LONGEST = 400
"""A statement is at most so long, in characters; a longer sentence is no ruling but a text."""


@dataclass(frozen=True)
class Statement:
    """One thing that holds: its kind, the text without its label."""

    kind: str
    text: str

    @cached_property
    def values(self) -> frozenset[str]:
        """The kinds of value that are in it."""
        return frozenset(found.lastgroup or "" for found in _VALUE.finditer(self.text))

    @cached_property
    def tokens(self) -> list[str]:
        """Its words as concepts, in order; "" where a value or a stop between clauses stands."""
        text = re.sub(r"\bon[- ]call\b", "oncall", _VALUE.sub(" | ", self.text).lower().replace("'s", ""))
        return [concept(word) for word in re.findall(r"[a-z]+|[|;:,.]", text)]

    @cached_property
    def words(self) -> frozenset[str]:
        """What it is about: its concepts, and the kinds of its values that name a concept."""
        return frozenset(filter(None, self.tokens)) | (self.values & SYNONYMS.keys()) | (self.values & ONE_AT_A_TIME)

    @cached_property
    def masked(self) -> str:
        """Its text with every value as its kind."""
        return " ".join(_VALUE.sub(lambda found: found.lastgroup or "", self.text).lower().split())

    @cached_property
    def environments(self) -> set[str]:
        """The environments that it names."""
        return {found.lower() for found in _ENVIRONMENT.findall(self.text)}

    def qualifiers(self, word: str) -> set[str]:
        """The words that stand right before `word`: the travel of a travel budget."""
        pairs = zip(self.tokens, self.tokens[1:], strict=False)
        return {left for left, right in pairs if right == word and left and left != word}

    def replaces(self, other: "Statement") -> bool:
        """Whether it is the later word on what `other` said."""
        if other.values <= NAMES and _PROHIBITS.match(other.text):
            return False
        if self.masked == other.masked:
            return True
        if not other.values or not other.values <= self.values or self.environments != other.environments:
            return False
        common = self.words & other.words
        if not common or any(self._contrasts(other, word, common) for word in common):
            return False
        return bool(common & other.values & ONE_AT_A_TIME) or len(common) * 2 > min(len(self.words), len(other.words))

    def _contrasts(self, other: "Statement", word: str, common: frozenset[str]) -> bool:
        ours, theirs = self.qualifiers(word) - common, other.qualifiers(word) - common
        alone = common == {word} and word in VALUES and word not in ONE_AT_A_TIME
        return bool(ours or theirs) if alone else bool(ours and theirs)


def stem(word: str) -> str:
    """A word without its endings; at least four letters stay."""
    for ending in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) > 3:
            return stem(word.removesuffix(ending))
    return word


CONCEPTS = {stem(word): concept for concept, words in SYNONYMS.items() for word in words.split()}
SILENT = NOISE | {stem(word) for word in NOISE}


def concept(word: str) -> str:
    """The stem of a word, or the concept that it is one word for; "" for a word that tells no subject."""
    found = stem(word)
    return "" if not word.isalpha() or word in NOISE or found in SILENT else CONCEPTS.get(found, found)


def summarize(request: SummaryRequest, *, chars: int | None = None) -> str:
    """The checkpoint of what is standing and what is new; at most `max_tokens` long, and `chars` where it is given."""
    held = resolved([*standing(request.previous), *stated(request.history)])
    said = sum(len(each.role) + len(each.text) + FRAME for each in request.history)
    soft = chars or len(request.previous) + int(SHARE * said)
    hard = chars or 1 << 30
    while longturn.estimate(text := render(chosen(held, soft, hard))) > request.max_tokens:
        soft = hard = len(text) - 1
    return text


def stated(history: Iterable[Said]) -> Iterator[Statement]:
    """What the user said and the agent did, in order."""
    for said in history:
        if said.role == "user":
            yield from ruled(said.text)
        elif said.role == "assistant":
            sentences = (sentence for line in prose(said.text) for sentence in _SPLIT.split(line))
            yield from (Statement("done", found) for found in sentences if DONE.match(found) and kept(found))


def ruled(text: str) -> Iterator[Statement]:
    """The statements of a user's message; a label holds for its line."""
    for line in prose(text):
        kind, rest = labelled(line)
        for sentence in [rest] if kind and len(rest) <= LONGEST else _SPLIT.split(rest):
            found = kind or classified(sentence)
            if found and kept(sentence):
                yield Statement(found, bare(sentence))


def kept(sentence: str) -> bool:
    """Whether a sentence may be a statement at all: it asks nothing, is whole, and is no essay."""
    return len(sentence) <= LONGEST and not sentence.endswith(("?", ":"))


def prose(text: str) -> Iterator[str]:
    """The lines that somebody wrote, without those that were pasted."""
    fenced = False
    for line in _WRAPPED.sub(" ", text).splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and line.strip() and not _PASTED.match(line):
            yield re.sub(r"^\s*(?:[-*•]|\d+[.)])\s+", "", line).strip()


def labelled(line: str) -> tuple[str, str]:
    """The kind that a line's label gives, and the rest of it."""
    label, colon, rest = line.partition(": ")
    found = _LABEL.fullmatch(label.strip("*_ ")) if colon else None
    return (list(LABELS)[int((found.lastgroup or "k0")[1:])], rest.strip()) if found else ("", line)


def classified(sentence: str) -> str:
    """The kind of an unlabelled sentence; "" for one that is let go."""
    for kind, pattern in MARKS:
        if re.search(pattern, sentence, re.I):
            return kind
    values = {found.lastgroup for found in _VALUE.finditer(sentence)}
    return "fact" if values & FACTS else "detail" if values & DETAILS and STATES.search(sentence) else ""


def bare(sentence: str) -> str:
    """A sentence without the words that only lead into it or out of it."""
    text = _TRAIL.sub("", _LEAD.sub("", sentence.strip()))
    return text[:1].upper() + text[1:]


def standing(checkpoint: str) -> Iterator[Statement]:
    """The statements of a checkpoint. Rulings stand in the order of their priority: each is as high as the next."""
    section: tuple[str, ...] = ()
    heading = ""
    found: list[Statement] = []
    for line in checkpoint.splitlines():
        if line.startswith("#"):
            heading = f"{heading}\n{line}" if line.startswith("###") else line
            section = tuple(kind for kind in PRIORITY if HEADINGS[kind] == heading)
        elif line.startswith("- ") and section:
            kind = classified(line[2:])
            usual = "constraint" if "constraint" in section else section[0]
            found.append(Statement(kind if kind in section else usual, line[2:]))
    for place in range(len(found) - 2, -1, -1):
        after, here = found[place + 1].kind, found[place]
        if after in RULINGS and here.kind in RULINGS and RULINGS.index(after) < RULINGS.index(here.kind):
            found[place] = Statement(after, here.text)
    yield from found


def resolved(statements: Iterable[Statement]) -> list[Statement]:
    """What still holds, in order: a statement goes where a later one replaces it."""
    held: list[Statement] = []
    for statement in statements:
        if all(statement.text != other.text for other in held):
            held = [*(other for other in held if not statement.replaces(other)), statement]
    return held


def chosen(statements: Sequence[Statement], soft: int, hard: int) -> list[Statement]:
    """Whole statements by priority: up to `hard` characters those that are always kept, up to `soft` the others."""
    places = range(len(statements))
    ranked = sorted(places, key=lambda place: _rank(statements[place], place))
    taken: list[int] = []
    open_headings: set[str] = set()
    length = -1
    for place in ranked:
        statement = statements[place]
        heading = HEADINGS[statement.kind]
        more = len(statement.text) + 3 + (0 if heading in open_headings else len(heading) + 1)
        if length + more <= (hard if statement.kind in KEPT else soft):
            taken.append(place)
            open_headings.add(heading)
            length += more
    return [statements[place] for place in sorted(taken)]


def _rank(statement: Statement, place: int) -> tuple[int, int]:
    return PRIORITY.index(statement.kind), place if statement.kind in RULINGS else -place


def render(statements: Sequence[Statement]) -> str:
    """The checkpoint: the prompt's sections in its order, empty ones left out."""
    sections: Mapping[str, list[str]] = {heading: [] for heading in HEADINGS.values()}
    for kind in HEADINGS:
        sections[HEADINGS[kind]].extend(f"- {each.text}" for each in statements if each.kind == kind)
    return "\n".join(line for heading, lines in sections.items() if lines for line in (heading, *lines))
