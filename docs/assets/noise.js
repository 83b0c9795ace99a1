/* Draws what the mechanism `uniform` would publish of the counts on the page. No data leave the page. */
(function () {
  "use strict";

  const WIDTH = 720, HEIGHT = 280, LEFT = 48, BOTTOM = 28, TOP = 12;

  function noiseScale(epsilon, window, rows) {
    return rows * window / epsilon;
  }

  /* The half width that holds 95 % of two-sided geometric noise of this scale: the least k with P(|x| > k) <= 0.05. */
  function halfWidth(scale) {
    const ratio = Math.exp(-1 / scale);
    return Math.max(0, Math.ceil(Math.log(0.05 * (1 + ratio) / 2) / Math.log(ratio)) - 1);
  }

  function geometric(scale) {
    const u = Math.random();
    return Math.floor(Math.log(1 - u) * -scale);
  }

  function twoSided(scale) {
    return geometric(scale) - geometric(scale);
  }

  function parse(text) {
    return text.split(/[\s,;]+/).filter(Boolean).map(Number).filter((x) => Number.isFinite(x) && x >= 0).slice(0, 500);
  }

  function svg(name, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
    if (text !== undefined) made.textContent = text;
    return made;
  }

  /* Round numbers between the ends, about five of them. */
  function ticks(low, high) {
    const power = 10 ** Math.floor(Math.log10((high - low) / 5));
    const step = Math.max(1, [1, 2, 5, 10].map((k) => k * power).find((s) => (high - low) / s <= 5.5));
    const found = [];
    for (let k = Math.ceil(low / step); k * step <= high; k++) found.push(k * step);
    return found;
  }

  function chart(counts, noisy, half) {
    const high = Math.max(1, ...counts, ...noisy, ...counts.map((x) => x + half));
    const low = Math.min(0, ...noisy, ...counts.map((x) => x - half));
    const x = (i) => LEFT + (WIDTH - LEFT - 8) * (counts.length < 2 ? 0.5 : i / (counts.length - 1));
    const y = (v) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - (v - low) / (high - low));
    const path = (values) => values.map((v, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(v).toFixed(1)}`).join("");
    const drawn = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: "100%", class: "noise-svg" });
    const upper = path(counts.map((v) => v + half));
    const lower = counts.map((v, i) => `L${x(i).toFixed(1)} ${y(v - half).toFixed(1)}`).reverse().join("");
    drawn.append(svg("path", { d: `${upper}${lower}Z`, class: "noise-band" }));
    for (const value of ticks(low, high)) {
      drawn.append(svg("path", { d: `M${LEFT} ${y(value)}H${WIDTH - 8}`, class: "noise-rule" }));
      drawn.append(svg("text", { x: LEFT - 6, y: y(value) + 4, class: "noise-tick" }, value.toLocaleString("en")));
    }
    drawn.append(svg("path", { d: `M${LEFT} ${y(0)}H${WIDTH - 8}`, class: "noise-zero" }));
    drawn.append(svg("path", { d: path(counts), class: "noise-exact" }));
    drawn.append(svg("path", { d: path(noisy), class: "noise-noisy" }));
    noisy.forEach((v, i) => drawn.append(svg("circle", { cx: x(i), cy: y(v), r: 2.5, class: "noise-point" })));
    drawn.append(svg("text", { x: WIDTH - 8, y: HEIGHT - 6, class: "noise-tick" }, "step"));
    return drawn;
  }

  function verdict(part) {
    if (part < 0.05) return "good for most uses";
    if (part < 0.2) return "good for trends";
    if (part < 0.5) return "rough: prefer longer steps or fewer bins";
    return "mostly noise: change the question before ε";
  }

  function start(page) {
    const at = (id) => page.querySelector(`#noise-${id}`);

    function draw() {
      const epsilon = Number(Math.pow(10, Number(at("epsilon").value)).toPrecision(2));
      const window = Number(at("window").value), rows = Number(at("rows").value);
      const counts = parse(at("counts").value);
      at("epsilon-shown").textContent = epsilon;
      at("window-shown").textContent = window;
      at("rows-shown").textContent = rows;
      if (!counts.length) {
        at("chart").replaceChildren();
        at("says").textContent = "Give at least one count.";
        return;
      }
      const scale = noiseScale(epsilon, window, rows), half = halfWidth(scale);
      at("chart").replaceChildren(chart(counts, counts.map((v) => v + twoSided(scale)), half));
      const mean = counts.reduce((a, b) => a + b, 0) / counts.length;
      const part = mean > 0 ? scale / mean : Infinity;
      at("says").textContent =
        `Noise scale ${Math.round(scale).toLocaleString("en")}; 95 % of releases are within ±${half.toLocaleString("en")} ` +
        `of the count. Mean error ${Number.isFinite(part) ? Math.round(100 * part) + " % of the mean count" : "without a count to compare"}: ${verdict(part)}.`;
    }

    for (const id of ["epsilon", "window", "rows", "counts"]) at(id).addEventListener("input", draw);
    at("draw").addEventListener("click", draw);
    draw();
  }

  const page = document.getElementById("noise-page");
  if (page) start(page);
})();
