"""Globs and `.gitignore` files: which names they mean. Pure."""

import re
from dataclasses import dataclass
from itertools import product

from pathspec import GitIgnoreSpec

from workspace.errors import BadPattern
from workspace.paths import Parts

_MOST_ALTERNATIVES = 1_000  # that the braces of one glob may stand for


@dataclass(frozen=True)
class Glob:
    """A compiled glob: `matches` takes a path relative to the folder that was searched."""

    expression: re.Pattern[str]

    def matches(self, parts: Parts) -> bool:
        return self.expression.fullmatch("/".join(parts)) is not None


def glob(pattern: str, *, dotfiles: bool = False) -> Glob:
    """Compile a glob. Raises `BadPattern` with the column.

    As in `.gitignore`, a pattern without an inner or leading slash matches at any depth. `*`, `?`
    and `**` pass over names that begin with a dot, unless `dotfiles`.
    """
    try:
        alternatives, _ = _braces(pattern, 0, depth=0)
    except RecursionError:
        raise BadPattern(pattern, "braces nested too deep", 1) from None
    expressions = [
        _glob_expression(pattern, alternative.removeprefix("./"), dotfiles)
        for alternative in alternatives
    ]
    return Glob(re.compile("|".join(expressions), re.DOTALL))


def _braces(pattern: str, position: int, depth: int) -> tuple[list[str], int]:
    """What the braces stand for (`*.{py,md}`: `*.py` and `*.md`), and where the list ends."""
    opened = position
    done: list[str] = []
    current: list[list[str]] = []
    while position < len(pattern):
        sign = pattern[position]
        if depth and sign in ",}":
            done += _combined(pattern, current)
            current = []
            if sign == "}":
                return done, position
        elif sign == "{":
            inner, position = _braces(pattern, position + 1, depth + 1)
            current.append(inner)
        else:
            width = _literal_width(pattern, position)
            current.append([pattern[position : position + width]])
            position += width - 1
        position += 1
    if depth:
        raise BadPattern(pattern, "unclosed {", opened)
    return _combined(pattern, current), position


def _literal_width(pattern: str, position: int) -> int:
    """How many characters to take as they are: an escape, a whole class, or one."""
    if pattern[position] == "\\":
        return 2
    if pattern[position] == "[":
        return _class_end(pattern, position) - position
    return 1


def _class_end(pattern: str, start: int) -> int:
    found = re.compile(r"\[[!^]?\]?[^\]]*\]").match(pattern, start)
    if found is None:
        raise BadPattern(pattern, "unclosed [", start + 1)
    return found.end()


def _combined(pattern: str, choices: list[list[str]]) -> list[str]:
    count = 1
    for choice in choices:
        count *= len(choice)
    if count > _MOST_ALTERNATIVES:
        raise BadPattern(pattern, "braces stand for too many patterns", 1)
    return ["".join(chosen) for chosen in product(*choices)]


def _glob_expression(source: str, pattern: str, dotfiles: bool) -> str:
    anchored = "/" in pattern.rstrip("/")
    names = [name for name in pattern.split("/") if name not in ("", ".")]
    if ".." in names:
        raise BadPattern(source, "'..' is not allowed; use path", source.find("..") + 1)
    if pattern.endswith("/"):
        names.append("**")
    if not anchored:
        names.insert(0, "**")
    name = "[^/]+" if dotfiles else r"(?!\.)[^/]+"
    pieces = []
    for index, part in enumerate(names):
        last = index == len(names) - 1
        if part == "**":
            pieces.append(f"(?:{name}/)*{name}" if last else f"(?:{name}/)*")
        else:
            pieces.append(_name_expression(source, part, dotfiles) + ("" if last else "/"))
    return "".join(pieces)


def _name_expression(source: str, name: str, dotfiles: bool) -> str:
    runs = [""]  # what stands between stars
    position = 0
    while position < len(name):
        width = _literal_width(name, position)
        sign = name[position : position + width]
        if sign != "*":
            runs[-1] += _sign_expression(source, sign)
        elif len(runs) == 1 or runs[-1]:
            runs.append("")
        position += width
    first, *rest = runs
    # Each run is settled where it first occurs (atomic, as in fnmatch): many stars stay cheap.
    middle = "".join(f"(?>[^/]*?{run})" for run in rest[:-1])
    end = f"[^/]*{rest[-1]}" if rest else ""
    hidden = "" if dotfiles or name[0] not in "*?[" else r"(?!\.)"
    return hidden + first + middle + end


def _sign_expression(source: str, sign: str) -> str:
    if sign == "?":
        return "[^/]"
    if sign[0] == "\\":
        return re.escape(sign[1:] or "\\")
    if sign[0] != "[":
        return re.escape(sign)
    negated = sign[1] in "!^"
    body = sign[2:-1] if negated else sign[1:-1]
    body = re.sub(r"([\\\[\]&~|^])", r"\\\1", body).replace("--", "\\-\\-")
    expression = f"(?!/)[{'^' if negated else ''}{body}]"
    try:
        re.compile(expression)
    except re.error:
        raise BadPattern(source, f"bad class {sign}", source.find(sign) + 1) from None
    return expression


@dataclass(frozen=True)
class Ignored:
    """The `.gitignore` files in force in one folder, outermost first, each with its depth."""

    files: tuple[tuple[int, GitIgnoreSpec], ...] = ()

    def adding(self, depth: int, content: str) -> "Ignored":
        """With the file of a folder `depth` names below the root; lines git rejects are skipped."""
        lines = [line for line in content.splitlines() if _is_pattern(line)]
        return Ignored((*self.files, (depth, GitIgnoreSpec.from_lines(lines))))

    def covers(self, parts: Parts, *, folder: bool) -> bool:
        """Whether the path is ignored; its parent folders are taken not to be."""
        for depth, spec in reversed(self.files):
            path = "/".join(parts[depth:]) + ("/" if folder else "")
            verdict = spec.check_file(path).include
            if verdict is not None:
                return verdict
        return False


def _is_pattern(line: str) -> bool:
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True
