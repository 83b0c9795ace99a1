// The views: all streams, one stream, and what the operator sees.
import { api, announce, connection, element, follow } from "./app.js";
import { Brush, HeatMap, LineChart, Series, colour, moment, round, sparkline } from "./charts.js";
import { Plan } from "./plan.js";

const MOST_MULTIPLES = 12;
const fraction = (text) => { const [a, b = "1"] = text.split("/"); return Number(a) / Number(b); };
const short = (text) => String(Number(fraction(text).toPrecision(3)));
const ALL = "releases?newest=true&limit=10000&numbers=240000";
const plural = (every) => {
  const [, count, unit] = /^(\d+)(\w+)$/.exec(every) || [null, every, ""];
  const names = { s: "second", m: "minute", h: "hour", d: "day", w: "week", mo: "month", q: "quarter", y: "year" };
  return count === "1" ? names[unit] || every : `${count} ${names[unit] || unit}s`;
};

function windowWords(info) {
  if (info.per !== null) return `in each block of ${info.per}`;
  if (info.window === "user") return "for ever";
  if (info.window === 1) return `per ${plural(info.every)}`;
  return `in any ${info.window} steps`;
}

function countdown(info) {
  const seconds = Math.max(0, (Date.parse(info.next_shown) - Date.parse(info.now)) / 1000);
  return `next ${moment(Date.parse(info.next_shown) / 1000, { ...info, every: seconds < 120 ? "1s" : "1h" })}`;
}

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
    element("p", { class: "muted" }, "Counts of people, published with noise that hides each one of them. New releases appear by themselves."),
    holder,
  );
  document.title = "Streams · veilstream";
  const close = follow("/v1/live", "heads", () => load().catch(() => connection(false)));
  return { close, redraw: load };
}

function card(info) {
  const spark = info.spark, total = spark.total[spark.total.length - 1];
  return element("a", { class: "card", href: `/streams/${encodeURIComponent(info.name)}`, "data-link": "" },
    element("h2", {}, info.title),
    element("p", { class: "muted small" }, info.description || `${info.bins} bins, every ${plural(info.every)}`),
    element("div", { class: "figure" }, total == null ? "no release yet" : round(total)),
    element("p", { class: "muted small" }, total == null ? "" : `${info.unit} in the last ${plural(info.every)}, all ${info.bins} bins`),
    sparkline(spark),
    element("p", { class: "muted small row" }, element("span", { class: "chip" }, `ε ${info.epsilon} ${windowWords(info)}`),
      element("span", { class: "grow" }), countdown(info)));
}

class StreamPage {
  constructor(main, info, series) {
    Object.assign(this, { main, info, series });
    this.bins = info.bins <= 4 ? [...Array(info.bins).keys()] : this.largest(Math.min(4, info.bins));
    this.kind = info.bins === 1 ? "chart" : info.grid ? "map" : info.bins <= MOST_MULTIPLES ? "multiples" : "heat";
    if (location.hash) this.kind = location.hash.slice(1);
    this.stage = element("div", {});
    this.status = element("p", { class: "muted small" });
    this.budget = element("div", {});
    this.legends = element("div", { class: "key" });
    this.build();
  }

  largest(count) {
    const size = (bin) => this.series.values[bin].slice(-50).reduce((sum, v) => sum + v, 0);
    return [...Array(this.info.bins).keys()].sort((a, b) => size(b) - size(a)).slice(0, count).sort((a, b) => a - b);
  }

  build() {
    const info = this.info;
    document.title = `${info.title} · veilstream`;
    const chips = element("div", { class: "chips" },
      ...[`ε ${info.epsilon} ${windowWords(info)}`, `every ${plural(info.every)}`, `${info.bins} ${info.bins === 1 ? "series" : "bins"}`,
        `counts ${info.unit}`, info.mechanism].map((text) => element("span", { class: "chip" }, text)));
    this.main.replaceChildren(
      element("h1", {}, info.title), element("p", { class: "muted" }, info.description), chips,
      element("div", { class: "layout" },
        element("section", { class: "card", "aria-label": "Releases" }, this.toolbar(), this.stage, this.legends, this.status),
        element("aside", { class: "side" }, this.protection(), this.budgetCard(), this.downloads())),
    );
    this.draw();
    this.refreshStatus();
    this.refreshBudget();
  }

  toolbar() {
    const kinds = { chart: "Compare", multiples: "Each bin", heat: "Heat map", map: "Map", table: "Table" };
    if (!this.info.grid) delete kinds.map;
    if (this.info.bins === 1) { delete kinds.multiples; delete kinds.heat; }
    this.buttons = Object.entries(kinds).map(([kind, label]) => element("button",
      { type: "button", data: { kind }, "aria-pressed": String(kind === this.kind), onclick: () => this.choose(kind) }, label));
    const bar = element("div", { class: "toolbar" }, element("div", { class: "segmented", role: "group", "aria-label": "View" }, ...this.buttons));
    if (this.info.bins > 1) bar.append(this.picker());
    this.whole = element("button", { type: "button", class: "quiet", onclick: () => this.chart?.reset() }, "Show all");
    bar.append(element("span", { class: "grow" }), this.whole);
    return bar;
  }

  picker() {
    this.select = element("select", { multiple: true, size: 1, "aria-label": "Bins to compare" },
      ...this.info.labels.slice(0, 2000).map((label, bin) => {
        const option = element("option", { value: String(bin) }, label);
        option.selected = this.bins.includes(bin);
        return option;
      }));
    this.select.addEventListener("change", () => {
      this.bins = [...this.select.selectedOptions].map((option) => Number(option.value)).slice(0, MOST_MULTIPLES);
      if (!this.bins.length) this.bins = [0];
      this.choose("chart");
    });
    this.select.addEventListener("focus", () => { this.select.size = Math.min(8, this.info.bins); });
    this.select.addEventListener("blur", () => { this.select.size = 1; });
    return element("label", { class: "row small muted" }, "Bins", this.select);
  }

  choose(kind) {
    this.kind = kind;
    history.replaceState(null, "", `#${kind}`);
    for (const button of this.buttons) button.setAttribute("aria-pressed", String(button.dataset.kind === kind));
    this.draw();
  }

  clear() {
    for (const part of this.parts || []) part.destroy?.();
    this.parts = [];
    this.whole.hidden = this.kind !== "chart";
    this.legends.replaceChildren(...this.key());
    this.chart = null;
    this.stage.replaceChildren();
  }

  draw() {
    this.clear();
    if (!this.series.step.length) {
      this.stage.replaceChildren(element("p", { class: "notice" }, `Nothing is published yet; the first release comes at ${countdown(this.info).slice(5)}.`));
      return;
    }
    ({ chart: () => this.drawChart(), multiples: () => this.drawMultiples(), heat: () => this.drawHeat(),
      map: () => (this.info.grid ? this.drawMap() : this.drawChart()), table: () => this.drawTable() }[this.kind] || (() => this.drawChart()))();
  }

  drawChart() {
    const holder = element("div", { class: "chart", role: "group", "aria-label": this.summary() });
    const below = element("div", { class: "chart", "aria-hidden": "true" });
    this.stage.replaceChildren(holder, below, this.legend());
    this.chart = new LineChart(holder, this.series, this.bins);
    const brush = this.series.step.length > 30 ? new Brush(below, this.series, this.bins[0], this.chart) : null;
    this.parts = [this.chart, ...(brush ? [brush] : [])];
  }

  legend() {
    return element("div", { class: "key" }, ...this.bins.map((bin, index) => {
      const mark = element("i", {});
      mark.style.background = colour(index);
      return element("span", {}, mark, this.info.labels[bin]);
    }));
  }

  summary() {
    const s = this.series, last = s.step.length - 1;
    const latest = this.bins.map((bin) => `${this.info.labels[bin]} ${round(s.values[bin][last])} plus or minus ${round(s.half[bin][last])}`);
    return `Chart of ${s.step.length} steps. Latest: ${latest.join(", ")}. Arrow keys move, plus and minus zoom, 0 shows all.`;
  }

  drawMultiples() {
    const grid = element("div", { class: "multiples" });
    this.stage.replaceChildren(grid);
    const bins = this.info.bins <= MOST_MULTIPLES ? [...Array(this.info.bins).keys()] : this.largest(MOST_MULTIPLES);
    for (const bin of bins) {
      const holder = element("div", { class: "chart" });
      grid.append(element("figure", { class: "multiple" }, element("h3", {}, this.info.labels[bin]), holder));
      this.parts.push(new LineChart(holder, this.series, [bin], { height: 150, small: true }));
    }
    if (bins.length < this.info.bins) this.stage.append(element("p", { class: "muted small" }, `The ${bins.length} largest of ${this.info.bins} bins.`));
  }

  drawHeat() {
    const holder = element("div", { class: this.info.bins > 64 ? "chart scroll" : "chart" });
    this.stage.replaceChildren(holder);
    const map = new HeatMap(holder, this.series);
    map.update();
    this.parts = [map];
  }

  drawMap() {
    const holder = element("div", { class: "chart" });
    this.stage.replaceChildren(holder);
    const plan = new Plan(holder, this.series);
    plan.update();
    this.parts = [plan];
  }

  drawTable() {
    const s = this.series, rows = [], most = 400;
    for (let i = s.step.length - 1; i >= 0 && rows.length < most; i--) {
      for (const bin of this.bins) {
        const v = s.values[bin][i], half = s.half[bin][i];
        rows.push(element("tr", { class: s.fresh[i] ? "" : "repeated" }, element("td", {}, moment(s.time[i], this.info)),
          element("td", { class: "left" }, this.info.labels[bin]), element("td", {}, round(v)),
          element("td", {}, round(v - half)), element("td", {}, round(v + half)), element("td", {}, s.fresh[i] ? "fresh" : "repeated")));
      }
    }
    const head = element("tr", {}, ...["Step", "Bin", "Value", "Low", "High", "Kind"].map((text) => element("th", { scope: "col", class: text === "Bin" ? "left" : "" }, text)));
    const table = element("table", {}, element("caption", { class: "unseen" }, `Latest releases of ${this.info.title}`),
      element("thead", {}, head), element("tbody", {}, ...rows));
    this.stage.replaceChildren(element("div", { class: "scroll", tabIndex: 0, "aria-label": "Table of releases" }, table));
    this.parts = [{ update: () => this.drawTable() }];
  }

  key() {
    const entry = (kind, text) => element("span", {}, element("i", { class: kind }), text);
    if (this.kind === "heat" || this.kind === "map") return [entry("strong", "many"), entry("pale", "noise alone explains it"), entry("negative", "below zero, by noise")];
    if (this.kind === "table") return [];
    return [entry("band", "95% interval"), entry("fresh", "fresh release"), entry("repeated", "repeated: no new look at the data")];
  }

  protection() {
    const info = this.info;
    return element("section", { class: "card" }, element("details", { open: true },
      element("summary", {}, "What does this protect?"),
      element("p", { class: "small" }, info.promise),
      element("p", { class: "small muted" }, `Not hidden: that the stream exists, its bins, its steps, and what is true of many people at once. ` +
        `Rows that arrive ${/^0/.test(info.grace) ? "" : `more than ${info.grace} `}after the end of their step are left out.`)));
  }

  budgetCard() {
    return element("section", { class: "card" }, element("h2", {}, "Privacy budget"), this.budget);
  }

  async refreshBudget() {
    const budget = await api(`/v1/streams/${encodeURIComponent(this.info.name)}/budget`);
    const whole = fraction(budget.epsilon), spent = whole - fraction(budget.left), share = Math.min(1, spent / whole);
    const fill = element("div", {});
    fill.style.width = `${share * 100}%`;
    const next = budget.returns[0];
    const where = budget.per !== null ? `in the present block of ${budget.per}`
      : budget.window === "user" ? "for the whole stream" : `in the present window of ${budget.window} steps`;
    this.budget.replaceChildren(
      element("div", { class: "meter", role: "meter", "aria-valuemin": "0", "aria-valuemax": "100", "aria-valuenow": String(Math.round(share * 100)), "aria-label": "Budget spent" }, fill),
      element("p", { class: "small" }, `ε ${short(String(spent))} of ${short(budget.epsilon)} spent ${where}, ${short(budget.left)} left.`),
      element("p", { class: "small muted" }, next ? `ε ${short(next.epsilon)} comes back at ${moment(Date.parse(next.at) / 1000, this.info)}.` :
        budget.window === "user" ? "It does not come back: it lasts for everything that one person ever does." : "Nothing is spent in this window."));
  }

  downloads() {
    const base = `/v1/streams/${encodeURIComponent(this.info.name)}/releases?limit=20000&newest=true&format=`;
    const links = ["csv", "parquet", "arrow", "json"].map((form) => element("a", { href: base + form, download: "" }, form.toUpperCase()));
    return element("section", { class: "card" }, element("h2", {}, "Take it with you"), element("p", { class: "row" }, ...links),
      element("p", { class: "small muted" }, "Embed: ", element("code", {}, `<iframe src="${location.origin}/embed/${this.info.name}">`)));
  }

  refreshStatus() {
    const s = this.series, fresh = s.fresh.filter(Boolean).length, last = s.step.length - 1;
    this.status.textContent = last < 0 ? "" :
      `${s.step.length.toLocaleString("en")} steps: ${fresh.toLocaleString("en")} fresh, ${(s.step.length - fresh).toLocaleString("en")} repeated. Latest: ${moment(s.time[last], this.info)}.`;
    this.status.dataset.head = String(s.step[last] ?? "");
  }

  take(page) {
    const empty = !this.series.step.length;
    if (!this.series.append(page)) return;
    if (empty) this.draw();
    else for (const part of this.parts) part.update?.();
    this.refreshStatus();
    clearTimeout(this.later);
    this.later = setTimeout(() => this.refreshBudget().catch(() => {}), 300);
    const last = this.series.step.length - 1, total = this.series.values.reduce((sum, bin) => sum + bin[last], 0);
    announce(`New release of ${this.info.title}: ${round(total)} ${this.info.unit}.`);
  }

  redraw() { this.draw(); }
}

export async function streamView(main, name) {
  const base = `/v1/streams/${encodeURIComponent(name)}`;
  const [info, releases] = await Promise.all([api(base), api(`${base}/${ALL}`)]);
  const series = new Series(info);
  series.append(releases);
  const page = new StreamPage(main, info, series);
  const after = () => `${base}/live?after=${series.step[series.step.length - 1] ?? info.first - 1}`;
  const stop = follow(after, "release", (one) => page.take(one));
  return { close: () => { stop(); page.clear(); }, redraw: () => page.redraw() };
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
