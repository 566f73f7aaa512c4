// Draws a dashboard of Grafana's, from its file and from what Prometheus answers, and a trace, from what Jaeger answers, as PNGs: for
// machines that have neither program's pages. Environment: PROMETHEUS, JAEGER, TRACE; CHROMIUM and PICTURES if they are elsewhere.
import { readFile, writeFile, mkdir } from 'node:fs/promises';
import { chromium } from 'playwright-core';

const root = new URL('../../../', import.meta.url);
const out = process.env.PICTURES ? new URL(`file://${process.env.PICTURES}/`) : new URL('docs/pictures/', root);
const colors = ['#7eb26d', '#eab839', '#6ed0e0', '#ef843c', '#e24d42', '#1f78c1', '#ba43a9', '#705da0', '#508642', '#cca300'];
const escape = (s) => String(s).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);

async function ask(base, path, query = {}) {
  const resp = await fetch(`${base}${path}?${new URLSearchParams(query)}`);
  if (!resp.ok) throw new Error(`${path}: ${resp.status} ${await resp.text()}`);
  return (await resp.json()).data;
}

const short = (v) => (v === 0 ? '0' : Math.abs(v) >= 1000 ? `${(v / 1000).toPrecision(3)} K` : `${+v.toPrecision(3)}`);
const clock = (t) => new Date(t * 1000).toISOString().slice(11, 19);

// What the load took: from a little before the first job to now.
async function span() {
  const now = Date.now() / 1000;
  const { result } = await ask(process.env.PROMETHEUS, '/api/v1/query_range', { query: 'sum(assay_jobs_finished_total) > 0', start: now - 3 * 3600, end: now, step: 5 });
  return { start: Number(result[0].values[0][0]) - 30, end: now };
}

function legend(format, metric) {
  if (!format) return Object.entries(metric).filter(([k]) => k !== '__name__').map(([k, v]) => `${k}="${v}"`).join(', ') || metric.__name__ || '';
  return format.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, k) => metric[k] ?? '');
}

async function series(panel, { start, end }) {
  const lines = [];
  for (const target of panel.targets ?? []) {
    const query = target.expr.replace(/\$__(rate_interval|interval|range)/g, '1m').replace(/\$\{?\w+(:\w+)?\}?/g, '.*');
    const { result } = await ask(process.env.PROMETHEUS, '/api/v1/query_range', { query, start, end, step: Math.max(1, Math.round((end - start) / 150)) });
    for (const r of result) {
      lines.push({ name: legend(target.legendFormat, r.metric), points: r.values.map(([t, v]) => [t, Number(v)]).filter(([, v]) => Number.isFinite(v)) });
    }
  }
  return lines.filter((l) => l.points.length);
}

function plot(panel, lines, { start, end }, box) {
  const unit = panel.fieldConfig?.defaults?.unit ?? '';
  const suffix = { ms: ' ms', s: ' s', bytes: ' B', percent: ' %', percentunit: '' }[unit] ?? '';
  if (panel.type === 'stat') {
    const last = lines.length ? lines[0].points.at(-1)[1] : NaN;
    const text = Number.isNaN(last) ? 'no data' : unit === 'percentunit' ? `${short(last * 100)} %` : short(last) + suffix;
    return `<svg x="${box.x}" y="${box.y}" width="${box.w}" height="${box.h}"><rect width="100%" height="100%" rx="3" class="panel"/>
      <text x="12" y="19" class="title">${escape(panel.title)}</text><text x="${box.w / 2}" y="${box.h / 2 + 22}" text-anchor="middle" style="font-size:30px;fill:#73bf69">${text}</text></svg>`;
  }
  const most = Math.max(0, ...lines.flatMap((l) => l.points.map((p) => p[1]))), top = most ? most * 1.05 : 1;
  const area = { x: 58, y: 30, w: box.w - 70, h: box.h - 30 - 22 - 17 * Math.ceil(Math.min(lines.length, 8) / 2) };
  const x = (t) => area.x + ((t - start) / (end - start)) * area.w;
  const y = (v) => area.y + area.h - (v / top) * area.h;
  let svg = `<text x="12" y="19" class="title">${escape(panel.title)}</text>`;
  for (const f of [0, 0.5, 1]) {
    svg += `<line x1="${area.x}" x2="${area.x + area.w}" y1="${y(top * f)}" y2="${y(top * f)}" class="grid"/>`;
    svg += `<text x="${area.x - 6}" y="${y(top * f) + 4}" text-anchor="end">${short(top * f)}${suffix}</text>`;
    const t = start + (end - start) * f;
    svg += `<text x="${x(t)}" y="${area.y + area.h + 15}" text-anchor="${['start', 'middle', 'end'][f * 2]}">${clock(t)}</text>`;
  }
  lines.forEach((l, i) => {
    const color = colors[i % colors.length];
    svg += `<polyline fill="none" stroke="${color}" stroke-width="1.5" points="${l.points.map(([t, v]) => `${x(t).toFixed(1)},${y(v).toFixed(1)}`).join(' ')}"/>`;
    if (i < 8) {
      const lx = area.x - 40 + (i % 2) * (box.w / 2 - 10), ly = area.y + area.h + 34 + 17 * Math.floor(i / 2);
      svg += `<rect x="${lx}" y="${ly - 7}" width="12" height="3" fill="${color}"/><text x="${lx + 18}" y="${ly}">${escape(l.name.slice(0, 34))}</text>`;
    }
  });
  return `<svg x="${box.x}" y="${box.y}" width="${box.w}" height="${box.h}"><rect width="100%" height="100%" rx="3" class="panel"/>${svg}</svg>`;
}

const page = (w, h, body) => `<style>body{margin:0;background:#111217}svg{font:11px sans-serif}text{fill:#b8bcc4}.title{font-size:13px;font-weight:600;fill:#e6e8ec}
.panel{fill:#181b1f;stroke:#2c3036}.grid{stroke:#2c3036}</style><svg width="${w}" height="${h}">${body}</svg>`;

async function dashboard() {
  const d = JSON.parse(await readFile(new URL('deploy/observe/grafana/dashboards/fleet.json', root)));
  const time = await span();
  const unit = { w: 50, h: 28 };
  let body = `<text x="10" y="24" style="font-size:16px" class="title">${escape(d.title)}</text>`, bottom = 0;
  for (const panel of d.panels.filter((p) => p.targets)) {
    const g = panel.gridPos;
    const box = { x: g.x * unit.w + 5, y: 36 + g.y * unit.h, w: g.w * unit.w - 8, h: g.h * unit.h - 8 };
    bottom = Math.max(bottom, box.y + box.h);
    body += plot(panel, await series(panel, time), time, box);
  }
  return page(24 * unit.w + 10, bottom + 8, body);
}

async function trace() {
  const [{ spans, processes }] = await ask(process.env.JAEGER, `/api/traces/${process.env.TRACE}`);
  const start = Math.min(...spans.map((s) => s.startTime)), all = Math.max(...spans.map((s) => s.startTime + s.duration)) - start;
  const parent = (s) => s.references?.find((r) => r.refType === 'CHILD_OF')?.spanID;
  const rows = [];
  const walk = (id, depth) => spans.filter((s) => (spans.some((p) => p.spanID === parent(s)) ? parent(s) : undefined) === id)
    .sort((a, b) => a.startTime - b.startTime).forEach((s) => { rows.push([s, depth]); walk(s.spanID, depth + 1); });
  walk(undefined, 0);
  const services = [...new Set(Object.values(processes).map((p) => p.serviceName))].sort();
  const w = 1200, left = 430, width = w - left - 90;
  let body = `<text x="12" y="24" class="title" style="font-size:16px">Trace ${escape(process.env.TRACE)}: ${(all / 1000).toFixed(1)} ms, ${rows.length} spans</text>`;
  services.forEach((s, i) => { body += `<rect x="${700 + i * 180}" y="14" width="12" height="12" fill="${colors[i + 2]}"/><text x="${718 + i * 180}" y="24">${escape(s)}</text>`; });
  rows.forEach(([s, depth], i) => {
    const y = 42 + i * 24, service = processes[s.processID].serviceName;
    const x = left + ((s.startTime - start) / all) * width, bar = Math.max(2, (s.duration / all) * width);
    body += `<rect x="0" y="${y}" width="${w}" height="24" fill="${i % 2 ? '#181b1f' : '#1c1f24'}"/>`;
    body += `<text x="${12 + depth * 18}" y="${y + 16}"><tspan style="fill:#e6e8ec">${escape(s.operationName.slice(0, 48))}</tspan> <tspan>${escape(service)}</tspan></text>`;
    body += `<rect x="${x}" y="${y + 6}" width="${bar}" height="12" rx="2" fill="${colors[services.indexOf(service) + 2]}"/><text x="${x + bar + 6}" y="${y + 16}">${(s.duration / 1000).toFixed(2)} ms</text>`;
  });
  return page(w, 50 + rows.length * 24, body);
}

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-lcd-text'] });
try {
  await mkdir(out, { recursive: true });
  for (const [name, draw] of [['dashboard', dashboard], ['trace', trace]]) {
    const tab = await browser.newPage({ viewport: { width: 1210, height: 100 } });
    await tab.setContent(await draw());
    await writeFile(new URL(`${name}.png`, out), await tab.screenshot({ fullPage: true }));
  }
} finally {
  await browser.close();
}
