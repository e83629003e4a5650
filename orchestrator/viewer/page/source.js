// Where the story comes from: the server's stream, or the data blocks of a file that was exported.

import { state, take } from "./state.js";

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

// All that an agent was sent (see turns.py). Asked for again only when the agent has gone on.
export function detailOf(n) {
  const row = state.agents[n];
  const known = details.get(n);
  if (known && (isFile || known.rev === row.rev)) return known.promise;
  const promise = isFile ? Promise.resolve(embedded("agent:" + row.id)) : fetched(row.id);
  details.set(n, { rev: row.rev, promise });
  promise.catch(() => details.delete(n));
  return promise;
}

async function fetched(id) {
  const answer = await fetch("agent?id=" + encodeURIComponent(id));
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}
