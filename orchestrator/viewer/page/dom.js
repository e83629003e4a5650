// Elements and figures. Whatever models and tools wrote goes through text nodes and nothing else.

// h("p.soft.num", { title: "…" }, children…): the properties may be left out.
export function h(what, props, ...children) {
  const [tag, ...classes] = what.split(".");
  const node = document.createElement(tag);
  if (classes.length) node.className = classes.join(" ");
  if (props && props.constructor === Object) setProps(node, props);
  else children.unshift(props);
  node.append(...children.flat(3).filter((child) => child != null && child !== false));
  return node;
}

export function svg(tag, props, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(props || {})) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function setProps(node, props) {
  for (const [name, value] of Object.entries(props)) {
    if (value == null) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    // Through the object model, which the content policy allows; an attribute it would not.
    else if (name === "style") Object.assign(node.style, value);
    else if (value === true || value === false) node.toggleAttribute(name, value);
    else node.setAttribute(name, value);
  }
}

// Replaces the children only if they differ: a live page must not lose a selection or a focus.
export function fill(node, ...children) {
  const fresh = h("div", ...children);
  const same = fresh.childNodes.length === node.childNodes.length && [...fresh.childNodes].every((child, i) => child.isEqualNode(node.childNodes[i]));
  if (!same) node.replaceChildren(...fresh.childNodes);
}

// A text of people, models and tools comes as its words or, where they are not shown, as how many
// characters it has.
export const isText = (text) => typeof text === "string";

export const said = (text, what = "span") => h(what + ".said", { dir: "auto" }, isText(text) ? text : count(text, "character"));

export const unsaid = (size) => h("p.unsaid", `${count(size, "character")} · text is shown with --log-content`);

export const button = (words, onclick, more) => h("button", { type: "button", onclick, ...more }, words);

// Rows to go for a key, in lists and in the waterfall; undefined for other keys.
export function stepOf(event, page) {
  const steps = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -1e9, End: 1e9 };
  return event.ctrlKey || event.metaKey || event.altKey ? undefined : steps[event.key];
}

export const link = (href, ...words) => h("a", { href: "#" + href }, ...words);

const whole = new Intl.NumberFormat("en-US");
export const num = (value) => whole.format(Math.round(value));

export function short(value) {
  for (const [limit, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (value >= limit * 0.9995) return (value / limit).toFixed(value / limit < 99.95 ? 1 : 0) + unit;
  }
  return String(Math.round(value));
}

// A price that is not known is shown as such, never as zero.
// scale: the largest value of a column, so that all of it has the same decimals.
export function usd(value, scale) {
  if (value == null) return "?";
  const digits = scale == null ? (value && value < 0.1 ? 4 : 2) : scale < 10 ? 4 : 2;
  return "$" + value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

export const pct = (value) => value == null ? "–" : Math.round(value * 100) + " %";

export function dur(seconds) {
  if (seconds < 59.95) return seconds.toFixed(1) + "s";
  const all = Math.round(seconds), minutes = Math.floor(all / 60);
  if (minutes < 60) return minutes + "m" + String(all % 60).padStart(2, "0") + "s";
  return Math.floor(minutes / 60) + "h" + String(minutes % 60).padStart(2, "0") + "m";
}

export const ms = (value) => value < 1000 ? Math.round(value) + "ms" : dur(value / 1000);

export const count = (value, word) => `${num(value)} ${word}${value === 1 ? "" : "s"}`;

// Shares of a whole as one bar. parts: [class, value, label].
export function bar(parts, most, label) {
  const node = h("div.parts", { role: "img", "aria-label": label, title: label });
  for (const [name, value] of parts) {
    if (value > 0) node.append(h("i", { class: "i-" + name, style: { width: (100 * value) / (most || 1) + "%" } }));
  }
  return node;
}

// A value against its limit, with words beside the bar.
export function gauge(value, most, words, what) {
  return h("div.duo", bar([["used", value]], most, `${what} ${num(value)} of ${num(most)}`), h("span.soft", words));
}

export const KINDS = [["read", "cache read"], ["write", "cache write"], ["input", "uncached input"], ["output", "output"]];

export function tokenBar(row, most) {
  const words = KINDS.map(([kind, name]) => `${name} ${num(row[kind])}`).join(", ");
  return bar(KINDS.map(([kind]) => [kind, row[kind]]), most ?? row.total, words);
}

export function legend(entries) {
  return h("div.legend", entries.map(([kind, name, value]) =>
    h("span", h("i", { class: "i-" + kind }), name, value === undefined ? null : [" ", h("b", value)])));
}

const CHUNK = 20000;

// A long text comes in pieces: one line of a megabyte must not stop the page.
export function textBox(text) {
  if (!isText(text)) return unsaid(text);
  const more = button("", next), box = h("div.text", { tabindex: 0 }, more);
  let shown = 0;
  function next() {
    more.before(h("div", text.slice(shown, shown + CHUNK) || "(empty)"));
    shown += CHUNK;
    more.textContent = `Show more: ${num(text.length - shown)} of ${num(text.length)} characters are left`;
    more.hidden = shown >= text.length;
  }
  next();
  return box;
}
