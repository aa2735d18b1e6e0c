// Lines that suit the page: its colors, light and dark, and its width.

/** Draws into `place`, whose `aria-label` says what is drawn. `lines` are `[name, values]`; `options` are uPlot's. */
export function chart(place, x, lines, { axes, paths = null, time = false }) {
  let plot = null;
  const draw = () => {
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(`--${name}`).trim();
    const drawn = lines.map(([label], i) => ({ label, stroke: color(`p${i % 6}`), width: 2, ...(paths && { paths }) }));
    plot?.destroy();
    plot = new uPlot(
      {
        ...{ width: place.clientWidth, height: 260, cursor: { drag: { x: false } }, legend: { live: false } },
        scales: { x: { time } },
        axes: axes.map((label) => ({ label, stroke: color("ink"), grid: { stroke: color("line") }, labelSize: 24 })),
        series: [{}, ...drawn],
      },
      [x, ...lines.map(([, values]) => values)],
      place,
    );
  };
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  const fit = () => plot.width === place.clientWidth || plot.setSize({ width: place.clientWidth, height: 260 });
  new ResizeObserver(() => requestAnimationFrame(fit)).observe(place);
}

/** The logarithm of `delta` at 200 epsilons up to `most`, drawn down to 1e-15. */
export function curve(place, delta, most) {
  const epsilons = Array.from({ length: 200 }, (_, k) => (most * (k + 1)) / 200);
  const powers = epsilons.map(delta).map((each) => (each >= 1e-15 ? Math.log10(each) : null));
  chart(place, epsilons, [["log10 delta", powers]], { axes: ["epsilon", "log10 delta"] });
}
