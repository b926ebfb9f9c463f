/** Light or dark theme: that of Airflow around us, or the system's if the page is not embedded. */

const listeners = [];

export function onTheme(listener) {
  listeners.push(listener);
}

export function followTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let around = null;
  try {
    if (parent !== window) around = parent.document.documentElement;
  } catch {
    around = null; // another origin shows us in a frame: its theme is not ours to read
  }
  const apply = () => {
    const said = around ? ["dark", "light"].find((name) => around.classList.contains(name)) : null;
    const theme = said || (dark.matches ? "dark" : "light");
    if (document.documentElement.dataset.theme === theme) return;
    document.documentElement.dataset.theme = theme;
    listeners.forEach((listener) => listener());
  };
  if (around) new MutationObserver(apply).observe(around, { attributes: true, attributeFilter: ["class"] });
  dark.addEventListener("change", apply);
  apply();
}
