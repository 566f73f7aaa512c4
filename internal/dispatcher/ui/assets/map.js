// The map of a batch: a cell for each job, in the order of submission. A pointer or the arrow keys select a cell, a click or
// Enter opens its job.
"use strict";

(() => {
  const box = document.getElementById("heat");
  if (!box) return;
  const canvas = box.querySelector("canvas");
  const says = box.querySelector("output");
  const total = Number(box.dataset.total);
  let data = { kinds: [], cells: "" };
  let at = -1;
  let columns = 1;
  let side = 1;

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim() || "gray";

  // The cells are as large as possible in a box of limited height.
  const layout = () => {
    const width = Math.max(box.clientWidth - 2, 100);
    const highest = 320;
    side = Math.min(16, Math.max(2, Math.floor(Math.sqrt((width * highest) / Math.max(total, 1)))));
    columns = Math.max(1, Math.min(Math.floor(width / side), total)); // a map of one row has no empty rest
    canvas.width = columns * side;
    canvas.style.width = canvas.width + "px";
    canvas.height = Math.max(1, Math.ceil(total / columns)) * side;
  };

  const draw = () => {
    layout();
    const pen = canvas.getContext("2d");
    const colours = data.kinds.map((kind) => colour(kind.class === "none" ? "wait" : kind.class));
    const gap = side > 4 ? 1 : 0;
    pen.clearRect(0, 0, canvas.width, canvas.height);
    for (let i = 0; i < data.cells.length; i++) {
      pen.fillStyle = colours[data.cells.charCodeAt(i) - 48];
      pen.fillRect((i % columns) * side, Math.floor(i / columns) * side, side - gap, side - gap);
    }
    if (at >= 0) {
      pen.lineWidth = 2;
      pen.strokeStyle = colour("text");
      pen.strokeRect((at % columns) * side, Math.floor(at / columns) * side, side, side);
    }
  };

  const choose = (n) => {
    if (!data.cells.length) return;
    at = Math.min(Math.max(n, 0), data.cells.length - 1);
    says.textContent = "Job " + (at + 1) + " of " + total + ": " + data.kinds[data.cells.charCodeAt(at) - 48].name;
    draw();
  };

  const place = (event) => {
    const seen = canvas.getBoundingClientRect();
    const x = Math.floor(((event.clientX - seen.left) * canvas.width) / seen.width / side);
    const y = Math.floor(((event.clientY - seen.top) * canvas.height) / seen.height / side);
    const n = y * columns + x;
    return x >= 0 && x < columns && n >= 0 && n < data.cells.length ? n : -1;
  };

  const open = () => {
    if (at >= 0) location.href = box.dataset.open + at;
  };

  canvas.addEventListener("mousemove", (event) => {
    const n = place(event);
    if (n >= 0 && n !== at) choose(n);
  });
  canvas.addEventListener("click", (event) => {
    const n = place(event);
    if (n >= 0) {
      choose(n);
      open();
    }
  });
  box.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, PageDown: 10 * columns, PageUp: -10 * columns };
    if (event.key in steps) choose(at < 0 ? 0 : at + steps[event.key]);
    else if (event.key === "Home") choose(0);
    else if (event.key === "End") choose(data.cells.length - 1);
    else if (event.key === "Enter") open();
    else return;
    event.preventDefault();
  });

  // Reads the map again while the batch runs, when the changing part of the page is refreshed too.
  const read = async () => {
    try {
      const answer = await fetch(box.dataset.map, { headers: { Accept: "application/json" } });
      if (answer.ok && (answer.headers.get("Content-Type") || "").startsWith("application/json")) {
        data = await answer.json();
        box.dataset.cells = String(data.cells.length);
        draw();
      }
    } catch {
      // the next read may succeed
    }
  };
  const again = () => setTimeout(async () => {
    const part = document.getElementById("live");
    if (!part || !part.hasAttribute("hx-get")) return void read();
    if (!document.hidden) await read();
    again();
  }, 5000);

  layout();
  read().then(again);
  window.addEventListener("resize", draw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
