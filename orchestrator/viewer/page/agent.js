// One agent: how full its context was at every call, against the policy's lines, and what it did.

import { count, dur, fill, h, isText, legend, link, ms, num, pct, said, short, svg, textBox, usd } from "./dom.js";
import { list } from "./list.js";
import { tone } from "./overview.js";
import { detailOf } from "./source.js";
import { C, contextOf, K, M, nameOf, of, state, statusOf } from "./state.js";

export const MARKS = { offload: ["▼", "offload"], birth: ["·", "offloaded at birth"], compaction: ["◆", "compaction"], cache: ["✕", "cache break"], limit: ["■", "limit"], window: ["↕", "window corrected"] };
const LINES = ["offload", "compact", "exhausted"];

export function agentView(n) {
  const head = h("div.panel");
  const chart = h("figure.panel");
  const calls = callList();
  const conclusion = h("div.panel");
  let lines = null, drawn = "", text = null;
  new ResizeObserver(() => state.agents[n] && draw(state.agents[n], of(n))).observe(chart);

  function draw(row, mine) {
    const key = `${mine.models.length} ${mine.marks.length} ${lines?.length} ${chart.clientWidth}`;
    if (key === drawn || !chart.clientWidth) return;
    drawn = key;
    const open = chart.querySelector("details")?.open;
    chart.replaceChildren(...occupancy(row, mine, lines, Math.max(300, chart.clientWidth - 26)).filter(Boolean));
    if (open) chart.querySelector("details").open = true;
  }

  return { title: "Agent", node: [head, chart, conclusion, calls.node], update() {
    const row = state.agents[n];
    if (!row) return;
    fill(head, ...facts(row));
    const mine = of(n);
    draw(row, mine);
    calls.update(n);
    detailOf(n).then((detail) => {
      lines = detail.turns.map((turn) => [turn.turn, ...turn.lines]);
      draw(row, mine);
      if (detail.conclusion !== text) {
        text = detail.conclusion;
        conclusion.replaceChildren(h("h2", "Conclusion"), text ? textBox(text) : h("p.soft", row.status ? "(empty)" : "not yet"));
      }
    }, (error) => fill(conclusion, h("p.bad", String(error.message))));
  } };
}

function facts(row) {
  const pairs = [
    ["Status", h("span", { class: tone(statusOf(row)) }, row.status || state.run.status === "running" ? row.doing : statusOf(row))], ["Model", said(row.model)],
    ["Tokens", num(row.total)], ["Cost", usd(row.cost)], ["From the cache", pct(row.cache_share)], ["Peak / window", `${num(row.peak)} / ${num(row.window)}`],
    ["Turns · requests · tool calls", `${row.turns} · ${row.requests} · ${row.tool_calls}`], ["Offloaded · compactions", `${row.offloaded} · ${row.compactions}`],
    ["Conclusion → returned", `${num(row.conclusion_tokens)} → ${num(row.returned_tokens)} tokens`], ["Time", dur(row.seconds)],
  ];
  const failed = of(row.n).models.filter(isFailed).at(-1);
  return [
    h("h2", said(nameOf(row.n)), " ", link("turns/" + row.n, "what it was sent →")),
    said(row.brief, "p.soft"),
    h("dl.facts", pairs.map(([name, value]) => h("div", h("dt", name), h("dd", value))),
      failed ? h("div.across", h("dt", `Last error (turn ${failed[M.turn]}, ${failed[M.stop].replace("failed: ", "")})`), h("dd.bad", said(failed[M.error]))) : null),
  ];
}

// ── the chart ──

const H = 250, LEFT = 46, BOTTOM = 24, TOP = 18;

function occupancy(row, mine, lines, W) {
  const calls = mine.models.filter((call) => call[M.purpose] !== "summary" && contextOf(call) > 0);
  const title = h("h2", "Context at every call", h("span.soft", ", in tokens"));
  if (!calls.length) return [title, h("p.soft", "No call has reported its tokens yet.")];
  const peak = calls.reduce((most, call) => Math.max(most, contextOf(call)), 0);
  // A context that stays far below every line would be a row of dots under them.
  const close = !lines?.length || lines.some((line) => peak > line[1] * 0.4);
  const most = close ? Math.max(row.window, peak) : peak * 1.25;
  // A few calls are bars, not walls.
  const step = Math.min(64, (W - LEFT - 8) / calls.length);
  const x = (i) => LEFT + i * step;
  const y = (tokens) => H - BOTTOM - (tokens / most) * (H - BOTTOM - TOP);
  const node = svg("svg", { class: "chart", viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `Context tokens of ${calls.length} calls, peak ${num(row.peak)} of ${num(row.window)}; the same as a table below` });
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    node.append(svg("line", { class: "grid", x1: LEFT, x2: W - 8, y1: y(most * share), y2: y(most * share) }), label(4, y(most * share) + 4, short(most * share)));
  }
  const bases = calls.map(() => 0), width = Math.max(step - (step > 4 ? 1.5 : 0), 0.5);
  for (const kind of ["read", "write", "input"]) {
    // One path for each kind, not an element for each call.
    const d = calls.map((call, i) => `M${x(i)} ${y(bases[i])}h${width}V${y(bases[i] += call[M[kind]])}h${-width}z`);
    node.append(svg("path", { class: "i-" + kind, d: d.join("") }));
  }
  const turns = new Map(calls.map((call, i) => [call[M.turn], i]));
  if (lines?.length && close) LINES.forEach((name, k) => node.append(rule(name, lines, k + 1, turns, x, y, step)));
  for (const mark of mine.marks) {
    const [glyph, word] = MARKS[mark[K.kind]] || [];
    if (!glyph) continue;
    const i = turns.get(mark[K.turn]) ?? turns.get(mark[K.turn] + 1) ?? calls.length - 1;
    const high = mark[K.kind] === "birth" ? y(0) - 4 : y(contextOf(calls[i])) - 4;
    const shape = svg("text", { class: "mark", x: x(i) + step / 2, y: Math.max(high, 12), "text-anchor": "middle" }, glyph);
    shape.append(svg("title", {}, `turn ${mark[K.turn]}: ${word}, ${mark[K.text]}`));
    node.append(shape);
  }
  node.append(label(LEFT, H - 6, "turn " + calls[0][M.turn]));
  const end = x(calls.length - 1) + step;
  if (end > LEFT + 120) node.append(label(end, H - 6, "turn " + calls[calls.length - 1][M.turn], "end"));
  return [title, node,
    legend([["read", "cache read"], ["write", "cache write"], ["input", "uncached"]]),
    close ? null : h("p.soft", `Far below the policy's lines: offload ${num(lines[0][1])}, compact ${num(lines[0][2])}, exhausted ${num(lines[0][3])} of ${num(row.window)} tokens.`),
    h("div.legend", close ? [h("span", "╌ offload from here"), h("span.warn", "╌ compact"), h("span.bad", "╌ exhausted")] : null,
      Object.values(MARKS).map(([glyph, word]) => h("span", `${glyph} ${word}`))),
    table(calls, mine, lines)];
}

const label = (x, y, text, anchor = "start") => svg("text", { x, y, "text-anchor": anchor }, text);

function rule(name, lines, k, turns, x, y, step) {
  const d = lines.filter((line) => turns.has(line[0])).map((line) => `${x(turns.get(line[0]))} ${y(line[k])}h${step}`);
  return svg("path", { class: "rule " + name, d: "M" + d.join("L") });
}

function table(calls, mine, lines) {
  const box = h("details", h("summary", "As a table"));
  // Made when it is opened: hundreds of rows, mostly unread.
  box.addEventListener("toggle", () => {
    if (!box.open || box.childNodes.length > 1) return;
    const limits = new Map((lines || []).map((line) => [line[0], line]));
    const heads = ["Turn", "Purpose", "Context", "Cache read", "Cache write", "Uncached", "Output", "Estimate", ...LINES.map((name) => name + " at"), "Marks"];
    box.append(h("div.scroll", { tabindex: 0 }, h("table", h("thead", h("tr", heads.map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", calls.map((call) => h("tr", null,
        [call[M.turn], call[M.purpose], ...[contextOf(call), call[M.read], call[M.write], call[M.input], call[M.output], call[M.estimate], ...(limits.get(call[M.turn]) || [0, 0, 0, 0]).slice(1, 4)].map(num),
          mine.marks.filter((mark) => mark[K.turn] === call[M.turn] && MARKS[mark[K.kind]]).map((mark) => `${MARKS[mark[K.kind]][1]}: ${mark[K.text]}`).join("; "),
        ].map((cell) => h("td", cell))))))));
  });
  return box;
}

// ── its calls ──

export function callList() {
  const made = list({
    kind: "calls fill", label: "Calls in order",
    columns: "Start.num|Took.num|Turn.num.wide|Call|Size.num|How it went.wide",
    cells: (item) => item.length > 10 ? modelCells(item) : toolCells(item),
    open: (item) => { location.hash = `#turns/${item[1]}/${item[2]}`; },
    none: "No call yet.",
  });
  let before = "";
  return { node: made.node, update(n) {
    const mine = of(n), key = `${n} ${mine.models.length} ${mine.calls.length}`;
    if (key === before) return;
    before = key;
    made.set([...mine.models, ...mine.calls].sort((a, b) => a[3] - b[3]));
  } };
}

// A model's call has more fields than a tool's.
export const isFailed = (call) => call.length < 10 ? call[C.error] : String(call[M.stop]).startsWith("failed");

function modelCells(call) {
  return [ms(Math.max(0, call[M.start])), ms(call[M.end] - call[M.start]), call[M.turn], h("span", `model (${call[M.purpose]}) `, h("span.soft", call[M.model])),
    `${short(contextOf(call))} → ${short(call[M.output])}`, h("span", { class: isFailed(call) ? "bad" : "soft", title: isText(call[M.error]) ? call[M.error] : null }, howItWent(call))];
}

function howItWent(call) {
  return [call[M.stop] + (call[M.cost] === null ? "" : " · " + usd(call[M.cost])), isText(call[M.error]) ? [" · ", said(call[M.error])] : null];
}

function toolCells(call) {
  return [ms(call[C.start]), ms(call[C.end] - call[C.start]), call[C.turn], said(call[C.tool]), short(call[C.chars]) + " ch",
    call[C.error] ? h("span.bad", "error") : h("span.soft", "ok")];
}

export const callsTold = (n) => count(of(n).models.length, "model call") + ", " + count(of(n).calls.length, "tool call");
