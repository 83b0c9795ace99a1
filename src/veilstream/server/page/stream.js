// One stream: charts, heat map, map, table; what it protects, and its budget.
import { api, announce, ask, element, follow } from "./app.js";
import { Brush, LineChart } from "./charts.js";
import { HeatMap } from "./heat.js";
import { Plan } from "./plan.js";
import { MOST_FANS, Series, colour, moment, round } from "./series.js";
import { countdown, fraction, plural, short, windowWords } from "./words.js";

const MOST_MULTIPLES = 12;
// The server announces this request with the page, so that its answer is here before the scripts are.
const FIRST = "releases?newest=true&limit=10000&numbers=240000&format=columns";

/** What a band is called: of what, where all releases agree. */
const held = (band, covers) => (covers.length === 1 ? `${band} of the ${covers[0]}` : band);

class StreamPage {
  constructor(main, info, series) {
    Object.assign(this, { main, info, series });
    const most = series.facet.band ? 4 : MOST_FANS;
    this.bins = info.bins <= most ? [...Array(info.bins).keys()] : this.largest(most);
    this.kind = info.bins === 1 ? "chart" : info.grid ? "map" : info.bins <= MOST_MULTIPLES ? "multiples" : "heat";
    if (location.hash) this.kind = location.hash.slice(1);
    this.stage = element("div", {});
    this.status = element("p", { class: "muted small" });
    this.budget = element("div", {});
    this.legends = element("div", { class: "key" });
    this.build();
  }

  largest(count) {
    const s = this.series, known = (bin) => s.values[s.at(bin)].slice(-50).filter((v) => v != null);
    const size = (bin) => (s.facet.adds ? known(bin).reduce((sum, v) => sum + v, 0) : known(bin).length);
    return [...Array(this.info.bins).keys()].sort((a, b) => size(b) - size(a)).slice(0, count).sort((a, b) => a - b);
  }

  build() {
    const info = this.info;
    document.title = `${info.title} · veilstream`;
    const chips = element("div", { class: "chips" },
      ...[`ε ${info.epsilon} ${windowWords(info)}`, `every ${plural(info.every)}`, `${info.bins} ${info.bins === 1 ? "series" : "bins"}`,
        info.measures ? this.series.facets.map((facet) => facet.title).join(", ") : info.counted, `mechanism: ${info.mechanism}`].map((text) => element("span", { class: "chip" }, text)));
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
    if (this.series.facets.length > 1) bar.append(this.measurePicker());
    if (this.info.bins > 1) bar.append(this.picker());
    this.whole = element("button", { type: "button", class: "quiet", onclick: () => this.chart?.reset() }, "Show all");
    bar.append(element("span", { class: "grow" }), this.whole);
    return bar;
  }

  measurePicker() {
    const select = element("select", { id: "measure", "aria-label": "Measure" },
      ...this.series.facets.map((facet, index) => element("option", { value: String(index) }, facet.title)));
    select.addEventListener("change", () => {
      this.series.show(this.series.facets[Number(select.value)]);
      this.draw();
    });
    return element("label", { class: "row small muted" }, "Measure", select);
  }

  picker() {
    const title = element("summary", {}), list = element("div", { class: "picks" });
    const tell = () => { title.textContent = `Bins: ${this.bins.length} of ${this.info.bins}`; };
    const pick = (box, bin) => {
      const kept = this.bins.filter((one) => one !== bin);
      this.bins = (box.checked ? [...kept, bin] : kept).sort((a, b) => a - b);
      if (!this.bins.length) this.bins = [bin];
      if (this.bins.length > MOST_MULTIPLES) this.bins = kept;
      box.checked = this.bins.includes(bin);
      tell();
      this.choose(this.kind === "table" ? "table" : "chart");
    };
    const rows = this.info.labels.slice(0, 2000).map((label, bin) => {
      const box = element("input", { type: "checkbox", value: String(bin), checked: this.bins.includes(bin) });
      box.addEventListener("change", () => pick(box, bin));
      return element("label", {}, box, label);
    });
    list.append(...rows);
    if (rows.length > MOST_MULTIPLES) list.prepend(this.search(rows));
    tell();
    return element("details", { class: "picker" }, title, list);
  }

  search(rows) {
    const field = element("input", { type: "search", placeholder: "Find a bin", "aria-label": "Find a bin" });
    field.addEventListener("input", () => {
      const wanted = field.value.trim().toLowerCase();
      for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    });
    return field;
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
    this.whole.hidden = true;
    this.legends.replaceChildren(...this.key());
    this.chart = null;
    this.series.forget();
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
    this.stage.replaceChildren(holder, below, ...(this.info.bins > 1 ? [this.legend()] : []));
    this.chart = new LineChart(holder, this.series, this.bins);
    this.chart.onzoom = (zoomed) => { this.whole.hidden = !zoomed; };
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
    const latest = this.bins.map((bin) => `${this.info.labels[bin]} ${s.words(bin, last).replace("±", "plus or minus")}`);
    return `Chart of ${s.facet.title}, ${s.step.length} steps. Latest: ${latest.join(", ")}. Arrow keys move, plus and minus zoom, 0 shows all.`;
  }

  drawMultiples() {
    const grid = element("div", { class: "multiples" });
    this.stage.replaceChildren(grid);
    const bins = this.info.bins <= MOST_MULTIPLES ? [...Array(this.info.bins).keys()] : this.largest(MOST_MULTIPLES);
    for (const bin of bins) {
      const holder = element("div", { class: "chart" });
      const latest = element("span", { class: "latest muted" });
      grid.append(element("figure", { class: "multiple" }, element("h3", {}, element("span", {}, this.info.labels[bin]), latest), holder));
      const tell = () => { latest.textContent = this.series.words(bin, this.series.step.length - 1); };
      tell();
      this.parts.push(new LineChart(holder, this.series, [bin], { height: 150, small: true }), { update: tell });
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
    const s = this.series, rows = [], most = 400, measured = this.info.measures;
    const row = (i, bin, measure) => {
      const n = s.at(bin, measure);
      rows.push(element("tr", { class: s.fresh[i] ? "" : "repeated" }, element("td", {}, moment(s.time[i], this.info)),
        element("td", { class: "left" }, this.info.labels[bin]), measured ? element("td", { class: "left" }, measured[measure].label) : null,
        element("td", {}, round(s.values[n][i])), element("td", {}, round(s.low[n][i])), element("td", {}, round(s.high[n][i])),
        element("td", {}, s.fresh[i] ? "fresh" : "repeated")));
    };
    for (let i = s.step.length - 1; i >= 0 && rows.length < most; i--) {
      for (const bin of this.bins) for (const measure of s.facet.members) row(i, bin, measure);
    }
    const names = ["Step", "Bin", ...(measured ? ["Measure"] : []), "Value", "Low", "High", "Kind"];
    const head = element("tr", {}, ...names.map((text) => element("th", { scope: "col", class: text === "Bin" || text === "Measure" ? "left" : "" }, text)));
    const table = element("table", {}, element("caption", { class: "unseen" }, `Latest releases of ${this.info.title}`),
      element("thead", {}, head), element("tbody", {}, ...rows));
    this.stage.replaceChildren(element("div", { class: "scroll", tabIndex: 0, "aria-label": "Table of releases" }, table));
    this.parts = [{ update: () => this.drawTable() }];
  }

  key() {
    const entry = (kind, text) => element("span", {}, element("i", { class: kind }), text);
    const facet = this.series.facet;
    if (this.kind === "table" || !this.series.step.length) return [];
    if (this.kind === "heat" || this.kind === "map") return this.series.shades().map(([kind, text]) => entry(kind, text));
    const fans = this.kind === "multiples" || this.bins.length <= MOST_FANS;
    const bands = facet.band ? [entry("band", held(facet.band, this.series.covers))] : [entry("line", facet.line), ...(fans ? facet.bands.map((text) => entry("band", text)) : [element("span", {}, `${facet.bands[0]}: choose one or two bins`)])];
    return [...bands, entry("fresh", "fresh release"), entry("repeated", "repeated: no new look at the data")];
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
    this.legends.replaceChildren(...this.key());
    announce(`New release of ${this.info.title}${this.latest()}.`);
  }

  latest() {
    const s = this.series, last = s.step.length - 1;
    if (this.info.bins === 1) return `: ${s.words(0, last)}`;
    return this.info.measures ? "" : `: ${round(s.values.reduce((sum, bin) => sum + bin[last], 0))} ${this.info.unit}`;
  }

  redraw() { this.draw(); }
}

export async function streamView(main, name) {
  const base = `/v1/streams/${encodeURIComponent(name)}`;
  const [info, releases] = await Promise.all([api(base), ask(`${base}/${FIRST}`).then((answer) => answer.arrayBuffer())]);
  const series = new Series(info);
  series.fill(releases);
  const page = new StreamPage(main, info, series);
  const after = () => `${base}/live?after=${series.step[series.step.length - 1] ?? info.first - 1}`;
  const stop = follow(after, "release", (one) => page.take(one));
  return { close: () => { stop(); page.clear(); }, redraw: () => page.redraw() };
}
