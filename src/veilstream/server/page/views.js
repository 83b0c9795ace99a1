// All streams at a glance.
import { api, connection, element, follow } from "./app.js";
import { sparkline } from "./charts.js";
import { round } from "./series.js";
import { countdown, plural, windowWords } from "./words.js";

export async function streamsView(main) {
  const holder = element("div", { class: "cards" });
  let asked = 0, shown = 0;
  const load = async () => {
    const mine = ++asked, { streams } = await api("/v1/streams?brief=true");
    // Answers may overtake each other.
    if (mine < shown) return streams;
    shown = mine;
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
  const when = info.so_far ? " so far" : ` of the last ${plural(info.every)}`, all = info.bins > 1 ? `, all ${info.bins} bins` : "";
  return element("a", { class: "card", href: `/streams/${encodeURIComponent(info.name)}`, "data-link": "" },
    element("h2", {}, info.title),
    element("p", { class: "muted small" }, info.description || `${info.bins} bins, every ${plural(info.every)}`),
    element("div", { class: "figure" }, spark.total.length ? round(total) : "no release yet", measure?.unit ? element("small", {}, ` ${measure.unit}`) : null),
    element("p", { class: "muted small" }, spark.total.length ? `${measure ? info.headline + when : info.counted}${all}` : ""),
    sparkline(spark, adds),
    element("p", { class: "muted small row" }, element("span", { class: "chip" }, `ε ${info.epsilon} ${windowWords(info)}`),
      element("span", { class: "grow" }), countdown(info)));
}
