// A plan: cells of two numeric attributes, or cells that bins name, at one moment, each in its true place and size, with a
// slider over time.
import { moment, variable } from "./series.js";

const MARGIN = { left: 58, right: 12, top: 10, bottom: 34 };

/** The boxes of all bins of two axes, in the order of the bins. */
function crossed({ x, y, x_first: xFirst }) {
  const boxes = [], columns = x.edges.length - 1, rows = y.edges.length - 1;
  for (let bin = 0; bin < columns * rows; bin++) {
    const i = xFirst ? Math.floor(bin / rows) : bin % columns, j = xFirst ? bin % rows : Math.floor(bin / columns);
    boxes.push([x.edges[i], y.edges[j], x.edges[i + 1], y.edges[j + 1]]);
  }
  return boxes;
}

export class Plan {
  constructor(holder, series) {
    Object.assign(this, { holder, series, at: series.step.length - 1, follows: true });
    this.grid = series.info.grid;
    this.boxes = this.grid.cells || crossed(this.grid);
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("role", "img");
    this.tip = document.createElement("div");
    this.tip.className = "tip";
    this.tip.hidden = true;
    this.when = document.createElement("output");
    this.slider = document.createElement("input");
    Object.assign(this.slider, { type: "range", min: "0" });
    this.slider.setAttribute("aria-label", "Step");
    this.slider.addEventListener("input", () => {
      this.at = Number(this.slider.value);
      this.follows = this.at === this.series.step.length - 1;
      this.update();
    });
    const row = document.createElement("div");
    row.className = "row plan-time";
    row.append(this.slider, this.when);
    holder.append(this.canvas, this.tip, row);
    this.observer = new ResizeObserver(() => this.update());
    this.observer.observe(holder);
    this.canvas.addEventListener("mousemove", (event) => this.point(event));
    this.canvas.addEventListener("mouseleave", () => { this.tip.hidden = true; });
  }

  layout() {
    const { x, y } = this.grid, first = (axis) => axis.edges[0], last = (axis) => axis.edges[axis.edges.length - 1];
    const width = Math.max(240, this.holder.clientWidth), room = width - MARGIN.left - MARGIN.right;
    // Degrees of longitude are shorter away from the equator.
    const narrow = this.grid.degrees ? Math.cos((first(y) + last(y)) / 2 * Math.PI / 180) : 1;
    const shape = (last(y) - first(y)) / ((last(x) - first(x)) * narrow);
    const tall = this.grid.degrees ? Math.min(560, room * shape) : Math.min(480, room * 0.7);
    const wide = this.grid.degrees ? Math.min(room, tall / shape) : room;
    return {
      width, height: tall + MARGIN.top + MARGIN.bottom, wide, tall,
      left: (v) => MARGIN.left + (v - first(x)) / (last(x) - first(x)) * wide,
      top: (v) => MARGIN.top + (last(y) - v) / (last(y) - first(y)) * tall,
    };
  }

  update() {
    const s = this.series, steps = s.step.length, { x, y } = this.grid;
    if (this.follows) this.at = steps - 1;
    Object.assign(this.slider, { max: String(steps - 1), value: String(this.at) });
    this.when.textContent = moment(s.time[this.at], s.info);
    const place = this.layout(), scale = window.devicePixelRatio || 1, context = this.canvas.getContext("2d");
    Object.assign(this.canvas, { width: place.width * scale, height: place.height * scale });
    Object.assign(this.canvas.style, { width: `${place.width}px`, height: `${place.height}px` });
    context.scale(scale, scale);
    context.clearRect(0, 0, place.width, place.height);
    context.strokeStyle = context.fillStyle = variable("--line");
    // Places that no cell covers are not counted at all, which is not the same as a count of zero.
    if (this.grid.cells) context.fillRect(MARGIN.left, MARGIN.top, place.wide, place.tall);
    this.boxes.forEach(([west, south, east, north], bin) => {
      const left = place.left(west), top = place.top(north), wide = place.left(east) - left, tall = place.top(south) - top;
      context.clearRect(left, top, wide, tall);
      context.fillStyle = s.shade(bin, this.at);
      context.fillRect(left, top, wide, tall);
      if (this.grid.cells && wide > 6 && tall > 6) context.strokeRect(left, top, wide, tall);
    });
    this.frame(context, place);
    this.canvas.setAttribute("aria-label", `Map of ${s.info.bins} cells of ${x.name} and ${y.name} at ${this.when.textContent}; the table holds the numbers.`);
  }

  frame(context, place) {
    const { x, y } = this.grid, write = (value) => String(Number(value.toPrecision(6)));
    context.strokeStyle = context.fillStyle = variable("--soft");
    context.font = "11px system-ui";
    context.strokeRect(MARGIN.left, MARGIN.top, place.wide, place.tall);
    const [west, east] = [x.edges[0], x.edges[x.edges.length - 1]], [south, north] = [y.edges[0], y.edges[y.edges.length - 1]];
    context.fillText(write(west), MARGIN.left, place.height - 18);
    context.fillText(write(east), MARGIN.left + place.wide - context.measureText(write(east)).width, place.height - 18);
    context.fillText(x.name, MARGIN.left + place.wide / 2 - context.measureText(x.name).width / 2, place.height - 4);
    context.fillText(write(north), 2, MARGIN.top + 10);
    context.fillText(write(south), 2, MARGIN.top + place.tall);
    context.fillText(y.name.slice(0, 9), 2, MARGIN.top + place.tall / 2);
  }

  point(event) {
    const place = this.layout(), s = this.series, { offsetX: x, offsetY: y } = event;
    const bin = this.boxes.findIndex(([west, south, east, north]) =>
      x >= place.left(west) && x < place.left(east) && y >= place.top(north) && y < place.top(south));
    this.tip.hidden = bin < 0;
    if (this.tip.hidden) return;
    const noise = s.facet.adds && s.vague(bin, this.at) ? " (within noise of zero)" : "";
    this.tip.textContent = `${s.info.labels[bin]}: ${s.words(bin, this.at)}${noise}`;
    this.tip.style.left = `${Math.min(event.offsetX + 14, place.width - 230)}px`;
    this.tip.style.top = `${event.offsetY + 14}px`;
  }

  destroy() { this.observer.disconnect(); }
}
