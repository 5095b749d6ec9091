// What the tests of the page ask of it. Evaluated in the page before their questions.
"use strict";

// Red, green, blue from 0 to 255 and opacity, of a computed colour.
function parts(colour) {
  const numbers = colour.match(/[\d.]+/g).map(Number);
  const scale = colour.startsWith("color(") ? 255 : 1;
  const [red, green, blue] = numbers.map((number) => number * scale);
  return { red, green, blue, alpha: numbers.length > 3 ? numbers[3] : 1 };
}

// Relative luminance, WCAG 2.2.
function luminance({ red, green, blue }) {
  const linear = (value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
}

// The first opaque ground below an element; figures bring a paper of their own.
function ground(element) {
  const paper = element.closest("svg.figure")?.querySelector(".paper");
  if (paper) {
    const fill = parts(getComputedStyle(paper).fill);
    if (fill.alpha === 1) return fill;
  }
  for (let at = element; at; at = at.parentElement) {
    const colour = parts(getComputedStyle(at).backgroundColor);
    if (colour.alpha === 1) return colour;
  }
  return { red: 255, green: 255, blue: 255, alpha: 1 };
}

// Texts that are too faint on their ground: what, and the ratio.
function faint() {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim();
    const element = walker.currentNode.parentElement;
    if (!text || element.closest("script, style, title, desc, [hidden], .skip")) continue;
    if (element.getClientRects().length === 0) continue;
    const style = getComputedStyle(element);
    const colour = parts(element instanceof SVGElement ? style.fill : style.color);
    const [light, dark] = [luminance(colour), luminance(ground(element))].sort((a, b) => b - a);
    const ratio = (light + 0.05) / (dark + 0.05);
    if (ratio < 4.5) found.push(`${text.slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return [...new Set(found)];
}

// The first rows of a table's column, as they stand now.
function column(table, index) {
  return [...document.querySelectorAll("table.full")[table].tBodies[0].rows]
    .map((row) => row.cells[index])
    .map((cell) => "sort" in cell.dataset ? Number(cell.dataset.sort) : cell.textContent.trim());
}
