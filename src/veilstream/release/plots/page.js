"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;
const { names, zone, steps } = data;
const times = new Float64Array(bytes(data.times)); // the steps' beginnings and the end of the last
const value = new Float64Array(bytes(data.value));
const below = new Float32Array(bytes(data.below));
const above = new Float32Array(bytes(data.above));
const fresh = new Uint8Array(bytes(data.fresh));
const at = (id) => document.getElementById(id);
const chart = at("chart"), map = at("map"), picker = at("bin"), told = at("told");
const first = times[0], last = times[steps];
const view = { bin: data.first, from: first, to: last, drag: null, hover: null };
const number = new Intl.NumberFormat("en", { maximumSignificantDigits: 6 });
const format = (options) => new Intl.DateTimeFormat("sv-SE", { timeZone: zone || "UTC", ...options });
const full = format({ dateStyle: "short", timeStyle: "short" });
const day = format({ dateStyle: "short" }), clock = format({ hour: "2-digit", minute: "2-digit" });
const written = (options) => new Intl.DateTimeFormat("en-GB", { timeZone: zone || "UTC", ...options });
const monthDay = written({ day: "numeric", month: "short" }), monthYear = written({ month: "short", year: "numeric" });
const rounded = (v) => (v >= 100 ? Math.round(v).toLocaleString("en") : new Intl.NumberFormat("en", { maximumSignificantDigits: 3 }).format(v));
const moment = (t, kind) => (zone === null ? number.format(t) : (kind || full).format(t));

// Days and longer steps are told without a time of day.
const span = [0, 1, steps].every((s) => moment(times[s], clock) === "00:00") ? day : full;

function stepAt(t) {
  let low = 0, high = steps;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (times[middle] <= t) low = middle; else high = middle;
  }
  return low;
}

function canvasOf(element, height) {
  const ratio = window.devicePixelRatio || 1, width = element.clientWidth;
  element.width = width * ratio;
  element.height = height * ratio;
  element.style.height = height + "px";
  const pen = element.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.font = "12px system-ui, sans-serif";
  return { pen, width, height };
}

function niceStep(span, count) {
  const power = 10 ** Math.floor(Math.log10(span / count));
  return [1, 2, 5, 10].map((k) => k * power).find((s) => span / s <= count);
}

const HOUR = 3600e3, DAY = 24 * HOUR;
const TIME_STEPS = [60e3, 300e3, 900e3, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY];
const MONTH_STEPS = [1, 3, 6, 12, 24, 60, 120], MONTH = 30.4375 * DAY;

function timeMarks(from, to, count) {
  const span = to - from;
  if (zone === null) {
    const step = niceStep(span, count), marks = [];
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) marks.push([t, number.format(t)]);
    return marks;
  }
  const step = TIME_STEPS.find((s) => span / s <= count);
  const local = Date.parse(full.format(from).replace(" ", "T") + ":00Z") - Math.floor(from / 60e3) * 60e3;
  const marks = [];
  if (step === undefined) {
    const months = MONTH_STEPS.find((m) => span / (m * MONTH) <= count) || MONTH_STEPS.at(-1);
    for (let m = 0, t = -Infinity; t <= to; m += months) {
      t = Date.UTC(new Date(from).getUTCFullYear(), m, 1) - local;
      if (t >= from && t <= to) marks.push([t, moment(t, months % 12 ? monthYear : written({ year: "numeric" }))]);
    }
    return marks;
  }
  // A day is named where it begins, and on the first mark.
  for (let t = Math.ceil((from + local) / step) * step - local; t <= to; t += step) {
    const midnight = moment(t, clock) === "00:00";
    const date = monthDay.format(t);
    marks.push([t, step >= DAY || midnight ? date : marks.length ? moment(t, clock) : `${date}, ${moment(t, clock)}`]);
  }
  return marks;
}

const LEFT = 74, RIGHT = 12, TOP = 10, BOTTOM = 26;

function reach(bin, a, b) {
  let low = 0, high = 0;
  for (let s = a; s <= b; s++) {
    const i = bin * steps + s;
    if (Number.isNaN(value[i])) continue;
    low = Math.min(low, value[i] - below[i]);
    high = Math.max(high, value[i] + above[i]);
  }
  return high > low ? [low, high] : [low - 1, high + 1];
}

function drawChart() {
  const { pen, width, height } = canvasOf(chart, 340);
  const a = stepAt(view.from), b = Math.min(stepAt(view.to), steps - 1);
  const [low, high] = reach(view.bin, a, b);
  const pad = 0.04 * (high - low);
  const x = (t) => LEFT + ((t - view.from) / (view.to - view.from)) * (width - LEFT - RIGHT);
  const y = (v) => TOP + ((high + pad - v) / (high - low + 2 * pad)) * (height - TOP - BOTTOM);
  drawAxes(pen, width, height, x, y, low, high);
  pen.save();
  pen.beginPath();
  pen.rect(LEFT, TOP, width - LEFT - RIGHT, height - TOP - BOTTOM);
  pen.clip();
  const narrow = (width - LEFT - RIGHT) / (b - a + 1) < 1.5;
  if (narrow) drawEnvelope(pen, width, a, b, x, y); else drawSteps(pen, a, b, x, y);
  if (view.hover !== null && view.hover >= a && view.hover <= b) {
    pen.fillStyle = "rgba(34,49,63,.12)";
    pen.fillRect(x(times[view.hover]), TOP, Math.max(1, x(times[view.hover + 1]) - x(times[view.hover])), height);
  }
  if (view.drag) {
    pen.fillStyle = "rgba(213,94,0,.15)";
    pen.fillRect(Math.min(view.drag[0], view.drag[1]), TOP, Math.abs(view.drag[1] - view.drag[0]), height - TOP - BOTTOM);
  }
  pen.restore();
}

function drawAxes(pen, width, height, x, y, low, high) {
  pen.fillStyle = "#22313f";
  pen.strokeStyle = "#e3e7ea";
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  const step = niceStep(high - low, 5);
  for (let v = Math.ceil(low / step) * step; v <= high; v += step) {
    pen.beginPath(); pen.moveTo(LEFT, y(v)); pen.lineTo(width - RIGHT, y(v)); pen.stroke();
    pen.fillText(number.format(Math.abs(v) < step / 1e6 ? 0 : v), LEFT - 6, y(v));
  }
  pen.textAlign = "center";
  pen.textBaseline = "top";
  for (const [t, label] of timeMarks(view.from, view.to, Math.max(2, Math.floor(width / 130)))) {
    pen.beginPath(); pen.moveTo(x(t), TOP); pen.lineTo(x(t), height - BOTTOM); pen.stroke();
    pen.fillText(label, Math.min(Math.max(x(t), LEFT + 20), width - 40), height - BOTTOM + 6);
  }
  pen.strokeStyle = "#8a949e";
  pen.beginPath(); pen.moveTo(LEFT, y(0)); pen.lineTo(width - RIGHT, y(0)); pen.stroke();
  pen.save();
  pen.translate(12, height / 2);
  pen.rotate(-Math.PI / 2);
  pen.fillText(data.unit, 0, 0);
  pen.restore();
}

function drawSteps(pen, a, b, x, y) {
  for (let s = a; s <= b; s++) {
    const i = view.bin * steps + s, left = x(times[s]), right = x(times[s + 1]);
    if (Number.isNaN(value[i])) continue;
    pen.fillStyle = fresh[i] ? "rgba(86,180,233,.42)" : "rgba(86,180,233,.16)";
    pen.fillRect(left, y(value[i] + above[i]), right - left, y(value[i] - below[i]) - y(value[i] + above[i]));
  }
  for (let s = a; s <= b; s++) {
    const i = view.bin * steps + s, left = x(times[s]), right = x(times[s + 1]);
    if (Number.isNaN(value[i])) continue;
    pen.strokeStyle = fresh[i] ? "#0072b2" : "rgba(0,114,178,.4)";
    pen.lineWidth = fresh[i] ? 2.2 : 1;
    pen.beginPath();
    if (s > a) { pen.moveTo(left, y(value[i - 1])); pen.lineTo(left, y(value[i])); } else pen.moveTo(left, y(value[i]));
    pen.lineTo(right, y(value[i]));
    pen.stroke();
  }
  pen.lineWidth = 1;
}

function drawEnvelope(pen, width, a, b, x, y) {
  const means = [];
  for (let left = LEFT, s = a; left < width - RIGHT && s <= b; left++) {
    let least = Infinity, most = -Infinity, wide = 0, sum = 0, count = 0;
    while (s <= b && x(times[s]) < left + 1) {
      const i = view.bin * steps + s++;
      if (Number.isNaN(value[i])) continue;
      least = Math.min(least, value[i]); most = Math.max(most, value[i]);
      wide = Math.max(wide, below[i], above[i]); sum += value[i]; count++;
    }
    if (!count) continue;
    pen.fillStyle = "rgba(86,180,233,.22)";
    pen.fillRect(left, y(most + wide), 1, y(least - wide) - y(most + wide));
    pen.fillStyle = "rgba(86,180,233,.6)";
    pen.fillRect(left, y(most), 1, Math.max(1, y(least) - y(most)));
    means.push([left, y(sum / count)]);
  }
  pen.strokeStyle = "#0072b2";
  pen.lineWidth = 1.2;
  pen.beginPath();
  means.forEach(([left, top], k) => (k ? pen.lineTo(left, top) : pen.moveTo(left, top)));
  pen.stroke();
  pen.lineWidth = 1;
}

const BLUES = [[182, 212, 233], [107, 174, 214], [49, 130, 189], [8, 81, 156], [8, 48, 107]];
function colour(v, low, high, top) {
  if (Number.isNaN(v)) return "#ffffff";
  if (high < 0) return "#d55e00";
  if (low <= 0) return v < 0 ? "#f6e3d7" : "#e9e9ea";
  const place = Math.sqrt(Math.min(v / top, 1)) * (BLUES.length - 1), k = Math.min(Math.floor(place), BLUES.length - 2);
  return `rgb(${BLUES[k].map((c, j) => Math.round(c + (BLUES[k + 1][j] - c) * (place - k))).join()})`;
}

let most = 1;
function drawMap() {
  if (names.length < 2 || map.hidden) return;
  const rows = names.length, row = Math.max(4, Math.min(16, Math.floor(520 / rows)));
  const { pen, width } = canvasOf(map, rows * row);
  const room = width - LEFT - RIGHT - 80, columns = Math.min(steps, Math.max(1, Math.floor(room)));
  const left = LEFT + 80;
  for (let r = 0; r < rows; r++) {
    for (let c = 0; c < columns; c++) {
      const a = Math.floor((c * steps) / columns), b = Math.max(a + 1, Math.floor(((c + 1) * steps) / columns));
      let v = 0, low = 0, high = 0;
      for (let s = a; s < b; s++) {
        const i = r * steps + s;
        v += value[i]; low += value[i] - below[i]; high += value[i] + above[i];
      }
      pen.fillStyle = colour(v / (b - a), low / (b - a), high / (b - a), most);
      pen.fillRect(left + (c * room) / columns, r * row, room / columns + 0.6, row);
    }
    if (r === view.bin) { pen.strokeStyle = "#d55e00"; pen.lineWidth = 2; pen.strokeRect(left, r * row + 1, room, row - 2); }
    if (row >= 10 || r === view.bin) {
      pen.fillStyle = r === view.bin ? "#d55e00" : "#22313f";
      pen.textAlign = "right"; pen.textBaseline = "middle";
      pen.font = `${Math.min(12, Math.max(9, row - 1))}px system-ui, sans-serif`;
      pen.fillText(names[r].length > 34 ? names[r].slice(0, 33) + "…" : names[r], left - 6, r * row + row / 2, LEFT + 70);
    }
  }
}

// The step that a value is of: its own, or the last fresh one before it.
function asOf(i, step) {
  let s = step;
  while (s > 0 && !fresh[i - (step - s)]) s--;
  return s;
}
const repeatedFrom = (i, step) => (fresh[i] ? "" : `, repeated: as of ${moment(times[asOf(i, step)], span)}`);

function tell() {
  if (view.hover === null) {
    const zoned = zone === null ? "" : ` (${zone})`;
    told.textContent = `${names.length > 1 ? `${names[view.bin]}: ` : ""}${moment(view.from, span)} to ${moment(view.to, span)}${zoned}`;
    return;
  }
  const i = view.bin * steps + view.hover;
  const ends = `${rounded(value[i] - below[i])} to ${rounded(value[i] + above[i])}`;
  told.textContent = `${moment(times[view.hover], span)}: ${rounded(value[i])} (${ends})` + repeatedFrom(i, view.hover);
}

function draw() { drawChart(); tell(); }
function drawAll() { draw(); drawMap(); drawPlane(); }
function choose(bin) { view.bin = bin; picker.value = bin; drawAll(); }
function zoom(from, to) { view.from = Math.max(first, from); view.to = Math.min(last, to); draw(); }
const timeOf = (px) => view.from + ((px - LEFT) / (chart.clientWidth - LEFT - RIGHT)) * (view.to - view.from);

names.forEach((name, bin) => picker.add(new Option(name, bin)));
picker.addEventListener("change", () => choose(Number(picker.value)));
at("find").addEventListener("input", (event) => {
  const wanted = event.target.value.toLowerCase(), found = names.findIndex((name) => name.toLowerCase().includes(wanted));
  if (wanted && found >= 0) choose(found);
});
at("whole").addEventListener("click", () => zoom(first, last));
chart.addEventListener("dblclick", () => zoom(first, last));
chart.addEventListener("pointerdown", (event) => { view.drag = [event.offsetX, event.offsetX]; chart.setPointerCapture(event.pointerId); });
chart.addEventListener("pointermove", (event) => {
  if (view.drag) view.drag[1] = event.offsetX;
  view.hover = Math.min(stepAt(Math.max(timeOf(event.offsetX), view.from)), steps - 1);
  draw();
});
chart.addEventListener("pointerup", () => {
  const [a, b] = [Math.min(...view.drag), Math.max(...view.drag)];
  view.drag = null;
  if (b - a > 6) zoom(timeOf(a), timeOf(b)); else draw();
});
chart.addEventListener("pointerleave", () => { view.hover = null; draw(); });
chart.addEventListener("keydown", (event) => {
  const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!move) return;
  view.hover = Math.min(Math.max((view.hover ?? stepAt(view.from)) + move, 0), steps - 1);
  draw();
  event.preventDefault();
});
map.addEventListener("click", (event) => choose(Math.min(Math.floor((event.offsetY / map.clientHeight) * names.length), names.length - 1)));
at("save").addEventListener("click", () => {
  const lines = ["time,value,low,high,fresh,as_of"];
  const when = (s) => (zone === null ? times[s] : new Date(times[s]).toISOString());
  for (let s = 0, of = 0; s < steps; s++) {
    const i = view.bin * steps + s;
    if (fresh[i]) of = s;
    lines.push([when(s), value[i], value[i] - below[i], value[i] + above[i], Boolean(fresh[i]), when(of)].join());
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
  link.download = "releases.csv";
  link.click();
});
window.addEventListener("resize", drawAll);
