// To-dos, conclusions, tools.

import { fill, gauge, h, ms, num, pct, said, textBox } from "./dom.js";
import { list } from "./list.js";
import { tone } from "./overview.js";
import { detailOf } from "./source.js";
import { nameOf, state, statusOf } from "./state.js";

const BOX = { pending: "[ ]", in_progress: "[~]", completed: "[x]", cancelled: "[-]" };
const byId = () => new Map(state.agents.filter(Boolean).map((row) => [row.id, row]));

export function todoView() {
  const node = h("div");
  return { title: "To-dos", node: [node], update() {
    const agents = byId();
    const lists = Object.entries(state.todos).filter(([id]) => agents.has(id));
    fill(node, lists.length ? lists.map(([id, items]) => h("section", { class: "panel", style: { marginBottom: "10px" } },
      h("h2", null, said(nameOf(agents.get(id).n)), ` ${items.filter(([status]) => status === "completed").length}/${items.length}`),
      items.map(todo))) : h("p", { class: "soft" }, "No agent has written a plan."));
  } };
}

export function todo([status, text]) {
  return h("div", { class: "todo " + status }, h("span", { class: "mono", role: "img", "aria-label": status.replace("_", " ") }, BOX[status]), said(text));
}

export function conclusionView() {
  const made = new Map(), node = h("div");
  return { title: "Conclusions", node: [node], update() {
    const agents = byId();
    for (const n of state.order) {
      const row = state.agents[n], told = row && state.conclusions[row.id];
      if (!told || made.get(n)?.told === told) continue;
      const fresh = h("section", { class: "panel", style: { marginBottom: "10px" } }, ...conclusion(row, told));
      made.get(n)?.node.replaceWith(fresh);
      if (!made.has(n)) node.append(fresh);
      made.set(n, { told, node: fresh });
    }
    if (!made.size) fill(node, h("p", { class: "soft" }, agents.size ? "No agent has ended yet." : "No agent has started yet."));
    else node.querySelector(":scope > p")?.remove();
  } };
}

function conclusion(row, told) {
  const status = statusOf(row);
  const text = h("div", null, textBox(told.text));
  const parts = [
    h("h2", null, h("a", { href: "#agent/" + row.n }, said(nameOf(row.n))), " ", h("span", { class: tone(status) }, row.doing)),
    h("p", { class: "soft said", dir: "auto" }, row.brief), text,
    h("p", { class: "soft" }, `${num(told.chars)} characters, ${num(row.conclusion_tokens)} tokens; returned ${num(row.returned_tokens)}`, told.path ? [" · ", said(told.path)] : null),
  ];
  if (told.artifacts.length) parts.push(h("p", null, "Files: ", said(told.artifacts.join(", "))));
  if (told.chars > told.text.length) {
    const more = h("button", { type: "button", onclick: () => detailOf(row.n).then((detail) => { text.replaceChildren(textBox(detail.conclusion)); more.remove(); }) }, `Show all ${num(told.chars)} characters`);
    parts.splice(3, 0, more);
  }
  return parts;
}

export function toolView() {
  let most = 1;
  const made = list({
    kind: "tools fill", label: "Tools", none: "No tool was called yet.",
    columns: [{ title: "Tool" }, { title: "Calls", class: "num" }, { title: "Errors", class: "num wide-only" }, { title: "Characters", class: "num" }, { title: "Share of all tool output", class: "wide-only" }, { title: "Time", class: "num wide-only" }],
    cells: (row) => [said(row.name), num(row.calls), h("span", { class: row.errors ? "bad" : "" }, num(row.errors)), num(row.chars), gauge(row.chars, most, pct(row.chars / most), "characters"), ms(row.ms)],
  });
  return { title: "Tools", node: [h("p", { class: "soft", style: { margin: 0 } }, "Tools have no tokens of their own: what counts is how much text they brought into contexts."), made.node], update() {
    most = Math.max(1, state.tools.reduce((sum, row) => sum + row.chars, 0));
    made.set([...state.tools].sort((a, b) => b.chars - a.chars));
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
    const want = state.query.trim().toLowerCase(), has = (text) => String(text ?? "").toLowerCase().includes(want);
    const rows = want ? state.agents.filter((row) => row && (has(row.id) || has(row.type) || has(row.brief) || has(row.model) || has(row.doing))) : [];
    const ends = want ? state.agents.filter((row) => row && has(state.conclusions[row.id]?.text)) : [];
    const plans = want ? state.agents.flatMap((row) => (row && state.todos[row.id] || []).filter(([, text]) => has(text)).map((item) => [row, item])) : [];
    fill(node, h("h2", null, want ? ["Found for “", said(state.query.trim()), "”"] : "Type what to look for"),
      group("Agents", rows, (row) => h("a", { href: "#agent/" + row.n }, said(`${nameOf(row.n)} ${row.brief}`))),
      group("Conclusions", ends, (row) => h("a", { href: "#agent/" + row.n }, said(`${nameOf(row.n)}: ${around(state.conclusions[row.id].text, want)}`))),
      group("To-dos", plans, ([row, item]) => h("span", null, todo(item), " ", h("a", { href: "#agent/" + row.n }, said(nameOf(row.n))))));
    found.set(want ? state.events.filter((event) => has(event[4]) || has(event[5]) || has(nameOf(event[1]))) : []);
  } };
}

const SHOWN = 12;

function group(title, items, line) {
  if (!items.length) return null;
  return h("section", { class: "panel", style: { marginBottom: "10px" } }, h("h2", null, `${title} (${num(items.length)})`), items.slice(0, SHOWN).map((item) => h("div", null, line(item))),
    items.length > SHOWN ? h("div", { class: "soft" }, `and ${num(items.length - SHOWN)} more`) : null);
}

function around(text, want) {
  const at = text.toLowerCase().indexOf(want);
  return (at > 60 ? "…" : "") + text.slice(Math.max(0, at - 60), at + 140);
}

// ── events ──

export function eventsView() {
  const made = eventList("Events");
  let before = -1, follow = true;
  const names = h("select", { "aria-label": "Kind of event", onchange: () => { before = -1; view.update(); } }, h("option", { value: "" }, "all events"));
  const known = new Set();
  const bar = h("div", { class: "tools-bar" }, names, h("label", null, h("input", { type: "checkbox", checked: true, onchange: (event) => { follow = event.target.checked; } }), " keep the newest in sight"), h("span", { class: "space" }), h("span", { class: "soft" }));
  const view = { title: "Events", node: [bar, made.node], focus: () => made.node.focus(), update() {
    if (state.events.length === before) return;
    before = state.events.length;
    for (const event of state.events) {
      if (!known.has(event[4])) {
        known.add(event[4]);
        names.append(h("option", { value: event[4] }, event[4]));
      }
    }
    const items = names.value ? state.events.filter((event) => event[4] === names.value) : state.events.slice();
    bar.lastChild.textContent = num(items.length);
    made.set(items);
    if (follow && state.run.status === "running") made.end();
  } };
  return view;
}

function eventList(label) {
  const made = list({
    kind: "events fill", label,
    columns: [{ title: "#", class: "num" }, { title: "Time", class: "num wide-only" }, { title: "Agent", class: "wide-only" }, { title: "Turn", class: "num wide-only" }, { title: "Event" }, { title: "" }],
    cells: (event) => [num(event[0]), ms(event[3]), said(nameOf(event[1])), event[2], event[4], h("span", { class: "said soft", dir: "auto", title: event[5] }, event[5])],
    open: (event) => { location.hash = `#turns/${event[1]}/${Math.max(1, event[2])}`; },
  });
  return { ...made, end() {
    const rows = made.node.querySelector(".rows");
    rows.scrollTop = rows.scrollHeight;
  } };
}
