"""What a call may do, decided from rules. Pure.

Order: deny, then ask, then allow, then the default. Rules of a child stand behind those of its parent
as one more layer, and the strictest layer's word holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from orchestrator.errors import ConfigError
from orchestrator.permissions.decision import Decision
from orchestrator.permissions.protected import BY_NAME, protecting
from orchestrator.permissions.rules import Rule, naming, rule
from orchestrator.permissions.subjects import (
    READERS,
    WRITERS,
    Host,
    Path,
    Roots,
    Subject,
    subjects_of,
)
from workspace import Denied, Parts, Refused, Use, is_private, parse

BY_RULE = ("bash", "fetch")
"""Tools of Outrider's own that a run has only where an allow or ask rule names them."""
OPTIONAL = (*BY_RULE, "web_search")
"""These, and the one that users bring."""
_UNREADABLE = "permissions cannot be read: write deny: [read(<pattern>), <tool>]"

_ALLOWED = Decision("allow")


@dataclass(frozen=True)
class Permissions:
    """What the tools of a run may do.

    Args:
        allow: What needs no question. Where a rule with a pattern names a tool, calls of that tool
            that no allow rule covers are asked for.
        ask: What a person is asked for; where nobody can be, it is denied.
        deny: What is never done.

    Raises `ConfigError` for a rule that cannot be read: one that is silently ignored protects nothing.
    """

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    # Set by Outrider: the parent's, what a definition's grants are bound to, the workspace's root, and
    # files that say how this run's agents work.
    outer: Permissions | None = None
    bounds: tuple[tuple[str, tuple[str, ...]], ...] = ()
    roots: Roots = ()
    protected: tuple[Parts, ...] = ()

    def __post_init__(self) -> None:
        for name in ("allow", "ask", "deny"):
            rules = getattr(self, name)
            if isinstance(rules, str):
                raise ConfigError(f"{name} is a list of rules: write [{rules!r}]")
            object.__setattr__(self, name, tuple(rules))
        _ = self._allow, self._ask, self._deny, self._bounds

    @cached_property
    def _allow(self) -> tuple[Rule, ...]:
        return tuple(map(rule, self.allow))

    @cached_property
    def _ask(self) -> tuple[Rule, ...]:
        return tuple(map(rule, self.ask))

    @cached_property
    def _deny(self) -> tuple[Rule, ...]:
        return tuple(map(rule, self.deny))

    @cached_property
    def _bounds(self) -> Mapping[str, tuple[Rule, ...]]:
        return {tool: tuple(map(rule, texts)) for tool, texts in self.bounds}

    @cached_property
    def layers(self) -> tuple[Permissions, ...]:
        """From the run's own rules inwards."""
        return (*(self.outer.layers if self.outer else ()), self)

    @cached_property
    def _is_open(self) -> bool:
        """Whether there is no rule at all."""
        return not any(x.allow or x.ask or x.deny or x.bounds for x in self.layers)

    @cached_property
    def speaks_of_paths(self) -> bool:
        """Whether a rule could forbid any path to a file tool."""
        tools = (*READERS, *WRITERS)
        layers = self.layers
        rules = [r for x in layers for r in (*x._deny, *x._ask, *x._allow)]
        bound = {tool for x in layers for tool in x._bounds}
        return any(r.concerns(tool) for r in rules for tool in tools) or not bound.isdisjoint(tools)

    # ── narrowing ──

    def narrowed(
        self, given: object = None, bounds: Mapping[str, Sequence[str]] | None = None
    ) -> Permissions:
        """These and what a definition takes away besides. Nothing that it allows counts: a child
        never has more than its parent.

        Args:
            given: Its ``permissions``: a mapping with ``deny`` and ``ask``.
            bounds: What its grants with a pattern restrict a tool to: patterns by the tool's name.

        Raises ``ValueError`` for what cannot be read.
        """
        rules = _restrictions(given)
        limits = tuple((tool, _bound(tool, texts)) for tool, texts in (bounds or {}).items())
        if not limits and not any(rules.values()):
            return self
        try:
            return Permissions(**rules, outer=self, bounds=limits, roots=self.roots)
        except ConfigError as error:
            raise ValueError(str(error)) from None

    def within(self, *roots: Parts, files: Iterable[str] = ()) -> Permissions:
        """The same for a workspace: absolute paths inside it are understood. ``files`` say how this
        run's agents work, so that no tool may change them."""
        paths = (_below(file, roots) for file in files)
        return replace(self, roots=roots, protected=tuple(sorted({p for p in paths if p})))

    # ── deciding ──

    def enables(self, tool: str) -> bool:
        """Whether the tool is offered at all: it is not denied as a whole, and one that is optional
        is named by an allow or ask rule of the run."""
        return not self.denies_tool(tool) and (tool not in OPTIONAL or self.mentions(tool))

    def allows_server(self, server: str) -> bool:
        """Whether an allow rule of the run names the MCP server, or some of its tools."""
        return any(r.concerns_server(server) for r in self.layers[0]._allow)

    def mentions(self, tool: str) -> bool:
        """Whether an allow or ask rule of the run is about the tool."""
        return any(r.concerns(tool) for r in (*self.layers[0]._allow, *self.layers[0]._ask))

    def denies_tool(self, name: str) -> bool:
        """Whether the tool as a whole is denied."""
        return any(r.takes_away(name) for layer in self.layers for r in layer._deny)

    def decide(self, tool: str, given: Mapping[str, Any]) -> Decision:
        """Whether the call may be run as it is written. `check_path` follows where paths lead."""
        return self._judge(tool, subjects_of(tool, given, self.roots))

    @property
    def guarded(self) -> tuple[Parts, ...]:
        """What is never written, by name, apart from Outrider's own folder: see `protected`."""
        return (*BY_NAME, *self.layers[0].protected)

    def understands(self, tool: str, given: Mapping[str, Any]) -> bool:
        """Whether it can be told what the call is about."""
        return subjects_of(tool, given, self.roots) is not None

    def check_path(
        self, tool: str, use: Use, parts: Parts, passed: frozenset[str] | None = frozenset()
    ) -> None:
        """What a file tool met on its way. ``passed``: what has been asked for and granted; ``None``:
        whatever would have to be.

        Raises `Denied` that names the rule.
        """
        if self._is_open and use != "write":
            return
        if tool not in (*READERS, *WRITERS):
            tool = "write_file" if use == "write" else "read_file"
        decision = self._judge(tool, (Path(parts, use == "list"),))
        if decision.verdict == "allow" or decision.rule is None:
            return
        if decision.verdict == "deny" or (passed is not None and decision.rule not in passed):
            raise Denied("/".join(parts) or ".", decision.rule, decision.how_to_permit)

    def _judge(self, tool: str, subjects: tuple[Subject, ...] | None) -> Decision:
        """``subjects``: what the call is about, all of it; ``None`` if that is not understood."""
        layers = self.layers
        if found := next(
            (r.text for x in layers for r in x._deny if _hits(r, tool, subjects)), None
        ):
            return Decision("deny", found)
        for subject in subjects or ():
            if kept := protecting(tool, subject, layers[0]._allow, layers[0].protected):
                text = None if _is_own(subject) else naming(tool, subject)
                return Decision("deny", kept, (text,) if text else ())
        if subjects and all(map(_is_own, subjects)):
            return _ALLOWED
        bounds = (x._bounds[tool] for x in layers if tool in x._bounds)
        if beyond := next((b for b in bounds if not _covered(b, subjects)), None):
            return Decision("deny", f"tools {', '.join(r.text for r in beyond)}")
        return self._asked(tool, subjects)

    def _asked(self, tool: str, subjects: tuple[Subject, ...] | None) -> Decision:
        """What is not denied: to be asked for, or allowed."""
        asked = [s for s in subjects or (None,) if self._why_ask(tool, s)]
        if not asked or subjects == ():
            return self._allowed(tool, subjects)
        permit = [self._permitting(tool, subject) for subject in asked]
        named = tuple(dict.fromkeys(r for r in permit if r)) if all(permit) else ()
        return Decision("ask", self._why_ask(tool, asked[0]), named)

    def _permitting(self, tool: str, subject: Subject | None) -> str | None:
        """The allow rule with which this would pass, if one can be written."""
        text = (naming(tool, subject) if subject else None) or _kind(tool)
        if isinstance(subject, Path | Host):
            return text  # each has a rule of its own, so it need not be read again
        added = rule(text)
        if subject is not None and added.names(tool, subject):
            return text
        # What an ask rule holds for can only be answered by the rule that names it.
        subjects = None if subject is None else (subject,)
        is_asked = any(_hits(r, tool, subjects) for x in self.layers for r in x._ask)
        return text if _covered([added], subjects) and not is_asked else None

    def _why_ask(self, tool: str, subject: Subject | None) -> str | None:
        """The rule by which this is asked for, unless it has been answered beforehand."""
        run, subjects = self.layers[0], None if subject is None else (subject,)
        rules = [r for r in run._allow if r.concerns(tool)]
        if subject is not None and any(r.names(tool, subject) for r in rules):
            return None
        for layer in self.layers:
            for each in layer._ask:
                if _hits(each, tool, subjects):
                    return f"ask {each.text}"
        # Where rules allow some calls of a tool, the others are asked for.
        unnamed = bool(rules) or tool in OPTIONAL
        return f"ask {_kind(tool)}" if unnamed and not _covered(rules, subjects) else None

    def _allowed(self, tool: str, subjects: tuple[Subject, ...] | None) -> Decision:
        """With the rule that says so, or that has a part in it."""
        rules = [r for r in self.layers[0]._allow if r.concerns(tool)]
        if not rules or subjects == ():
            return _ALLOWED
        return Decision(
            "allow", next((r.text for r in rules if _covered([r], subjects)), rules[0].text)
        )


def _hits(each: Rule, tool: str, subjects: tuple[Subject, ...] | None) -> bool:
    """Whether a rule that denies or asks holds for the call. What is not understood may be anything."""
    if not each.restricts(tool):
        return False
    if each.pattern is None or subjects is None:
        return True
    return any(each.may_cover(subject) for subject in subjects)


def _covered(rules: Sequence[Rule], subjects: tuple[Subject, ...] | None) -> bool:
    """Whether rules that permit cover all that the call is about."""
    if any(r.pattern is None for r in rules):
        return True
    return subjects is not None and all(any(r.covers(s) for r in rules) for s in subjects)


def _is_own(subject: Subject) -> bool:
    """Outrider's own folder, where each agent reads its own results: other rules hold there."""
    return isinstance(subject, Path) and is_private(subject.parts)


def _below(path: str, roots: Roots) -> Parts | None:
    try:
        return parse(path, roots)
    except Refused:
        return None  # nothing that a tool could reach


def _kind(tool: str) -> str:
    if tool in READERS:
        return "read"
    return "write" if tool in WRITERS else tool


def _restrictions(given: object) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ValueError(_UNREADABLE)  # noqa: TRY004 (a file's text, not a programmer's type)
    rules: dict[str, Any] = {}
    for kind in ("deny", "ask"):
        found = given.get(kind, ())
        found = [found] if isinstance(found, str) else found
        if not isinstance(found, Sequence) or not all(isinstance(r, str) for r in found):
            raise ValueError(_UNREADABLE)
        rules[kind] = tuple(map(_strictest, found))
    return rules


def _strictest(text: str) -> str:
    """A rule that takes away; of a command or host that cannot be read it takes the whole tool."""
    try:
        rule(text)
    except ConfigError:
        name = text.partition("(")[0].strip()
        if name in ("bash", "fetch") and text.rstrip().endswith(")"):
            return name
    return text


def can_bind(tool: str, patterns: Sequence[str]) -> bool:
    """Whether a grant's patterns can be read as rules for the tool."""
    try:
        list(map(rule, _bound(tool, patterns)))
    except ConfigError:
        return False
    return True


def _bound(tool: str, patterns: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{tool}({pattern})" for pattern in patterns)
