// The page: routes, the session, the connection that brings news, light and dark.
import { streamView } from "./stream.js";
import { streamsView } from "./views.js";

const main = document.getElementById("main");
export const state = { session: null, view: null, heads: null };

export async function ask(path, options = {}) {
  const headers = { ...(options.headers || {}) };
  if (options.method && options.method !== "GET" && state.session?.csrf) headers["x-csrf-token"] = state.session.csrf;
  const answer = await fetch(path, { ...options, headers, credentials: "same-origin" });
  if (!answer.ok) {
    const problem = await answer.json().catch(() => null);
    const error = new Error(problem?.error?.message || `the server answered ${answer.status}`);
    error.status = answer.status;
    throw error;
  }
  return answer;
}

export async function api(path, options = {}) {
  const answer = await ask(path, options);
  return answer.status === 204 ? null : answer.json();
}

export function announce(text) {
  document.getElementById("announce").textContent = text;
}

export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else if (name === "data") Object.assign(made.dataset, value);
    else if (name in made && typeof value !== "string") made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child != null));
  return made;
}

export function connection(live) {
  const shown = document.getElementById("connection");
  shown.hidden = false;
  shown.dataset.state = live ? "live" : "connecting";
  shown.textContent = live ? "live" : "reconnecting";
}

// EventSource reconnects by itself and sends Last-Event-ID; when the server refuses for good, it is opened anew.
export function follow(path, kind, take) {
  let source, timer, closed = false;
  const open = () => {
    source = new EventSource(typeof path === "function" ? path() : path);
    source.onopen = () => connection(true);
    source.addEventListener(kind, (event) => { connection(true); take(JSON.parse(event.data)); });
    source.onerror = () => {
      connection(false);
      if (source.readyState === EventSource.CLOSED && !closed) timer = setTimeout(open, 2000);
    };
  };
  open();
  return () => { closed = true; clearTimeout(timer); source.close(); };
}

async function show() {
  state.view?.close?.();
  state.view = null;
  const path = location.pathname, name = decodeURIComponent(path.split("/")[2] || "");
  document.body.classList.toggle("embedded", path.startsWith("/embed/"));
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === path) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  main.replaceChildren(element("p", { class: "muted" }, "Loading…"));
  document.getElementById("connection").hidden = path === "/guide";
  try {
    if (path.startsWith("/streams/") || path.startsWith("/embed/")) state.view = await streamView(main, name);
    else if (path === "/operate") state.view = await (await import("./operate.js")).operateView(main);
    else if (path === "/guide") state.view = await (await import("./guide.js")).guideView(main);
    else state.view = await streamsView(main);
  } catch (error) {
    if (error.status === 401) {
      main.replaceChildren(element("div", { class: "card" }, element("h1", {}, "Sign in to see this"),
        element("p", { class: "muted" }, "It is not open to everybody. Sign in with a token that has the right to it."),
        element("button", { class: "primary", type: "button", onclick: signIn }, "Sign in")));
    } else {
      main.replaceChildren(element("div", { class: "card" }, element("h1", {}, "This cannot be shown"),
        element("p", { class: "error", role: "alert" }, error.message),
        element("button", { type: "button", onclick: show }, "Try again")));
    }
  }
}

export function go(path) {
  history.pushState(null, "", path);
  show().then(() => main.focus({ preventScroll: true }));
  window.scrollTo(0, 0);
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-link]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  go(link.getAttribute("href"));
});
window.addEventListener("popstate", show);

function theme(next) {
  document.documentElement.dataset.theme = next;
  state.view?.redraw?.();
}
const wanted = matchMedia("(prefers-color-scheme: dark)");
const stored = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
theme(stored() || (wanted.matches ? "dark" : "light"));
wanted.addEventListener("change", () => { if (!stored()) theme(wanted.matches ? "dark" : "light"); });
document.getElementById("theme").addEventListener("click", () => {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try { localStorage.setItem("theme", next); } catch { /* a browser without storage forgets it */ }
  theme(next);
});

const dialog = document.getElementById("login");
function signIn() {
  document.getElementById("login-error").textContent = "";
  document.getElementById("login-token").value = "";
  dialog.showModal();
}
document.getElementById("login-cancel").addEventListener("click", () => dialog.close());
document.getElementById("login-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    const body = JSON.stringify({ token: document.getElementById("login-token").value.trim() });
    state.session = await api("/v1/session", { method: "POST", body, headers: { "content-type": "application/json" } });
    dialog.close();
    signed();
    show();
  } catch (error) {
    document.getElementById("login-error").textContent = error.message;
  }
});

function signed() {
  const session = state.session, scopes = session?.scopes || [];
  document.getElementById("sign").textContent = session?.label ? "Sign out" : "Sign in";
  document.getElementById("nav-operate").hidden = !scopes.includes("operate") && !scopes.includes("admin");
}
document.getElementById("sign").addEventListener("click", async () => {
  if (!state.session?.label) return signIn();
  await api("/v1/session", { method: "DELETE" });
  state.session = await api("/v1/session");
  signed();
  return show();
});

const asked = api("/v1/session").catch(() => null).then((session) => { state.session = session; signed(); });
if (location.pathname === "/guide" || location.pathname === "/operate") await asked;
show();
