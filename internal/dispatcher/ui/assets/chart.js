// Draws the charts of a page with uPlot, from their attributes data-chart. When htmx replaces a part of the page, a plot moves to the
// new chart of the same id and gets its data: it does not flicker, and keeps its cursor.
"use strict";

(() => {
  const height = 210;
  const plots = new Map(); // by id of the chart
  const amount = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
  const short = new Intl.NumberFormat("en", { notation: "compact" });
  const clock = uPlot.fmtDate("{HH}:{mm}");
  const steps = [1, 2, 5];
  for (let n = 10; n < 1e12; n *= 10) steps.push(n, 2 * n, 5 * n);

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim() || "gray";
  const time = (seconds) => clock(new Date(seconds * 1000));
  const zone = () => new Intl.DateTimeFormat("en", { timeZoneName: "short" }).formatToParts().find((part) => part.type === "timeZoneName").value;

  // stack returns the lower and upper ends of the bars of each series, and the highest end. No part of a bar is too low to be seen.
  const stack = (data, visible) => {
    const bins = data.series[0].values.map((_, bin) => data.series.reduce((sum, s, i) => sum + (visible(i) ? s.values[bin] : 0), 0));
    const least = Math.max(...bins) * 0.015;
    let top = bins.map(() => 0);
    const ends = data.series.map((s, i) => {
      const from = top;
      if (visible(i)) top = from.map((y, bin) => y + (s.values[bin] > 0 ? Math.max(s.values[bin], least) : 0));
      return [from, top];
    });
    return { ends, top: Math.max(...top, 1) };
  };

  // table returns the data as uPlot reads them: the middles of the bins, then each series.
  const table = (data) => {
    const step = data.step || 1;
    return [data.series[0].values.map((_, bin) => (data.start || 0) + (bin + 0.5) * step), ...data.series.map((s) => s.values)];
  };

  class Chart {
    constructor(box) {
      this.read(box);
      this.stack = stack(this.data, () => true);
      this.plot = new uPlot(this.options(), table(this.data), (plot, ready) => {
        box.replaceChildren(plot.root);
        ready();
      });
    }

    read(box) {
      this.box = box;
      this.data = JSON.parse(box.dataset.chart);
    }

    // move shows the plot in another box, with its data.
    move(box) {
      this.read(box);
      box.replaceChildren(this.plot.root);
      this.fit();
      this.update();
      this.plot.syncRect(true);
    }

    fit() {
      if (this.box.clientWidth !== this.plot.width) this.plot.setSize({ width: this.box.clientWidth, height });
    }

    update() {
      this.stack = stack(this.data, (i) => this.plot.series[i + 1].show);
      this.plot.setData(table(this.data));
    }

    bin(n) {
      const { start, step, edges } = this.data;
      return edges ? `${edges[n]} to ${edges[n + 1]}` : `${time(start + n * step)} to ${time(start + (n + 1) * step)}`;
    }

    options() {
      const { step, series } = this.data;
      const axis = { stroke: colour("quiet"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1, size: 4 }, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif", labelSize: 18 };
      const x = step
        ? { label: `${this.data.x} (${zone()})`, values: (_, marks) => marks.map(time) }
        : { label: this.data.x, incrs: steps, values: (_, marks) => marks.map((n) => this.data.edges[n]) };
      return {
        width: this.box.clientWidth,
        height,
        padding: [8, 26, 0, 0],
        scales: {
          x: { time: Boolean(step), range: () => [this.data.start || 0, (this.data.start || 0) + this.data.series[0].values.length * (step || 1)] },
          y: { range: () => [0, this.stack.top * 1.05] },
        },
        axes: [
          { ...axis, ...x, space: 64, size: 30 },
          { ...axis, label: this.data.y, incrs: steps, space: 28, size: 40, values: (_, marks) => marks.map((n) => short.format(n)) },
        ],
        series: [
          { label: step ? "time" : this.data.x, value: (_, __, ___, n) => (n == null ? this.data.all : this.bin(n)) },
          ...series.map((s, i) => ({
            label: s.label,
            value: (_, __, ___, n) => (n == null ? this.data.series[i].all : amount.format(this.data.series[i].values[n])),
            width: 0,
            fill: colour(s.class),
            points: { show: false },
            paths: uPlot.paths.bars({
              size: [0.85],
              disp: { y0: { values: () => this.stack.ends[i][0] }, y1: { values: () => this.stack.ends[i][1] } },
            }),
          })),
        ],
        legend: { markers: { width: 0 } },
        cursor: { y: false, points: { show: false }, drag: { x: false, y: false }, bind: { click: (_, __, toggle) => (series.length > 1 ? toggle : null) } },
        hooks: { setSeries: [() => this.update()] },
      };
    }
  }

  const show = () => {
    for (const [id, chart] of plots) {
      if (document.getElementById(id)) continue;
      chart.plot.destroy();
      plots.delete(id);
    }
    for (const box of document.querySelectorAll("[data-chart]")) {
      const chart = plots.get(box.id);
      if (chart) chart.move(box);
      else plots.set(box.id, new Chart(box));
    }
  };

  // Browsers send no mouseleave to a plot that moved.
  const leave = (event) => {
    for (const { plot } of plots.values()) {
      if (plot.cursor.left >= 0 && !plot.over.contains(event.target)) plot.setCursor({ left: -10, top: -10 });
    }
  };

  document.addEventListener("mouseover", leave);
  document.documentElement.addEventListener("mouseleave", leave);
  document.addEventListener("htmx:afterSwap", show);
  window.addEventListener("resize", () => plots.forEach((chart) => chart.fit()));
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    plots.forEach((chart) => chart.plot.destroy());
    plots.clear();
    show();
  });
  show();
})();
