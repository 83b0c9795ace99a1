// What the operator sees: exact numbers, so behind its role alone.
import { api, connection, element } from "./app.js";
import { sparkline } from "./charts.js";

const FATES = { late: "late", no_user: "no id", unknown: "outside the domain", bad_time: "bad time", bad_user: "bad id", unreadable: "unreadable" };
const EVERY = 5000;
const number = (value) => value.toLocaleString("en");
const seconds = (value) => (value == null ? "–" : value < 1 ? `${Math.round(value * 1000)} ms` : `${value} s`);
const open = new Set();

export async function operateView(main) {
  document.title = "Operate · veilstream";
  const state = element("p", { role: "status" }), tiles = element("div", { class: "tiles" }), holder = element("section", { class: "card" });
  let before = null;
  const load = async () => {
    const view = await api("/v1/operate"), now = performance.now();
    const rows = view.streams.reduce((sum, stream) => sum + taken(stream), 0);
    const rate = before && now > before.at ? Math.max(0, (rows - before.rows) / (now - before.at) * 1000) : null;
    before = { at: now, rows };
    state.textContent = view.ready ? "Steps are being closed on time." : "Steps are NOT being closed: see the streams that have a problem.";
    state.className = view.ready ? "muted" : "error";
    tiles.replaceChildren(...summary(view, rate));
    holder.replaceChildren(table(view.streams));
  };
  main.replaceChildren(element("h1", {}, "Operate"), state,
    element("p", { class: "notice small" }, "These numbers are exact. They are for the operator alone and must not be published."), tiles, holder);
  await load();
  connection(true);
  const timer = setInterval(() => load().then(() => connection(true), () => connection(false)), EVERY);
  return { close: () => clearInterval(timer), redraw: load };
}

const taken = (stream) => stream.hours.reduce((sum, hour) => sum + hour.rows, 0);
const dropped = (hour) => Object.keys(FATES).filter((name) => name !== "late").reduce((sum, name) => sum + hour[name], 0);

function summary(view, rate) {
  const bad = view.streams.filter((stream) => stream.problem || stream.behind > 1).length;
  const refused = Object.entries(view.batches).filter(([outcome]) => outcome !== "accepted" && outcome !== "duplicate");
  const tile = (figure, words, wrong = false) => element("div", { class: wrong ? "card tile wrong" : "card tile" },
    element("div", { class: "figure" }, figure), element("p", { class: "muted small" }, words));
  return [
    tile(`${view.streams.length - bad} of ${view.streams.length}`, "streams close on time", bad > 0),
    tile(rate === null ? "…" : number(Math.round(rate)), "rows a second now"),
    tile(number(view.batches.accepted || 0), "batches accepted since the start"),
    tile(number(refused.reduce((sum, [, count]) => sum + count, 0)), refused.length ? `refused: ${refused.map(([kind, count]) => `${kind.replace("Error", "")} ${count}`).join(", ")}` : "batches refused", refused.length > 0),
    tile(seconds(view.batch_p99), "until durable, 99 of 100 batches"),
    tile(seconds(view.delay_p99), "after its moment, 99 of 100 releases"),
  ];
}

function table(streams) {
  const names = ["Stream", "Rows an hour", "Last hour", "Late", "Dropped", "Taking step", "Published", "Shown", "State"];
  const head = element("tr", {}, ...names.map((text, place) => element("th", { scope: "col", class: place === 1 || place === 8 ? "left" : "" }, text)));
  return element("div", { class: "scroll tall", tabIndex: 0, "aria-label": "Streams" }, element("table", { class: "streams" }, element("thead", {}, head), ...streams.map(operated)));
}

function operated(view) {
  const hours = view.hours.slice(-48), last = hours[hours.length - 1];
  const state = view.problem ? `closing fails (${view.problem}), tried again every few seconds` : view.behind > 1 ? `${Math.round(view.behind)} s behind` : "on time";
  const more = element("tr", { hidden: !open.has(view.stream) }, element("td", { colspan: "9", class: "left" }, byHour(view)));
  const button = element("button", { type: "button", class: "quiet small", "aria-expanded": String(open.has(view.stream)) }, view.title);
  button.addEventListener("click", () => {
    if (open.delete(view.stream) === false) open.add(view.stream);
    more.hidden = !open.has(view.stream);
    button.setAttribute("aria-expanded", String(!more.hidden));
  });
  const sum = (count) => number(hours.reduce((total, hour) => total + count(hour), 0));
  return element("tbody", {}, element("tr", {}, element("td", {}, button),
    element("td", { class: "left" }, sparkline({ total: hours.map((hour) => hour.rows) }, true)),
    element("td", {}, last ? number(last.rows) : "–"), element("td", {}, sum((hour) => hour.late)), element("td", {}, sum(dropped)),
    element("td", {}, String(view.taking)), element("td", {}, String(view.published)), element("td", {}, String(view.visible)),
    element("td", { class: view.problem || view.behind > 1 ? "left error" : "left good", ...(view.problem ? { role: "alert" } : {}) }, state)), more);
}

function byHour(view) {
  const rows = view.hours.slice(-24).reverse().map((hour) => element("tr", {},
    element("td", {}, new Date(hour.hour * 1000).toISOString().slice(0, 16).replace("T", " ")), element("td", {}, number(hour.rows)),
    ...Object.keys(FATES).map((name) => element("td", {}, number(hour[name])))));
  const head = element("tr", {}, ...["Hour (UTC)", "rows", ...Object.values(FATES)].map((text) => element("th", { scope: "col" }, text)));
  const left = view.left_out === null ? null : element("p", { class: "small" }, `${number(view.left_out)} rows did not count: their people had counted in as many steps as they may.`);
  return element("div", {}, left, rows.length ? element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)) : element("p", { class: "muted" }, "No rows came yet."));
}
