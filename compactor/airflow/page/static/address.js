/** Keeps the state of a view in its URL, so that it can be bookmarked and shared. */

export function kept(defaults) {
  const query = new URLSearchParams(location.search);
  const state = {};
  for (const [key, value] of Object.entries(defaults)) {
    const text = query.get(key);
    if (text == null) state[key] = value;
    else if (typeof value === "number") state[key] = Math.max(0, Number(text) || 0);
    else state[key] = typeof value === "boolean" ? text === "true" : text;
  }
  return state;
}

export function keep(state, defaults) {
  const changed = Object.entries(state).filter(([key, value]) => value !== defaults[key]);
  history.replaceState(null, "", changed.length ? `?${new URLSearchParams(changed)}` : location.pathname);
}

/** Calls the action once nothing has been typed for a moment. */
export function settled(action, ms = 250) {
  let timer;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...given), ms);
  };
}
