"use strict";
// Everything here is a convenience: without it the page has the same figures and tables, and
// browsers show the value under the pointer by themselves.

// Tables: a click on a title, or Enter on it, sorts by that column, again the other way round.
for (const table of document.querySelectorAll("table.full")) {
  const titles = [...table.tHead.rows[0].cells];
  titles.forEach((title, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...title.childNodes);
    title.append(button);
    button.addEventListener("click", () => sort(table, titles, column));
  });
}

function sort(table, titles, column) {
  const down = titles[column].getAttribute("aria-sort") === "ascending";
  titles.forEach((title) => title.removeAttribute("aria-sort"));
  titles[column].setAttribute("aria-sort", down ? "descending" : "ascending");
  const key = (row) => {
    const cell = row.cells[column];
    return "sort" in cell.dataset ? Number(cell.dataset.sort) : cell.textContent.trim();
  };
  // What has no number comes last either way.
  const compare = (a, b) => {
    const [x, y] = [key(a), key(b)];
    if (typeof x !== typeof y) return typeof x === "number" ? -1 : 1;
    const order = typeof x === "number" ? x - y : x.localeCompare(y);
    return down ? -order : order;
  };
  const body = table.tBodies[0];
  body.append(...[...body.rows].sort(compare));
  table.classList.add("sorted");
}

// Figures: the values at the abscissa nearest to the pointer; with the keyboard, arrows walk.
const tip = document.getElementById("tip");

for (const figure of document.querySelectorAll("svg.figure")) {
  const spots = [...figure.querySelectorAll(".spot")];
  if (spots.length === 0) continue;
  const places = [...new Set(spots.map((spot) => spot.dataset.at))].map((at) => {
    const here = spots.filter((spot) => spot.dataset.at === at);
    const x = here.reduce((sum, spot) => sum + Number(spot.dataset.x), 0) / here.length;
    return { at, x, here: here.sort((a, b) => a.dataset.y - b.dataset.y) };
  }).sort((a, b) => a.x - b.x);
  // Browsers' own hints would stand beside ours.
  spots.forEach((spot) => spot.querySelector("title").remove());
  const guide = document.createElementNS("http://www.w3.org/2000/svg", "path");
  guide.setAttribute("class", "guide");
  figure.querySelector(".paper").after(guide);
  figure.setAttribute("tabindex", "0");
  figure.setAttribute("aria-describedby", "tip");
  let current = -1;
  const show = (index) => {
    current = index;
    const place = places[index];
    guide.setAttribute("d", `M${place.x.toFixed(1)} 66V296`);
    const head = document.createElement("strong");
    head.textContent = place.at;
    tip.replaceChildren(head, ...place.here.map(line));
    tip.hidden = false;
    stand(figure, place);
  };
  const hide = () => {
    current = -1;
    tip.hidden = true;
    guide.removeAttribute("d");
  };
  figure.addEventListener("pointermove", (event) => {
    const box = figure.getBoundingClientRect();
    const x = (event.clientX - box.left) * figure.viewBox.baseVal.width / box.width;
    const distance = (place) => Math.abs(place.x - x);
    show(places.reduce((best, place, index) =>
      distance(place) < distance(places[best]) ? index : best, 0));
  });
  figure.addEventListener("pointerleave", hide);
  figure.addEventListener("focus", () => { if (current < 0) show(0); });
  figure.addEventListener("blur", hide);
  figure.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Escape") hide();
    if (!step) return;
    event.preventDefault();
    show(Math.min(places.length - 1, Math.max(0, current + step)));
  });
}

function line(spot) {
  const series = spot.closest(".series");
  const row = document.createElement("div");
  row.className = series.getAttribute("class");
  const dot = document.createElement("span");
  dot.className = "dot";
  const name = document.createElement("span");
  name.textContent = series.dataset.label;
  const value = document.createElement("b");
  value.textContent = spot.dataset.value;
  const range = document.createElement("small");
  range.textContent = spot.dataset.interval;
  row.append(dot, name, value, range);
  return row;
}

function stand(figure, place) {
  const box = figure.getBoundingClientRect();
  const scale = box.width / figure.viewBox.baseVal.width;
  const x = box.left + place.x * scale;
  const right = x + 16 + tip.offsetWidth < document.documentElement.clientWidth;
  tip.style.left = `${Math.max(8, right ? x + 16 : x - 16 - tip.offsetWidth) + scrollX}px`;
  tip.style.top = `${box.top + 66 * scale + scrollY}px`;
}

// Light or dark, whatever the system says.
const theme = document.getElementById("theme");
const systemDark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme ?? (systemDark.matches ? "dark" : "light")) === "dark";
const label = () => { theme.textContent = isDark() ? "Light" : "Dark"; };
theme.hidden = false;
theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  label();
});
systemDark.addEventListener("change", label);
label();

const copy = document.getElementById("copy");
copy.hidden = !navigator.clipboard;
copy.addEventListener("click", async () => {
  await navigator.clipboard.writeText(document.getElementById("command").textContent);
  copy.textContent = "Copied";
});
