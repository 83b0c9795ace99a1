// Charts: lines with bands (uPlot), sparklines (SVG), a heat map (canvas). Colours come from the page's own variables.

export const PALETTE = ["#2f5fd0", "#d9622b", "#1c8a5a", "#9245c9", "#b8860b", "#0e8fa3", "#c22f6b", "#5f7d1f", "#6b5bd6",
  "#a2542b", "#3b7ea1", "#8a5a83"];
const DARK = ["#7ea6ff", "#ff9a66", "#58cf98", "#c58cf5", "#e6c04d", "#4fd0e3", "#ff7fb0", "#a8c95a", "#a99bff", "#e09a6f",
  "#7fc0e0", "#d09cc9"];

export const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const dark = () => document.documentElement.dataset.theme === "dark";
export const colour = (index) => (dark() ? DARK : PALETTE)[index % PALETTE.length];

export function round(value) {
  const size = Math.abs(value);
  const digits = size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : 2;
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}

// Releases by column: seconds, fresh or repeated, and of each bin its values and half widths.
export class Series {
  constructor(info) {
    this.info = info;
    this.step = [];
    this.time = [];
    this.label = [];
    this.fresh = [];
    this.values = Array.from({ length: info.bins }, () => []);
    this.half = Array.from({ length: info.bins }, () => []);
    this.spent = [];
    this.left = [];
  }

  append(page) {
    let added = 0;
    for (let i = 0; i < page.step.length; i++) {
      if (this.step.length && page.step[i] <= this.step[this.step.length - 1]) continue;
      const half = page.half[i];
      this.step.push(page.step[i]);
      this.label.push(page.time[i]);
      this.time.push(Date.parse(page.time[i]) / 1000);
      this.fresh.push(page.fresh[i]);
      this.spent.push(page.spent[i]);
      this.left.push(page.left[i]);
      const row = page.values[i];
      for (let bin = 0; bin < row.length; bin++) {
        this.values[bin].push(row[bin]);
        this.half[bin].push(typeof half === "number" ? half : half[bin]);
      }
      added++;
    }
    return added;
  }

  columns(bins) {
    const data = [this.time], fresh = this.fresh;
    for (const bin of bins) {
      const values = this.values[bin], half = this.half[bin];
      data.push(values.map((v, i) => (fresh[i] ? v : null)));
      data.push(values.map((v, i) => (!fresh[i] || fresh[i + 1] === false || fresh[i - 1] === false ? v : null)));
      data.push(values.map((v, i) => v + half[i]), values.map((v, i) => v - half[i]));
    }
    return data;
  }
}

export function translucent(hex, alpha) {
  const n = parseInt(hex.slice(1), 16);
  return `rgba(${n >> 16},${(n >> 8) & 255},${n & 255},${alpha})`;
}

// What is fresh has a line and dots; what is repeated is faint and dashed.
function options(series, bins, size, small) {
  const lines = [{ value: (_u, t) => (t == null ? "–" : moment(t, series.info)) }];
  const bands = [];
  bins.forEach((bin, index) => {
    const shade = small ? colour(0) : colour(index), place = 1 + 4 * index;
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
    lines.push({ show: true, width: 0, points: { show: false }, label: "high" });
    lines.push({ show: true, width: 0, points: { show: false }, label: "low" });
    bands.push({ series: [place + 2, place + 3], fill: translucent(shade, small ? 0.22 : 0.16) });
  });
  const axis = { stroke: variable("--soft"), grid: { stroke: variable("--line"), width: 1 }, ticks: { stroke: variable("--line") } };
  return {
    ...size,
    series: lines,
    bands,
    tzDate: (t) => uPlot.tzDate(new Date(t * 1000), series.info.zone === "UTC" ? "Etc/UTC" : series.info.zone),
    legend: { show: false },
    cursor: { drag: { x: true, y: false, setScale: true }, focus: { prox: 24 }, points: { size: 7 } },
    padding: [10, 12, 0, 4],
    axes: [
      { ...axis, size: small ? 30 : 46, space: small ? 60 : 80, font: "11px system-ui" },
      { ...axis, size: 58, font: "11px system-ui", values: (_u, ticks) => ticks.map((v) => v.toLocaleString("en")) },
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

export function moment(seconds, info) {
  const long = /\d(d|w|mo|q|y)$/.test(info.every);
  const shape = long ? { dateStyle: "medium" } : { dateStyle: "medium", timeStyle: /\ds$/.test(info.every) ? "medium" : "short" };
  return new Date(seconds * 1000).toLocaleString("en-GB", { ...shape, timeZone: info.zone });
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
      setSelect: [(u) => { if (u.select.width > 4) this.zoomed = true; }],
    };
    this.plot = new uPlot(chosen, this.series.columns(this.bins), this.holder);
    if (kept) this.zoom(kept.min, kept.max);
  }

  update() {
    const kept = this.zoomed ? { min: this.plot.scales.x.min, max: this.plot.scales.x.max } : null;
    this.plot.setData(this.series.columns(this.bins), !kept);
    if (kept) this.zoom(kept.min, kept.max);
  }

  resize() {
    const width = this.holder.clientWidth;
    if (width && width !== this.plot.width) this.plot.setSize({ width, height: this.height });
  }

  zoom(min, max) {
    this.zoomed = true;
    this.plot.setScale("x", { min, max });
  }

  reset() {
    this.zoomed = false;
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
      line.append(mark, `${s.info.labels[bin]}: ${round(s.values[bin][i])} ± ${round(s.half[bin][i])}`);
      this.tip.append(line);
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
      axes: [{ show: false }, { show: true, size: 58, stroke: "transparent", grid: { show: false }, ticks: { show: false } }],
      legend: { show: false }, padding: [2, 12, 2, 4],
      cursor: { drag: { x: true, y: false, setScale: false }, points: { show: false } },
      hooks: { setSelect: [(u) => this.choose(u)] },
    }, [series.time, series.values[bin]], holder);
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
    this.plot.setData([this.series.time, this.series.values[this.bin]]);
  }

  destroy() {
    this.observer.disconnect();
    this.plot.destroy();
  }
}

export function sparkline(spark) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("class", "spark");
  svg.setAttribute("viewBox", "0 0 300 64");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const total = spark.total;
  if (total.length > 1) {
    const low = Math.min(0, ...total), high = Math.max(1, ...total);
    const place = total.map((v, i) => [i / (total.length - 1) * 300, 60 - (v - low) / (high - low) * 56]);
    const path = place.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
    const area = document.createElementNS(space, "path");
    area.setAttribute("d", `${path}L300 64L0 64Z`);
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

// Bins by time. Cells that noise alone explains are pale; negative values have a colour of their own.
export class HeatMap {
  constructor(holder, series) {
    Object.assign(this, { holder, series });
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("role", "img");
    this.tip = document.createElement("div");
    this.tip.className = "tip";
    this.tip.hidden = true;
    holder.append(this.canvas, this.tip);
    this.observer = new ResizeObserver(() => this.update());
    this.observer.observe(holder);
    this.canvas.addEventListener("mousemove", (event) => this.point(event));
    this.canvas.addEventListener("mouseleave", () => { this.tip.hidden = true; });
  }

  get rows() { return Math.min(this.series.info.bins, 2000); }

  layout() {
    const width = Math.max(240, this.holder.clientWidth), rows = this.rows;
    const cell = Math.max(2, Math.min(18, Math.floor(640 / rows)));
    const names = cell >= 11 ? Math.min(170, width * 0.3) : 0;
    return { width, rows, cell, names, height: rows * cell + 22 };
  }

  update() {
    const { width, rows, cell, names, height } = this.layout(), s = this.series, steps = s.step.length;
    const scale = window.devicePixelRatio || 1, context = this.canvas.getContext("2d");
    this.canvas.width = width * scale;
    this.canvas.height = height * scale;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    context.scale(scale, scale);
    context.clearRect(0, 0, width, height);
    const most = this.most(), wide = (width - names) / Math.max(1, steps);
    const positive = colour(0), negative = colour(1);
    for (let bin = 0; bin < rows; bin++) {
      for (let i = 0; i < steps; i++) {
        const v = s.values[bin][i], strength = Math.sqrt(Math.min(1, Math.abs(v) / most));
        const noise = Math.abs(v) <= s.half[bin][i];
        context.fillStyle = translucent(v < 0 ? negative : positive, strength * (noise ? 0.25 : 1));
        context.fillRect(names + i * wide, bin * cell, wide + 0.4, cell - (cell > 6 ? 1 : 0));
      }
    }
    context.fillStyle = variable("--soft");
    context.font = "11px system-ui";
    if (names) for (let bin = 0; bin < rows; bin++) context.fillText(shorten(s.info.labels[bin], names / 6.2), 0, bin * cell + cell - 4);
    if (steps) {
      context.fillText(moment(s.time[0], s.info), names, height - 6);
      const last = moment(s.time[steps - 1], s.info);
      context.fillText(last, width - context.measureText(last).width, height - 6);
    }
    this.canvas.setAttribute("aria-label", `Heat map of ${rows} bins over ${steps} steps; the table holds the numbers.`);
  }

  most() {
    let most = 1;
    for (let bin = 0; bin < this.rows; bin++) for (const v of this.series.values[bin]) if (v > most) most = v;
    return most;
  }

  point(event) {
    const { width, rows, cell, names } = this.layout(), s = this.series;
    const i = Math.floor((event.offsetX - names) / (width - names) * s.step.length), bin = Math.floor(event.offsetY / cell);
    this.tip.hidden = i < 0 || i >= s.step.length || bin >= rows || bin < 0;
    if (this.tip.hidden) return;
    const noise = Math.abs(s.values[bin][i]) <= s.half[bin][i] ? " (within noise of zero)" : "";
    this.tip.textContent = `${s.info.labels[bin]} · ${moment(s.time[i], s.info)}: ${round(s.values[bin][i])} ± ${round(s.half[bin][i])}${noise}`;
    this.tip.style.left = `${Math.min(event.offsetX + 14, width - 230)}px`;
    this.tip.style.top = `${event.offsetY + 14}px`;
  }

  destroy() { this.observer.disconnect(); }
}

const shorten = (text, room) => (text.length > room ? `${text.slice(0, Math.max(1, room - 1))}…` : text);
