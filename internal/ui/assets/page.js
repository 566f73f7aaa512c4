// What pages do beside following links: nothing that they need. Parts that change are asked for by htmx; here are the
// pauses of that while nobody looks, and what a reader has chosen or opened, which an exchanged part must not undo.
"use strict";

document.addEventListener("htmx:beforeRequest", (event) => {
  const polls = event.detail.requestConfig.triggeringEvent === undefined;
  const chosen = window.getSelection();
  if (polls && (document.hidden || (chosen && !chosen.isCollapsed && event.detail.elt.contains(chosen.anchorNode)))) {
    event.preventDefault();
  }
});

// A link such as /ui/signin#key=… signs in: assay dev prints one. What is after # is sent to no server.
document.addEventListener("DOMContentLoaded", () => {
  const field = document.querySelector('form[action="/ui/signin"] input[name=key]');
  if (!field || !location.hash.startsWith("#key=")) return;
  field.value = decodeURIComponent(location.hash.slice("#key=".length));
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

// A prompt is sent by Ctrl+Enter.
document.addEventListener("keydown", (event) => {
  const field = event.target;
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && field.dataset && field.dataset.submit === "ctrl-enter") {
    event.preventDefault();
    field.form.requestSubmit();
  }
});
