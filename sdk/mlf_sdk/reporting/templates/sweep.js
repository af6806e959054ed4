// SPDX-License-Identifier: Apache-2.0
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const axes = Object.keys(data.axes);
const time = data.figures.includes("instructions") ? "instructions" : "inference_s";
const front3 = ["flash_bytes", "ram_bytes", time].filter((name) => data.figures.includes(name));
let logs = null;

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "onclick" || name === "onchange") made[name] = value;
    else if (value !== null && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}
function shown(value) {
  if (value === null || value === undefined) return "-";
  if (typeof value !== "number") return String(value);
  return Number.isInteger(value) ? value.toLocaleString("en") : value.toPrecision(4);
}
const words = (name) => name.replace(/_/g, " ");
function select(into, label, options, chosen, onchange) {
  const box = element("select", { onchange });
  for (const [value, text] of options) box.append(element("option", { value, selected: value === chosen ? "" : null }, text));
  into.append(element("label", {}, label, box));
  return box;
}
const kind = (cell) => (cell.verdict === "proven" ? "good" : cell.verdict === "not here" ? "none" : "bad");
function better(name, a, b) {
  if (a === undefined) return false;
  return b === undefined || (data.greater.includes(name) ? a > b : a < b);
}
function opener(cell, text, best, count) {
  const extra = count > 1 ? element("small", {}, ` of ${count}`) : null;
  return element("button", { class: `cell ${kind(cell)}${best ? " best" : ""}`, title: cell.verdict, onclick: () => detail(cell) }, text, extra);
}
function row(tag, items) { return element("tr", {}, ...items.map((item) => element(tag, { scope: tag === "th" ? "col" : null }, item))); }

// ---- pivot ----
const pivot = document.getElementById("pivot-controls");
const other = axes.filter((axis) => axis !== "model" && data.axes[axis].length > 1);
const firstColumn = other.includes("board") ? "board" : other[0] || axes[1] || axes[0];
const pairs = axes.map((axis) => [axis, words(axis)]);
const rowBox = select(pivot, "rows", pairs, "model", drawPivot);
const columnBox = select(pivot, "columns", pairs, firstColumn, drawPivot);
const figureBox = select(pivot, "figure", [["verdict", "verdict"], ...data.figures.map((name) => [name, words(name)])], data.figures[0] || "verdict", drawPivot);
const filters = axes.map((axis) => data.axes[axis].length < 2 ? null
  : select(pivot, words(axis), [["", "any"], ...data.axes[axis].map((label) => [label, label])], "", drawPivot));
function drawPivot() {
  const table = document.getElementById("pivot-table");
  const [r, c, figure] = [axes.indexOf(rowBox.value), axes.indexOf(columnBox.value), figureBox.value];
  const groups = new Map();
  for (const cell of data.cells) {
    if (filters.some((box, axis) => box && box.value && cell.labels[axis] !== box.value)) continue;
    const key = JSON.stringify([cell.labels[r], r === c ? words(figure) : cell.labels[c]]);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(cell);
  }
  const columns = r === c ? [words(figure)] : data.axes[axes[c]]; // one axis twice: its labels alone
  const head = element("thead", {}, row("th", [words(axes[r]), ...columns]));
  const body = element("tbody");
  for (const label of data.axes[axes[r]]) {
    const fields = columns.map((column) => bestOf(groups.get(JSON.stringify([label, column])) || [], figure));
    const values = fields.map((field) => field && field.cell.verdict === "proven" ? field.cell.figures[figure] : undefined);
    const winner = values.reduce((best, value) => better(figure, value, best) ? value : best, undefined);
    body.append(element("tr", {}, element("th", { scope: "row" }, label), ...fields.map((field, at) => element("td", {}, field
      ? opener(field.cell, field.text, figure !== "verdict" && r !== c && values[at] !== undefined && values[at] === winner, field.count) : ""))));
  }
  table.replaceChildren(head, body);
}
function bestOf(cells, figure) {
  if (!cells.length) return null;
  const proven = cells.filter((cell) => cell.verdict === "proven");
  if (figure === "verdict") {
    const worst = cells.find((cell) => kind(cell) === "bad") || proven[0] || cells[0];
    const text = cells.length > 1 ? `${proven.length} proven` : worst.verdict;
    return { cell: worst, text, count: cells.length };
  }
  const from = proven.length ? proven : cells;
  const best = from.reduce((found, cell) => better(figure, cell.figures[figure], found.figures[figure]) ? cell : found);
  const value = best.figures[figure];
  return { cell: best, text: value === undefined ? best.verdict : shown(value), count: cells.length };
}

// ---- choice ----
const pareto = document.getElementById("pareto-controls");
const figures = data.figures.map((name) => [name, words(name)]);
const modelBox = select(pareto, "model", data.axes.model.map((label) => [label, label]), data.axes.model[0], drawPareto);
const boardBox = data.axes.board ? select(pareto, "board", [["", "any"], ...data.axes.board.map((label) => [label, label])], "", drawPareto) : null;
const xBox = select(pareto, "to the right", figures, "flash_bytes", drawPareto);
const yBox = select(pareto, "upwards", figures, data.figures.includes(time) ? time : "ram_bytes", drawPareto);
function dominates(a, b, names) {
  let strictly = false;
  for (const name of names) {
    if (better(name, b.figures[name], a.figures[name])) return false;
    if (better(name, a.figures[name], b.figures[name])) strictly = true;
  }
  return strictly;
}
function drawPareto() {
  const model = axes.indexOf("model"), board = axes.indexOf("board"), names = [...new Set([...front3, xBox.value, yBox.value])];
  const cells = data.cells.filter((cell) => cell.verdict === "proven" && cell.labels[model] === modelBox.value
    && (!boardBox || !boardBox.value || cell.labels[board] === boardBox.value) && names.every((name) => cell.figures[name] !== undefined));
  const front = cells.filter((cell) => !cells.some((one) => dominates(one, cell, names)));
  front.sort((a, b) => a.figures[xBox.value] - b.figures[xBox.value]);
  document.getElementById("pareto-picture").replaceChildren(picture(cells, new Set(front)));
  const head = element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "cell"), ...names.map((name) => element("th", { scope: "col", class: "figure" }, words(name)))));
  const seen = new Set();
  const body = element("tbody", {}, ...front.filter((cell) => {
    const key = JSON.stringify(names.map((name) => cell.figures[name]).concat(board >= 0 ? cell.labels[board] : ""));
    return !seen.has(key) && seen.add(key);
  }).map((cell) => element("tr", {}, element("td", {}, opener(cell, label(cell), false, 1)),
    ...names.map((name) => element("td", { class: "figure" }, shown(cell.figures[name]))))));
  document.getElementById("pareto-table").replaceChildren(head, body);
}
const label = (cell) => cell.labels.filter((_, at) => axes[at] !== "model" && data.axes[axes[at]].length > 1).join(", ") || cell.labels[0];
function svg(tag, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}
// About five round numbers (1, 2 or 5 times a power of ten) from below the least value to above the greatest.
function ticks(values) {
  const low = Math.min(...values), high = Math.max(...values), span = high - low || Math.abs(high) || 1;
  const power = 10 ** Math.floor(Math.log10(span / 4)), step = [1, 2, 5, 10].find((times) => times * power >= span / 4) * power;
  const first = Math.floor(low / step), last = Math.max(Math.ceil(high / step), first + 1);
  return Array.from({ length: last - first + 1 }, (_, at) => (first + at) * step);
}
function picture(cells, front) {
  const [width, height, left, bottom] = [760, 360, 92, 40];
  const made = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${words(yBox.value)} over ${words(xBox.value)}` });
  if (!cells.length) { made.append(svg("text", { x: 20, y: 40 }, "no proven cell has these figures")); return made; }
  const [xs, ys] = [xBox.value, yBox.value].map((name) => ticks(cells.map((cell) => cell.figures[name])));
  const [x0, x1, y0, y1] = [xs[0], xs.at(-1), ys[0], ys.at(-1)];
  const x = (value) => left + (value - x0) / (x1 - x0) * (width - left - 16);
  const y = (value) => height - bottom - (value - y0) / (y1 - y0) * (height - bottom - 26);
  const tick = (value, all) => shown(Math.abs(all.at(-1)) > 100 ? Math.round(value) : value);
  for (const value of xs) made.append(svg("line", { class: "grid", x1: x(value), x2: x(value), y1: 26, y2: height - bottom }),
    svg("text", { x: x(value), y: height - bottom + 16, "text-anchor": value === x1 ? "end" : "middle" }, tick(value, xs)));
  for (const value of ys) made.append(svg("line", { class: "grid", x1: left, x2: width - 16, y1: y(value), y2: y(value) }),
    svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, tick(value, ys)));
  made.append(svg("text", { x: width - 16, y: height - 6, "text-anchor": "end" }, words(xBox.value)), svg("text", { x: 4, y: 14 }, words(yBox.value)));
  const shownFront = [...front].filter((cell) => ![...front].some((one) => dominates(one, cell, [xBox.value, yBox.value])));
  const line = shownFront.map((cell) => `${x(cell.figures[xBox.value])},${y(cell.figures[yBox.value])}`).join(" ");
  made.append(svg("polyline", { class: "front-line", points: line }));
  for (const cell of [...cells.filter((one) => !front.has(one)), ...front]) {
    const point = svg("circle", { class: front.has(cell) ? "point front" : "point", r: front.has(cell) ? 6 : 4, cx: x(cell.figures[xBox.value]), cy: y(cell.figures[yBox.value]) });
    point.append(svg("title", {}, `${cell.labels.join(", ")}: ${shown(cell.figures[xBox.value])}, ${shown(cell.figures[yBox.value])}`));
    point.addEventListener("click", () => detail(cell));
    made.append(point);
  }
  return made;
}

// ---- cells ----
const verdicts = [...new Set(data.cells.map((cell) => cell.verdict))];
const bad = verdicts.filter((name) => name !== "proven" && name !== "not here");
const verdictBox = select(document.getElementById("cells-controls"), "verdict", [["", "any"], ...(bad.length ? [["bad", "all that need attention"]] : []), ...verdicts.map((name) => [name, name])], bad.length ? "bad" : "", drawCells);
const order = { by: null, sign: 1 };
function drawCells() {
  const wanted = data.cells.filter((cell) => !verdictBox.value || cell.verdict === verdictBox.value || (verdictBox.value === "bad" && kind(cell) === "bad"));
  const varied = axes.map((axis, at) => at).filter((at) => data.axes[axes[at]].length > 1 || axes[at] === "model");
  const whys = wanted.some((cell) => cell.why);
  const heads = [...varied.map((at) => [words(axes[at]), (cell) => cell.labels[at], ""]),
    ...data.figures.map((name) => [words(name), (cell) => cell.figures[name], "figure"])];
  if (order.by !== null) {
    const key = heads.find(([name]) => name === order.by)[1];
    const rank = (cell) => (key(cell) === undefined ? Infinity : key(cell));
    wanted.sort((a, b) => (rank(a) < rank(b) ? -1 : rank(a) > rank(b) ? 1 : 0) * order.sign);
  }
  const sorter = ([name, , style]) => element("th", { scope: "col", class: style, "aria-sort": order.by !== name ? "none" : order.sign > 0 ? "ascending" : "descending" },
    element("button", { class: "sort", onclick: () => { order.sign = order.by === name ? -order.sign : 1; order.by = name; drawCells(); } }, name, order.by === name ? (order.sign > 0 ? " \u25b2" : " \u25bc") : ""));
  const head = element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "cell"), ...heads.map(sorter), whys ? element("th", { scope: "col" }, "why") : null));
  const body = element("tbody");
  for (const cell of wanted) body.append(element("tr", {}, element("td", {}, opener(cell, cell.name.slice(0, 8), false, 1)),
    ...heads.map(([, of, style]) => element("td", { class: style }, shown(of(cell)))), whys ? element("td", { class: "text" }, cell.why) : null));
  document.getElementById("cells-table").replaceChildren(head, body);
}

// ---- one cell ----
function detail(cell) {
  logs = logs || JSON.parse(document.getElementById("logs").textContent);
  const box = document.getElementById("detail");
  const facts = element("dl", { class: "facts" });
  const add = (name, value) => value !== "" && value !== null && value !== undefined && facts.append(element("dt", {}, name), element("dd", {}, String(value)));
  axes.forEach((axis, at) => add(words(axis), cell.labels[at]));
  for (const name of data.figures) if (cell.figures[name] !== undefined) add(words(name), shown(cell.figures[name]));
  add("evidence", cell.evidence); add("worker", cell.worker); add("attempts", cell.attempts);
  if (cell.seconds !== null) add("seconds", shown(cell.seconds));
  const heads = ["model", "item", "summary", "planned", "image", "measured", "state", "note"];
  const proof = element("table", {}, element("thead", {}, row("th", heads)), element("tbody", {}, ...cell.proof.map((one) => row("td", one.map((value) => value === null ? "-" : shown(value))))));
  const log = logs[cell.name];
  box.replaceChildren(
    element("button", { class: "close", autofocus: "", onclick: () => box.close() }, "close"),
    element("h2", { id: "detail-title" }, cell.labels.join(", ")),
    element("span", { class: `verdict ${kind(cell)}` }, cell.verdict), element("p", {}, cell.why), facts,
    ...(cell.proof.length ? [element("h3", {}, "Proof"), element("div", { class: "scroll" }, proof)] : []),
    element("h3", {}, "Log"), element("pre", {}, log || "nothing was logged"), element("p", { class: "lead" }, `cell ${cell.name}`));
  box.showModal();
}
document.getElementById("detail").addEventListener("click", (event) => { if (event.target.id === "detail") event.target.close(); });
drawPivot(); drawPareto(); drawCells();
