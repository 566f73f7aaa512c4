// Shows a running job's output. The server sends pieces of text with their classes; this script makes text nodes of them, and
// nothing else. When the job has ended, it loads the stored output.
"use strict";

(() => {
  const box = document.getElementById("logs");
  if (!box) return;
  const says = document.getElementById("logs-says");
  const most = 256 * 1024; // characters of a pane, and pieces:
  const pieces = 4000;
  const panes = {};
  for (const pre of box.querySelectorAll("pre[data-stream]")) {
    panes[pre.dataset.stream] = { pre, frame: pre.parentElement, length: 0, step: 0 };
  }
  let source = null;
  let seen = "";
  let over = false;
  box.hidden = false;

  const add = (pane, className, text) => {
    const span = document.createElement("span");
    if (/^[a-z0-9 -]+$/.test(className)) span.className = className;
    span.textContent = text;
    pane.pre.append(span);
    pane.length += text.length;
  };

  const trim = (pane) => {
    while (pane.pre.firstChild && pane.pre.childNodes.length > 1 && (pane.length > most || pane.pre.childNodes.length > pieces)) {
      pane.length -= pane.pre.firstChild.textContent.length;
      pane.pre.firstChild.remove();
      pane.cut = true;
    }
  };

  const write = (pane, part) => {
    const follows = pane.frame.scrollHeight - pane.frame.scrollTop - pane.frame.clientHeight < 40;
    if ((part.step || 0) !== pane.step) {
      pane.step = part.step || 0;
      add(pane, "quiet", `\n── step ${pane.step + 1} ──\n`);
    }
    if (part.missed > 0) add(pane, "quiet", `\n… ${part.missed} bytes are not shown …\n`);
    for (const [className, text] of part.spans) add(pane, className, text);
    trim(pane);
    if (follows) pane.frame.scrollTop = pane.frame.scrollHeight;
  };

  const hear = (event, does) => {
    seen = event.lastEventId;
    does(JSON.parse(event.data));
  };

  const finish = () => {
    over = true;
    source.close();
    says.textContent = "The job has ended.";
    const live = document.getElementById("live");
    htmx.ajax("GET", location.pathname + location.search, { target: live, source: live, swap: "outerHTML" });
  };

  document.addEventListener("htmx:afterSwap", () => {
    if (over && !document.getElementById("live").hasAttribute("hx-get")) box.remove();
  });

  const state = (now) => {
    if (now.state !== "running") {
      says.textContent = "Waiting for the job to begin.";
    } else if (now.live) {
      const cut = Object.values(panes).some((pane) => pane.cut);
      says.textContent = cut ? "Live output; only the newest part is shown." : "Live output.";
    } else {
      says.textContent = "The job is running. Its output is shown when it ends.";
    }
  };

  const watch = () => {
    source = new EventSource(box.dataset.logs + (seen ? "?from=" + encodeURIComponent(seen) : ""));
    for (const [name, pane] of Object.entries(panes)) {
      source.addEventListener(name, (event) => hear(event, (part) => write(pane, part)));
    }
    source.addEventListener("state", (event) => hear(event, state));
    source.addEventListener("end", (event) => hear(event, finish));
    source.addEventListener("restart", (event) => hear(event, () => {
      for (const pane of Object.values(panes)) {
        pane.pre.replaceChildren();
        pane.length = pane.step = 0;
      }
      says.textContent = "The job has restarted.";
    }));
    source.addEventListener("error", () => {
      if (!over && source.readyState === EventSource.CLOSED) says.textContent = "Live output is not available now. The output is shown when the job ends.";
    });
  };

  // A hidden page holds no connection: browsers allow only a few for a site.
  document.addEventListener("visibilitychange", () => {
    if (over) return;
    if (document.hidden) source.close();
    else watch();
  });
  if (!document.hidden) watch();
})();
