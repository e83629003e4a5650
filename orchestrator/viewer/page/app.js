// The frame around the views: address, header, keys.

import { agentView } from "./agent.js";
import { fill, h } from "./dom.js";
import { fallsView } from "./falls.js";
import { overviewView, tone } from "./overview.js";
import { conclusionView, eventsView, searchView, todoView, toolView } from "./pages.js";
import { start } from "./source.js";
import { changed, onChange, state } from "./state.js";
import { turnsView } from "./turns.js";

const VIEWS = [
  ["", "Overview", overviewView], ["agent", "Agent", (n) => agentView(agentOf(n))], ["time", "Time", fallsView],
  ["turns", "Turns", (n, turn) => turnsView(agentOf(n), turn === undefined ? null : Number(turn))],
  ["todos", "To-dos", todoView], ["conclusions", "Conclusions", conclusionView], ["tools", "Tools", toolView], ["events", "Events", eventsView],
];

const find = (id) => document.getElementById(id);
const main = find("main"), search = find("search"), help = find("help");
let view = null, where = null, chosen = 0;

function agentOf(text) {
  if (text !== undefined && text !== "") chosen = Number(text);
  return chosen;
}

function route() {
  const [name, ...rest] = location.hash.slice(1).split("/");
  const key = name + "/" + rest.join("/");
  // A turn that was chosen inside the view put itself into the address.
  if (key === where) return;
  where = key;
  const entry = VIEWS.find(([path]) => path === name);
  view = name === "search" ? searchView() : (entry || VIEWS[0])[2](...rest);
  fill(find("tabs"), VIEWS.map(([path, title]) => h("a", { href: "#" + path, "aria-current": path === (entry ? name : name === "search" ? null : "") ? "page" : null }, title)));
  find("tabs").querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  main.replaceChildren(...view.node);
  main.scrollTop = 0;
  head();
  view.update();
  if (document.activeElement !== search) (view.focus ?? (() => main.focus()))();
}

function head() {
  const run = state.run;
  find("run").textContent = run.id || "";
  const status = find("status"), problem = find("problem");
  status.className = "badge " + tone(run.status);
  problem.hidden = !run.problem;
  // Both are read aloud when they change, so they are left alone while they do not.
  fill(status, (run.status || "") + (run.reason ? ` (${run.reason})` : ""));
  fill(problem, run.problem || "");
  find("hint").hidden = !run.hint;
  fill(find("hint"), "Texts are not shown. To show them: ", h("code", run.hint || ""));
  document.title = `${view.title} · ${run.id || "Outrider"}`;
}

function dark() {
  const style = getComputedStyle(document.documentElement).colorScheme;
  return style === "light dark" ? matchMedia("(prefers-color-scheme: dark)").matches : style === "dark";
}

function flipTheme() {
  document.documentElement.style.colorScheme = dark() ? "light" : "dark";
  changed();
}

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  const target = event.target;
  if (target.matches("input, select")) {
    if (event.key === "Escape") target.blur();
    return;
  }
  const tab = VIEWS[Number(event.key) - 1];
  if (tab) location.hash = "#" + tab[0];
  else if (event.key === "/") search.focus();
  else if (event.key === "?") help.showModal();
  else if (event.key === "d") flipTheme();
  else if (view.keys?.[event.key]) view.keys[event.key]();
  else return;
  event.preventDefault();
}

search.addEventListener("input", () => {
  state.query = search.value;
  if (location.hash !== "#search") location.hash = "#search";
  changed();
});
search.addEventListener("keydown", (event) => {
  if (event.key === "Enter") main.querySelector("a, .list")?.focus();
});
find("theme").addEventListener("click", flipTheme);
find("keys").addEventListener("click", () => help.showModal());
help.querySelector("button").addEventListener("click", () => help.close());
document.addEventListener("keydown", press);
// Who has not touched a key needs no frame around what the keys would act on.
for (const [kind, keyed] of [["keydown", true], ["pointerdown", false]]) {
  document.addEventListener(kind, () => document.documentElement.classList.toggle("keyed", keyed), true);
}
window.addEventListener("hashchange", route);
// The token has done its work: it must not stay in the address, where it is seen and copied.
if (location.search) history.replaceState(null, "", location.pathname + location.hash);
route();
onChange(() => {
  head();
  view.update();
});
start((link) => {
  find("link").textContent = { live: "● live", saved: "saved file", lost: "○ no connection, trying again", ended: "○ the server has ended" }[link];
});
