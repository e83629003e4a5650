// To-dos, conclusions, tools.

import { fill, gauge, h, isText, link, ms, num, pct, said, short, textBox, usd } from "./dom.js";
import { list } from "./list.js";
import { tone } from "./overview.js";
import { accounts } from "./source.js";
import { nameOf, rows, state, statusOf } from "./state.js";

const BOX = { pending: "[ ]", in_progress: "[~]", completed: "[x]", cancelled: "[-]" };
const agentLink = (row) => link("agent/" + row.n, said(nameOf(row.n)));

export function todoView() {
  const node = h("div");
  return { title: "To-dos", node: [node], update() {
    const planned = rows().filter((row) => state.todos[row.id]);
    fill(node, planned.map((row) => h("section.panel", h("h2", agentLink(row), ` ${done(state.todos[row.id])}`), state.todos[row.id].map(todo))), planned.length ? null : h("p.soft", "No agent has written a plan."));
  } };
}

const done = (items) => `${items.filter(([status]) => status === "completed").length}/${items.length}`;

function todo([status, text]) {
  return h("div", { class: "todo " + status }, h("span.mono", { role: "img", "aria-label": status.replace("_", " ") }, BOX[status]), said(text));
}

export function conclusionView() {
  const made = new Map(), none = h("p.soft", "No agent has ended yet."), node = h("div", none);
  return { title: "Conclusions", node: [node], update() {
    for (const row of rows()) {
      const told = state.conclusions[row.id], before = made.get(row.n);
      if (!told || before?.told === told) continue;
      const fresh = h("section.panel", conclusion(row, told));
      before ? before.fresh.replaceWith(fresh) : node.append(fresh);
      made.set(row.n, { told, fresh });
    }
    none.hidden = made.size > 0;
  } };
}

function conclusion(row, told) {
  return [
    h("h2", agentLink(row), " ", h("span", { class: tone(statusOf(row)) }, row.doing)), said(row.brief, "p.soft"), textBox(told.text),
    told.chars > told.text.length ? link("agent/" + row.n, `All ${num(told.chars)} characters`) : null,
    h("p.soft", `${num(row.conclusion_tokens)} tokens; returned ${num(row.returned_tokens)}`, told.path ? [" · ", said(told.path)] : null, told.artifacts.length ? [" · files: ", said(told.artifacts.join(", "))] : null),
  ];
}

export function toolView() {
  let known = {};
  const made = list({
    kind: "tools fill", label: "Tools", none: "No tool was called yet.",
    columns: "Tool|Calls.num|Errors.num.wide|Characters.num.wide.mid|Tokens.num.wide|Carried|Cost.num|Time.num.wide.mid",
    cells: (row) => {
      const more = known[row.name];
      return [said(row.name), num(row.calls), h("span", { class: row.errors ? "bad" : "" }, num(row.errors)), num(row.chars), more ? num(more.tokens) : "…", more ? gauge(more.share, 1, `${short(more.carried)} · ${pct(more.share)}`, "share") : "…", more ? usd(more.cost, state.run.cost ?? 0) : "…", ms(row.ms)];
    },
  });
  return { title: "Tools", node: [h("p.soft", "Carried: the tokens of a tool's results, counted in every request that they were part of; cost: what that was billed."), made.node], update() {
    accounts();
    known = Object.fromEntries((state.accounts?.tools || []).map((row) => [row.name, row]));
    const size = (row) => known[row.name]?.carried ?? 0;
    made.set([...state.tools].sort((a, b) => size(b) - size(a) || b.chars - a.chars));
  }, focus: () => made.node.focus() };
}

// ── search ──

export function searchView() {
  const node = h("div");
  const found = eventList("Events found");
  let before = "";
  return { title: "Search", node: [node, found.node], update() {
    const key = `${state.query}\n${state.seq}`;
    if (key === before) return;
    before = key;
    const want = state.query.trim().toLowerCase(), has = (text) => isText(text) && text.toLowerCase().includes(want);
    const all = want ? rows() : [];
    const ends = all.filter((row) => has(state.conclusions[row.id]?.text));
    const plans = all.flatMap((row) => (state.todos[row.id] || []).filter(([, text]) => has(text)).map((item) => [row, item]));
    fill(node, h("h2", want ? ["Found for “", said(state.query.trim()), "”"] : "Type what to look for"),
      want && state.run.hint ? h("p.soft", "Names, models and events are searched; texts are not shown.") : null,
      group("Agents", all.filter((row) => [row.id, row.type, row.brief, row.model, row.doing].some(has)), (row) => [agentLink(row), " ", said(row.brief)]),
      group("Conclusions", ends, (row) => [agentLink(row), ": ", said(around(state.conclusions[row.id].text, want))]),
      group("To-dos", plans, ([row, item]) => [todo(item), agentLink(row)]));
    found.set(want ? state.events.filter((event) => has(event[4]) || has(event[5]) || has(nameOf(event[1]))) : []);
  } };
}

const SHOWN = 12;

function group(title, items, line) {
  if (!items.length) return null;
  return h("section.panel", h("h2", `${title} (${num(items.length)})`), items.slice(0, SHOWN).map((item) => h("div", line(item))),
    items.length > SHOWN ? h("div.soft", `and ${num(items.length - SHOWN)} more`) : null);
}

function around(text, want) {
  const at = text.toLowerCase().indexOf(want);
  return (at > 60 ? "…" : "") + text.slice(Math.max(0, at - 60), at + 140);
}

// ── events ──

export function eventsView() {
  const made = eventList("Events");
  return { title: "Events", node: [h("p.soft", "Search ( / ) finds events by kind, tool and agent."), made.node], focus: () => made.node.focus(), update() {
    if (made.size() !== state.events.length) made.set(state.events.slice());
  } };
}

function eventList(label) {
  return list({
    kind: "events fill", label,
    columns: "#.num|Time.num.wide|Agent.wide|Turn.num.wide|Event|",
    cells: (event) => [num(event[0]), ms(event[3]), said(nameOf(event[1])), event[2], event[4], h("span.said.soft", { dir: "auto", title: event[5] }, event[5])],
    open: (event) => { location.hash = `#turns/${event[1]}/${Math.max(1, event[2])}`; },
  });
}
