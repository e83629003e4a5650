// A list that holds only the rows in sight, so that 20,000 of them scroll as easily as 20.

import { button, h, stepOf } from "./dom.js";

let serial = 0;

// columns: "Title.class.class@sort", several with | between; cells(item) gives one node or text for each.
// open(item): Enter or a double click; key(event, item): other keys; level(item): depth in a tree.
export function list({ kind, label, columns: told, cells, open, chosen, key, level, expanded, sorted, none = "Nothing here." }) {
  const id = "list" + ++serial;
  const columns = told.split("|").map((text) => {
    const [, title, classes, sort] = text.match(/^([^.@]*)([^@]*)@?(.*)$/);
    return { title, class: classes.replaceAll(".", " ").trim() || null, sort };
  });
  const role = level ? "treegrid" : "grid";
  const titles = h("div.titles", { role: "row" }, columns.map(title));
  const deep = h("div.deep", { role: "rowgroup" });
  const rows = h("div.rows", { tabindex: -1, onscroll: draw, role: "presentation" }, deep);
  const empty = h("p.none", none);
  const node = h("div", { class: `list ${kind}`, role, "aria-label": label, tabindex: 0, onkeydown: press }, titles, rows);
  let items = [], at = -1, height = 30;
  const drawn = new Map();
  new ResizeObserver(() => {
    height = parseFloat(getComputedStyle(node).getPropertyValue("--row")) || 30;
    redraw();
  }).observe(rows);

  function title(column) {
    const inner = column.sort ? button(column.title, () => sorted(column.sort), { tabindex: -1 }) : column.title;
    return h("div", { role: "columnheader", class: column.class, "data-sort": column.sort || null }, inner);
  }

  function set(fresh) {
    const before = items[at];
    items = fresh;
    if (before !== undefined && items[at] !== before) at = items.indexOf(before);
    node.setAttribute("aria-rowcount", items.length + 1);
    node.style.setProperty("--count", Math.max(2, items.length));
    if (items.length) empty.remove();
    else rows.append(empty);
    redraw();
  }

  function redraw() {
    for (const row of drawn.values()) row.remove();
    drawn.clear();
    deep.style.height = items.length * height + "px";
    draw();
  }

  function draw() {
    const first = Math.max(0, Math.floor(rows.scrollTop / height) - 4);
    const last = Math.min(items.length, Math.ceil((rows.scrollTop + rows.clientHeight) / height) + 4);
    for (const [i, row] of drawn) {
      if (i < first || i >= last) {
        row.remove();
        drawn.delete(i);
      }
    }
    for (let i = first; i < last; i++) {
      if (!drawn.has(i)) {
        drawn.set(i, made(i));
        deep.append(drawn.get(i));
      }
    }
  }

  function made(i) {
    const item = items[i];
    const row = h("div", {
      class: "row", role: "row", id: `${id}-${i}`, "aria-rowindex": i + 2, "aria-selected": String(i === at),
      style: { transform: `translateY(${i * height}px)` },
      onclick: () => select(i), ondblclick: () => open?.(item),
      "aria-level": level ? level(item) + 1 : null,
      "aria-expanded": expanded && expanded(item) !== null ? String(expanded(item)) : null,
    });
    cells(item).forEach((cell, k) => row.append(h("div", { role: "gridcell", class: columns[k].class }, cell)));
    return row;
  }

  function select(i, quietly) {
    if (i < 0 || i >= items.length) return;
    drawn.get(at)?.setAttribute("aria-selected", "false");
    at = i;
    if (i * height < rows.scrollTop) rows.scrollTop = i * height;
    if ((i + 1) * height > rows.scrollTop + rows.clientHeight) rows.scrollTop = (i + 1) * height - rows.clientHeight;
    draw();
    drawn.get(at)?.setAttribute("aria-selected", "true");
    node.setAttribute("aria-activedescendant", `${id}-${i}`);
    if (!quietly) chosen?.(items[i]);
  }

  function press(event) {
    if ((event.target !== node && event.target !== rows) || event.ctrlKey || event.metaKey) return;
    const page = Math.max(1, Math.floor(rows.clientHeight / height) - 1);
    const step = stepOf(event, page);
    if (step) select(Math.min(items.length - 1, Math.max(0, at + step)));
    else if (event.key === "Enter" && items[at] !== undefined) open?.(items[at]);
    else if (!(items[at] !== undefined && key?.(event, items[at]))) return;
    event.preventDefault();
    event.stopPropagation();
  }

  function showSort(name) {
    for (const cell of titles.children) {
      if (cell.dataset.sort) cell.setAttribute("aria-sort", cell.dataset.sort === name ? "descending" : "none");
    }
  }

  return { node, set, showSort, select, size: () => items.length, selected: () => items[at], index: () => at };
}
