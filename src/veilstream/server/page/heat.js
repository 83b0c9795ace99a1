// A heat map: bins by time, on a canvas.
import { moment, variable } from "./series.js";

const FONT = "11px system-ui";

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
    const names = cell >= 11 ? Math.min(170, width * 0.3, this.longest()) : 0;
    return { width, rows, cell, names, height: rows * cell + 22 };
  }

  longest() {
    const context = this.canvas.getContext("2d");
    context.font = FONT;
    return 10 + Math.max(...this.series.info.labels.slice(0, this.rows).map((label) => context.measureText(label).width));
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
    const wide = (width - names) / Math.max(1, steps);
    for (let bin = 0; bin < rows; bin++) {
      for (let i = 0; i < steps; i++) {
        context.fillStyle = s.shade(bin, i);
        context.fillRect(names + i * wide, bin * cell, wide + 0.4, cell - (cell > 6 ? 1 : 0));
      }
    }
    context.fillStyle = variable("--soft");
    context.font = FONT;
    if (names) for (let bin = 0; bin < rows; bin++) context.fillText(shorten(s.info.labels[bin], names / 6.2), 0, bin * cell + cell - 4);
    if (steps) {
      context.fillText(moment(s.time[0], s.info), names, height - 6);
      const last = moment(s.time[steps - 1], s.info);
      context.fillText(last, width - context.measureText(last).width, height - 6);
    }
    this.canvas.setAttribute("aria-label", `Heat map of ${rows} bins over ${steps} steps; the table holds the numbers.`);
  }

  point(event) {
    const { width, rows, cell, names } = this.layout(), s = this.series;
    const i = Math.floor((event.offsetX - names) / (width - names) * s.step.length), bin = Math.floor(event.offsetY / cell);
    this.tip.hidden = i < 0 || i >= s.step.length || bin >= rows || bin < 0;
    if (this.tip.hidden) return;
    const noise = s.facet.adds && s.vague(bin, i) ? " (within noise of zero)" : "";
    this.tip.textContent = `${s.info.labels[bin]} · ${moment(s.time[i], s.info)}: ${s.words(bin, i)}${noise}`;
    this.tip.style.left = `${Math.min(event.offsetX + 14, width - 230)}px`;
    this.tip.style.top = `${event.offsetY + 14}px`;
  }

  destroy() { this.observer.disconnect(); }
}

const shorten = (text, room) => (text.length > room ? `${text.slice(0, Math.max(1, room - 1))}…` : text);
