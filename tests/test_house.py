"""The house rules that no linter knows: sizes, imports, state, names of tests, and what may not be committed.

Missing docstrings, prints and blind excepts are ruff's to find; the layers are import-linter's (both in `make check`).
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGE = REPOSITORY / "src" / "longturn"
MODULES = sorted(PACKAGE.rglob("*.py"))
TEST_MODULES = sorted((REPOSITORY / "tests").rglob("test_*.py"))
PURE = ("core", "dialects")

MODULE_LINES = 400
FUNCTION_LINES = 60

FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
MUTABLE = ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp
MUTABLE_CALLS = {"list", "dict", "set", "bytearray", "defaultdict", "deque", "OrderedDict", "Counter"}

# Words that say too little to name anything; the words that are used stand in docs/index.md.
VAGUE = {"memory", "manager", "handler", "helper", "helpers", "util", "utils", "engine"}

SPEC_IDS = (
    {f"H{n}" for n in range(1, 32)}
    | {f"L{n}" for n in range(1, 22)}
    | {f"B{n}" for n in range(1, 36)}
    | {f"S{n}" for n in range(1, 19)}
)

# A path of somebody's machine, or the host of a package index: neither means anything to a reader.
UNWANTED = re.compile(
    r"(?<![\w./:-])/(?:home|Users|root|work|farm)/\w"
    r"|files\.pythonhosted\.org|pypi\.org/simple|registry\.npmjs\.org|(?:--|PIP_|UV_)(?:extra-)?index[-_]url[= ]\S*://",
    re.ASCII,
)


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def label(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def functions(tree: ast.AST) -> Iterator[FUNCTION]:
    return (node for node in ast.walk(tree) if isinstance(node, FUNCTION))


def imported(node: ast.AST) -> list[str]:
    """The modules that an import statement names; none for any other node."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def lines_of(function: FUNCTION) -> int:
    first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
    return (function.end_lineno or function.lineno) - first + 1


def is_mutable(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call):
        called = value.func.id if isinstance(value.func, ast.Name) else getattr(value.func, "attr", "")
        return called in MUTABLE_CALLS
    return isinstance(value, MUTABLE)


def state(tree: ast.Module) -> Iterator[str]:
    """Names bound to something mutable at the top of a module, unless they are written as constants."""
    for statement in tree.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        if not is_mutable(getattr(statement, "value", None)):
            continue
        for target in targets:
            name = target.id if isinstance(target, ast.Name) else ""
            if name != "__all__" and not re.fullmatch(r"_?[A-Z][A-Z0-9_]*", name):
                yield f"{name} in line {statement.lineno}"


def named_tests(tree: ast.AST) -> Iterator[FUNCTION]:
    return (function for function in functions(tree) if function.name.startswith("test_"))


def spec_ids(function: FUNCTION) -> set[str]:
    """The ids that a test's name, docstring or parameters spell, `B10-B12` meaning all three."""
    decorators = " ".join(map(ast.unparse, function.decorator_list))
    text = f"{function.name.replace('_', ' ').upper()} {ast.get_docstring(function) or ''} {decorators}"
    return {
        f"{letter}{number}"
        for letter, first, last in re.findall(r"\b([HLBS])(\d{1,2})(?:-[HLBS]?(\d{1,2}))?\b", text)
        for number in range(int(first), int(last or first) + 1)
    }


@pytest.mark.parametrize("path", MODULES, ids=label)
def test_a_module_has_at_most_400_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MODULE_LINES


@pytest.mark.parametrize("path", MODULES, ids=label)
def test_a_function_has_at_most_60_lines(path: Path) -> None:
    sizes = {function.name: lines_of(function) for function in functions(parsed(path))}
    assert {name: size for name, size in sizes.items() if size > FUNCTION_LINES} == {}


@pytest.mark.parametrize("path", MODULES, ids=label)
def test_no_function_imports_our_own_package(path: Path) -> None:
    inside = [
        f"{function.name} imports {name}"
        for function in functions(parsed(path))
        for node in ast.walk(function)
        for name in imported(node)
        if name.split(".")[0] == "longturn"
    ]
    assert inside == []


@pytest.mark.parametrize("path", MODULES, ids=label)
def test_no_module_holds_mutable_state(path: Path) -> None:
    assert list(state(parsed(path))) == []


@pytest.mark.parametrize("path", MODULES, ids=label)
def test_no_module_function_or_class_has_a_vague_name(path: Path) -> None:
    defined = [node.name for node in ast.walk(parsed(path)) if isinstance(node, FUNCTION | ast.ClassDef)]
    words = {name: re.findall(r"[A-Z]?[a-z]+", name) for name in (path.stem, *defined)}
    assert [name for name, parts in words.items() if VAGUE & {part.lower() for part in parts}] == []


@pytest.mark.parametrize("path", [path for path in MODULES if path.relative_to(PACKAGE).parts[0] in PURE], ids=label)
def test_the_core_and_the_dialects_import_the_standard_library_only(path: Path) -> None:
    foreign = [
        name
        for node in ast.walk(parsed(path))
        for name in imported(node)
        if name.split(".")[0] not in sys.stdlib_module_names | {"longturn"}
    ]
    assert foreign == []


@pytest.mark.parametrize("package", PURE)
def test_importing_the_core_or_the_dialects_loads_no_foreign_module(package: str) -> None:
    names = [
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        for path in MODULES
        if path.relative_to(PACKAGE).parts[0] == package
    ]
    # A bare package stands in for `longturn`, whose public names bring the catalog with them; what the environment's
    # own start-up files have loaded before does not count.
    program = f"""
import importlib, sys, types
parent = types.ModuleType("longturn")
parent.__path__ = [{str(PACKAGE)!r}]
before = set(sys.modules)
sys.modules["longturn"] = parent
for name in {names!r}:
    importlib.import_module(name)
loaded = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(*sorted(loaded - sys.stdlib_module_names - {{"longturn"}}))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


@pytest.mark.parametrize("path", TEST_MODULES, ids=label)
def test_the_name_of_a_test_is_a_sentence(path: Path) -> None:
    short = [function.name for function in named_tests(parsed(path)) if len(function.name.split("_")) < 5]
    assert short == []


@pytest.mark.parametrize("path", TEST_MODULES, ids=label)
def test_no_two_tests_of_a_module_share_a_name(path: Path) -> None:
    names = [function.name for function in named_tests(parsed(path))]
    assert sorted(names) == sorted(set(names))


def test_every_rule_in_force_is_named_by_a_test() -> None:
    named = {found for path in TEST_MODULES for function in named_tests(parsed(path)) for found in spec_ids(function)}
    missing = sorted(SPEC_IDS - named, key=lambda found: (found[0], int(found[1:])))
    assert not missing, f"{len(missing)} of {len(SPEC_IDS)} rules are pinned by no test: {' '.join(missing)}"


def test_nothing_committed_names_a_machine_or_a_package_index() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    found = [
        f"{name}:{number}: {line.strip()[:100]}"
        for name in filter(None, listed.stdout.split("\0"))
        if (REPOSITORY / name).is_file()
        for number, line in enumerate((REPOSITORY / name).read_text("utf-8", errors="replace").splitlines(), 1)
        if UNWANTED.search(line) and name != label(Path(__file__))
    ]
    assert found == []
