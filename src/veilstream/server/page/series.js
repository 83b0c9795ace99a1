// Releases by column: moments, values and the ends of their intervals; and what is drawn of measured columns.

const PALETTE = ["#2f5fd0", "#d9622b", "#1c8a5a", "#9245c9", "#b8860b", "#0e8fa3", "#c22f6b", "#5f7d1f", "#6b5bd6",
  "#a2542b", "#3b7ea1", "#8a5a83"];
const DARK = ["#7ea6ff", "#ff9a66", "#58cf98", "#c58cf5", "#e6c04d", "#4fd0e3", "#ff7fb0", "#a8c95a", "#a99bff", "#e09a6f",
  "#7fc0e0", "#d09cc9"];

export const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const dark = () => document.documentElement.dataset.theme === "dark";
export const colour = (index) => (dark() ? DARK : PALETTE)[index % PALETTE.length];

export function translucent(hex, alpha) {
  const n = parseInt(hex.slice(1), 16);
  return `rgba(${n >> 16},${(n >> 8) & 255},${n & 255},${alpha})`;
}

export function round(value) {
  if (value == null) return "unknown";
  const size = Math.abs(value);
  const digits = size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : 2;
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}

export function moment(seconds, info) {
  const long = /\d(d|w|mo|q|y)$/.test(info.every);
  const shape = long ? { dateStyle: "medium" } : { dateStyle: "medium", timeStyle: /\ds$/.test(info.every) ? "medium" : "short" };
  return new Date(seconds * 1000).toLocaleString("en-GB", { ...shape, timeZone: info.zone });
}

export const MOST_FANS = 2;
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const percent = (share) => `${Number((share * 100).toPrecision(4))}%`;
const named = (text, unit) => (unit ? `${text} (${unit})` : text);

// What one picture shows: a statistic of a column, or the quantiles of a column together as a fan. Counts and sums add up over
// bins; of the others a smaller number is not less of anything.
export function facets(info) {
  if (!info.measures) {
    return [{ title: capital(info.counted), axis: info.counted, members: [0], middle: 0, adds: true, signed: false, band: "95% interval" }];
  }
  const found = [], fans = new Map();
  info.measures.forEach((measure, index) => {
    const adds = measure.statistic === "sum" || measure.statistic === "count";
    if (measure.share === null) {
      found.push({ title: capital(named(measure.label, measure.unit)), axis: named(measure.label, measure.unit), members: [index],
        middle: index, adds, signed: measure.statistic === "sum" && measure.low < 0, band: "95% interval" });
    } else if (fans.has(measure.column)) {
      fans.get(measure.column).members.push(index);
    } else {
      fans.set(measure.column, { axis: named(measure.column, measure.unit), members: [index], adds: false, signed: false });
      found.push(fans.get(measure.column));
    }
  });
  for (const fan of fans.values()) finish(fan, info.measures);
  // The number of rows beside a mean or a quantile is not what people come for.
  const later = (facet) => facet.members.every((index) => info.measures[index].statistic === "count");
  return [...found.filter((facet) => !later(facet)), ...found.filter(later)];
}

function finish(fan, measures) {
  const members = fan.members, count = members.length, share = (place) => measures[members[place]].share;
  fan.middle = members[Math.floor(count / 2)];
  fan.pairs = Array.from({ length: Math.floor(count / 2) }, (_, i) => [members[i], members[count - 1 - i]]);
  const what = count === 1 ? measures[fan.middle].label : `quantiles of ${measures[fan.middle].column}`;
  fan.title = capital(named(what, measures[fan.middle].unit));
  fan.band = count === 1 ? "95% interval" : null;
  fan.bands = fan.pairs.map((_, i) => `${percent(share(i))} to ${percent(share(count - 1 - i))} of rows`);
  fan.line = measures[fan.middle].label;
}

const KINDS = { "<f8": Float64Array, "<f4": Float32Array, "|u1": Uint8Array };

// The arrays of a body by their names; they are used where they lie.
function arrays(buffer) {
  const length = Number(new DataView(buffer).getBigUint64(0, true)), found = {};
  const { columns, covers } = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  let place = 8 + length;
  for (const { name, type, shape } of columns) {
    found[name] = new KINDS[type](buffer, place, shape.reduce((size, side) => size * side, 1));
    place += found[name].byteLength;
  }
  return Object.assign(found, { covers });
}

// The numbers of a release are those of all bins of the first measure, then those of the second, and so on.
export class Series {
  constructor(info) {
    this.info = info;
    this.facets = facets(info);
    this.facet = this.facets[0];
    this.step = [];
    this.time = [];
    this.fresh = [];
    this.covers = [];
    const count = info.bins * (info.measures?.length ?? 1), columns = () => Array.from({ length: count }, () => []);
    Object.assign(this, { values: columns(), low: columns(), high: columns() });
  }

  /** The releases that were there before the page, from the arrays that the server sends (columns.py). */
  fill(buffer) {
    const found = arrays(buffer), steps = found.step.length, known = (v) => (Number.isNaN(v) ? null : v);
    this.step = Array.from(found.step);
    this.time = Array.from(found.time);
    this.fresh = Array.from(found.fresh, Boolean);
    this.covers = found.covers;
    const part = (array, n) => array.subarray(n * steps, (n + 1) * steps);
    for (let n = 0; n < this.values.length; n++) {
      const values = part(found.values, n);
      this.values[n] = Array.from(values, known);
      if (found.half) {
        const half = found.half.length > steps ? part(found.half, n) : found.half;
        this.low[n] = Array.from(values, (v, i) => v - half[i]);
        this.high[n] = Array.from(values, (v, i) => v + half[i]);
      } else {
        this.low[n] = Array.from(part(found.low, n), known);
        this.high[n] = Array.from(part(found.high, n), known);
      }
    }
    this.forget();
  }

  append(page) {
    let added = 0;
    for (let i = 0; i < page.step.length; i++) {
      if (this.step.length && page.step[i] <= this.step[this.step.length - 1]) continue;
      this.step.push(page.step[i]);
      this.time.push(Date.parse(page.time[i]) / 1000);
      this.fresh.push(page.fresh[i]);
      const row = page.values[i], half = page.half?.[i];
      for (let n = 0; n < row.length; n++) {
        const width = typeof half === "number" ? half : half?.[n];
        this.values[n].push(row[n]);
        this.low[n].push(half === undefined ? page.low[i][n] : row[n] - width);
        this.high[n].push(half === undefined ? page.high[i][n] : row[n] + width);
      }
      added++;
    }
    if (added) this.forget();
    return added;
  }

  show(facet) {
    this.facet = facet;
    this.forget();
  }

  /** Extent and colours are made anew when they are asked for next. */
  forget() { this.range = null; }

  /** Which of the numbers of a release is that of a bin, of the measure in the middle of the picture. */
  at(bin, measure = this.facet.middle) { return measure * this.info.bins + bin; }

  value(bin, i) { return this.values[this.at(bin)][i]; }

  /** A value with its interval, in words. */
  words(bin, i, measure = this.facet.middle) {
    const n = this.at(bin, measure), value = this.values[n][i], low = this.low[n][i], high = this.high[n][i];
    if (value == null) return "too few rows to tell";
    if (!this.info.measures) return `${round(value)} ± ${round((high - low) / 2)}`;
    return `${round(value)} (${round(low)} to ${round(high)})`;
  }

  columns(bins) {
    const data = [this.time], fresh = this.fresh, banded = this.bandsOf(bins) > 0;
    for (const bin of bins) {
      const values = this.values[this.at(bin)];
      data.push(values.map((v, i) => (fresh[i] ? v : null)));
      data.push(values.map((v, i) => (!fresh[i] || fresh[i + 1] === false || fresh[i - 1] === false ? v : null)));
      for (const [low, high] of banded ? this.bands(bin) : []) data.push(high, low);
    }
    return data;
  }

  /** The lower and upper edges of the bands of a bin: its interval, or the quantiles around the middle one. */
  bands(bin) {
    if (this.facet.band) {
      const n = this.at(bin), known = (ends) => ends.map((end, i) => (this.values[n][i] == null ? null : end));
      return this.info.measures ? [[known(this.low[n]), known(this.high[n])]] : [[this.low[n], this.high[n]]];
    }
    return this.facet.pairs.map(([low, high]) => [this.values[this.at(bin, low)], this.values[this.at(bin, high)]]);
  }

  /** How many bands each of some bins has. More than two fans in one picture hide each other, so then there are lines alone. */
  bandsOf(bins) { return this.facet.band ? 1 : bins.length > MOST_FANS ? 0 : this.facet.pairs.length; }

  /** The least and the largest value of the picture. */
  extent() {
    if (this.range) return this.range;
    let least = Infinity, most = -Infinity;
    for (let bin = 0; bin < this.info.bins; bin++) {
      for (const v of this.values[this.at(bin)]) if (v != null) { if (v < least) least = v; if (v > most) most = v; }
    }
    if (this.facet.adds) [least, most] = [0, Math.max(1, most, this.facet.signed ? -least : 1)];
    else if (!(most > least)) [least, most] = [Math.min(0, least), Math.max(least + 1, most)];
    this.paints = [colour(0), colour(1)];
    this.range = [least, most];
    return this.range;
  }

  /** The colour of a cell: deeper for more, pale for what noise alone explains, nothing for what is not known. */
  shade(bin, i) {
    const n = this.at(bin), v = this.values[n][i], [least, most] = this.extent();
    if (v == null) return "transparent";
    if (this.facet.adds) {
      const strength = Math.sqrt(Math.min(1, Math.abs(v) / most));
      return translucent(this.paints[v < 0 ? 1 : 0], strength * (this.vague(bin, i) ? 0.25 : 1));
    }
    return translucent(this.paints[0], (0.12 + 0.88 * (v - least) / (most - least)) * (this.vague(bin, i) ? 0.35 : 1));
  }

  /** Whether noise alone could make a number look like this. */
  vague(bin, i) {
    const n = this.at(bin), low = this.low[n][i], high = this.high[n][i], [least, most] = this.extent();
    return this.facet.adds ? low <= 0 && high >= 0 : high - low > most - least;
  }

  /** What the shades mean. */
  shades() {
    const [least, most] = this.extent();
    if (this.facet.adds) {
      return [["strong", `many (up to ${round(most)})`], ["pale", "noise alone explains it"], ["negative", this.facet.signed ? "below zero" : "below zero, by noise"]];
    }
    return [["strong", `high (${round(most)})`], ["pale", `low (${round(least)}), or an interval wider than all differences`], ["blank", "too few rows to tell"]];
  }
}
