// Everything is defined: show the page.
if (names.length > 1) {
  at("overview").hidden = false;
  let sure = false;
  for (let i = 0; i < value.length; i++) if (value[i] - below[i] > 0) { most = Math.max(most, value[i]); sure = true; }
  at("scale").textContent = `0 to ${rounded(most)} ${data.unit} (square-root scale)`;
  at("sure").hidden = !sure;
  at("negative").hidden = at("unsure").hidden = !value.some((v) => v < 0);
}
at("which").hidden = at("find").hidden = names.length < 2;
at("old").hidden = fresh.every((f) => f === 1);
choose(view.bin);
