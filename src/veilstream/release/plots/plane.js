// Cells of two numeric attributes, drawn where they lie, one step at a time.
const plane = data.plane, ground = at("ground"), when = at("when");

function planeScale() {
  const [x, y] = [plane.across.edges, plane.up.edges], width = Math.min(ground.clientWidth, 760), edge = 64, foot = 44;
  const height = Math.round(Math.min(560, Math.max(240, (width - edge) * 0.75)));
  return {
    width, height, edge, foot,
    x: (v) => edge + ((v - x[0]) / (x.at(-1) - x[0])) * (width - edge - 12),
    y: (v) => height - foot - ((v - y[0]) / (y.at(-1) - y[0])) * (height - foot - 10),
  };
}

function drawPlane() {
  if (!plane) return;
  const step = Number(when.value), scale = planeScale(), { pen } = canvasOf(ground, scale.height);
  const { codes: columns, edges: x } = plane.across, { codes: rows, edges: y } = plane.up;
  for (let r = 0; r < names.length; r++) {
    const i = r * steps + step, left = scale.x(x[columns[r]]), top = scale.y(y[rows[r] + 1]);
    const wide = scale.x(x[columns[r] + 1]) - left, high = scale.y(y[rows[r]]) - top;
    pen.fillStyle = colour(value[i], value[i] - below[i], value[i] + above[i], most);
    pen.fillRect(left, top, wide + 0.5, high + 0.5);
    if (r === view.bin) { pen.strokeStyle = "#d55e00"; pen.lineWidth = 2; pen.strokeRect(left + 1, top + 1, wide - 2, high - 2); }
  }
  pen.fillStyle = "#22313f";
  const count = Math.floor(scale.width / 110), marks = (edges, many) => {
    const by = niceStep(edges.at(-1) - edges[0], many), found = [];
    for (let k = Math.ceil(edges[0] / by); k * by <= edges.at(-1); k++) found.push(k * by);
    return found;
  };
  pen.textAlign = "center"; pen.textBaseline = "top";
  for (const v of marks(x, count)) pen.fillText(number.format(v), scale.x(v), scale.height - scale.foot + 6);
  pen.fillText(plane.across.name, (scale.edge + scale.width) / 2, scale.height - 18);
  pen.textAlign = "right"; pen.textBaseline = "middle";
  for (const v of marks(y, 6)) pen.fillText(number.format(v), scale.edge - 6, scale.y(v));
  pen.save(); pen.translate(10, scale.height / 2 - 16); pen.rotate(-Math.PI / 2); pen.textAlign = "center";
  pen.fillText(plane.up.name, 0, 0); pen.restore();
  at("moment").textContent = `${moment(times[step], span)} (step ${step + 1} of ${steps})`;
}

function cellAt(event) {
  const scale = planeScale(), x = plane.across.edges, y = plane.up.edges;
  const column = x.findIndex((_, k) => k + 1 < x.length && event.offsetX >= scale.x(x[k]) && event.offsetX < scale.x(x[k + 1]));
  const row = y.findIndex((_, k) => k + 1 < y.length && event.offsetY <= scale.y(y[k]) && event.offsetY > scale.y(y[k + 1]));
  return names.findIndex((_, r) => plane.across.codes[r] === column && plane.up.codes[r] === row);
}

if (plane) {
  at("plane").hidden = false;
  // Rows of cells beside each other on the plane are far apart in a list.
  map.hidden = names.length > 60;
  when.max = steps - 1;
  when.addEventListener("input", drawPlane);
  ground.addEventListener("click", (event) => { const bin = cellAt(event); if (bin >= 0) choose(bin); });
}
