// Draws charts with uPlot, in the colors of the page and at its width.

const MOST_TABLE_ROWS = 25;
const HEIGHT = 260;
const DASH = [6, 4];

/** Return a color of the page's style sheet as the canvas understands it. */
function color(container, name) {
  const probe = container.appendChild(document.createElement("span"));
  probe.className = name;
  const { fill } = getComputedStyle(probe);
  probe.remove();
  return fill;
}

/** Return the day of a time in UTC, as the server writes it: `27 Nov 2026`. */
function day(seconds) {
  const [, dayOfMonth, month, year] = new Date(1000 * seconds).toUTCString().split(" ");
  return `${Number(dayOfMonth)} ${month} ${year}`;
}

/** Return a time to the minute in UTC: `27 Nov 2026 14:05`. */
export const minute = (seconds) => `${day(seconds)} ${new Date(1000 * seconds).toISOString().slice(11, 16)}`;

/** Return times on an axis: dates, or times of a day if the marks are closer together. A repeated label is left out. */
function time(_, marks, __, ___, step) {
  const labels = marks.map((mark) => {
    if (step < 60) return new Date(1000 * mark).toISOString().slice(11, 19);
    return step < 86400 ? minute(mark).replace(/ \d{4} /, " ") : day(mark);
  });
  return labels.map((label, index) => (label === labels[index - 1] ? "" : label));
}

/** Return uPlot's series of one line: the line, and the two ends of its band. */
function series(container, line, index, kind) {
  const stroke = color(container, `p${index % 6}`);
  const paths = { step: uPlot.paths.stepped({ align: 1 }), bar: uPlot.paths.bars({ size: [0.95] }) }[kind];
  const dash = line.is_reference ? DASH : undefined;
  const fill = kind === "bar" ? stroke : undefined;
  const points = { show: kind === "line" && !line.is_reference && line.values.length <= 60 };
  const series = { label: line.label, stroke, width: 2, dash, fill, points, paths };
  const end = { class: "band", width: 0, points: { show: false }, stroke };
  return line.low?.length ? [series, { ...end }, { ...end }] : [series];
}

/** Return the upper end of an axis that reaches `least`, with room above higher values. */
const top = (high, least) => (high > least ? 1.05 * high : least);

/** Return uPlot's options and data for a chart, which app/pages/charts.py describes. */
function options(container, { kind, x, lines, axes, is_log: isLog, is_time: isTime, x_range: ends, y_range: range }) {
  const all = lines.map((line, index) => series(container, line, index, kind));
  const bands = [];
  let position = 1;
  all.forEach(([{ stroke }, ...ends]) => {
    if (ends.length) bands.push({ series: [position + 2, position + 1], fill: stroke.replace("rgb(", "rgba(").replace(")", ", 0.2)") });
    position += 1 + ends.length;
  });
  const marks = { stroke: color(container, "line"), width: 1 };
  const look = { stroke: color(container, "ink"), grid: marks, ticks: marks, labelSize: 24 };
  const [horizontal, vertical] = axes.map((label) => ({ ...look, label }));
  vertical.size = (_, marks) => 20 + 7 * Math.max(3, ...(marks ?? []).map((mark) => String(mark).length));
  if (isTime) Object.assign(horizontal, { values: time, space: 100 });
  const y = range ? { range: (_, low, high) => [Math.min(low ?? range[0], range[0]), top(high, range[1])] } : {};
  const data = lines.flatMap(({ values, low = [], high = [] }) => (low.length ? [values, low, high] : [values]));
  return [
    {
      width: container.clientWidth,
      height: HEIGHT,
      padding: [null, 24, null, null], // room for half of the last mark's label
      cursor: { drag: { x: false } },
      legend: { live: false, show: lines.length > 1 },
      scales: { x: { time: isTime ?? false, distr: isLog ? 3 : 1, ...(ends && { range: () => ends }) }, y },
      axes: [horizontal, vertical],
      series: [{}, ...all.flat()],
      bands,
    },
    [x, ...data],
  ];
}

/** Draw a chart into `container`, whose `aria-label` says what it shows. */
export function chart(container, described) {
  let plot = null;
  const draw = () => {
    plot?.destroy();
    plot = new uPlot(...options(container, described), container);
  };
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  const fit = () => plot.width === container.clientWidth || plot.setSize({ width: container.clientWidth, height: HEIGHT });
  new ResizeObserver(() => requestAnimationFrame(fit)).observe(container);
}

/** Return a new element with a text, with elements inside, and with attributes. */
export function element(name, text = "", inside = [], attributes = {}) {
  const node = document.createElement(name);
  node.textContent = text;
  node.append(...inside);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}

/** Return a table with a header for each column, if there are `heads`, and for each row. */
export function table(heads, rows, attributes = {}) {
  const header = element("tr", "", heads.map((head) => element("th", head, [], { scope: "col" })));
  const body = rows.map(([first, ...cells]) =>
    element("tr", "", [element("th", first, [], { scope: "row" }), ...cells.map((cell) => element("td", cell))]),
  );
  const parts = heads.length > 0 ? [element("thead", "", [header])] : [];
  return element("table", "", [...parts, element("tbody", "", body)], attributes);
}

/** Write the numbers of a chart as a folded table after it; of many points, evenly spaced ones. */
export function tabulate(container, { x, lines, axes: [axis], is_time: isTime }) {
  const number = (value) => (value === null ? "–" : String(Number(value.toPrecision(3))));
  const name = (at) => (isTime ? minute(at) : number(at));
  const every = Math.ceil(x.length / MOST_TABLE_ROWS);
  const isShown = (index) => index % every === every - 1 && lines.some(({ values }) => values[index] !== null);
  const rows = x.map((at, index) => [name(at), ...lines.map(({ values }) => number(values[index]))]);
  const tableRows = rows.filter((_, index) => isShown(index));
  const heads = [axis, ...lines.map(({ label }) => label)];
  container.after(element("details", "", [element("summary", "The chart as a table"), element("div", "", [table(heads, tableRows)])]));
}

/** Draw the logarithm of `delta` at 200 epsilons up to `largest`, down to 1e-15. */
export function curve(container, delta, largest) {
  const x = Array.from({ length: 200 }, (_, k) => (largest * (k + 1)) / 200);
  const values = x.map(delta).map((each) => (each >= 1e-15 ? Math.log10(each) : null));
  const described = { kind: "line", x, lines: [{ label: "log10 delta", values }], axes: ["epsilon", "log10 delta"] };
  chart(container, described);
  tabulate(container, described);
}

/** Draw the charts that the server described and that are not drawn yet. */
function drawAll() {
  for (const container of document.querySelectorAll("[data-chart]:empty")) chart(container, JSON.parse(container.dataset.chart));
}

document.addEventListener("htmx:after:swap", drawAll);
drawAll();
