// Charts: lines with bands (uPlot) and sparklines (SVG). Colours come from the page's own variables.
import { colour, moment, round, translucent, variable } from "./series.js";

const PADDING_LEFT = 4;

// As much room beside the chart as the longest number takes.
const room = (_u, values) => Math.ceil(18 + 6.6 * Math.max(3, ...(values || []).map((text) => text.length)));

// What is fresh has a line and dots; what is repeated is faint and dashed.
function options(series, bins, size, small) {
  const lines = [{ value: (_u, t) => (t == null ? "–" : moment(t, series.info)) }];
  const bands = [];
  bins.forEach((bin, index) => {
    const shade = small ? colour(0) : colour(index), count = series.bandsOf(bins), place = 1 + (2 + 2 * count) * index;
    lines.push({
      label: series.info.labels[bin],
      stroke: shade,
      width: 1.5,
      points: {
        show: true, size: small ? 3 : 5, fill: shade, stroke: shade,
        filter: (u, _s, show, gaps) => dots(u, series, gaps, show),
      },
    });
    lines.push({ stroke: translucent(shade, 0.5), width: 1.5, dash: [4, 4], points: { show: false }, label: "repeated" });
    for (let band = 0; band < count; band++) {
      lines.push({ width: 0, points: { show: false }, label: "high" }, { width: 0, points: { show: false }, label: "low" });
      bands.push({ series: [place + 2 + 2 * band, place + 3 + 2 * band], fill: translucent(shade, small ? 0.22 : 0.16) });
    }
  });
  const axis = { stroke: variable("--soft"), grid: { stroke: variable("--line"), width: 1 }, ticks: { stroke: variable("--line") } };
  const title = small ? {} : { label: series.facet.axis, labelSize: 20, labelFont: "12px system-ui", labelGap: 2 };
  return {
    ...size,
    series: lines,
    bands,
    tzDate: (t) => uPlot.tzDate(new Date(t * 1000), series.info.zone === "UTC" ? "Etc/UTC" : series.info.zone),
    legend: { show: false },
    cursor: { drag: { x: true, y: false, setScale: true }, focus: { prox: 24 }, points: { size: 7 } },
    padding: [10, 12, 0, PADDING_LEFT],
    axes: [
      { ...axis, size: small ? 30 : 46, space: small ? 60 : 80, font: "11px system-ui" },
      { ...axis, size: room, font: "11px system-ui", values: (_u, ticks) => ticks.map((v) => v.toLocaleString("en")), ...title },
    ],
  };
}

// Dots for fresh releases, as long as they do not hide the line.
function dots(u, series, _gaps, _show) {
  const [from, to] = u.series[0].idxs ?? [0, series.time.length - 1];
  if (to - from > u.width / 5) return [];
  const found = [];
  for (let i = from; i <= to; i++) if (series.fresh[i]) found.push(i);
  return found;
}

function between(series, bin, i, low, high) {
  const [a, b] = [low, high].map((measure) => series.values[series.at(bin, measure)][i]);
  const line = document.createElement("div");
  line.className = "muted";
  line.textContent = a == null ? "" : `${series.info.measures[low].label.split(" ")[1]} to ${series.info.measures[high].label.split(" ")[1]}: ${round(a)} to ${round(b)}`;
  return line;
}

export class LineChart {
  constructor(holder, series, bins, { height = 360, small = false } = {}) {
    Object.assign(this, { holder, series, bins, height, small });
    this.tip = document.createElement("div");
    this.tip.className = "tip";
    this.tip.hidden = true;
    holder.append(this.tip);
    this.draw();
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(holder);
    if (!small) this.listen();
  }

  draw() {
    const kept = this.plot && this.zoomed ? { ...this.plot.scales.x } : null;
    this.plot?.destroy();
    const size = { width: Math.max(200, this.holder.clientWidth), height: this.height };
    const chosen = options(this.series, this.bins, size, this.small);
    chosen.hooks = {
      setCursor: [(u) => this.point(u)],
      setSelect: [(u) => { if (u.select.width > 4) this.mark(true); }],
    };
    this.plot = new uPlot(chosen, this.series.columns(this.bins), this.holder);
    if (kept) this.zoom(kept.min, kept.max);
  }

  update() {
    const kept = this.zoomed ? { min: this.plot.scales.x.min, max: this.plot.scales.x.max } : null;
    this.plot.setData(this.series.columns(this.bins), !kept);
    if (kept) this.zoom(kept.min, kept.max);
  }

  /** From the left end of the chart to where its lines begin, for what is drawn below it. */
  margin() { return this.plot.bbox.left / devicePixelRatio - PADDING_LEFT; }

  resize() {
    const width = this.holder.clientWidth;
    if (width && width !== this.plot.width) this.plot.setSize({ width, height: this.height });
  }

  mark(zoomed) {
    this.zoomed = zoomed;
    this.onzoom?.(zoomed);
  }

  zoom(min, max) {
    this.mark(true);
    this.plot.setScale("x", { min, max });
  }

  reset() {
    this.mark(false);
    const time = this.series.time;
    this.plot.setScale("x", { min: time[0], max: time[time.length - 1] });
  }

  point(u) {
    const i = u.cursor.idx;
    this.tip.hidden = i == null || u.cursor.left < 0;
    if (this.tip.hidden) return;
    const s = this.series;
    this.tip.replaceChildren();
    const head = document.createElement("strong");
    head.textContent = moment(s.time[i], s.info) + (s.fresh[i] ? "" : " · repeated");
    this.tip.append(head);
    this.bins.slice(0, 12).forEach((bin, index) => {
      const line = document.createElement("div");
      const mark = document.createElement("span");
      mark.textContent = "● ";
      mark.style.color = this.small ? colour(0) : colour(index);
      line.append(mark, `${s.info.labels[bin]}: ${s.words(bin, i)}`);
      this.tip.append(line);
      for (const [low, high] of s.facet.band ? [] : s.facet.pairs) this.tip.append(between(s, bin, i, low, high));
    });
    const left = u.cursor.left + u.over.offsetLeft, room = this.holder.clientWidth;
    this.tip.style.left = `${left + 14 + 220 > room ? Math.max(0, left - 14 - this.tip.offsetWidth) : left + 14}px`;
    this.tip.style.top = `${u.over.offsetTop + 8}px`;
  }

  // Arrow keys move the cursor, + and - zoom, 0 shows everything.
  listen() {
    this.holder.tabIndex = 0;
    this.holder.addEventListener("keydown", (event) => {
      const u = this.plot, time = this.series.time, { min, max } = u.scales.x, span = max - min;
      const at = u.cursor.idx ?? time.length - 1;
      const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (move) {
        const i = Math.max(0, Math.min(time.length - 1, at + move));
        if (time[i] < min || time[i] > max) this.zoom(min + move * span / 2, max + move * span / 2);
        u.setCursor({ left: u.valToPos(time[i], "x"), top: u.over.clientHeight / 2 });
      } else if (event.key === "+" || event.key === "=") {
        const middle = Math.min(max, Math.max(min, time[at]));
        this.zoom(middle - span / 4, middle + span / 4);
      } else if (event.key === "-") {
        this.zoom(Math.max(time[0], min - span / 2), Math.min(time[time.length - 1], max + span / 2));
      } else if (event.key === "0") {
        this.reset();
      } else return;
      event.preventDefault();
    });
    this.holder.addEventListener("dblclick", () => this.reset());
  }

  destroy() {
    this.observer.disconnect();
    this.plot.destroy();
  }
}

// All steps at a glance below the chart: drag over it to choose what the chart shows.
export class Brush {
  constructor(holder, series, bin, chart) {
    Object.assign(this, { holder, series, bin, chart });
    const soft = variable("--soft");
    this.plot = new uPlot({
      width: Math.max(200, holder.clientWidth), height: 56,
      series: [{}, { stroke: soft, width: 1, points: { show: false } }],
      axes: [{ show: false }, { show: true, size: () => this.chart.margin(), stroke: "transparent", grid: { show: false }, ticks: { show: false } }],
      legend: { show: false }, padding: [2, 12, 2, PADDING_LEFT],
      cursor: { drag: { x: true, y: false, setScale: false }, points: { show: false } },
      hooks: { setSelect: [(u) => this.choose(u)] },
    }, [series.time, series.values[series.at(bin)]], holder);
    this.observer = new ResizeObserver(() => {
      if (holder.clientWidth) this.plot.setSize({ width: holder.clientWidth, height: 56 });
    });
    this.observer.observe(holder);
  }

  choose(u) {
    const { left, width } = u.select;
    if (width < 4) this.chart.reset();
    else this.chart.zoom(u.posToVal(left, "x"), u.posToVal(left + width, "x"));
  }

  update() {
    this.plot.setData([this.series.time, this.series.values[this.series.at(this.bin)]]);
  }

  destroy() {
    this.observer.disconnect();
    this.plot.destroy();
  }
}

export function sparkline(spark, adds) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("class", "spark");
  svg.setAttribute("viewBox", "0 0 300 64");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const all = spark.total, total = all.filter((v) => v != null);
  if (total.length > 1) {
    const low = adds ? Math.min(0, ...total) : Math.min(...total), high = Math.max(adds ? 1 : low + 1e-9, ...total);
    const at = all.map((v, i) => (v == null ? null : [i / (all.length - 1) * 300, 60 - (v - low) / (high - low) * 56]));
    const place = at.filter(Boolean);
    const path = place.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
    const area = document.createElementNS(space, "path");
    area.setAttribute("d", `${path}L${place.at(-1)[0]} 64L${place[0][0]} 64Z`);
    area.setAttribute("fill", translucent(colour(0), 0.12));
    const line = document.createElementNS(space, "path");
    line.setAttribute("d", path);
    line.setAttribute("fill", "none");
    line.setAttribute("stroke", colour(0));
    line.setAttribute("stroke-width", "1.6");
    line.setAttribute("vector-effect", "non-scaling-stroke");
    svg.append(area, line);
  }
  return svg;
}
