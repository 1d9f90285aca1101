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
    ("lower",                153,  140,  167,  117,  177,  132,  135,  127,  249,  250),
    ("upper",                458,  511,  498,  220,  570,  514,  426,  408,  524,  250),
    ("foreign pair",        1000,  861, 1200,  235,  720,  380,  990,  901,   39,    0),
    ("word",                 281,  362,  360,  528,  181,  484,  396,  428,  210,    0),
    ("camel",                769,  783,  828, 1067,  377,  492,  927, 1025,  613,    0),
    ("letter/digit",           0,    0,  474,  127,   41,    0,    0,    0,    0,    0),
    ("digit",                335,  326,  399, 1067, 1086,  958,  372,  340, 1024,  250),
    ("digit run",           1236, 1274,  504,  459,  880, 1100, 1083, 1227,  889,    0),
    ("punctuation",           49,   51,   27,   70,   63,  165,   95,   51,  158,  250),
    ("punctuation run",      621,  603, 1089, 1038,  620,  466,  666,  528,  361,    0),
    ("space run",           1180, 1071, 1277, 1166, 1668, 1077, 1130, 1406,  974,    0),
    ("space",                 13,   12,    0,    7,    8,    1,    1,    1,   10,  250),
    ("newline",              110,  117,  498,  667,  245,  502,  366,  220,  438,  250),
    ("control",             1748,  544, 2140, 1274,  500, 1414, 1641,  697,  500,  250),
    ("latin",               1737, 2952, 3264, 2016, 2929, 2321, 2163, 2922, 2039,  500),
    ("greek",                501, 1156, 1604,  463,  973,  624,  668,  467, 1057,  500),
    ("cyrillic",             388,  626,  703,  332,  541,  386,  461,  384,  590,  500),
    ("armenian",             408, 2592, 2870,  663, 1391,  422,  682, 2185, 2086,  500),
    ("hebrew",               487, 1346, 1328,  611,  649,  544,  638, 1340, 1260,  500),
    ("arabic",               410,  982, 1392,  411,  633,  388,  467,  462, 1110,  500),
    ("devanagari",           429, 1380, 1623,  450, 1239,  479,  759,  686, 1411,  500),
    ("bengali",              473, 1578, 2498,  683, 1343,  577,  615, 1546, 1480,  500),
    ("other indic",          394, 1692, 1993,  522, 1322,  455,  628, 1691, 1610,  500),
    ("thai",                 484, 1095, 2208,  422,  627,  583,  400,  513,  590,  500),
    ("other",               2000, 2277, 2000, 2000, 2000, 2000, 2000, 2277, 2680,  500),
    ("myanmar",              616, 2277, 1208,  941, 1792,  642, 1046, 2277, 2209,  500),
    ("georgian",             410, 2344, 1656,  828, 1237,  605,  947, 2342, 2232,  500),
    ("hangul",               800, 1288, 1692,  893,  833,  696,  891,  808,  845, 1000),
    ("ethiopic",            1918, 2832, 2833, 1102, 2018, 2821, 2180, 2824, 3108,  500),
    ("khmer",                693, 1861, 2903, 1115, 1380, 2846, 1367, 1857, 3132,  500),
    ("vietnamese",           676, 1387, 3264,  300,  300,  300, 1515,  300,  300,  500),
    ("typographic",          792,  660, 2736, 1144, 3000, 1925, 1100, 2354, 1000,  500),
    ("symbol",              1650, 2283, 1790, 1052, 2118, 2788, 1010, 2747, 1996,  500),
    ("box drawing",         1065, 1399, 1176,  845, 1548, 1441, 1100, 1108, 1652,  500),
    ("kana",                 741, 1029, 1190,  483,  687,  671,  733,  695, 1008, 1000),
    ("han",                  957, 1429, 1363,  766,  785, 1060,  749,  926, 1393, 1000),
    ("astral",              1986, 2585, 2520, 1552, 2459, 3283, 2041, 2325, 3688,  500),
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
