// Agents and their calls over time, drawn on a canvas the size of what is in sight; the list below it
// says the same of the chosen agent in words.

import { callList, callsTold, MARKS } from "./agent.js";
import { h, ms, num, short, usd } from "./dom.js";
import { C, contextOf, K, M, nameOf, now, of, state, statusOf } from "./state.js";

const ROW = 24, AXIS = 22;

export function fallsView() {
  const canvas = h("canvas", { "aria-hidden": "true" });
  const space = h("div");
  const tip = h("div", { class: "tip", hidden: true });
  const box = h("div", { class: "falls fill", tabindex: 0, role: "application", "aria-roledescription": "waterfall", "aria-label": "Agents and calls over time. Up and down choose an agent, right and left open and close its calls, plus and minus zoom; the list after it tells the calls of the chosen agent.", onscroll: draw, onkeydown: press, onpointermove: point, onpointerleave: () => { tip.hidden = true; }, onclick: click, ondblclick: enter }, canvas, space);
  const bar = h("div", { class: "tools-bar" }, h("span", { class: "legend" }, swatch("i-input", "model"), swatch("i-write", "summary"), swatch("i-used", "tool"), swatch("bad", "failed")), h("span", { class: "space" }),
    h("button", { type: "button", onclick: () => zoomBy(1.6) }, "Zoom in ( + )"), h("button", { type: "button", onclick: () => zoomBy(1 / 1.6) }, "Zoom out ( − )"), h("button", { type: "button", onclick: () => { zoom = 1; layout(); } }, "Whole run ( 0 )"));
  const told = h("p", { class: "soft", "aria-live": "polite", style: { margin: 0 } });
  const calls = callList();
  calls.node.classList.add("fill");
  const open = new Set();
  let rows = [], at = 0, zoom = 1, before = "", colors = {};
  new ResizeObserver(layout).observe(box);

  function swatch(kind, word) {
    return h("span", null, h("i", { class: kind, style: kind === "bad" ? { background: "var(--bad)" } : kind === "i-used" ? { background: "var(--tool)" } : {} }), word);
  }

  function build() {
    rows = [];
    for (const n of state.order) {
      if (!state.agents[n]) continue;
      rows.push([n, null]);
      if (open.has(n)) for (const call of [...of(n).models, ...of(n).calls].sort((a, b) => a[3] - b[3])) rows.push([n, call]);
    }
    at = Math.min(at, Math.max(0, rows.length - 1));
  }

  const labels = () => box.clientWidth < 600 ? 96 : 210;
  const plot = () => Math.max(60, box.clientWidth - labels() - 14) * zoom;
  const scale = () => plot() / Math.max(1, now());

  function layout() {
    space.style.width = labels() + plot() + 14 + "px";
    // The canvas takes a screen of the flow's height itself.
    space.style.height = Math.max(0, AXIS + rows.length * ROW - box.clientHeight) + "px";
    canvas.style.width = box.clientWidth + "px";
    canvas.style.height = box.clientHeight + "px";
    canvas.width = box.clientWidth * devicePixelRatio;
    canvas.height = box.clientHeight * devicePixelRatio;
    colors = palette(box);
    draw();
  }

  function draw() {
    const pen = canvas.getContext("2d"), left = labels(), k = scale(), wide = box.clientWidth, high = box.clientHeight;
    pen.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    pen.clearRect(0, 0, wide, high);
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    const x = (t) => left + t * k - box.scrollLeft;
    axis(pen, left, wide, high, k);
    const first = Math.max(0, Math.floor(box.scrollTop / ROW));
    for (let i = first; i < rows.length; i++) {
      const y = AXIS + i * ROW - box.scrollTop;
      if (y > high) break;
      if (i === at) {
        pen.fillStyle = colors.chosen;
        pen.fillRect(0, y, wide, ROW);
      }
      pen.save();
      pen.beginPath();
      pen.rect(left, y, wide - left, ROW);
      pen.clip();
      rows[i][1] ? drawCall(pen, rows[i][1], x, y + 5, ROW - 10) : drawAgent(pen, rows[i][0], x, y, wide);
      pen.restore();
      drawLabel(pen, rows[i], y, left);
    }
    pen.fillStyle = colors.panel;
    pen.fillRect(0, 0, left, AXIS);
  }

  function axis(pen, left, wide, high, k) {
    const step = nice(110 / k);
    pen.strokeStyle = colors.line;
    pen.fillStyle = colors.soft;
    for (let t = Math.floor(box.scrollLeft / k / step) * step; ; t += step) {
      const x = Math.round(left + t * k - box.scrollLeft) + 0.5;
      if (x > wide) break;
      if (x < left) continue;
      pen.beginPath();
      pen.moveTo(x, AXIS);
      pen.lineTo(x, high);
      pen.stroke();
      pen.fillText(ms(t), x + 3, AXIS / 2);
    }
  }

  function drawAgent(pen, n, x, y, wide) {
    const row = state.agents[n], mine = of(n);
    pen.fillStyle = colors.line;
    const from = x(row.began), to = x(row.ended ?? now());
    pen.fillRect(from, y + 4, Math.max(1, to - from), ROW - 8);
    let last = -1;
    for (const call of mine.models) last = stripe(pen, call, colorOf(call), x, y + 4, 8, wide, last);
    last = -1;
    for (const call of mine.calls) last = stripe(pen, call, colorOf(call), x, y + 12, 8, wide, last);
    pen.fillStyle = colors.text;
    for (const mark of mine.marks) {
      const glyph = mark[K.kind] !== "birth" && MARKS[mark[K.kind]];
      if (glyph) pen.fillText(glyph[0], x(mark[K.at]) - 5, y + 6);
    }
  }

  // Calls that fall on one pixel are drawn once.
  function stripe(pen, call, color, x, y, height, wide, last) {
    const from = x(call[3]), to = Math.max(from + 1, x(call[4]));
    if (to < 0 || from > wide || (to <= last && color !== colors.bad)) return last;
    pen.fillStyle = color;
    pen.fillRect(from, y, to - from, height);
    return to;
  }

  const drawCall = (pen, call, x, y, height) => stripe(pen, call, colorOf(call), x, y, height, 1e9, -1);

  function colorOf(call) {
    if (call.length > 10) return String(call[M.stop]).startsWith("failed") ? colors.bad : call[M.purpose] === "summary" ? colors.write : colors.input;
    return call[C.error] ? colors.bad : colors.tool;
  }

  function drawLabel(pen, [n, call], y, left) {
    const row = state.agents[n], deep = Math.min(row.depth, 6) * (left < 200 ? 5 : 10);
    pen.fillStyle = call ? colors.soft : colors.text;
    const text = call ? (call.length > 10 ? "model" : call[C.tool]) : (of(n).calls.length + of(n).models.length ? (open.has(n) ? "▾ " : "▸ ") : "  ") + nameOf(n);
    pen.fillText(fitted(pen, text, left - 14 - deep - (call ? 16 : 0)), 8 + deep + (call ? 16 : 0), y + ROW / 2);
  }

  function hit(event) {
    const area = box.getBoundingClientRect();
    const i = Math.floor((event.clientY - area.top - AXIS + box.scrollTop) / ROW);
    const t = (event.clientX - area.left - labels() + box.scrollLeft) / scale();
    return event.clientY - area.top < AXIS || !rows[i] ? null : { i, t, low: (event.clientY - area.top + box.scrollTop - AXIS) % ROW > 12, inPlot: event.clientX - area.left > labels() };
  }

  function point(event) {
    const found = hit(event);
    tip.hidden = !found;
    if (!found) return;
    const [n, own] = rows[found.i], slack = 3 / scale();
    const under = own || (found.inPlot && of(n)[found.low ? "calls" : "models"].find((call) => call[3] - slack <= found.t && call[4] + slack >= found.t));
    tip.textContent = under ? words(under) : `${nameOf(n)} · ${statusOf(state.agents[n])} · ${callsTold(n)}`;
    tip.style.left = Math.min(event.clientX + 12, innerWidth - 350) + "px";
    tip.style.top = event.clientY + 14 + "px";
  }

  function words(call) {
    const when = `turn ${call[2]} · ${ms(call[3])} + ${ms(call[4] - call[3])} · `;
    if (call.length > 10) return `${when}model (${call[M.purpose]}) · ${num(contextOf(call))} → ${num(call[M.output])} tokens · ${call[M.stop]} · ${usd(call[M.cost])}`;
    return `${when}${call[C.tool]} · ${short(call[C.chars])} characters${call[C.error] ? " · error" : ""}`;
  }

  function click(event) {
    const found = hit(event);
    if (!found) return;
    if (!found.inPlot && found.i === at && !rows[at][1]) flip();
    choose(found.i);
  }

  function choose(i) {
    at = Math.min(rows.length - 1, Math.max(0, i));
    const top = at * ROW;
    if (top < box.scrollTop) box.scrollTop = top;
    if (top + ROW + AXIS > box.scrollTop + box.clientHeight) box.scrollTop = top + ROW + AXIS - box.clientHeight;
    tell();
    draw();
  }

  function tell() {
    if (!rows[at]) return;
    const [n, call] = rows[at];
    told.textContent = call ? words(call) : `${nameOf(n)}: ${callsTold(n)}`;
    calls.update(n);
  }

  function flip(to) {
    const n = rows[at]?.[0];
    if (n === undefined) return;
    (to ?? !open.has(n)) ? open.add(n) : open.delete(n);
    build();
    at = rows.findIndex(([m, call]) => m === n && !call);
    layout();
    choose(at);
  }

  function enter() {
    const [n, call] = rows[at] || [];
    if (n !== undefined) location.hash = call ? `#turns/${n}/${call[2]}` : "#agent/" + n;
  }

  function zoomBy(factor) {
    zoom = Math.min(4000, Math.max(1, zoom * factor));
    const middle = (box.scrollLeft + box.clientWidth / 2) * factor;
    layout();
    box.scrollLeft = middle - box.clientWidth / 2;
  }

  function press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(box.clientHeight / ROW) - 2);
    const act = {
      ArrowDown: () => choose(at + 1), j: () => choose(at + 1), ArrowUp: () => choose(at - 1), k: () => choose(at - 1),
      PageDown: () => choose(at + page), PageUp: () => choose(at - page), Home: () => choose(0), End: () => choose(rows.length - 1),
      ArrowRight: () => flip(true), ArrowLeft: () => flip(false), Enter: enter,
      "+": () => zoomBy(1.6), "=": () => zoomBy(1.6), "-": () => zoomBy(1 / 1.6), 0: () => { zoom = 1; layout(); },
    }[event.key];
    if (!act) return;
    act();
    event.preventDefault();
    event.stopPropagation();
  }

  return { title: "Time", node: [bar, box, told, calls.node, tip], update() {
    const key = `${state.models.length} ${state.calls.length} ${state.order.length} ${now()} ${document.documentElement.style.colorScheme}`;
    if (key === before) return;
    before = key;
    build();
    layout();
    tell();
  }, focus: () => box.focus() };
}

// Variables may say light-dark(…), which only a used value resolves.
function palette(node) {
  const probe = node.appendChild(h("span", { hidden: true }));
  const found = {};
  for (const name of ["text", "soft", "line", "panel", "chosen", "bad", "write", "input", "tool"]) {
    probe.style.color = `var(--${name})`;
    found[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return found;
}

function nice(wanted) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, wanted)));
  return [1, 2, 5, 10].map((k) => k * power).find((step) => step >= wanted);
}

function fitted(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let end = Math.min(text.length, Math.floor(width / 5));
  while (end > 1 && pen.measureText(text.slice(0, end) + "…").width > width) end--;
  return text.slice(0, end) + "…";
}
