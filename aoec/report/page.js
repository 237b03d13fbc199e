"use strict";
// The table sorts by a heading, the switch picks a theme, and a link to a group opens it. Without this the page is whole, in the order of time.
const root = document.documentElement;
const themes = ["auto", "light", "dark"];
const button = document.getElementById("theme");

function remembered() {
  try { return localStorage.getItem("aoec-theme"); } catch { return null; }  // a file's page may not have a store
}

function useTheme(name) {
  if (name === "auto") delete root.dataset.theme; else root.dataset.theme = name;
  button.textContent = "theme: " + name;
  try { localStorage.setItem("aoec-theme", name); } catch { /* then it holds for this page */ }
}

button.hidden = false;
button.addEventListener("click", () => {
  useTheme(themes[(themes.indexOf(root.dataset.theme || "auto") + 1) % themes.length]);
});
useTheme(themes.includes(remembered()) ? remembered() : "auto");

function valueOf(row, column) {
  const cell = row.cells[column], data = cell.querySelector("data");
  return data ? (data.value === "" ? null : Number(data.value)) : cell.textContent.trim();
}

function compare(a, b) {
  if (a === null || b === null) return (a === null) - (b === null);
  return typeof a === "number" ? a - b : a.localeCompare(b, "en", {numeric: true});
}

// Rows without a number stay last whichever way it goes; equal ones keep their order.
function sortBy(table, heading) {
  const headings = [...heading.parentNode.cells], column = headings.indexOf(heading), numeric = heading.classList.contains("num");
  const was = heading.getAttribute("aria-sort"), up = was ? was === "descending" : !numeric;
  const rows = [...table.tBodies[0].rows].map((row) => [valueOf(row, column), row]);
  rows.sort(([a], [b]) => (a === null || b === null || up ? compare(a, b) : compare(b, a)));
  headings.forEach((h) => h.removeAttribute("aria-sort"));
  heading.setAttribute("aria-sort", up ? "ascending" : "descending");
  table.tBodies[0].append(...rows.map(([, row]) => row));
}

const table = document.getElementById("table");
if (table) {
  for (const heading of table.tHead.rows[0].cells) heading.querySelector("button").addEventListener("click", () => sortBy(table, heading));
}

function openTarget() {
  const found = location.hash && document.getElementById(location.hash.slice(1));
  if (found && found.tagName === "DETAILS") { found.open = true; found.scrollIntoView(); }
}

addEventListener("hashchange", openTarget);
openTarget();
