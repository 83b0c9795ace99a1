// The views of all streams, and of what the operator sees.
import { api, connection, element, follow } from "./app.js";
import { sparkline } from "./charts.js";
import { round } from "./series.js";
import { countdown, plural, windowWords } from "./words.js";

export async function streamsView(main) {
  const holder = element("div", { class: "cards" });
  const load = async () => {
    const { streams } = await api("/v1/streams");
    holder.replaceChildren(...streams.map(card));
    if (!streams.length) {
      holder.replaceChildren(element("div", { class: "card" }, element("h2", {}, "No stream to see yet"),
        element("p", { class: "muted" }, "Sign in with a token that may read, or start the server with a stream that is public.")));
    }
    return streams;
  };
  await load();
  main.replaceChildren(
    element("h1", {}, "Streams"),
    element("p", { class: "muted" }, "Statistics about people, published with noise that hides each one of them. New releases appear by themselves."),
    holder,
  );
  document.title = "Streams · veilstream";
  const close = follow("/v1/live", "heads", () => load().catch(() => connection(false)));
  return { close, redraw: load };
}

function card(info) {
  const spark = info.spark, total = spark.total[spark.total.length - 1], measure = info.measures?.find((one) => one.label === info.headline);
  const adds = !measure || measure.statistic === "sum" || measure.statistic === "count";
  const when = info.so_far ? " so far" : ` ${measure ? "of" : "in"} the last ${plural(info.every)}`, all = info.bins > 1 ? `, all ${info.bins} bins` : "";
  return element("a", { class: "card", href: `/streams/${encodeURIComponent(info.name)}`, "data-link": "" },
    element("h2", {}, info.title),
    element("p", { class: "muted small" }, info.description || `${info.bins} bins, every ${plural(info.every)}`),
    element("div", { class: "figure" }, spark.total.length ? round(total) : "no release yet", measure?.unit ? element("small", {}, ` ${measure.unit}`) : null),
    element("p", { class: "muted small" }, spark.total.length ? `${info.headline}${when}${all}` : ""),
    sparkline(spark, adds),
    element("p", { class: "muted small row" }, element("span", { class: "chip" }, `ε ${info.epsilon} ${windowWords(info)}`),
      element("span", { class: "grow" }), countdown(info)));
}

const FATES = { late: "late", no_user: "no id", unknown: "outside the domain", bad_time: "bad time", bad_user: "bad id", unreadable: "unreadable" };

export async function operateView(main) {
  document.title = "Operate · veilstream";
  const holder = element("div", {});
  const load = async () => {
    const view = await api("/v1/operate");
    holder.replaceChildren(...view.streams.map(operated));
    state.textContent = view.ready ? "Steps are being closed on time." : "Steps are NOT being closed: see below.";
    state.className = view.ready ? "muted" : "error";
  };
  const state = element("p", { role: "status" });
  main.replaceChildren(element("h1", {}, "Operate"), state,
    element("p", { class: "notice small" }, "These numbers are exact. They are for the operator alone and must not be published."), holder);
  await load();
  connection(true);
  const timer = setInterval(() => load().then(() => connection(true), () => connection(false)), 5000);
  return { close: () => clearInterval(timer), redraw: load };
}

function operated(view) {
  const rows = view.hours.slice(-24).reverse().map((hour) => element("tr", {},
    element("td", {}, new Date(hour.hour * 1000).toISOString().slice(0, 16).replace("T", " ")),
    element("td", {}, hour.rows.toLocaleString("en")),
    ...Object.keys(FATES).map((name) => element("td", {}, hour[name].toLocaleString("en")))));
  const head = element("tr", {}, ...["Hour (UTC)", "rows", ...Object.values(FATES)].map((text) => element("th", { scope: "col" }, text)));
  return element("section", { class: "card" }, element("h2", {}, view.stream),
    element("p", { class: "small" }, `Taking rows of step ${view.taking}; published up to ${view.published}, shown up to ${view.visible}.`),
    view.problem ? element("p", { class: "error", role: "alert" }, `Closing fails (${view.problem}); it is tried again every few seconds.`) : null,
    element("div", { class: "scroll" }, element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows))));
}
