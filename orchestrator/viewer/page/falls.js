// Agents and their calls over time, on a canvas the size of what is in sight; the list below it says
// the same of the chosen agent in words.

import { callList, callsTold, isFailed, MARKS } from "./agent.js";
import { h, ms, num, short, stepOf, usd } from "./dom.js";
import { C, contextOf, K, M, nameOf, now, of, state, statusOf } from "./state.js";

const ROW = 24, AXIS = 22, EDGE = 14;

export function fallsView() {
  const canvas = h("canvas", { "aria-hidden": "true" });
  const space = h("div");
  const tip = h("div.tip", { hidden: true });
  const box = h("div.falls.fill", { tabindex: 0, role: "application", "aria-label": "Waterfall: up and down choose an agent, plus and minus zoom; the list after it tells the agent's calls", onscroll: draw, onkeydown: press, onpointermove: point, onpointerleave: () => { tip.hidden = true; }, onclick: (event) => choose(hit(event)?.i ?? at), ondblclick: open }, canvas, space);
  const bar = h("div.bar", { onclick: (event) => event.target.dataset.zoom && zoomBy(+event.target.dataset.zoom) }, document.getElementById("falls-bar").content.cloneNode(true));
  const told = h("p.soft", { "aria-live": "polite" });
  const calls = callList();
  let rows = [], at = 0, zoom = 1, before = "", colors = {};
  new ResizeObserver(layout).observe(box);

  const labels = () => box.clientWidth < 600 ? 96 : 210;
  const plot = () => Math.max(60, box.clientWidth - labels() - EDGE) * zoom;
  const scale = () => plot() / Math.max(1, now());

  function layout() {
    const wide = box.clientWidth, high = box.clientHeight;
    // The canvas takes a screen of the flow's height itself.
    Object.assign(space.style, { width: labels() + plot() + EDGE + "px", height: Math.max(0, AXIS + rows.length * ROW - high) + "px" });
    Object.assign(canvas.style, { width: wide + "px", height: high + "px" });
    canvas.width = wide * devicePixelRatio;
    canvas.height = high * devicePixelRatio;
    colors = palette(box);
    draw();
  }

  function draw() {
    const pen = canvas.getContext("2d"), left = labels(), k = scale(), wide = box.clientWidth, high = box.clientHeight;
    const x = (t) => left + t * k - box.scrollLeft;
    pen.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    pen.clearRect(0, 0, wide, high);
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    const step = nice(110 / k);
    for (let t = Math.floor(box.scrollLeft / k / step) * step; x(t) < wide; t += step) {
      pen.fillStyle = colors.line;
      pen.fillRect(Math.round(x(t)), AXIS, 1, high);
      pen.fillStyle = colors.soft;
      if (x(t) >= left) pen.fillText(ms(t), x(t) + 3, AXIS / 2);
    }
    for (let i = Math.floor(box.scrollTop / ROW); i < rows.length && AXIS + i * ROW - box.scrollTop < high; i++) drawRow(pen, i, x, AXIS + i * ROW - box.scrollTop, left, wide);
    pen.fillStyle = colors.panel;
    pen.fillRect(0, 0, left, AXIS);
  }

  function drawRow(pen, i, x, y, left, wide) {
    const n = rows[i], row = state.agents[n], mine = of(n);
    const from = x(row.began), to = x(row.ended ?? now());
    pen.fillStyle = i === at ? colors.chosen : colors.panel;
    if (i === at) pen.fillRect(0, y, wide, ROW);
    pen.fillStyle = colors.line;
    pen.fillRect(from, y + 4, Math.max(1, to - from), ROW - 8);
    stripes(pen, mine.models, x, y + 4, wide);
    stripes(pen, mine.calls, x, y + 12, wide);
    pen.fillStyle = colors.text;
    for (const mark of mine.marks) {
      if (mark[K.kind] !== "birth" && MARKS[mark[K.kind]]) pen.fillText(MARKS[mark[K.kind]][0], x(mark[K.at]) - 5, y + 6);
    }
    const deep = 8 + Math.min(row.depth, 6) * (left < 200 ? 5 : 12);
    pen.fillStyle = i === at ? colors.chosen : colors.panel;
    pen.fillRect(0, y, left, ROW);
    pen.fillStyle = colors.text;
    pen.fillText(fitted(pen, nameOf(n), left - deep - 8), deep, y + ROW / 2);
  }

  // Calls that fall on one pixel are drawn once, failures always.
  function stripes(pen, items, x, y, wide) {
    let last = -1;
    for (const call of items) {
      const from = x(call[3]), to = Math.max(from + 1, x(call[4])), bad = isFailed(call);
      if (to < 0 || from > wide || (to <= last && !bad)) continue;
      pen.fillStyle = bad ? colors.bad : call.length < 10 ? colors.tool : call[M.purpose] === "summary" ? colors.write : colors.input;
      pen.fillRect(from, y, to - from, 8);
      last = to;
    }
  }

  function hit(event) {
    const area = box.getBoundingClientRect(), x = event.clientX - area.left, y = event.clientY - area.top - AXIS + box.scrollTop;
    const i = Math.floor(y / ROW);
    return event.clientY - area.top > AXIS && i in rows ? { i, t: (x - labels() + box.scrollLeft) / scale(), kind: y % ROW > 12 ? "calls" : "models" } : null;
  }

  function point(event) {
    const found = hit(event);
    tip.hidden = !found;
    if (!found) return;
    const n = rows[found.i], slack = 3 / scale();
    const under = of(n)[found.kind].find((call) => call[3] - slack <= found.t && call[4] + slack >= found.t);
    tip.textContent = under ? words(under) : `${nameOf(n)} · ${statusOf(state.agents[n])} · ${callsTold(n)}`;
    tip.style.left = Math.min(event.clientX + 12, innerWidth - 350) + "px";
    tip.style.top = event.clientY + 14 + "px";
  }

  function words(call) {
    const when = `turn ${call[2]} · ${ms(call[3])} + ${ms(call[4] - call[3])} · `;
    if (call.length < 10) return `${when}${call[C.tool]} · ${short(call[C.chars])} characters${call[C.error] ? " · error" : ""}`;
    return `${when}model (${call[M.purpose]}) · ${num(contextOf(call))} → ${num(call[M.output])} tokens · ${call[M.stop]} · ${usd(call[M.cost])}`;
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
    if (!(at in rows)) return;
    told.textContent = `${nameOf(rows[at])}: ${callsTold(rows[at])}`;
    calls.update(rows[at]);
  }

  function open() {
    if (at in rows) location.hash = "#agent/" + rows[at];
  }

  function zoomBy(factor) {
    const middle = (box.scrollLeft + box.clientWidth / 2) * factor;
    zoom = Math.min(4000, Math.max(1, zoom * factor));
    layout();
    box.scrollLeft = middle - box.clientWidth / 2;
  }

  function press(event) {
    const step = stepOf(event, Math.max(1, Math.floor(box.clientHeight / ROW) - 2));
    const zooms = { "+": 1.6, "=": 1.6, "-": 0.625, 0: 0 };
    if (event.ctrlKey || event.metaKey) return;
    if (step) choose(at + step);
    else if (event.key in zooms) zoomBy(zooms[event.key]);
    else if (event.key === "Enter") open();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  return { title: "Time", node: [bar, box, told, calls.node, tip], update() {
    const key = [state.models.length, state.calls.length, state.order.length, now(), document.documentElement.style.colorScheme].join();
    if (key === before) return;
    before = key;
    rows = state.order.filter((n) => state.agents[n]);
    layout();
    tell();
  }, focus: () => box.focus() };
}

// Variables may say light-dark(…), which only a used value resolves.
function palette(node) {
  const probe = node.appendChild(h("span", { hidden: true })), found = {};
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
  let end = text.length;
  while (end > 1 && pen.measureText(text.slice(0, end) + "…").width > width) end = Math.min(end - 1, Math.floor(width / 4));
  return end === text.length ? text : text.slice(0, end) + "…";
}
