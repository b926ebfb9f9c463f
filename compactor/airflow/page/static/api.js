/** Calls our own server: same origin, Airflow's login, and the header that no other origin can send. */

export const metastore = location.pathname.split("/").at(-2);
export const view = location.pathname.split("/").at(-1);

export class Failure extends Error {}

const TRIES = 4; // while the server has no thread free for the moment

async function call(path, options, tries = 1) {
  let answer;
  try {
    answer = await fetch(`api/${path}`, { credentials: "same-origin", ...options });
  } catch {
    throw new Failure("Airflow does not answer. Is the api-server running, and are you online?");
  }
  const soon = Number(answer.headers.get("Retry-After") || Infinity);
  if (answer.status === 503 && soon <= 1 && tries > 1) {
    await new Promise((resolve) => setTimeout(resolve, soon * 1000));
    return call(path, options, tries - 1);
  }
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Failure(body.detail || `Airflow answered ${answer.status}.`);
  return body;
}

export function read(path, query = {}) {
  const found = Object.entries(query).filter(([, value]) => value !== "" && value != null && value !== false);
  return call(`${path}?${new URLSearchParams(found)}`, {}, TRIES);
}

export function act(path, body = {}) {
  return call(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Compactor": "1" },
    body: JSON.stringify(body),
  });
}
