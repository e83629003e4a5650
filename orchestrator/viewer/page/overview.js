// The first screen: how the run stands, where the tokens went, and the tree of agents.

import { button, count, dur, fill, gauge, h, isText, KINDS, legend, link, num, pct, said, short, tokenBar, unsaid, usd } from "./dom.js";
import { list } from "./list.js";
import { accounts } from "./source.js";
import { nameOf, rows, state, statusOf } from "./state.js";

const folded = new Set();
// Those that have children; known anew at each update, asked for every row in sight.
let parents = new Set();
let order = "tree";

export function overviewView() {
  const task = h("div.panel"), tiles = h("div.tiles"), agents = agentTree();
  return { title: "Overview", node: [task, tiles, agents.node], update() {
    const asked = state.run.task ?? "";
    fill(task, h("h2", "Task"), isText(asked) ? said(asked, "div.task") : unsaid(asked));
    if (!["running", "reading", undefined].includes(state.run.status)) accounts();
    fill(tiles, ...tileNodes());
    agents.update();
  }, focus: agents.focus };
}

function tile(what, much, more) {
  return h("div.tile", h("div.what", what), h("div.much", much), h("div.more", more));
}

function tileNodes() {
  const run = state.run, listed = new Set(state.order), agents = rows().filter((row) => listed.has(row.n));
  const open = agents.filter((row) => !row.status).length;
  const nodes = [
    tile("Cost", usd(run.cost), count(run.requests, "request") + (run.cost === null ? "; a price is not known" : "") + (run.unreported ? `; ${num(run.unreported)} without a report, in no sum` : "")),
    h("div.tile.triple", h("div.what", "Tokens"), h("div.much", num(run.total), h("span.what", run.cache_share == null ? null : ` ${pct(run.cache_share)} of the input from the cache`)), tokenBar(run),
      legend(KINDS.map(([kind, name]) => [kind, name, short(run[kind])]))),
    tile("Time", dur(run.seconds), count(agents.length, "agent") + (open && run.status === "running" ? `, ${open} at work` : "")),
  ];
  if (run.top_agent) {
    const [n, tokens, share] = run.top_agent;
    nodes.push(tile("Most tokens", link("agent/" + n, pct(share)), [link("agent/" + n, said(nameOf(n))), ` · ${short(tokens)} tokens`]));
  }
  const [tool] = state.accounts?.tools || [];
  if (tool?.carried) nodes.push(tile("Most costly tool", link("tools", pct(tool.share)), [link("tools", said(tool.name)), ` · results carried as ${short(tool.carried)} tokens`]));
  else if (run.top_tool) {
    const [name, chars, share] = run.top_tool;
    nodes.push(tile("Most tool output", link("tools", pct(share)), [link("tools", said(name)), ` · ${short(chars)} characters`]));
  }
  const apart = state.accounts?.isolation;
  if (apart) nodes.push(tile(apart.saved_tokens < 0 ? "Isolation cost" : "Isolation saved", pct(Math.abs(apart.share)), `${short(Math.abs(apart.saved_tokens))} of the ${short(apart.alone_tokens)} input tokens of one agent alone`));
  return nodes;
}

function agentTree() {
  const columns = "Agent@tree|Status.wide|Tokens by kind.wide.mid|Tokens.num@total|Cached.num.wide@cache_share|Cost.num@cost|Peak / window.wide@peak|Turns.num.wide.mid@turns|Time.num.wide.mid@seconds";
  let most = 1;
  const made = list({
    kind: "agents fill", label: "Agents", columns, cells, none: "No agent has started yet.",
    open: (n) => { location.hash = "#agent/" + n; },
    level: (n) => order === "tree" ? state.agents[n].depth : 0,
    expanded: (n) => order === "tree" && hasChildren(n) ? !folded.has(n) : null,
    sorted: (name) => { order = name; update(); },
    key: (event, n) => {
      if (event.key === "ArrowLeft") folded.add(n);
      else if (event.key === "ArrowRight") folded.delete(n);
      else return false;
      update();
      return true;
    },
  });

  function cells(n) {
    const row = state.agents[n], status = statusOf(row), tree = order === "tree";
    const fold = tree && hasChildren(n) ? button(folded.has(n) ? "▸" : "▾", () => toggle(n), { class: "fold", tabindex: -1, "aria-label": folded.has(n) ? "Unfold" : "Fold" }) : h("span.fold");
    const name = h("span", { style: { paddingLeft: (tree ? row.depth * 16 : 0) + "px" } }, fold, h("span", { class: `dot ${status} ${tone(status)}` }),
      link("agent/" + n, said(nameOf(n))), " ", said(row.brief, "span.soft"));
    const doing = row.status || status === "running" ? row.doing : status;
    return [
      name, h("span", { class: tone(status), title: doing }, doing), tokenBar(row, most), num(row.total), pct(row.cache_share), usd(row.cost, state.run.cost ?? 0),
      gauge(row.peak, row.window, `${short(row.peak)} / ${short(row.window)}`, "peak"),
      num(row.turns), dur(row.seconds),
    ];
  }

  function toggle(n) {
    folded.has(n) ? folded.delete(n) : folded.add(n);
    update();
  }

  function update() {
    most = Math.max(1, ...rows().map((row) => row.total));
    parents = new Set(rows().map((row) => row.parent));
    made.showSort(order);
    made.set(shown());
  }

  return { node: made.node, update, focus: () => made.node.focus() };
}

const hasChildren = (n) => parents.has(n);

function shown() {
  const all = state.order.filter((n) => state.agents[n]);
  if (order !== "tree") return all.sort((a, b) => (state.agents[b][order] ?? -1) - (state.agents[a][order] ?? -1));
  const hidden = new Set();
  return all.filter((n) => {
    const parent = state.agents[n].parent;
    if (parent !== null && (hidden.has(parent) || folded.has(parent))) hidden.add(n);
    return !hidden.has(n);
  });
}

export function tone(status) {
  return { finished: "good", partial: "warn", running: "", reading: "" }[status] ?? "bad";
}
