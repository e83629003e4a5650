// What the page knows. It is told in patches (see story.py): rows replace what was, lists grow.

export const state = {
  run: {}, agents: [], order: [], tools: [], todos: {}, conclusions: {},
  models: [], calls: [], marks: [], events: [], seq: 0, last: 0, query: "", accounts: null,
};

const heard = new Set();
let waiting = false;
const mine = new Map();

export function of(n) {
  if (!mine.has(n)) mine.set(n, { models: [], calls: [], marks: [] });
  return mine.get(n);
}

export function onChange(listener) {
  heard.add(listener);
}

export function take(patch) {
  state.run = patch.run;
  state.last = patch.last;
  state.seq = patch.seq;
  for (const row of patch.agents) {
    row.rev = patch.last;
    state.agents[row.n] = row;
  }
  if (patch.order) state.order = patch.order;
  if (patch.tools) state.tools = patch.tools;
  Object.assign(state.todos, patch.todos);
  Object.assign(state.conclusions, patch.conclusions);
  for (const name of ["models", "calls", "marks"]) {
    for (const item of patch[name]) {
      state[name].push(item);
      of(item[1])[name].push(item);
    }
  }
  for (const event of patch.events) state.events.push(event);
  changed();
}

// Listeners run once a frame, however many patches came.
export function changed() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    for (const listener of heard) listener();
  });
}

// Places of the fields in list items; all begin with seq, agent, turn, start (or: when).
export const M = { turn: 2, start: 3, end: 4, purpose: 5, model: 6, input: 7, read: 8, write: 9, output: 10, estimate: 11, stop: 12, cost: 13, error: 14 };
export const C = { turn: 2, start: 3, end: 4, tool: 5, chars: 6, error: 7 };
export const K = { turn: 2, at: 3, kind: 4, text: 6 };

export const contextOf = (model) => model[M.input] + model[M.read] + model[M.write];

export function nameOf(n) {
  const row = state.agents[n];
  if (!row) return "agent " + n;
  return row.id.startsWith(row.type) ? row.id : row.type + " " + row.id;
}

export const rows = () => state.agents.filter(Boolean);

// How it stands with an agent: its end, or that of the run that left it behind.
export function statusOf(row) {
  return row.status || (state.run.status === "running" ? "running" : "not ended");
}

export function now() {
  return state.events.at(-1)?.[3] ?? 0;
}
