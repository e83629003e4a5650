// What an agent was sent, turn by turn: by section, with what is new and where the rest went.

import { bar, button, count, fill, gauge, h, isText, legend, num, said, short, textBox } from "./dom.js";
import { list } from "./list.js";
import { detailOf } from "./source.js";
import { nameOf, state } from "./state.js";

const SHADES = { "tools": "write", "system prompt": "used", "memory and instructions": "output", "first request": "tool", "summary": "input", "history": "read" };
let onlyChanges = false;
const opened = new Set(["history", "gone since the turn before"]);

export function turnsView(n, wanted) {
  const pick = h("select", { "aria-label": "Agent", onchange: () => { location.hash = "#turns/" + pick.value; } });
  const body = h("div.body", { tabindex: 0, "aria-label": "The request" });
  let detail = null, at = null, asked = false;
  const turns = list({
    kind: "turnlist", label: "Turns", none: "No call yet.",
    columns: "Turn.num|Tokens.num|",
    cells: (turn) => [turn.turn, short(tokensOf(turn)), gauge(tokensOf(turn), turn.lines[3], (turn.left.length ? `−${turn.left.length} ` : "") + (turn.purpose === "agent" ? "" : turn.purpose), "tokens")],
    chosen: (turn) => show(turn),
  });
  const node = h("div.split.fill", h("div.side", pick, turns.node), body);

  function show(turn) {
    at = turn;
    history.replaceState(null, "", `#turns/${n}/${turn.turn}`);
    body.replaceChildren(...told(detail, turn, flip));
    body.scrollTop = 0;
  }

  function flip() {
    onlyChanges = !onlyChanges;
    if (at) show(at);
  }

  const step = (by) => turns.select(turns.index() + by);
  return { title: "Turns", node: [node], keys: { "[": () => step(-1), "]": () => step(1), c: flip }, focus: () => turns.node.focus(), update() {
    if (pick.options.length !== state.order.length) {
      pick.replaceChildren(...state.order.filter((k) => state.agents[k]).map((k) => h("option", { value: k, selected: k === n }, "\u00a0".repeat(2 * state.agents[k].depth) + nameOf(k))));
    }
    if (asked || !state.agents[n]) return;
    asked = true;
    detailOf(n).then((fresh) => {
      asked = false;
      if (fresh === detail) return;
      const place = at ? at.turn : wanted;
      detail = fresh;
      turns.set(detail.turns);
      const index = detail.turns.findIndex((turn) => turn.turn === place);
      // Where nothing was asked for: the newest turn, and it is followed no further.
      if (detail.turns.length) turns.select(index < 0 ? detail.turns.length - 1 : index, true);
      if (turns.selected() && (!at || JSON.stringify(at) !== JSON.stringify(turns.selected()))) show(turns.selected());
      if (!detail.turns.length) fill(body, h("p.soft", "Nothing was sent yet."));
    }, (error) => { asked = false; fill(body, h("p.bad", String(error.message))); });
  } };
}

const tokensOf = (turn) => turn.reported ?? turn.estimate;

function told(detail, turn, flip) {
  const weigh = (number) => Math.round(detail.blocks[number].bytes * turn.factor);
  const sizes = turn.sections.map(([name, part]) => [name, part.reduce((sum, number) => sum + weigh(number), 0)]);
  const all = sizes.reduce((sum, [, size]) => sum + size, 0);
  const fresh = new Set(turn.new), section = (name, entries, mark) => sectionOf(name, entries, mark, detail.blocks, weigh);
  const parts = sizes.map(([name, size]) => [SHADES[name] || "soft", size, name]);
  return [
    h("div.panel",
      h("h2", `Turn ${turn.turn}`, turn.purpose === "agent" ? "" : ` (${turn.purpose})`),
      h("p.soft", turn.told + (turn.attempts > 1 ? ` · sent ${turn.attempts} times` : "")),
      h("p", { class: turn.proven === false ? "bad" : "soft" }, turn.proof),
      bar(parts, all, sizes.map(([name, size]) => `${name} ${num(size)}`).join(", ")),
      legend(parts.map(([shade, size, name]) => [shade, name, short(size)])),
      h("div.bar", { style: { marginTop: "8px" } },
        h("span", `${count(turn.new.length, "part")} new, ${num(turn.left.length)} gone since the turn before`), h("span.space"),
        button("Only what changed ( c )", flip, { "aria-pressed": String(onlyChanges) }))),
    turn.left.length ? section("gone since the turn before", turn.left, () => "left") : null,
    ...turn.sections.map(([name, part]) => [name, onlyChanges ? part.filter((number) => fresh.has(number)) : part]).filter(([, part]) => part.length)
      .map(([name, part]) => section(name, part.map((number) => [number, ""]), (number) => fresh.has(number) ? "new" : "")),
    turn.reply.length ? section("reply", turn.reply.map((number) => [number, ""]), () => "") : null,
  ].filter(Boolean);
}

const PART = 200;

function sectionOf(name, entries, mark, blocks, weigh) {
  const tokens = entries.reduce((sum, [number]) => sum + weigh(number), 0);
  const box = h("details.panel.section", { "data-section": name }, h("summary", h("h3", name), h("span.soft", `${count(entries.length, "part")} · about ${num(tokens)} tokens`)));
  // The newest first in sight: a history's end is what a turn is about.
  let from = entries.length;
  const more = button("", earlier);

  function earlier() {
    const before = from;
    from = Math.max(0, from - PART);
    more.after(...entries.slice(from, before).map(block));
    more.textContent = `Show ${Math.min(PART, from)} of ${from} earlier parts`;
    more.hidden = from === 0;
  }

  function block([number, where]) {
    const it = blocks[number];
    const node = h("details", { class: "block " + mark(number) }, h("summary", h("h3", said(it.title)), h("span.soft", where), said(isText(it.text) ? it.text.slice(0, 160) : it.text, "span.peek.soft"), h("span.soft.num", num(weigh(number)))));
    node.addEventListener("toggle", () => {
      if (node.open && node.childNodes.length === 1) node.append(textBox(it.text));
    });
    return node;
  }

  function build() {
    if (box.childNodes.length > 1) return;
    box.append(more);
    earlier();
  }

  box.addEventListener("toggle", () => {
    box.open ? opened.add(name) : opened.delete(name);
    if (box.open) build();
  });
  if (opened.has(name)) {
    box.open = true;
    build();
  }
  return box;
}
