"""What a token estimate is made of: classes of text, what one of each costs per model family, and families by name.

Tables only; `tokens.py` counts and adds up. The weights were fitted (a linear program, 2026-11) on the exact counts of
120 texts in 30 languages and of real agent transcripts: transcripts come out near 1.10 of exact, no text of one kind
below 0.95 (symbols alone: 0.85). Claude 4.x, whose vocabulary is not public, is scaled by provider-reported usage.
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


# Thousandths of a token for one of each class. "Foreign" are the letters a, i, u and k, in addition to "lower": twice
# as common in most languages written in Latin letters as in English, and dearer there. Runs are counted once each, in
# addition to their characters; a space run is two or more. Tabs count as spaces. Blocks of 128 characters are the
# finest division, so "kana" holds CJK punctuation and full-width forms, and "astral" all beyond U+FFFF (emoji).
# fmt: off
WEIGHTS: tuple[tuple[str, int, int, int, int, int, int, int, int, int, int], ...] = (
    # class            openai  old claude gemini qwen mistral deepseek llama modern simple
    ("lower",                135,   52,   60,  112,   89,   74,   71,   96,  223,  250),
    ("upper",                263,  355,  492,  231,  385,  338,  375,  383,  560,  250),
    ("foreign",              124,  493,  784,  284,  453,  257,  382,  438,   84,    0),
    ("word",                 328,  407,  367,  313,  250,  561,  396,  250,  210,    0),
    ("camel",               1302, 1144, 1380, 1413, 1267, 1476, 1090, 1092,  410,    0),
    ("letter/digit",           0,    0,  415,  176,    0,    0,    0,   43,    0,    0),
    ("digit",                367,  322,  496, 1044, 1027, 1073,  367,  367, 1040,  250),
    ("digit run",           1123, 1366,  307,  726, 1177, 1025, 1135, 1295,  834,    0),
    ("punctuation",           29,   32,   42,   68,   42,  160,   53,   33,  139,  250),
    ("punctuation run",      982,  748, 1080, 1001,  786,  496,  915,  688,  465,    0),
    ("space run",            567, 1113, 1067,  977, 1299, 1156, 1054, 1417,  830,    0),
    ("space",                 12,    3,    0,    1,    0,    1,    0,    0,   10,  250),
    ("newline",              154,  230,  346,  859,  259,  581,  426,  259,  438,  250),
    ("control",             1120,  500, 2316, 1192,  500, 1201, 1316,  500, 1368,  250),
    ("latin",               1714, 3087, 3483, 1576, 2578, 2214, 2154, 2655, 1967,  500),
    ("greek",                484, 1152, 1578,  463,  980,  598,  611,  463, 1075,  500),
    ("cyrillic",             370,  625,  718,  337,  541,  388,  452,  382,  589,  500),
    ("armenian",             401, 2584, 2824,  671, 1398,  428,  694, 2182, 2088,  500),
    ("hebrew",               483, 1330, 1311,  580,  625,  540,  564, 1332, 1255,  500),
    ("arabic",               414,  970, 1360,  408,  638,  389,  455,  450, 1112,  500),
    ("devanagari",           421, 1363, 1594,  452, 1243,  480,  732,  676, 1411,  500),
    ("bengali",              465, 1564, 2455,  684, 1347,  580,  517, 1537, 1481,  500),
    ("other indic",          393, 1689, 2492,  521, 1323,  452,  624, 1687, 1610,  500),
    ("thai",                 474, 1092, 2208,  420,  619,  555,  398,  514,  592,  500),
    ("other",               2000, 2277, 2000, 2000, 2000, 2000, 2000, 2277, 2680,  500),
    ("myanmar",              619, 2317, 1189,  940, 1795,  641, 1046, 2315, 2210,  500),
    ("georgian",             395, 2336, 1656,  828, 1238,  516,  879, 2338, 2231,  500),
    ("hangul",               801, 1267, 1643,  889,  838,  701,  881,  799,  845, 1000),
    ("ethiopic",            2220, 3261, 3540, 1099, 2024, 3250, 2514, 3255, 3110,  500),
    ("khmer",                698, 1859, 3620, 1113, 1383, 3278, 1367, 1856, 3133,  500),
    ("vietnamese",           300,  300, 2032,  300,  300,  300,  300,  300,  300,  500),
    ("typographic",          792, 1785, 3000,  957, 3000, 1025, 2915, 3000, 1000,  500),
    ("symbol",              1717, 1665, 1919, 1269, 1585, 2145,  961, 1860, 1580,  500),
    ("box drawing",         1158, 1411, 1408, 1014, 1206, 1669, 1110, 1118, 1626,  500),
    ("kana",                 712, 1006, 1157,  480,  680,  644,  687,  666, 1002, 1000),
    ("han",                  982, 1422, 1403,  762,  791, 1080,  730,  933, 1396, 1000),
    ("astral",              2622, 3376, 3312, 2001, 3382, 4200, 2664, 2601, 3752,  500),
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
