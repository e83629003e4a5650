// Where the story comes from: the server's stream, or the data blocks of a file that was exported.

import { changed, state, take } from "./state.js";

const details = new Map();

function embedded(name) {
  for (const block of document.querySelectorAll('script[type="application/json"]')) {
    if (JSON.parse(block.dataset.name) === name) return JSON.parse(block.textContent);
  }
  return null;
}

export const isFile = document.querySelector('script[type="application/json"]') !== null;

export function start(told) {
  if (isFile) {
    take(embedded("story"));
    told("saved");
    return;
  }
  const stream = new EventSource("stream");
  stream.onopen = () => told("live");
  stream.onmessage = (message) => take(JSON.parse(message.data));
  // The browser tries again by itself, from the record that it has.
  stream.onerror = () => told(stream.readyState === EventSource.CLOSED ? "ended" : "lost");
}

// An agent that is busy changes five times a second; its detail is a replay. So it is asked for again after
// a pause, which is longer where a replay takes long.
const PAUSE_MS = 400, PAUSE_PER_REPLAY = 3;
// Of an agent that has not begun: of a run that ended, or crashed, before.
const NOTHING = { conclusion: "", blocks: [], turns: [] };
let later = 0;

// All that an agent was sent (see turns.py). Asked for again only when the agent has gone on.
export function detailOf(n) {
  const row = state.agents[n];
  const known = details.get(n);
  if (known && (isFile || known.rev === row.rev)) return known.promise;
  const wait = known ? known.at + Math.max(PAUSE_MS, PAUSE_PER_REPLAY * known.took) - Date.now() : 0;
  if (wait > 0) {
    clearTimeout(later);
    later = setTimeout(changed, wait);
    return known.promise;
  }
  const promise = isFile ? Promise.resolve(embedded("agent:" + row.id) ?? NOTHING) : fetched("agent?id=" + encodeURIComponent(row.id));
  const asked = { rev: row.rev, at: Date.now(), took: 0, promise };
  details.set(n, asked);
  promise.then(() => { asked.took = Date.now() - asked.at; }, () => details.delete(n));
  return promise;
}

// What needs the whole run replayed: told once it has ended, or when somebody asks to see it.
export function accounts() {
  if (replayed === state.last || (replayed && state.run.status === "running")) return;
  replayed = state.last;
  (isFile ? Promise.resolve(embedded("accounts")) : fetched("accounts")).then((found) => {
    state.accounts = found;
    changed();
  }, () => { replayed = 0; });
}

let replayed = 0;

async function fetched(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}
