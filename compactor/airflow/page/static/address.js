/** What a view shows stands in its address, so that it can be kept and sent to others. */

export function kept(defaults) {
  const query = new URLSearchParams(location.search);
  const state = {};
  for (const [key, value] of Object.entries(defaults)) {
    const said = query.get(key);
    if (said == null) state[key] = value;
    else if (typeof value === "number") state[key] = Math.max(0, Number(said) || 0);
    else state[key] = typeof value === "boolean" ? said === "true" : said;
  }
  return state;
}

export function keep(state, defaults) {
  const said = Object.entries(state).filter(([key, value]) => value !== defaults[key]);
  history.replaceState(null, "", said.length ? `?${new URLSearchParams(said)}` : location.pathname);
}

/** Calls when nothing was typed for a moment. */
export function settled(action, ms = 250) {
  let timer;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...given), ms);
  };
}
