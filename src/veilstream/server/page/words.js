// Words that several views need.
import { moment } from "./series.js";

export const fraction = (text) => { const [a, b = "1"] = text.split("/"); return Number(a) / Number(b); };
export const short = (text) => String(Number(fraction(text).toPrecision(3)));
export const plural = (every) => {
  const [, count, unit] = /^(\d+)(\w+)$/.exec(every) || [null, every, ""];
  const names = { s: "second", m: "minute", h: "hour", d: "day", w: "week", mo: "month", q: "quarter", y: "year" };
  return count === "1" ? names[unit] || every : `${count} ${names[unit] || unit}s`;
};

export function windowWords(info) {
  if (info.per !== null) return `in each block of ${info.per}`;
  if (info.window === "user") return "for ever";
  if (info.window === 1) return `per ${plural(info.every)}`;
  return `in any ${info.window} steps`;
}

export function countdown(info) {
  const seconds = Math.max(0, (Date.parse(info.next_shown) - Date.parse(info.now)) / 1000);
  return `next ${moment(Date.parse(info.next_shown) / 1000, { ...info, every: seconds < 120 ? "1s" : "1h" })}`;
}
