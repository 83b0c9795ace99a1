// From a file to private releases: the file stays in the browser until it is published.
import { api, element, go, state } from "./app.js";
import { round } from "./series.js";

const field = (label, input, help) => element("label", {}, label, input, help ? element("span", { class: "muted small" }, help) : null);
const text = (id, value = "", more = {}) => element("input", { id, type: "text", value, required: "", ...more });
const types = { csv: "text/csv", parquet: "application/vnd.apache.parquet" };

// The names of the columns, from the first line; no more of the file is looked at.
async function header(file) {
  if (!file.name.endsWith(".csv")) return null;
  const line = (await file.slice(0, 65536).text()).replace(/^\uFEFF/, "").split(/\r?\n/)[0];
  return line.split(",").map((name) => name.trim().replace(/^"|"$/g, ""));
}

function bins(value) {
  const given = value.trim();
  if (/^[[{]/.test(given)) return JSON.parse(given);
  const parts = given.split(",").map((part) => part.trim()).filter(Boolean);
  const numbers = parts.map(Number);
  return parts.length > 1 && numbers.every((n) => Number.isFinite(n)) ? { edges: numbers } : parts;
}

const MEASURES = { "": "How many people", sum: "The sum of a column", mean: "The mean of a column", variance: "The variance of a column",
  median: "The median of a column", quantiles: "The quantiles 10%, 50% and 90% of a column" };

class Guide {
  constructor(main) {
    this.main = main;
    this.file = null;
    this.columns = [];
    this.attributes = element("div", { class: "wide" });
    this.result = element("section", { "aria-live": "polite" });
    this.error = element("p", { class: "error wide", role: "alert" });
    const today = new Date().toISOString().slice(0, 10), before = new Date(Date.now() - 7 * 864e5).toISOString().slice(0, 10);
    this.inputs = {
      user: text("g-user", "", { list: "g-columns" }), time: text("g-time", "", { list: "g-columns" }),
      every: text("g-every", "1d"), start: text("g-start", before), end: text("g-end", today),
      epsilon: text("g-epsilon", "1"), window: text("g-window", "7"), name: text("g-name", "my-stream", { pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]{0,99}" }),
      measure: element("select", { id: "g-measure" }, ...Object.entries(MEASURES).map(([value, label]) => element("option", { value }, label))),
      column: text("g-column", "", { list: "g-columns" }), least: text("g-least", "0"), most: text("g-most", "100"),
      counts: element("input", { id: "g-counts", type: "number", min: "1", value: "1" }),
    };
    this.build();
  }

  build() {
    const i = this.inputs;
    const choose = element("input", { type: "file", accept: ".csv,.parquet", id: "g-file" });
    choose.addEventListener("change", () => this.take(choose.files[0]));
    this.measured = element("div", { class: "wide form" }, field("Column to measure", i.column),
      field("Smallest value", i.least, "The range must be public; values outside count as its nearer end."), field("Largest value", i.most));
    const measuring = () => {
      this.measured.hidden = !i.measure.value;
      for (const input of [i.column, i.least, i.most]) input.required = Boolean(i.measure.value);
    };
    i.measure.addEventListener("change", measuring);
    measuring();
    this.names = element("datalist", { id: "g-columns" });
    const form = element("form", { class: "form card" }, this.names,
      element("h2", { class: "wide" }, "1 · The file and its columns"),
      field("File (CSV or Parquet)", choose, "It stays in your browser until you publish."),
      field("Column of the person", i.user), field("Column of the time", i.time),
      element("h2", { class: "wide" }, "2 · What is public"),
      element("p", { class: "wide muted small" }, "Bins and time range must be known without looking at the data: a bin that exists because somebody was in it tells that somebody was there."),
      this.attributes,
      element("div", { class: "wide" }, element("button", { type: "button", id: "g-add", onclick: () => this.attribute() }, "Add an attribute to count by")),
      field("From (included)", i.start), field("To (excluded)", i.end), field("Length of a step", i.every, "15m, 1h, 1d, 1w, 1mo"),
      element("h2", { class: "wide" }, "3 · What to publish of each step and bin"),
      field("Publish", i.measure), this.measured,
      element("h2", { class: "wide" }, "4 · How much protection"),
      field("Epsilon of a window", i.epsilon, "Smaller protects more and adds more noise."),
      field("Steps of a window", i.window, "All that a person does within so many steps is hidden together; or 'user' for ever."),
      field("Rows of a person per step", i.counts, "More rows count for more noise."),
      field("Name of the stream", i.name),
      this.error,
      element("div", { class: "row wide" }, element("button", { type: "submit", id: "g-preview" }, "See cost and error"),
        element("span", { class: "muted small" }, "Nothing is read or spent yet.")));
    form.addEventListener("submit", (event) => { event.preventDefault(); this.preview(); });
    this.main.replaceChildren(element("h1", {}, "Publish a file"),
      element("p", { class: "muted" }, "Say what is public, see what it costs, publish, and take the command along."), form, this.result);
  }

  async take(file) {
    this.file = file;
    this.columns = (await header(file)) || [];
    this.names.replaceChildren(...this.columns.map((name) => element("option", { value: name })));
    const guess = (pattern) => this.columns.find((name) => pattern.test(name)) || "";
    this.inputs.user.value ||= guess(/(^|_)(id|user|person|patient)($|_)/i);
    this.inputs.time.value ||= guess(/time|date|^ts$/i);
  }

  attribute() {
    const name = element("input", { type: "text", list: "g-columns", class: "g-attribute", "aria-label": "Attribute" });
    const values = element("input", { type: "text", class: "g-bins", placeholder: "north, south, east  or  0, 18, 65, 120", "aria-label": "Its public bins" });
    const row = element("div", { class: "row" }, field("Attribute", name), field("Public bins", values, "Names, or the edges of numbers"),
      element("button", { type: "button", class: "quiet", onclick: () => row.remove() }, "Remove"));
    this.attributes.append(row);
  }

  request() {
    const i = this.inputs, domain = {};
    for (const row of this.attributes.querySelectorAll(".row")) {
      const name = row.querySelector(".g-attribute").value.trim();
      if (name) domain[name] = bins(row.querySelector(".g-bins").value);
    }
    const count = Number(i.counts.value), window = i.window.value.trim();
    return {
      name: i.name.value.trim(), file: this.file?.name || "rows.csv", user: i.user.value.trim(), time: i.time.value.trim(), domain,
      every: i.every.value.trim(), start: i.start.value.trim(), end: i.end.value.trim(), epsilon: i.epsilon.value.trim(),
      window: window === "user" ? window : Number(window), bins_per_user: 1, counts_per_user: count,
      ...(i.measure.value ? { [i.measure.value]: i.column.value.trim(), between: [i.least.value.trim(), i.most.value.trim()] } : {}),
    };
  }

  async send(path, body) {
    return api(path, { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } });
  }

  async preview() {
    this.error.textContent = "";
    try {
      const request = this.request(), seen = await this.send("/v1/guide/preview", request);
      this.show(request, seen);
    } catch (error) {
      this.error.textContent = error.message;
    }
  }

  show(request, seen) {
    const publish = element("button", { type: "button", class: "primary", id: "g-publish", disabled: !this.file }, "Publish");
    publish.addEventListener("click", () => this.publish(request, publish));
    const allowed = state.session?.scopes?.includes("admin");
    this.result.replaceChildren(element("div", { class: "card" }, element("h2", {}, "What it costs and how exact it is"),
      element("p", {}, seen.promise),
      ...(seen.measures.length ? seen.measures.map(([label, words]) => element("p", {}, element("strong", {}, label), `: ${words}`))
        : [element("div", { class: "figure" }, `± ${round(seen.mean_absolute_error)}`)]),
      element("p", { class: "muted" }, `${seen.measures.length ? "From" : "Counts per bin on average, from"} noise alone: ${seen.bins} ${seen.bins === 1 ? "bin" : "bins"}, ${seen.steps} steps, ε ${seen.epsilon_per_release} a release and ${seen.epsilon_per_window} a window.`),
      ...seen.notes.map((note) => element("p", { class: "muted small" }, note)),
      element("p", { class: "notice" }, "Publishing spends this budget for good. A second file under another name spends it again."),
      allowed ? publish : element("p", { class: "muted" }, "Sign in with an admin token to publish here, or run one of these:"),
      this.file ? null : element("p", { class: "muted small" }, "Choose a file to publish it."),
      element("details", { open: !allowed }, element("summary", {}, "The same as a command"),
        Object.keys(request.domain).length ? element("pre", {}, `# domain.json\n${seen.domain_file}`) : null, element("pre", { id: "g-command" }, seen.command)),
      element("details", {}, element("summary", {}, "The same in Python"), element("pre", { id: "g-python" }, seen.python))));
    this.result.scrollIntoView({ block: "nearest" });
  }

  async publish(request, button) {
    button.disabled = true;
    try {
      await this.send("/v1/guide/streams", request);
      const kind = types[this.file.name.endsWith(".parquet") ? "parquet" : "csv"];
      await api(`/v1/guide/streams/${encodeURIComponent(request.name)}/events?until=${encodeURIComponent(request.end)}`,
        { method: "POST", body: this.file, headers: { "content-type": kind } });
      go(`/streams/${encodeURIComponent(request.name)}`);
    } catch (error) {
      this.error.textContent = error.message;
      button.disabled = false;
    }
  }
}

export async function guideView(main) {
  document.title = "Guide · veilstream";
  const guide = new Guide(main);
  guide.attribute();
  return {};
}
