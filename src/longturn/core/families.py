"""What a token estimate is made of: classes of text, what one of each costs per model family, and families by name.

Tables only; `tokens.py` counts and adds up. The weights were fitted (a linear program that stays near a plain fit of
each vocabulary, 2026-11) on the exact counts of 120 texts in 30 languages, of real agent transcripts and of Python
sources: transcripts come out near 1.10 of exact, no text of one kind below 0.95 (symbols alone: 0.85). Claude 4.x,
whose vocabulary is not public, is scaled by provider-reported usage.
"""

from enum import StrEnum


class Family(StrEnum):
    """Vocabularies that are counted apart; the order is that of the columns of `WEIGHTS`."""

    OPENAI = "openai"  # o200k: GPT-4o and later, o1 and later
    OPENAI_OLD = "openai-old"  # cl100k: GPT-4, GPT-3.5, embeddings
    CLAUDE = "claude"
    GEMINI = "gemini"  # and Gemma
    QWEN = "qwen"
    MISTRAL = "mistral"
    DEEPSEEK = "deepseek"
    LLAMA = "llama"
    MODERN = "modern"  # the model is not known: no current vocabulary is much above it
    SIMPLE = "simple"  # the plain rule of L12: ASCII a quarter, Chinese, Japanese and Korean one, all else a half


# Thousandths of a token for one of each class. A "foreign pair" is two neighbours out of the letters a, g, k, m, u and
# y: in most languages written in Latin letters several times as common as in English, and the words dearer. Runs are
# counted once each, in addition to their characters; a space run is two or more. Tabs count as spaces. Blocks of 128
# characters are the finest division, so "kana" holds CJK punctuation and full-width forms, and "astral" all beyond
# U+FFFF (emoji).
# fmt: off
WEIGHTS: tuple[tuple[str, int, int, int, int, int, int, int, int, int, int], ...] = (
    # class            openai  old claude gemini qwen mistral deepseek llama modern simple
    ("lower",                151,  153,  156,  117,  209,  131,  135,  127,  248,  250),
    ("upper",                458,  510,  438,  219,  474,  514,  426,  407,  523,  250),
    ("foreign pair",        1062, 1260, 1285,  234,  988,  380,  989,  900,   38,    0),
    ("word",                 280,  244,  388,  528,    0,  484,  396,  427,  210,    0),
    ("camel",                780,  863, 1074, 1067,  455,  492,  926, 1024,  613,    0),
    ("letter/digit",           0,   45,  430,  127,  277,    0,    0,    0,    0,    0),
    ("digit",                338,  359,  398, 1067, 1077,  957,  372,  339, 1023,  250),
    ("digit run",           1220, 1124,  504,  459,  723, 1100, 1082, 1226,  889,    0),
    ("punctuation",           49,   51,   42,   70,   62,  165,   94,   50,  158,  250),
    ("punctuation run",      627,  627, 1124, 1037,  687,  465,  666,  528,  361,    0),
    ("space run",           1164, 1003,  962, 1165, 1583, 1077, 1130, 1406,  973,    0),
    ("space",                 12,   15,    0,    7,   10,    0,    1,    0,   10,  250),
    ("newline",              109,   43,  351,  666,  216,  501,  366,  219,  437,  250),
    ("control",             1756,  707, 2091, 1273,  500, 1413, 1640,  696,  500,  250),
    ("latin",               1731, 2678, 3342, 2016, 2711, 2321, 2163, 2922, 2038,  500),
    ("greek",                500, 1156, 1606,  462,  972,  623,  667,  467, 1056,  500),
    ("cyrillic",             387,  627,  705,  332,  539,  385,  460,  383,  589,  500),
    ("armenian",             407, 2594, 2875,  662, 1392,  421,  681, 2184, 2085,  500),
    ("hebrew",               486, 1348, 1332,  610,  649,  544,  638, 1340, 1260,  500),
    ("arabic",               410,  984, 1392,  410,  631,  387,  467,  462, 1109,  500),
    ("devanagari",           429, 1384, 1642,  450, 1239,  478,  758,  685, 1410,  500),
    ("bengali",              472, 1579, 2504,  682, 1343,  577,  614, 1546, 1480,  500),
    ("other indic",          394, 1693, 1996,  522, 1322,  454,  628, 1690, 1610,  500),
    ("thai",                 484, 1097, 2208,  422,  627,  583,  399,  512,  590,  500),
    ("other",               2000, 2277, 2000, 2000, 2000, 2000, 2000, 2277, 2680,  500),
    ("myanmar",              615, 2277, 1211,  940, 1792,  642, 1046, 2277, 2208,  500),
    ("georgian",             409, 2345, 1656,  828, 1237,  604,  947, 2342, 2231,  500),
    ("hangul",               800, 1291, 1692,  892,  834,  696,  890,  808,  844, 1000),
    ("ethiopic",            1918, 2835, 2841, 1102, 2020, 2820, 2179, 2823, 3107,  500),
    ("khmer",                693, 1862, 2907, 1114, 1380, 2845, 1367, 1856, 3132,  500),
    ("vietnamese",           683, 1888, 3264,  300,  403,  300, 1514,  300,  300,  500),
    ("typographic",          792,  660, 2736, 1144, 3000, 1925, 1100, 2354, 1000,  500),
    ("symbol",              1650, 2343, 2459, 1051, 2162, 2788, 1010, 2746, 1995,  500),
    ("box drawing",         1065, 1403, 1183,  844, 1409, 1441, 1099, 1108, 1652,  500),
    ("kana",                 741, 1032, 1214,  483,  688,  671,  732,  694, 1008, 1000),
    ("han",                  955, 1436, 1381,  765,  786, 1059,  748,  926, 1393, 1000),
    ("astral",              1985, 2585, 2520, 1552, 2449, 3282, 2041, 2325, 3687,  500),
    ("variation selector",  3000, 3000, 3000, 3000, 3000, 3000, 3000, 3000, 3000,  500),
)
# fmt: on

CLASSES = tuple(row[0] for row in WEIGHTS)
ASCII_CLASSES = CLASSES.index("latin")

# From this code point on (a multiple of 128, as half a UTF-16 high byte), characters are of this class.
BLOCKS: tuple[tuple[int, str], ...] = (
    (0x0080, "latin"),
    (0x0300, "greek"),
    (0x0400, "cyrillic"),
    (0x0500, "armenian"),
    (0x0580, "hebrew"),
    (0x0600, "arabic"),
    (0x0900, "devanagari"),
    (0x0980, "bengali"),
    (0x0A00, "other indic"),
    (0x0E00, "thai"),
    (0x0E80, "other"),
    (0x1000, "myanmar"),
    (0x1080, "georgian"),
    (0x1100, "hangul"),
    (0x1200, "ethiopic"),
    (0x1400, "other"),
    (0x1780, "khmer"),
    (0x1800, "other"),
    (0x1E00, "vietnamese"),
    (0x1F00, "greek"),
    (0x2000, "typographic"),
    (0x2080, "symbol"),
    (0x2500, "box drawing"),
    (0x2600, "symbol"),
    (0x2C00, "other"),
    (0x2E00, "kana"),
    (0x3400, "han"),
    (0xA000, "other"),
    (0xAC00, "hangul"),
    (0xD800, "astral"),
    (0xE000, "symbol"),
    (0xF900, "han"),
    (0xFB00, "arabic"),
    (0xFE00, "variation selector"),
    (0xFE80, "arabic"),
    (0xFF00, "kana"),
)

# The first pattern found in a model's lower-case name decides. Distillations carry the vocabulary of the model that
# was trained (deepseek-r1-distill-qwen is a Qwen), so DeepSeek comes after Qwen and Llama; ollama and llama.cpp are
# servers, not models.
MODELS: tuple[tuple[str, Family], ...] = (
    (r"claude|(?<![a-z])(?:opus|sonnet|haiku)(?![a-z])", Family.CLAUDE),
    (r"gemini|gemma", Family.GEMINI),
    (r"qwen|qwq|qvq", Family.QWEN),
    (r"mistral|mixtral|ministral|magistral|codestral|devstral|pixtral|voxtral", Family.MISTRAL),
    (r"(?<!o)llama(?![.-]?cpp)", Family.LLAMA),
    (r"deepseek", Family.DEEPSEEK),
    (r"gpt-?3|gpt-?4(?![.\do])|text-embedding-(?:3|ada)|davinci|babbage", Family.OPENAI_OLD),
    (r"gpt|codex|computer-use|(?<![a-z\d])o[1-9](?![a-z\d])", Family.OPENAI),
)
