// Conveniences of pages, none of which they need. htmx refreshes changing parts. This script pauses that while the page is hidden
// or text is selected, and keeps the reader's selections and open parts after a refresh.
"use strict";

document.addEventListener("htmx:beforeRequest", (event) => {
  const polls = event.detail.requestConfig.triggeringEvent === undefined;
  const chosen = window.getSelection();
  if (polls && (document.hidden || (chosen && !chosen.isCollapsed && event.detail.elt.contains(chosen.anchorNode)))) {
    event.preventDefault();
  }
});

// A link such as /ui/signin#code=… signs in once: assay dev prints one. No server receives the part after #.
document.addEventListener("DOMContentLoaded", () => {
  const field = document.querySelector('form[action="/ui/signin"] input[name=key]');
  if (!field || !location.hash.startsWith("#code=")) return;
  field.name = "code";
  field.value = location.hash.slice("#code=".length);
  history.replaceState(null, "", location.pathname + location.search);
  field.form.submit();
});

let remembered = { checked: [], opened: [], scrolled: [] };

document.addEventListener("htmx:beforeSwap", (event) => {
  const part = event.detail.target;
  const ids = (query) => [...part.querySelectorAll(query)].map((e) => e.id).filter(Boolean);
  remembered = {
    checked: ids("input[type=checkbox]:checked"),
    opened: ids("details[open]"),
    scrolled: [...part.querySelectorAll(".scroll, pre")].map((e) => [e.scrollLeft, e.scrollTop]),
  };
});

document.addEventListener("htmx:afterSwap", () => {
  for (const id of remembered.checked) {
    const box = document.getElementById(id);
    if (box) box.checked = true;
  }
  for (const id of remembered.opened) {
    const details = document.getElementById(id);
    if (details) details.open = true;
  }
  const part = document.getElementById("live");
  if (!part) return;
  part.querySelectorAll(".scroll, pre").forEach((e, i) => {
    const was = remembered.scrolled[i];
    if (was) [e.scrollLeft, e.scrollTop] = was;
  });
});

// Ctrl+Enter sends a prompt.
document.addEventListener("keydown", (event) => {
  const field = event.target;
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && field.dataset && field.dataset.submit === "ctrl-enter") {
    event.preventDefault();
    field.form.requestSubmit();
  }
});

// Relative times stay right on pages that stay open. The server's clock counts: data-now is its time when it made the page.
document.addEventListener("DOMContentLoaded", () => {
  const ahead = Date.parse(document.body.dataset.now) - Date.now();
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  setInterval(() => {
    const chosen = window.getSelection();
    if (document.hidden || (chosen && !chosen.isCollapsed)) return;
    for (const time of document.querySelectorAll("time.ago")) {
      const seconds = (Date.now() + ahead - Date.parse(time.dateTime)) / 1000;
      const [unit, size] = units.find(([, size]) => Math.abs(seconds) >= size) || ["", 0];
      const text = `${Math.floor(Math.abs(seconds) / size)} ${unit}`;
      time.textContent = size === 0 ? "now" : seconds < 0 ? `in ${text}` : `${text} ago`;
    }
  }, 10000);
});
