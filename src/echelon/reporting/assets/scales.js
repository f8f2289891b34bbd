// Scales, ticks and axes.
function linear(d0, d1, r0, r1) {
  const span = d1 - d0 || 1;
  const scale = (value) => r0 + ((value - d0) / span) * (r1 - r0);
  scale.invert = (at) => d0 + ((at - r0) / (r1 - r0)) * span;
  return scale;
}

// Round numbers from low to high, about `count` of them.
function ticks(low, high, count = 6) {
  const rough = (high - low || 1) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((size) => size >= rough * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i <= Math.floor(high / step + 1e-9); i++) found.push(i * step);
  return found.map((value) => Number(value.toPrecision(12)));
}

// A scale by powers of ten, for curves that fall by orders of magnitude.
function logarithmic(d0, d1, r0, r1) {
  const scale = linear(Math.log10(d0), Math.log10(d1), r0, r1);
  return (value) => scale(Math.log10(value));
}

// 1, 2 and 5 of each power of ten, or the powers alone where they are many.
function logTicks(low, high) {
  const found = [];
  const steps = Math.log10(high / low) > 3 ? [1] : [1, 2, 5];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
    for (const step of steps) found.push(Number((step * 10 ** power).toPrecision(6)));
  }
  return found.filter((value) => value >= low && value <= high);
}

// The numbers' range with a little air; `including` are values that must be in sight.
function extent(values, including = [], air = 0.05) {
  const all = [...values.filter((v) => v !== null && v !== undefined && Number.isFinite(v)), ...including];
  if (!all.length) return [0, 1];
  let low = all.reduce((a, b) => Math.min(a, b));
  let high = all.reduce((a, b) => Math.max(a, b));
  if (low === high) {
    const size = Math.abs(low) || 1;
    [low, high] = [low - size * 0.1, high + size * 0.1];
  }
  const pad = (high - low) * air;
  return [low - (including.includes(low) ? 0 : pad), high + (including.includes(high) ? 0 : pad)];
}

function plot(width, height, label) {
  return s("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
}

function xAxis(X, domain, top, bottom, { label = "", count = 7, zero = null, format = short, whole = false } = {}) {
  const group = s("g");
  for (const value of ticks(domain[0], domain[1], count).filter((v) => !whole || Number.isInteger(v))) {
    const at = X(value);
    group.append(s("line", { class: value === zero ? "zero" : "grid", x1: at, x2: at, y1: top, y2: bottom }));
    group.append(s("text", { class: "tick", x: at, y: bottom + 16, "text-anchor": "middle" }, format(value)));
  }
  if (label) {
    const middle = (X(domain[0]) + X(domain[1])) / 2;
    group.append(s("text", { class: "axis-label", x: middle, y: bottom + 35, "text-anchor": "middle" }, label));
  }
  return group;
}

function yAxis(Y, domain, left, right, { label = "", count = 5, format = short, log = false } = {}) {
  const group = s("g");
  for (const value of log ? logTicks(...domain) : ticks(domain[0], domain[1], count)) {
    const at = Y(value);
    group.append(s("line", { class: value === 0 ? "axis" : "grid", x1: left, x2: right, y1: at, y2: at }));
    group.append(s("text", { class: "tick", x: left - 8, y: at + 4, "text-anchor": "end" }, format(value)));
  }
  if (label) group.append(s("text", { class: "axis-label", x: left, y: Y(domain[1]) - 9 }, label));
  return group;
}

// Room for the longest of these labels, within reason.
function labelRoom(labels, width, share = 0.34) {
  const longest = labels.reduce((most, label) => Math.max(most, label.length), 4);
  return Math.min(longest * 7.6 + 14, width * share);
}

function cut(label, room) {
  const most = Math.max(4, Math.floor((room - 14) / 7.6));
  return label.length <= most ? label : label.slice(0, most - 1) + "…";
}
